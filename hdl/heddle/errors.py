"""Errors that are raised on purpose: one base class for all of them."""

__all__ = ["UsageError", "UsageTypeError", "HeddleError"]


class HeddleError(Exception):
    """Something was used wrongly, or could not be done; the message says what to do.

    ``wrong_use``: the caller asked for something that cannot be; the command line then ends with 2, else with 1.
    """

    wrong_use = False


class UsageError(HeddleError, ValueError):
    """``<parameter> must be <rule>, not <value>``."""

    wrong_use = True


class UsageTypeError(HeddleError, TypeError):
    """``<parameter> must be <type>, not <type of the value>``."""

    wrong_use = True
