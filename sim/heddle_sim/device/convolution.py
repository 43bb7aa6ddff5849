"""Convolutions on a device: operands and descriptors to global memory, a run, the result back."""

import numpy as np

from ..kernels.convolution import ConvolutionKernel
from ..kernels.convolution_shape import ConvolutionShape

__all__ = ["convolve"]

UNWRITTEN = 0xA5


def _per_axis(name, value, spatial):
    """A value for every spatial axis, from one or several integers."""
    values = (value,) * spatial if isinstance(value, (int, np.integer)) else tuple(value)
    if len(values) != spatial or not all(isinstance(item, (int, np.integer)) for item in values):
        raise ValueError(f"{name} must be an integer, or {spatial} of them, not {value!r}")
    return tuple(int(item) for item in values)


def _pairs(padding, spatial):
    """(begin, end) for every spatial axis."""
    if not isinstance(padding, (int, np.integer)) and any(isinstance(item, (tuple, list)) for item in padding):
        pairs = tuple(_per_axis("padding", item, 2) for item in padding)
        if len(pairs) != spatial:
            raise ValueError(f"padding must have {spatial} pairs, not {len(pairs)}")
    else:
        pairs = tuple((item, item) for item in _per_axis("padding", padding, spatial))
    if min(min(pair) for pair in pairs) < 0:
        raise ValueError(f"padding must be at least 0, not {padding!r}")
    return pairs


def _shape(x, w, padding, stride, dilation):
    for name, array in (("x", x), ("w", w)):
        if not isinstance(array, np.ndarray) or array.dtype not in (np.int8, np.uint8):
            raise TypeError(f"{name} must be an array of int8 or uint8, not {getattr(array, 'dtype', type(array).__name__)}")
    if not 3 <= x.ndim <= 5 or w.ndim != x.ndim:
        raise ValueError(f"x and w must have the same 3 to 5 dimensions, not {x.ndim} and {w.ndim}")
    if 0 in x.shape or 0 in w.shape:
        raise ValueError(f"x and w must have no empty axis, not shapes {x.shape} and {w.shape}")
    if x.shape[-1] != w.shape[-1]:
        raise ValueError(f"w must have the {x.shape[-1]} channels of x as its last axis, not {w.shape[-1]}")
    spatial = x.ndim - 2
    return ConvolutionShape(x.shape[0], x.shape[1:-1], x.shape[-1], w.shape[0], w.shape[1:-1], _pairs(padding, spatial),
                            _per_axis("stride", stride, spatial), _per_axis("dilation", dilation, spatial))


def convolve(device, x, w, padding=0, stride=1, dilation=1):
    """Convolution of 8-bit integers, exact in 32 bits (sums wrap modulo 2**32) [S1.16].

    Parameters
    ----------
    device : Device
        Of a configuration with ``tensors``.
    x : numpy.ndarray
        ``int8`` or ``uint8``, shape (N, [D, [H,]] W, C): images, one to three spatial axes, channels.
    w : numpy.ndarray
        ``int8`` or ``uint8``, shape (K, [T, [R,]] S, C): filters.
    padding : int or tuple
        Zeros around each image: for all axes, for each spatial axis, or a pair (begin, end) for each.
    stride, dilation : int or tuple
        For all spatial axes, or for each of them; strides up to 8.

    Returns ``(y, stats)``: ``y`` is ``int32`` of shape (N, …, K). Operands and result lie in global memory with pixels and rows of filters
    at multiples of 16 bytes; ``stats`` counts from operands there to the result there. Raises ``ValueError`` for what does not fit
    together, ``TensorMapError`` for what a descriptor cannot say.
    """
    shape = _shape(x, w, padding, stride, dilation)
    kernel = ConvolutionKernel(device.cfg, shape, x.dtype == np.int8, w.dtype == np.int8)
    memory, addresses = device.memory, []
    try:
        x_rows, w_rows, y_rows = shape.operand_shapes()
        addresses += [memory.place(x.reshape(x_rows)), memory.place(w.reshape(w_rows)), memory.reserve(y_rows, np.int32, fill=UNWRITTEN)]
        for tensor, address in zip(kernel.maps, addresses[:3]):
            descriptor = tensor.at(address).to_cutensormap()
            addresses.append(memory.allocator.allocate(len(descriptor)))
            memory.write(addresses[-1], np.frombuffer(descriptor, np.uint8))
        launch = kernel.launch(*addresses[3:])
        stats = device.run(launch.program, launch.uniform, launch.macs)
        y = memory.matrix(addresses[2], y_rows, np.int32).copy()
        return y.reshape(shape.images, *shape.result, shape.outputs), stats
    finally:
        for address in addresses:
            device.free(address)
