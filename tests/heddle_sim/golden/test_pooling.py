"""Golden models of pooling and of sums, against onnxruntime and against definitions written out."""

import numpy as np
import onnxruntime
import pytest
from heddle_sim import Requantise
from heddle_sim.golden.pooling import add, add_factors, average_factors, average_pool, max_pool, window_counts
from heddle_verif.stimulus.integers import random_integers
from onnx import TensorProto, helper

MICROSOFT = "com.microsoft"
TYPES = {np.int8: TensorProto.INT8, np.uint8: TensorProto.UINT8}


def onnx_result(operator, inputs, dtype, domain="", **attributes):
    """What onnxruntime makes of one node: arrays, and scalars of float32 or of a type of bytes."""
    kinds = {np.dtype(key): value for key, value in TYPES.items()} | {np.dtype(np.float32): TensorProto.FLOAT}
    node = helper.make_node(operator, list(inputs), ["y"], domain=domain, **attributes)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(name, kinds[value.dtype], value.shape)
                                            for name, value in inputs.items()],
                              [helper.make_tensor_value_info("y", TYPES[dtype], None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13), helper.make_opsetid(MICROSOFT, 1)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


def random_window(rng):
    """Kernel, padding, stride and dilation that fit an image of 9 x 7."""
    while True:
        kernel, stride, dilation = (tuple(map(int, rng.integers(1, most, 2))) for most in (5, 4, 3))
        reach = [(count - 1) * gap for count, gap in zip(kernel, dilation)]
        padding = tuple((int(rng.integers(0, min(length, count - 1) + 1)), int(rng.integers(0, min(length, count - 1) + 1)))
                        for length, count in zip(reach, kernel))
        if all(length < size + sum(pair) for length, size, pair in zip(reach, (9, 7), padding)):
            return kernel, padding, stride, dilation


def onnx_pads(padding):
    return [pair[edge] for edge in (0, 1) for pair in padding]


def factor(scale, other):
    """Requantise with the factor scale / other."""
    shift = 30 - int(np.floor(np.log2(scale / other)))
    return min(int(np.rint(scale / other * 2.0 ** shift)), (1 << 31) - 1), shift


@pytest.mark.parametrize("dtype", TYPES)
def test_max_pool(dtype):
    rng = np.random.default_rng(1)
    for _ in range(12):
        kernel, padding, stride, dilation = random_window(rng)
        x = random_integers(rng, dtype, (2, 9, 7, 5))
        expected = onnx_result("MaxPool", {"x": np.moveaxis(x, -1, 1)}, dtype, kernel_shape=kernel, pads=onnx_pads(padding),
                               strides=stride, dilations=dilation)
        assert np.array_equal(np.moveaxis(max_pool(x, kernel, padding, stride, dilation), -1, 1), expected)


def test_max_pool_beside_elements_only():
    """A window all of whose elements lie in the padding has the least value."""
    assert max_pool(np.full((1, 1, 1, 1), 5, np.int8), (2, 1), ((1, 1), (0, 0)), (1, 1), (2, 1)).tolist() == [[[[-128]]]]


@pytest.mark.parametrize("include_pad", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_average_pool(dtype, include_pad):
    """Within 1 of onnxruntime, which computes in float32 and rounds halves to even."""
    rng, exact, count = np.random.default_rng([2, include_pad]), 0, 0
    for _ in range(12):
        kernel, padding, stride, _ = random_window(rng)
        x, zero = random_integers(rng, dtype, (1, 9, 7, 4)), int(random_integers(rng, dtype))
        x_scale, y_scale, y_zero = np.float32(rng.uniform(0.1, 1)), np.float32(rng.uniform(0.1, 1)), int(random_integers(rng, dtype))
        inputs = {"x": np.moveaxis(x, -1, 1).copy(), "xs": np.array(x_scale), "xz": np.array(zero, dtype),
                  "ys": np.array(y_scale), "yz": np.array(y_zero, dtype)}
        expected = onnx_result("QLinearAveragePool", inputs, dtype, MICROSOFT, kernel_shape=kernel, pads=onnx_pads(padding),
                               strides=stride, count_include_pad=int(include_pad))
        spec = Requantise(*factor(x_scale, y_scale), y_zero, dtype=dtype)
        found = np.moveaxis(average_pool(x, kernel, padding, stride, include_pad, zero, spec), -1, 1).astype(int)
        assert np.abs(found - expected).max() <= 1, (kernel, padding, stride)
        exact, count = exact + int((found == expected).sum()), count + found.size
    assert exact > 0.98 * count


@pytest.mark.parametrize("dtype", TYPES)
def test_global_average_pool(dtype):
    rng = np.random.default_rng(3)
    x, zero = random_integers(rng, dtype, (2, 9, 7, 33)), int(random_integers(rng, dtype))
    scales = [np.array(value, np.float32) for value in (0.02, 0.015)]
    expected = onnx_result("QLinearGlobalAveragePool", {"x": np.moveaxis(x, -1, 1).copy(), "xs": scales[0], "xz": np.array(zero, dtype),
                                                        "ys": scales[1], "yz": np.array(7, dtype)}, dtype, MICROSOFT)
    found = average_pool(x, (9, 7), ((0, 0),) * 2, (1, 1), False, zero, Requantise(*factor(*map(float, scales)), 7, dtype=dtype))
    assert np.abs(np.moveaxis(found, -1, 1).astype(int) - expected).max() <= 1


def test_average_as_tflite_rounds():
    """AVERAGE_POOL_2D: (sum + count / 2) / count above 0, (sum - count / 2) / count else, each quotient towards zero."""
    for count in range(1, 17):
        sums = np.arange(-2 * count - 3, 2 * count + 4)
        windows = np.stack([np.diff(np.arange(count + 1) * total // count) for total in sums]).astype(np.int8)
        found = average_pool(windows[..., None], (count,), ((0, 0),), (1,))[:, 0, 0]
        expected = [(total + count // 2) // count if total > 0 else -((-total + count // 2) // count) for total in sums.tolist()]
        assert found.tolist() == expected


def test_counts_and_factors():
    counts = window_counts((3, 2), (2, 2), ((1, 0), (0, 1)), (1, 1), False)
    assert counts.tolist() == [[2, 1], [4, 2], [4, 2]]
    assert window_counts((3, 2), (2, 2), ((1, 0), (0, 1)), (1, 1), True).tolist() == [[4, 4]] * 3
    factors, shift = average_factors(counts, Requantise(3, 2))
    assert factors.max() == 3 << 29 and shift == 31 and factors.tolist() == [[3 << 28, 3 << 29], [3 << 27, 3 << 28], [3 << 27, 3 << 28]]


@pytest.mark.parametrize("dtype", TYPES)
def test_add(dtype):
    """Within 1 of onnxruntime, which computes in float32 and rounds halves to even."""
    rng = np.random.default_rng(4)
    for _ in range(8):
        a, b = (random_integers(rng, dtype, (3, 500)) for _ in range(2))
        scales, zeros = rng.uniform(0.1, 1, 3).astype(np.float32), [int(random_integers(rng, dtype)) for _ in range(3)]
        inputs = {}
        for name, array, scale, zero in zip("ab", (a, b), scales, zeros):
            inputs |= {name: array, name + "s": np.array(scale), name + "z": np.array(zero, dtype)}
        expected = onnx_result("QLinearAdd", inputs | {"ys": np.array(scales[2]), "yz": np.array(zeros[2], dtype)}, dtype, MICROSOFT)
        multipliers, shift = add_factors(*map(float, scales))
        found = add(a, b, multipliers, zeros[:2], Requantise(1, shift, zeros[2], dtype=dtype)).astype(int)
        assert np.abs(found - expected).max() <= 1 and (found == expected).mean() > 0.99


def tflite_add(a, b, scales, zeros):
    """ADD of TFLite's reference kernels, int8: inputs shifted left by 20, multipliers of 31 bits, each product rounded."""
    def quantised(factor):
        fraction, exponent = np.frexp(factor)
        return int(np.rint(fraction * 2 ** 31)), int(exponent)

    def scaled(values, factor):
        multiplier, exponent = quantised(factor)
        high = (values * (1 << max(exponent, 0)) * multiplier + (1 << 30)) >> 31     # SaturatingRoundingDoublingHighMul
        right = max(-exponent, 0)
        rest = high & (1 << right) - 1
        return (high >> right) + (rest > ((1 << right) - 1 >> 1) + (high < 0))       # RoundingDivideByPOT

    twice = 2 * max(scales[:2])
    raw = sum(scaled((values.astype(np.int64) - zero) << 20, scale / twice) for values, scale, zero in zip((a, b), scales, zeros))
    return np.clip(scaled(raw, twice / ((1 << 20) * scales[2])) + zeros[2], -128, 127)


def test_add_as_tflite():
    rng = np.random.default_rng(5)
    for _ in range(20):
        a, b = (random_integers(rng, np.int8, (4000,)) for _ in range(2))
        scales, zeros = rng.uniform(0.05, 1, 3).tolist(), rng.integers(-128, 128, 3).tolist()
        multipliers, shift = add_factors(*scales)
        found = add(a, b, multipliers, zeros[:2], Requantise(1, shift, zeros[2])).astype(int)
        assert np.abs(found - tflite_add(a, b, scales, zeros)).max() <= 1


def test_scales_that_add_refuses():
    for scales, message in (((0.0, 1.0, 1.0), "a_scale must be positive and finite, not 0.0"),
                            ((1.0, 1.0, float("inf")), "scale must be positive and finite, not inf"),
                            ((1e-9, 1.0, 1.0), "scales must differ less, not be 1e-09 and 1.0 for 1.0")):
        with pytest.raises(ValueError, match=message):
            add_factors(*scales)
