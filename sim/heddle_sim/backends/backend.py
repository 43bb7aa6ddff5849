"""Backends that execute a program: the simulated hardware, or the functional simulator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from heddle.config import Config
from heddle.control.run_control import STUCK_CYCLES
from heddle.isa.counter_table import BREAKDOWN, COUNTERS
from heddle.isa.encoding import Opcode
from heddle.isa.error_codes import STOPPING_ERRORS, ErrorCode
from heddle.isa.register_map import CONTROL, DEVICE_ID, INTERRUPT, REGISTERS, STATUS, UNIFORM_WINDOW, counter_addresses

from ..functional.recurrent_engine import COUNTS as RECURRENT_COUNTS
from ..functional.simulator import FunctionalSimulator
from .sampling import CounterSamples, wait_with_samples
from .verilator_device import MemorySettings, RtlSimulation, SimulationError

if TYPE_CHECKING:
    from ..functional.run_result import RunResult
    from ..isa.program import Program
    from ..progress import Progress

__all__ = ["Outcome", "VerilatorBackend", "GoldenBackend"]

MARGIN_CYCLES = 1000  # from the end of the hardware's own limits to the interrupt


@dataclass(frozen=True)
class Outcome:
    """Result of a run: ``error`` is None or (code, pc, operand, core, dimension); ``cycles`` is None for a backend without clock.

    ``samples``: of the counters within the run, where they were asked for and there is a clock.
    """

    error: tuple[ErrorCode, int, int, int, int] | None
    cycles: int | None = None
    breakdown: dict[str, int] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    samples: CounterSamples | None = None


class VerilatorBackend:
    """Hardware backend: drives the Verilated device over AXI4-Lite as a host does. ``verilog`` replaces the design by another one with
    the same ports. ``waves``: a format, for a build whose ``waves`` writes files.
    """

    def __init__(self, cfg: Config, memory: np.ndarray, settings: MemorySettings, progress: Progress, verilog: str | None = None,
                 waves: str | None = None) -> None:
        self.simulation = RtlSimulation(cfg, memory, settings, verilog=verilog, progress=progress, waves=waves)
        self._waves: tuple[int, int] | None = None      # cycles of runs until waves are written, and then with them
        self._loaded: list[int] | None = None
        found = tuple(self._read(name) for name in ("id", "cores", "threads", "dot"))
        if found != (DEVICE_ID, cfg.cores, cfg.threads, cfg.dot):
            raise SimulationError(
                f"the device must identify as {DEVICE_ID:#x} with {cfg.cores} x {cfg.threads} x {cfg.dot}, not {found}"
            )

    def _read(self, name: str) -> int:
        return self.simulation.read(REGISTERS[name][0])

    def _load(self, words: list[int]) -> None:
        if words == self._loaded:
            return
        data = REGISTERS["program_data"][0]
        pairs = [(REGISTERS["program_address"][0], 0)]
        pairs += [(data, word >> shift & 0xFFFFFFFF) for word in words for shift in (0, 32, 64, 96)]
        self._loaded = None
        self.simulation.write_many(pairs)
        self._loaded = list(words)

    def run(self, program: Program, uniform: Mapping[int, int], timeout_cycles: int, wait_timeout_cycles: int = 0,
            sample_cycles: int = 0) -> Outcome:
        """Load the program, start it and wait for the interrupt, with a sample of the counters every ``sample_cycles`` cycles (0: none).

        After a run that hung the device is reset and ready for the next run.
        """
        self._load(program.words)
        pairs = [(UNIFORM_WINDOW + 4 * number, value) for number, value in sorted(uniform.items())]
        pairs += [
            (REGISTERS["entry"][0], 0),
            (REGISTERS["timeout"][0], timeout_cycles),
            (REGISTERS["wait_timeout"][0], wait_timeout_cycles),
            (REGISTERS["interrupt"][0], 1 << INTERRUPT["enable"] | 1 << INTERRUPT["pending"]),
            (REGISTERS["control"][0], 1 << CONTROL["start"]),
        ]
        if self._waves is not None:
            self.simulation.write_waves(*self._waves)
        begin = self.simulation.cycles
        self.simulation.write_many(pairs)
        limit, samples = timeout_cycles + STUCK_CYCLES + MARGIN_CYCLES, None
        if sample_cycles:
            ended, samples = wait_with_samples(self.simulation, limit, sample_cycles)
        else:
            ended = self.simulation.run_until_interrupt(limit)
        self._pause_waves(begin)
        if not ended:
            self._recover()
            return Outcome((ErrorCode.TIMEOUT, 0, timeout_cycles, 0, 0))
        status = self._read("status")
        outcome = replace(self._outcome(status), samples=samples)
        if status >> STATUS["stuck"] & 1:
            self._recover()
        return outcome

    def _outcome(self, status: int) -> Outcome:
        error = None
        if status >> STATUS["error"] & 1:
            code, pc, operand, core, dimension = (self._read(f"error_{name}") for name in ("code", "pc", "operand", "core", "dimension"))
            error = ErrorCode(code), pc, operand, core, dimension
        elif not status >> STATUS["done"] & 1:
            raise SimulationError(f"status must say done after the interrupt, not {status:#x}")
        values = {name: self.simulation.read(address) for name, address in counter_addresses().items()}
        return Outcome(
            error,
            values["cycles"] | values["cycles_high"] << 32,
            {name: values[name] for name in BREAKDOWN},
            {name: values[name] for name in COUNTERS},
        )

    @contextmanager
    def waves(self, path: str, first: int, count: int) -> Iterator[None]:
        """Waves of runs within the context, without what the host does between them: of ``count`` cycles behind ``first`` ones."""
        self.simulation.open_waves(path)
        self._waves = first, count
        try:
            yield
        finally:
            self._waves = None
            self.simulation.close_waves()

    def _pause_waves(self, begin: int) -> None:
        """No waves until the next run; ``begin``: where this one began."""
        if self._waves is not None:
            self._waves = max(self._waves[0] - (self.simulation.cycles - begin), 0), self.simulation.waves_left()
            self.simulation.write_waves(0, 0)

    def _recover(self) -> None:
        self.simulation.reset()
        self._loaded = None

    def close(self) -> None:
        self.simulation.close()


class GoldenBackend:
    """Functional backend: results and errors without a clock. The time limit counts instructions of a core; waits take no time.

    The cores run one after the other, each until it ends or waits at a barrier for multicast copies. The results equal those of
    concurrent cores if no core reads, without a wait, data that another core writes. It must not matter which core has which
    tile: here the first core takes all. An error that stops a core stops all.
    """

    def __init__(self, cfg: Config, memory: np.ndarray) -> None:
        self.simulators = [FunctionalSimulator(cfg, memory, core) for core in range(cfg.cores)]
        for simulator in self.simulators:
            simulator.peers = self.simulators

    def run(self, program: Program, uniform: Mapping[int, int], timeout_cycles: int, wait_timeout_cycles: int = 0,
            sample_cycles: int = 0) -> Outcome:
        """Run a program to its end; there is no clock, and no sample."""
        error, counters = None, Counter(instructions=0, matrix_instructions=0, matrix_steps=0)
        for core, result in self._results(program, uniform, timeout_cycles):
            counters.update(
                instructions=result.instructions,
                matrix_instructions=sum(result.counts.get(opcode.name, 0) for opcode in (Opcode.MATRIX, Opcode.OFFSETS)),
                matrix_steps=result.counts.get("matrix_steps", 0),
                **{name: result.counts[name] for name in RECURRENT_COUNTS if name in result.counts},
            )
            stopped = result.error in STOPPING_ERRORS
            if stopped or (error is None and not result.ok):
                error = result.error, result.pc, result.operand, core, result.dimension
            if stopped:
                break
        return Outcome(error, counters=dict(counters))

    def _results(self, program: Program, uniform: Mapping[int, int], limit: int) -> Iterator[tuple[int, RunResult]]:
        """(core, result) in the order in which programs end. If all remaining cores wait, the first one continues as if alone and ends
        with an error.
        """
        for simulator in self.simulators:
            simulator.begin(program, uniform=uniform, instruction_limit=limit)
            simulator.tiles = self.simulators[0].tiles
        waiting, stuck = dict(enumerate(self.simulators)), False
        while waiting:
            before = sum(simulator.executed for simulator in self.simulators)
            for core, simulator in list(waiting.items()):
                result = simulator.advance(alone=stuck or not simulator.cfg.multicast)
                if result is not None:
                    del waiting[core]
                    yield core, result
            stuck = before == sum(simulator.executed for simulator in self.simulators)

    def close(self) -> None:
        self.simulators = []
