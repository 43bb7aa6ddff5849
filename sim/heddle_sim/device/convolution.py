"""Arguments of a convolution, checked and made plain, and its method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from heddle.errors import UsageError, UsageTypeError
from numpy.typing import ArrayLike

from ..arguments import ELEMENT_TYPES, check_choice, check_flag, integer_array
from ..compiled.geometry import Geometry
from ..compiled.layout import ImageLayout
from ..compiled.representation import Representation
from ..golden.requantise import Requantise
from ..kernels.depthwise_plan import alike_weights
from ..kernels.problem import Elements
from .convolution_choice import METHODS, NAMES, chosen_method, names_of
from .convolution_method import Convolution, ConvolutionLayer
from .device_array import DeviceArray
from .host import Host, Pads
from .image_arguments import axis_pairs, check_zero_point, is_integer, per_axis, several
from .products import bias_of, check_requantise

if TYPE_CHECKING:
    from .stats import Stats

__all__ = ["convolve"]


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
    check_choice("method", method, NAMES)


def _check_representation(given: object, x: np.ndarray, geometry: Geometry, layout: ImageLayout, method: str) -> str:
    """The method that computes by it. Raises where ``given`` is no representation of this convolution, nor the path of one."""
    method = _able(method, "tabled", "a representation")
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
    return method


def _of_one_size(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both operands with elements of 8 bits, or of 16 where one of them has. Raises ``TypeError`` for other elements."""
    for name, array in (("x", x), ("w", w)):
        if array.dtype not in ELEMENT_TYPES:
            raise UsageTypeError(f"{name} must be an array of int8, uint8, int16 or uint16, not {array.dtype}")
    wide = max(array.dtype.itemsize for array in (x, w))
    first, second = (array if array.dtype.itemsize == wide else array.astype(np.int16) for array in (x, w))
    return first, second


def _able(method: str, ability: str, what: str) -> str:
    """A method that has an ``ability`` of ``ConvolutionMethod``, the first one for "auto". Raises where the method has not, which ``what``
    needs."""
    able = [name for name, each in METHODS.items() if getattr(each, ability)]
    if method not in (*able, "auto"):
        raise UsageError(f"method must be {names_of(able, 'auto')} with {what}, not {method!r}")
    return able[0] if method == "auto" else method


def _wide_method(method: str, constants: Sequence[object], points: Sequence[object]) -> str:
    """The method for 16-bit elements. Raises where they ask for what they do not have: ``constants`` of an output stage, ``points``
    that are not zero."""
    method = _able(method, "wide", "16-bit elements")
    if any(constant is not None for constant in constants) or not all(is_integer(point) and point == 0 for point in points):
        raise UsageError("bias, x_zero_point, w_zero_point and requantise must be left out with 16-bit elements")
    return method


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
        method = _wide_method(method, (bias, requantise), (x_zero_point, w_zero_point))
    w = _without_zero_point(w, w_zero_point)
    zero_point = check_zero_point("x_zero_point", x_zero_point, x.dtype)
    image_layout = ImageLayout.of(layout, w.ndim - 2)
    geometry = _geometry(x, w, image_layout, pads, strides, dilations, int(group))
    if representation is not None:
        method = _check_representation(representation, x, geometry, image_layout, method)
    layer = ConvolutionLayer(geometry, image_layout, Elements.of(x, w), zero_point, bias is not None, requantise,
                             w.dtype.itemsize // x.dtype.itemsize, geometry.depthwise and alike_weights(w))
    if there is not None:
        x = np.asarray(there).astype(x.dtype) if there.dtype != x.dtype else there
    return chosen_method(device.cfg, layer, method).run(device, Convolution(layer, x, w, bias, keep))
