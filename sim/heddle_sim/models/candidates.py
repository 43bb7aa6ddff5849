"""Ways to run an operation on the device: the nearest to its source first, then the one that is expected to be the fastest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from .chains import LayerChain, few_rows
from .computed import Transposed
from .operations import AveragePool, Convolution, DeviceOperation, FullyConnected, Window

__all__ = ["candidates"]

_FEW_ROWS = 32          # of a product: fewer leave most columns of a tile of ``Device.linear`` empty


def candidates(operation: DeviceOperation) -> Iterator[DeviceOperation]:
    """Operations with the same result, but for roundings. The last one is ``operation``."""
    if isinstance(operation, Transposed):
        yield from (replace(operation, part=part) for part in candidates(operation.part))
        return
    if isinstance(operation, AveragePool) and operation.convolution is not None:
        yield operation.convolution
    if isinstance(operation, FullyConnected) and few_rows(operation):
        yield LayerChain(operation.shape, (operation,), operands=operation.operands)
    if isinstance(operation, FullyConnected) and (pixels := _as_convolution(operation)):
        yield pixels
    yield operation


def _as_convolution(product: FullyConnected) -> Convolution | None:
    """A product of few rows as a convolution with filters of one pixel; rows are pixels, filters lie in the lanes."""
    outputs, inputs = product.w.shape
    rows = prod(product.shape) // outputs
    if rows > _FEW_ROWS or product.point_computed:
        return None
    window = Window((1, 1), ((0, 0), (0, 0)), "NHWC", (1, 1), (1, 1))
    return Convolution(product.shape, product.w.reshape(outputs, inputs, 1, 1), product.bias, window, requantise=product.requantise,
                       images=(1, rows, 1, inputs))
