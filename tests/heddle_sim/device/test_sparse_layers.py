"""Layers of a device with sparse or dense weights and inputs, forward and backward, against numpy [S4.9]."""

import numpy as np
import pytest
import scipy.sparse as sp
from heddle import load_config
from heddle_sim.device import Device
from heddle_sim.sparse import DCSC, compress
from heddle_verif.stimulus.sparse_matrices import operand

MEMORY = 1 << 20


def check(device, rng, types, form_w, form_x):
    w, x = (operand(rng, shape, dtype) * (rng.random(shape) < 0.3).astype(dtype) for shape, dtype in zip(((20, 30), (30, 9)), types))
    weights, inputs, dy = form_w(w), form_x(x), operand(rng, (20, 9), types[2])
    wide, deep, gradient = (array.astype(np.int64) for array in (w, x, dy))
    np.testing.assert_array_equal(device.sparse_linear_forward(weights, inputs).c, (wide @ deep).astype(np.int32))
    dx, dw, stats = device.sparse_linear_backward(weights, inputs, dy)
    np.testing.assert_array_equal(dx, (wide.T @ gradient).astype(np.int32))
    assert type(dw) is type(weights) and dw.dtype == np.int32 and stats.macs > 0
    full = (gradient @ deep.T).astype(np.int32)
    if form_w is DENSE:
        np.testing.assert_array_equal(dw, full)
    else:
        np.testing.assert_array_equal(dw.toarray(), np.where(w, full, 0))


DENSE, CSR = np.asarray, sp.csr_array


def doubly(matrix):
    return DCSC.of(compress("a", matrix))


@pytest.mark.parametrize("form_w", [CSR, DENSE])
@pytest.mark.parametrize("form_x", [CSR, DENSE])
def test_layers(form_w, form_x, device, seed):
    check(device, np.random.default_rng(seed), (np.int8,) * 3, form_w, form_x)


@pytest.mark.parametrize("form_w", [doubly, sp.csc_array, DENSE])
@pytest.mark.parametrize("form_x", [doubly, DENSE])
@pytest.mark.parametrize("types", [(np.int8, np.int16, np.uint8), (np.int16, np.uint16, np.int16), (np.uint8, np.uint8, np.int8)])
def test_types(form_w, form_x, types, golden, seed):
    """Arrays of unlike sizes of elements too, which ``mm`` does not take together."""
    check(golden, np.random.default_rng(seed), types, form_w, form_x)


def test_arrays_of_16_bits_without_mm16(seed):
    with Device(load_config("base").replace(mm16=False), "golden", memory_bytes=MEMORY) as device:
        check(device, np.random.default_rng(seed), (np.int16,) * 3, DENSE, DENSE)


W, X, DY = sp.csr_array(np.eye(3, 4, dtype=np.int8)), np.ones((4, 2), np.int8), np.ones((3, 2), np.int8)


@pytest.mark.parametrize("call, error, says", [
    (lambda device: device.sparse_linear_forward(W, X[:3]), ValueError, "x must have 4 rows, as w has columns, not 3"),
    (lambda device: device.sparse_linear_forward(W, X.astype(np.float32)), TypeError,
     "x must have dtype int8, uint8, int16 or uint16, not float32"),
    (lambda device: device.sparse_linear_forward(W.astype(float), X), TypeError,
     "data of w must have dtype int8, uint8, int16 or uint16, not float64"),
    (lambda device: device.sparse_linear_forward(None, X), TypeError, "w must be a numpy array, not NoneType"),
    (lambda device: device.sparse_linear_backward(W, X, DY.T), ValueError, "dy must have shape (3, 2), that of the result, not (2, 3)"),
    (lambda device: device.sparse_linear_backward(W, X, sp.csr_array(DY)), TypeError, "dy must be a numpy array, not csr_array"),
    (lambda device: device.sparse_linear_backward(W.toarray(), sp.csr_array(X.astype(float)), DY), TypeError,
     "data of x must have dtype int8, uint8, int16 or uint16, not float64"),
])
def test_refusals(call, error, says, golden):
    with pytest.raises(error) as found:
        call(golden)
    assert str(found.value) == says
