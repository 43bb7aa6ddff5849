"""Products of ONNX (MatMul, Gemm and their quantised forms), each beside onnxruntime on the same operands."""

import numpy as np
import pytest
from heddle_sim.models import load_model
from heddle_sim.models.comparison import compared
from heddle_verif.onnx_checks import F32, I8, I32, U8, check, random_of, scales
from heddle_verif.stimulus.onnx_files import write_onnx
from onnx.helper import make_node


def test_qlinear_matmul_and_add(tmp_path, device):
    """A product with scales of columns, then a bias of one row as a quantised addend."""
    constants = {"as": F32(0.04), "az": U8(120), "b": random_of(I8, (20, 6)), "bs": scales(6), "bz": np.zeros(6, I8), "ys": F32(0.9),
                 "yz": U8(130), "c": random_of(U8, (6,)), "cs": F32(0.5), "cz": U8(128), "zs": F32(1.1), "zz": U8(126)}
    nodes = [make_node("QLinearMatMul", ["a", "as", "az", "b", "bs", "bz", "ys", "yz"], ["p"]),
             make_node("QLinearAdd", ["p", "ys", "yz", "c", "cs", "cz", "zs", "zz"], ["y"], domain="com.microsoft")]
    check(write_onnx(tmp_path / "a.onnx", nodes, {"a": (U8, (3, 20))}, {"y": (U8, (3, 6))}, constants), device, ["device"] * 2)


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
