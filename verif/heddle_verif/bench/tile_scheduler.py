"""Bench of the tile scheduler against a model, in every cycle: each number once, in turn, latency, new runs, reset."""

import cocotb
from cocotb.triggers import RisingEdge
from heddle.control.tile_scheduler import TileScheduler
from heddle_sim.toolchain.cocotb_process import bench_parameters

from heddle_verif.coverage.tiles import sample_clear, sample_number
from heddle_verif.fixture import Bench

LATENCY = 2         # cycles from a question to its answer


class Model:
    """The next number, the cores that wait, and the core whose turn it is."""

    def __init__(self, count):
        self.count, self.turn = count, 0
        self.begin()

    def begin(self):
        """A new run."""
        self.number, self.waiting, self.served = -1, set(), None

    def step(self, asks, clear):
        """The end of a cycle in which the cores in ``asks`` asked."""
        order = [(self.turn + place) % self.count for place in range(self.count)]
        served = next((core for core in order if core in self.waiting), None)
        if served is not None:
            if not clear:
                sample_number(served, len(self.waiting), self.count, self.turn)
            self.turn = (served + 1) % self.count
        if clear:
            sample_clear(len(self.waiting), self.served is not None)
            self.begin()
            return
        self.waiting = self.waiting - {served} | asks
        self.served, self.number = served, self.number + (served is not None)


class TileBench(Bench):
    """``parameters``: ``count`` of the scheduler.

    Attributes
    ----------
    share : float
        Probability with which a core that has its number asks again in a cycle.
    askers : collection of int
        Cores that ask.
    handed : list of (int, int, int)
        Core, number, and cycles that the core waited, of each answer.
    """

    def __init__(self, dut):
        self.count = bench_parameters()["count"]
        super().__init__(dut, TileScheduler(self.count), idle_limit=None)
        self.share, self.askers, self.handed = 0.0, range(self.count), []

    async def begin(self):
        await self.start()
        self.ports = [(getattr(self.dut, f"cores__{core}__asks"), getattr(self.dut, f"cores__{core}__number__valid"),
                       getattr(self.dut, f"cores__{core}__number__payload")) for core in range(self.count)]
        self.model, self.asked = Model(self.count), {}      # cycle in which each core asked
        cocotb.start_soon(self._check())

    async def _check(self):
        """Compare each cycle with the model, and ask in the next one."""
        while True:
            await RisingEdge(self.dut.clk)
            if self.dut.rst.value:
                self.model, self.asked = Model(self.count), {}
                continue
            asks = {core for core, (asks, _, _) in enumerate(self.ports) if asks.value}
            served = [core for core, (_, valid, _) in enumerate(self.ports) if valid.value]
            assert served == [self.model.served] * (self.model.served is not None), f"core {self.model.served} is served, not {served}"
            for core in served:
                number = int(self.ports[core][2].value)
                assert number == self.model.number, f"the number must be {self.model.number}, not {number}"
                self.handed.append((core, number, self.cycle - self.asked.pop(core)))
            clear = bool(self.dut.clear.value)
            self.asked = {} if clear else self.asked | dict.fromkeys(asks, self.cycle)
            self.model.step(asks, clear)
            for core, (port, _, _) in enumerate(self.ports):
                port.value = int(core in self.askers and core not in self.asked and self.rng.random() < self.share)

    async def idle(self):
        """Nobody asks, and all answers are there."""
        self.share = 0.0
        await self.cycles(self.count + LATENCY + 3)

    async def clear(self):
        self.dut.clear.value = 1
        await self.cycles(1)
        self.dut.clear.value = 0

    def end(self, least):
        self.finish()
        assert len(self.handed) >= least, f"{least} numbers must be handed out, not {len(self.handed)}"


async def prepared(dut):
    bench = TileBench(dut)
    await bench.begin()
    return bench


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(share=[0.02, 0.2, 0.8])
async def random_questions(dut, share):
    """Every core asks at random times; each number is handed out once, in order."""
    bench = await prepared(dut)
    bench.share = share
    await bench.cycles(1500)
    await bench.idle()
    assert [number for _, number, _ in bench.handed] == list(range(len(bench.handed)))
    assert {core for core, _, _ in bench.handed} == set(range(bench.count))
    bench.end(15)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def new_runs(dut):
    """A new run begins with 0, and those that waited have nothing."""
    bench = await prepared(dut)
    for _ in range(60):
        bench.share = float(bench.rng.choice([0.0, 0.05, 0.3, 1.0]))
        await bench.cycles(int(bench.rng.integers(1, 25)))
        await bench.clear()
    await bench.idle()
    assert sum(number == 0 for _, number, _ in bench.handed) > 20
    bench.end(100)


@cocotb.test(timeout_time=100, timeout_unit="us")
async def turns(dut):
    """All cores ask all the time: as many numbers as there can be, in turn."""
    bench = await prepared(dut)
    bench.share = 1.0
    await bench.cycles(20 * bench.count)
    cores = [core for core, _, _ in bench.handed]
    assert cores == [number % bench.count for number in range(len(cores))]
    assert len(cores) >= 20 * bench.count * bench.count // max(bench.count, LATENCY + 1) - 2 * LATENCY
    bench.end(bench.count)


@cocotb.test(timeout_time=100, timeout_unit="us")
async def latency(dut):
    """A core that asks alone has its number after ``LATENCY`` cycles."""
    bench = await prepared(dut)
    for core in range(bench.count):
        await bench.idle()
        bench.handed.clear()
        bench.askers, bench.share = (core,), 1.0
        await bench.cycles(20)
        assert {(asker, waited) for asker, _, waited in bench.handed} == {(core, LATENCY)}
    bench.end(5)


@cocotb.test(timeout_time=100, timeout_unit="us")
async def reset_begins_anew(dut):
    """While cores wait."""
    bench = await prepared(dut)
    bench.share = 1.0
    await bench.cycles(20)
    bench.share = 0.0
    await bench.restart()
    bench.handed.clear()
    await bench.cycles(10)
    assert not bench.handed
    bench.share = 0.5
    await bench.cycles(60)
    assert bench.handed[0][1] == 0
    bench.end(10)
