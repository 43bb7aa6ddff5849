"""Bench of ``RoundRobinArbiter`` against a model of its grants: every cycle, order, turns, packets, throughput, reset."""

from types import SimpleNamespace

import cocotb
from amaranth.lib import data
from cocotb.triggers import RisingEdge
from heddle.lib.round_robin import RoundRobinArbiter
from heddle_sim.toolchain.cocotb_process import bench_parameters

from heddle_verif.agents.pause import PATTERNS, always, none
from heddle_verif.agents.payload import unpack
from heddle_verif.checkers.scoreboard import Scoreboard
from heddle_verif.fixture import Bench

ITEMS = 80          # of each input
SHAPE = data.StructLayout({"mark": 3, "value": 9, "last": 1})     # see ``source_of``
CAPACITY = 2        # of the buffer behind a registered arbiter


def source_of(item):
    """Number of the input of an item: every bit of the payload takes both values at every input."""
    return (item["mark"] - item["value"]) % 8


def make_unit(**parameters):
    """The design under test."""
    return RoundRobinArbiter(SHAPE, **parameters)


class Model:
    """Grants of an arbiter after a reset."""

    def __init__(self, unit):
        self.unit, self.pointer, self.within = unit, unit.first, False

    def grant(self, valid):
        """The granted input for ``valid`` of all inputs, or None."""
        if self.within:
            return self.pointer if valid[self.pointer] else None
        order = ((self.pointer + n) % self.unit.count for n in range(self.unit.count))
        return next((number for number in order if valid[number]), None)

    def step(self, granted, ready, ends):
        """The end of a cycle in which an input was granted; ``ready``: its item is transferred, ``ends``: it is marked as the last one."""
        done = ready and (ends or self.unit.last is None)
        if done:
            self.pointer = (granted + 1) % self.unit.count
        elif self.unit.locked:
            self.pointer = granted
        self.within = self.unit.last is not None and not done


class ArbiterBench(Bench):
    """``parameters``: those of the arbiter but the shape."""

    def __init__(self, dut):
        self.unit = make_unit(**bench_parameters())
        super().__init__(dut, self.unit, idle_limit=300)
        if not self.unit.locked and not self.unit.registered:
            del self.checkers["o"]      # its payload may change while it waits
        self.numbers = range(self.unit.count)
        self.forget()

    def forget(self):
        """A reset."""
        self.model, self.stage = Model(self.unit), []
        self.scoreboard = Scoreboard("o", key=source_of)

    async def begin(self, source_pause, sink_pause):
        await self.start()
        self.i = [self.source(f"i__{number}", SHAPE, pause=source_pause, on_item=lambda item: self.scoreboard.expect(item))
                  for number in self.numbers]
        self.o = self.sink("o", SHAPE, pause=sink_pause, on_item=lambda item: self.scoreboard.observe(item))
        cocotb.start_soon(self._check())

    def item(self, source, last):
        value = int(self.rng.integers(1 << 9))
        return {"mark": (source + value) % 8, "value": value, "last": int(last)}

    def put(self, count, length=None):
        """Queue ``count`` items at each input, in packets of ``length`` items or of random lengths."""
        for number, source in enumerate(self.i):
            ends = [self.rng.random() < 0.4 if length is None else (n + 1) % length == 0 for n in range(count)]
            source.put(*(self.item(number, end or n == count - 1) for n, end in enumerate(ends)))

    async def _check(self):
        """Compare every cycle with the model."""
        dut = self.dut
        ports = [SimpleNamespace(**{name: getattr(dut, f"i__{number}__{name}") for name in ("valid", "ready", "payload")})
                 for number in self.numbers]
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value:
                self.forget()
                continue
            granted = self.model.grant([bool(port.valid.value) for port in ports])
            leaves = bool(dut.o__ready.value)
            ready = len(self.stage) < CAPACITY if self.unit.registered else leaves
            moved = [number for number, port in enumerate(ports) if port.valid.value and port.ready.value]
            assert moved == ([granted] if granted is not None and ready else []), f"input {granted} is granted, not {moved}"
            assert granted is None or int(dut.grant.value) == granted, f"grant must be {granted}"
            item = None if granted is None else int(ports[granted].payload.value)
            shown = (self.stage[0] if self.stage else None) if self.unit.registered else item
            assert bool(dut.o__valid.value) == (shown is not None), f"o.valid must be {shown is not None}"
            assert shown is None or int(dut.o__payload.value) == shown, f"o.payload must be {shown:#x}"
            if self.stage and leaves:
                self.stage.pop(0)
            if granted is not None:
                if self.unit.registered and ready:
                    self.stage.append(item)
                self.model.step(granted, ready, unpack(SHAPE, item)["last"])

    async def end(self, items):
        for source in self.i:
            await source.drained()
        while self.scoreboard.outstanding:
            await RisingEdge(self.dut.clk)
        self.finish()
        await self.cycles(4)
        self.scoreboard.finish(items)


@cocotb.test(timeout_time=500, timeout_unit="us")
@cocotb.parametrize(source=PATTERNS, sink=PATTERNS)
async def keeps_order(dut, source, sink):
    bench = ArbiterBench(dut)
    await bench.begin(source, sink)
    bench.put(ITEMS)
    await bench.end(ITEMS * bench.unit.count)


@cocotb.test(timeout_time=50, timeout_unit="us")
async def one_item_a_cycle(dut):
    bench = ArbiterBench(dut)
    await bench.begin("none", "none")
    bench.put(50)
    while sum(source.count for source in bench.i) == 0:
        await RisingEdge(dut.clk)
    first, count = bench.cycle, 50 * bench.unit.count
    while bench.o.count < count:
        await RisingEdge(dut.clk)
    assert bench.cycle - first == count - 1 + bench.unit.registered
    await bench.end(count)


@cocotb.test(timeout_time=50, timeout_unit="us")
@cocotb.parametrize(length=[1, 3])
async def takes_turns(dut, length):
    """All inputs wait all the time, from the first cycle on: items, or packets, in circular order."""
    bench = ArbiterBench(dut)
    await bench.begin("none", "none")
    bench.put(30, length)
    received = [source_of(item) for item in await bench.o.receive(30 * bench.unit.count)]
    each = length if bench.unit.last is not None else 1
    assert received == [(bench.unit.first + n // each) % bench.unit.count for n in range(len(received))]
    await bench.end(len(received))


@cocotb.test(timeout_time=50, timeout_unit="us")
async def holds_the_grant(dut):
    """An item waits when one of an input with a higher priority comes: with ``locked`` it remains, otherwise it is replaced."""
    bench = ArbiterBench(dut)
    await bench.begin("none", always())
    early, late, buffered = bench.unit.first, (bench.unit.first + 1) % bench.unit.count, CAPACITY * bench.unit.registered
    for number in (late, early):
        bench.i[number].put(*(bench.item(number, 1) for _ in range(4)))
        await bench.cycles(10)
    bench.o.pause = none()
    received = [source_of(item) for item in await bench.o.receive(8)]
    expected, left = [late] * buffered, {early: 4, late: 4}
    left[late] -= buffered
    if early == late:
        expected = [early] * 8
    turn = late if bench.unit.locked else early
    while len(expected) < 8:
        if left[turn]:
            expected.append(turn)
            left[turn] -= 1
        turn = early + late - turn
    assert received == expected
    await bench.end(8)


@cocotb.test(timeout_time=50, timeout_unit="us")
async def reset_begins_anew(dut):
    """A packet that has begun, the pointer and what is in the buffer are forgotten."""
    bench = ArbiterBench(dut)
    await bench.begin("none", "none")
    late = (bench.unit.first + 1) % bench.unit.count
    bench.i[late].put(*(bench.item(late, 0) for _ in range(3)))
    await bench.cycles(8)
    bench.o.pause = always()
    bench.i[late].put(*(bench.item(late, 0) for _ in range(3)))
    await bench.cycles(8)
    await bench.restart(*bench.i)
    assert not dut.o__valid.value
    bench.o.received.clear()
    bench.o.pause = none()
    bench.put(2, 1)
    received = [source_of(item) for item in await bench.o.receive(2 * bench.unit.count)]
    assert received == [(bench.unit.first + n) % bench.unit.count for n in range(len(received))]
    await bench.end(len(received))
