"""Bench of sampled products on the sparse engine with its lanes: sums of elements, their order, errors and pace."""

from functools import partial
from types import SimpleNamespace

import cocotb
import numpy as np
from heddle.constants import ROW_BYTES
from heddle.isa.error_codes import ErrorCode
from heddle.isa.sparse_job import STRIP_ROWS, SparseKind
from heddle_sim.sparse.job import job_record

from .sparse_engine import SHAPES, SparseBench, row_counts

WORDS = (1, 2, 3, 8)        # factor words of a column


class SampleBench(SparseBench):
    """A ``SparseBench`` with jobs of sampled products."""

    def samples_job(self, counts, words, *, start=0, columns=None, wide=False, unsigned=(False, False, False), pattern=False,
                    by_columns=False, record=()):
        """A job on a random mask with ``counts`` elements in its rows, the first one element ``start``: address, output and sums.

        ``words``: factor words of a column. ``unsigned``: values of the mask, bytes of B, bytes of A. ``by_columns``: A lies by columns,
        its first row anywhere in its strip. ``record`` has other values of fields of the record, which then may have an error.
        """
        cfg, rng = self.cfg, self.rng
        size = words * cfg.threads * cfg.dot
        columns = columns or cfg.factor_words // words
        kind = np.int16 if wide else np.uint8 if unsigned[0] else np.int8
        pointers, first, values, indices = self.random_elements(counts, start, kind, columns)
        left = rng.integers(0, 256, (len(counts), size), np.uint8)
        left[rng.random(left.shape) < 0.2] = 128
        b = self.panel.reshape(-1)[:columns * size].reshape(columns, size)
        b, a = (array.view(np.uint8 if flag else np.int8).astype(np.int64) for array, flag in ((b, unsigned[1]), (left, unsigned[2])))
        rows = np.repeat(np.arange(len(counts)), counts)
        sums = np.einsum("ek,ek->e", a[rows], b[indices[start - first:]])
        sums = sums * (1 if pattern else values[start - first:].astype(np.int64)) & 0xFFFFFFFF
        parts = {"pointers": self.place(pointers.astype(np.int32), gap=4 * int(rng.integers(4))), "indices": self.place(indices),
                 "values": 0 if pattern else self.place(values)}
        if by_columns:
            place = int(rng.integers(STRIP_ROWS))
            parts |= {"left": self.place(self.strips(left, place), ROW_BYTES), "left_by_columns": 1, "left_first": place}
        else:
            parts["left"] = self.place(left, min(ROW_BYTES, cfg.sparse_columns))
        output = self.room(4 * max(len(values), 1), 16)
        fields = dict(kind=SparseKind.SAMPLES.value, rows=len(counts), panel_rows=columns, words=words, first=first, output=output,
                      wide_values=int(wide), unsigned_values=int(unsigned[0]), unsigned_panel=int(unsigned[1]),
                      unsigned_left=int(unsigned[2]), pattern=int(pattern)) | parts
        data = job_record(**fields | {name: value for name, value in dict(record).items() if name != "kind"}).copy()
        data[0] |= dict(record).get("kind", 0)          # also one that does not exist
        address = self.place(data)
        return SimpleNamespace(address=address, output=output + 4 * (start - first), sums=sums, **parts | {"counts": counts})

    def strips(self, left, place):
        """Rows of A by columns, the first one at ``place`` of its strip; other bytes of strips are random."""
        rows, size = left.shape
        whole = self.rng.integers(0, 256, (-(-(place + rows) // STRIP_ROWS) * STRIP_ROWS, size), np.uint8)
        whole[place:place + rows] = left
        return whole.reshape(-1, STRIP_ROWS, size).transpose(0, 2, 1)

    def strips_fit(self, words):
        """Whether two strips of A have room in shared memory beside others."""
        return 2 * STRIP_ROWS * words * self.cfg.threads * self.cfg.dot <= self.cfg.shared_bytes // 4

    def most_rows(self, words):
        """Rows whose operands have room in shared memory beside others."""
        return max(1, min(12, self.cfg.shared_bytes // 6 // (words * self.cfg.threads * self.cfg.dot)))

    def random_job(self, shape, words, **options):
        """A job with rows of a shape."""
        flags = tuple(bool(bit) for bit in self.rng.integers(0, 2, 3))
        counts = row_counts(self, shape, int(self.rng.integers(1, self.most_rows(words) + 1)))[:self.most_rows(words)]
        by_columns = bool(self.rng.integers(2)) and self.strips_fit(words)
        return self.samples_job(counts, words, start=int(self.rng.integers(40)), unsigned=flags, by_columns=by_columns, **options)

    def compare(self, job):
        if not hasattr(job, "left"):
            super().compare(job)
            return
        found = self.memory.data[job.output:job.output + 4 * len(job.sums)].view("<u4")
        assert (found == job.sums).all(), f"elements {np.flatnonzero(found != job.sums)} of {found} differ from {job.sums}"


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(shape=SHAPES)
async def samples(dut, shape):
    """Random masks of each shape, columns of one word and of several, values of all kinds and none."""
    bench = SampleBench(dut)
    await bench.start()
    await bench.load()
    for words, options in zip(WORDS, ({}, {"wide": True}, {"pattern": True}, {})):
        bench.clear()
        job = bench.random_job(shape, words, **options)
        await bench.check([job.address])
        bench.compare(job)
    bench.finish()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def several_samples(dut):
    """Jobs of all kinds one after the other; columns are replaced between them."""
    bench = SampleBench(dut)
    await bench.start()
    await bench.load()
    for _ in range(6):
        bench.clear()
        jobs, made = [], []
        for kind in ("samples", *bench.rng.permutation(["panel", "rows", "samples", "samples", "rows", "panel"])):
            if kind == "panel":
                jobs.append(bench.panel_piece(5))
                continue
            shape = bench.random.choice(("mixed", "empty", "short", "column"))
            if kind == "rows":
                made.append(bench.rows_job(row_counts(bench, shape, int(bench.rng.integers(1, 4))), start=int(bench.rng.integers(40))))
            else:
                made.append(bench.random_job(shape, bench.random.choice((1, 1, 2)), pattern=bool(bench.rng.integers(2))))
            jobs.append(made[-1].address)
        await bench.check(jobs)
        for job in made:
            bench.compare(job)
    bench.finish()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def sample_errors(dut):
    """Every error, between jobs without one; elements before it are stored, and the engine goes on."""
    bench = SampleBench(dut)
    await bench.start()
    cfg, size, counts = bench.cfg, bench.cfg.shared_bytes, [3, 0, 9, 2, 5]
    await bench.load()
    most, row = cfg.factor_words, cfg.threads * cfg.dot
    faults = [(name, value, ErrorCode.SPARSE_JOB) for name, value in (
        ("rows", 0), ("panel_rows", 0), ("panel_rows", most + 1), ("words", 0), ("words", 2), ("words", 9), ("first", 8), ("pointers", 2),
        ("indices", 8), ("values", 24), ("left", 16), ("output", 8), ("kind", 3))]
    faults += [(name, size - back, ErrorCode.OUT_OF_RANGE) for name, back in (
        ("pointers", 0), ("pointers", 16), ("indices", 0), ("indices", 32), ("values", 0), ("values", 16), ("output", 0), ("output", 16),
        ("output", 48), ("left", 0), ("left", 2 * row), ("left", 4 * row))]
    faults += [("first", 16, ErrorCode.SPARSE_POINTER)]
    await bench.wrong_fields(partial(bench.samples_job, counts, 1), faults)
    if bench.strips_fit(1):
        strip = STRIP_ROWS * row
        faults = [("left", place, ErrorCode.SPARSE_JOB) for place in (16, 32, 64)]
        faults += [("left", size - back, ErrorCode.OUT_OF_RANGE) for back in (0, 128, strip - 128)]
        await bench.wrong_fields(partial(bench.samples_job, counts, 1, by_columns=True), faults)
    for element in range(sum(counts)):
        bench.clear()
        words = 1 + element % 2
        limit = int(bench.rng.integers(1, most // words + 1))
        await bench.wrong_index(partial(bench.samples_job, counts, words, columns=limit), element, limit)
    bench.finish()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def first_sample_error(dut):
    """Of several errors of a job the first one in order counts, as in the golden model; elements before it are stored."""
    bench = SampleBench(dut)
    await bench.start()
    size, rng, failed = bench.cfg.shared_bytes, bench.rng, 0
    await bench.load()
    for _ in range(30):
        bench.clear()
        name, place = bench.random.choice(("indices", "values", "output", "left", None)), size - int(rng.choice([16, 32, 48, 128, 256]))
        place = place // 128 * 128 if name == "left" else place
        job = bench.random_job(bench.random.choice(SHAPES), bench.random.choice((1, 2)), record={} if name is None else {name: place})
        if name in ("indices", "values"):
            bench.memory.data[place:] = bench.memory.data[getattr(job, name):][:size - place]
        for _ in range(int(rng.integers(3))):
            at = job.pointers + 4 * int(rng.integers(len(job.counts) + 1))
            pointer = bench.memory.data[at:at + 4].view("<u4")
            if rng.integers(2):
                pointer += np.uint32(rng.integers(-3, 4) % (1 << 32))
            elif sum(job.counts) and name != "indices":
                at = job.indices + 2 * int(rng.integers(sum(job.counts)))
                bench.memory.data[at:at + 2] = rng.integers(256, size=2)
        await bench.check([job.address])
        failed += bench.error is not None
    bench.finish()
    assert failed > 5, f"more than 5 jobs must fail, not {failed}"


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def sample_stops(dut):
    """Jobs that are stopped at any time: every sum is right or not written, in order; the next job runs."""
    bench = SampleBench(dut)
    await bench.start()
    await bench.load()
    for after in (1, 2, 4, 9, *bench.rng.integers(10, 200, 12)):
        bench.clear()
        jobs = [bench.random_job("mixed", words) for words in (1, 2, 1)]
        shared = bench.memory.data.copy()
        await bench.run([job.address for job in jobs], stop_after=int(after))
        assert bench.error is None
        ended = False
        for job in jobs:
            for number, value in enumerate(job.sums):
                place = slice(job.output + 4 * number, job.output + 4 * number + 4)
                found = bench.memory.data[place]
                stored = int(found.view("<u4")[0]) == value
                assert stored or (found == shared[place]).all(), f"element {number} is neither right nor unchanged"
                assert not (stored and ended) or int(shared[place].view("<u4")[0]) == value, "elements are stored in order"
                ended = not stored
        await bench.goes_on(jobs[0])
    bench.finish()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def sample_pace(dut):
    """Without stalls an element takes its words in cycles, and a row at least the load of its row of A; jobs follow without gaps."""
    bench = SampleBench(dut, paced=True)
    await bench.start()
    cfg, report = bench.cfg, []
    await bench.load()
    for count, words, jobs, by_columns in ((24, 1, 1, False), (24, 2, 1, False), (3, 2, 1, False), (1, 1, 1, False), (0, 1, 1, False),
                                           (20, 2, 3, False), (24, 1, 1, True), (1, 1, 1, True), (1, 5, 1, True)):
        bench.clear()
        rows = max(1, bench.most_rows(words) * 2 // 3)
        if by_columns and not bench.strips_fit(words):
            continue
        made = [bench.samples_job([count] * rows, words, by_columns=by_columns) for _ in range(jobs)]
        before = bench.totals["steps"]
        cycles = await bench.check([job.address for job in made])
        for job in made:
            bench.compare(job)
        assert bench.totals["steps"] - before == count * words * rows * jobs
        load = words * cfg.numbers_per_word * cfg.thread_groups * (4 if by_columns else 1)
        pairs = by_columns and words <= 4       # two rows at once; the first one may be alone
        each = (load + 8) / 2 if pairs else load + 6
        expected = max(count * words, each if count else 1) * rows * jobs + (each if pairs else 0)
        report.append((count, words, jobs, rows, cycles, expected, load))
    dut._log.info("pace: %s", report)
    for count, _, jobs, rows, cycles, expected, load in report:
        most = expected + load + 60 + 4 * cfg.lane_slices + 12 * (jobs - 1)
        assert cycles <= most, f"{cycles} cycles for {jobs} jobs of {rows} rows of {count}"
    bench.finish()
