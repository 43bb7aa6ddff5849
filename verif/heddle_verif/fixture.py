"""The surroundings of every bench: clock, reset, random numbers, configuration, stream checkers, watchdog."""

import warnings

import cocotb
import numpy as np
from amaranth.hdl import UnusedElaboratable
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from heddle_sim.toolchain.cocotb_process import bench_config, bench_parameters

from .agents.pause import pattern
from .agents.stream import StreamMonitor, StreamSink, StreamSource
from .checkers.stream_rules import check_streams, input_ports

__all__ = ["Bench"]


class Bench:
    """Base of the benches.

    Parameters
    ----------
    dut
        The design.
    component : wiring.Component or wiring.Signature
        The component that was emitted (a new object; it is only asked for its signature), or its signature.
    idle_limit : int
        Cycles without a transfer on any stream, and without ``progress()``, after which the watchdog fails the test.
        The watchdog runs from ``start`` to ``finish``.

    Attributes
    ----------
    rng : numpy.random.Generator
        Seeded by ``cocotb.RANDOM_SEED``; the only source of randomness.
    cfg : heddle.Config or None
    parameters : dict
    checkers : dict of str to StreamChecker
    cycle : int
        Clock edges since ``start``.
    """

    def __init__(self, dut, component, *, idle_limit=2000):
        warnings.filterwarnings("ignore", category=UnusedElaboratable)
        self.dut = dut
        self.signature = getattr(component, "signature", component)
        self.unit_name = type(component).__name__        # under whose name coverage counts streams
        self.rng = np.random.default_rng(cocotb.RANDOM_SEED)
        self.cfg = bench_config()
        self.parameters = bench_parameters()
        self.idle_limit = idle_limit
        self.cycle = 0
        self._idle = 0
        self._watching = False
        self.checkers = {}

    async def start(self):
        """Drive all inputs to 0, start clock, checkers and watchdog, and reset for three cycles."""
        for name in input_ports(self.signature):
            handle = getattr(self.dut, name, None)
            if handle is not None:
                handle.value = 0
        if not hasattr(self.dut, "clk"):
            raise AttributeError("the design must have a clock")
        cocotb.start_soon(Clock(self.dut.clk, 10, unit="ns").start())
        if hasattr(self.dut, "rst"):
            self.dut.rst.value = 1
        self.checkers = check_streams(self.dut, self.signature, unit=self.unit_name)
        self._watching = True
        cocotb.start_soon(self._watch())
        await self.reset()

    async def reset(self, cycles=3):
        """Hold the reset for some cycles."""
        if hasattr(self.dut, "rst"):
            self.dut.rst.value = 1
            await ClockCycles(self.dut.clk, cycles)
            self.dut.rst.value = 0
        await RisingEdge(self.dut.clk)

    async def cycles(self, count):
        """Wait."""
        await ClockCycles(self.dut.clk, count)

    def progress(self):
        """Tell the watchdog that something happened that is no transfer on a stream."""
        self._idle = 0

    def finish(self):
        """Stop the watchdog; call before the checks at the end of the test."""
        self._watching = False

    def source(self, name, shape, *, pause="bursty"):
        """A ``StreamSource``; ``pause`` is a pattern or its name."""
        return StreamSource(self.dut, name, shape, rng=self.rng, pause=self._pause(pause))

    def sink(self, name, shape, *, pause="bursty", on_item=None):
        """A ``StreamSink``; ``pause`` is a pattern or its name."""
        return StreamSink(self.dut, name, shape, pause=self._pause(pause), on_item=on_item)

    def monitor(self, name, shape, on_item):
        """A ``StreamMonitor``."""
        return StreamMonitor(self.dut, name, shape, on_item)

    def _pause(self, pause):
        return pattern(pause, self.rng) if isinstance(pause, str) else pause

    async def _watch(self):
        seen = -1
        while self._watching:
            await RisingEdge(self.dut.clk)
            self.cycle += 1
            transfers = sum(checker.transfers for checker in self.checkers.values())
            self._idle = self._idle + 1 if transfers == seen else 0
            seen = transfers
            if self._watching and self._idle > self.idle_limit:
                states = "\n".join(checker.state() for checker in self.checkers.values())
                raise AssertionError(f"something must move within {self.idle_limit} cycles; streams:\n{states}")
