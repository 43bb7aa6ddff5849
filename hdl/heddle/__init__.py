"""Heddle: an open tensor core, generated from parameters (hardware only; see ``heddle_sim`` to run it)."""

from .config import Config, ConfigError, load_config

__all__ = ["Config", "ConfigError", "load_config"]
