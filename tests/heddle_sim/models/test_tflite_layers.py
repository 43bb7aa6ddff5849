"""Operators of TFLite that run on the device, each beside LiteRT's reference kernels on the same operands."""

import numpy as np
import pytest
from heddle_sim import Device
from heddle_sim.models import load_model
from heddle_sim.models.comparison import compared
from heddle_verif.stimulus.tflite_files import TfliteFile
from heddle_verif.tflite_checks import NONE, RELU, RELU6, SAME, VALID, X, check, convolution, one_operator, rng_of


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


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("dtype, zero_point", [("int8", -20), ("uint8", 140), ("int16", 0)])
def test_padding_by_an_operator_before(tmp_path, device, depthwise, dtype, zero_point):
    """PAD leaves the graph: the convolution pads."""
    file, rng = TfliteFile(), rng_of(8)
    like = dict(scale=0.25, zero_point=zero_point)
    x, padded = file.tensor("x", (1, 8, 7, 4), dtype, **like), file.tensor("padded", (1, 9, 10, 4), dtype, **like)
    file.operator("PAD", [x, file.constant("pads", [[0, 0], [0, 1], [2, 1], [0, 0]], "int32")], [padded], "PadOptions")
    shape, w_dtype = (1, 3, 3, 4) if depthwise else (4, 3, 3, 4), "uint8" if dtype == "uint8" else "int8"
    w = file.constant("w", rng.integers(1, 128, shape), w_dtype, scale=0.02, zero_point=60 if dtype == "uint8" else 0)
    b = file.constant("b", rng.integers(-500, 500, 4), "int64" if dtype == "int16" else "int32", scale=0.005)
    y = file.tensor("y", (1, 4, 4, 4), dtype, 4.0, zero_point)
    file.operator("DEPTHWISE_CONV_2D" if depthwise else "CONV_2D", [padded, w, b], [y],
                  "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions", padding=VALID, strideH=2, strideW=2,
                  **{"depthMultiplier": 1} if depthwise else {})
    found = check(file.write(tmp_path / "a.tflite", [x], [y]), device)
    assert len(found.nodes) == 1


@pytest.mark.parametrize("kept", ["read by another", "an output", "of channels", "SAME"])
def test_padding_that_stays_an_operator(tmp_path, device, kept):
    file, rng, options = TfliteFile(), rng_of(8), dict(padding=SAME if kept == "SAME" else VALID, strideH=1, strideW=1)
    behind = int(kept == "of channels")
    x, padded = file.tensor("x", (1, 5, 5, 3), **X), file.tensor("padded", (1, 7, 7, 3 + behind), **X)
    file.operator("PAD", [x, file.constant("pads", [[0, 0], [1, 1], [1, 1], [0, behind]], "int32")], [padded], "PadOptions")
    w = file.constant("w", rng.integers(-127, 128, (2, 3, 3, 3 + behind)), "int8", scale=0.02, zero_point=0)
    y = file.tensor("y", (1, 7, 7, 2) if kept == "SAME" else (1, 5, 5, 2), "int8", 4.0, 3)
    b = file.constant("b", [300, -200], "int32", scale=0.01)
    file.operator("CONV_2D", [padded, w, b], [y], "Conv2DOptions", **options)
    outputs = [y]
    if kept == "read by another":
        outputs.append(file.tensor("pool", (1, 3, 3, 3), **X))
        file.operator("MAX_POOL_2D", [padded], outputs[1:], "Pool2DOptions", padding=VALID, strideH=2, strideW=2, filterHeight=2,
                      filterWidth=2)
    elif kept == "an output":
        outputs.append(padded)
    path = file.write(tmp_path / "a.tflite", [x], outputs)
    with load_model(path, device) as model:
        assert [placed.node.op for placed in model.placement][:2] == ["PAD", "CONV_2D"]
        assert all(node.most <= 1 for node in compared(model, rng.integers(-128, 128, (1, 5, 5, 3), np.int8)).nodes)


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
