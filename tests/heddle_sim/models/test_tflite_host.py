"""Operators of TFLite that run on the host, subgraphs, and what is refused; each beside LiteRT's reference kernels."""

import numpy as np
import pytest
from heddle_sim import Device
from heddle_sim.models import load_model
from heddle_sim.models.comparison import compared
from heddle_sim.models.tflite import host
from heddle_verif.stimulus.tflite_files import TfliteFile
from heddle_verif.tflite_checks import NONE, RELU, SAME, VALID, X, check, convolution, one_operator, rng_of

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
