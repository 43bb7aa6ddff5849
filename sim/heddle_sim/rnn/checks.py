"""Checks of what is given to recurrent networks: each error names the parameter, the rule and the value."""

import numpy as np
from heddle.errors import UsageError, UsageTypeError
from numpy.typing import ArrayLike

from ..arguments import check_mask

__all__ = ["number_array"]


def number_array(name: str, value: ArrayLike, shape: tuple[int | None, ...], names: str | None = None) -> np.ndarray:
    """A float64 array of finite numbers.

    ``shape`` has None where any size is allowed; ``names`` says it in words where it has. Raises ``TypeError`` or ``ValueError``.
    """
    said = shape if names is None else names
    check_mask(name, value)
    try:
        array = np.asarray(value)
    except ValueError:
        raise UsageError(f"{name} must have shape {said}, not lists of different lengths") from None
    if array.dtype.kind not in "fiu":
        raise UsageTypeError(f"{name} must be an array of numbers, not {'None' if value is None else array.dtype}")
    if array.ndim != len(shape) or any(wanted is not None and wanted != found for wanted, found in zip(shape, array.shape)):
        raise UsageError(f"{name} must have shape {said}, not {array.shape}")
    if 0 in array.shape:
        raise UsageError(f"{name} must have no empty axis, not shape {array.shape}")
    array = array.astype(np.float64)
    wrong = np.argwhere(~np.isfinite(array))
    if len(wrong):
        place = tuple(wrong[0].tolist())
        raise UsageError(f"{name} must be finite, not {array[place]} at {place}")
    return array
