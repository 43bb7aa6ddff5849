"""Windows of ONNX's convolutions and pools: strides, dilations, padding by number or by rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import Refusal
from ..operations import Window

__all__ = ["window_of"]

_LAYOUT = "NCHW"        # also of one and of three spatial axes


def window_of(attributes: Mapping[str, Any], size: tuple[int, ...], kernel: tuple[int, ...]) -> Window:
    """``Window`` for images of ``size``. Raises ``Refusal`` for attributes that do not fit them, and where ``ceil_mode`` adds a window."""
    axes = len(size)

    def values(name: str, count: int, default: int) -> tuple[int, ...]:
        given = tuple(int(value) for value in attributes.get(name, (default,) * count))
        if len(given) != count:
            raise Refusal(f"{name} must have {count} values, not {len(given)}")
        return given

    strides, dilations, pads = values("strides", axes, 1), values("dilations", axes, 1), values("pads", 2 * axes, 0)
    for name, given in (("strides", strides), ("dilations", dilations), ("kernel_shape", kernel)):
        if len(given) != axes or min(given, default=1) < 1:
            raise Refusal(f"{name} must be {axes} values of at least 1, not {given}")
    rule = attributes.get("auto_pad", b"NOTSET")
    rule = rule.decode() if isinstance(rule, bytes) else str(rule)
    spans = [(count - 1) * gap + 1 for count, gap in zip(kernel, dilations)]
    pairs = tuple(zip(pads[:axes], pads[axes:]))
    if rule in ("SAME_UPPER", "SAME_LOWER"):
        totals = [max((-(-length // step) - 1) * step + span - length, 0) for length, step, span in zip(size, strides, spans)]
        odd = [(total // 2, total - total // 2) for total in totals]
        pairs = tuple(pair if rule == "SAME_UPPER" else pair[::-1] for pair in odd)
    elif rule == "VALID":
        pairs = ((0, 0),) * axes
    elif rule != "NOTSET":
        raise Refusal(f"auto_pad must be NOTSET, SAME_UPPER, SAME_LOWER or VALID, not {rule}")
    if min(sum(pairs, ()), default=0) < 0:
        raise Refusal(f"pads must be at least 0, not {pairs}")
    if attributes.get("ceil_mode", 0):
        rests = [(length + sum(pair) - span) % step for length, pair, span, step in zip(size, pairs, spans, strides)]
        if any(rests):
            raise Refusal("ceil_mode must add no window")
    return Window(strides, pairs, _LAYOUT, kernel, dilations)
