"""Bench of the beat reader: beats for the bus, barrier updates and ends of transfers, with shared memory of any latency."""

from collections import deque

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from heddle.constants import ROW_BYTES
from heddle.interfaces.layouts import SHARED_READ_LATENCY, barrier_arrival_layout, shared_answer_layout, write_data_layout
from heddle.interfaces.swizzle import swizzles
from heddle.isa.encoding import Swizzle
from heddle.tmau.beat_reader import ANSWER_CYCLES, BEATS_AHEAD, BeatReader
from heddle.tmau.beat_requester import beat_layout
from heddle.tmau.layouts import reads_in_flight, unit_bytes, units_per_beat
from heddle_sim.golden.block_copy import swizzled
from heddle_sim.toolchain.cocotb_process import bench_config

from ..agents.banks import BankMemory
from ..agents.pause import PATTERNS
from ..agents.stream import StreamHandles
from ..fixture import Bench
from ..stimulus.shared_memories import SHARED


class ReaderBench(Bench):
    """Beats to read, shared memory, and what must come of them in order. ``needed``: last answers that must precede it."""

    def __init__(self, dut, shared, pause):
        super().__init__(dut, BeatReader(bench_config()))
        self.shared, self.pause = SHARED[shared], pause
        self.requests = self.answered = self.under_way = 0
        self.beats_expected, self.moved_expected, self.ends_expected = [], deque(), (deque(), deque())
        self.times = {name: [] for name in ("i", "o", "moved")}
        self.ends = deque()     # bits of ``read`` of the last cycle, and the answers until then

    async def start(self):
        await super().start()
        self.modes = [Swizzle.NONE, *swizzles(self.cfg)]
        self.banks = BankMemory(self.dut, self.cfg, self.rng, read="bank_read", **self.shared)
        self.answers = StreamHandles(self.dut, "bank_read__answer", shared_answer_layout)
        self.beats = self.source("i", beat_layout(self.cfg), pause=self.pause, on_item=self._accepted)
        self.out = self.sink("o", write_data_layout(self.cfg), pause=self.pause, on_item=self._sent)
        self.told = self.sink("o_moved", barrier_arrival_layout, pause=self.pause)
        cocotb.start_soon(self._every_cycle())

    def beat(self, silent=None, **fields):
        """A random beat."""
        cfg, rng, units = self.cfg, self.rng, units_per_beat(self.cfg)
        first, end = sorted(rng.choice(units + 1, 2, replace=False))
        last = int(rng.integers(2))
        silent = int(rng.random() < 0.2) if silent is None else silent
        beat = {
            "pointer": int(rng.integers(cfg.shared_bytes // unit_bytes(cfg))), "valid_units": (1 << int(end)) - (1 << int(first)),
            "last": last, "barrier": int(rng.integers(16)), "arrives": last & int(rng.integers(2)), "bytes": int(rng.integers(1 << 16)),
            "swizzle": self.modes[int(rng.integers(len(self.modes)))],
        }
        if cfg.tensors:
            missing = int(rng.integers(unit_bytes(cfg) + 1)) if last and rng.random() < 0.4 else 0
            beat |= {"silent": silent, "missing": missing, "ends": last << int(rng.integers(2)) if rng.random() < 0.5 else 0}
            if silent:
                beat |= {"valid_units": 0, "missing": 0}
        beat |= fields
        self.beats.put(beat | {"swizzle": self._field(beat["swizzle"])})

    def _field(self, mode):
        return mode.value if self.cfg.tensors else int(mode != Swizzle.NONE)

    def _accepted(self, item):
        """Expect what comes of a beat; it is accepted with the transfer of its last request."""
        cfg, width = self.cfg, unit_bytes(self.cfg)
        self.times["i"].append(self.cycle)
        mode = next(mode for mode in self.modes if self._field(mode) == item["swizzle"])
        units = [unit for unit in range(units_per_beat(cfg)) if item["valid_units"] >> unit & 1]
        addresses = {unit: (item["pointer"] + unit) * width % cfg.shared_bytes for unit in units}
        rows = {address // ROW_BYTES for address in addresses.values()}
        self.requests += (len(rows) if mode != Swizzle.NONE else 1) if units else 0
        if units:
            self.under_way += 1
            assert self.under_way <= BEATS_AHEAD, "more beats are read than the bus will take"
            data, strobe = bytearray(cfg.axi_bytes), 0
            for unit, address in addresses.items():
                data[width * unit:width * (unit + 1)] = self.banks.data[swizzled(np.arange(address, address + width), mode)].tobytes()
                present = width - (item.get("missing", 0) if unit == units[-1] else 0)
                strobe |= (1 << present) - 1 << width * unit
            self.beats_expected.append((int.from_bytes(data, "little"), strobe, item["last"]))
        if item["arrives"]:
            self.moved_expected.append((self.requests, {"barrier": item["barrier"], "bytes": item["bytes"], "remote": 0}))
        for kind, expected in enumerate(self.ends_expected):
            if item.get("ends", 0) >> kind & 1:
                expected.append(self.requests)

    def _sent(self, item):
        self.under_way -= 1
        self.times["o"].append(self.cycle)

    async def _every_cycle(self):
        while True:
            await RisingEdge(self.dut.clk)
            if self.dut.rst.value:
                continue
            while self.ends:        # of the cycle before: a silent beat has its end in the cycle in which it is accepted
                bits, answered = self.ends.popleft()
                for kind, expected in enumerate(self.ends_expected):
                    if bits >> kind & 1:
                        assert expected, f"end of a transfer of kind {kind} without a beat"
                        assert answered >= expected.popleft(), "a transfer was not read when it was said to be"
            self.answered += self.answers.is_valid() and self.answers.value()["last"]
            if self.cfg.tensors and self.dut.read.value:
                self.ends.append((int(self.dut.read.value), self.answered))
            if self.told.handles.is_valid() and self.told.handles.is_ready():
                assert self.moved_expected, "barrier update without a beat"
                needed, value = self.moved_expected.popleft()
                assert self.told.handles.value() == value
                assert self.answered >= needed, "a barrier was told of what is still in shared memory"
                self.times["moved"].append(self.cycle)

    async def idle(self):
        """Wait until everything has come and compare."""
        await self.until(lambda: not self.beats.queue and len(self.out.received) >= len(self.beats_expected) and not self.moved_expected,
                         20_000, "all beats must come")
        await self.cycles(20)
        self.finish()
        assert self.answered == self.requests and self.under_way == 0
        assert not any(self.ends_expected)
        assert len(self.out.received) == len(self.beats_expected)
        for item, (data, strobe, last) in zip(self.out.received, self.beats_expected):
            mask = sum(0xFF << 8 * byte for byte in range(self.cfg.axi_bytes) if strobe >> byte & 1)
            assert (item["strobe"], item["last"], item["data"] & mask) == (strobe, last, data & mask)


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(pause=PATTERNS, shared=list(SHARED))
async def random_beats(dut, pause, shared):
    """Beats of all kinds; shared memory, bus and barriers hold them up."""
    bench = ReaderBench(dut, shared, pause)
    await bench.start()
    for _ in range(200):
        bench.beat()
    await bench.idle()
    assert bench.requests > 100


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def silent_beats(dut):
    """Long rows of beats that are not read, each of which updates a barrier or ends a transfer, between others."""
    bench = ReaderBench(dut, "late", "none")
    await bench.start()
    for number in range(200):
        bench.beat(silent=int(bench.cfg.tensors and number % 20 > 2), last=1, arrives=1)
    await bench.idle()


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def held_updates(dut):
    """While the barriers take nothing, ``reads_in_flight(cfg)`` beats with an update are read, and those without up to the next one."""
    bench = ReaderBench(dut, "least", "none")
    await bench.start()
    bench.told.pause.step = lambda other: True
    for number in range(24):
        bench.beat(silent=0, last=int(number % 4 == 3), arrives=int(number % 4 == 3))
    await bench.cycles(60)
    assert len(bench.times["i"]) == 4 * reads_in_flight(bench.cfg) + 3, bench.times["i"]
    bench.told.pause.step = lambda other: False
    await bench.idle()


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def held_bus(dut):
    """While the bus takes nothing, ``BEATS_AHEAD`` beats are read."""
    bench = ReaderBench(dut, "least", "none")
    await bench.start()
    bench.out.pause.step = lambda other: True
    for _ in range(20):
        bench.beat(silent=0, arrives=0)
    await bench.cycles(60)
    assert len(bench.times["i"]) == BEATS_AHEAD
    bench.out.pause.step = lambda other: False
    await bench.idle()


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def latency(dut):
    """A beat a cycle, each with a barrier update, and the cycles from a request to the bus and to the update."""
    bench = ReaderBench(dut, "least", "none")
    await bench.start()
    for _ in range(40):
        bench.beat(silent=0, last=1, arrives=1, swizzle=Swizzle.NONE)
    await bench.idle()
    accepted, times = bench.times["i"], bench.times
    assert accepted == list(range(accepted[0], accepted[0] + 40)), accepted
    assert times["o"] == [cycle + SHARED_READ_LATENCY + ANSWER_CYCLES for cycle in accepted], times["o"]
    assert times["moved"] == [cycle + SHARED_READ_LATENCY for cycle in accepted], times["moved"]


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def reset_under_way(dut):
    """A reset drops all beats."""
    bench = ReaderBench(dut, "refusing", "none")
    await bench.start()
    for _ in range(20):
        bench.beat()
    await bench.cycles(13)
    await bench.restart(bench.beats)
    bench.requests = bench.answered = bench.under_way = 0
    for expected in (bench.beats_expected, bench.out.received, bench.moved_expected, bench.ends, *bench.ends_expected):
        expected.clear()
    for _ in range(20):
        bench.beat()
    await bench.idle()
