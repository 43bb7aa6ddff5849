"""Sampled products of a device against scipy and numpy: topologies, formats, types, shapes, refusals, and layers [S4.2, S4.9]."""

import numpy as np
import pytest
import scipy.sparse as sp
from heddle import load_config
from heddle_sim.device import Device
from heddle_sim.kernels.planner import plan
from heddle_sim.kernels.sampled_product import SampledProductProblem
from heddle_sim.sparse import DCSC, DCSR, compress
from heddle_verif.stimulus.sparse_matrices import operand, random_topologies, random_values

MEMORY = 1 << 21
TYPES = (np.int8, np.uint8, np.int16, np.uint16)


def product(a, b, mask=None):
    """a · b at the elements of ``mask``, times these."""
    made = a.astype(np.int64) @ b.astype(np.int64)
    return (made if mask is None else made * mask.astype(np.int64)).astype(np.int32)


def check(found, expected, mask, text=""):
    """``found``: sparse, of the class and pattern of ``mask``."""
    assert type(found) is type(mask) and found.shape == mask.shape, text
    assert (found.indptr == mask.indptr).all() and (found.indices == mask.indices).all() and found.data.dtype == np.int32, text
    rows = np.repeat(np.arange(mask.shape[0]), np.diff(mask.indptr))
    np.testing.assert_array_equal(found.data, expected[rows, mask.indices], err_msg=text)


def check_topologies(device, rng, count, most):
    for number, (name, topology) in enumerate(random_topologies(rng, count, most)):
        dense = random_values(rng, topology, TYPES[int(rng.integers(3))])
        mask, inner = sp.csr_array(dense), int(rng.choice([1, 7, 31, 32, 33, 64, 100, 300]))
        types = [(np.int8, np.uint8)[int(bit)] for bit in rng.integers(0, 2, 2)]
        a, b = operand(rng, (mask.shape[0], inner), types[0]), operand(rng, (inner, mask.shape[1]), types[1])
        pattern, transpose = bool(number % 2), bool(number % 3)
        text = f"{name} {mask.shape} {inner} {types} {dense.dtype} {pattern}"
        if 0 in mask.shape:
            with pytest.raises(ValueError, match="must have at least one row"):
                device.sddmm(a, b, mask)
            continue
        found, _ = device.sddmm(a, b.T if transpose else b, mask, transpose, pattern)
        check(found, product(a, b, None if pattern else dense), mask, text)


def test_topologies(device, seed):
    check_topologies(device, np.random.default_rng(seed), 40, 40)


@pytest.mark.nightly
def test_many_topologies(device, seed):
    check_topologies(device, np.random.default_rng(seed), 300, 90)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "DCSR", "DCSC"])
def test_formats(form, golden, seed):
    rng = np.random.default_rng(seed)
    dense, a, b = operand(rng, (19, 23)) * (rng.random((19, 23)) < 0.2), operand(rng, (19, 70)), operand(rng, (70, 23))
    make = {"DCSR": lambda m: DCSR.of(compress("a", m)), "DCSC": lambda m: DCSC.of(compress("a", m))}.get(
        form, lambda m: getattr(sp, f"{form}_array")(m))
    mask = make(dense)
    found, _ = golden.sddmm(a, b, mask)
    assert type(found) is type(mask)
    np.testing.assert_array_equal(compress("d", found, pattern=True).dense() != 0, dense != 0)
    values = found.toarray() if hasattr(found, "toarray") else found.dense()
    np.testing.assert_array_equal(values, product(a, b, dense) * (dense != 0))


@pytest.mark.parametrize("of_mask", TYPES)
@pytest.mark.parametrize("of_b", TYPES)
@pytest.mark.parametrize("of_a", TYPES)
def test_types(of_a, of_b, of_mask, golden, seed):
    """Extreme values of all types."""
    rng = np.random.default_rng(seed)
    a, b, dense = operand(rng, (5, 30), of_a), operand(rng, (30, 6), of_b), operand(rng, (5, 6), of_mask)
    for array in (a, b, dense):
        array[::2] = rng.choice([np.iinfo(array.dtype).min, np.iinfo(array.dtype).max], array[::2].shape)
    mask = sp.csr_array(dense)
    check(golden.sddmm(a, b, mask)[0], product(a, b, dense), mask)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (70, 65, 32), (3, 200, 33), (130, 63, 48), (5, 9, 256), (5, 9, 257), (40, 6, 700)])
def test_shapes(m, n, k, transpose, device, seed):
    """Panels of columns, parts of K, blocks of rows and strips, and their ends."""
    rng = np.random.default_rng(seed)
    dense = operand(rng, (m, n)) * (rng.random((m, n)) < 0.3)
    dense[0, 0], dense[-1, -1] = 3, -128
    a, b, mask = operand(rng, (m, k)), operand(rng, (k, n)), sp.csr_array(dense)
    check(device.sddmm(a, np.ascontiguousarray(b.T) if transpose else b, mask, transpose)[0], product(a, b, dense), mask)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("name", ["large", "quad"])
def test_presets(name, transpose, seed):
    rng = np.random.default_rng(seed)
    dense = operand(rng, (90, 70)) * (rng.random((90, 70)) < 0.2)
    a, b, mask = operand(rng, (90, 600)), operand(rng, (70, 600)), sp.csr_array(dense)
    with Device(name, "golden", memory_bytes=MEMORY) as device:
        check(device.sddmm(a, b if transpose else b.T, mask, transpose)[0], product(a, b.T, dense), mask)


def test_the_second_operand_stays_as_it_is(seed):
    """Not transposed, it lies in memory row by row, filled up with zeros; columns of K pass by."""
    rng = np.random.default_rng(seed)
    a, b = operand(rng, (30, 300)), operand(rng, (300, 21))
    mask = compress("mask", sp.csr_array(np.ones((21, 30), np.int8)))
    kernel = plan(load_config("base"), SampledProductProblem(mask, 300, by_columns=True))
    whole = kernel.arranged(b, a)[0].reshape(-1, kernel.pitch)
    assert kernel.pitch == 32 and len(whole) == 512 and (whole[:300, :21] == b).all() and not whole[300:].any() and not whole[:, 21:].any()


def test_strips_without_room(seed):
    """Where shared memory is too small for strips, the host transposes."""
    rng = np.random.default_rng(seed)
    dense = operand(rng, (9, 7)) * (rng.random((9, 7)) < 0.4)
    a, b, mask, cfg = operand(rng, (9, 40)), operand(rng, (40, 7)), sp.csr_array(dense), load_config("base").replace(shared_memory_kib=16)
    with pytest.raises(ValueError, match="shared_memory_kib"):
        plan(cfg, SampledProductProblem(compress("mask", mask).transpose(), 40, by_columns=True))
    with Device(cfg, "golden", memory_bytes=MEMORY) as device:
        check(device.sddmm(a, b, mask)[0], product(a, b, dense), mask)


@pytest.mark.parametrize("call", [
    lambda device: device.sddmm(np.ones((9, 40), np.int8), np.ones((40, 7), np.int8), sp.csr_array(np.ones((9, 7), np.int8))),
    lambda device: device.spmm(sp.csr_array(np.ones((9, 40), np.int8)), np.ones((40, 7), np.int8))])
def test_small_shared_memory(call):
    with (Device(load_config("base").replace(shared_memory_kib=4), "golden", memory_bytes=MEMORY) as device,
          pytest.raises(ValueError, match="^shared_memory_kib must be at least .* for s[pd]d?mm with threads = 32, dot = 8, not 4$")):
        call(device)


def test_programs_longer_than_the_instruction_memory(golden, seed):
    rng = np.random.default_rng(seed)
    dense = operand(rng, (300, 500)) * (rng.random((300, 500)) < 0.05)
    a, b, mask = operand(rng, (300, 300)), operand(rng, (300, 500)), sp.csr_array(dense)
    with Device(golden.cfg.replace(instruction_words=128), "golden", memory_bytes=MEMORY) as device:
        check(device.sddmm(a, b, mask)[0], product(a, b, dense), mask)


def test_counters(device, seed):
    """A step for each element and factor word of its column; no step for a row without elements."""
    rng = np.random.default_rng(seed)
    dense = (rng.random((40, 20)) < 0.2).astype(np.int8)
    dense[3] = dense[17] = 0
    mask, a, b = sp.csr_array(dense), operand(rng, (40, 90)), operand(rng, (20, 90))
    found, stats = device.sddmm(a, b, mask, True)
    check(found, product(a, b.T, dense), mask)
    cfg = device.cfg
    words = -(-90 // (cfg.threads * cfg.dot))
    assert stats.counters["sparse_steps"] == mask.nnz * words
    met = len(np.unique(mask.indices))
    assert stats.counters["sparse_loads"] >= met * words * cfg.numbers_per_word * cfg.thread_groups


A, M = np.ones((3, 4), np.int8), sp.csr_array(np.eye(3, 5, dtype=np.int8))
B = np.ones((4, 5), np.int8)


@pytest.mark.parametrize("call, error, says", [
    (lambda device: device.sddmm(A, B, M.toarray()), TypeError, "mask must be sparse (scipy.sparse, DCSR, DCSC), not ndarray"),
    (lambda device: device.sddmm(A, B[:3], M), ValueError, "b must have 4 rows, as a has columns, not 3"),
    (lambda device: device.sddmm(A, B, M.T), ValueError, "mask must have shape (3, 5), that of the product, not (5, 3)"),
    (lambda device: device.sddmm(A[:, :0], B[:0], M), ValueError,
     "the product must have at least one row and one column, and a one column, not shapes (3, 5) and (3, 0)"),
    (lambda device: device.sddmm(A.astype(np.float32), B, M), TypeError, "a must have dtype int8, uint8, int16 or uint16, not float32"),
    (lambda device: device.sddmm(A, B, M, pattern=1), TypeError, "pattern must be True or False, not 1"),
    (lambda device: device.sddmm(A, B, M, order="random"), ValueError,
     "order must be one of auto, natural, sorted, snake, grouped, not 'random'"),
])
def test_refusals(call, error, says, golden):
    with pytest.raises(error) as found:
        call(golden)
    assert str(found.value) == says


def test_a_configuration_without_it():
    with Device(load_config("small").replace(tensors=True), "golden", memory_bytes=MEMORY) as device:
        with pytest.raises(ValueError, match=r"configuration small must have sparse for sddmm \(sparse is false; true in base"):
            device.sddmm(A, B, M)
