"""Bench of the sparse engine on the lanes: products of sparse matrices and their errors."""

from functools import partial
from types import SimpleNamespace

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from heddle.interfaces.front_end import SPARSE_JOBS, sparse_start_layout
from heddle.interfaces.layouts import error_layout
from heddle.isa.error_codes import ErrorCode
from heddle.isa.sparse_job import PanelTarget
from heddle_sim.golden.sparse_engine import EngineRegisters, SparseFault, sparse_run
from heddle_sim.sparse.job import job_record, panel_record
from heddle_sim.toolchain.cocotb_process import bench_config

from ..agents.banks import BankMemory
from ..agents.payload import pack
from ..coverage.errors import sample_error
from ..coverage.sparse import sample_job
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
    registers : EngineRegisters
        What the golden model has in the engine and its PEs.
    """

    def __init__(self, dut, paced=False):
        super().__init__(dut, SparseSystem(bench_config()))
        self.memory = BankMemory(dut, self.cfg, self.rng, read="bank_read", write="bank_write", grant_chance=1.0 if paced else 0.7)
        self.memory.on_access = self._access
        self.registers = EngineRegisters.of(self.cfg)
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

    def panel_job(self, rows, first=0, strips=0):
        """A job that loads random rows of B, and what the panel is after it; address."""
        data = self.rng.integers(0, 256, (rows, self.cfg.sparse_columns), np.uint8)
        self.panel[first:first + rows] = data
        return self.load_job(data, first, strips=strips)

    def load_job(self, rows, first=0, target=PanelTarget.PANEL, strips=0):
        """A job that loads rows of bytes; address."""
        source = self.place(in_strips(rows, strips), min(128, self.cfg.sparse_columns))
        return self.place(panel_record(first, len(rows), source, target, strips))

    def panel_piece(self, most, strips=0):
        """A job that replaces up to ``most`` rows of the panel anywhere; address."""
        rows, first = self.cfg.sparse_rows, int(self.rng.integers(self.cfg.sparse_rows))
        return self.panel_job(int(self.rng.integers(1, min(rows - first, most) + 1)), first, strips)

    async def load(self):
        """The whole panel, from a shared memory that is cleared before and after it."""
        cfg, rows = self.cfg, max(1, self.cfg.shared_bytes // 2 // self.cfg.sparse_columns)
        for first in range(0, cfg.sparse_rows, rows):
            self.clear()
            await self.check([self.panel_job(min(rows, cfg.sparse_rows - first), first)])
        self.clear()

    def random_elements(self, counts, start, kind, limit):
        """Pointers of rows with ``counts`` elements, the first one element ``start``; the first element of its word; from there on values
        of type ``kind``, and indices below ``limit``. Those in front of ``start`` are of another row: their indices may be any number."""
        rng, extremes = self.rng, np.iinfo(kind)
        pointers, first = start + np.cumsum([0, *counts]), start // 16 * 16
        size = int(pointers[-1] - first)
        values = rng.integers(extremes.min, extremes.max + 1, size).astype(kind)
        values[rng.random(size) < 0.2] = extremes.min
        indices = rng.integers(0, limit, size).astype(np.uint16)
        indices[:start - first] = rng.integers(0, 1 << 16, start - first)
        return pointers, first, values, indices

    def rows_job(self, counts, *, start=0, wide=False, unsigned=False, panel_rows=None, unsigned_panel=False, record=()):
        """A job of random rows with ``counts`` non-zeros, which begin at element ``start``: address, output and sums.

        ``record`` has other values of fields of the record, which then may have an error.
        """
        cfg, rng = self.cfg, self.rng
        panel_rows = panel_rows or cfg.sparse_rows
        kind = np.int16 if wide else np.uint8 if unsigned else np.int8
        pointers, first, values, indices = self.random_elements(counts, start, kind, panel_rows)
        b = self.panel if unsigned_panel else self.panel.view(np.int8)
        b = b.astype(np.int64)
        a = np.zeros((len(counts), len(b)), np.int64)
        for row, (low, high) in enumerate(zip(pointers - first, pointers[1:] - first)):
            np.add.at(a[row], indices[low:high], values[low:high])
        parts = {"pointers": self.place(pointers.astype(np.int32), gap=4 * int(rng.integers(4))), "indices": self.place(indices),
                 "values": self.place(values)}
        output = self.room(4 * cfg.sparse_columns * len(counts))
        fields = dict(rows=len(counts), panel_rows=panel_rows, first=first, output=output, wide_values=int(wide),
                      unsigned_values=int(unsigned), unsigned_panel=int(unsigned_panel)) | parts
        address = self.place(job_record(**fields | dict(record)))
        return SimpleNamespace(address=address, output=output, sums=(a @ b) & 0xFFFFFFFF, **parts)

    # -- jobs -------------------------------------------------------------------------------

    async def run(self, addresses, stop_after=None):
        """Cycles of some jobs, from the transfer of the first one to the end of the last; ``error`` becomes the error or None."""
        dut, jobs = self.dut, list(enumerate(addresses))
        self.memory.delay, self.memory.places = self.random.choice(self._memories)
        self.error, cycles, left, begun, offered = None, 0, 0, False, False
        while True:
            ends = stop_after is not None and cycles >= stop_after
            dut.stop.value = int(ends and cycles == stop_after)
            # A job is offered where the engine takes it: what is offered must stay, and would run after a stop.
            if jobs and not ends and left < SPARSE_JOBS and (not begun or self.random.random() < 0.8):
                number, address = jobs.pop(0)
                dut.run__job__valid.value = offered = 1
                dut.run__job__payload.value = pack(sparse_start_layout, {"address": address, "pc": number + 5})
            await RisingEdge(dut.clk)
            cycles += begun
            assert not offered or int(dut.run__job__ready.value), "the engine must take a job"
            begun, taken = begun or offered, offered
            dut.run__job__valid.value = offered = 0
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
            if begun and cycles and not left and (ends or not jobs):
                break
            left += taken
            assert cycles < LIMIT, f"the jobs must end within {LIMIT} cycles"
        dut.stop.value = 0
        return cycles

    def expected(self, addresses):
        """Shared memory after some jobs, and their error with the number of its job, of the golden model."""
        shared = self.memory.data.copy()
        for number, address in enumerate(addresses):
            try:
                sparse_run(self.cfg, self.registers, shared, address)
            except SparseFault as fault:
                return shared, (fault.code, fault.operand, number)
            sample_job(self.registers, shared, address)
        return shared, None

    async def check(self, addresses):
        """Run jobs, and compare error and all of shared memory with the golden model's."""
        shared, error = self.expected(addresses)
        cycles = await self.run(addresses)
        assert self.error == error, f"{self.error}, not {error}"
        wrong = np.flatnonzero(self.memory.data != shared)
        assert not len(wrong), f"{len(wrong)} bytes differ, first at {wrong[0]:#x}"
        return cycles

    async def goes_on(self, job):
        """The engine does a job as ever."""
        await self.check([job.address])
        self.compare(job)

    async def wrong_fields(self, make, faults):
        """Jobs with one wrong field, each between two without. ``make``: a job, with ``record`` as of ``rows_job``; ``faults``: name of the
        field, its value, code of the error."""
        size = self.cfg.shared_bytes
        for name, value, code in faults:
            self.clear()
            before, job, after = make(), make(record={name: value}), make()
            if name in ("pointers", "indices") and value >= size - 64:      # those that are inside are legal
                self.memory.data[value:] = 0
            await self.check([before.address, job.address, after.address])
            assert self.error and self.error[0] == code, f"{self.error}, not {code} with {name} = {value:#x}"
            self.compare(before)
            await self.goes_on(after)

    async def wrong_index(self, make, element, limit):
        """A job whose ``element`` has an index that the panel does not have, between two without. Shared memory was cleared. Returns the
        last one."""
        before, job, after = (make() for _ in range(3))
        value = int(self.rng.integers(limit, 1 << 16))
        self.memory.data[job.indices + 2 * element:job.indices + 2 * element + 2] = value & 255, value >> 8
        await self.check([before.address, job.address, after.address])
        assert self.error[0] == ErrorCode.SPARSE_INDEX and self.error[1] & 0xFFFF == value and self.error[2] == 1, self.error
        await self.goes_on(after)
        return after

    def compare(self, job):
        """Compare the sums of a job in shared memory with numpy's."""
        size = 4 * self.cfg.sparse_columns
        for row, sums in enumerate(job.sums):
            place = job.output + row * size
            found = self.memory.data[place:place + size].view("<u4")
            assert (found == sums).all(), f"row {row}: {np.flatnonzero(found != sums)} of {found} differ from {sums}"


def in_strips(rows, strips):
    """Rows of bytes as jobs with ``strips`` have them in memory: those of the first part of the PEs, then those of the next one."""
    return rows.reshape(len(rows), 1 << strips, -1).transpose(1, 0, 2)


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
        bench.clear()
        load = bench.panel_job(min(bench.cfg.sparse_rows, 48))
        job = bench.rows_job(row_counts(bench, shape, int(bench.rng.integers(1, 13))), start=int(bench.rng.integers(40)), wide=wide,
                             unsigned=unsigned, unsigned_panel=bool(bench.rng.integers(2)), panel_rows=48)
        await bench.check([load, job.address])
        bench.compare(job)
    bench.finish()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def several_jobs(dut):
    """Panels and rows one after the other, more jobs than the engine takes at once; pieces of the panel are replaced between them."""
    bench = SparseBench(dut)
    await bench.start()
    for _ in range(6):
        bench.clear()
        rows = bench.cfg.sparse_rows
        jobs, products = [bench.panel_job(rows)] if not bench.panel.any() else [], []
        for kind in ("rows", "rows", *bench.rng.permutation(["panel", "rows", "rows", "panel", "rows"])):
            if kind == "panel":
                jobs.append(bench.panel_piece(9))
            else:
                counts = row_counts(bench, bench.random.choice(SHAPES), int(bench.rng.integers(1, 6)))
                products.append(bench.rows_job(counts, start=int(bench.rng.integers(40)), wide=bool(bench.rng.integers(2))))
                jobs.append(products[-1].address)
        await bench.check(jobs)
        for job in products:
            bench.compare(job)
    bench.finish()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def errors(dut):
    """Every error, with its operand and job, between jobs without one; rows before it are stored, and the engine goes on."""
    bench = SparseBench(dut)
    await bench.start()
    cfg, size, rows = bench.cfg, bench.cfg.shared_bytes, bench.cfg.sparse_rows
    bench.clear()
    await bench.check([bench.panel_job(rows)])
    counts = [3, 0, 9, 2, 5]
    faults = [(name, value, ErrorCode.SPARSE_JOB) for name, value in (
        ("rows", 0), ("panel_rows", 0), ("panel_rows", rows + 1), ("first", 8), ("pointers", 2), ("indices", 8), ("values", 24),
        ("output", 64))]
    faults += [(name, size - back, ErrorCode.OUT_OF_RANGE) for name, back in (
        ("pointers", 0), ("pointers", 16), ("pointers", 4), ("indices", 0), ("indices", 16), ("indices", 32), ("values", 0), ("values", 16),
        ("output", 0), ("output", 128), ("output", 16 * cfg.threads), ("output", 32 * cfg.threads))]
    faults += [("first", 16, ErrorCode.SPARSE_POINTER)]
    await bench.wrong_fields(partial(bench.rows_job, counts), faults)
    for row in range(len(counts)):
        bench.clear()
        before, job, after = bench.rows_job(counts), bench.rows_job(counts, start=21), bench.rows_job(counts)
        place = job.pointers + 4 * (row + 1)
        bench.memory.data[place:place + 4] = np.frombuffer(np.int32(20).tobytes(), np.uint8)
        await bench.check([before.address, job.address, after.address])
        assert bench.error == (ErrorCode.SPARSE_POINTER, row, 1), bench.error
        bench.compare(before)
        await bench.goes_on(after)
    for element in range(sum(counts)):
        bench.clear()
        limit = int(bench.rng.integers(1, rows + 1))
        after = await bench.wrong_index(partial(bench.rows_job, counts, panel_rows=limit), element, limit)
    for address, code in ((8, ErrorCode.SPARSE_JOB), (size, ErrorCode.OUT_OF_RANGE), (size - 16, ErrorCode.OUT_OF_RANGE),
                          (1 << 31, ErrorCode.OUT_OF_RANGE)):
        await bench.check([after.address, address, after.address])
        assert bench.error[0] == code, bench.error
    await bench.goes_on(after)
    bench.finish()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def first_error(dut):
    """Of several errors of a job the first one in order counts, as in the golden model; rows before it are stored."""
    bench = SparseBench(dut)
    await bench.start()
    size, rng, failed = bench.cfg.shared_bytes, bench.rng, 0
    bench.clear()
    await bench.check([bench.panel_job(bench.cfg.sparse_rows)])
    for _ in range(30):
        bench.clear()
        counts = row_counts(bench, bench.random.choice(SHAPES), int(rng.integers(1, 8)))
        name, place = bench.random.choice(("indices", "values", "output", None)), size - int(rng.choice([16, 32, 48, 128, 256]))
        # Indices, values or results at the end of shared memory.
        changes = {} if name is None else {name: place // 128 * 128 if name == "output" else place}
        job = bench.rows_job(counts, start=int(rng.integers(40)), record=changes)
        if name in ("indices", "values"):
            bench.memory.data[place:] = bench.memory.data[getattr(job, name):][:size - place]
        for _ in range(int(rng.integers(3))):
            kind, number = rng.integers(2), int(rng.integers(len(counts) + 1))
            if kind:
                at = job.pointers + 4 * number
                pointer = bench.memory.data[at:at + 4].view("<u4")
                pointer += np.uint32(rng.integers(-3, 4) % (1 << 32))
            elif sum(counts):
                at = (place if name == "indices" else job.indices) + 2 * int(rng.integers(sum(counts)))
                if at + 2 <= size:
                    bench.memory.data[at:at + 2] = rng.integers(256, size=2)
        await bench.check([job.address])
        failed += bench.error is not None
    bench.finish()
    assert failed > 5, f"more than 5 jobs must fail, not {failed}"


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def panel_errors(dut):
    """Panels that the register files or shared memory do not hold: no row is loaded."""
    bench = SparseBench(dut)
    await bench.start()
    rows, size = bench.cfg.sparse_rows, bench.cfg.shared_bytes
    bench.clear()
    await bench.check([bench.panel_job(rows)])
    for changes, code in ((dict(rows=0), ErrorCode.SPARSE_JOB), (dict(panel_rows=rows - 2), ErrorCode.SPARSE_JOB),
                          (dict(values=16), ErrorCode.SPARSE_JOB), (dict(values=size), ErrorCode.OUT_OF_RANGE),
                          (dict(values=size - 128), ErrorCode.OUT_OF_RANGE)):
        bench.clear()
        record = dict(kind=1, rows=64 if "values" in changes else 3, panel_rows=0, values=0) | changes
        job, product = bench.place(job_record(**record)), bench.rows_job([4, 5])
        await bench.run([job, product.address])
        operand = job if code == ErrorCode.SPARSE_JOB else size
        assert bench.error == (code, operand, 0), f"{bench.error}, not {code}"
        await bench.goes_on(product)
    bench.finish()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def stops(dut):
    """Jobs that are stopped at any time: every row of sums is complete or not written; the next job runs."""
    bench = SparseBench(dut)
    await bench.start()
    bench.clear()
    await bench.check([bench.panel_job(bench.cfg.sparse_rows)])
    for after in (1, 2, 4, 7, 9, *bench.rng.integers(10, 300, 15)):
        bench.clear()
        jobs = [bench.rows_job(row_counts(bench, "mixed", 8), start=int(bench.rng.integers(40))) for _ in range(3)]
        shared = bench.memory.data.copy()
        await bench.run([job.address for job in jobs], stop_after=int(after))
        assert bench.error is None
        size, ended = 4 * bench.cfg.sparse_columns, False
        for job in jobs:
            for row, sums in enumerate(job.sums):
                place = slice(job.output + row * size, job.output + (row + 1) * size)
                found = bench.memory.data[place]
                stored = (found.view("<u4") == sums).all()
                assert stored or (found == shared[place]).all(), f"row {row} is neither complete nor unchanged"
                assert not (stored and ended), "rows are stored in order"
                ended = not stored
        await bench.goes_on(jobs[0])
    bench.finish()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def pace(dut):
    """Without stalls rows take the larger of their steps and their drain, and jobs follow without gaps; panels take 32 bytes a cycle."""
    bench = SparseBench(dut, paced=True)
    await bench.start()
    cfg, report, far = bench.cfg, [], 2 * bench.cfg.lane_slices
    for count, jobs in ((16, 1), (2, 1), (15, 1), (0, 1), (5, 3), (2, 3)):
        bench.clear()
        load = await bench.check([bench.panel_job(32)])
        rows = 64 // jobs
        products = [bench.rows_job([count] * rows, panel_rows=32) for _ in range(jobs)]
        before = dict(bench.totals)
        cycles = await bench.check([job.address for job in products])
        for job in products:
            bench.compare(job)
        each = max(-(-count // cfg.sparse_pairs), cfg.thread_groups, 1)
        report.append((count, jobs, cycles, each * rows * jobs))
        assert cycles <= each * rows * jobs + 40 + far + 12 * (jobs - 1), f"{cycles} cycles for {jobs} jobs of {rows} rows of {count}"
        steps = max(-(-count // cfg.sparse_pairs), 1) * rows * jobs
        assert bench.totals["steps"] - before["steps"] == steps
        assert bench.totals["halves"] - before["halves"] == (rows * jobs if cfg.sparse_pairs > 1 and count % 2 else 0)
        assert load <= 32 * cfg.thread_groups + 26 + far, f"{load} cycles for a panel"
        report.append(("panel", load, 32 * cfg.thread_groups))
    dut._log.info("pace: %s", report)
    bench.finish()
