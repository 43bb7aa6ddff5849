"""Errors of jobs of the sparse engine that lie broken in memory: hardware and functional simulator report the same, and go on [S4]."""

import numpy as np
import pytest
import scipy.sparse as sp
from heddle import load_config
from heddle.isa.error_codes import ErrorCode
from heddle.isa.sparse_job import JOB_BYTES
from heddle_sim.device import Device, DeviceError
from heddle_sim.sparse import compress
from heddle_sim.sparse.job import panel_record, rows_package
from heddle_verif.stimulus.sparse_images import (
    END,
    IMAGE_BYTES,
    MEMORY,
    PACKAGE,
    PANEL,
    POINTERS,
    SOURCE,
    B,
    changed,
    job_program,
    set_index,
    set_pointer,
)

OUTPUT = 0x2000         # in shared memory
ROWS, COLUMNS = 6, 40
PROGRAM = job_program(OUTPUT, ROWS * 128)


@pytest.fixture(scope="module", params=["verilator", "golden"])
def device(request):
    with Device(load_config("tiny"), request.param, memory_bytes=MEMORY, timeout_cycles=100_000) as device:
        yield device


def operands(seed):
    rng = np.random.default_rng(seed)
    a = (rng.integers(-128, 128, (ROWS, COLUMNS)) * (rng.random((ROWS, COLUMNS)) < 0.3)).astype(np.int8)
    a[0, 0], a[2], a[-1, -1] = 5, 0, 7
    return a, rng.integers(-128, 128, (COLUMNS, 32), np.int8)


def images(seed):
    """Shared memory with a job, its operands, and the right sums."""
    a, b = operands(seed)
    matrix = compress("a", sp.csr_array(a))
    shared = np.zeros(IMAGE_BYTES, np.uint8)
    shared[PANEL:PANEL + JOB_BYTES] = panel_record(0, COLUMNS, B)
    shared[B:B + b.size] = b.reshape(-1).view(np.uint8)
    package = rows_package(matrix, 0, ROWS, PACKAGE, OUTPUT, COLUMNS)
    shared[PACKAGE:PACKAGE + len(package)] = package
    return shared, matrix, a.astype(np.int32) @ b.astype(np.int32)


def run(device, shared, job=PACKAGE):
    device.memory.bytes[SOURCE:SOURCE + len(shared)] = shared
    device.memory.bytes[:ROWS * 128] = 0
    device.run(PROGRAM, {3: job})
    return device.memory.bytes[:ROWS * 128].view(np.int32).reshape(ROWS, 32).copy()


CASES = {
    "no rows": (lambda shared, matrix: changed(shared, rows=0), ErrorCode.SPARSE_JOB, PACKAGE),
    "no panel": (lambda shared, matrix: changed(shared, panel_rows=0), ErrorCode.SPARSE_JOB, PACKAGE),
    "large panel": (lambda shared, matrix: changed(shared, panel_rows=65), ErrorCode.SPARSE_JOB, PACKAGE),
    "pointers": (lambda shared, matrix: changed(shared, pointers=POINTERS + 2), ErrorCode.SPARSE_JOB, PACKAGE),
    "indices": (lambda shared, matrix: changed(shared, indices=PACKAGE + 8), ErrorCode.SPARSE_JOB, PACKAGE),
    "values": (lambda shared, matrix: changed(shared, values=PACKAGE + 4), ErrorCode.SPARSE_JOB, PACKAGE),
    "output": (lambda shared, matrix: changed(shared, output=OUTPUT + 64), ErrorCode.SPARSE_JOB, PACKAGE),
    "first": (lambda shared, matrix: changed(shared, first=8), ErrorCode.SPARSE_JOB, PACKAGE),
    "fall": (lambda shared, matrix: set_pointer(shared, 3, 0), ErrorCode.SPARSE_POINTER, 2),
    "before first": (lambda shared, matrix: changed(shared, first=16), ErrorCode.SPARSE_POINTER, 0),
    "index": (lambda shared, matrix: set_index(shared, ROWS, matrix.indptr[3] + 1, COLUMNS), ErrorCode.SPARSE_INDEX, 3 << 16 | COLUMNS),
    "first index": (lambda shared, matrix: set_index(shared, ROWS, 0, 0xFFFF), ErrorCode.SPARSE_INDEX, 0xFFFF),
    "pointers outside": (lambda shared, matrix: changed(shared, pointers=END + 0x40), ErrorCode.OUT_OF_RANGE, END + 0x40),
    "indices outside": (lambda shared, matrix: changed(shared, indices=END), ErrorCode.OUT_OF_RANGE, END),
    "values outside": (lambda shared, matrix: changed(shared, values=END), ErrorCode.OUT_OF_RANGE, END),
    "sums outside": (lambda shared, matrix: changed(shared, output=END - 128), ErrorCode.OUT_OF_RANGE, END),
    "far row": (lambda shared, matrix: set_pointer(shared, ROWS, 1 << 30), ErrorCode.SPARSE_INDEX, None),     # what lies behind the indices
}


@pytest.mark.parametrize("name", CASES)
def test_broken_jobs(name, device, seed):
    shared, matrix, expected = images(seed)
    breaks, code, operand = CASES[name]
    broken = shared.copy()
    breaks(broken, matrix)
    with pytest.raises(DeviceError) as raised:
        run(device, broken)
    assert raised.value.code is code
    assert operand is None or raised.value.operand == operand
    np.testing.assert_array_equal(run(device, shared), expected)        # the device goes on


@pytest.mark.parametrize("address, code", [(PACKAGE + 8, ErrorCode.SPARSE_JOB), (END - 16, ErrorCode.OUT_OF_RANGE),
                                           (END, ErrorCode.OUT_OF_RANGE)])
def test_job_addresses(address, code, device, seed):
    shared, _, expected = images(seed)
    with pytest.raises(DeviceError) as raised:
        run(device, shared, address)
    assert raised.value.code is code and raised.value.operand == max(address, END if address == END - 16 else 0)
    np.testing.assert_array_equal(run(device, shared), expected)


def test_a_panel_outside(device, seed):
    shared, _, expected = images(seed)
    broken = shared.copy()
    broken[PANEL:PANEL + JOB_BYTES] = panel_record(0, COLUMNS, END - 32 * (COLUMNS - 1))
    with pytest.raises(DeviceError) as raised:
        run(device, broken)
    assert raised.value.code is ErrorCode.OUT_OF_RANGE and raised.value.operand == END
    np.testing.assert_array_equal(run(device, shared), expected)
