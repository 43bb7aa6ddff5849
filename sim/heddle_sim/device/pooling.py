"""Pooling and sums of quantised tensors on a device: operands to global memory, a run, the result back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from heddle.config import Config
from heddle.constants import BANK_BYTES
from heddle.errors import UsageError, UsageTypeError
from numpy.typing import ArrayLike

from ..arguments import check_flag, integer_array
from ..compiled.geometry import Geometry
from ..compiled.layout import ImageLayout
from ..golden.requantise import MAX_SHIFT, Bounds, Requantise
from ..kernels.parts.fitting import Unfit
from ..kernels.parts.planes import Planes
from ..kernels.parts.requantisation import check_one_shift
from ..kernels.plan_cache import cached_plan
from ..kernels.planner import plan
from ..kernels.pooling import PoolKernel, PoolProblem
from ..kernels.problem import Elements, Operands
from .convolution_choice import METHODS, expectations, fastest_method
from .convolution_method import Convolution, ConvolutionLayer
from .device_array import DeviceArray, place_constant
from .execution import execute
from .host import Host, Pads
from .image_arguments import axis_pairs, check_bytes, check_zero_point, per_axis
from .memory import UNWRITTEN, Placement

if TYPE_CHECKING:
    from .stats import Stats

__all__ = ["ConvolvedAverage", "average", "depthwise_average", "global_average", "max_pool", "pool_problem"]

_LAST = ImageLayout("NHWC")
_MOST_LEFT = 6          # shift of a weight of 8 bits


def _image(x: ArrayLike | DeviceArray, layout: str, name: str) -> tuple[np.ndarray, ImageLayout]:
    """An array of bytes, of one that lies on the device its shape only, and its layout, which has one or two spatial axes."""
    x = integer_array("x", x.like() if isinstance(x, DeviceArray) else x)
    check_bytes("x", x)
    named = ImageLayout(layout)
    spatial = x.ndim - 2 - (named.vector > 1)
    if spatial not in (1, 2):
        raise UsageError(f"x must have one or two spatial axes for {name} with layout {layout}, not {spatial}")
    if 0 in x.shape:
        raise UsageError(f"x must have no empty axis, not shape {x.shape}")
    return x, ImageLayout.of(named, spatial)


def _geometry(x: np.ndarray, layout: ImageLayout, kernel: int | Sequence[int], strides: int | Sequence[int], pads: Pads,
              dilations: int | Sequence[int]) -> Geometry:
    """Of planes with all channels, or with those of a block of 16 and more; two spatial axes."""
    images, channels, size = layout.sizes(x.shape)
    spatial = layout.spatial
    window, steps, gaps = (per_axis(name, value, spatial) for name, value in
                           (("kernel", kernel), ("strides", strides), ("dilations", dilations)))
    padding = axis_pairs(pads, spatial)
    for name, values in (("kernel", window), ("strides", steps), ("dilations", gaps)):
        if min(values) < 1:
            raise UsageError(f"{name} must be at least 1, not {values}")
    reach = tuple((count - 1) * gap for count, gap in zip(window, gaps))
    if any(max(pair) > length for pair, length in zip(padding, reach)):
        raise UsageError(f"pads must be smaller than the window {tuple(length + 1 for length in reach)}, not {padding}")
    if any(length >= count + sum(pair) for length, count, pair in zip(reach, size, padding)):
        raise UsageError(f"kernel must fit the padded size {tuple(count + sum(pair) for count, pair in zip(size, padding))} of x, "
                         f"not be {window} (dilations {gaps})")
    if spatial == 1:        # a column: threads share rows
        size, window, steps, gaps, padding = (*size, 1), (*window, 1), (*steps, 1), (*gaps, 1), (*padding, (0, 0))
    if _in_blocks(layout):
        images, channels = images * channels // layout.vector, layout.vector
    channels += -channels % BANK_BYTES
    return Geometry(images, size, channels, channels, window, padding, steps, gaps, channels)


def _in_blocks(layout: ImageLayout) -> bool:
    """Whether a block of channels is a plane by itself."""
    return layout.vector > 1 and layout.vector % BANK_BYTES == 0


def _planes(x: np.ndarray, layout: ImageLayout) -> np.ndarray:
    """Channels last, filled up to a multiple of 16; blocks of 16 and more as they are."""
    if _in_blocks(layout):
        return x
    last = layout.to_channels_last(x)
    return np.pad(last, [(0, 0)] * (last.ndim - 1) + [(0, -last.shape[-1] % BANK_BYTES)])


def pool_problem(kind: str, x: np.ndarray, layout: ImageLayout, *, kernel: int | Sequence[int], strides: int | Sequence[int] = 1,
                 pads: Pads = 0, dilations: int | Sequence[int] = 1, **options: Any) -> PoolProblem:
    """Problem of ``kind``, "max" or "average", whose ``x`` has ``layout``; ``options``: further fields of ``PoolProblem``."""
    return PoolProblem(kind, _geometry(x, layout, kernel, strides, pads, dilations), x.dtype.kind == "i", **options)


class ConvolvedAverage(NamedTuple):
    """A depthwise convolution ``layer`` whose filters have ``weight`` everywhere, by ``method`` of ``Device.conv``."""

    layer: ConvolutionLayer
    weight: int
    method: str


def depthwise_average(cfg: Config, problem: PoolProblem) -> ConvolvedAverage | None:
    """The convolution that gives the bytes of an average, where it is expected to take fewer cycles.

    All windows must count the same number of elements: the output stage then multiplies all sums by the one factor of the average, and
    rounds as it does. The weight is a power of two, which the shift takes back: the output stage takes factors below 1/4 only without a
    shift before. None where there is no such convolution, or it is not faster.
    """
    (factors, shift), shape, spec = problem.factors, problem.geometry, problem.output
    factor, (minimum, maximum) = int(factors[0, 0]), spec.bounds
    left = max(factor.bit_length() + 2 - shift, 0)
    if (factors != factor).any() or left > _MOST_LEFT or shift + left > MAX_SHIFT or (255 * shape.positions << left).bit_length() > 31:
        return None
    # Without ``requantise`` padding counts as what it reads as.
    layer = ConvolutionLayer(
        shape, _LAST, Elements(1, problem.signed, True), problem.fill, bias=problem.requantise is None and problem.fill != 0,
        requantise=Requantise(factor, shift + left, spec.zero_point, minimum, maximum, dtype=spec.dtype), alike=True)
    found = expectations(cfg, layer)
    method = fastest_method(found)
    if method is None:
        return None
    with suppress(Unfit):
        if found[method].cycles >= PoolKernel.estimate(cfg, problem):
            return None
    return ConvolvedAverage(layer, 1 << left, method)


def _in_place(x: DeviceArray, layout: ImageLayout, problem: PoolProblem) -> bool:
    """Whether a pool reads an array where it lies: channels last, a multiple of 16, without gaps."""
    return layout.channels_last and x.plain and x.shape[-1] == problem.geometry.channels


def _run(device: Host, x: np.ndarray | DeviceArray, layout: ImageLayout, problem: PoolProblem,
         keep: bool) -> tuple[np.ndarray | DeviceArray, Stats]:
    shape, (images, channels, _) = problem.geometry, layout.sizes(x.shape)
    keep = check_flag("keep", keep) and layout.channels_last and channels == shape.channels
    planes: np.ndarray | DeviceArray
    if isinstance(x, DeviceArray) and x.memory is device.memory and _in_place(x, layout, problem):
        planes = x
    else:
        planes = _planes(np.asarray(x), layout)
    y: np.ndarray | DeviceArray
    convolution = None
    if problem.kind == "average":
        convolution = cached_plan("average", device.cfg, problem, lambda: depthwise_average(device.cfg, problem))
    if convolution is None:
        y, stats = _pooled(device, planes, problem, keep)
    else:
        planes = planes.reshape(shape.images, *shape.size, shape.channels)
        layer, weight, method = convolution
        w = np.full((shape.channels, 1, *shape.filter), weight, np.int8)
        bias = np.full(shape.channels, weight * shape.positions * problem.fill, np.int32) if layer.bias else None
        y, stats = METHODS[method].run(device, Convolution(layer, planes, w, bias, keep))
    size = shape.result[:layout.spatial]
    if isinstance(y, DeviceArray):
        return y.reshape(images, *size, channels), stats
    if _in_blocks(layout):
        return y.reshape(layout.shape(images, channels, size)), stats
    return layout.from_channels_last(np.ascontiguousarray(y.reshape(images, *size, -1)[..., :channels])), stats


def _pooled(device: Host, planes: np.ndarray | DeviceArray, problem: PoolProblem, keep: bool) -> tuple[np.ndarray | DeviceArray, Stats]:
    """By the thread unit: (pixels of all planes, channels)."""
    kernel, memory, shape = cast(PoolKernel, plan(device.cfg, problem)), device.memory, problem.geometry
    pixels, image = (shape.pixels, shape.channels), prod(shape.result) * shape.channels
    with Placement(memory) as places:
        source = planes.address if isinstance(planes, DeviceArray) else places.place_bytes(planes.tobytes())
        table, y = place_constant(places, memory, kernel.parameters()), memory.reserve((1, prod(pixels)), np.uint8, UNWRITTEN)
        array = DeviceArray.owning(memory, y, Planes(1, image, image, image // shape.result[0], shape.channels), shape.images, pixels,
                                   np.dtype(problem.output.dtype), lambda: memory.read(y, pixels, problem.output.dtype))
        stats = execute(device, kernel, Operands(source, table, y))
        return (array if keep else np.asarray(array)), stats


def max_pool(device: Host, x: ArrayLike | DeviceArray, *, layout: str, bounds: Bounds, keep: bool,
             **window: Any) -> tuple[np.ndarray | DeviceArray, Stats]:
    """``(y, stats)`` of ``Device.max_pool``."""
    array, image_layout = _image(x, layout, "max_pool")
    problem = pool_problem("max", array, image_layout, bounds=_bounds(bounds, array.dtype), **window)
    return _run(device, x if isinstance(x, DeviceArray) else array, image_layout, problem, keep)


def _bounds(bounds: Bounds, dtype: np.dtype) -> Bounds:
    """Least and greatest result as they are. Raises the errors of ``Requantise``."""
    Requantise(1, 0, minimum=bounds[0], maximum=bounds[1], dtype=dtype)
    return bounds


def average(device: Host, x: ArrayLike | DeviceArray, *, layout: str, count_include_pad: bool, x_zero_point: int,
            requantise: Requantise | None, bounds: Bounds, keep: bool,
            **window: Any) -> tuple[np.ndarray | DeviceArray, Stats]:
    """``(y, stats)`` of ``Device.average_pool``."""
    array, image_layout = _image(x, layout, "average_pool")
    _check_requantise(requantise, bounds)
    problem = pool_problem("average", array, image_layout, include_pad=check_flag("count_include_pad", count_include_pad),
                           zero_point=check_zero_point("x_zero_point", x_zero_point, array.dtype), requantise=requantise,
                           bounds=_bounds(bounds, array.dtype), **window)
    return _run(device, x if isinstance(x, DeviceArray) else array, image_layout, problem, keep)


def global_average(device: Host, x: ArrayLike | DeviceArray, *, layout: str, x_zero_point: int, requantise: Requantise | None,
                   keep: bool) -> tuple[np.ndarray | DeviceArray, Stats]:
    """``(y, stats)`` of ``Device.global_average_pool``."""
    array, image_layout = _image(x, layout, "global_average_pool")
    return average(device, x, layout=layout, count_include_pad=False, x_zero_point=x_zero_point, requantise=requantise, keep=keep,
                   bounds=(None, None), kernel=image_layout.sizes(array.shape)[2])


def _check_requantise(requantise: Requantise | None, bounds: Bounds) -> None:
    if requantise is None:
        return
    if bounds != (None, None):
        raise UsageError(f"minimum and maximum must be those of requantise where there is one, not {bounds[0]} and {bounds[1]}")
    if not isinstance(requantise, Requantise):
        raise UsageTypeError(f"requantise must be a Requantise, not {type(requantise).__name__}")
    if requantise.per_column:
        raise UsageError(f"multiplier must be an integer for average_pool, not an array of shape {np.shape(requantise.multiplier)}")
    check_one_shift(requantise)
