"""``heddle run FILE``: where nodes run, what they took, how they compare; one line for what is wrong."""

import numpy as np
import onnx
import pytest
from heddle_verif.command_line import answer, call
from heddle_verif.stimulus.onnx_files import write_onnx
from heddle_verif.stimulus.tflite_files import TfliteFile, pooling_network
from onnx import TensorProto
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

GOLDEN = ["--config", "tiny", "--simulator", "golden", "--memory-mib", "1"]


@pytest.fixture
def network(tmp_path):
    return pooling_network(tmp_path / "network.tflite")


def test_rows(network, capsys):
    """A row for each node, with reason, figures and comparison, and one for the network."""
    found = answer(capsys, "run", str(network), "--compare", *GOLDEN)
    assert (found["bench"], found["config"]) == ("model", "tiny")
    pool, logistic, whole = found["rows"]
    assert {"op": "MAX_POOL_2D", "node": "0 pooled", "where": "device", "why": "Runs as Device.max_pool.", "cycles": None,
            "utilization": None, "max_difference": 0, "equal_share": 1.0}.items() <= pool.items()
    assert {"op": "LOGISTIC", "where": "host", "why": "LOGISTIC is no operation of the device.", "cycles": None}.items() <= logistic.items()
    assert {"op": "network", "node": "network.tflite", "where": "1 of 2 on the device", "simulator": "golden",
            "same_class": True}.items() <= whole.items()
    assert whole["max_difference"] <= 1 and set(whole["outputs"]) == {"y"} and whole["host_seconds"] > 0


def test_the_placement_comes_before_the_run(network, capsys):
    code, out, err = call(capsys, "run", "model", str(network), *GOLDEN)
    assert (code, err) == (0, "")
    placement, figures = out.split("\n\n")
    assert "why" in placement.splitlines()[0] and "LOGISTIC is no operation of the device." in placement
    assert "cycles" in figures.splitlines()[0] and len(figures.splitlines()) == 4


def test_the_placement_comes_before_the_device_is_made(network, capsys):
    code, out, err = call(capsys, "run", str(network), *GOLDEN, "--bandwidth", "2")
    assert code == 2 and "Runs as Device.max_pool." in out and err.startswith("heddle run: error: bandwidth must be above 0")


def test_inputs_from_files(network, capsys, tmp_path):
    """The same elements by either way of naming them."""
    np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(-128, 128, (1, 4, 4, 3), np.int8))
    rows = [answer(capsys, "run", str(network), "--compare", *words, *GOLDEN)["rows"]
            for words in (["--input", str(tmp_path / "x.npy")], ["--input", f"x={tmp_path / 'x.npy'}"], ["--input", "random"])]
    assert all(row[2]["outputs"] == rows[0][2]["outputs"] for row in rows)


@pytest.mark.parametrize("dimensions, words", [
    (["batch", 3, "width"], []), (["?", 3, "?"], []), ([-1, 3, -1], []), (["batch", 3, "width"], ["--shape", "batch=2"])])
@pytest.mark.parametrize("name", ["", "x="])
def test_a_file_binds_open_dimensions(capsys, tmp_path, dimensions, words, name):
    inputs, outputs = ({tensor: (np.float32, dimensions)} for tensor in "xy")
    path = write_onnx(tmp_path / "a.onnx", [make_node("Relu", ["x"], ["y"])], inputs, outputs, {})
    np.save(tmp_path / "x.npy", np.ones((2, 3, 5), np.float32))
    _, summary = answer(capsys, "run", str(path), "--compare", "--input", f"{name}{tmp_path / 'x.npy'}", *words, *GOLDEN)["rows"]
    assert summary["outputs"]["y"] == {"most": 0, "equal_share": 1}
    code, _, err = call(capsys, "run", str(path), "--shape", "x=2,4,5", "--input", str(tmp_path / "x.npy"), *GOLDEN)
    assert code == 2 and "shape of input x must have 3 on axis 1, not 4" in err


def test_samples_beside_a_network(network, capsys, tmp_path):
    """The seed says which of the samples; a file of one, or of several by the name of the input."""
    samples = np.random.default_rng(0).integers(-128, 128, (3, 1, 4, 4, 3), np.int8)
    np.save(tmp_path / "one.npy", samples[2])
    wanted = answer(capsys, "run", str(network), "--compare", "--input", str(tmp_path / "one.npy"), *GOLDEN)["rows"][2]["outputs"]
    for save in (lambda: np.save(tmp_path / "network.npy", samples), lambda: np.savez(tmp_path / "network.npz", x=samples)):
        save()
        found = answer(capsys, "run", str(network), "--compare", "--input", "dataset", "--seed", "5", *GOLDEN)["rows"][2]["outputs"]
        assert found == wanted


@pytest.mark.parametrize("words, says", [
    (["--input", "dataset"], "--input dataset must find network.npy or network.npz beside "),
    (["--input", "z=x.npy"], "--input must name one of the inputs x, not 'z'"),
    (["--input", "small.npy"], "input x must have shape (1, 4, 4, 3), not (2,)"),
    (["--input", "float.npy"], "input x must be an array of int8, not float64"),
    (["--input", "text.npy"], "text.npy must hold an array in numpy's format: "),
    (["--input", "many.npz"], "many.npz must hold one array (.npy), not several"),
    (["--config", "nope"], "configuration must be one of base, "),
])
def test_wrong_use_is_2_and_one_line(network, capsys, tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    np.save("small.npy", np.zeros(2, np.int8))
    np.save("float.npy", np.zeros((1, 4, 4, 3)))
    np.savez("many.npz", np.zeros(2), np.zeros(2))
    (tmp_path / "text.npy").write_text("no array")
    code, out, err = call(capsys, "run", str(network), *GOLDEN, *words)
    assert code == 2 and err.count("\n") == 1 and says in err


def test_several_inputs_are_named(capsys, tmp_path):
    file = TfliteFile()
    a, b, y = (file.tensor(name, (1, 4), scale=0.5) for name in "aby")
    file.operator("ADD", [a, b], [y], "AddOptions")
    path = file.write(tmp_path / "sum.tflite", [a, b], [y])
    code, _, err = call(capsys, "run", str(path), "--input", "x.npy", *GOLDEN)
    assert code == 2 and "--input must be NAME=FILE.npy for a network with 2 inputs (a, b), not 'x.npy'" in err


@pytest.mark.parametrize("name, content, code, says", [
    ("missing.tflite", None, 2, "missing.tflite"),
    ("network.bin", b"", 2, "path must end in .tflite or .onnx, not 'network.bin'"),
    ("empty.tflite", b"", 2, "must be a TFLite file with TFL3 at byte 4, not b''"),
    ("text.tflite", b"0123TFL3 and then some text that is no table at all", 2, "must be a whole TFLite file, not one that ends or points"),
])
def test_bad_files(capsys, tmp_path, name, content, code, says):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    found, out, err = call(capsys, "run", str(tmp_path / name), *GOLDEN)
    assert (found, out, err.count("\n")) == (code, "", 1) and says in err


def relu_network(path, shape=(2,), outputs=("y",), **options):
    """A file with one node of the host."""
    graph = make_graph([make_node("Relu", ["x"], ["y"])], "network", [make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                       [make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in outputs])
    onnx.save(make_model(graph, opset_imports=[make_opsetid("", options.pop("opset", 21))], ir_version=options.pop("ir", 10)), path)
    return path


@pytest.mark.parametrize("options, says", [
    ({"outputs": ()}, "must have at least one output, not none"),
    ({"shape": ("N", None)}, "must have all dimensions of input x bound, not N open: give a shape (N=…)"),
    ({"shape": (-1, 3)}, "must have all dimensions of input x bound, not axis 0 open: give a shape (x=…)"),
    ({"shape": (1 << 20, 1 << 20)}, "tensor x must have at most 268435456 elements, not 1099511627776"),
    ({"opset": 99}, "must have operators of a version up to "),
    ({"opset": 1}, "node 0 y (Relu) must be of operators that onnxruntime has: "),
    ({"ir": 99}, "must be a valid ONNX file: Your model ir_version 99 is higher "),
])
def test_unusual_onnx_files(capsys, tmp_path, options, says):
    path = relu_network(tmp_path / "a.onnx", **options)
    code, _, err = call(capsys, "run", str(path), *GOLDEN, "--json")
    assert (code, err.count("\n")) == (2, 1) and says in err


def test_constants_in_a_file_that_is_missing(capsys, tmp_path):
    """Or too short, or elsewhere."""
    path = write_onnx(tmp_path / "a.onnx", [make_node("Add", ["x", "w"], ["y"])], {"x": (np.float32, (4,))}, {"y": (np.float32, (4,))},
                      {"w": np.ones(4, np.float32)})
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="w.data", size_threshold=0)
    for content in (b"12", None):
        (tmp_path / "w.data").write_bytes(content) if content else (tmp_path / "w.data").unlink()
        code, out, err = call(capsys, "run", str(path), *GOLDEN)
        assert (code, out, err.count("\n")) == (2, "", 1) and "must have the data of its constants in files beside it: " in err


@pytest.mark.parametrize("shape", [(), (0, 3)])
def test_few_elements(capsys, tmp_path, shape):
    """A scalar, and none at all."""
    rows = answer(capsys, "run", str(relu_network(tmp_path / "a.onnx", shape)), "--compare", *GOLDEN)["rows"]
    assert rows[-1]["outputs"]["y"]["most"] == 0


def test_damaged_files_are_refused_or_run(network, capsys, tmp_path):
    """Bytes changed and ends cut off: one line, or a network that differs in its numbers only."""
    content, rng, damaged = network.read_bytes(), np.random.default_rng(5), tmp_path / "damaged.tflite"
    for number in range(80):
        changed = bytearray(content if number % 3 else content[:rng.integers(8, len(content))])
        for place in rng.integers(8, len(changed), 3):
            changed[place] = rng.integers(0, 256)
        damaged.write_bytes(changed)
        code, _, err = call(capsys, "run", str(damaged), *GOLDEN, "--json", "--timeout-cycles", "20000")
        assert code in (0, 1, 2) and (not err if code == 0 else err.count("\n") == 1), (number, err)


def test_random_samples(capsys, tmp_path):
    """A float network without samples at hand; random ones are for all inputs."""
    weights = np.random.default_rng(1).standard_normal((8, 4)).astype(np.float32)
    nodes = [make_node("MatMul", ["x", "w"], ["m"]), make_node("Relu", ["m"], ["y"])]
    path = write_onnx(tmp_path / "a.onnx", nodes, {"x": (np.float32, ("N", 8))}, {"y": (np.float32, ("N", 4))}, {"w": weights})
    words = ["run", str(path), "--config", "base", "--simulator", "golden", "--shape", "N=3", "--calibrate", "random"]
    rows = answer(capsys, *words, "--compare")["rows"]
    assert [row["where"] for row in rows if row["op"] == "MatMul"] == ["device"]
    code, _, err = call(capsys, *words, "--calibrate", "x.npy")
    assert code == 2 and "--calibrate must be random for all inputs, or a file for each, not random, x.npy" in err
