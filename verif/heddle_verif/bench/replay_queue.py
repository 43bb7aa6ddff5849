"""Bench of ``ReplayQueue`` against a list: order, what comes again, capacity, throughput, reset."""

import cocotb
from amaranth.lib import data
from cocotb.triggers import ReadOnly, RisingEdge
from heddle.lib.replay_queue import ReplayQueue
from heddle_sim.toolchain.cocotb_process import bench_parameters

from heddle_verif.agents.payload import pack, unpack
from heddle_verif.fixture import Bench

CYCLES = 3000
SHAPE = data.StructLayout({"low": 7, "high": 9})


def make_unit(depth):
    """The design under test."""
    return ReplayQueue(SHAPE, depth)


class ReplayBench(Bench):
    """``parameters``: ``depth``. The list has all items that came; the numbers say how many were shown, and are done with."""

    def __init__(self, dut):
        self.unit = make_unit(**bench_parameters())
        super().__init__(dut, self.unit, idle_limit=300)
        self.forget()
        self.seen = dict.fromkeys(("again", "full", "empty"), 0)

    def forget(self):
        """The queue is empty."""
        self.items, self.shown, self.over, self.full, self.offered = [], 0, 0, False, None

    async def cycle_of(self, offer, refuse):
        """One cycle: an item is offered with probability ``offer``, the one that was shown comes again with probability ``refuse``."""
        dut, rng = self.dut, self.rng
        if self.offered is None and rng.random() < offer:
            self.offered = {"low": int(rng.integers(1 << 7)), "high": int(rng.integers(1 << 9))}
        waits = self.shown > self.over
        again = waits and rng.random() < refuse
        dut.i__payload.value, dut.i__valid.value = pack(SHAPE, self.offered or {"low": 0, "high": 0}), int(self.offered is not None)
        dut.done.value, dut.again.value = int(waits and not again), int(again)
        await ReadOnly()
        shows = self.shown < len(self.items)
        assert bool(dut.i__ready.value) == (not self.full), f"i.ready with {len(self.items) - self.over} items"
        assert bool(dut.o__valid.value) == shows, f"o.valid: {self.shown} of {len(self.items)} shown, {self.over} done with"
        assert bool(dut.empty.value) == (self.over == len(self.items))
        if shows:
            assert unpack(SHAPE, int(dut.o__payload.value)) == self.items[self.shown]
        self.seen["again"] += again
        self.seen["full"] += self.full
        self.seen["empty"] += self.over == len(self.items)
        came = self.offered is not None and not self.full
        await RisingEdge(dut.clk)
        self.progress()
        self.full = len(self.items) + came - self.over == self.unit.depth
        self.shown = self.over if again else self.shown + shows
        self.over += waits and not again
        if came:
            self.items.append(self.offered)
            self.offered = None


@cocotb.test(timeout_time=200, timeout_unit="us")
@cocotb.parametrize(offer=[0.3, 0.9, 1.0], refuse=[0.0, 0.3, 0.8])
async def keeps_order(dut, offer, refuse):
    bench = ReplayBench(dut)
    await bench.start()
    for _ in range(CYCLES):
        await bench.cycle_of(offer, refuse)
    bench.finish()
    assert bench.seen["again"] > 100 or refuse == 0
    assert bench.seen["full"] > 100 or offer < 1 or refuse == 0
    assert bench.seen["empty"] > 100 or offer > 0.5 or refuse > 0.5
    assert bench.over > 200


@cocotb.test(timeout_time=50, timeout_unit="us")
async def one_item_a_cycle(dut):
    bench = ReplayBench(dut)
    await bench.start()
    for _ in range(102):
        await bench.cycle_of(1, 0)
    bench.finish()
    assert bench.shown == 101 or bench.unit.depth < 4


@cocotb.test(timeout_time=50, timeout_unit="us")
async def reset_empties(dut):
    bench = ReplayBench(dut)
    await bench.start()
    for _ in range(5):
        await bench.cycle_of(1, 1)
    dut.i__valid.value, dut.done.value, dut.again.value = 0, 0, 0
    await bench.reset()
    bench.forget()
    for _ in range(20):
        await bench.cycle_of(0.5, 0.5)
    bench.finish()
