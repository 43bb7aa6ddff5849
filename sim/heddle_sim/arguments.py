"""Arguments of copies of tensors, made plain: integers of any kind become ``int``; what is wrong is reported all at once."""

from operator import index

import numpy as np

__all__ = ["Arguments"]


class Arguments:
    """Takes arguments one after the other and keeps what is wrong with them; ``done`` raises it together.

    What is wrong with a type, or given where it must not be, is a ``TypeError``, all else (and both together) a ``ValueError``. A method
    whose argument is wrong returns ``None``.
    """

    def __init__(self):
        self._wrong = []

    def wrong(self, message, error=ValueError):
        self._wrong.append((error, message))

    @property
    def any(self):
        """Whether an argument was wrong."""
        return bool(self._wrong)

    def done(self):
        """Raises if an argument was wrong."""
        if self._wrong:
            kinds = {error for error, _ in self._wrong}
            raise (kinds.pop() if len(kinds) == 1 else ValueError)("; ".join(message for _, message in self._wrong))

    def integer(self, name, value):
        number = _integer(value)
        if number is None:
            self.wrong(f"{name} must be an integer, not {value!r}", TypeError)
        return number

    def integers(self, name, values, count=None, *, bits=None):
        """``count`` integers, of ``bits`` bits with sign, as a tuple."""
        try:
            values = tuple(values)
        except TypeError:
            return self.wrong(f"{name} must be a tuple of {'' if count is None else f'{count} '}integers, not {values!r}", TypeError)
        numbers = tuple(_integer(value) for value in values)
        rule = "integers" if bits is None else f"integers of {bits} bits"
        for value, number in zip(values, numbers):
            if number is None or bits is not None and not -(1 << bits - 1) <= number < 1 << bits - 1:
                return self.wrong(f"{name} must be {rule}, not {value!r}")
        if count is not None and len(values) != count:
            return self.wrong(f"{name} must have {count} value{'s' if count != 1 else ''}, one for each {_axes(name)}, not {len(values)}")
        return numbers

    def one_of(self, name, value, table):
        """The entry of ``table``, by its name."""
        if not isinstance(value, str) or value not in table:
            return self.wrong(f"{name} must be one of {', '.join(table)}, not {value!r}")
        return table[value]


def _axes(name):
    """What a tuple has a value for."""
    return {"strides": "axis but the last", "lower_corner": "spatial axis", "upper_corner": "spatial axis",
            "offsets": "spatial axis"}.get(name, "axis")


def _integer(value):
    """A number without fraction as ``int``, or ``None``."""
    if isinstance(value, (bool, np.bool_)) or isinstance(value, np.ndarray) and value.ndim:
        return None
    try:
        return index(value)
    except TypeError:
        return None
