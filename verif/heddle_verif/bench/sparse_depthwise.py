"""Bench of depthwise and scaled rows on the sparse engine with its lanes."""

from types import SimpleNamespace

import cocotb
import numpy as np
from heddle.isa.error_codes import ErrorCode
from heddle.isa.sparse_job import SCALE_ROWS, PanelTarget, SparseKind, sparse_job_layout
from heddle_sim.golden.requantise import Requantise
from heddle_sim.kernels.parts.output_stage import bias_words
from heddle_sim.sparse.job import job_record, most_weights, scale_table, weight_rows

from .sparse_engine import SHAPES, SparseBench, in_strips, row_counts

LARGE_COUNTS = (0, 3, 40, 41)       # elements of a row: none, an odd number, and more than there are weights


class DepthwiseBench(SparseBench):
    """A ``SparseBench`` with jobs of weights, scales, depthwise and scaled rows."""

    def weights_job(self):
        """A job that loads random weights; address."""
        rows = len(self.registers.weights)
        self.weights = self.rng.integers(0, 256, (rows, self.cfg.sparse_columns), np.uint8)
        self.weights[self.rng.random(self.weights.shape) < 0.2] = 128
        return self.load_job(self.weights, target=PanelTarget.WEIGHTS, strips=self.random_strips())

    def scales_job(self, unsigned=None):
        """A job that loads random scales; address."""
        rng, columns = self.rng, self.cfg.sparse_columns
        unsigned = bool(rng.integers(2)) if unsigned is None else unsigned
        limits = np.iinfo(np.uint8 if unsigned else np.int8)
        low, high = sorted(int(value) for value in rng.integers(limits.min, limits.max + 1, 2))
        if rng.integers(2):
            low, high = limits.min, limits.max
        multiplier, shift = rng.integers(1 << 28, 1 << 31, columns), int(rng.integers(1, 16))
        zero_point = int(rng.integers(limits.min, limits.max + 1))
        shifts = 32 + (rng.integers(1, 16, columns) if rng.integers(2) else shift)
        # Empty rows of half the columns are halves of bytes, or nearly.
        halves = ((2 * rng.integers(-100, 100, columns) + 1) << shifts - 1) // multiplier + rng.integers(-1, 3, columns)
        self.bias = bias = np.where(rng.random(columns) < 0.5, halves, rng.integers(-1 << 18, 1 << 18, columns))
        self.spec = spec = Requantise(multiplier, shifts, zero_point, low, high, dtype=limits.dtype, double_rounding=bool(rng.integers(2)))
        table = scale_table(self.cfg, bias_words(spec, bias), multiplier, shift=shift, unsigned=int(unsigned), zero_point=zero_point,
                            minimum=low, maximum=high, own_shifts=spec.own_shifts, double_rounding=spec.double_rounding)
        return self.load_job(table, target=PanelTarget.SCALES, strips=self.random_strips())

    def job(self, counts, *, depthwise, scaled, start=0, unsigned=(False, False), strips=0, record=()):
        """A job of random rows: address, output and what is there afterwards, with the weights and scales that were placed last.

        ``unsigned``: bytes of B, values of 8 bits or weights. ``strips``, ``record``: fields of the record.
        """
        cfg, rng = self.cfg, self.rng
        kind = np.uint8 if unsigned[1] else np.int8
        pointers, first, values, indices = self.random_elements(counts, start, kind, cfg.sparse_rows)
        b = self.panel.view(np.uint8 if unsigned[0] else np.int8).astype(np.int64)
        rows = []
        for low, high in zip(pointers - first, pointers[1:] - first):
            factors = values[low:high, None].astype(np.int64)
            if depthwise:
                places = weight_rows(cfg, most_weights(cfg))[np.arange(high - low) % most_weights(cfg)]
                factors = self.weights[places].view(kind).astype(np.int64)
            rows.append((factors * b[indices[low:high]]).sum(axis=0))
        parts = {"pointers": self.place(pointers.astype(np.int32), gap=4 * int(rng.integers(4))), "indices": self.place(indices),
                 "values": 0 if depthwise else self.place(values)}
        sums = np.array(rows, np.int64).reshape(len(counts), -1)
        found = self.spec.apply(sums + self.bias).view(np.uint8) if scaled else (sums & 0xFFFFFFFF).astype("<u4").view(np.uint8)
        found, output = np.ascontiguousarray(in_strips(found, strips)).ravel(), self.room(found.size)
        signs = {"unsigned_panel": int(unsigned[0]), "unsigned_left" if depthwise else "unsigned_values": int(unsigned[1])}
        fields = dict(rows=len(counts), panel_rows=cfg.sparse_rows, first=first, output=output, depthwise=int(depthwise),
                      scaled=int(scaled), strips=strips) | signs
        return SimpleNamespace(address=self.place(job_record(**fields | parts | dict(record))), output=output, bytes=found, **parts)

    def compare(self, job):
        if not hasattr(job, "bytes"):
            super().compare(job)
            return
        found = self.memory.data[job.output:job.output + len(job.bytes)]
        wrong = np.flatnonzero(found != job.bytes)
        assert not len(wrong), f"{len(wrong)} bytes of results differ, at {wrong[:9]}: {found[wrong[:9]]}, not {job.bytes[wrong[:9]]}"

    def random_flags(self):
        """Signs of B and of values, and strips."""
        return {"unsigned": tuple(bool(bit) for bit in self.rng.integers(0, 2, 2)), "strips": self.random_strips()}

    def random_strips(self):
        """As many as the PEs can be parted into, at most."""
        return int(self.rng.integers(self.cfg.thread_groups.bit_length()))

    async def load(self):
        """The whole panel, then weights and scales."""
        await super().load()
        await self.check([self.weights_job(), self.scales_job()])


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(shape=(*SHAPES, "large"))
async def depthwise(dut, shape):
    """Rows of each shape, with and without weights of their own, as sums and as bytes, of every sign."""
    bench = DepthwiseBench(dut)
    await bench.start()
    await bench.load()
    for own, scaled in ((True, False), (True, True), (False, True)):
        bench.clear()
        loads = [bench.weights_job(), bench.scales_job()]
        counts = list(LARGE_COUNTS) if shape == "large" else row_counts(bench, shape, int(bench.rng.integers(1, 13)))
        job = bench.job(counts, depthwise=own, scaled=scaled, start=int(bench.rng.integers(40)), **bench.random_flags())
        await bench.check([*loads, job.address])
        bench.compare(job)
    bench.finish()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def several_depthwise(dut):
    """Jobs of all kinds one after the other: weights, scales and rows of B are replaced between them."""
    bench = DepthwiseBench(dut)
    await bench.start()
    await bench.load()
    for _ in range(6):
        bench.clear()
        jobs, made = [], []
        for kind in ("weights", "scales", *bench.rng.permutation(["rows", "rows", "bytes", "own", "own", "both", "both", "panel", "weights",
                                                                  "scales"])):
            if kind in ("weights", "scales"):
                jobs.append(getattr(bench, f"{kind}_job")())
            elif kind == "panel":
                jobs.append(bench.panel_piece(5, bench.random_strips()))
            else:
                counts = row_counts(bench, bench.random.choice(("mixed", "short", "empty", "column")), int(bench.rng.integers(1, 4)))
                made.append(bench.job(counts, depthwise=kind in ("own", "both"), scaled=kind in ("bytes", "both"),
                                      start=int(bench.rng.integers(40)), **bench.random_flags()))
                jobs.append(made[-1].address)
        await bench.check(jobs)
        for job in made:
            bench.compare(job)
    bench.finish()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def depthwise_errors(dut):
    """Weights and scales that have no room, and rows of bytes at the end of shared memory; the engine goes on."""
    bench = DepthwiseBench(dut)
    await bench.start()
    await bench.load()
    cfg, size = bench.cfg, bench.cfg.shared_bytes
    narrow = cfg.thread_groups.bit_length()         # strips of fewer than eight PEs, where a record can ask for so many
    cases = [dict(rows=1)]
    if narrow < 1 << sparse_job_layout["strips"].width:
        cases += [dict(rows=1, strips=narrow), dict(kind=SparseKind.ROWS.value, rows=1, panel_rows=1, strips=narrow)]
    for target, rows in ((PanelTarget.WEIGHTS, len(bench.registers.weights)), (PanelTarget.SCALES, SCALE_ROWS)):
        cases += [dict(target=target.value, panel_rows=first, rows=count) for first, count in ((0, rows + 1), (rows - 1, 2), (rows, 1))]
    for case in cases:
        bench.clear()
        record = job_record(**{"kind": SparseKind.PANEL.value} | case).copy()
        if case == cases[0]:
            record[1] |= 3 << 6         # a target that does not exist
        job, after = bench.place(record), bench.job([4, 5], depthwise=True, scaled=True)
        await bench.check([job, after.address])
        assert bench.error == (ErrorCode.SPARSE_JOB, job, 0), f"{bench.error} of {case}"
        await bench.goes_on(after)
    row = cfg.sparse_columns
    for back in (0, 128, 256, -(-3 * row // 128) * 128):
        bench.clear()
        before, job, after = (bench.job([3, 0, 9, 2, 5] * (128 // min(row, 128)), depthwise=True, scaled=True, record=record,
                                        strips=bench.random_strips()) for record in ({}, {"output": size - back}, {}))
        await bench.check([before.address, job.address, after.address])
        assert bench.error and bench.error[0] == ErrorCode.OUT_OF_RANGE, bench.error
        bench.compare(before)
        await bench.goes_on(after)
    bench.finish()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def depthwise_stops(dut):
    """Jobs that are stopped at any time: bytes of eight PEs are complete or not written; the next job runs."""
    bench = DepthwiseBench(dut)
    await bench.start()
    await bench.load()
    for after in (1, 4, 9, *bench.rng.integers(10, 300, 9)):
        bench.clear()
        scales = bench.scales_job()
        made = [bench.job(row_counts(bench, "mixed", 6), depthwise=True, scaled=True) for _ in range(3)]
        shared = bench.memory.data.copy()
        await bench.run([scales, *(job.address for job in made)], stop_after=int(after))
        assert bench.error is None
        ended = False
        for job in made:
            pieces = job.bytes.reshape(-1, 32)
            for number, piece in enumerate(pieces):
                place = slice(job.output + 32 * number, job.output + 32 * number + 32)
                found = bench.memory.data[place]
                stored = (found == piece).all()
                assert stored or (found == shared[place]).all(), f"piece {number} is neither complete nor unchanged"
                assert not (stored and ended), "pieces are stored in order"
                ended = not stored
        bench.clear()
        await bench.check([bench.weights_job(), bench.scales_job()])
        await bench.goes_on(bench.job([3, 9], depthwise=True, scaled=True))
    bench.finish()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def depthwise_pace(dut):
    """Without stalls rows of bytes take the larger of their steps and a cycle for each sixteen columns."""
    bench = DepthwiseBench(dut, paced=True)
    await bench.start()
    cfg, far = bench.cfg, 2 * bench.cfg.lane_slices
    await bench.load()
    for count, scaled in ((9, True), (9, False), (31, True)):
        cycles = []
        for rows in (8, 32):
            bench.clear()
            loads, job = [bench.weights_job(), bench.scales_job()], bench.job([count] * rows, depthwise=True, scaled=scaled)
            await bench.check(loads)
            cycles.append(await bench.check([job.address]))
            bench.compare(job)
        each = max(-(-count // cfg.sparse_pairs), cfg.sparse_columns // 16 if scaled else cfg.thread_groups)
        dut._log.info("pace: %d elements, %s cycles, %d each", count, cycles, each)
        assert cycles[1] - cycles[0] <= 24 * each + 8, f"{cycles} cycles for 8 and 32 rows of {count}, {each} each"
        assert cycles[0] <= 8 * each + 120 + far, f"{cycles[0]} cycles for 8 rows of {count}, {each} each"
    bench.finish()
