"""Sparse products of several cores: tiles from the tile scheduler [S4.7], results that one core collects [S4.8]."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
from heddle import load_config
from heddle_sim.device import Device
from heddle_sim.device.errors import DeviceError
from heddle_sim.kernels.planner import plan
from heddle_sim.kernels.scheduled_product import ScheduledProductKernel
from heddle_sim.kernels.sparse_product import SparseProductProblem
from heddle_sim.sparse import compress
from heddle_sim.sparse.orders import ORDERS
from heddle_verif.differential.programs import random_settings
from heddle_verif.stimulus.sparse_matrices import operand
from heddle_verif.variants.shared_devices import TWO_CORES

MEMORY = 1 << 20


@pytest.fixture(scope="module", params=["golden", "verilator"])
def device(request):
    with Device(TWO_CORES, request.param, memory_bytes=MEMORY) as device:
        yield device


def product(a, b):
    return a.astype(np.int32) @ b.astype(np.int32)


def uneven(rng, m, k):
    """A matrix some of whose rows have many elements, and some none."""
    return operand(rng, (m, k)) * (rng.random((m, k)) < 0.6 * rng.random((m, 1)) ** 4)


# Each core takes tiles until there are no more and adds 1 to word ``number`` of memory for each.
TAKE = """
    umov ur5, 1
    segment.shared.b32.d1 ur8, 0
    mov r300, 0
    mov r0, 1
    mov r1, 0
    mov r2, 0
    mov r3, 0
    st.v4 ur8:rf300:0, r0
    wait
    umov ur6, 0
next:
    take_tile ur2
    usetp.ge up0, ur2, ur1
    @up0 bra end
    ushl ur3, ur2, 4
    uadd ur3, ur3, ur0
    copy_block.global.shared.add.u32 ur3, ur6, 1
    bra next
end:
    halt
"""


def test_numbers(device):
    """Every number once, in each of two runs."""
    count = 50
    for _ in range(2):
        address = device.allocate(16 * count)
        device.write(address, np.zeros(4 * count, np.uint32))
        device.run(TAKE.replace("r300", f"r{device.cfg.registers - 1}").replace("rf300", f"rf{device.cfg.registers - 1}"),
                   uniform={0: address, 1: count})
        assert device.read(address, (count, 4), np.uint32)[:, 0].tolist() == [1] * count
        device.free(address)


def test_guard(device):
    """A guard that does not hold takes no number and leaves the register; one that holds takes the first."""
    address = device.allocate(16)
    device.run("""
        umov ur1, %core
        usetp.eq up0, ur1, 1
        @!up0 bra end
        umov ur2, 77
        @!up0 take_tile ur2
        take_tile ur3
        take_tile ur4
        @up0 take_tile ur5
        segment.global.b32.d1 ur8, ur0
        mov r0, ur2
        mov r1, ur3
        mov r2, ur4
        mov r3, ur5
        mov r300, 0
        usetp.eq up1, ur0, ur0
        st.v4 ur8:rf300:0, r0
        end: halt""", uniform={0: address})
    assert device.read(address, 4, np.uint32).tolist() == [77, 0, 1, 2]
    device.free(address)


def test_a_stop_forgets_the_questions(device):
    """A core traps while others take numbers; the next run begins with 0."""
    for _ in range(3):
        with pytest.raises(DeviceError) as caught:
            device.run("umov ur1, %core\nusetp.eq up0, ur1, 0\n@up0 bra stops\nasks: take_tile ur2\nusetp.ge up1, ur2, 10000\n"
                       "@!up1 bra asks\nhalt\nstops: take_tile ur2\ntrap 3")
        assert caught.value.code.name == "TRAP"
        test_numbers(device)


@pytest.mark.parametrize("order", ORDERS)
def test_orders(device, order, seed):
    rng = np.random.default_rng(seed)
    a, b = uneven(rng, 90, 70), operand(rng, (70, 40))
    c, stats = device.spmm(sp.csr_array(a), b, order=order)
    np.testing.assert_array_equal(c, product(a, b))
    np.testing.assert_array_equal(device.spmm(sp.csr_array(a), b, order=order, dynamic=False)[0], product(a, b))
    if stats.cycles is not None:
        assert stats.counters["sparse_steps"] > 0


@pytest.mark.parametrize("m, k, n", [(1, 1, 1), (2, 30, 33), (40, 3, 16), (33, 300, 17), (150, 40, 32)])
def test_shapes(device, m, k, n, seed):
    """Fewer tiles than cores, panels of columns, and more rows of B than the factor registers hold: their sums are added."""
    rng = np.random.default_rng(seed)
    a, b = uneven(rng, m, k), operand(rng, (k, n))
    a[0, 0] = 1
    np.testing.assert_array_equal(device.spmm(sp.csr_array(a), b)[0], product(a, b))


@pytest.mark.parametrize("tile", [7, 33])
@pytest.mark.parametrize("options", [{}, {"dynamic": False}, {"collect": True}])
def test_tiles_of_columns(device, tile, options, seed):
    rng = np.random.default_rng(seed)
    a, b = uneven(rng, 40, 90), operand(rng, (90, 40))
    np.testing.assert_array_equal(device.spmm(sp.csr_array(a), b, tile=tile, **options)[0], product(a, b))


def test_no_elements(device):
    b = np.ones((9, 20), np.int8)
    assert not device.spmm(sp.csr_array(np.zeros((30, 9), np.int8)), b)[0].any()


def test_types(device, seed):
    rng = np.random.default_rng(seed)
    for of_a, of_b in ((np.uint8, np.int8), (np.int16, np.uint8), (np.uint16, np.int16)):
        a, b = operand(rng, (20, 25), of_a) * (rng.random((20, 25)) < 0.3).astype(of_a), operand(rng, (25, 18), of_b)
        np.testing.assert_array_equal(device.spmm(sp.csr_array(a), b)[0], (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32))


def test_both_cores_work(seed):
    """Tiles are handed out to both: the product takes less than the steps of all tiles."""
    rng = np.random.default_rng(seed)
    a, b = operand(rng, (120, 60)) * (rng.random((120, 60)) < 0.9), operand(rng, (60, 32))
    with Device(TWO_CORES, memory_bytes=MEMORY) as device:
        c, stats = device.spmm(sp.csr_array(a), b)
    np.testing.assert_array_equal(c, product(a, b))
    assert stats.cycles < stats.counters["sparse_steps"]


def test_a_plan():
    """One program whatever the number of tiles; the table has each tile once, in its order."""
    a = compress("a", sp.random_array((2000, 60), density=0.2, rng=1, dtype=np.float64).astype(bool).astype(np.int8))
    kernel = plan(TWO_CORES, SparseProductProblem(a, 32, order="sorted"))
    assert isinstance(kernel, ScheduledProductKernel) and len(kernel.programs) == 1
    part, = kernel.parts
    tiles, = part.blocks
    assert len(tiles) > 100
    assert sorted(row for tile in tiles for row in range(tile.first, tile.first + tile.rows)) == list(range(2000))
    blocks, costs = kernel.expected(part.panel)
    in_order = [costs[blocks.index(tile)] for tile in tiles]
    assert in_order == sorted(in_order, reverse=True)
    for problem in (SparseProductProblem(a, 32, dynamic=False), SparseProductProblem(a, 32, resident=True)):
        assert not isinstance(plan(TWO_CORES, problem), ScheduledProductKernel)


# -- results that one core collects -----------------------------------------------------------

@pytest.mark.parametrize("m, k, n", [(1, 1, 1), (2, 30, 33), (33, 300, 17), (150, 40, 32), (301, 20, 40)])
def test_collected_products(device, m, k, n, seed):
    """Fewer blocks than cores, panels of columns, sums of several panels, several programs."""
    rng = np.random.default_rng(seed)
    a, b = uneven(rng, m, k), operand(rng, (k, n))
    a[0, 0] = 1
    np.testing.assert_array_equal(device.spmm(sp.csr_array(a), b, collect=True)[0], product(a, b))


def test_nothing_to_collect(device):
    empty = sp.csr_array(np.zeros((30, 9), np.int8))
    assert not device.spmm(empty, np.ones((9, 20), np.int8), collect=True)[0].any()


def test_collection_under_delays(seed):
    """Sums overtake nothing: a place is used again when its sums have been read, whatever memory takes."""
    rng = np.random.default_rng(seed)
    for _ in range(3):
        with Device(TWO_CORES, memory_bytes=MEMORY, memory_settings=random_settings(rng)) as device:
            a, b = uneven(rng, 120, 30), operand(rng, (30, 33))
            np.testing.assert_array_equal(device.spmm(sp.csr_array(a), b, collect=True)[0], product(a, b))


@pytest.mark.parametrize("cores", [2, 3, 4, 16])
def test_core_0_alone_writes_the_result(cores):
    """The others write the workspace, each its own part of it; their numbers of places fit barriers and shared memory."""
    cfg = load_config("quad").replace(name="collecting", cores=cores, **{} if cores != 3 else {"l2_kib": 0, "reductions": False,
                                                                                                "reduction_floats": False})
    a = compress("a", sp.random_array((700, 60), density=0.1, rng=1, dtype=np.float64).astype(bool).astype(np.int8))
    kernel = plan(cfg, SparseProductProblem(a, 40, order="sorted", collect=True))
    assert not isinstance(kernel, ScheduledProductKernel)
    collection, rows = kernel.collection, []
    assert collection.workers == cores - 1 and collection.places >= 1 and collection.places * collection.workers <= 16
    assert collection.workspace_bytes <= cfg.shared_bytes
    assert collection.room == max(kernel.sum_bytes(part.panel, block) for part in kernel.parts for of in part.blocks for block in of)
    for part in kernel.parts:
        core_0, *workers = str(kernel._text(part)).split("halt")[:cores]
        assert not part.blocks[0]
        rows += [row for blocks in part.blocks for block in blocks for row in range(block.first, block.first + block.rows)]
        assert len(re.findall(r"uadd ur18, ur2,", core_0)) == sum(map(len, part.blocks))
        for number, text in enumerate(workers):
            offsets = [int(offset) for offset in re.findall(r"uadd ur18, ur4, (\d+)", text)]
            assert len(offsets) == len(part.blocks[number + 1]) and not re.findall(r"uadd ur18, ur2,", text)
            assert all(number * collection.places <= offset // collection.room < (number + 1) * collection.places for offset in offsets)
    assert sorted(rows) == list(range(700))


def test_a_worker_with_one_place():
    """Eight cores: the places of a worker are used again at once, also by one that has far more blocks than the others."""
    cfg = load_config("tiny").replace(name="tiny_eight", cores=8, l2_kib=16, multicast=True, compiled_offsets=0, gather_offsets=False,
                                      mm16=False)
    a, b = np.zeros((400, 60), np.int8), np.ones((60, 32), np.int8)
    a[:, 0] = 1
    with Device(cfg, "golden", memory_bytes=MEMORY) as device:
        for full in (24, 28):
            a[:full] = 1
            for dynamic in (False, True):
                found, _ = device.spmm(sp.csr_array(a), b, order="natural", dynamic=dynamic, collect=True)
                np.testing.assert_array_equal(found, product(a, b))


def test_one_core_collects_its_own():
    with Device("tiny", "golden", memory_bytes=MEMORY) as device:
        assert device.spmm(sp.csr_array(np.eye(5, dtype=np.int8)), np.ones((5, 3), np.int8), collect=True)[0].tolist() == [[1] * 3] * 5


def test_what_cannot_be_collected():
    a, b = sp.csr_array(np.eye(5, dtype=np.int8)), np.ones((5, 3), np.int8)
    with Device(TWO_CORES.replace(multicast=False), "golden", memory_bytes=MEMORY) as device:
        with pytest.raises(ValueError, match="collect must be False in configuration tiny_cores2 .*multicast"):
            device.spmm(a, b, collect=True)
        with pytest.raises(ValueError, match="collect must be False with resident=True"):
            device.spmm(a, b, collect=True, resident=True)
        with pytest.raises(TypeError, match="collect must be True or False, not 1"):
            device.spmm(a, b, collect=1)


def test_one_core_has_no_tile_scheduler():
    with Device("tiny", "golden", memory_bytes=4096) as device, pytest.raises(DeviceError, match="several cores|one core") as caught:
        device.run("take_tile ur1\nhalt")
    assert caught.value.code.name == "UNSUPPORTED"


@pytest.mark.parametrize("n", [20, 64])
@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_tiles_on_sub_warps(n, dtype, seed):
    """Tiles of few columns are groups of rows; the last ones of a tile may be fewer than the sub-warps."""
    rng = np.random.default_rng(seed)
    a, b = operand(rng, (171, 60), dtype) * (rng.random((171, 60)) < 0.1), operand(rng, (60, n))
    with Device("quad", "golden", memory_bytes=MEMORY) as device:
        np.testing.assert_array_equal(device.spmm(sp.csr_array(a), b)[0], (a.astype(np.int64) @ b).astype(np.int32))
