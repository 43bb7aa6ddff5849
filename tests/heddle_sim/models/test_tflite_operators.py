"""Operators of TFLite, each beside LiteRT's reference kernels on the same operands."""

import numpy as np
import pytest
from heddle_sim import Device
from heddle_sim.models import load_model
from heddle_sim.models.comparison import compared
from heddle_sim.models.tflite import host
from heddle_verif.stimulus.tflite_files import TfliteFile

SAME, VALID = 0, 1
NONE, RELU, RELU6 = 0, 1, 3
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


@pytest.mark.parametrize("size, channels, filters, kernel, options", [
    ((7, 6), 3, 5, (3, 3), {}),
    ((8, 8), 4, 8, (3, 3), dict(stride=(2, 2))),
    ((9, 4), 1, 4, (4, 2), dict(stride=(2, 1), activation=RELU6)),
    ((8, 7), 5, 3, (3, 3), dict(padding=VALID, activation=RELU)),
    ((9, 9), 2, 4, (3, 3), dict(dilation=(2, 2))),
    ((5, 5), 8, 16, (1, 1), {}),
    ((6, 6), 4, 4, (3, 3), dict(dtype="uint8", w_zero_point=117, y_scale=40.0)),
    ((6, 7), 6, 1, (3, 3), dict(depthwise=True)),
    ((7, 7), 3, 2, (3, 3), dict(depthwise=True, stride=(2, 2), activation=RELU)),
    ((7, 6), 3, 5, (3, 3), dict(dtype="int16")),
    ((8, 9), 5, 3, (3, 2), dict(dtype="int16", stride=(2, 1), activation=RELU)),
    ((6, 7), 6, 1, (3, 3), dict(dtype="int16", depthwise=True)),
])
def test_convolutions(tmp_path, device, size, channels, filters, kernel, options):
    options = dict(padding=SAME, stride=(1, 1), dilation=(1, 1), activation=NONE) | options
    found = check(convolution(tmp_path / "a.tflite", size, channels, filters, kernel, **options), device)
    assert found.nodes[0].equal_share > 0.9 and found.result.stats.macs > 0


def test_fully_connected_of_sixteen_bits(tmp_path, device):
    rng, file = rng_of(4), TfliteFile()
    x = file.tensor("x", (6, 200), "int16", 0.25, 0)
    w = file.constant("w", rng.integers(-127, 128, (7, 200)), "int8", scale=0.02, zero_point=0)
    b = file.constant("b", rng.integers(-500_000, 500_000, 7), "int64", scale=0.005)
    y = file.tensor("y", (6, 7), "int16", 8.0, 0)
    file.operator("FULLY_CONNECTED", [x, w, b], [y], "FullyConnectedOptions")
    found = check(file.write(tmp_path / "a.tflite", [x], [y]), device)
    assert found.nodes[0].equal_share > 0.99


@pytest.mark.parametrize("a, b, adjoint", [((5, 20), (20, 6), ""), ((2, 5, 20), (2, 20, 6), ""), ((2, 20, 5), (2, 6, 20), "xy"),
                                           ((2, 3, 5, 20), (3, 6, 20), "y"), ((2, 5, 20), (1, 20, 6), "")])
@pytest.mark.parametrize("zero_point", [0, 5])
def test_products_of_batches(tmp_path, device, a, b, adjoint, zero_point):
    file = TfliteFile()
    first, second = file.tensor("a", a, scale=0.25, zero_point=-20), file.tensor("b", b, scale=0.02, zero_point=zero_point)
    rows, outputs = a[-1 if "x" in adjoint else -2], b[-2 if "y" in adjoint else -1]
    y = file.tensor("y", (*np.broadcast_shapes(a[:-2], b[:-2]), rows, outputs), scale=1.5, zero_point=7)
    file.operator("BATCH_MATMUL", [first, second], [y], "BatchMatMulOptions", adjX="x" in adjoint, adjY="y" in adjoint)
    check(file.write(tmp_path / "a.tflite", [first, second], [y]), device)


@pytest.mark.parametrize("dtype, w_zero_point, keep, bias", [
    ("int8", 0, True, True), ("uint8", 130, False, True), ("int8", 0, False, False)])
def test_fully_connected(tmp_path, device, dtype, w_zero_point, keep, bias):
    rng, file, limits = rng_of(3), TfliteFile(), np.iinfo(dtype)
    x = file.tensor("x", (2, 3, 20), dtype, 0.25, limits.min + 90)
    w = file.constant("w", rng.integers(limits.min + 1, limits.max + 1, (7, 20)), dtype, scale=0.02, zero_point=w_zero_point)
    b = file.constant("b", rng.integers(-500, 500, 7), "int32", scale=0.005)
    y = file.tensor("y", (2, 3, 7) if keep else (6, 7), dtype, 1.5, limits.min + 128)
    file.operator("FULLY_CONNECTED", [x, w, b][:2 + bias], [y], "FullyConnectedOptions", keepNumDims=keep)
    check(file.write(tmp_path / "a.tflite", [x], [y]), device)


def one_operator(path, op, shape, result, options=None, constants=(), x=X, y=X, inputs=1, dtypes=("int8", "int8"), **fields):
    """A file with one operator of ``inputs`` values, then ``constants``."""
    file = TfliteFile()
    values = [file.tensor(f"x{number}", shape, dtypes[0], **(x if number == 0 else dict(scale=0.3, zero_point=11)))
              for number in range(inputs)]
    others = [file.constant(f"c{number}", data, dtype) for number, (data, dtype) in enumerate(constants)]
    out = file.tensor("y", result, dtypes[1], **y)
    file.operator(op, values + others, [out], options, **fields)
    return file.write(path, values, [out])


@pytest.mark.parametrize("op, shape, result, arguments", [
    ("AVERAGE_POOL_2D", (1, 6, 7, 5), (1, 3, 4, 5), dict(options="Pool2DOptions", padding=SAME, strideH=2, strideW=2, filterHeight=3,
                                                         filterWidth=3)),
    ("AVERAGE_POOL_2D", (1, 4, 4, 20), (1, 1, 1, 20), dict(options="Pool2DOptions", padding=VALID, strideH=4, strideW=4, filterHeight=4,
                                                           filterWidth=4, fusedActivationFunction=RELU)),
    ("MAX_POOL_2D", (1, 6, 7, 5), (1, 3, 3, 5), dict(options="Pool2DOptions", padding=VALID, strideH=2, strideW=2, filterHeight=2,
                                                     filterWidth=2)),
    ("MEAN", (1, 5, 4, 6), (1, 6), dict(options="ReducerOptions", keepDims=False, constants=[([1, 2], "int32")],
                                        y=dict(scale=0.2, zero_point=5))),
    ("ADD", (1, 3, 5, 2), (1, 3, 5, 2), dict(options="AddOptions", inputs=2, y=dict(scale=0.7, zero_point=-20),
                                             fusedActivationFunction=RELU)),
])
def test_pools_and_sums(tmp_path, device, op, shape, result, arguments):
    check(one_operator(tmp_path / "a.tflite", op, shape, result, **arguments), device)


@pytest.mark.parametrize("shape", [(1, 1, 1, 3), (3,), (), (5, 3), (1, 4, 5, 3)])
@pytest.mark.parametrize("first", [True, False])
def test_constant_addends_of_less_shape(tmp_path, device, shape, first):
    file = TfliteFile()
    x, y = file.tensor("x", (1, 4, 5, 3), **X), file.tensor("y", (1, 4, 5, 3), scale=0.7, zero_point=-20)
    c = file.constant("c", rng_of(4).integers(-128, 128, shape), "int8", scale=0.3, zero_point=11)
    file.operator("ADD", [c, x] if first else [x, c], [y], "AddOptions", fusedActivationFunction=RELU)
    check(file.write(tmp_path / "a.tflite", [x], [y]), device)


def test_computed_addends_of_less_shape(tmp_path, device):
    """They are a matter of the host; so is a sum of a shape that no addend has."""
    for shapes in (((1, 4, 5, 3), (1, 1, 1, 3)), ((1, 4, 1, 3), (1, 1, 5, 3))):
        file = TfliteFile()
        x, c = (file.tensor(name, shape, **X) for name, shape in zip("xc", shapes))
        y = file.tensor("y", (1, 4, 5, 3), scale=0.7, zero_point=-20)
        file.operator("ADD", [x, c], [y], "AddOptions")
        path = file.write(tmp_path / "a.tflite", [x, c], [y])
        check(path, device, "host")
        assert load_model(path, device).placement[0].why == (
            "addends must have the shape (1, 4, 5, 3) of the result, or one of them be constant, not {} and {}.".format(*shapes))


@pytest.mark.parametrize("dtype, zero_point", [("int8", -90), ("int8", 77), ("uint8", 40)])
@pytest.mark.parametrize("kind", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
@pytest.mark.parametrize("activation", [NONE, RELU, RELU6])
def test_pools_are_those_of_the_reference(tmp_path, device, kind, activation, dtype, zero_point):
    same = dict(scale=0.1, zero_point=zero_point)
    check(one_operator(tmp_path / "a.tflite", kind, (1, 9, 8, 5), (1, 5, 4, 5), "Pool2DOptions", padding=SAME, strideH=2, strideW=2,
                       filterHeight=2, filterWidth=2, fusedActivationFunction=activation, dtypes=(dtype,) * 2, x=same, y=same),
          device, most=0)


@pytest.mark.parametrize("y", [dict(scale=0.031, zero_point=5), dict(scale=0.1, zero_point=-40), dict(scale=0.3, zero_point=9)])
@pytest.mark.parametrize("preset, size", [("base", (2, 8)), ("base", (6, 5)), ("base", (25, 5)), ("tiny", (3, 7)), ("tiny", (4, 4))])
def test_means_are_those_of_the_reference(tmp_path, preset, size, y):
    """Also with the scale of x: sums from which the zero point is subtracted are rounded then too. Half of all sums lie at halves."""
    path = one_operator(tmp_path / "a.tflite", "MEAN", (1, *size, 200), (1, 200), "ReducerOptions", constants=[([1, 2], "int32")],
                        keepDims=False, x=dict(scale=0.1, zero_point=-40), y=y)
    with Device(preset, "golden", memory_bytes=1 << 20) as device:
        check(path, device, most=0)


UNIT = dict(scale=1 / 256, zero_point=-128)
EIGHTH = dict(scale=1 / 128, zero_point=0)
FLOAT = dict(scale=None)


@pytest.mark.parametrize("op, shape, result, arguments", [
    ("SOFTMAX", (2, 9), (2, 9), dict(options="SoftmaxOptions", beta=1.0, x=dict(scale=0.05, zero_point=3), y=UNIT)),
    ("LOGISTIC", (1, 30), (1, 30), dict(x=dict(scale=0.05, zero_point=3), y=UNIT)),
    ("TANH", (1, 30), (1, 30), dict(x=dict(scale=0.02, zero_point=3), y=EIGHTH)),
    ("PAD", (1, 3, 3, 2), (1, 5, 4, 2), dict(options="PadOptions", constants=[([[0, 0], [1, 1], [0, 1], [0, 0]], "int32")])),
    ("RESHAPE", (1, 6, 2), (3, 4), dict(options="ReshapeOptions", constants=[([3, 4], "int32")], newShape=[3, 4])),
    ("TRANSPOSE", (2, 3, 4), (4, 2, 3), dict(options="TransposeOptions", constants=[([2, 0, 1], "int32")])),
    ("CONCATENATION", (1, 3, 4), (1, 6, 4), dict(options="ConcatenationOptions", inputs=2, axis=1, x=dict(scale=0.3, zero_point=11),
                                                 y=dict(scale=0.3, zero_point=11))),
    ("STRIDED_SLICE", (2, 6, 3), (2, 2, 3), dict(options="StridedSliceOptions", beginMask=1, endMask=5, constants=[
        ([0, 1, 0], "int32"), ([0, 5, 0], "int32"), ([1, 2, 1], "int32")])),
    ("MUL", (1, 4, 4), (1, 4, 4), dict(options="MulOptions", inputs=2, y=dict(scale=5.0, zero_point=2))),
    ("SUB", (1, 4, 4), (1, 4, 4), dict(options="SubOptions", inputs=2, y=dict(scale=0.6, zero_point=2))),
    ("QUANTIZE", (1, 20), (1, 20), dict(options="QuantizeOptions", x=FLOAT, y=dict(scale=0.03, zero_point=7), dtypes=("float32", "int8"))),
    ("DEQUANTIZE", (1, 20), (1, 20), dict(options="DequantizeOptions", y=FLOAT, dtypes=("int8", "float32"))),
    ("HARD_SWISH", (1, 40), (1, 40), dict(x=dict(scale=0.05, zero_point=3), y=dict(scale=0.04, zero_point=-110))),
    ("LEAKY_RELU", (1, 40), (1, 40), dict(options="LeakyReluOptions", alpha=0.1)),
    ("MEAN", (1, 5, 6), (1, 6), dict(options="ReducerOptions", keepDims=False, constants=[([1], "int32")])),
    *(("RESIZE_NEAREST_NEIGHBOR", (1, 3, 4, 2), (1, *size, 2), dict(
        options="ResizeNearestNeighborOptions", constants=[(size, "int32")], alignCorners=corners, halfPixelCenters=half))
      for size in ((6, 9), (2, 3)) for corners, half in ((False, False), (True, False), (False, True))),
    *(("RESIZE_BILINEAR", (1, 3, 4, 2), (1, *size, 2), dict(
        options="ResizeBilinearOptions", constants=[(size, "int32")], alignCorners=corners, halfPixelCenters=half))
      for size in ((6, 9), (2, 3)) for corners, half in ((False, False), (True, False), (False, True))),
    ("SPACE_TO_DEPTH", (2, 4, 6, 3), (2, 2, 3, 12), dict(options="SpaceToDepthOptions", blockSize=2)),
    ("DEPTH_TO_SPACE", (2, 2, 3, 12), (2, 4, 6, 3), dict(options="DepthToSpaceOptions", blockSize=2)),
    ("SPACE_TO_BATCH_ND", (2, 5, 4, 3), (12, 2, 3, 3), dict(options="SpaceToBatchNDOptions", constants=[
        ([3, 2], "int32"), ([[1, 0], [1, 1]], "int32")])),
    ("BATCH_TO_SPACE_ND", (12, 2, 3, 3), (2, 5, 4, 3), dict(options="BatchToSpaceNDOptions", constants=[
        ([3, 2], "int32"), ([[1, 0], [1, 1]], "int32")])),
    ("L2_NORMALIZATION", (1, 4, 7), (1, 4, 7), dict(options="L2NormOptions", y=EIGHTH)),
    ("L2_POOL_2D", (1, 4, 6, 2), (1, 2, 3, 2), dict(options="Pool2DOptions", padding=VALID, strideH=2, strideW=2, filterHeight=2,
                                                    filterWidth=2, x=FLOAT, y=FLOAT, dtypes=("float32", "float32"))),
    ("EQUAL", (1, 40), (1, 40), dict(options="EqualOptions", inputs=2, x=FLOAT, y=FLOAT, dtypes=("bool", "bool"))),
    ("NOT_EQUAL", (1, 40), (1, 40), dict(options="NotEqualOptions", inputs=2, x=FLOAT, y=FLOAT, dtypes=("bool", "bool"))),
    ("LESS_EQUAL", (1, 40), (1, 40), dict(options="LessEqualOptions", inputs=2, y=FLOAT, dtypes=("int8", "bool"))),
    ("GREATER", (1, 40), (1, 40), dict(options="GreaterOptions", inputs=2, y=FLOAT, dtypes=("int8", "bool"))),
    ("LOGICAL_OR", (1, 40), (1, 40), dict(options="LogicalOrOptions", inputs=2, y=FLOAT, dtypes=("bool", "bool"))),
    ("REDUCE_ALL", (9, 2), (9,), dict(options="ReducerOptions", keepDims=False, constants=[([1], "int32")], x=FLOAT, y=FLOAT,
                                      dtypes=("bool", "bool"))),
    ("LESS", (1, 40), (1, 40), dict(options="LessOptions", inputs=2, y=FLOAT, dtypes=("int8", "bool"))),
    ("GREATER_EQUAL", (1, 40), (1, 40), dict(options="GreaterEqualOptions", inputs=2, y=FLOAT, dtypes=("int8", "bool"))),
    ("LOGICAL_AND", (1, 40), (1, 40), dict(options="LogicalAndOptions", inputs=2, y=FLOAT, dtypes=("bool", "bool"))),
    ("LOGICAL_NOT", (1, 40), (1, 40), dict(options="LogicalNotOptions", x=FLOAT, y=FLOAT, dtypes=("bool", "bool"))),
    ("REDUCE_ANY", (9, 2), (9,), dict(options="ReducerOptions", keepDims=False, constants=[([1], "int32")], x=FLOAT, y=FLOAT,
                                      dtypes=("bool", "bool"))),
    ("SIGN", (1, 40), (1, 40), dict(x=FLOAT, y=FLOAT, dtypes=("float32", "float32"))),
    ("FLOOR_DIV", (1, 40), (1, 40), dict(options="FloorDivOptions", x=FLOAT, y=FLOAT, dtypes=("float32", "float32"),
                                         constants=[(np.linspace(-3, 2.9, 40)[None], "float32")])),
    ("FLOOR_MOD", (1, 40), (1, 40), dict(options="FloorModOptions", x=FLOAT, y=FLOAT, dtypes=("int32", "int32"),
                                         constants=[(np.arange(40)[None] * 7 - 141, "int32")])),
    *(("GELU", (1, 40), (1, 40), dict(options="GeluOptions", approximate=approximate, x=dict(scale=0.05, zero_point=3),
                                      y=dict(scale=0.04, zero_point=-110))) for approximate in (False, True)),
    ("RELU_0_TO_1", (1, 40), (1, 40), dict(x=FLOAT, y=FLOAT, dtypes=("float32", "float32"))),
    *(("CUMSUM", (3, 5), (3, 5), dict(options="CumsumOptions", exclusive=exclusive, reverse=backwards, x=FLOAT, y=FLOAT,
                                      dtypes=("int32", "int32"), constants=[([1], "int32")]))
      for exclusive, backwards in ((False, False), (True, True))),
    ("GATHER_ND", (3, 4, 2), (2, 2), dict(options="GatherNdOptions", constants=[([[0, 1], [2, 3]], "int32")])),
    ("GATHER", (3, 4, 2), (3, 2, 2), dict(options="GatherOptions", axis=1, constants=[([2, 0], "int32")])),
    ("GATHER", (3, 4, 2), (3, 3, 2), dict(options="GatherOptions", axis=1, batchDims=1, constants=[
        ([[2, 0, 1], [1, 1, 0], [3, 2, 3]], "int32")])),
    ("BROADCAST_TO", (3, 1, 2), (3, 4, 2), dict(options="BroadcastToOptions", constants=[([3, 4, 2], "int32")])),
])
def test_operators_of_the_host(tmp_path, device, op, shape, result, arguments):
    check(one_operator(tmp_path / "a.tflite", op, shape, result, **arguments), device, "host")


@pytest.mark.parametrize("dtype, zero_point", [("int8", -90), ("int8", 77), ("uint8", 40)])
def test_averages_on_the_host_round_the_integers(tmp_path, dtype, zero_point):
    same = dict(scale=0.5, zero_point=zero_point)
    path = one_operator(tmp_path / "a.tflite", "AVERAGE_POOL_2D", (1, 9, 8, 5), (1, 5, 4, 5), "Pool2DOptions", padding=SAME, strideH=2,
                        strideW=2, filterHeight=2, filterWidth=2, fusedActivationFunction=RELU, dtypes=(dtype,) * 2, x=same, y=same)
    with Device("small", "golden", memory_bytes=1 << 20) as device:
        check(path, device, "host", 0)


@pytest.mark.parametrize("padding, size", [(SAME, (8, 6)), (VALID, (9, 7))])
def test_transposed_convolutions(tmp_path, device, padding, size):
    rng, file = rng_of(5), TfliteFile()
    wanted = file.constant("size", [1, *size, 4])
    scales = rng.uniform(0.01, 0.05, 4)
    w = file.constant("w", rng.integers(-127, 128, (4, 3, 3, 5)), "int8", scale=scales, axis=0, zero_point=np.zeros(4, int))
    x, y = file.tensor("x", (1, 4, 3, 5), **X), file.tensor("y", (1, *size, 4), scale=2.0, zero_point=3)
    bias = file.constant("b", rng.integers(-500, 500, 4), scale=0.5 * scales)
    file.operator("TRANSPOSE_CONV", [wanted, w, x, bias], [y], "TransposeConvOptions", padding=padding, strideH=2, strideW=2)
    check(file.write(tmp_path / "a.tflite", [x], [y]), device, "host")


@pytest.mark.parametrize("axis, shape", [(-1, (2, 3, 4)), (0, (4, 2, 3))])
def test_one_hot(tmp_path, device, axis, shape):
    file = TfliteFile()
    places, depth = file.constant("places", [[3, 0, 1], [7, 2, 2]]), file.constant("depth", 4)
    on, y = file.tensor("on", (), "float32"), file.tensor("y", shape, "float32")
    file.operator("ONE_HOT", [places, depth, on, file.constant("off", -1.5, "float32")], [y], "OneHotOptions", axis=axis)
    check(file.write(tmp_path / "a.tflite", [on], [y]), device, "host", 0)


@pytest.mark.parametrize("op, options", [("SELECT_V2", "SelectV2Options"), ("SELECT", "SelectOptions")])
def test_selections(tmp_path, device, op, options):
    file = TfliteFile()
    chosen = file.tensor("chosen", (3, 1) if op == "SELECT_V2" else (3,), "bool")
    a, b, y = (file.tensor(name, (3, 4), **X) for name in "aby")
    file.operator(op, [chosen, a, b], [y], options)
    check(file.write(tmp_path / "a.tflite", [chosen, a, b], [y]), device, "host", 0)


def subgraph(file, op, second=None, options="AddOptions"):
    """A subgraph y = x op x, or x op ``second``; its number."""
    number = file.begin()
    x, y = file.tensor("x", (2, 3), "float32"), file.tensor("y", (2, 3), "float32")
    file.operator(op, [x, x if second is None else file.constant("c", second, "float32")], [y], options)
    file.end([x], [y])
    return number


@pytest.mark.parametrize("chosen", [True, False])
def test_branches(tmp_path, device, chosen):
    file = TfliteFile()
    condition, x, y = file.tensor("chosen", (), "bool"), file.tensor("x", (2, 3), "float32"), file.tensor("y", (2, 3), "float32")
    file.operator("IF", [condition, x], [y], "IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2)
    main = file.graph
    file.end([condition, x], [y])
    assert (subgraph(file, "ADD"), subgraph(file, "MUL", options="MulOptions")) == (1, 2)
    file.graph = main
    values = rng_of(3).standard_normal((2, 3)).astype(np.float32)
    with load_model(file.write(tmp_path / "a.tflite", [condition, x], [y]), device) as model:
        found = compared(model, {"chosen": np.array(chosen), "x": values})
    np.testing.assert_array_equal(found.result.outputs["y"], values + values if chosen else values * values)
    assert found.nodes[0].most == 0


def loop(path, step):
    """While count is less than 5: count + ``step``, x + x. The file's path."""
    file = TfliteFile()
    count, x = file.tensor("count", (), "int32"), file.tensor("x", (2, 3), "float32")
    outputs = [file.tensor("last", (), "int32"), file.tensor("y", (2, 3), "float32")]
    file.operator("WHILE", [count, x], outputs, "WhileOptions", condSubgraphIndex=1, bodySubgraphIndex=2)
    main = file.graph
    for body in (False, True):
        file.begin()
        inputs = [file.tensor("count", (), "int32"), file.tensor("x", (2, 3), "float32")]
        made = [file.tensor("next", (), "int32"), file.tensor("y", (2, 3), "float32")] if body else [file.tensor("goes on", (), "bool")]
        file.operator("ADD" if body else "LESS", [inputs[0], file.constant("c", step if body else 5)], made[:1],
                      "AddOptions" if body else "LessOptions")
        if body:
            file.operator("ADD", [inputs[1], inputs[1]], made[1:], "AddOptions")
        file.end(inputs, made)
    file.graph = main
    return file.write(path, [count, x], outputs)


def test_loops(tmp_path, device, monkeypatch):
    values = rng_of(4).standard_normal((2, 3)).astype(np.float32)
    with load_model(loop(tmp_path / "a.tflite", 2), device) as model:
        found = compared(model, {"count": np.int32(1), "x": values})
        assert found.result.outputs["last"] == 5 and all(node.most == 0 for node in found.nodes)
        np.testing.assert_array_equal(found.result.outputs["y"], values * 4)
    monkeypatch.setattr(host, "_MOST_REPEATS", 10)
    with (load_model(loop(tmp_path / "b.tflite", 0), device) as model,
          pytest.raises(ValueError, match="WHILE 0 last must end within 10 repetitions")):
        model.run({"count": np.int32(1), "x": values})


def test_a_subgraph_that_calls_itself(tmp_path, device):
    file = TfliteFile()
    x, y = file.tensor("x", (2, 3), "float32"), file.tensor("y", (2, 3), "float32")
    file.operator("CALL", [x], [y], "CallOptions", subgraph=0)
    with (load_model(file.write(tmp_path / "a.tflite", [x], [y]), device) as model,
          pytest.raises(ValueError, match="operands of CALL 0 y must fit each other: maximum recursion depth")):
        model.run(np.zeros((2, 3), np.float32))


def test_constants_without_elements(tmp_path, device):
    """A shape of no dimensions: they have no bytes in the file."""
    file = TfliteFile()
    x, y = file.tensor("x", (1, 1), "float32"), file.tensor("y", (), "float32")
    file.operator("RESHAPE", [x, file.tensor("shape", (0,), "int32")], [y], "ReshapeOptions", newShape=[])
    with load_model(file.write(tmp_path / "a.tflite", [x], [y]), device) as model:
        assert model.run(np.float32([[2]])).outputs["y"] == 2


@pytest.mark.parametrize("block", [1, 4])
def test_sparse_weights(tmp_path, device, block):
    """They are constants like others: their layer runs on the device."""
    rng, file = rng_of(5), TfliteFile()
    weights = rng.integers(-127, 128, (6, 8), np.int8) * (rng.random((6, 8 // block)) < 0.4).repeat(block, axis=1)
    weights[2] = 0
    x, w = file.tensor("x", (3, 8), **X), file.tensor("w", (6, 8), scale=0.02)
    file.operator("DENSIFY", [file.sparse("sparse", weights.astype(np.int8), block, scale=0.02)], [w], "DensifyOptions")
    y, bias = file.tensor("y", (3, 6), scale=1.5), file.constant("b", rng.integers(-99, 99, 6), scale=0.01)
    file.operator("FULLY_CONNECTED", [x, w, bias], [y], "FullyConnectedOptions")
    with load_model(file.write(tmp_path / "a.tflite", [x], [y]), device) as model:
        np.testing.assert_array_equal(model.graph.tensors["w"].data, weights)
        assert [placed.where for placed in model.placement] == ["device"]
        values = rng.integers(-128, 128, (3, 8), np.int8)
        assert compared(model, {"x": values}).nodes[0].most <= 1


@pytest.mark.parametrize("change, says", [
    (lambda table: table.arrayIndices.values.__setitem__(2, 99), "whole TFLite file"),
    (lambda table: table.arraySegments.values.__setitem__(2, -1), "rows in its storage that ascend"),
    (lambda table: setattr(table, "denseSize", 1 << 30), None)])
def test_broken_sparse_weights(tmp_path, device, change, says):
    file = TfliteFile()
    x, w, y = file.tensor("x", (3, 8), **X), file.tensor("w", (6, 8), scale=0.02), file.tensor("y", (3, 6), scale=1.5)
    number = file.sparse("sparse", np.eye(6, 8, dtype=np.int8), scale=0.02)
    metadata = file.graph.tensors[number].sparsity.dimMetadata
    change(metadata[0] if says is None else metadata[1])
    file.operator("DENSIFY", [number], [w], "DensifyOptions")
    file.operator("FULLY_CONNECTED", [x, w, -1], [y], "FullyConnectedOptions")
    with pytest.raises(ValueError, match=says or "no more entries in its storage than the 48 elements of its shape"):
        load_model(file.write(tmp_path / "a.tflite", [x], [y]), device)


def test_greatest_values(tmp_path, device):
    file = TfliteFile()
    x, most, places = file.tensor("x", (3, 9), **X), file.tensor("most", (3, 2), **X), file.tensor("places", (3, 2), "int32")
    file.operator("TOPK_V2", [x, file.constant("k", 2)], [most, places], "TopKV2Options")
    check(file.write(tmp_path / "a.tflite", [x], [most, places]), device, "host", 0)


@pytest.mark.parametrize("change, says", [
    (dict(dtype="int16"), "x must be int8 or uint8, not int16"),
])
def test_refusals_name_the_rule(tmp_path, device, change, says):
    path = one_operator(tmp_path / "a.tflite", "MAX_POOL_2D", (1, 4, 4, 2), (1, 2, 2, 2), "Pool2DOptions", padding=VALID, strideH=2,
                        strideW=2, filterHeight=2, filterWidth=2, dtypes=(change["dtype"],) * 2, x=dict(scale=0.5), y=dict(scale=0.5))
    (placed,) = load_model(path, device).placement
    assert (placed.where, placed.why) == ("host", f"{says}.")
    check(path, device, "host", 0)


@pytest.mark.parametrize("change, says", [
    (dict(strideH=0), "stride_h must be at least 1, not 0"), (dict(strideW=-2), "stride_w must be at least 1, not -2"),
    (dict(filterWidth=0), "filter_width must be at least 1, not 0")])
def test_windows_that_do_not_fit(tmp_path, device, change, says):
    """They are a reason before the run, and an error when the host comes to them."""
    fields = dict(padding=SAME, strideH=2, strideW=2, filterHeight=2, filterWidth=2) | change
    path = one_operator(tmp_path / "a.tflite", "MAX_POOL_2D", (1, 4, 4, 2), (1, 2, 2, 2), "Pool2DOptions", **fields)
    with load_model(path, device) as model:
        assert [(placed.where, placed.why) for placed in model.placement] == [("host", f"{says}.")]
        with pytest.raises(ValueError, match=f"^operands of MAX_POOL_2D 0 y must fit each other: {says}$"):
            model.run(np.zeros((1, 4, 4, 2), np.int8))


@pytest.mark.parametrize("results, why, says", [
    ("yz", "the node must have as many results as Device.max_pool (1), not 2.",
     "MAX_POOL_2D 0 y must have as many results as the operator gives (1), not 2"),
    ("", "attributes and operands of MAX_POOL_2D must fit each other: tuple index out of range.",
     "operands of MAX_POOL_2D 0 must fit each other: tuple index out of range")])
def test_other_numbers_of_results(tmp_path, device, results, why, says):
    file = TfliteFile()
    x, outputs = file.tensor("x", (1, 4, 4, 2), **X), [file.tensor(name, (1, 2, 2, 2), **X) for name in results]
    file.operator("MAX_POOL_2D", [x], outputs, "Pool2DOptions", padding=SAME, strideH=2, strideW=2, filterHeight=2, filterWidth=2)
    with load_model(file.write(tmp_path / "a.tflite", [x], outputs or [x]), device) as model:
        assert [(placed.where, placed.why) for placed in model.placement] == [("host", why)]
        with pytest.raises(ValueError) as failure:
            model.run(np.zeros((1, 4, 4, 2), np.int8))
        assert str(failure.value) == says


@pytest.mark.parametrize("op, options", [("BIDIRECTIONAL_SEQUENCE_LSTM", "BidirectionalSequenceLSTMOptions"), ("RNN", "RNNOptions")])
def test_operators_that_are_not_there_come_first(tmp_path, op, options):
    """Before their operands, of which states have no node that gives them."""
    file = TfliteFile()
    x, state, y = (file.tensor(name, (1, 4), "float32") for name in ("x", "state", "y"))
    file.operator(op, [x, state], [y], options)
    with pytest.raises(ValueError, match=f"^operator {op} of .*a.tflite must be one of ABS, "):
        load_model(file.write(tmp_path / "a.tflite", [x], [y]), "tiny", simulator="golden")


def test_what_the_configuration_lacks_runs_on_the_host(tmp_path):
    options = dict(padding=SAME, stride=(1, 1), dilation=(1, 1), activation=NONE)
    path = convolution(tmp_path / "a.tflite", (5, 5), 3, 4, (3, 3), **options)
    with Device("tiny", "golden", memory_bytes=1 << 20) as tiny:
        found = check(path, tiny, "host")
        (placed,) = load_model(path, tiny).placement
    assert "requantise" in placed.why and found.result.stats.macs == 0 and found.result.host_seconds > 0


def row_layers(path, sizes, outputs=(), rows=1):
    """A file of fully connected layers, one behind the other; the results of layers in ``outputs`` are outputs too."""
    rng, file = rng_of(*sizes), TfliteFile()
    values = [file.tensor("x", (rows, sizes[0]), "int8", 0.25, -3)]
    for number, (k, n) in enumerate(zip(sizes, sizes[1:])):
        w = file.constant(f"w{number}", rng.integers(-127, 128, (n, k)), "int8", scale=0.02, zero_point=0)
        b = file.constant(f"b{number}", rng.integers(-500, 500, n), "int32", scale=0.005)
        values.append(file.tensor(f"y{number}", (rows, n), "int8", 0.25, 4))
        file.operator("FULLY_CONNECTED", [values[-2], w, b], [values[-1]], "FullyConnectedOptions", fusedActivationFunction=RELU)
    return file.write(path, values[:1], [values[-1], *(values[1 + number] for number in outputs)])


@pytest.mark.parametrize("rows", [1, 8])
def test_layers_of_few_rows_run_together(tmp_path, device, rows):
    """One run for all of them, whose figures the first has; each alone equals the reference, and so does the result of the run."""
    path, macs = row_layers(tmp_path / "a.tflite", (40, 33, 7, 64), rows=rows), [rows * 40 * 33, rows * 33 * 7, rows * 7 * 64]
    found = check(path, device, most=0)
    assert [node.stats.macs for node in found.result.nodes] == [sum(macs), 0, 0]
    assert found.result.stats.macs == sum(macs)
    assert [one.equal_share for one in found.outputs.values()] == [1]
    with load_model(path, device) as model:
        whys = {placed.why for placed in model.placement}
        assert len(whys) == 1 and whys.pop().startswith("Runs as Device.linear_chain with the nodes from 0 ")
        assert [placed.macs for placed in model.placement] == macs
        with device.load(model) as loaded:
            x = rng_of(5).integers(-128, 128, (rows, 40), np.int8)
            first, second = loaded(x), loaded(x)
            assert all(np.array_equal(first.outputs[name], second.outputs[name]) for name in first.outputs)
            assert loaded.stayed == ["y0", "y1"]


def test_results_that_are_needed_end_a_chain(tmp_path, device):
    with load_model(row_layers(tmp_path / "a.tflite", (20, 20, 20, 20, 20), outputs=(1,)), device) as model:
        first, second = (tuple(placed.node.name for placed in model.placement[number:number + 2]) for number in (0, 2))
        assert [placed.chain and placed.chain.nodes for placed in model.placement] == [first, first, second, second]


def test_chains_as_long_as_the_program_memory(tmp_path, device):
    """What is too long is cut."""
    with load_model(row_layers(tmp_path / "a.tflite", (16,) * 91), device) as model:
        chains = list(dict.fromkeys(placed.chain.nodes for placed in model.placement))
        assert len(chains) == 2 and sum(map(len, chains)) == 90
        x = rng_of(6).integers(-128, 128, (1, 16), np.int8)
        found = compared(model, {"x": x})
    assert [one.equal_share for one in found.outputs.values()] == [1]


def test_more_rows_run_layer_by_layer(tmp_path, device):
    with load_model(row_layers(tmp_path / "a.tflite", (20, 20, 20), rows=9), device) as model:
        assert [placed.chain for placed in model.placement] == [None, None]


def test_configurations_without_chains_run_layer_by_layer(tmp_path):
    with load_model(row_layers(tmp_path / "a.tflite", (20, 20, 20)), "tiny", simulator="golden") as model:
        assert [placed.chain for placed in model.placement] == [None, None]
        assert [placed.where for placed in model.placement] == ["device"] * 2


# -- other shapes of inputs -----------------------------------------------------------------


def small_convolution(path):
    return convolution(path, (6, 5), 4, 8, (3, 3), padding=SAME, stride=(1, 1), dilation=(1, 1), activation=NONE)


def test_several_images_at_once(tmp_path, device):
    """Shapes that follow from that of the input are found, also larger images; each result is that of LiteRT's kernels."""
    path = small_convolution(tmp_path / "a.tflite")
    for shape in ((3, 6, 5, 4), (1, 9, 8, 4)):
        with load_model(path, device, shapes={"x": shape}) as model:
            assert model.inputs()["x"].shape == shape
            found = compared(model, {"x": rng_of(7).integers(-128, 128, shape, np.int8)})
        assert found.result.outputs["y"].shape == (*shape[:3], 8) and [one.most for one in found.nodes] == [0]


@pytest.mark.parametrize("shapes, says", [
    ({"z": (1, 2)}, "shapes must be of the inputs x, not of 'z'"),
    ({"x": 3}, "shape of input x must have 4 dimensions, not 1"),
    ({"x": (1, 6, 5)}, "shape of input x must have 4 dimensions, not 3"),
    ({"x": (1, 6, 5, 3)}, "shapes must be such that .*a.tflite can run, not x: [(]1, 6, 5, 3[)]: "),
])
def test_shapes_that_inputs_cannot_have(tmp_path, shapes, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        load_model(small_convolution(tmp_path / "a.tflite"), "tiny", simulator="golden", shapes=shapes)


def test_shapes_of_a_file_with_subgraphs(tmp_path):
    with pytest.raises(ValueError, match=r"^shapes must be none for a TFLite file with 3 subgraphs, not those of x$"):
        load_model(loop(tmp_path / "a.tflite", 1), "tiny", simulator="golden", shapes={"x": (4, 3)})
