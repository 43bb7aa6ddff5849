"""Quantised operands of nodes: scales and zero points that the device takes, and bounds of activations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..golden.requantise import Bounds
from .errors import Refusal
from .graph import Tensor

__all__ = ["Integers", "activation_bounds", "as_bytes", "as_integers", "constant", "narrowed"]


@dataclass(frozen=True)
class Integers:
    """Scale, zero point and type of an activation of 8 or 16 bits, and its shape."""

    scale: float
    zero_point: int
    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def wide(self) -> bool:
        """16 bits."""
        return self.dtype.itemsize == 2

    def alike(self, other: Integers) -> bool:
        """Whether integers of both stand for the same real numbers."""
        return (self.scale, self.zero_point, self.dtype) == (other.scale, other.zero_point, other.dtype)


def as_bytes(tensor: Tensor, what: str) -> Integers:
    """``Integers`` of an activation of 8 bits. Raises ``Refusal``, in which ``what`` names it, where the device does not take it."""
    if tensor.dtype not in (np.int8, np.uint8):
        raise Refusal(f"{what} must be int8 or uint8, not {tensor.dtype}")
    return as_integers(tensor, what)


def as_integers(tensor: Tensor, what: str) -> Integers:
    """``Integers`` of an activation of 8 bits, or of int16 with zero point 0. Raises as ``as_bytes``."""
    if tensor.dtype not in (np.int8, np.uint8, np.int16):
        raise Refusal(f"{what} must be int8, uint8 or int16, not {tensor.dtype}")
    if tensor.quantisation is None:
        raise Refusal(f"{what} must be quantised")
    if not tensor.quantisation.per_tensor:
        raise Refusal(f"{what} must have one scale, not {tensor.quantisation.scale.size}")
    if 0 in tensor.shape or not tensor.shape:
        raise Refusal(f"{what} must have elements on all axes, not shape {tensor.shape}")
    scale, zero_point = float(tensor.quantisation.scale[0]), int(tensor.quantisation.zero_point[0])
    if not 0 < scale < np.inf:
        raise Refusal(f"{what} must have a positive and finite scale, not {scale}")
    limits = np.iinfo(tensor.dtype)
    if not limits.min <= zero_point <= limits.max:
        raise Refusal(f"{what} must have a zero point from {limits.min} to {limits.max}, not {zero_point}")
    if tensor.dtype.itemsize == 2 and zero_point:
        raise Refusal(f"{what} must have zero point 0 with 16 bits, not {zero_point}")
    return Integers(scale, zero_point, tensor.dtype, tensor.shape)


def constant(tensor: Tensor, what: str) -> np.ndarray:
    """Elements of a constant operand. Raises ``Refusal`` where it is computed."""
    if tensor.data is None:
        raise Refusal(f"{what} must be constant, not computed")
    return tensor.data


def narrowed(y: Integers, low: float | None, high: float | None) -> Bounds:
    """Bounds of integers for real bounds; None where these do not bind."""
    limits = np.iinfo(y.dtype)
    bounds = [None if value is None else int(np.clip(np.rint(value / y.scale) + y.zero_point, limits.min, limits.max))
              for value in (low, high)]
    return (None if bounds[0] == limits.min else bounds[0]), (None if bounds[1] == limits.max else bounds[1])


def activation_bounds(y: Integers, name: str) -> Bounds:
    """Bounds that an activation function puts on integers. Raises ``Refusal`` for a function that is no clamp."""
    reals: dict[str, tuple[float | None, float | None]] = {
        "NONE": (None, None), "RELU": (0.0, None), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}
    if name not in reals:
        raise Refusal(f"activation function must be a clamp ({', '.join(reals)}), not {name}")
    return narrowed(y, *reals[name])
