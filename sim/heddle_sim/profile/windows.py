"""Windows of a run between samples of its counters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..backends.sampling import PORT_COUNTERS
from ..device.recording import RunRecord

__all__ = ["Window", "windows_of"]

_LEAST_LAST = 160       # cycles: counts of the last window would else be those of more cycles than it has


@dataclass(frozen=True)
class Window:
    """Cycles of a run, from ``begin`` to ``end``, with what its counters and AXI ports counted in between."""

    begin: int
    end: int
    counts: dict[str, int]
    ports: list[dict[str, int]]

    @property
    def cycles(self) -> int:
        """Length."""
        return self.end - self.begin


def windows_of(run: RunRecord) -> Iterator[Window]:
    """Windows of a run with cycles; they follow each other, and their counts add up to those of the run.

    The whole run is one window where it has no samples.
    """
    total = run.stats.cycles
    if not total:
        return
    exact = {**run.stats.breakdown, **run.stats.counters}
    samples = run.samples
    if samples is None or not samples.cycles:
        yield Window(0, total, exact, [])
        return
    inner = [index for index, cycle in enumerate(samples.cycles[:-1]) if cycle <= total - _LEAST_LAST]
    names = list(samples.counters[inner[0]]) if inner else list(exact)
    begin, counts, ports = 0, dict.fromkeys(names, 0), [dict.fromkeys(PORT_COUNTERS, 0) for _ in samples.ports[-1]]
    for index in [*inner, -1]:
        end = total if index < 0 else samples.cycles[index]
        now = exact if index < 0 else samples.counters[index]
        yield Window(begin, end, {name: max(now[name] - counts[name], 0) for name in names},
                     [{name: port[name] - before[name] for name in PORT_COUNTERS} for port, before in zip(samples.ports[index], ports)])
        begin, counts, ports = end, {name: max(now[name], counts[name]) for name in names}, samples.ports[index]
