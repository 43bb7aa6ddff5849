"""Sparse products of a device against scipy: topologies, formats, types, shapes, and refusals [S4.1-S4.8]."""

import numpy as np
import pytest
import scipy.sparse as sp
from heddle import load_config
from heddle_sim.device import Device, OutOfMemory
from heddle_sim.kernels.sparse_product import SparseProductKernel, SparseProductProblem
from heddle_sim.sparse import DCSC, DCSR, compress
from heddle_verif.stimulus.sparse_matrices import operand, random_topologies, random_values

MEMORY = 1 << 21
TYPES = (np.int8, np.uint8, np.int16, np.uint16)


def product(a, b):
    return (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)


def check_topologies(device, rng, count, most):
    for name, topology in random_topologies(rng, count, most):
        a = random_values(rng, topology, TYPES[int(rng.integers(3))])
        b = operand(rng, (a.shape[1], int(rng.choice([1, 7, 16, 31, 32, 33, 48]))), (np.int8, np.uint8)[int(rng.integers(2))])
        if not a.shape[0]:
            with pytest.raises(ValueError, match="must have at least one row"):
                device.spmm(sp.csr_array(a), b)
            continue
        c, _ = device.spmm(sp.csr_array(a), b)
        np.testing.assert_array_equal(c, product(a, b), err_msg=f"{name} {a.shape} {b.shape} {a.dtype} {b.dtype}")


def test_topologies(device, seed):
    check_topologies(device, np.random.default_rng(seed), 40, 40)


@pytest.mark.nightly
def test_many_topologies(device, seed):
    check_topologies(device, np.random.default_rng(seed), 300, 90)


@pytest.mark.parametrize("side", ["left", "right", "both"])
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "DCSR", "DCSC"])
def test_formats(form, side, golden, seed):
    rng = np.random.default_rng(seed)
    dense = [operand(rng, (19, 40)) * (rng.random((19, 40)) < 0.2), operand(rng, (40, 21)) * (rng.random((40, 21)) < 0.2)]
    make = {"DCSR": lambda m: DCSR.of(compress("a", m)), "DCSC": lambda m: DCSC.of(compress("a", m))}.get(
        form, lambda m: getattr(sp, f"{form}_array")(m))
    a, b = (make(matrix) if side in (name, "both") else matrix for name, matrix in zip(("left", "right"), dense))
    c, _ = golden.spmm(a, b)
    np.testing.assert_array_equal(c, product(*dense))


@pytest.mark.parametrize("of_a", TYPES)
@pytest.mark.parametrize("of_b", TYPES)
def test_types(of_a, of_b, golden, seed):
    """Extreme values of all pairs of types."""
    rng = np.random.default_rng(seed)
    a, b = operand(rng, (9, 30), of_a), operand(rng, (30, 17), of_b)
    a[:, ::3] = rng.choice([np.iinfo(of_a).min, np.iinfo(of_a).max], (9, 10))
    b[::3] = rng.choice([np.iinfo(of_b).min, np.iinfo(of_b).max], (10, 17))
    c, _ = golden.spmm(sp.csr_array(a), b)
    np.testing.assert_array_equal(c, product(a, b))


@pytest.mark.parametrize("m, k, n", [(1, 1, 1), (64, 64, 32), (65, 65, 33), (3, 200, 31), (130, 63, 48), (2, 1, 100)])
def test_shapes(m, k, n, device, seed):
    """Panels of columns and of rows, blocks of rows, and their ends; both ends of memory hold operands and results."""
    rng = np.random.default_rng(seed)
    a, b = operand(rng, (m, k)) * (rng.random((m, k)) < 0.3), operand(rng, (k, n))
    np.testing.assert_array_equal(device.spmm(sp.csr_array(a), b)[0], product(a, b))


@pytest.mark.parametrize("shape, density", [((379, 2483, 16), 0.002), ((1500, 300, 40), 0.02)])
def test_programs_longer_than_the_instruction_memory(shape, density, golden, seed):
    """Many runs of rows of B that are met, and many blocks: the panel, or blocks, take several programs."""
    m, k, n = shape
    rng = np.random.default_rng(seed)
    a, b = operand(rng, (m, k)) * (rng.random((m, k)) < density), operand(rng, (k, n))
    with Device(golden.cfg.replace(instruction_words=512), "golden", memory_bytes=MEMORY) as device:
        for resident in (False, True):
            np.testing.assert_array_equal(device.spmm(sp.csr_array(a), b, resident=resident)[0], product(a, b))


@pytest.mark.parametrize("tile", [7, 16, 24, 32, 33, 200])
@pytest.mark.parametrize("resident", [False, True])
def test_tiles(tile, resident, device, seed):
    """Columns of any number, the last tile shorter; more than the lanes hold, and more than there are."""
    rng = np.random.default_rng(seed)
    a, b = operand(rng, (20, 100)) * (rng.random((20, 100)) < 0.2), operand(rng, (100, 75))
    c, stats = device.spmm(sp.csr_array(a), b, tile=tile, resident=resident)
    np.testing.assert_array_equal(c, product(a, b))
    assert stats.macs == np.count_nonzero(a) * 75


@pytest.mark.parametrize("m, k, n", [(1, 1, 1), (9, 30, 5), (40, 300, 3)])
def test_tiles_of_one_column(m, k, n, device, golden, seed):
    rng = np.random.default_rng(seed)
    a, b = operand(rng, (m, k)) * (rng.random((m, k)) < 0.3), operand(rng, (k, n))
    for each in (device, golden):
        np.testing.assert_array_equal(each.spmm(sp.csr_array(a), b, tile=1)[0], product(a, b))


def test_tiles_are_cut_where_the_lanes_end(golden):
    """Tiles of 200 of 450 columns on 128: each begins in memory at a multiple of 16."""
    problem = SparseProductProblem(compress("a", np.eye(3, dtype=np.int8)), 450, tile=200)
    panels = SparseProductKernel(golden.cfg, problem).panels
    assert [(panel.first_column, panel.columns) for panel in panels] == [(0, 128), (128, 72), (208, 128), (336, 72), (416, 50)]
    assert problem.columns_in_memory == 466 and problem.places[[199, 200, 449]].tolist() == [199, 208, 465]


@pytest.mark.parametrize("n, rows", [(1, 67), (16, 1), (32, 260), (33, 67), (64, 9), (65, 67), (150, 67)])
@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_sub_warps(n, rows, dtype, golden, seed):
    """Few columns on parts of the PEs, many rows and few, and without."""
    rng = np.random.default_rng(seed)
    a, b = operand(rng, (rows, 70), dtype) * (rng.random((rows, 70)) < 0.1), operand(rng, (70, n))
    for options in ({}, {"resident": True}, {"sub_warps": False}, {"order": "natural"}):
        np.testing.assert_array_equal(golden.spmm(sp.csr_array(a), b, **options)[0], product(a, b))


def test_sub_warps_where_they_gain(golden):
    """As many as there is room for, but with values of 16 bits, which take two words for four non-zeros: short rows fill them up."""
    a = np.zeros((8, 200), np.int16)
    a[0] = 1
    for rows, strips in ((a, 1), (np.ones_like(a), 1), (a.astype(np.int8), 2)):
        kernel = SparseProductKernel(golden.cfg, SparseProductProblem(compress("a", sp.csr_array(rows)), 32))
        assert kernel.panels[0].strips == strips


def test_counters(device, seed):
    """A step for each non-zero on four multipliers a PE, one for each row without any; B and the sums are on the chip with ``resident``."""
    rng = np.random.default_rng(seed)
    a = operand(rng, (40, 60)) * (rng.random((40, 60)) < 0.2)
    a[3] = a[17] = 0
    matrix, b = sp.csr_array(a), operand(rng, (60, 32))
    c, stats = device.spmm(matrix, b)
    np.testing.assert_array_equal(c, product(a, b))
    empty = int((np.diff(matrix.indptr) == 0).sum())
    assert stats.counters["sparse_steps"] == matrix.nnz + empty
    assert stats.counters["sparse_loads"] == 60
    c, resident = device.spmm(matrix, b, resident=True)
    np.testing.assert_array_equal(c, product(a, b))
    assert resident.counters["sparse_steps"] == matrix.nnz + empty and resident.counters["sparse_loads"] == 0
    assert resident.counters["write_beats"] == 0 and resident.cycles < stats.cycles


A, B = sp.csr_array(np.eye(4, dtype=np.int8)), np.ones((4, 3), np.int8)


@pytest.mark.parametrize("arguments, options, error, says", [
    ((A.toarray(), B), {}, TypeError, "a or b must be sparse (scipy.sparse, DCSR, DCSC), not two arrays: matmul multiplies these"),
    ((A, B[:3]), {}, ValueError, "b must have 4 rows, as a has columns, not 3"),
    ((A, B[:, :0]), {}, ValueError, "the product must have at least one row and one column, not shape (4, 0)"),
    ((A, B.astype(np.float32)), {}, TypeError, "b must have dtype int8, uint8, int16 or uint16, not float32"),
    ((A, B), {"order": "random"}, ValueError, "order must be one of auto, natural, sorted, snake, grouped, not 'random'"),
    ((A, B), {"tile": 0}, ValueError, "tile must be at least 1, not 0"),
    ((A, B), {"tile": 1.5}, TypeError, "tile must be an integer, not 1.5"),
    ((A, B), {"resident": 1}, TypeError, "resident must be True or False, not 1"),
    ((A, B), {"sub_warps": None}, TypeError, "sub_warps must be True or False, not None"),
])
def test_refusals(arguments, options, error, says, golden):
    with pytest.raises(error) as found:
        golden.spmm(*arguments, **options)
    assert str(found.value) == says


@pytest.mark.parametrize("broken", ["pointers", "index", "short", "twice"])
def test_damaged_operands(broken, golden):
    matrix = sp.csr_array(np.arange(12, dtype=np.int8).reshape(3, 4))
    match broken:
        case "pointers":
            matrix.indptr[1] = 9
        case "index":
            matrix.indices[2] = 4
        case "short":
            matrix.indices = matrix.indices[:-1]
        case "twice":
            matrix.indices[1] = matrix.indices[0]
    with pytest.raises(ValueError, match="a"):
        golden.spmm(matrix, B)
    np.testing.assert_array_equal(golden.spmm(A, B)[0], B)


def many_rows(columns):
    return DCSR([0, 1], [5], [0], np.ones(1, np.int8), (1 << 30, columns))


@pytest.mark.parametrize("call", [
    lambda device: device.spmm(many_rows(4), B), lambda device: device.spmm(B.T, DCSC([0, 1], [5], [0], [1], (4, 1 << 30))),
    lambda device: device.spmm(sp.csr_array((3, 1 << 30), dtype=np.int8), many_rows(2)),
    lambda device: device.sparse_linear_forward(many_rows(4), B)])
def test_results_without_room(call, golden):
    """Refused before the rows of a doubly compressed matrix are spread."""
    with pytest.raises(OutOfMemory, match=r"^memory_bytes must leave room for \d{11} more bytes, not 2097152 with 0 in use$"):
        call(golden)


def test_a_configuration_without_it():
    with Device(load_config("small").replace(tensors=True), "golden", memory_bytes=MEMORY) as device:
        with pytest.raises(ValueError, match=r"configuration small must have sparse for spmm \(sparse is false; true in base"):
            device.spmm(A, B)
