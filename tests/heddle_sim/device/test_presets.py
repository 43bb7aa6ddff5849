"""Every preset as it ships, whole, on the generated hardware: products, copies, a recurrent layer, convolutions, random programs."""

import numpy as np
import pytest
import scipy.sparse as sp
from heddle import load_config
from heddle.config import preset_names
from heddle_sim import Device
from heddle_sim.backends.verilator_device import MemorySettings
from heddle_sim.golden.convolution import convolution
from heddle_sim.golden.requantise import Requantise
from heddle_verif.differential.programs import compare_programs

QUICK = ("tiny", "base", "small")      # the others at night
MEMORY_BYTES = 1 << 20
PROGRAMS = 20
STATES = {"base": 5, "large": 10, "quad": 5}     # which one of so many programs stores the state; of several cores each runs some


@pytest.fixture(scope="module", params=[pytest.param(name, marks=[] if name in QUICK else pytest.mark.nightly) for name in preset_names()])
def preset(request):
    """The hardware of a preset and its functional simulator; no parameter is changed, and the build is shared by all tests."""
    settings = MemorySettings(latency=40, jitter=30, stall=0.1, interleave=True, seed=3)
    with (Device(request.param, memory_bytes=MEMORY_BYTES, memory_settings=settings) as hardware,
          Device(request.param, "golden", memory_bytes=MEMORY_BYTES) as golden):
        assert hardware.cfg == load_config(request.param)
        yield hardware, golden


def random_integers(rng, shape, dtype):
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max + 1, shape, dtype)


def check_products(device, rng):
    """Ragged products of every pair of types, with B in columns and in rows, and few rows, for which merges are chosen."""
    types = [(np.int8, np.uint8)] + [(np.int16, np.uint16)] * device.cfg.mm16
    compared = 0
    for pair in types:
        for a_type in pair:
            for b_type in pair:
                for layout in ("nk", "kn")[:1 + device.cfg.transpose]:
                    m, n, k = (int(size) for size in rng.integers(1, 90, 3))
                    for rows in (m, 3):
                        a, b = random_integers(rng, (rows, k), a_type), random_integers(rng, (k, n), b_type)
                        c, stats = device.matmul(a, b, b_layout=layout)
                        expected = (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)
                        assert np.array_equal(c, expected), f"{a.dtype} {a.shape} x {b.dtype} {b.shape} {layout}"
                        assert sum(stats.breakdown.values()) == stats.cycles > 0
                        compared += 1
    assert compared == 8 * len(types) * (1 + device.cfg.transpose)


def check_copies(device, rng):
    """A block to shared memory and back; where there are tensors a box that reaches over the edge, and its store."""
    array = random_integers(rng, (1040,), np.uint8)
    image, _ = device.copy_block(array)
    assert np.array_equal(image, array)
    stored, _ = device.store_block(image[::-1].copy(), array)
    assert np.array_equal(stored, array[::-1])
    if not device.cfg.tensors:
        return
    array = random_integers(rng, (5, 9, 64), np.int8)
    box, coords = (3, 4, 32), (3, 7, 48)
    image, _ = device.copy_tensor(array, box=box, coords=coords)
    expected = np.zeros(box, np.int8)
    expected[:2, :2, :16] = array[3:, 7:, 48:]
    assert np.array_equal(image.view(np.int8).reshape(box), expected)
    stored, _ = device.store_tensor(image, np.zeros_like(array), box=box, coords=coords)
    expected = np.zeros_like(array)
    expected[3:, 7:, 48:] = array[3:, 7:, 48:]
    assert np.array_equal(stored, expected)


def check_multicast(device, rng):
    """Core 0 loads for all cores, each of which stores what it got."""
    blocks, results = 64, 1 << 16
    data = random_integers(rng, (16 * blocks,), np.uint8)
    device.write(0, data)
    device.run(f"""
        umov ur1, %core
        umov ur2, 0
        umov ur3, {(1 << device.cfg.cores) - 1}
        barrier.expect b0, {data.size}
        usetp.eq up0, ur1, 0
        @up0 copy_block.shared.global.multicast ur2, ur2, {blocks}, ur3, b0
        barrier.wait b0
        ushl ur1, ur1, {data.size.bit_length() - 1}
        uadd ur1, ur1, {results}
        copy_block.global.shared ur1, ur2, {blocks}
        wait
        halt
    """)
    found = device.read(results, (device.cfg.cores, data.size), np.uint8)
    assert np.array_equal(found, np.tile(data, (device.cfg.cores, 1)))


def check_reductions(device, rng):
    """All cores add to the same words of global memory; one core combines words within shared memory."""
    array, start, times = random_integers(rng, (64,), np.uint32), 1 << 12, 3
    device.write(0, array)
    device.write(start, array)
    device.run("umov ur1, 0\numov ur2, 0\ncopy_block.shared.global ur2, ur1, 16\nwait.copy\n"
               + f"umov ur1, {start}\n" + "copy_block.global.shared.add.u32 ur1, ur2, 16\n" * times + "wait\nhalt")
    assert np.array_equal(device.read(start, (64,), np.uint32), array * np.uint32(1 + times * device.cfg.cores))
    if device.cfg.copy_within:
        array, other = random_integers(rng, (2, 96), np.int64)
        found, _ = device.move_block(array, other, space="shared", reduce="max")
        assert np.array_equal(found, np.maximum(other, array))


def check_dense(device, rng):
    """A quantised layer, ragged in every size."""
    x, w = random_integers(rng, (9, 37), np.uint8), random_integers(rng, (37, 21), np.int8)
    bias, spec = rng.integers(-5000, 5000, 21, np.int32), Requantise(1 << 30, 38, zero_point=-3, relu=True)
    y, stats = device.linear(x, w, bias, spec)
    assert np.array_equal(y, spec.apply(x.astype(np.int32) @ w.astype(np.int32) + bias)) and len(np.unique(y)) > 20
    assert stats.cycles > 0


def check_layer(hardware, golden, rng):
    """An LSTM of two sequences of different lengths: bits of the functional simulator."""
    hidden, inputs, steps = 6, 5, 3     # the weights fit the factor registers of every preset
    operands = [rng.standard_normal((steps, 2, inputs)).astype(np.float32),
                *(rng.uniform(-0.5, 0.5, (1, 4 * hidden, columns)).astype(np.float32) for columns in (inputs, hidden)),
                rng.uniform(-0.5, 0.5, (1, 8 * hidden)).astype(np.float32), np.array([3, 2], np.int32)]
    (found, stats), (expected, _) = (device.lstm(*operands) for device in (hardware, golden))
    assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))
    assert np.abs(found[0]).max() > 0.01 and stats.cycles > 0


def check_sparse(device, rng):
    """Sparse products over several panels, with values of 8 and of 16 bits."""
    for dtype, m, k, n in ((np.int8, 70, 90, 150), (np.int16, 5, 40, 17)):
        a, b = random_integers(rng, (m, k), dtype) * (rng.random((m, k)) < 0.2), random_integers(rng, (k, n), np.int8)
        a[m // 2] = 0
        c, stats = device.spmm(sp.csr_array(a.astype(dtype)), b)
        assert np.array_equal(c, (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32))
        assert stats.counters["sparse_steps"] > 0


def test_smoke(preset):
    hardware, golden = preset
    rng = np.random.default_rng(25)
    check_products(hardware, rng)
    check_dense(hardware, rng)
    for device in preset:
        check_copies(device, rng)
        if device.cfg.multicast:
            check_multicast(device, rng)
    if hardware.cfg.reductions:
        check_reductions(hardware, rng)
    if hardware.cfg.rnn:
        check_layer(hardware, golden, rng)
    if hardware.cfg.sparse:
        check_sparse(hardware, rng)


@pytest.mark.nightly
def test_convolutions(preset):
    """Ragged convolutions; without tensors they are refused by name."""
    device, rng = preset[0], np.random.default_rng(26)
    cases = [((2, 9, 7, 16), (5, 3, 3, 16), 1, 1), ((1, 8, 8, 3), (7, 5, 5, 3), 2, 2), ((1, 6, 5, 200), (37, 1, 1, 200), 0, 1),
             ((3, 20, 16), (12, 3, 16), 1, 2)]
    for x_shape, w_shape, pads, strides in cases:
        x, w = (random_integers(rng, shape, np.int8) for shape in (x_shape, w_shape))
        spatial = len(x_shape) - 2
        expected = convolution(x, w, ((pads, pads),) * spatial, (strides,) * spatial, (1,) * spatial)
        for method, lacks in (("im2col", not device.cfg.tensors and "tensors"),
                              ("compiled", not device.cfg.compiled_offsets and "compiled_offsets")):
            options = {"pads": pads, "strides": strides, "layout": "NHWC", "method": method}
            if lacks:
                with pytest.raises(ValueError, match=lacks):
                    device.conv(x, np.moveaxis(w, -1, 1), **options)
                continue
            y, stats = device.conv(x, np.moveaxis(w, -1, 1), **options)
            assert np.array_equal(y, expected) and stats.cycles > 0
            if method == "compiled" and device.cfg.output_stage:
                spec = Requantise(rng.integers(1 << 29, 1 << 30, len(w)), 40, -5)
                y, _ = device.conv(x, np.moveaxis(w, -1, 1), requantise=spec, **options)
                assert np.array_equal(y, spec.apply(expected))


@pytest.mark.nightly
def test_convolutions_of_sixteen_bits(preset):
    """Ragged, two groups; without tensors or ``mm16`` they are refused by name."""
    device, rng = preset[0], np.random.default_rng(29)
    x, w = random_integers(rng, (2, 9, 7, 6), np.int16), random_integers(rng, (4, 3, 3, 3), np.int8)
    options = {"pads": 1, "strides": 2, "layout": "NHWC", "group": 2}
    if lacks := next((name for name in ("tensors", "mm16") if not getattr(device.cfg, name)), None):
        with pytest.raises(ValueError, match=lacks):
            device.conv(x, np.moveaxis(w, -1, 1), **options)
        return
    y, stats = device.conv(x, np.moveaxis(w, -1, 1), **options)
    assert np.array_equal(y, convolution(x, w, ((1, 1),) * 2, (2, 2), (1, 1), 2)) and stats.cycles > 0


@pytest.mark.nightly
def test_gathered_windows(preset):
    """A ragged convolution of planes; without gathers it is refused by name."""
    device, rng = preset[0], np.random.default_rng(27)
    x, w = (random_integers(rng, shape, np.int8) for shape in ((1, 5, 7, 6), (9, 5, 3, 3)))
    if not device.cfg.gather_offsets or device.cfg.cores > 1:
        with pytest.raises(ValueError, match="gather_offsets|cores"):
            device.conv(x, w, pads=1, method="gather")
        return
    y, stats = device.conv(x, w, pads=1, method="gather")
    expected = convolution(np.moveaxis(x, 1, -1), np.moveaxis(w, 1, -1), ((1, 1),) * 2, (1, 1), (1, 1))
    assert np.array_equal(np.moveaxis(y, 1, -1), expected) and stats.cycles > 0


@pytest.mark.nightly
@pytest.mark.parametrize("name", preset_names())
def test_random_programs(name):
    """Two devices after each other, each with a memory of its own behaviour.

    Programs store what registers and shared memory keep, of large devices only some, as that takes most of the time.
    """
    cfg = load_config(name)
    for seed in range(2):
        compare_programs(cfg, seed, PROGRAMS // 2, memory_bytes=4 * MEMORY_BYTES, states=STATES.get(name, 1))
