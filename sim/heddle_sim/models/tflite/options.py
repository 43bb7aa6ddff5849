"""Options of TFLite's operators: padding, strides and activation functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import Refusal

__all__ = ["PADS", "VALID", "activation_of", "pairs_of", "per_axis"]

_ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")
_PADDINGS = ("SAME", "VALID")
VALID = _PADDINGS.index("VALID")
PADS = "pads"       # attribute of convolutions that do the work of a PAD before them: pairs for rows and columns


def activation_of(attributes: Mapping[str, Any]) -> str:
    """Name of the activation function that an operator applies to its result."""
    number = attributes.get("fused_activation_function", 0)
    return _ACTIVATIONS[number] if 0 <= number < len(_ACTIVATIONS) else f"function {number}"


def per_axis(attributes: Mapping[str, Any], first: str, second: str) -> tuple[int, int]:
    """A value for rows and one for columns, 1 where it is left out. Raises ``Refusal`` for a value below 1."""
    for name in (first, second):
        if attributes.get(name, 1) < 1:
            raise Refusal(f"{name} must be at least 1, not {attributes[name]}")
    return int(attributes.get(first, 1)), int(attributes.get(second, 1))


def pairs_of(attributes: Mapping[str, Any], size: tuple[int, ...], kernel: tuple[int, ...], strides: tuple[int, ...],
             dilations: tuple[int, ...] = (1, 1)) -> tuple[tuple[int, int], ...]:
    """Padding of each axis: SAME gives ceil(size / stride) results, with the odd element at the end; VALID none.

    Pairs in the attribute ``PADS`` go before both.
    """
    if PADS in attributes:
        return tuple(attributes[PADS])
    number = attributes.get("padding", 0)
    if not 0 <= number < len(_PADDINGS):
        raise Refusal(f"padding must be SAME or VALID, not number {number}")
    if _PADDINGS[number] == "VALID":
        return ((0, 0),) * len(size)
    totals = [max((-(-length // stride) - 1) * stride + (count - 1) * gap + 1 - length, 0)
              for length, count, stride, gap in zip(size, kernel, strides, dilations)]
    return tuple((total // 2, total - total // 2) for total in totals)
