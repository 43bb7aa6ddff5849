"""Bench of the beat writer: what is written, what is reported and when, with shared memory of any latency."""

from collections import deque

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from heddle.constants import ROW_BYTES
from heddle.interfaces.layouts import barrier_arrival_layout, error_layout
from heddle.interfaces.swizzle import swizzles
from heddle.isa.encoding import Swizzle
from heddle.isa.error_codes import ErrorCode
from heddle.tmau.beat_writer import BeatWriter
from heddle.tmau.layouts import located_beat_layout, unit_bytes, units_per_beat
from heddle_sim.golden.block_copy import swizzled
from heddle_sim.toolchain.cocotb_process import bench_config

from ..agents.banks import BankMemory
from ..agents.pause import PATTERNS
from ..fixture import Bench
from ..stimulus.shared_memories import SHARED


class Expected:
    """Reports of one kind: each with its number among all parts, the acknowledgements that must precede it, and the cycle of its beat."""

    def __init__(self, name):
        self.name, self.waiting = name, deque()

    def take(self, seen, acknowledged):
        """Compare the oldest one with what was ``seen``; returns its number."""
        assert self.waiting, f"{self.name} {seen} without a beat"
        number, needed, value, _ = self.waiting.popleft()
        assert seen == value, f"{self.name} of part {number}: {seen}, not {value}"
        assert acknowledged >= needed, f"{self.name} of part {number} after {acknowledged} acknowledgements of {needed}"
        return number


class WriterBench(Bench):
    """Located beats, shared memory, and the reports in the order of the beats. A part is what one request writes."""

    def __init__(self, dut, shared, pause):
        super().__init__(dut, BeatWriter(bench_config()))
        self.shared, self.pause = SHARED[shared], pause
        self.reports = {name: Expected(name) for name in ("moved", "finish", "failure")}
        self.parts = self.requests = self.acknowledged = 0
        self.latest = -1        # part of the latest report
        self.accepted, self.moved = [], []      # cycles

    async def start(self):
        await super().start()
        self.modes = [Swizzle.NONE, *swizzles(self.cfg)]
        self.banks = BankMemory(self.dut, self.cfg, self.rng, read=None, write="bank_write", **self.shared)
        self.golden = self.banks.data.copy()
        self.beats = self.source("i", located_beat_layout(self.cfg), pause=self.pause, on_item=self._accepted)
        self.told = self.sink("o_moved", barrier_arrival_layout, pause=self.pause)
        self.failures = self.monitor("o_failure", error_layout, lambda _: None)
        cocotb.start_soon(self._every_cycle())

    def beat(self, **fields):
        """A random beat: its fields with the mode of its swizzle as an enumeration."""
        cfg, rng, units = self.cfg, self.rng, units_per_beat(self.cfg)
        first, end = sorted(rng.choice(units + 1, 2, replace=False))
        beat = {
            "data": int.from_bytes(rng.bytes(cfg.axi_bytes), "little"), "pointer": int(rng.integers(cfg.shared_bytes // unit_bytes(cfg))),
            "valid_units": (1 << int(end)) - (1 << int(first)), "tag": int(rng.integers(cfg.axi_reads)), "last": int(rng.integers(2)),
            "error": int(rng.random() < 0.15), "barrier": int(rng.integers(16)), "has_barrier": int(rng.integers(2)),
            "swizzle": self.modes[int(rng.integers(len(self.modes)))], "pc": int(rng.integers(4096)),
            "beat_address": int(rng.integers(1 << cfg.axi_address_bits) // cfg.axi_bytes),
            **({"mask": int(rng.integers(1 << cfg.cores)) * int(rng.integers(2))} if cfg.multicast else {}),
        } | fields
        self.beats.put(beat | {"swizzle": self._field(beat["swizzle"])})
        return beat

    def _field(self, mode):
        return mode.value if self.cfg.tensors else int(mode != Swizzle.NONE)

    def _accepted(self, item):
        """Write the beat to the golden bytes, and expect its reports."""
        cfg, width = self.cfg, unit_bytes(self.cfg)
        self.accepted.append(self.cycle)
        mode = next(mode for mode in self.modes if self._field(mode) == item["swizzle"])
        rows = {}       # units by row, in the order of the beat
        for unit in range(units_per_beat(cfg)):
            if item["valid_units"] >> unit & 1:
                address = (item["pointer"] + unit) * width % cfg.shared_bytes
                split = mode != Swizzle.NONE and not item["error"]
                rows.setdefault(address // ROW_BYTES if split else None, []).append((unit, address))
        for place, units in enumerate(rows.values()):
            for unit, address in units if not item["error"] else ():
                places = swizzled(np.arange(address, address + width), mode)
                self.golden[places] = np.frombuffer(item["data"].to_bytes(cfg.axi_bytes, "little"), np.uint8)[width * unit:][:width]
            self._expect(item, width * len(units), place == len(rows) - 1)

    def _expect(self, item, nbytes, ends):
        self.requests += not item["error"]
        expected, remote = {}, int(item.get("mask", 0) != 0)
        if item["has_barrier"]:
            expected["moved"] = {"barrier": item["barrier"], "bytes": nbytes, "remote": remote}
        if item["last"] and ends:
            expected["finish"] = item["tag"]
        if item["error"] and not remote:
            expected["failure"] = {"code": ErrorCode.AXI_READ, "pc": item["pc"], "operand": item["beat_address"] * self.cfg.axi_bytes,
                                   "dimension": 0}
        for name, value in expected.items():
            self.reports[name].waiting.append((self.parts, self.requests, value, self.cycle))
        self.parts += 1

    async def _every_cycle(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value:
                continue
            self.acknowledged += int(dut.bank_write__written.value)
            seen = {}
            if self.told.handles.is_valid() and self.told.handles.is_ready():
                seen["moved"] = self.told.handles.value()
                self.moved.append(self.cycle)
            if dut.finish.value:
                seen["finish"] = int(dut.finish_index.value)
            if self.failures.handles.is_valid():
                seen["failure"] = self.failures.handles.value()
            waiting = any(report.waiting and report.waiting[0][-1] < self.cycle for report in self.reports.values())
            numbers = {self.reports[name].take(value, self.acknowledged) for name, value in seen.items()}
            assert len(numbers) < 2, f"reports of several parts in a cycle: {numbers}"
            assert not numbers or min(numbers) > self.latest, f"part {min(numbers)} after part {self.latest}"
            self.latest = max(numbers, default=self.latest)
            assert dut.busy.value or not waiting, "busy must be high until all is reported"

    async def idle(self):
        """Wait until everything is over and compare."""
        await self.until(lambda: not self.beats.queue and not self.dut.busy.value, 20_000, "all beats must be reported")
        await self.cycles(12)       # model of shared memory
        self.finish()
        assert not self.dut.busy.value
        assert not any(report.waiting for report in self.reports.values())
        assert self.acknowledged == self.requests
        wrong = np.flatnonzero(self.banks.data != self.golden)
        assert not len(wrong), f"{len(wrong)} bytes differ, first at {wrong[0]:#x}"


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(pause=PATTERNS, shared=list(SHARED))
async def random_beats(dut, pause, shared):
    """Beats of all kinds; shared memory and barriers hold them up."""
    bench = WriterBench(dut, shared, pause)
    await bench.start()
    for _ in range(150):
        bench.beat()
    await bench.idle()
    assert bench.parts >= 150


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def held_reports(dut):
    """While the barriers take nothing, at most two requests are written, and none of their reports is lost."""
    bench = WriterBench(dut, "least", "none")
    await bench.start()
    bench.told.pause.step = lambda other: True
    for _ in range(20):
        bench.beat(error=0, has_barrier=1, swizzle=Swizzle.NONE)
    await bench.cycles(30)
    assert bench.acknowledged == 2, bench.acknowledged
    bench.told.pause.step = lambda other: False
    await bench.idle()


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def latency(dut):
    """A beat a cycle; from a beat to its report two cycles: one to the request, one to the acknowledgement."""
    bench = WriterBench(dut, "least", "none")
    await bench.start()
    for number in range(40):
        bench.beat(error=int(number % 4 == 3), has_barrier=1, swizzle=Swizzle.NONE)
    await bench.idle()
    assert bench.accepted == list(range(bench.accepted[0], bench.accepted[0] + 40)), bench.accepted
    assert bench.moved == [cycle + 2 for cycle in bench.accepted], bench.moved


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def divided_beats(dut):
    """A swizzled beat in two rows takes two cycles."""
    bench = WriterBench(dut, "least", "none")
    await bench.start()
    units, row = units_per_beat(bench.cfg), ROW_BYTES // unit_bytes(bench.cfg)
    if units == 1 or len(bench.modes) == 1:
        return
    for _ in range(20):
        start = row * int(bench.rng.integers(1, bench.cfg.shared_rows)) - int(bench.rng.integers(1, units))
        bench.beat(error=0, has_barrier=1, swizzle=Swizzle.B128, pointer=start, valid_units=(1 << units) - 1)
    await bench.idle()
    assert {after - before for before, after in zip(bench.accepted, bench.accepted[1:])} == {2}
    assert len(bench.moved) == 40


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def reset_under_way(dut):
    """A reset drops all beats."""
    bench = WriterBench(dut, "refusing", "none")
    await bench.start()
    for _ in range(20):
        bench.beat(swizzle=Swizzle.NONE)
    await bench.cycles(9)
    await bench.restart(bench.beats)
    for report in bench.reports.values():
        report.waiting.clear()
    bench.latest, bench.parts = -1, 0
    bench.requests = bench.acknowledged = 0
    bench.golden = bench.banks.data.copy()
    assert not dut.busy.value
    for _ in range(20):
        bench.beat()
    await bench.idle()
