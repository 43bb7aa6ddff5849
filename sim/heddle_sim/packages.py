"""Packages of extras, which only some parts need."""

import importlib
from types import ModuleType

from heddle.errors import HeddleError

__all__ = ["MissingPackage", "needed"]


class MissingPackage(HeddleError, ImportError):
    """A package of an extra is not installed."""


def needed(name: str, what: str, extra: str = "models") -> ModuleType:
    """The module ``name``. Raises ``MissingPackage``, which says what to install, where it is not there; ``what`` needs it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.split(".")[0].replace("_", "-")
        raise MissingPackage(f"{what} needs the package {package}: install the extra: pip install -e '.[{extra}]'") from None
