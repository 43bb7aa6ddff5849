"""Bench of sub-warps on the sparse engine with its PEs: groups of rows, one for each part of the PEs."""

from functools import partial
from types import SimpleNamespace

import cocotb
import numpy as np
from heddle.isa.error_codes import ErrorCode
from heddle.isa.sparse_job import MOST_SUB_WARPS
from heddle_sim.sparse.compressed import Compressed
from heddle_sim.sparse.job import job_record, panel_record
from heddle_sim.sparse.sub_warps import group_elements, row_groups

from .sparse_engine import SHAPES, SparseBench, row_counts

PANEL_ROWS = 48


class SubWarpsBench(SparseBench):
    """A ``SparseBench`` with panels that all strips have, and jobs of groups of rows."""

    def random_strips(self):
        """log2 of two sub-warps or more."""
        return int(self.rng.integers(1, min(MOST_SUB_WARPS, self.cfg.thread_groups).bit_length()))

    def shared_panel_job(self, rows, first=0, strips=1):
        """A job that loads random rows of B into every strip; address."""
        data = self.rng.integers(0, 256, (rows, self.cfg.sparse_columns >> strips), np.uint8)
        self.panel[first:first + rows] = np.tile(data, 1 << strips)
        source = self.place(data, min(128, self.cfg.sparse_columns))
        return self.place(panel_record(first, rows, source, strips=strips, sub_warps=True))

    def groups_job(self, counts, *, strips=1, start=0, wide=False, unsigned=False, panel_rows=None, unsigned_panel=False, record=()):
        """A job of rows with ``counts`` non-zeros on sub-warps, as of ``rows_job``; ``start``: elements in front of the first one, in
        sixteens."""
        cfg, rng = self.cfg, self.rng
        panel_rows = panel_rows or cfg.sparse_rows
        kind = np.int16 if wide else np.uint8 if unsigned else np.int8
        pointers, _, values, indices = self.random_elements(counts, 0, kind, panel_rows)
        matrix = Compressed(pointers.astype(np.int32), indices.astype(np.int32), values, (len(counts), panel_rows))
        groups = row_groups(matrix, 0, len(counts), strips, cfg.sparse_pairs)
        count, width = groups.shape[0], cfg.sparse_columns >> strips
        a = np.zeros((count << strips, panel_rows), np.int64)
        np.add.at(a, (np.repeat(np.arange(len(counts)), counts), indices), values)
        b = (self.panel if unsigned_panel else self.panel.view(np.int8)).astype(np.int64)[:panel_rows]
        # Each strip multiplies with its own columns, which may differ.
        sums = np.concatenate([rows @ b[:, strip * width:(strip + 1) * width] for strip, rows in enumerate(np.split(a, 1 << strips))])
        first = 16 * start
        parts = {"pointers": self.place((groups.indptr + first).astype(np.int32), gap=4 * int(rng.integers(4))),
                 "indices": self.place(groups.indices.astype(np.uint16), 32), "values": self.place(groups.data)}
        self.room(0, 32)        # of a pair of words the second one may be of something else
        output = self.room(4 * sums.size)
        fields = dict(rows=count, panel_rows=panel_rows, first=first, output=output, wide_values=int(wide), unsigned_values=int(unsigned),
                      unsigned_panel=int(unsigned_panel), strips=strips, sub_warps=1) | parts
        address = self.place(job_record(**fields | dict(record)))
        return SimpleNamespace(address=address, output=output, groups=groups, bytes=(sums & 0xFFFFFFFF).astype("<u4"), **parts)

    def compare(self, job):
        """Compare the sums of a job in shared memory with numpy's."""
        if not hasattr(job, "bytes"):
            super().compare(job)
            return
        found = self.memory.data[job.output:job.output + job.bytes.nbytes].view("<u4")
        wrong = np.flatnonzero(found != job.bytes.ravel())
        assert not len(wrong), f"{len(wrong)} sums differ, at {wrong[:9]}"


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(shape=SHAPES)
async def sub_warps(dut, shape):
    """Rows of each shape, values of all kinds, on two sub-warps and on as many as there are."""
    bench = SubWarpsBench(dut)
    await bench.start()
    await bench.load()
    for wide, unsigned in ((False, False), (True, False), (False, True)):
        bench.clear()
        strips, panel_rows = bench.random_strips(), min(PANEL_ROWS, bench.cfg.sparse_rows)
        load = bench.shared_panel_job(panel_rows, strips=strips)
        counts = row_counts(bench, shape, int(bench.rng.integers(1, 20)))
        job = bench.groups_job(counts, strips=strips, start=int(bench.rng.integers(3)), wide=wide, unsigned=unsigned, panel_rows=panel_rows,
                               unsigned_panel=bool(bench.rng.integers(2)))
        await bench.check([load, job.address])
        bench.compare(job)
    bench.finish()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def several_sub_warps(dut):
    """Jobs with and without sub-warps one after the other: what a pair of words has behind a job is left out."""
    bench = SubWarpsBench(dut)
    await bench.start()
    await bench.load()
    for _ in range(8):
        bench.clear()
        jobs = []
        for kind in bench.rng.permutation(["groups", "groups", "groups", "rows", "rows", "panel"]):
            shape, wide = bench.random.choice(SHAPES), bool(bench.rng.integers(2))
            if kind == "panel":
                jobs.append(SimpleNamespace(address=bench.shared_panel_job(int(bench.rng.integers(1, 9)), strips=bench.random_strips())))
            elif kind == "groups":
                jobs.append(bench.groups_job(row_counts(bench, shape, int(bench.rng.integers(1, 9))), strips=bench.random_strips(),
                                             wide=wide, start=int(bench.rng.integers(2))))
            else:
                jobs.append(bench.rows_job(row_counts(bench, shape, int(bench.rng.integers(1, 4))), start=int(bench.rng.integers(40)),
                                           wide=wide))
        await bench.check([job.address for job in jobs])
        for job in jobs:
            if hasattr(job, "output"):
                bench.compare(job)
    bench.finish()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def sub_warp_errors(dut):
    """Fields that sub-warps exclude, rows that do not end with a step, wrong indices, and parts outside of shared memory."""
    bench = SubWarpsBench(dut)
    await bench.start()
    await bench.load()
    size, rows, counts = bench.cfg.shared_bytes, bench.cfg.sparse_rows, [3, 0, 9, 2, 5, 1]
    steps = bench.cfg.sparse_pairs << 1
    make = partial(bench.groups_job, counts)
    faults = [(name, value, ErrorCode.SPARSE_JOB) for name, value in (
        ("strips", 0), ("strips", 3), ("depthwise", 1), ("scaled", 1), ("indices", 16), ("panel_rows", 0), ("panel_rows", rows + 1))]
    faults += [(name, size - back, ErrorCode.OUT_OF_RANGE) for name, back in (
        ("pointers", 0), ("indices", 0), ("indices", 32), ("values", 0), ("values", 16), ("output", 0), ("output", 128))]
    await bench.wrong_fields(make, faults)
    for number in range(len(make().groups.indptr)):
        for change in range(1, steps):
            bench.clear()
            before, job, after = make(), make(), make()
            at = job.pointers + 4 * number
            pointer = bench.memory.data[at:at + 4].view("<u4")
            pointer += np.uint32(change)
            await bench.check([before.address, job.address, after.address])
            assert bench.error[:2] == (ErrorCode.SPARSE_POINTER, max(number - 1, 0)), bench.error
            bench.compare(before)
            await bench.goes_on(after)
    bench.clear()
    job, after = make(), make()
    bench.memory.data[job.pointers:job.pointers + 4].view("<u4")[:] += np.uint32(2 * steps)      # not the first element of the job
    await bench.check([job.address])
    assert bench.error[:2] == (ErrorCode.SPARSE_POINTER, 0), bench.error
    await bench.goes_on(after)
    for element in range(0, int(job.groups.indptr[-1]), 3):
        bench.clear()
        limit = int(bench.rng.integers(1, rows + 1))
        await bench.wrong_index(partial(make, panel_rows=limit), element, limit)
    for changes in ({"strips": 0}, {"target": 1}):
        bench.clear()
        product = make()
        record = {"kind": 1, "rows": 3, "strips": 1, "sub_warps": 1} | changes
        await bench.check([bench.place(job_record(**record)), product.address])
        assert bench.error[0] == ErrorCode.SPARSE_JOB, bench.error
        await bench.goes_on(product)
    bench.finish()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def sub_warp_pace(dut):
    """Without stalls a step of all sub-warps takes a cycle; panels take 32 bytes a cycle."""
    bench = SubWarpsBench(dut, paced=True)
    await bench.start()
    cfg, report, far = bench.cfg, [], 2 * bench.cfg.lane_slices
    for strips in range(1, min(MOST_SUB_WARPS, cfg.thread_groups).bit_length()):
        for count, wide in ((64, False), (2, False), (17, False), (64, True)):
            bench.clear()
            load = await bench.check([bench.shared_panel_job(32, strips=strips)])
            rows = 16 if count == 64 else 64
            job = bench.groups_job([count] * rows, strips=strips, panel_rows=32, wide=wide)
            before = bench.totals["steps"]
            cycles = await bench.check([job.address])
            bench.compare(job)
            steps = group_elements(np.full(rows, count), strips, cfg.sparse_pairs) // (cfg.sparse_pairs << strips)
            assert bench.totals["steps"] - before == steps.sum()
            read = 2 * -(-int(job.groups.indptr[-1]) // 8) if wide else 0       # words of values and of indices, one a cycle
            least = max(np.maximum(steps, cfg.thread_groups).sum(), read)
            report.append((strips, count, wide, cycles, int(least)))
            assert cycles <= least * 1.02 + 45 + far, f"{cycles} cycles, not {least}: {strips, count, wide}"
            assert load <= (32 * cfg.thread_groups >> strips) + 26 + far, f"{load} cycles for a panel"
    dut._log.info("pace: %s", report)
    bench.finish()
