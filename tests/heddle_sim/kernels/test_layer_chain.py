"""Chains of fully connected layers of few rows: against their definition in numpy, on functional simulator and hardware [S0.17]."""

import numpy as np
import pytest
from heddle import load_config
from heddle.config import ConfigError
from heddle_sim import Device, Requantise
from heddle_sim.kernels.layer_chain import ChainLayer, LayerChainKernel, LayerChainProblem
from heddle_sim.kernels.problem import Elements

BASE = load_config("base").replace(name="chain", l2_kib=0, reductions=False, reduction_floats=False, rnn=False, sparse=False)
NARROW = BASE.replace(threads=16, dot=4, thread_slots=4, thread_multipliers=4, compiled_offsets=0, gather_offsets=False)
AUTOENCODER = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640)
CHAINS = [(1, 1), (16, 33), (17, 31, 5, 300, 64, 65), (100, 700, 3), (1500, 33, 32), (31, 32, 33, 15, 16, 17, 1)]


def layers_of(rng, sizes, alike=False):
    """Layers of every kind of types, biases and factors, or with ``alike`` signed ones with one factor each; sums come into range."""
    found = []
    for k, n in zip(sizes, sizes[1:]):
        signed = alike or rng.random() < 0.6
        limits = np.iinfo(np.int8 if signed else np.uint8)
        w = rng.integers(limits.min, limits.max + 1, (n, k), limits.dtype)
        bias = rng.integers(-5000, 5000, n).astype(np.int32) if alike or rng.random() < 0.7 else None
        shift = 35 + int(np.log2(k) / 2) + int(rng.integers(0, 3))
        multiplier = int(rng.integers(1 << 29, 1 << 30)) if alike or rng.random() < 0.5 else rng.integers(1 << 29, 1 << 30, n)
        if not alike and rng.random() < 0.25:       # factors from 1/4 on: sums are clamped first
            multiplier, shift = int(rng.integers(1, 4)), 2
        dtype = np.int8 if alike or rng.random() < 0.6 else np.uint8
        zero = int(rng.integers(np.iinfo(dtype).min // 2, np.iinfo(dtype).max // 2))
        found.append((w, bias, Requantise(multiplier, shift, zero, relu=bool(rng.random() < 0.4), dtype=dtype)))
    return found


def expected(x, layers):
    for w, bias, spec in layers:
        sums = x.astype(np.int64) @ w.T.astype(np.int64) + (0 if bias is None else bias)
        x = spec.apply(sums.astype(np.int32))
    return x


@pytest.fixture(scope="module", params=[BASE, NARROW], ids=["base", "narrow"])
def device(request):
    with Device(request.param, "golden", memory_bytes=1 << 20) as device:
        yield device


@pytest.mark.parametrize("sizes", CHAINS)
def test_chains_equal_numpy(device, sizes):
    rng = np.random.default_rng(sizes)
    most = 6 if max(sizes) > 1000 else device.cfg.threads
    for rows, dtype in ((1, np.int8), (1, np.uint8), (2, np.int8), (5, np.uint8), (most, np.int8)):
        layers = layers_of(rng, sizes)
        x = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, (rows, sizes[0]), dtype)
        y, stats = device.linear_chain(x, layers, transpose=True)
        wanted = expected(x, layers)
        assert y.dtype == wanted.dtype and np.array_equal(y, wanted), rows
        assert stats.macs == rows * sum(k * n for k, n in zip(sizes, sizes[1:]))
        assert np.array_equal(device.linear_chain(x, [(w.T, *rest) for w, *rest in layers]).y, wanted)
    assert device.memory.allocator.used == 0


def test_random_chains(device):
    rng = np.random.default_rng(8)
    for _ in range(25):
        sizes = [int(rng.choice((1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 100))) for _ in range(int(rng.integers(2, 7)))]
        layers, x = layers_of(rng, sizes), rng.integers(-128, 128, (int(rng.integers(1, 9)), sizes[0]), np.int8)
        assert np.array_equal(device.linear_chain(x, layers, transpose=True).y, expected(x, layers)), (len(x), sizes)


def test_an_autoencoder_fits_the_program_memory_of_base():
    shapes = tuple(ChainLayer(k, n, Elements(), Requantise(1 << 29, 40)) for k, n in zip(AUTOENCODER, AUTOENCODER[1:]))
    (kernel, *_) = LayerChainKernel.cuts(load_config("base"), LayerChainProblem(4, shapes))
    assert kernel.slots == 4 and len(kernel.programs[0]) <= 1024


@pytest.mark.parametrize("rows, kernel", [(1, "FewRowsKernel"), (8, "FewRowsKernel"), (9, "LayerKernel")])
def test_layers_of_few_rows_are_chains_of_one(device, rows, kernel, monkeypatch):
    rng, names = np.random.default_rng(rows), []
    ((w, bias, spec),), x = layers_of(rng, (40, 50)), rng.integers(-128, 128, (rows, 40), np.int8)
    monkeypatch.setattr("heddle_sim.device.execution.report_kernel", lambda kernel: names.append(type(kernel).__name__))
    y, _ = device.linear(x, w, bias, spec, transpose=True)
    assert names == [kernel] and np.array_equal(y, expected(x, [(w, bias, spec)]))


def test_an_error_of_a_run_is_no_kernel_that_does_not_fit(device, monkeypatch):
    """It reaches the caller; no other kernel is tried."""
    names = []
    monkeypatch.setattr("heddle_sim.device.execution.report_kernel", lambda kernel: names.append(type(kernel).__name__))
    monkeypatch.setattr(type(device), "run", lambda *_: (_ for _ in ()).throw(ConfigError("of the run")))
    with pytest.raises(ConfigError, match="^of the run$"):
        device.linear(X, W, None, SPEC)
    assert names == ["FewRowsKernel"]


X, W, SPEC = np.ones((1, 3), np.int8), np.ones((3, 4), np.int8), Requantise(1, 1)


@pytest.mark.parametrize("x, layers, error, says", [
    (X, [], TypeError, "layers must be a list of (w, bias, requantise), not []"),
    (X, [W], TypeError, "layer 0 must be (w, bias, requantise), not ndarray"),
    (np.ones((33, 3), np.int8), [(W, None, SPEC)], ValueError, "rows must be at most 32 for a chain of layers (threads), not 33"),
    (X.astype(np.int16), [(W, None, SPEC)], TypeError, "x must have dtype int8 or uint8, not int16"),
    (X, [(W, None, None)], TypeError, "requantise of layer 0 must be a Requantise, not None"),
    (X, [(W, None, SPEC), (W, None, SPEC)], ValueError,
     "w of layer 1 must have shape (4, N) to match inputs of layer 1 of shape (1, 4), not (3, 4)"),
    (X, [(W, np.zeros(3, np.int32), SPEC)], ValueError, "bias of layer 0 must have shape (4,), not (3,)"),
    (np.ones((1, 9000), np.int8), [(np.ones((9000, 40), np.int8), None, SPEC)], ConfigError,
     "inputs of a layer must be at most 3584 for a chain of layers with factor_words = 1024 and dot = 8, not 9000"),
    (np.ones((1, 3000), np.int8), [(np.ones((3000, 40), np.int8), None, SPEC)], ConfigError, "shared_memory_kib must be at least 256"),
    (X, [(np.ones((3, 3), np.int8), None, SPEC)] * 80, ConfigError, "instruction_words must be at least "),
])
def test_wrong_chains(x, layers, error, says):
    with Device(BASE, "golden", memory_bytes=1 << 20) as device:
        with pytest.raises(error) as failure:
            device.linear_chain(x, layers)
        assert str(failure.value).startswith(says) and device.memory.allocator.used == 0


@pytest.mark.parametrize("name, says", [
    ("small", "must have output_stage for a chain of layers (output_stage is false; true in base, large, quad)"),
    ("quad", "cores must be 1 for a chain of layers, not 4")])
def test_configurations_without_chains(name, says):
    with Device(name, "golden", memory_bytes=1 << 20) as device:
        with pytest.raises(ValueError) as failure:
            device.linear_chain(X, [(W, None, SPEC)])
        assert says in str(failure.value)
        assert np.array_equal(device.linear(X, W, None, SPEC).y, expected(X, [(W.T, None, SPEC)]))      # in another way


def test_base_as_it_ships():
    """On the hardware, whenever memory answers; the weights of the autoencoder at 0.8 of the bus and more."""
    rng = np.random.default_rng(3)
    with Device("base", memory_bytes=1 << 20, latency=30, jitter=60, seed=5) as device:
        for rows, sizes in zip((1, 2, 3, 4, 5, 32), CHAINS, strict=True):
            layers, x = layers_of(rng, sizes), rng.integers(-128, 128, (rows, sizes[0]), np.int8)
            assert np.array_equal(device.linear_chain(x, layers, transpose=True).y, expected(x, layers)), sizes
    with Device("base", memory_bytes=1 << 20) as device:
        layers, x = layers_of(rng, AUTOENCODER, alike=True), rng.integers(-128, 128, (1, 640), np.int8)
        y, stats = device.linear_chain(x, layers, transpose=True)
        assert np.array_equal(y, expected(x, layers))
        assert sum(w.nbytes for w, *_ in layers) / device.cfg.axi_bytes > 0.8 * stats.cycles
