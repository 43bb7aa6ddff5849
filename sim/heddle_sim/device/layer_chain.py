"""Chains of fully connected layers on a device: inputs and one stream of weights to global memory, a run, the results back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from heddle.errors import UsageTypeError
from numpy.typing import ArrayLike

from ..arguments import check_operand
from ..golden.requantise import Requantise
from ..kernels.layer_chain import ChainLayer, LayerChainKernel, LayerChainProblem
from ..kernels.planner import plan
from ..kernels.problem import Elements, Operands
from .device_array import place_constant
from .execution import execute
from .host import Host
from .memory import Placement
from .products import bias_of, check_requantise, columns_of
from .results import LayerResult

__all__ = ["Layer", "linear_chain"]

Layer = tuple[ArrayLike, ArrayLike | None, Requantise]


def linear_chain(device: Host, x: ArrayLike, layers: Sequence[Layer], transpose: bool) -> LayerResult:
    """See ``Device.linear_chain``."""
    x = _checked("x", x)
    if not isinstance(layers, (list, tuple)) or not layers:
        raise UsageTypeError(f"layers must be a list of (w, bias, requantise), not {layers!r}")
    shapes, operands, inputs = [], [], x
    for number, layer in enumerate(layers):
        of_layer = f" of layer {number}"
        if not isinstance(layer, (list, tuple)) or len(layer) != 3:
            raise UsageTypeError(f"layer {number} must be (w, bias, requantise), not {type(layer).__name__}")
        w, bias, requantise = _checked(f"w{of_layer}", layer[0]), layer[1], layer[2]
        w = columns_of(inputs, w, transpose, (f"inputs{of_layer}", f"w{of_layer}"))
        if requantise is None:
            raise UsageTypeError(f"requantise{of_layer} must be a Requantise, not None")
        bias = bias_of(len(w), bias, of_layer)
        check_requantise(len(w), requantise, of_layer)
        shapes.append(ChainLayer(w.shape[1], len(w), Elements.of(inputs, w), requantise))
        operands.append((w, bias))
        inputs = np.broadcast_to(np.zeros((), requantise.dtype), (len(x), len(w)))
    kernel = cast(LayerChainKernel, plan(device.cfg, LayerChainProblem(len(x), tuple(shapes))))
    with Placement(device.memory) as places:
        stream = place_constant(places, device.memory, kernel.stream(operands))
        addresses = Operands(places.place(x), stream, places.reserve(inputs.shape, inputs.dtype))
        stats = execute(device, kernel, addresses)
        return LayerResult(device.memory.matrix(addresses.c, inputs.shape, inputs.dtype).copy(), stats)


def _checked(name: str, array: ArrayLike) -> np.ndarray:
    """A matrix of 8-bit integers."""
    checked = check_operand(name, array)
    if checked.dtype.itemsize != 1:
        raise UsageTypeError(f"{name} must have dtype int8 or uint8, not {checked.dtype}")
    return checked
