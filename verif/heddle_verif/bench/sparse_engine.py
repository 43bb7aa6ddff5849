"""Bench of the sparse engine on the lanes: products of sparse matrices and their errors."""

from types import SimpleNamespace

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from heddle.interfaces.front_end import SPARSE_JOBS, sparse_start_layout
from heddle.interfaces.layouts import error_layout
from heddle_sim.golden.sparse_engine import SparseFault, sparse_run
from heddle_sim.sparse.job import job_record, panel_record
from heddle_sim.toolchain.cocotb_process import bench_config

from ..agents.banks import BankMemory
from ..agents.payload import pack
from ..coverage.errors import sample_error
from ..duts.sparse_system import SparseSystem
from ..fixture import Bench

LIMIT = 20_000      # cycles of some jobs
MEMORIES = ((0, 1), (0, 1), (3, 2), (14, 16))       # latencies that are drawn: largest delay of a request, requests that are accepted ahead
EVENTS = ("steps", "halves", "loads", "waits")
SHAPES = ("mixed", "empty", "dense_row", "column", "short", "long")


class SparseBench(Bench):
    """An engine with lanes; the bench is shared memory.

    Attributes
    ----------
    factors : uint8 [threads, factor_words, dot]
        What the golden model has in the factor register files.
    """

    def __init__(self, dut, paced=False):
        super().__init__(dut, SparseSystem(bench_config()))
        self.memory = BankMemory(dut, self.cfg, self.rng, read="bank_read", write="bank_write", grant_chance=1.0 if paced else 0.7)
        self.memory.on_access = self._access
        self.factors = np.zeros((self.cfg.threads, self.cfg.factor_words, self.cfg.dot), np.uint8)
        self.panel = np.zeros((self.cfg.sparse_rows, self.cfg.sparse_columns), np.uint8)
        self.totals, self._steps = dict.fromkeys(EVENTS, 0), 0
        self._memories = ((0, 1),) if paced else MEMORIES

    def _access(self, kind, bank, row):
        self.progress()
        assert self.dut.busy.value, f"{kind} of row {row} of bank {bank} while not busy"

    # -- contents of shared memory ----------------------------------------------------------

    def clear(self):
        """Random bytes; nothing is placed."""
        self.memory.data[:] = self.rng.integers(0, 256, len(self.memory.data))
        self.free = 0

    def place(self, array, alignment=16, gap=0):
        """Address of the bytes of an array in shared memory, ``gap`` bytes behind an aligned one."""
        data = np.ascontiguousarray(array).view(np.uint8).ravel()
        address = -(-self.free // alignment) * alignment + gap
        assert address + data.size <= self.cfg.shared_bytes, "shared memory must hold the case"
        self.memory.data[address:address + data.size] = data
        self.free = address + data.size
        return address

    def room(self, size, alignment=128):
        """Address of a free part of shared memory."""
        address = -(-self.free // alignment) * alignment
        self.free = address + size
        assert self.free <= self.cfg.shared_bytes, "shared memory must hold the case"
        return address

    def panel_job(self, rows, first=0):
        """A job that loads random rows of B, and what the panel is after it; address."""
        data = self.rng.integers(0, 256, (rows, self.cfg.sparse_columns), np.uint8)
        self.panel[first:first + rows] = data
        source = self.place(data, min(128, self.cfg.sparse_columns))
        return self.place(panel_record(first, rows, source))

    def rows_job(self, counts, *, start=0, wide=False, unsigned=False, panel_rows=None, planes=False, unsigned_panel=False, **changes):
        """A job of random rows with ``counts`` non-zeros, which begin at element ``start``: address, output and sums.

        ``changes`` go to the record, which then may have an error.
        """
        cfg, rng = self.cfg, self.rng
        panel_rows = panel_rows or cfg.sparse_rows
        pointers = start + np.cumsum([0, *counts])
        first = start // 16 * 16
        kind = np.int16 if wide else np.uint8 if unsigned else np.int8
        extremes = np.iinfo(kind)
        size = int(pointers[-1] - first)
        values = rng.integers(extremes.min, extremes.max + 1, size).astype(kind)
        values[rng.random(size) < 0.2] = extremes.min
        limit = panel_rows // 2 if planes else panel_rows
        indices = rng.integers(0, limit, size).astype(np.uint16)
        begin = start - first
        foreign = rng.integers(0, 1 << 16, begin).astype(np.uint16)
        indices[:begin] = foreign           # of another row: may be any number
        b = self.panel if unsigned_panel else self.panel.view(np.int8)
        b = b.astype(np.int64)
        if planes:
            b = self.panel[0::2].astype(np.int64) + 256 * self.panel[1::2].view(np.int8).astype(np.int64)
        a = np.zeros((len(counts), len(b)), np.int64)
        for row, (low, high) in enumerate(zip(pointers - first, pointers[1:] - first)):
            np.add.at(a[row], indices[low:high], values[low:high])
        parts = {"pointers": self.place(pointers.astype(np.int32), gap=4 * int(rng.integers(4))), "indices": self.place(indices),
                 "values": self.place(values)}
        output = self.room(4 * cfg.sparse_columns * len(counts))
        record = dict(rows=len(counts), panel_rows=panel_rows, first=first, output=output, wide_values=int(wide),
                      unsigned_values=int(unsigned), planes=int(planes), unsigned_panel=int(unsigned_panel)) | parts
        address = self.place(job_record(**record | changes))
        return SimpleNamespace(address=address, output=output, sums=(a @ b) & 0xFFFFFFFF, **parts)

    # -- jobs -------------------------------------------------------------------------------

    async def run(self, addresses, stop_after=None):
        """Cycles of some jobs, from the transfer of the first one to the end of the last; ``error`` becomes the error or None."""
        dut, jobs = self.dut, list(enumerate(addresses))
        self.memory.delay, self.memory.places = self.random.choice(self._memories)
        self.error, cycles, begun, offered = None, 0, False, False
        while True:
            if jobs and not offered and (not begun or self.random.random() < 0.8):
                number, address = jobs[0]
                dut.run__job__valid.value = offered = 1
                dut.run__job__payload.value = pack(sparse_start_layout, {"address": address, "pc": number + 5})
            await RisingEdge(dut.clk)
            cycles += begun
            if offered and int(dut.run__job__ready.value):
                jobs.pop(0)
                dut.run__job__valid.value = offered = 0
                begun = True
            dut.stop.value = int(stop_after is not None and cycles == stop_after)
            if int(dut.o_error__valid.value):
                assert self.error is None, "an error must be reported once"
                error = error_layout.from_bits(int(dut.o_error__payload.value))
                self.error = error.code, error.operand, error.pc - 5
                sample_error("sparse engine", error.code)
                jobs = []
            for name in EVENTS:
                self.totals[name] += int(getattr(dut, f"events__sparse_{name}").value)
            left = int(dut.run__left.value)
            assert left <= SPARSE_JOBS and bool(left) == bool(int(dut.busy.value))
            if self.totals["steps"] != self._steps:
                self._steps = self.totals["steps"]
                self.progress()
            if self.error or (stop_after is not None and cycles > stop_after):
                jobs = []
                if offered:
                    dut.run__job__valid.value = offered = 0
            if begun and cycles and not left and not jobs:
                break
            assert cycles < LIMIT, f"the jobs must end within {LIMIT} cycles"
        dut.stop.value = 0
        return cycles

    def expected(self, addresses):
        """Shared memory after some jobs, and their error with the number of its job, of the golden model."""
        shared = self.memory.data.copy()
        for number, address in enumerate(addresses):
            try:
                sparse_run(self.cfg, self.factors, shared, address)
            except SparseFault as fault:
                return shared, (fault.code, fault.operand, number)
        return shared, None

    async def check(self, addresses):
        """Run jobs, and compare error and all of shared memory with the golden model's."""
        shared, error = self.expected(addresses)
        cycles = await self.run(addresses)
        assert self.error == error, f"{self.error}, not {error}"
        wrong = np.flatnonzero(self.memory.data != shared)
        assert not len(wrong), f"{len(wrong)} bytes differ, first at {wrong[0]:#x}"
        return cycles

    def compare(self, job):
        """Compare the sums of a job in shared memory with numpy's."""
        size = 4 * self.cfg.sparse_columns
        for row, sums in enumerate(job.sums):
            place = job.output + row * size
            found = self.memory.data[place:place + size].view("<u4")
            assert (found == sums).all(), f"row {row}: {np.flatnonzero(found != sums)} of {found} differ from {sums}"


def row_counts(bench, shape, rows):
    """Non-zeros of random rows."""
    rng = bench.rng
    if shape == "empty":
        return [0] * rows
    if shape == "column":
        return [1] * rows
    if shape == "dense_row":
        return [0] * (rows // 2) + [int(rng.integers(40, 70))] + [0] * (rows // 2)
    if shape == "short":
        return [int(count) for count in rng.integers(0, 4, rows)]
    if shape == "long":
        return [int(count) for count in rng.integers(9, 30, max(rows // 4, 1))]
    return [int(count) for count in np.where(rng.random(rows) < 0.3, 0, rng.integers(0, 12, rows))]


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(shape=SHAPES)
async def products(dut, shape):
    """Random matrices of each shape: values of all kinds, the first element anywhere in its word."""
    bench = SparseBench(dut)
    await bench.start()
    for wide, unsigned in ((False, False), (True, False), (False, True)):
        for planes in (False, True) if bench.cfg.sparse_pairs > 1 and not (wide or unsigned) else (False,):
            bench.clear()
            load = bench.panel_job(bench.cfg.sparse_rows)
            job = bench.rows_job(row_counts(bench, shape, int(bench.rng.integers(1, 13))), start=int(bench.rng.integers(40)), wide=wide,
                                 unsigned=unsigned, planes=planes, unsigned_panel=bool(bench.rng.integers(2)))
            await bench.check([load, job.address])
            bench.compare(job)
    bench.finish()
