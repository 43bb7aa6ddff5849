"""Errors of jobs of sampled products that lie broken in memory: hardware and functional simulator report the same, and go on [S4.2]."""

import numpy as np
import pytest
import scipy.sparse as sp
from heddle import load_config
from heddle.isa.error_codes import ErrorCode
from heddle.isa.sparse_job import JOB_BYTES
from heddle_sim.device import Device, DeviceError
from heddle_sim.sparse import compress
from heddle_sim.sparse.job import panel_record, samples_package
from heddle_verif.stimulus.sparse_images import (
    END,
    IMAGE_BYTES,
    MEMORY,
    PACKAGE,
    PANEL,
    SOURCE,
    B,
    changed,
    job_program,
    set_index,
    set_pointer,
)

LEFT, OUTPUT = 0x1800, 0x2000        # in shared memory
ROWS, COLUMNS, INNER = 6, 20, 64
PROGRAM = job_program(OUTPUT, ROWS * COLUMNS * 4)


@pytest.fixture(scope="module", params=["verilator", "golden"])
def device(request):
    with Device(load_config("tiny"), request.param, memory_bytes=MEMORY, timeout_cycles=100_000) as device:
        yield device


def images(seed):
    """Shared memory with a job, its operands, and the right sums."""
    rng = np.random.default_rng(seed)
    dense = (rng.integers(-128, 128, (ROWS, COLUMNS)) * (rng.random((ROWS, COLUMNS)) < 0.3)).astype(np.int8)
    dense[0, 0], dense[2], dense[-1, -1] = 5, 0, 7
    a, b = rng.integers(-128, 128, (ROWS, INNER), np.int8), rng.integers(-128, 128, (COLUMNS, INNER), np.int8)
    mask = compress("mask", sp.csr_array(dense))
    shared = np.zeros(IMAGE_BYTES, np.uint8)
    shared[PANEL:PANEL + JOB_BYTES] = panel_record(0, 2 * COLUMNS, B)         # 32 bytes of K are a row of the panel of tiny
    package = samples_package(mask, 0, ROWS, PACKAGE, OUTPUT, left=LEFT, words=2, panel_rows=COLUMNS, pattern=0)
    for place, array in ((B, b), (LEFT, a), (PACKAGE, package)):
        data = array.reshape(-1).view(np.uint8)
        shared[place:place + data.size] = data
    return shared, mask, (np.einsum("ek,ek->e", a[mask.rows].astype(int), b[mask.indices].astype(int)) * mask.data).astype(np.int32)


def run(device, shared, count):
    device.memory.bytes[SOURCE:SOURCE + len(shared)] = shared
    device.memory.bytes[:ROWS * COLUMNS * 4] = 0
    device.run(PROGRAM, {3: PACKAGE})
    return device.memory.bytes[:4 * count].view(np.int32).copy()


def _kind(shared, kind):
    shared[PACKAGE] |= kind


CASES = {
    "kind": (lambda shared, mask: _kind(shared, 3), ErrorCode.SPARSE_JOB, PACKAGE),
    "no rows": (lambda shared, mask: changed(shared, rows=0), ErrorCode.SPARSE_JOB, PACKAGE),
    "no words": (lambda shared, mask: changed(shared, words=0), ErrorCode.SPARSE_JOB, PACKAGE),
    "many words": (lambda shared, mask: changed(shared, words=9), ErrorCode.SPARSE_JOB, PACKAGE),
    "many columns": (lambda shared, mask: changed(shared, panel_rows=33), ErrorCode.SPARSE_JOB, PACKAGE),
    "left": (lambda shared, mask: changed(shared, left=LEFT + 16), ErrorCode.SPARSE_JOB, PACKAGE),
    "output": (lambda shared, mask: changed(shared, output=OUTPUT + 8), ErrorCode.SPARSE_JOB, PACKAGE),
    "fall": (lambda shared, mask: set_pointer(shared, 3, 0), ErrorCode.SPARSE_POINTER, 2),
    "index": (lambda shared, mask: set_index(shared, ROWS, mask.indptr[3] + 1, COLUMNS), ErrorCode.SPARSE_INDEX, 3 << 16 | COLUMNS),
    "rows of a outside": (lambda shared, mask: changed(shared, left=END - 3 * INNER), ErrorCode.OUT_OF_RANGE, END),
    "indices outside": (lambda shared, mask: changed(shared, indices=END), ErrorCode.OUT_OF_RANGE, END),
    "values outside": (lambda shared, mask: changed(shared, values=END), ErrorCode.OUT_OF_RANGE, END),
    "sums outside": (lambda shared, mask: changed(shared, output=END - 16), ErrorCode.OUT_OF_RANGE, END),
}


@pytest.mark.parametrize("name", CASES)
def test_broken_jobs(name, device, seed):
    shared, mask, expected = images(seed)
    breaks, code, operand = CASES[name]
    broken = shared.copy()
    breaks(broken, mask)
    with pytest.raises(DeviceError) as raised:
        run(device, broken, mask.elements)
    assert raised.value.code is code and raised.value.operand == operand
    np.testing.assert_array_equal(run(device, shared, mask.elements), expected)        # the device goes on
