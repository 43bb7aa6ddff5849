"""Convolutions by every method, pools, sums, chains of layers and sparse products with random operands, compared with golden models."""

from functools import partial

import numpy as np
import scipy.sparse as sp
from heddle_sim import Requantise
from heddle_sim.compiled import Geometry, ImageLayout
from heddle_sim.golden.convolution import convolution
from heddle_sim.golden.pooling import add, add_factors, average_pool, max_pool

from .convolutions import CHANNELS, random_geometry, random_layers
from .integers import check_equal, random_integers
from .sparse_matrices import KINDS, random_values

__all__ = ["image_cases", "layer_cases"]

_BYTES = (np.int8, np.uint8)
_ELEMENTS = 60          # of a filter
_MOST_BYTES = 2000      # of an image


def _requantise(rng, count, twice):
    """Of ``count`` filters: one shift, or with ``twice`` a shift for each and two roundings."""
    kind = rng.choice(_BYTES)
    shift = rng.integers(36, 42, count) if twice else int(rng.integers(36, 42))
    return Requantise(rng.integers(1 << 29, 1 << 31, count), shift, int(random_integers(rng, kind)), relu=bool(rng.integers(2)), dtype=kind,
                      double_rounding=twice)


def _convolve(device, rng, layout, shape, method, requantise=None):
    """A convolution of random bytes by a method; ``requantise``: "once" or "twice" rounded, with bias and zero point."""
    x_kind, w_kind = rng.choice(_BYTES, 2)
    x = random_integers(rng, x_kind, (shape.images, *shape.size, shape.channels))
    w = random_integers(rng, w_kind, (shape.outputs, shape.group_channels, *shape.filter))
    options, zero = {}, 0
    if requantise:
        zero, bias = int(random_integers(rng, x_kind)), rng.integers(-50000, 50000, shape.outputs).astype(np.int32)
        options = {"bias": bias, "x_zero_point": zero, "requantise": _requantise(rng, shape.outputs, requantise == "twice")}
    y, _ = device.conv(layout.from_channels_last(x), w, strides=shape.stride, pads=shape.padding, dilations=shape.dilation,
                       group=shape.group, layout=layout.name, method=method, **options)
    sums = convolution(x.astype(np.int64) - zero, np.moveaxis(w, 1, -1), shape.padding, shape.stride, shape.dilation, shape.group)
    check_equal(layout.to_channels_last(y, shape.outputs), options["requantise"].apply(sums + bias) if requantise else sums)


def _layer(rng):
    """Any layout and geometry; half of them have channels that every configuration takes."""
    return next(random_layers(rng, 1, _ELEMENTS, (16,) if rng.integers(2) else CHANNELS, _MOST_BYTES))


def compiled(device, rng, requantise=None):
    """Compiled offsets."""
    _convolve(device, rng, *_layer(rng), "compiled", requantise)


def automatic(device, rng, requantise=None):
    """What the planner takes."""
    _convolve(device, rng, *_layer(rng), "auto", requantise)


def gathered(device, rng):
    """Windows that the threads gather: planes, one group."""
    while True:
        shape = random_geometry(rng, 2, _ELEMENTS)
        if shape.group == 1:
            break
    _convolve(device, rng, ImageLayout("NCHW"), shape, "gather")


def im2col(device, rng, name="NHWC", requantise=None):
    """Rows that the TMAU makes, of images of a layout."""
    layout = ImageLayout.of(name, int(rng.integers(1, 4)))
    _convolve(device, rng, layout, random_geometry(rng, layout.spatial, _ELEMENTS), "im2col", requantise)


def depthwise(device, rng, requantise=None):
    """The sparse engine: channels last, filled up to a multiple of 16."""
    channels, filters = int(rng.choice([5, 16, 24, 32, 48, 64])), tuple(rng.integers(1, 4, 2).tolist())
    padding = tuple((int(rng.integers(0, count)), int(rng.integers(0, count))) for count in filters)
    shape = Geometry(int(rng.integers(1, 3)), tuple(rng.integers(4, 9, 2).tolist()), channels, channels, filters, padding,
                     tuple(rng.integers(1, 3, 2).tolist()), (1, 1), channels)
    _convolve(device, rng, ImageLayout("NHWC"), shape, "depthwise", requantise)


def pool(device, rng, kind="max"):
    """Windows of 1 to 3 by 1 to 3 elements, clamped; ``kind``: "max", "average" or "requantise"."""
    layout, dtype = ImageLayout(str(rng.choice(["NHWC", "NCHW", "NCHWc16"]))), rng.choice(_BYTES)
    kernel = tuple(rng.integers(1, 4, 2).tolist())
    padding = tuple((int(rng.integers(0, count)), int(rng.integers(0, count))) for count in kernel)
    x = random_integers(rng, dtype, (int(rng.integers(1, 3)), *rng.integers(3, 8, 2), int(rng.choice([3, 16, 33]))))
    stride = tuple(rng.integers(1, 3, 2).tolist())
    stored, options = layout.from_channels_last(x), {"strides": stride, "pads": padding, "layout": layout.name}
    bounds = tuple(sorted(int(bound) for bound in random_integers(rng, dtype, (2,))))
    limits = {"minimum": bounds[0], "maximum": bounds[1]}
    if kind == "max":
        y, expected = device.max_pool(stored, kernel, **limits, **options)[0], max_pool(x, kernel, padding, stride, (1, 1), bounds)
    else:
        include, zero, spec = bool(rng.integers(2)), int(random_integers(rng, dtype)), None
        if kind == "requantise":
            result = rng.choice(_BYTES)
            factor, shift = int(rng.integers(1 << 29, 1 << 31)), int(rng.integers(29, 33))
            spec, bounds, limits = Requantise(factor, shift, int(random_integers(rng, result)), dtype=result), (None, None), {}
        y, _ = device.average_pool(stored, kernel, count_include_pad=include, x_zero_point=zero, requantise=spec, **limits, **options)
        expected = average_pool(x, kernel, padding, stride, include, zero, spec, bounds)
    check_equal(layout.to_channels_last(y, x.shape[-1]), expected)


def sums(device, rng, most=9000):
    """Of one type and of two."""
    kinds = rng.choice(_BYTES, 2) if rng.integers(4) == 0 else [rng.choice(_BYTES)] * 2
    size = int(rng.integers(1, most))
    a, b = (random_integers(rng, kind, (size,)) for kind in kinds)
    points = tuple(int(random_integers(rng, kind)) for kind in (*kinds, kinds[0]))
    multipliers, shift = add_factors(*rng.uniform(0.2, 1.5, 2), 1.0)
    y, _ = device.add(a, b, multipliers, shift, a_zero_point=points[0], b_zero_point=points[1], zero_point=points[2])
    check_equal(y, add(a, b, multipliers, points[:2], Requantise(1, shift, points[2], dtype=kinds[0])))


def chain(device, rng):
    """Two layers of few rows in one program, and the first of them alone."""
    sizes, kinds = rng.integers(1, 70, 3).tolist(), rng.choice(_BYTES, 3)
    x = random_integers(rng, kinds[0], (int(rng.integers(1, 5)), sizes[0]))
    layers, wanted = [], x
    for inputs, outputs, kind in zip(sizes, sizes[1:], kinds[1:]):
        w, bias = random_integers(rng, np.int8, (inputs, outputs)), rng.integers(-9999, 9999, outputs).astype(np.int32)
        spec = Requantise(int(rng.integers(1 << 29, 1 << 31)), int(rng.integers(38, 42)), dtype=kind)
        layers.append((w, bias, spec))
        wanted = spec.apply((wanted.astype(np.int64) @ w + bias).astype(np.int32))
    check_equal(device.linear_chain(x, layers)[0], wanted)
    check_equal(device.linear(x, *layers[0])[0], device.linear_chain(x, layers[:1])[0])


def _topology(rng):
    """Of up to 40 rows and columns."""
    kind = KINDS[str(rng.choice([*KINDS]))]
    return kind(rng, *rng.integers(1, 41, 2).tolist())


def sparse_product(device, rng, kind=np.int8):
    """A sparse left operand of some topology."""
    a = random_values(rng, _topology(rng), kind)
    b = random_integers(rng, rng.choice(_BYTES), (a.shape[1], int(rng.integers(1, 70))))
    check_equal(device.spmm(sp.csr_array(a), b)[0], (a.astype(np.int64) @ b).astype(np.int32))


def sampled_product(device, rng, transpose=True):
    """A dense product at the places of a mask."""
    mask, inner = random_values(rng, _topology(rng), np.int8), int(rng.integers(1, 40))
    a, b = (random_integers(rng, np.int8, shape) for shape in ((mask.shape[0], inner), (inner, mask.shape[1])))
    found, _ = device.sddmm(a, b.T.copy() if transpose else b, sp.csr_array(mask), transpose=transpose)
    check_equal(found.toarray(), (mask * (a.astype(np.int64) @ b)).astype(np.int32))


def layer_cases():
    """Cases as those of ``kernel_cases``."""
    methods, rounded = (compiled, automatic, depthwise), (None, "once", "twice") * 2
    cases = [partial(method, requantise=requantise) for method in methods for requantise in rounded]
    cases += [gathered, gathered, *(partial(pool, kind=kind) for kind in ("max", "average", "requantise"))]
    cases += [partial(sums, most=100), sums, chain, chain, *(partial(sparse_product, kind=kind) for kind in (np.int8, np.int16))]
    return cases + [partial(sampled_product, transpose=transpose) for transpose in (True, False)]


def image_cases():
    """Cases of im2col, in the layouts that are dense and in those that the host rearranges, and with an output stage."""
    return [im2col, *(partial(im2col, name=name) for name in ("NCHWc16", "NCHWc32", "NCHW")),
            *(partial(im2col, name=name, requantise=form) for name, form in (("NHWC", "once"), ("NHWC", "twice"), ("NCHW", "once")))]
