"""The surroundings of every bench: clock, reset, random numbers, configuration, stream checkers, watchdog."""

import random
import warnings

import cocotb
import numpy as np
from amaranth.hdl import UnusedElaboratable
from cocotb.clock import Clock
from cocotb.simtime import get_sim_time
from cocotb.triggers import ClockCycles, RisingEdge, Timer
from cocotb.utils import get_sim_steps
from heddle_sim.toolchain.cocotb_process import bench_config, bench_parameters

from .agents.pause import pattern
from .agents.stream import StreamMonitor, StreamSink, StreamSource
from .checkers.stream_rules import checkers_of, input_ports, run_checkers

__all__ = ["PERIOD_NS", "Bench"]

PERIOD_NS = 10      # of the clock


class Bench:
    """Base of the benches.

    Parameters
    ----------
    dut
        The design. One without a port ``clk`` is combinational and has no streams: see ``settle``.
    component : wiring.Component or wiring.Signature
        The component that was emitted (a new object; it is only asked for its signature), or its signature.
    idle_limit : int or None
        Cycles without a transfer on any stream, and without ``progress()``, after which the watchdog fails the test.
        The watchdog runs from ``start`` to ``finish``. None: no watchdog, for tests that end after a number of cycles of their own.
    checked : bool
        Whether the rules of streams are checked in every cycle; False where the speed of the simulation is measured. Then there is no
        watchdog either.

    Attributes
    ----------
    rng : numpy.random.Generator
    random : random.Random
        Seeded by ``cocotb.RANDOM_SEED`` both, for arrays and for choices among objects; the only sources of randomness.
    cfg : heddle.Config or None
    parameters : dict
    fewer : int
        Of ``parameters``: benches of variants at night do one of so many random rounds; 1 by default.
    checkers : dict of str to StreamChecker
        Of every stream of the design, from ``start`` on.
    """

    def __init__(self, dut, component, *, idle_limit=2000, checked=True):
        warnings.filterwarnings("ignore", category=UnusedElaboratable)
        self.dut = dut
        self.signature = getattr(component, "signature", component)
        self.unit_name = type(component).__name__        # under whose name coverage counts streams
        self.rng = np.random.default_rng(cocotb.RANDOM_SEED)
        self.random = random.Random(cocotb.RANDOM_SEED)
        self.cfg = bench_config()
        self.parameters = bench_parameters()
        self.fewer = self.parameters.get("fewer", 1)
        self.idle_limit = idle_limit
        self.checkers = checkers_of(dut, self.signature, self.unit_name) if checked else {}
        self._checked = checked
        self._period = get_sim_steps(PERIOD_NS, "ns")
        self._begin = get_sim_time()
        self._idle = self._transfers = 0
        self._watching = False

    @property
    def cycle(self):
        """Clock edges since ``start``; the same for everything that runs at an edge."""
        return (get_sim_time() - self._begin) // self._period

    async def start(self):
        """Drive all inputs to 0, start clock, checkers and watchdog, and reset for three cycles."""
        for name in input_ports(self.signature):
            handle = getattr(self.dut, name, None)
            if handle is not None:
                handle.value = 0
        if hasattr(self.dut, "rst"):
            self.dut.rst.value = 1
        await self.settle()         # registers without reset never see an input that is not driven
        if not hasattr(self.dut, "clk"):
            if self.checkers:
                raise AttributeError("a design with streams must have a clock")
            return
        Clock(self.dut.clk, PERIOD_NS, unit="ns").start()
        self._begin = get_sim_time()
        if self._checked:
            self._watching = self.idle_limit is not None
            cocotb.start_soon(run_checkers(self.dut, self.checkers.values(), self._watch))
        await self.reset()

    async def reset(self, cycles=3):
        """Hold the reset for some cycles. Agents offer again what they offered when it began.

        Returns at the edge that begins the first cycle without reset: a model that steps at every edge from here on sees that cycle.
        """
        if hasattr(self.dut, "rst"):
            self.dut.rst.value = 1
            await ClockCycles(self.dut.clk, cycles)
            self.dut.rst.value = 0
        else:
            await RisingEdge(self.dut.clk)

    async def restart(self, *agents):
        """Reset under way. The ``agents`` forget what they still had to do: ``forget()`` of each is called during the reset."""
        self.dut.rst.value = 1
        await RisingEdge(self.dut.clk)
        for agent in agents:
            agent.forget()
        await self.reset()

    async def cycles(self, count):
        """Wait."""
        await ClockCycles(self.dut.clk, count)

    async def until(self, condition, limit, what):
        """Wait until ``condition()`` holds; returns the cycles. Raises ``AssertionError``, which says ``what``, after ``limit`` cycles."""
        for cycles in range(limit + 1):
            if condition():
                return cycles
            await RisingEdge(self.dut.clk)
        raise AssertionError(f"{what} within {limit} cycles")

    async def settle(self):
        """Wait until outputs follow inputs, within a cycle."""
        await Timer(1, "ns")

    def rounds(self, count):
        """``count`` divided by ``fewer``, rounded up."""
        return -(-count // self.fewer)

    def some(self, count):
        """``rounds`` on Verilator; a third of them, rounded up, on Icarus, which takes ten times as long for each."""
        return self.rounds(-(-count // 3) if cocotb.SIM_NAME.startswith("Icarus") else count)

    def progress(self):
        """Tell the watchdog that something happened that is no transfer on a stream."""
        self._idle = 0

    def finish(self):
        """Stop the watchdog; call before the checks at the end of the test."""
        self._watching = False

    def source(self, name, shape, *, pause="bursty", on_item=None):
        """A ``StreamSource``; ``pause`` is a pattern or its name."""
        return StreamSource(self.dut, name, shape, rng=self.rng, pause=self._pause(pause), on_item=on_item)

    def sink(self, name, shape, *, pause="bursty", on_item=None):
        """A ``StreamSink``; ``pause`` is a pattern or its name."""
        return StreamSink(self.dut, name, shape, pause=self._pause(pause), on_item=on_item)

    def monitor(self, name, shape, on_item):
        """A ``StreamMonitor``."""
        return StreamMonitor(self.dut, name, shape, on_item)

    def _pause(self, pause):
        return pattern(pause, self.rng) if isinstance(pause, str) else pause

    def _watch(self):
        transfers = sum(checker.transfers for checker in self.checkers.values())
        self._idle = self._idle + 1 if transfers == self._transfers else 0
        self._transfers = transfers
        if self._watching and self._idle > self.idle_limit:
            states = "\n".join(checker.state() for checker in self.checkers.values())
            raise AssertionError(f"something must move within {self.idle_limit} cycles; streams:\n{states}")
