"""Operators of TFLite on a device beside LiteRT's reference kernels, and files that have them."""

import numpy as np
from heddle_sim.models import load_model
from heddle_sim.models.comparison import compared

from .stimulus.tflite_files import TfliteFile

__all__ = ["NONE", "RELU", "RELU6", "SAME", "VALID", "X", "check", "convolution", "one_operator", "rng_of"]

SAME, VALID = 0, 1              # padding
NONE, RELU, RELU6 = 0, 1, 3     # activation
X = dict(scale=0.5, zero_point=-3)


def rng_of(*numbers):
    return np.random.default_rng(numbers)


def convolution(path, size, channels, filters, kernel, depthwise=False, dtype="int8", w_zero_point=None, y_scale=8.0, **options):
    """A file with one convolution; with ``w_zero_point`` filters have one scale."""
    rng, file = rng_of(channels, filters), TfliteFile()
    wide_x = np.dtype(dtype).itemsize == 2          # with filters of 8 bits and biases of 64
    limits, w_dtype = np.iinfo(dtype), "int8" if wide_x else dtype
    w_limits = np.iinfo(w_dtype)
    wide = depthwise and channels * filters or filters
    shape = (1, *kernel, wide) if depthwise else (filters, *kernel, channels)
    scales = rng.uniform(0.01, 0.1, wide) if w_zero_point is None else [0.05]
    x = file.tensor("x", (1, *size, channels), dtype, 0.5, 0 if wide_x else limits.min + 100)
    w = file.constant("w", rng.integers(w_limits.min + 1, w_limits.max + 1, shape), w_dtype, scale=scales, axis=3 if depthwise else 0,
                      zero_point=w_zero_point or 0)
    b = file.constant("b", rng.integers(-2000, 2000, wide), "int64" if wide_x else "int32", scale=0.5 * np.asarray(scales))
    strides, gaps = (options[name] for name in ("stride", "dilation"))
    spans = [(count - 1) * gap + 1 for count, gap in zip(kernel, gaps)]
    result = [-(-length // step) if options["padding"] == SAME else (length - span) // step + 1
              for length, span, step in zip(size, spans, strides)]
    y = file.tensor("y", (1, *result, wide), dtype, y_scale, 0 if wide_x else limits.min + 120)
    fields = dict(padding=options["padding"], strideH=strides[0], strideW=strides[1], dilationHFactor=gaps[0], dilationWFactor=gaps[1],
                  fusedActivationFunction=options["activation"])
    if depthwise:
        file.operator("DEPTHWISE_CONV_2D", [x, w, b], [y], "DepthwiseConv2DOptions", depthMultiplier=filters, **fields)
    else:
        file.operator("CONV_2D", [x, w, b], [y], "Conv2DOptions", **fields)
    return file.write(path, [x], [y])


def check(path, device, where="device", most=1):
    """All nodes run there, and differ from the reference by at most ``most``."""
    with load_model(path, device) as model:
        assert [placed.where for placed in model.placement] == [where] * len(model.placement), [node.why for node in model.placement]
        rng = rng_of(1)
        inputs = {name: rng.integers(np.iinfo(tensor.dtype).min, np.iinfo(tensor.dtype).max, tensor.shape, tensor.dtype, endpoint=True)
                  if tensor.dtype.kind in "iu" else rng.standard_normal(tensor.shape).astype(tensor.dtype) if tensor.dtype.kind == "f"
                  else rng.random(tensor.shape) < 0.5
                  for name, tensor in model.inputs().items()}
        found = compared(model, inputs)
    assert all(one is not None and one.most <= most for one in found.nodes), found.nodes
    assert all(len(np.unique(array)) > 1 for array in found.result.outputs.values())
    return found


def one_operator(path, op, shape, result, options=None, constants=(), x=X, y=X, inputs=1, dtypes=("int8", "int8"), **fields):
    """A file with one operator of ``inputs`` values, then ``constants``."""
    file = TfliteFile()
    values = [file.tensor(f"x{number}", shape, dtypes[0], **(x if number == 0 else dict(scale=0.3, zero_point=11)))
              for number in range(inputs)]
    others = [file.constant(f"c{number}", data, dtype) for number, (data, dtype) in enumerate(constants)]
    out = file.tensor("y", result, dtypes[1], **y)
    file.operator(op, values + others, [out], options, **fields)
    return file.write(path, values, [out])
