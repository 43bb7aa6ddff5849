"""Operators of ONNX, each beside onnxruntime on the same operands."""

import numpy as np
import onnx
import pytest
from heddle import load_config
from heddle_sim import Device
from heddle_sim.models import load_model
from heddle_sim.models.comparison import compared
from heddle_sim.models.errors import Refusal
from heddle_sim.models.wide import weight_parts
from heddle_verif.stimulus.onnx_files import write_onnx
from onnx import TensorProto
from onnx.helper import make_graph, make_node, make_tensor_value_info

I8, U8, I32, F32 = np.int8, np.uint8, np.int32, np.float32


@pytest.fixture(scope="module")
def device():
    with Device("base", "golden", memory_bytes=1 << 20) as device:
        yield device


def random_of(dtype, shape, seed=1):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype) if np.dtype(dtype).itemsize == 1 else np.iinfo(np.int16)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def scales(count, seed=2):
    return np.random.default_rng(seed).uniform(0.01, 0.05, count).astype(F32)


def check(path, device, where, most=1, reason=None):
    """Nodes run where ``where`` says, and differ from the reference by at most ``most``."""
    with load_model(path, device) as model:
        assert [placed.where for placed in model.placement] == where, [node.why for node in model.placement]
        if reason:
            assert [placed.why for placed in model.placement if placed.where == "host"][0] == reason
        found = compared(model, {name: random_of(tensor.dtype, tensor.shape) for name, tensor in model.inputs().items()})
    assert all(one is not None and one.most <= most for one in found.nodes), found.nodes
    assert all(len(np.unique(array)) > 1 for array in found.result.outputs.values())
    return found


@pytest.mark.parametrize("size, channels, filters, kernel, attributes", [
    ((6, 7), 4, 8, (3, 3), dict(pads=[1, 1, 1, 1])),
    ((8, 8), 3, 5, (3, 3), dict(auto_pad="SAME_UPPER", strides=[2, 2])),
    ((7, 6), 6, 6, (3, 3), dict(group=6, pads=[1, 0, 1, 2])),
    ((16,), 4, 4, (3,), dict(pads=[1, 1])),
    ((9, 9), 2, 4, (3, 3), dict(dilations=[2, 2])),
])
@pytest.mark.parametrize("dtype", [I8, U8])
def test_qlinear_conv(tmp_path, device, size, channels, filters, kernel, attributes, dtype):
    group = attributes.get("group", 1)
    zero = np.array(np.iinfo(dtype).min + 90, dtype)
    constants = {"xs": F32(0.04), "xz": zero, "w": random_of(I8, (filters, channels // group, *kernel)), "ws": scales(filters),
                 "wz": np.zeros(filters, I8), "ys": F32(2.0), "yz": zero, "b": random_of(I32, (filters,))}
    nodes = [make_node("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], ["y"], **attributes)]
    path = write_onnx(tmp_path / "a.onnx", nodes, {"x": (dtype, (1, channels, *size))}, {"y": (dtype, ["?"] * (len(size) + 2))}, constants)
    check(path, device, ["device"])


def test_qlinear_matmul_and_add(tmp_path, device):
    """A product with scales of columns, then a bias of one row as a quantised addend."""
    constants = {"as": F32(0.04), "az": U8(120), "b": random_of(I8, (20, 6)), "bs": scales(6), "bz": np.zeros(6, I8), "ys": F32(0.9),
                 "yz": U8(130), "c": random_of(U8, (6,)), "cs": F32(0.5), "cz": U8(128), "zs": F32(1.1), "zz": U8(126)}
    nodes = [make_node("QLinearMatMul", ["a", "as", "az", "b", "bs", "bz", "ys", "yz"], ["p"]),
             make_node("QLinearAdd", ["p", "ys", "yz", "c", "cs", "cz", "zs", "zz"], ["y"], domain="com.microsoft")]
    check(write_onnx(tmp_path / "a.onnx", nodes, {"a": (U8, (3, 20))}, {"y": (U8, (3, 6))}, constants), device, ["device"] * 2)


@pytest.mark.parametrize("dtype, w_zero_point", [(I8, 0), (U8, 140)])
def test_integer_sums_are_equal(tmp_path, device, dtype, w_zero_point):
    """MatMulInteger and ConvInteger give int32, bit for bit."""
    constants = {"az": U8(120), "b": random_of(dtype, (20, 6)), "bz": np.array(w_zero_point, dtype), "w": random_of(dtype, (4, 3, 3, 3))}
    nodes = [make_node("MatMulInteger", ["a", "b", "az", "bz"], ["y"]), make_node("ConvInteger", ["x", "w", "az", "bz"], ["z"])]
    path = write_onnx(tmp_path / "a.onnx", nodes, {"a": (U8, (5, 20)), "x": (U8, (1, 3, 6, 6))},
                      {"y": (I32, (5, 6)), "z": (I32, (1, 4, 4, 4))}, constants)
    check(path, device, ["device"] * 2, most=0)


def qdq_network(path, activation, *, scale_of_result=0.7):
    """x → Conv → Relu or none → MaxPool → GlobalAveragePool → Flatten → Gemm, all between DequantizeLinear and QuantizeLinear."""
    constants = {"s": F32(0.05), "z": np.array(np.iinfo(activation).min + 100, activation), "w": random_of(I8, (8, 3, 3, 3)),
                 "ws": scales(8), "wz": np.zeros(8, I8), "b": random_of(I32, (8,)), "bs": F32(0.05) * scales(8), "bz": np.zeros(8, I32),
                 "s2": F32(scale_of_result), "v": random_of(I8, (5, 8)), "vs": scales(1)[0], "vz": I8(0),
                 "c": np.linspace(-20, 20, 5, dtype=F32)}

    def between(op, inputs, output, s_in, s_out, behind=None, **attributes):
        names = [f"{output}_{name}" for name in "dor"]
        nodes = [make_node("DequantizeLinear", [inputs[0], s_in, "z"], [names[0]]),
                 make_node(op, [names[0], *inputs[1:]], [names[1]], **attributes)]
        if behind:
            nodes.append(make_node(behind, [names[1]], [names[2]]))
        return [*nodes, make_node("QuantizeLinear", [nodes[-1].output[0], s_out, "z"], [output])]

    nodes = [make_node("DequantizeLinear", ["w", "ws", "wz"], ["wr"], axis=0),
             make_node("DequantizeLinear", ["b", "bs", "bz"], ["br"], axis=0),
             make_node("DequantizeLinear", ["v", "vs", "vz"], ["vr"]),
             *between("Conv", ["x", "wr", "br"], "c1", "s", "s2", "Relu", pads=[1] * 4),
             *between("MaxPool", ["c1"], "m", "s2", "s2", kernel_shape=[2, 2], strides=[2, 2]),
             *between("GlobalAveragePool", ["m"], "g", "s2", "s2"), *between("Flatten", ["g"], "f", "s2", "s2"),
             *between("Gemm", ["f", "vr", "c"], "y", "s2", "s2", transB=1)]
    return write_onnx(path, nodes, {"x": (activation, ("N", 3, 8, 8))}, {"y": (activation, ("N", 5))}, constants)


@pytest.mark.parametrize("activation", [I8, U8])
def test_qdq_forms_are_folded(tmp_path, device, activation):
    path = qdq_network(tmp_path / "a.onnx", activation)
    with load_model(path, device, shapes={"N": 2}) as model:
        assert [placed.node.op for placed in model.placement] == ["Conv", "MaxPool", "GlobalAveragePool", "Flatten", "Gemm"]
        assert [placed.where for placed in model.placement] == ["device", "device", "device", "host", "device"]
        found = compared(model, random_of(activation, (2, 3, 8, 8)))
    assert max(one.most for one in found.nodes) <= 1 and found.result.outputs["y"].shape == (2, 5)


@pytest.mark.parametrize("op, gates, count", [("LSTM", 4, 8), ("GRU", 3, 6), ("RNN", 1, 2)])
def test_recurrent_layers(tmp_path, op, gates, count):
    """On a configuration with the engine, near onnxruntime's floats; elsewhere on the host, equal."""
    constants = {"W": random_of(F32, (1, gates * 8, 5)) / 3, "R": random_of(F32, (1, gates * 8, 8)) / 3,
                 "B": random_of(F32, (1, count * 8)) / 9}
    nodes = [make_node(op, ["x", "W", "R", "B"], ["", "h"], hidden_size=8)]
    path = write_onnx(tmp_path / "a.onnx", nodes, {"x": (F32, (6, 1, 5))}, {"h": (F32, (1, 1, 8))}, constants)
    for engine in (True, False):
        with Device(load_config("base").replace(rnn=engine, sparse=engine), "golden", memory_bytes=1 << 20) as device:
            check(path, device, ["device" if engine else "host"], most=0.05 if engine else 0)


@pytest.mark.parametrize("node, shape, says", [
    (make_node("Conv", ["x", "w"], ["y"]), (1, 2, 4, 4), "x must be quantised to 8 bits for Conv on the device, not float32."),
    (make_node("Relu", ["x"], ["y"]), (1, 2, 4, 4), "Relu is no operation of the device."),
    (make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2]), (1, 2, 4, 4),
     "x must be int8 or uint8 for MaxPool on the device, not float32."),
])
def test_float_operators_run_on_the_host(tmp_path, device, node, shape, says):
    path = write_onnx(tmp_path / "a.onnx", [node], {"x": (F32, shape)}, {"y": (F32, ["?"] * 4)}, {"w": random_of(F32, (2, 2, 3, 3))})
    check(path, device, ["host"], most=0, reason=says)


@pytest.mark.parametrize("attributes, says", [
    (dict(strides=[0, 0], auto_pad="SAME_UPPER"), "strides must be 2 values of at least 1, not (0, 0)."),
    (dict(strides=[1, 0], ceil_mode=1), "strides must be 2 values of at least 1, not (1, 0)."),
    (dict(dilations=[0, 1]), "dilations must be 2 values of at least 1, not (0, 1)."),
    (dict(kernel_shape=[2]), "kernel_shape must be 2 values of at least 1, not (2,)."),
    (dict(auto_pad=b"\xff"), "attributes and operands of MaxPool must fit each other: "),
])
def test_windows_that_do_not_fit(tmp_path, device, attributes, says):
    """They are a reason before the run, and an error when the host comes to them."""
    path = write_onnx(tmp_path / "a.onnx", [make_node("MaxPool", ["x"], ["y"], **(dict(kernel_shape=[2, 2]) | attributes))],
                      {"x": (I8, (1, 2, 4, 4))}, {"y": (I8, (1, 2, 4, 4))}, {})
    with load_model(path, device) as model:
        (placed,) = model.placement
        assert placed.where == "host" and placed.why.startswith(says)
        with pytest.raises(ValueError, match=r"^node 0 y \(MaxPool\) must "):
            model.run(random_of(I8, (1, 2, 4, 4)))


def test_places_of_maxima_are_found_on_the_host(tmp_path, device):
    nodes = [make_node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2])]
    results = {"y": (U8, (1, 2, 4, 4)), "i": (np.int64, (1, 2, 4, 4))}
    path = write_onnx(tmp_path / "a.onnx", nodes, {"x": (U8, (1, 2, 5, 5))}, results, {}, 12)
    check(path, device, ["host"], most=0, reason="MaxPool must be without its second result (Indices) on the device.")


TAKEN = "one QuantizeLinear alone must take the result of Conv, behind Relu or Clip or none, not "


@pytest.mark.parametrize("behind, says", [
    ([], f"{TAKEN}an output of the network."),
    ([("QuantizeLinear", "c", "q"), ("Relu", "c", "r")], f"{TAKEN}QuantizeLinear, Relu."),
    ([("Relu", "c", "u"), ("Clip", "u", "t"), ("QuantizeLinear", "t", "q")], f"{TAKEN}Clip."),
    ([("Sigmoid", "c", "u"), ("QuantizeLinear", "u", "q")], f"{TAKEN}Sigmoid."),
    ([("QuantizeLinear", "c", "q"), ("Add", "d c", "r")], f"{TAKEN}QuantizeLinear, Add."),
])
def test_reasons_of_incomplete_qdq_forms(tmp_path, device, behind, says):
    """What takes the result of a node between DequantizeLinear and others."""
    constants = {"s": F32(0.05), "z": U8(120), "w": random_of(I8, (3, 3, 1, 1)), "ws": scales(3), "wz": np.zeros(3, I8)}
    nodes = [make_node("DequantizeLinear", ["x", "s", "z"], ["d"]), make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=0),
             make_node("Conv", ["d", "wd"], ["c"])]
    nodes += [make_node(op, [*names.split(), *(["s", "z"] if op == "QuantizeLinear" else [])], [name]) for op, names, name in behind]
    names = {"q": U8, "r": F32} if behind else {"c": F32}
    outputs = {name: (kind, (1, 3, 4, 4)) for name, kind in names.items() if name in {node.output[0] for node in nodes}}
    path = write_onnx(tmp_path / "a.onnx", nodes, {"x": (U8, (1, 3, 4, 4))}, outputs, constants)
    with load_model(path, device) as model:
        assert [placed.why for placed in model.placement if placed.node.op == "Conv"] == [says]
        assert {placed.where for placed in model.placement} == {"host"}


def test_reasons_of_sums(tmp_path, device):
    nodes = [make_node("DequantizeLinear", ["x", "s", "z"], ["d"]), make_node("Add", ["d", "f"], ["a"]),
             make_node("QuantizeLinear", ["a", "s", "z"], ["q"]), make_node("Add", ["x", "q"], ["y"])]
    inputs, constants = {"x": (U8, (2, 3)), "f": (F32, (2, 3))}, {"s": F32(0.05), "z": U8(9)}
    path = write_onnx(tmp_path / "a.onnx", nodes, inputs, {"y": (U8, (2, 3))}, constants)
    with load_model(path, device) as model:
        assert [placed.why for placed in model.placement if placed.node.op == "Add"] == [
            "operand 1 of Add must be quantised for the device, not float.",
            "addends must have scales on the device, not be plain uint8, whose sums wrap around."]
        assert {placed.where for placed in model.placement} == {"host"}


def test_scales_that_are_computed_are_refused(tmp_path, device):
    constants = {"w": random_of(I8, (4, 2, 1, 1)), "ws": F32(0.1), "wz": I8(0), "xz": I8(0)}
    nodes = [make_node("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ws", "wz"], ["y"])]
    path = write_onnx(tmp_path / "a.onnx", nodes, {"x": (I8, (1, 2, 3, 3)), "xs": (F32, ())}, {"y": (I8, (1, 4, 3, 3))}, constants)
    (placed,) = load_model(path, device).placement
    assert (placed.where, placed.why) == ("host", "scale of x must be constant, not computed.")


@pytest.mark.parametrize("content, says", [
    (b"", "must be an ONNX file with nodes, not one without"),
    (b"\x08\x09no protocol buffer", "must be an ONNX file, not one that does not parse"),
])
def test_files_that_do_not_parse(tmp_path, content, says):
    path = tmp_path / "a.onnx"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=says):
        load_model(path)


@pytest.mark.parametrize("shapes, says", [
    (None, "must have all dimensions of input x bound, not N open: give a shape (N=…)"),
    ({"N": 0}, "shape of N must be from 1 to 268435456, not 0"),
    ({"M": 2}, "must have all dimensions of input x bound"),
    ({"N": 1, "M": 2}, "shapes must name inputs or symbolic dimensions of the network, not M"),
    ({"x": (1, 4, 8, 8)}, "shape of input x must have 3 on axis 1, not 4"),
    ({"x": (1, 3, 8)}, "shape of input x must have 4 dimensions, not 3"),
])
def test_open_dimensions(tmp_path, shapes, says):
    with pytest.raises(ValueError) as failure:
        load_model(qdq_network(tmp_path / "a.onnx", I8), shapes=shapes)
    assert says in str(failure.value)


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


def test_nodes_in_any_order(tmp_path, device):
    """As onnxruntime takes them; a subgraph counts as what its node takes."""
    constants = {"w": random_of(F32, (4, 3)), "c": np.bool_(True), "one": F32(1)}
    branch = make_graph([make_node("Add", ["2", "one"], ["t"])], "branch", [], [make_tensor_value_info("t", TensorProto.FLOAT, (2, 3))])
    nodes = [make_node("Relu", ["3"], ["y"]), make_node("If", ["c"], ["3"], then_branch=branch, else_branch=branch),
             make_node("Neg", ["1"], ["2"]), make_node("MatMul", ["x", "w"], ["1"])]
    path = write_onnx(tmp_path / "a.onnx", nodes, {"x": (F32, (2, 4))}, {"y": (F32, (2, 3))}, constants)
    with load_model(path, device) as model:
        assert [placed.node.op for placed in model.placement] == ["MatMul", "Neg", "If", "Relu"]
        found = model.run(x := random_of(F32, (2, 4))).outputs["y"]
    np.testing.assert_allclose(found, np.maximum(1 - x @ constants["w"], 0), atol=1e-6)


@pytest.mark.parametrize("chosen", ["weights", "transposed", "both"])
def test_constants_that_are_computed_from_constants(tmp_path, device, chosen):
    """They are constants for the layers that take them; their nodes are gone."""
    constants = {"s": F32(0.05), "z": U8(120), "wf": random_of(F32, (3, 2, 3, 3)), "ws": scales(3), "wz": np.zeros(3, I8), "s2": F32(0.13),
                 "m": random_of(I8, (4, 8)), "zero": I8(0)}
    weights = [make_node("QuantizeLinear", ["wf", "ws", "wz"], ["wq"], axis=0),
               make_node("DequantizeLinear", ["wq", "ws", "wz"], ["wd"], axis=0), make_node("DequantizeLinear", ["x", "s", "z"], ["d"]),
               make_node("Conv", ["d", "wd"], ["c"]), make_node("QuantizeLinear", ["c", "s2", "z"], ["y"])]
    transposed = [make_node("Transpose", ["m"], ["1"], perm=[1, 0]), make_node("Sub", ["zero", "1"], ["2"]),
                  make_node("MatMulInteger", ["a", "2"], ["p"])]
    inputs = {"weights": {"x": (U8, (1, 2, 5, 5))}, "transposed": {"a": (I8, (2, 8))}}
    outputs = {"weights": {"y": (U8, (1, 3, 3, 3))}, "transposed": {"p": (I32, (2, 4))}}
    parts = ["weights", "transposed"] if chosen == "both" else [chosen]
    nodes = [node for part in parts for node in {"weights": weights, "transposed": transposed}[part]]
    path = write_onnx(tmp_path / "a.onnx", nodes, {key: value for part in parts for key, value in inputs[part].items()},
                      {key: value for part in parts for key, value in outputs[part].items()}, constants)
    found = check(path, device, ["device"] * len(parts))
    layers = {"weights": "Conv", "transposed": "MatMulInteger"}
    assert [node.placed.node.op for node in found.result.nodes] == [layers[part] for part in parts]


def test_what_is_not_computed_once(tmp_path, device):
    """Random numbers, large constants, and what onnxruntime cannot compute, which is an error when the node runs."""
    constants = {"shape": np.array([1 << 13, 1 << 12]), "one": F32(1), "few": np.array([2, 3]), "m": random_of(F32, (2, 3))}
    nodes = [make_node("RandomUniformLike", ["m"], ["1"]), make_node("Add", ["x", "1"], ["y"]),
             make_node("Expand", ["one", "shape"], ["2"]), make_node("ReduceMax", ["2"], ["3"], keepdims=0),
             make_node("Add", ["x", "3"], ["z"]), make_node("Identity", ["m"], ["u"])]
    path = write_onnx(tmp_path / "a.onnx", nodes, {"x": (F32, (2, 3))}, dict.fromkeys("yzu", (F32, (2, 3))), constants)
    with load_model(path, device) as model:
        assert [placed.node.op for placed in model.placement] == ["RandomUniformLike", "Add", "Expand", "ReduceMax", "Add"]
        np.testing.assert_array_equal(model.run(np.zeros((2, 3), F32)).outputs["u"], constants["m"])
    nodes = [make_node("Reshape", ["m", "few"], ["1"]), make_node("Gather", ["1", "far"], ["2"]), make_node("Add", ["x", "2"], ["y"])]
    path = write_onnx(tmp_path / "b.onnx", nodes, {"x": (F32, (3,))}, {"y": (F32, (3,))}, constants | {"far": np.array(9)})
    with load_model(path, device) as model, pytest.raises(ValueError, match=r"^node 1 2 \(Gather\) must "):
        model.run(np.zeros(3, F32))


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.UNDEFINED])
def test_outputs_without_a_shape(tmp_path, device, kind):
    """As onnxruntime takes them; also behind an operator of another domain."""
    nodes = [make_node("Relu", ["x"], ["y"]), make_node("Gelu", ["y"], ["z"], domain="com.microsoft")]
    path = write_onnx(tmp_path / "a.onnx", nodes, {"x": (F32, (2, 3))}, {}, {})
    model = onnx.load(path)
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in "yz")
    for value in model.graph.output if kind else ():
        value.type.tensor_type.elem_type = kind
    onnx.save(model, path)
    assert {array.shape for array in check(path, device, ["host"] * 2, most=0).result.outputs.values()} == {(2, 3)}


def test_values_that_are_no_tensors(tmp_path, device):
    nodes = [make_node("SequenceConstruct", ["x", "x"], ["s"]), make_node("ConcatFromSequence", ["s"], ["y"], axis=0)]
    path = write_onnx(tmp_path / "a.onnx", nodes, {"x": (F32, (2, 3))}, {"y": (F32, (4, 3))}, {})
    with pytest.raises(ValueError, match="a.onnx must have tensors between its nodes, not s, a sequence$"):
        load_model(path, device)


def test_negative_dimensions_are_open(tmp_path, device):
    """Some exporters write -1 for a dimension that is not known."""
    nodes = [make_node("MatMul", ["x", "w"], ["1"]), make_node("Relu", ["1"], ["y"])]
    path = write_onnx(tmp_path / "a.onnx", nodes, {"x": (F32, (-1, 4))}, {"y": (F32, (-1, 3))}, {"w": random_of(F32, (4, 3))})
    with pytest.raises(ValueError, match="all dimensions of input x bound, not axis 0 open"):
        load_model(path, device)
    with load_model(path, device, shapes={"x": (2, 4)}) as model:
        assert model.run(random_of(F32, (2, 4))).outputs["y"].shape == (2, 3)


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


def test_quantised_networks_take_no_samples(tmp_path):
    with pytest.raises(ValueError, match="calibrate must be none for a network that is quantised"):
        load_model(qdq_network(tmp_path / "a.onnx", I8), shapes={"N": 1}, calibrate={"x": np.zeros((1, 3, 8, 8), I8)})
    nodes = [make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]), make_node("MatMulInteger", ["q", "w", "z"], ["y"])]
    path = write_onnx(tmp_path / "b.onnx", nodes, {"x": (F32, (2, 4))}, {"y": (I32, (2, 3))}, {"w": random_of(I8, (4, 3))})
    with pytest.raises(ValueError, match="calibrate must be none for a network that is quantised"):
        load_model(path, calibrate={"x": np.zeros((2, 4), F32)})


def test_zero_points_that_are_computed(tmp_path, device):
    """As networks with dynamic quantisation have them: int32 sums, bit for bit."""
    constants = {"b": random_of(I8, (20, 6)), "w": random_of(I8, (4, 3, 3, 3))}
    nodes = [make_node("DynamicQuantizeLinear", ["f"], ["q", "s", "z"]), make_node("MatMulInteger", ["q", "b", "z"], ["y"]),
             make_node("DynamicQuantizeLinear", ["g"], ["r", "t", "u"]), make_node("ConvInteger", ["r", "w", "u"], ["v"], pads=[1] * 4)]
    path = write_onnx(tmp_path / "a.onnx", nodes, {"f": (F32, (5, 20)), "g": (F32, (1, 3, 6, 6))},
                      {"y": (I32, (5, 6)), "v": (I32, (1, 4, 6, 6))}, constants)
    check(path, device, ["host", "device"] * 2, most=0)


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


@pytest.mark.parametrize("a, b", [((2, 3, 5), (2, 5, 4)), ((3, 5), (2, 5, 4)), ((2, 1, 3, 5), (3, 5, 4)), ((2, 3, 5), (1, 5, 4))])
def test_batches_of_products(tmp_path, device, a, b):
    """Matrices of both factors are broadcast as ONNX does."""
    constants = {"as": F32(0.04), "az": I8(-3), "b": random_of(I8, b), "bs": F32(0.02), "bz": I8(0), "ys": F32(1.5), "yz": I8(4)}
    nodes = [make_node("QLinearMatMul", ["x", "as", "az", "b", "bs", "bz", "ys", "yz"], ["y"])]
    path = write_onnx(tmp_path / "a.onnx", nodes, {"x": (I8, a)}, {"y": (I8, ["?"] * max(len(a), len(b)))}, constants)
    check(path, device, ["device"])


@pytest.mark.parametrize("a, b, y", [((20,), (20, 6), (6,)), ((5, 20), (20,), (5,)), ((2, 3, 20), (20,), (2, 3)), ((20,), (20,), ())])
def test_products_of_vectors(tmp_path, device, a, b, y):
    path = write_onnx(tmp_path / "a.onnx", [make_node("MatMulInteger", ["a", "b", "z"], ["y"])], {"a": (U8, a)}, {"y": (I32, y)},
                      {"b": random_of(I8, b), "z": U8(120)})
    with load_model(path, device) as model:
        assert [placed.where for placed in model.placement] == ["device"], model.placement[0].why
        found = compared(model, random_of(U8, a))
    assert found.nodes[0] == (0, 1) and found.result.outputs["y"].shape == y


@pytest.mark.parametrize("a, b", [((5, 20), (20, 6)), ((2, 3, 20), (20, 6)), ((2, 3, 20), (2, 20, 6)), ((3, 20), (2, 1, 20, 6)),
                                  ((20,), (20, 6)), ((5, 20), (20,)), ((2, 2, 3, 20), (2, 20, 6))])
@pytest.mark.parametrize("zero_point", [0, 5])
def test_products_of_two_computed_factors(tmp_path, device, a, b, zero_point):
    """Sums bit for bit, and requantised; matrices of both factors are broadcast as ONNX does."""
    constants = {"as": F32(0.04), "az": U8(120), "bs": F32(0.02), "bz": I8(zero_point), "ys": F32(1.5), "yz": U8(130)}
    nodes = [make_node("MatMulInteger", ["a", "b", "az", "bz"], ["s"]),
             make_node("QLinearMatMul", ["a", "as", "az", "b", "bs", "bz", "ys", "yz"], ["y"])]
    rank = np.matmul(np.zeros(a), np.zeros(b)).ndim
    path = write_onnx(tmp_path / "a.onnx", nodes, {"a": (U8, a), "b": (I8, b)}, {"s": (I32, ["?"] * rank), "y": (U8, ["?"] * rank)},
                      constants)
    found = check(path, device, ["device"] * 2)
    assert found.nodes[0] == (0, 1)


def test_computed_factors_with_computed_zero_points(tmp_path, device):
    """Attention of a network with dynamic quantisation; a square, whose factors are one tensor; a constant first factor."""
    nodes = [make_node("DynamicQuantizeLinear", ["f"], ["q", "s", "z"]), make_node("DynamicQuantizeLinear", ["g"], ["r", "t", "u"]),
             make_node("MatMulInteger", ["q", "r", "z", "u"], ["y"]), make_node("MatMulInteger", ["q", "q", "z", "z"], ["v"]),
             make_node("MatMulInteger", ["w", "r", "", "u"], ["p"])]
    path = write_onnx(tmp_path / "a.onnx", nodes, {"f": (F32, (2, 9, 9)), "g": (F32, (2, 9, 7))},
                      {"y": (I32, ["?"] * 3), "v": (I32, ["?"] * 3), "p": (I32, ["?"] * 3)}, {"w": random_of(I8, (4, 9))})
    check(path, device, ["host"] * 2 + ["device"] * 3, most=0)


@pytest.mark.parametrize("attributes, a, b", [({"transB": 1}, (6, 20), (5, 20)), ({"transA": 1}, (20, 6), (20, 5)),
                                              ({"transA": 1, "transB": 1, "alpha": 0.5}, (20, 6), (5, 20))])
@pytest.mark.parametrize("constant", [True, False])
def test_transposed_factors_of_gemm(tmp_path, device, attributes, a, b, constant):
    """The second factor constant, or computed as the first one is."""
    constants = {"s": F32(0.05), "z": I8(-7), "ws": F32(0.01), "wz": I8(0 if constant else 3), "ys": F32(0.1), "yz": I8(3),
                 "b": np.linspace(-9000, 9000, 5).astype(I32), "bs": F32(0.0005)} | ({"w": random_of(I8, b)} if constant else {})
    nodes = [make_node("DequantizeLinear", ["x", "s", "z"], ["d"]), make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"]),
             make_node("DequantizeLinear", ["b", "bs"], ["bd"]), make_node("Gemm", ["d", "wd", "bd"], ["g"], **attributes),
             make_node("QuantizeLinear", ["g", "ys", "yz"], ["y"])]
    path = write_onnx(tmp_path / "a.onnx", nodes, {"x": (I8, a)} | ({} if constant else {"w": (I8, b)}), {"y": (I8, (6, 5))}, constants)
    check(path, device, ["device"])


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


def test_reason_of_means(tmp_path, device):
    """Over other axes than those of images."""
    constants = {"s": F32(0.05), "z": I8(3), "t": F32(0.02), "axes": np.array([1])}
    nodes = [make_node("DequantizeLinear", ["x", "s", "z"], ["d"]), make_node("ReduceMean", ["d", "axes"], ["m"]),
             make_node("QuantizeLinear", ["m", "t", "z"], ["y"])]
    path = write_onnx(tmp_path / "a.onnx", nodes, {"x": (I8, (2, 4, 5, 5))}, {"y": (I8, (2, 1, 5, 5))}, constants)
    check(path, device, ["host"], reason="axes of ReduceMean must be all behind the channels of images, not 1 of 4.")


@pytest.mark.parametrize("each", [False, True])
def test_lstm_with_dynamic_quantisation(tmp_path, device, each):
    """Of onnxruntime's quantiser: weights in columns, int8, with a scale for each direction or each of its columns."""
    steps, inputs, hidden, directions = 5, 6, 8, 2
    w, r = random_of(I8, (directions, inputs, 4 * hidden)), random_of(I8, (directions, hidden, 4 * hidden), 2)
    shape = (directions, 4 * hidden) if each else (directions,)
    constants = {"w": w, "r": r, "b": random_of(F32, (directions, 8 * hidden)) / 4, "ws": scales(np.prod(shape)).reshape(shape) / 8,
                 "wz": np.zeros(shape, I8), "rs": scales(np.prod(shape), 3).reshape(shape) / 8, "rz": np.zeros(shape, I8)}
    nodes = [make_node("DynamicQuantizeLSTM", ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"], ["y"], hidden_size=hidden,
                       direction="bidirectional", domain="com.microsoft")]
    path = write_onnx(tmp_path / "a.onnx", nodes, {"x": (F32, (steps, 1, inputs))}, {"y": (F32, (steps, directions, 1, hidden))}, constants)
    check(path, device, ["device"], most=0.03)


def test_loaded_networks_keep_nothing_of_computed_factors(tmp_path, device):
    """Weights that stay are constants alone."""
    constants = {"az": U8(120), "bz": I8(5)}
    nodes = [make_node("MatMulInteger", ["a", "b", "az", "bz"], ["y"])]
    path = write_onnx(tmp_path / "a.onnx", nodes, {"a": (U8, (5, 20)), "b": (I8, (20, 6))}, {"y": (I32, (5, 6))}, constants)
    with load_model(path, device) as model, device.load(model) as loaded:
        for seed in (1, 2):
            a, b = random_of(U8, (5, 20), seed), random_of(I8, (20, 6), seed)
            wanted = (a.astype(I32) - 120) @ (b.astype(I32) - 5)
            assert np.array_equal(loaded({"a": a, "b": b}).outputs["y"], wanted) and loaded.weight_bytes == 0


@pytest.mark.parametrize("alpha, where", [(1.0, "device"), (0.5, "host")])
def test_alpha_with_a_bias_of_plain_integers(tmp_path, device, alpha, where):
    """The bias of QGemm is in units of the sums, which alpha changes."""
    constants = {"as": F32(0.05), "az": U8(120), "w": random_of(I8, (12, 5)), "bs": F32(0.01), "bz": I8(0),
                 "c": np.linspace(-9000, 9000, 5).astype(I32), "ys": F32(0.1), "yz": U8(130)}
    nodes = [make_node("QGemm", ["a", "as", "az", "w", "bs", "bz", "c", "ys", "yz"], ["y"], domain="com.microsoft", alpha=alpha)]
    path = write_onnx(tmp_path / "a.onnx", nodes, {"a": (U8, (4, 12))}, {"y": (U8, (4, 5))}, constants)
    check(path, device, [where], reason="alpha must be 1 with a bias of plain integers, not 0.5." if where == "host" else None)


@pytest.mark.parametrize("alpha, beta, bias, where", [(0.5, 1.0, I32, "device"), (1.0, 2.0, I32, "device"), (1.5, -0.5, F32, "device"),
                                                      (1.0, 0.0, I32, "device"), (-1.0, 1.0, I32, "host")])
def test_factors_of_gemm(tmp_path, device, alpha, beta, bias, where):
    """They become part of scales and biases."""
    constants = {"s": F32(0.05), "z": I8(-7), "w": random_of(I8, (5, 12)), "ws": F32(0.01), "wz": I8(0), "ys": F32(0.1), "yz": I8(3),
                 "b": np.linspace(-9000, 9000, 5).astype(I32) if bias is I32 else np.linspace(-4, 4, 5).astype(F32), "bs": F32(0.0005)}
    nodes = [make_node("DequantizeLinear", ["x", "s", "z"], ["d"]), make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"]),
             *([make_node("DequantizeLinear", ["b", "bs"], ["bd"])] if bias is I32 else []),
             make_node("Gemm", ["d", "wd", "bd" if bias is I32 else "b"], ["g"], transB=1, alpha=alpha, beta=beta),
             make_node("QuantizeLinear", ["g", "ys", "yz"], ["y"])]
    path = write_onnx(tmp_path / "a.onnx", nodes, {"x": (I8, (4, 12))}, {"y": (I8, (4, 5))}, constants)
    check(path, device, [where], reason="alpha must be positive, not -1." if where == "host" else None)
