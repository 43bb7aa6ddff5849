"""Errors of networks from files."""

from heddle.errors import UsageError

__all__ = ["MISFITS", "ModelError", "Refusal"]

# What Python and numpy say where shapes, axes, attributes or numbers of operands do not fit.
MISFITS = (ValueError, IndexError, TypeError, AssertionError, ZeroDivisionError, KeyError, OverflowError, RecursionError)


class ModelError(UsageError):
    """A file holds no network that can be run; the message names the file or the tensor, the rule and the value."""


class Refusal(Exception):
    """A node cannot run on the device; the message is the rule that it breaks, a sentence without its full stop."""
