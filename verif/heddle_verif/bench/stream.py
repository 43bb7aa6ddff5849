"""Bench of ``Queue`` and of a full ``RegisterSlice``: order, capacity, level, latency, throughput, reset; under every pause pattern."""

import cocotb
from amaranth.hdl import signed
from amaranth.lib import data
from cocotb.triggers import RisingEdge
from heddle.lib.register_slice import RegisterSlice
from heddle.lib.stream import Queue
from heddle_sim.toolchain.cocotb_process import bench_parameters

from heddle_verif.agents.pause import PATTERNS, always, none
from heddle_verif.checkers.scoreboard import Scoreboard
from heddle_verif.coverage.streams import sample_level
from heddle_verif.fixture import Bench

ITEMS = 400
SHAPE = data.StructLayout({"signed": signed(5), "array": data.ArrayLayout(3, 3)})


def make_unit(depth, registered=True):
    """The design under test: a queue, or a register slice when ``depth`` is None."""
    return RegisterSlice(SHAPE) if depth is None else Queue(SHAPE, depth, registered)


class StreamBench(Bench):
    """``parameters``: ``depth`` (None for a register slice), ``registered``."""

    def __init__(self, dut):
        depth = bench_parameters()["depth"]
        self.unit = make_unit(**bench_parameters())
        self.depth = depth or 2
        self.latency = 1 if depth is None else self.unit.latency
        super().__init__(dut, self.unit, idle_limit=300)
        self.has_level = depth is not None
        if depth is None:
            self.kind = "register slice"
        elif not bench_parameters().get("registered", True):
            self.kind = "queue without a register"
        else:
            self.kind = "queue in block memory" if self.latency == 3 else "queue of 2" if depth == 2 else "queue of more"
        self.level = 0

    async def begin(self, source_pause, sink_pause):
        await self.start()
        self.scoreboard = Scoreboard("o", strict=True)
        self.monitor("i", SHAPE, self.scoreboard.expect)
        self.monitor("o", SHAPE, self.scoreboard.observe)
        self.i = self.source("i", SHAPE, pause=source_pause)
        self.o = self.sink("o", SHAPE, pause=sink_pause)
        cocotb.start_soon(self._check_level())

    def items(self, count):
        corners = [{"signed": -16, "array": [7, 0, 7]}, {"signed": 15, "array": [0, 7, 0]}, {"signed": 0, "array": [0, 0, 0]}]
        return [corners[int(self.rng.integers(len(corners)))] if self.rng.random() < 0.2 else
                {"signed": int(self.rng.integers(-16, 16)), "array": self.rng.integers(0, 8, 3).tolist()} for _ in range(count)]

    async def _check_level(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value:
                self.level = 0
                continue
            assert bool(dut.i__ready.value) == (self.level < self.depth), f"i.ready with {self.level} of {self.depth} items"
            assert not self.has_level or int(dut.level.value) == self.level, f"level must be {self.level}"
            enters, leaves = bool(dut.i__valid.value and dut.i__ready.value), bool(dut.o__valid.value and dut.o__ready.value)
            sample_level(self.kind, self.level, self.depth, enters, leaves)
            self.level += enters - leaves

    async def end(self, items):
        await self.i.drained()
        while self.scoreboard.outstanding:
            await RisingEdge(self.dut.clk)
        self.finish()
        await self.cycles(self.latency + 4)
        self.scoreboard.finish(items)


@cocotb.test(timeout_time=500, timeout_unit="us")
@cocotb.parametrize(source=PATTERNS, sink=PATTERNS)
async def keeps_order(dut, source, sink):
    bench = StreamBench(dut)
    await bench.begin(source, sink)
    bench.i.put(*bench.items(ITEMS))
    await bench.end(ITEMS)


@cocotb.test(timeout_time=50, timeout_unit="us")
async def one_item_a_cycle(dut):
    bench = StreamBench(dut)
    await bench.begin("none", "none")
    bench.i.put(*bench.items(100))
    while bench.i.count == 0:
        await RisingEdge(dut.clk)
    first = bench.cycle
    while bench.o.count < 100:
        await RisingEdge(dut.clk)
    assert bench.cycle - first == 99 + bench.latency
    await bench.end(100)


@cocotb.test(timeout_time=100, timeout_unit="us")
async def fills_to_its_depth(dut):
    bench = StreamBench(dut)
    await bench.begin("none", always())
    bench.i.put(*bench.items(bench.depth + 5))
    await bench.cycles(bench.depth + 20)
    assert bench.i.count == bench.depth
    assert not dut.i__ready.value
    bench.o.pause = none()
    await bench.end(bench.depth + 5)


@cocotb.test(timeout_time=100, timeout_unit="us")
async def reset_empties(dut):
    bench = StreamBench(dut)
    await bench.begin("none", always())
    bench.i.put(*bench.items(bench.depth))
    await bench.i.drained()
    await bench.cycles(4)
    await bench.reset()
    bench.scoreboard = Scoreboard("o after reset", strict=True)
    assert not dut.o__valid.value
    bench.finish()
