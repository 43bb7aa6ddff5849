"""Arguments made plain: integers become ``int``, arrays have no mask. What is wrong is named with parameter, rule and value."""

from collections.abc import Iterable, Mapping
from numbers import Real
from operator import index
from typing import Any, TypeVar

import numpy as np
from heddle.errors import HeddleError, UsageError, UsageTypeError

__all__ = ["ELEMENT_TYPES", "Arguments", "check_choice", "check_dtype", "check_flag", "check_integer", "check_mask", "check_number",
           "check_operand", "integer_array", "plain_array"]

ELEMENT_TYPES = (np.int8, np.uint8, np.int16, np.uint16)         # of operands of products
Entry = TypeVar("Entry")


def check_mask(name: str, value: object) -> None:
    """Raises ``TypeError`` for a masked array, also within lists: no operation of a device knows masks."""
    if isinstance(value, np.ma.MaskedArray):
        raise UsageTypeError(f"{name} must be an array without mask, not a masked array")
    if isinstance(value, (list, tuple)):
        for item in value:
            check_mask(name, item)


def plain_array(name: str, value: object) -> np.ndarray:
    """``value``, which must be a numpy array without mask, or a scalar of numpy, which is one without dimensions."""
    check_mask(name, value)
    if isinstance(value, np.generic):
        return np.asarray(value)
    if not isinstance(value, np.ndarray):
        raise UsageTypeError(f"{name} must be a numpy array, not {type(value).__name__}")
    return value.view(np.ndarray)       # a matrix would multiply


def integer_array(name: str, value: object) -> np.ndarray:
    """``plain_array`` that also takes lists of integers: they get the smallest type of 8 or 16 bits that holds them all."""
    check_mask(name, value)
    return plain_array(name, _integers_of(name, value) if isinstance(value, (list, tuple)) else value)


def _integers_of(name: str, values: object) -> np.ndarray:
    try:
        array = np.array(values)
    except ValueError:
        raise UsageError(f"{name} must have rows of the same length") from None
    if array.dtype.kind not in "iu" or not array.size:
        raise UsageTypeError(f"{name} must be a numpy array, or a list of integers, not a list of {array.dtype}")
    for kind in ELEMENT_TYPES:
        if np.iinfo(kind).min <= array.min() and array.max() <= np.iinfo(kind).max:
            return array.astype(kind)
    raise UsageError(f"{name} must have integers of at most 16 bits, not {array.min()} to {array.max()}")


def check_operand(name: str, value: object) -> np.ndarray:
    """``value``, which must be a matrix of 8- or 16-bit integers."""
    array = integer_array(name, value)
    if array.dtype not in ELEMENT_TYPES:
        raise UsageTypeError(f"{name} must have dtype int8, uint8, int16 or uint16, not {array.dtype}")
    if array.ndim != 2:
        raise UsageError(f"{name} must have 2 dimensions, not {array.ndim}")
    if 0 in array.shape:
        raise UsageError(f"{name} must have at least one row and one column, not shape {array.shape}")
    return array


def check_flag(name: str, value: object) -> bool:
    """``value`` as ``bool``; ``TypeError`` unless it is true or false."""
    if not isinstance(value, (bool, np.bool_)):
        raise UsageTypeError(f"{name} must be True or False, not {value!r}")
    return bool(value)


def check_choice(name: str, value: object, names: Iterable[str]) -> str:
    """``value``, which must be one of the texts ``names``."""
    if not isinstance(value, str) or value not in names:
        raise UsageError(f"{name} must be one of {', '.join(names)}, not {value!r}")
    return value


def check_integer(name: str, value: object, low: int, high: int | None = None) -> int:
    """``value`` as ``int``; ``TypeError`` for other types, ``ValueError`` outside ``low`` to ``high`` (without it: below ``low``)."""
    number = _integer(value)
    if number is None:
        raise UsageTypeError(f"{name} must be an integer, not {value!r}")
    if number < low or high is not None and number > high:
        raise UsageError(f"{name} must be {f'at least {low}' if high is None else f'from {low} to {high}'}, not {number}")
    return number


def check_number(name: str, value: object) -> float:
    """``value`` as ``float``; ``TypeError`` for what is no real number."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise UsageTypeError(f"{name} must be a number, not {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise UsageError(f"{name} must be a number that fits float64, not one of 2**1024 or more") from None


def check_dtype(name: str, value: object) -> np.dtype:
    """``value`` as numpy type of single elements; ``TypeError`` for what is none."""
    try:
        dtype = np.dtype(value)     # type: ignore[call-overload]    # of anything
    except (TypeError, ValueError, SyntaxError):
        dtype = None
    if dtype is None or dtype.subdtype:
        raise UsageTypeError(f"{name} must be a numpy type, not {value!r}")
    return dtype


class Arguments:
    """Takes arguments one after the other and keeps what is wrong with them; ``done`` raises it together.

    What is wrong with a type, or given where it must not be, is a ``TypeError``, all else (and both together) a ``ValueError``. A method
    whose argument is wrong returns ``None``.
    """

    def __init__(self) -> None:
        self._wrong: list[tuple[type[HeddleError], str]] = []

    def wrong(self, message: str, error: type[HeddleError] = UsageError) -> Any:      # None, which is not used: ``done`` raises
        self._wrong.append((error, message))

    @property
    def any(self) -> bool:
        """Whether an argument was wrong."""
        return bool(self._wrong)

    def done(self) -> None:
        """Raises if an argument was wrong."""
        if self._wrong:
            kinds = {error for error, _ in self._wrong}
            raise (kinds.pop() if len(kinds) == 1 else UsageError)("; ".join(message for _, message in self._wrong))

    def integer(self, name: str, value: object) -> int:
        number = _integer(value)
        if number is None:
            return self.wrong(f"{name} must be an integer, not {value!r}", UsageTypeError)
        return number

    def integers(self, name: str, values: Iterable[object], count: int | None = None, *, bits: int | None = None) -> tuple[int, ...]:
        """``count`` integers, of ``bits`` bits with sign, as a tuple."""
        if isinstance(values, np.ma.MaskedArray):
            return self.wrong(f"{name} must be a tuple of integers, not a masked array", UsageTypeError)
        try:
            values = tuple(values)
        except TypeError:
            return self.wrong(f"{name} must be a tuple of {'' if count is None else f'{count} '}integers, not {values!r}", UsageTypeError)
        numbers = tuple(_integer(value) for value in values)
        rule = "integers" if bits is None else f"integers of {bits} bits"
        for value, number in zip(values, numbers):
            if number is None or bits is not None and not -(1 << bits - 1) <= number < 1 << bits - 1:
                return self.wrong(f"{name} must be {rule}, not {value!r}")
        if count is not None and len(values) != count:
            return self.wrong(f"{name} must have {count} value{'s' if count != 1 else ''}, one for each {_axes(name)}, not {len(values)}")
        return numbers      # type: ignore[return-value]    # none is None, see above

    def one_of(self, name: str, value: object, table: Mapping[str, Entry]) -> Entry:
        """The entry of ``table``, by its name."""
        if not isinstance(value, str) or value not in table:
            return self.wrong(f"{name} must be one of {', '.join(table)}, not {value!r}")
        return table[value]


def _axes(name: str) -> str:
    """What a tuple has a value for."""
    return {"strides": "axis but the last", "lower_corner": "spatial axis", "upper_corner": "spatial axis",
            "offsets": "spatial axis"}.get(name, "axis")


def _integer(value: object) -> int | None:
    """A number without fraction as ``int``, or ``None``."""
    if isinstance(value, (bool, np.bool_, np.ma.MaskedArray)) or isinstance(value, np.ndarray) and value.ndim:
        return None
    try:
        return index(value)     # type: ignore[arg-type]    # TypeError for what is none
    except TypeError:
        return None
