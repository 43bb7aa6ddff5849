"""Operands of products and layers, checked and made plain."""

import numpy as np
from heddle.config import Config
from heddle.errors import UsageError, UsageTypeError
from numpy.typing import ArrayLike

from ..arguments import check_mask
from ..golden.requantise import Requantise
from ..isa.features import lacking
from ..kernels.parts.requantisation import check_one_shift

__all__ = ["bias_of", "check_elements", "check_requantise", "columns_of"]


def check_elements(cfg: Config, a: np.ndarray, b: np.ndarray, b_layout: str) -> None:
    """Raises where A and B have elements of different sizes, or ``cfg`` lacks what these or the layout of B need."""
    if b_layout == "kn" and not cfg.transpose:
        raise UsageError(f"b_layout must be nk in configuration {cfg.name} ({lacking(cfg, 'transpose')}), not 'kn'")
    if a.dtype.itemsize != b.dtype.itemsize:
        raise UsageTypeError(f"b must have elements of the size of a's ({a.dtype}), not {b.dtype}")
    if a.dtype.itemsize == 2 and not cfg.mm16:
        raise UsageTypeError(f"a and b must have 8-bit elements in configuration {cfg.name} ({lacking(cfg, 'mm16')}), not {a.dtype}")


def columns_of(a: np.ndarray, b: np.ndarray, transpose: bool, names: tuple[str, str] = ("a", "b")) -> np.ndarray:
    """B (N, K) for A (M, K) and B (K, N), or with ``transpose`` B (N, K). Raises ``ValueError`` where the lengths along k differ."""
    first, second = names
    columns = b if transpose else b.T
    if a.shape[1] != columns.shape[1]:
        rule = f"(N, {a.shape[1]})" if transpose else f"({a.shape[1]}, N)"
        raise UsageError(f"{second} must have shape {rule} to match {first} of shape {a.shape}, not {b.shape}")
    return columns


def bias_of(n: int, bias: ArrayLike | None, layer: str = "") -> np.ndarray | None:
    """The biases of ``n`` columns as ``int32``; ``layer``, as " of layer 0", is in messages. Raises where they are not ``n`` integers of 32
    bits."""
    name = f"bias{layer}"
    if bias is None:
        return None
    check_mask(name, bias)
    try:
        array = np.asarray(bias)
    except ValueError:
        raise UsageError(f"{name} must have a number for each column") from None
    if array.dtype.kind not in "iu":
        raise UsageTypeError(f"{name} must have integers of 32 bits, not {array.dtype if array.ndim else type(bias).__name__}")
    if array.shape != (n,):
        raise UsageError(f"{name} must have shape ({n},), not {array.shape}")
    limits = np.iinfo(np.int32)
    if array.min() < limits.min or array.max() > limits.max:
        raise UsageError(f"{name} must have integers of 32 bits, not {array.min()} to {array.max()}")
    return array.astype(np.int32)


def check_requantise(n: int, requantise: Requantise | None, layer: str = "", *, own_shifts: bool = False) -> None:
    """Raises where this is no requantisation of ``n`` columns; ``own_shifts``: columns may have theirs. ``layer``: as of ``bias_of``."""
    if requantise is not None:
        if not isinstance(requantise, Requantise):
            raise UsageTypeError(f"requantise{layer} must be a Requantise, not {type(requantise).__name__}")
        if requantise.per_column and np.shape(requantise.multiplier) != (n,):
            raise UsageError(f"multiplier{layer} must be an integer or have shape ({n},), not {np.shape(requantise.multiplier)}")
        if not own_shifts:
            check_one_shift(requantise)
