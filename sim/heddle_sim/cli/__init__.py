"""The command line: ``heddle <verb>``."""

from .main import main

__all__ = ["main"]
