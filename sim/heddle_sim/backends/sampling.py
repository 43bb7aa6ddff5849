"""Samples of the performance counters while a program runs, read over AXI4-Lite as a host can."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from heddle.config import Config
from heddle.isa.counter_table import BREAKDOWN, absent_counters
from heddle.isa.register_map import counter_addresses

if TYPE_CHECKING:
    from .verilator_device import RtlSimulation

__all__ = ["PORT_COUNTERS", "CounterSamples", "sampled_counters", "wait_with_samples"]

_EVENTS = ("instructions", "matrix_steps", "thread_instructions", "thread_shared_cycles", "read_beats", "write_beats", "level2_hits",
           "level2_misses", "rnn_steps", "rnn_waits", "sparse_steps", "sparse_loads", "sparse_waits")
PORT_COUNTERS = ("read_bursts", "read_beats", "write_bursts", "write_beats")


@dataclass
class CounterSamples:
    """Counters at times within a run.

    A read costs the run nothing, because the registers have a port of their own. Values may be older than their time by one round over all
    counters (64 cycles). Each counter of a sample is read within 6 cycles. Windows between samples are shifted by as much.

    Attributes
    ----------
    cycles : list of int
        From the doorbell on.
    counters : list of dict of str to int
        By ``sampled_counters``, at each of these times.
    ports : list of list of dict of str to int
        Traffic of each AXI port since the start of the run (``PORT_COUNTERS``), at each of these times.
    """

    cycles: list[int] = field(default_factory=list)
    counters: list[dict[str, int]] = field(default_factory=list)
    ports: list[list[dict[str, int]]] = field(default_factory=list)


def sampled_counters(cfg: Config) -> tuple[str, ...]:
    """Names of the counters of a sample."""
    absent = absent_counters(cfg)
    return *BREAKDOWN, *(name for name in _EVENTS if name not in absent)


def wait_with_samples(simulation: RtlSimulation, limit: int, interval: int) -> tuple[bool, CounterSamples]:
    """Simulate until the interrupt is high, with a sample every ``interval`` cycles.

    Returns whether it came within about ``limit`` cycles, and the samples from before it.
    """
    addresses = counter_addresses()
    wanted = [(name, addresses[name]) for name in sampled_counters(simulation.cfg)]
    start, ports, samples = simulation.cycles, _traffic(simulation), CounterSamples()
    while simulation.cycles - start < limit:
        if simulation.run_until_interrupt(interval):
            samples.cycles.append(simulation.cycles - start)
            samples.counters.append({})         # the run has ended: its figures are exact
            samples.ports.append(_since(_traffic(simulation), ports))
            return True, samples
        samples.cycles.append(simulation.cycles - start)
        samples.ports.append(_since(_traffic(simulation), ports))
        samples.counters.append({name: simulation.read(address) for name, address in wanted})
    return False, samples


def _traffic(simulation: RtlSimulation) -> list[dict[str, int]]:
    return [simulation.port_traffic(port) for port in range(simulation.cfg.cores)]


def _since(now: list[dict[str, int]], before: list[dict[str, int]]) -> list[dict[str, int]]:
    return [{name: port[name] - first[name] for name in PORT_COUNTERS} for port, first in zip(now, before)]
