"""Float networks of ONNX that are quantised from samples: what runs on the device, how near it is, and samples that do not fit."""

import numpy as np
import pytest
from heddle_sim.models import load_model
from heddle_sim.models.comparison import compared
from heddle_sim.models.errors import Refusal
from heddle_sim.models.wide import weight_parts
from heddle_verif.onnx_checks import F32, I32, random_of
from heddle_verif.stimulus.onnx_files import write_onnx
from onnx import TensorProto
from onnx.helper import make_graph, make_node, make_tensor_value_info


def float_network(path):
    """x → Conv → Relu → Conv of groups, added to what it was made of → GlobalAveragePool → Flatten → Gemm → Softmax, in float32."""
    rng = np.random.default_rng(8)
    constants = {name: rng.standard_normal(shape).astype(F32) for name, shape in
                 (("w", (8, 3, 3, 3)), ("b", (8,)), ("v", (8, 1, 3, 3)), ("u", (5, 8)), ("c", (5,)))}
    nodes = [make_node("Conv", ["x", "w", "b"], ["1"], pads=[1] * 4, strides=[2, 2]), make_node("Relu", ["1"], ["2"]),
             make_node("Conv", ["2", "v"], ["3"], pads=[1] * 4, group=8), make_node("Add", ["3", "2"], ["4"]),
             make_node("GlobalAveragePool", ["4"], ["5"]), make_node("Flatten", ["5"], ["6"]),
             make_node("Gemm", ["6", "u", "c"], ["7"], transB=1), make_node("Softmax", ["7"], ["y"])]
    return write_onnx(path, nodes, {"x": (F32, (1, 3, 8, 8))}, {"y": (F32, (1, 5))}, constants)


def test_float_networks_are_quantised_from_samples(tmp_path, device):
    """Its operators run on the device then, near the float network."""
    path, samples = float_network(tmp_path / "a.onnx"), random_of(F32, (16, 1, 3, 8, 8), 5)
    with load_model(path, device) as floats, load_model(path, device, calibrate={"x": samples}) as quantised:
        assert {placed.where for placed in floats.placement} == {"host"}
        on_device = [placed.node.op for placed in quantised.placement if placed.where == "device"]
        assert on_device == ["Conv", "Conv", "Add", "GlobalAveragePool", "Gemm"]
        found = compared(quantised, samples[0])
        near = floats.run(samples[0]).outputs["y"]
    assert max(one.most for node, one in zip(quantised.placement, found.nodes) if node.where == "device") <= 1
    assert np.abs(found.result.outputs["y"] - near).max() < 0.1


def test_samples_of_scalars(tmp_path, device):
    """A scalar input, as a sampling rate is; what it decides is known from the samples."""
    constants = {"w": random_of(F32, (4, 3)), "v": random_of(F32, (3, 3)), "rate": np.int64(16000), "axes": np.array([0], np.int64)}
    taken = make_graph([make_node("Identity", ["1"], ["t"])], "taken", [], [make_tensor_value_info("t", TensorProto.FLOAT, ("p", "q"))])
    other = make_graph([make_node("Squeeze", ["1", "axes"], ["u"])], "other", [], [make_tensor_value_info("u", TensorProto.FLOAT, ("q",))])
    nodes = [make_node("MatMul", ["x", "w"], ["0"]), make_node("MatMul", ["0", "v"], ["1"]), make_node("Equal", ["r", "rate"], ["e"]),
             make_node("If", ["e"], ["2"], then_branch=taken, else_branch=other), make_node("Relu", ["2"], ["y"])]
    path = write_onnx(tmp_path / "a.onnx", nodes, {"x": (F32, (1, 4)), "r": (np.int64, ())}, {"y": (F32, ("p", "q"))}, constants)
    inputs = {"x": random_of(F32, (1, 4)), "r": np.array(16000)}
    with load_model(path, device, calibrate=inputs) as model:
        assert [placed.where for placed in model.placement if placed.node.op == "MatMul"] == ["device", "host"]
        found = model.run(inputs).outputs["y"]
    np.testing.assert_allclose(found, np.maximum(inputs["x"] @ constants["w"] @ constants["v"], 0), atol=0.1)


@pytest.mark.parametrize("batch", [1, 2])
def test_products_of_a_constant_and_activations(tmp_path, device, batch):
    """A transform, as of audio: it runs as a convolution, with a scale for each of its rows."""
    constants = {"w": random_of(F32, (6, 4)) * F32([[0.1], [1], [5], [1], [1], [2]])}
    nodes = [make_node("MatMul", ["w", "x"], ["1"]), make_node("Relu", ["1"], ["y"])]
    path = write_onnx(tmp_path / "a.onnx", nodes, {"x": (F32, (batch, 4, 9))}, {"y": (F32, (batch, 6, 9))}, constants)
    x = random_of(F32, (batch, 4, 9))
    with load_model(path, device, calibrate={"x": x}) as model:
        assert [placed.node.op for placed in model.placement if placed.where == "device"] == ["Conv"]
        found = model.run(x).outputs["y"]
    np.testing.assert_allclose(found, np.maximum(constants["w"] @ x, 0), atol=0.2)


def test_a_bias_of_several_layers(tmp_path, device):
    """Its copies have names of their own, though tensors are called like it with a number."""
    constants = {"w": random_of(F32, (4, 4, 1)), "b": random_of(F32, (4,))}
    nodes = [make_node("Conv", ["x", "w", "b"], ["b0"]), make_node("Conv", ["b0", "w", "b"], ["b1"]),
             make_node("Conv", ["b1", "w", "b"], ["b2"]), make_node("Neg", ["b2"], ["y"])]
    path = write_onnx(tmp_path / "a.onnx", nodes, {"x": (F32, (1, 4, 6))}, {"y": (F32, (1, 4, 6))}, constants)
    x = random_of(F32, (1, 4, 6))
    with load_model(path, device) as floats, load_model(path, device, calibrate={"x": x}) as quantised:
        assert [placed.where for placed in quantised.placement if placed.node.op == "Conv"] == ["device"] * 3
        near = floats.run(x).outputs["y"]
        np.testing.assert_allclose(quantised.run(x).outputs["y"], near, atol=0.05 * np.abs(near).max())


@pytest.mark.parametrize("rows, where", [(1, "device"), (2, "host")])
def test_biases_of_two_dimensions(tmp_path, device, rows, where):
    """Which onnxruntime's quantiser does not expect."""
    constants = {"w": random_of(F32, (4, 3)), "b": random_of(F32, (rows, 3))}
    nodes = [make_node("MatMul", ["x", "w"], ["1"]), make_node("Add", ["1", "b"], ["y"])]
    path = write_onnx(tmp_path / "a.onnx", nodes, {"x": (F32, (2, 4))}, {"y": (F32, (2, 3))}, constants)
    x = random_of(F32, (2, 4))
    with load_model(path, device, calibrate={"x": x}) as model:
        assert [placed.where for placed in model.placement if placed.node.op == "Gemm"] == [where]
        found = compared(model, {"x": x}).result.outputs["y"]
    np.testing.assert_allclose(found, x @ constants["w"] + constants["b"], atol=0.1)


def test_what_belongs_to_a_layer_joins_it(tmp_path, device):
    """Padding in front of a convolution, normalisation behind it, the addend of a product: none is a node of the host."""
    rng = np.random.default_rng(12)
    constants = {name: rng.uniform(0.5, 1, shape).astype(F32) for name, shape in
                 (("w", (8, 3, 3, 3)), ("s", (8,)), ("o", (8,)), ("m", (8,)), ("v", (8,)), ("u", (8, 5)), ("c", (5,)))}
    constants["p"] = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    nodes = [make_node("Pad", ["x", "p"], ["0"]), make_node("Conv", ["0", "w"], ["1"]),
             make_node("BatchNormalization", ["1", "s", "o", "m", "v"], ["2"]), make_node("Relu", ["2"], ["3"]),
             make_node("GlobalAveragePool", ["3"], ["4"]), make_node("Flatten", ["4"], ["5"]), make_node("MatMul", ["5", "u"], ["6"]),
             make_node("Add", ["6", "c"], ["y"])]
    path = write_onnx(tmp_path / "a.onnx", nodes, {"x": (F32, (1, 3, 8, 8))}, {"y": (F32, (1, 5))}, constants)
    samples = random_of(F32, (16, 1, 3, 8, 8), 5)
    with load_model(path, device) as floats, load_model(path, device, calibrate={"x": samples}) as quantised:
        of_host = {placed.node.op for placed in quantised.placement if placed.where == "host"}
        assert of_host <= {"QuantizeLinear", "DequantizeLinear", "Flatten"}
        assert [placed.node.op for placed in quantised.placement if placed.where == "device"] == ["Conv", "GlobalAveragePool", "Gemm"]
        found = compared(quantised, samples[0])
        near = floats.run(samples[0]).outputs["y"]
    assert max(one.most for node, one in zip(quantised.placement, found.nodes) if node.where == "device") <= 1
    assert np.abs(found.result.outputs["y"] - near).max() < 0.05 * np.abs(near).max()


def test_sixteen_bits_from_samples(tmp_path, device):
    """Convolutions and products on the device, in digits of their weights; hundreds of times nearer to the float network than 8 bits."""
    path, samples = float_network(tmp_path / "a.onnx"), random_of(F32, (16, 1, 3, 8, 8), 5)
    with load_model(path, device) as floats, load_model(path, device, calibrate={"x": samples}, activation_bits=16) as quantised:
        assert [placed.node.op for placed in quantised.placement if placed.where == "device"] == ["Conv", "Conv", "Gemm"]
        assert {len(placed.operation.parts) for placed in quantised.placement if placed.where == "device"} == {2}
        found = compared(quantised, samples[0])
        near = floats.run(samples[0]).outputs["y"]
    assert max(one.most for node, one in zip(quantised.placement, found.nodes) if node.where == "device") <= 1
    assert np.abs(found.result.outputs["y"] - near).max() < 1e-3
    assert [node.stats.macs for node in found.result.nodes if node.stats] == [4 * 4 * 8 * 27, 4 * 4 * 8 * 9, 40]


@pytest.mark.parametrize("calibrate, bits, says", [
    ({}, 16, "activation_bits must be 8 without calibrate, not 16"),
    ({"x": np.zeros((1, 3, 8, 8), F32)}, 12, "activation_bits must be 8 or 16, not 12"),
    ({"x": np.zeros((1, 3, 8, 8), F32)}, 4, "activation_bits must be from 8 to 16, not 4"),
])
def test_wrong_bits_of_activations(tmp_path, calibrate, bits, says):
    with pytest.raises(ValueError) as failure:
        load_model(float_network(tmp_path / "a.onnx"), calibrate=calibrate, activation_bits=bits)
    assert str(failure.value) == says


@pytest.mark.parametrize("w, parts", [
    (np.full((2, 100), 655), 1), (np.full((2, 100), -656), 2), (np.full((2, 511), -32768), 2), (np.full((1, 512), 32767), 0),
    (np.array([[32767, -32768, 127, -128, 128, -129, 0, 255]]), 2), (np.full((3, 2), -32767), 1)])
def test_digits_of_weights(w, parts):
    """Each part with any activations within 32 bits, and together the weights; refused where digits are not enough."""
    if not parts:
        with pytest.raises(Refusal, match="sums of 16-bit activations must be at most 2147483647, not "):
            weight_parts(w)
        return
    found = weight_parts(w)
    assert len(found) == parts and np.array_equal(sum(factor * part.astype(int) for factor, part in found), w)
    assert all(np.abs(part.astype(int)).sum(axis=1).max() * 32768 < 1 << 31 for _, part in found)


def test_pools_behind_float_nodes_are_quantised(tmp_path, device):
    nodes = [make_node("Sigmoid", ["x"], ["1"]), make_node("MaxPool", ["1"], ["y"], kernel_shape=[2, 2], strides=[2, 2])]
    path = write_onnx(tmp_path / "a.onnx", nodes, {"x": (F32, (1, 3, 8, 8))}, {"y": (F32, (1, 3, 4, 4))}, {})
    model = load_model(path, device, calibrate={"x": np.random.default_rng(2).standard_normal((4, 1, 3, 8, 8)).astype(F32)})
    assert {placed.node.op: placed.where for placed in model.placement}["MaxPool"] == "device"


def test_samples_along_a_batch(tmp_path, device):
    """Three images along the first axis are three samples of one."""
    images = np.random.default_rng(2).standard_normal((3, 3, 8, 8)).astype(F32)
    path, x = float_network(tmp_path / "a.onnx"), {"x": images[:1]}
    results = [load_model(path, device, calibrate={"x": samples}).run(x).outputs["y"] for samples in (images, images[:, None])]
    assert np.array_equal(*results)


@pytest.mark.parametrize("samples, says", [
    ({"z": np.zeros((1, 3, 8, 8), F32)}, "calibrate must have samples of x, not of z"),
    ({"x": np.zeros((3, 8, 8), F32)}, "calibrate x must have shape (1, 3, 8, 8), or more of them along a first axis, not (3, 8, 8)"),
    ({"x": np.zeros((1, 3, 8, 8), I32)}, "calibrate x must be an array of float32, not int32"),
    ({"x": np.full((1, 3, 8, 8), np.nan, F32)}, "calibrate x must have finite numbers, not nan"),
    ({"x": np.full((1, 3, 8, 8), -1e99)}, "calibrate x must have finite numbers, not -inf"),
])
def test_samples_that_do_not_fit(tmp_path, samples, says):
    with pytest.raises((ValueError, TypeError)) as failure:
        load_model(float_network(tmp_path / "a.onnx"), calibrate=samples)
    assert str(failure.value) == says


def test_samples_of_float64(tmp_path):
    """They are those of float32, of which the input is."""
    samples, path = random_of(F32, (2, 1, 3, 8, 8), 5), float_network(tmp_path / "a.onnx")
    one, other = (load_model(path, "base", simulator="golden", calibrate={"x": samples.astype(dtype)}) for dtype in (F32, np.float64))
    x = samples[1]
    np.testing.assert_array_equal(one.run(x).outputs["y"], other.run(x).outputs["y"])


@pytest.mark.parametrize("op, gates", [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers_with_calibrated_ranges(tmp_path, device, op, gates):
    """Ranges of samples instead of those of each call: near the float network within them, the same for parts of a sequence."""
    rng = np.random.default_rng(5)
    steps, inputs, hidden = 6, 5, 8
    constants = {name: rng.normal(0, 0.3, (1, gates * hidden, width)).astype(F32) for name, width in (("w", inputs), ("r", hidden))}
    path = write_onnx(tmp_path / "a.onnx", [make_node(op, ["x", "w", "r"], ["y"], hidden_size=hidden)], {"x": (F32, (steps, 1, inputs))},
                      {"y": (F32, ["?"] * 4)}, constants)
    samples = rng.normal(0, 1, (4, steps, 1, inputs)).astype(F32)
    with load_model(path, device, calibrate={"x": samples}) as model:
        (placed,) = model.placement
        assert placed.where == "device", placed.why
        assert len(placed.operation.form["quantised"]) == 1
        found = compared(model, {"x": samples[0]})
        assert found.nodes[0].most < 0.02
        small = model.run({"x": samples[0] / 64}).outputs["y"]
    with load_model(path, device) as model:
        assert not np.array_equal(small, model.run({"x": samples[0] / 64}).outputs["y"])     # ranges of its own


@pytest.mark.parametrize("opset", [17, 21])
@pytest.mark.parametrize("axes, where", [([2, 3], "device"), ([-1, -2], "device"), ([1], "host")])
def test_means_of_images(tmp_path, device, opset, axes, where):
    """ReduceMean as an average of whole images, its axes an attribute or an operand; others stay float where a network is quantised."""
    constants = {"w": random_of(F32, (8, 3, 3, 3)), "axes": np.array(axes)}
    mean = (make_node("ReduceMean", ["c", "axes"], ["m"], keepdims=0) if opset >= 18 else
            make_node("ReduceMean", ["c"], ["m"], axes=axes, keepdims=0))
    nodes = [make_node("Conv", ["x", "w"], ["c"]), mean, make_node("Tanh", ["m"], ["y"])]
    path = write_onnx(tmp_path / "a.onnx", nodes, {"x": (F32, (1, 3, 8, 8))}, {"y": (F32, ["?"] * (4 - len(axes)))}, constants, opset)
    x = random_of(F32, (1, 3, 8, 8))
    with load_model(path, device, calibrate={"x": x}) as model:
        (placed,) = (placed for placed in model.placement if placed.node.op == "ReduceMean")
        assert placed.where == where, placed.why
        found = compared(model, x)
    assert all(one.most <= (1 if node.node.op == "ReduceMean" else 2) for node, one in zip(model.placement, found.nodes))
