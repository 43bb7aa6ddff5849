"""Errors of networks from files."""

from heddle.errors import UsageError

__all__ = ["ModelError", "Refusal"]


class ModelError(UsageError):
    """A file holds no network that can be run; the message names the file or the tensor, the rule and the value."""


class Refusal(Exception):
    """A node cannot run on the device; the message is the rule that it breaks, a sentence without its full stop."""
