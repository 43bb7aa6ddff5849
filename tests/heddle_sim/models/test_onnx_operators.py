"""Operators of ONNX, each beside onnxruntime on the same operands."""

import numpy as np
import onnx
import pytest
from heddle import load_config
from heddle_sim import Device
from heddle_sim.models import load_model
from heddle_sim.models.comparison import compared
from heddle_verif.onnx_checks import F32, I8, I32, U8, check, random_of, scales
from heddle_verif.stimulus.onnx_files import write_onnx
from onnx import TensorProto
from onnx.helper import make_graph, make_node, make_tensor_value_info


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


@pytest.mark.parametrize("shape", [(), (1,), (3, 1, 1)])
def test_constant_addends_of_less_shape(tmp_path, device, shape):
    constants = {"s": F32(0.05), "z": I8(3), "c": random_of(I8, shape), "cs": F32(0.02), "cz": I8(-4), "ys": F32(0.08), "yz": I8(7)}
    node = make_node("QLinearAdd", ["x", "s", "z", "c", "cs", "cz", "ys", "yz"], ["y"], domain="com.microsoft")
    path = write_onnx(tmp_path / "a.onnx", [node], {"x": (I8, (1, 3, 4, 5))}, {"y": (I8, (1, 3, 4, 5))}, constants)
    check(path, device, ["device"])


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
    (make_node("Conv", ["x", "w"], ["y"]), (1, 2, 4, 4),
     "x must be quantised to 8 bits for Conv on the device, not float32; calibrate quantises networks of float32."),
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
    ({}, "must have all dimensions of input x bound"),
    ({"M": 2}, "shapes must name inputs or symbolic dimensions of the network (x, N), not 'M'"),
    ({"N": 1, "M": 2}, "shapes must name inputs or symbolic dimensions of the network (x, N), not 'M'"),
    ({"N": (1, 2)}, "shapes must name inputs or symbolic dimensions of the network (x, N), not 'N'"),
    ({"N": 2, "x": (1, 3, 8, 8)}, "shape of input x must have 2 on axis 0, not 1"),
    ({"x": (1, 4, 8, 8)}, "shape of input x must have 3 on axis 1, not 4"),
    ({"x": (1, 3, 8)}, "shape of input x must have 4 dimensions, not 3"),
])
def test_open_dimensions(tmp_path, shapes, says):
    with pytest.raises(ValueError) as failure:
        load_model(qdq_network(tmp_path / "a.onnx", I8), shapes=shapes)
    assert says in str(failure.value)


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
