"""Arrays of several samples of an input."""

from __future__ import annotations

import numpy as np
from heddle.errors import UsageError

__all__ = ["stacked"]


def stacked(name: str, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Samples (samples, \\*shape) of an input of ``shape``.

    ``array`` has one sample, or several: along an axis of their own, or along the first axis, as images in a batch.
    Raises ``UsageError`` for other shapes; ``name`` begins the message.
    """
    if array.shape == shape:
        return array[None]
    if array.shape[1:] == shape and len(array):
        return array
    if array.ndim == len(shape) > 0 and array.shape[1:] == shape[1:] and array.size and not len(array) % shape[0]:
        return array.reshape(-1, *shape)
    raise UsageError(f"{name} must have shape {shape}, or more of them along a first axis, not {array.shape}")
