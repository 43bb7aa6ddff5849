"""Convolutions on a device: operands and descriptors to global memory, a run, the result back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from heddle.errors import UsageError, UsageTypeError
from numpy.typing import ArrayLike

from ..arguments import ELEMENT_TYPES, check_choice, check_flag, integer_array
from ..compiled.geometry import Geometry
from ..compiled.hardware import within_masks
from ..compiled.layout import ImageLayout
from ..compiled.representation import Representation
from ..golden.requantise import Requantise
from ..kernels.compiled_convolution import CompiledConvolutionProblem
from ..kernels.convolution import ConvolutionKernel
from ..kernels.convolution_methods import expectations, fastest_method, no_output_stage
from ..kernels.depthwise_plan import alike_weights
from ..kernels.parts.convolution_shape import ConvolutionShape
from ..kernels.plan_cache import cached_plan
from ..kernels.planner import plan
from ..kernels.problem import ConvolutionProblem, Elements, Operands
from .compiled_convolution import compiled_convolution
from .depthwise import depthwise_convolution
from .device_array import DeviceArray
from .execution import execute
from .gathered_convolution import gathered_convolution
from .host import Host, Pads
from .image_arguments import axis_pairs, check_zero_point, is_integer, per_axis, several
from .memory import Placement
from .products import bias_of, check_requantise

if TYPE_CHECKING:
    from .stats import Stats

__all__ = ["METHODS", "convolve"]

METHODS = ("auto", "compiled", "depthwise", "gather", "im2col")


def _geometry(x: np.ndarray, w: np.ndarray, layout: ImageLayout, pads: Pads, strides: int | Sequence[int],
              dilations: int | Sequence[int], group: int) -> Geometry:
    """Of all groups."""
    spatial = layout.spatial
    images, channels, size = layout.sizes(x.shape)
    wanted = group * w.shape[1]
    if not channels - layout.vector < wanted <= channels:
        raise UsageError(f"w must have {channels} channels as x" + (f", divided by {group} groups" if group > 1 else "") +
                         f", not {w.shape[1]}")
    if w.shape[0] % group:
        raise UsageError(f"w must have a multiple of {group} outputs (group), not {w.shape[0]}")
    return Geometry(images, size, wanted, w.shape[0], w.shape[2:], axis_pairs(pads, spatial), per_axis("strides", strides, spatial),
                    per_axis("dilations", dilations, spatial), group)


def _check(x: np.ndarray, w: np.ndarray, group: int, method: str) -> None:
    if not 3 <= w.ndim <= 5:
        raise UsageError(f"w must have 3 to 5 dimensions, not {w.ndim}")
    if 0 in x.shape or 0 in w.shape:
        raise UsageError(f"x and w must have no empty axis, not shapes {x.shape} and {w.shape}")
    if isinstance(group, bool) or not isinstance(group, (int, np.integer)) or group < 1:
        raise UsageError(f"group must be an integer of at least 1, not {group!r}")
    check_choice("method", method, METHODS)


def _check_representation(given: object, x: np.ndarray, geometry: Geometry, layout: ImageLayout, method: str) -> str:
    """The method, "compiled". Raises where ``given`` is no representation of this convolution, nor the path of one."""
    if method not in ("auto", "compiled"):
        raise UsageError(f"method must be \"compiled\" or \"auto\" with a representation, not {method!r}")
    if isinstance(given, (str, Path)):
        try:
            given = Representation.load(given)
        except UsageError:
            raise
        except (OSError, ValueError) as error:
            raise UsageError(f"representation must be a file that can be read: {error}") from None
    if not isinstance(given, Representation):
        raise UsageTypeError(f"representation must be a Representation or the path of one, not {type(given).__name__}")
    given.check_layer(geometry, layout)
    given.check(x)
    return "compiled"


def _of_one_size(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both operands with elements of 8 bits, or of 16 where one of them has. Raises ``TypeError`` for other elements."""
    for name, array in (("x", x), ("w", w)):
        if array.dtype not in ELEMENT_TYPES:
            raise UsageTypeError(f"{name} must be an array of int8, uint8, int16 or uint16, not {array.dtype}")
    wide = max(array.dtype.itemsize for array in (x, w))
    first, second = (array if array.dtype.itemsize == wide else array.astype(np.int16) for array in (x, w))
    return first, second


def _check_wide(method: str, constants: Sequence[object], points: Sequence[object]) -> None:
    """Raises where a convolution of 16-bit elements asks for what it does not have: ``constants`` of an output stage, zero ``points``."""
    if method not in ("auto", "im2col"):
        raise UsageError(f"method must be \"im2col\" or \"auto\" with 16-bit elements, not {method!r}")
    if any(constant is not None for constant in constants) or not all(is_integer(point) and point == 0 for point in points):
        raise UsageError("bias, x_zero_point, w_zero_point and requantise must be left out with 16-bit elements")


def _without_zero_point(w: np.ndarray, zero_point: Any) -> np.ndarray:
    """Filters minus their zero point, one for all or one each, as int8 or uint8, else as int16 from -255 to 254."""
    values = (zero_point,) if is_integer(zero_point) else several("w_zero_point", zero_point)
    if len(values) not in (1, len(w)):
        raise UsageError(f"w_zero_point must be an integer, or {len(w)} of them, not {zero_point!r}")
    points = [check_zero_point("w_zero_point", value, w.dtype) for value in values]
    if not any(points):
        return w
    shifted = w.astype(np.int16) - np.array(points, np.int16).reshape(-1, *[1] * (w.ndim - 1))
    for dtype in (np.int8, np.uint8):
        if np.array_equal(shifted.astype(dtype), shifted):
            return shifted.astype(dtype)
    if shifted.max() > 254:
        raise UsageError(f"w minus w_zero_point must fit int8 or uint8, or be at most 254, not {shifted.min()} to {shifted.max()}")
    return shifted


def convolve(device: Host, x: ArrayLike | DeviceArray, w: ArrayLike, *, strides: int | Sequence[int], pads: Pads,
             dilations: int | Sequence[int], group: int, layout: str, method: str, bias: ArrayLike | None, x_zero_point: int,
             w_zero_point: int | Sequence[int], requantise: Requantise | None, keep: bool,
             representation: Representation | str | Path | None = None) -> tuple[np.ndarray | DeviceArray, Stats]:
    """``(y, stats)`` of ``Device.conv``."""
    there, keep = x if isinstance(x, DeviceArray) else None, check_flag("keep", keep)
    x, w = integer_array("x", x if there is None else there.like()), integer_array("w", w)
    _check(x, w, group, method)
    x, w = _of_one_size(x, w)
    bias = bias_of(len(w), bias)
    check_requantise(len(w), requantise, own_shifts=True)
    if x.dtype.itemsize == 2:
        _check_wide(method, (bias, requantise), (x_zero_point, w_zero_point))
        method = "im2col"
    w = _without_zero_point(w, w_zero_point)
    zero_point = check_zero_point("x_zero_point", x_zero_point, x.dtype)
    image_layout = ImageLayout.of(layout, w.ndim - 2)
    geometry = _geometry(x, w, image_layout, pads, strides, dilations, int(group))
    if representation is not None:
        method = _check_representation(representation, x, geometry, image_layout, method)
    addends = w.dtype.itemsize // x.dtype.itemsize
    output = bias is not None or zero_point != 0 or requantise is not None or addends > 1
    if method in ("gather", "im2col") and (requantise is not None or addends > 1):
        raise UsageError(no_output_stage(method))
    if method == "depthwise" and addends > 1:
        raise UsageError("w minus w_zero_point must fit int8 or uint8 for method \"depthwise\"")
    if method == "auto":
        layer = CompiledConvolutionProblem(geometry, image_layout, 0, Elements.of(x, w), zero_point, bias is not None, requantise,
                                           addends=addends)
        method = _fastest(device, layer, w, output) or ("compiled" if output else "im2col")
    if method == "depthwise":
        return depthwise_convolution(device, x if there is None else there, w, geometry, image_layout, zero_point, bias, requantise, keep)
    if method == "compiled":
        return compiled_convolution(device, x if there is None else there, w, geometry, image_layout, zero_point, bias, requantise, keep)
    if there is not None:
        x = np.asarray(there).astype(x.dtype)
    inner = geometry.padded(range(geometry.spatial)) if zero_point else within_masks(geometry) if method == "gather" else geometry
    image = image_layout.padded(x, geometry, inner, zero_point)
    y, stats = (gathered_convolution if method == "gather" else _im2col)(device, image, w, inner, image_layout)
    if bias is not None or zero_point:
        y = image_layout.from_channels_last(_shifted(image_layout.to_channels_last(y, geometry.outputs), w, zero_point, bias))
    return y, stats


def _im2col(device: Host, x: np.ndarray, w: np.ndarray, geometry: Geometry, layout: ImageLayout) -> tuple[np.ndarray, Stats]:
    """By im2col, a run for each group; ``y`` int32 of ``layout``."""
    last = layout.to_channels_last(x, geometry.channels)
    shape = ConvolutionShape.of_group(geometry, x.dtype.itemsize)
    filters = np.ascontiguousarray(np.moveaxis(w, 1, -1))
    runs = [_run(device, shape, *operands) for operands in zip(np.split(last, geometry.group, axis=-1), np.split(filters, geometry.group))]
    return layout.from_channels_last(np.concatenate([y for y, _ in runs], axis=-1)), reduce(add, (stats for _, stats in runs))


def _shifted(y: np.ndarray, w: np.ndarray, zero_point: int, bias: np.ndarray | None) -> np.ndarray:
    """Sums of x (…, outputs), int32, as those of x minus ``zero_point``, with the bias, modulo 2**32."""
    excess = zero_point * w.astype(np.int64).reshape(len(w), -1).sum(axis=1)
    return (y + ((0 if bias is None else bias.astype(np.int64)) - excess)).astype(np.int32)


def _fastest(device: Host, layer: CompiledConvolutionProblem, w: np.ndarray, output: bool) -> str | None:
    """The method with the fewest expected cycles. None where none can do it, or where only one could, with an ``output`` stage."""
    depthwise = layer.geometry.depthwise
    if output and not depthwise:
        return None
    alike = depthwise and alike_weights(w)
    return cached_plan(f"method{' alike' * alike}", device.cfg, layer, lambda: fastest_method(expectations(device.cfg, layer, alike)))


def _run(device: Host, shape: ConvolutionShape, x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, Stats]:
    """The convolution of one group."""
    def bytes_of(array: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(array).view(np.uint8)

    kernel, memory = cast(ConvolutionKernel, plan(device.cfg, ConvolutionProblem(shape, Elements.of(x, w)))), device.memory
    x_rows, w_rows, y_rows = shape.operand_shapes()
    with Placement(memory) as places:
        addresses = [places.place(bytes_of(x).reshape(x_rows)), places.place(bytes_of(w).reshape(w_rows)), places.reserve(y_rows, np.int32)]
        descriptors = [places.place_bytes(tensor.at(address).to_cutensormap()) for tensor, address in zip(kernel.maps, addresses)]
        stats = execute(device, kernel, Operands(*descriptors))
        y = memory.matrix(addresses[2], y_rows, np.int32).copy()
        return y.reshape(shape.images, *shape.result, shape.outputs), stats
