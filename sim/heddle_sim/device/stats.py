"""Figures of one run."""

from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Stats"]


@dataclass(frozen=True)
class Stats:
    """What one run took.

    Attributes
    ----------
    cycles : int or None
        Cycles from the doorbell to the end of the run, counted by the hardware; None on the functional simulator.
    macs : int
        Multiply-accumulates of the problem, without padding.
    peak_macs_per_cycle : int
        What the configuration could do in a cycle.
    breakdown : dict of str to int
        Cycles by what the device, or core 0 of several, did (``heddle.isa.counter_table.BREAKDOWN``); they add up to ``cycles``.
    counters : dict of str to int
        Event counters (``heddle.isa.counter_table.COUNTERS``), over all cores.
    """

    cycles: int | None
    macs: int
    peak_macs_per_cycle: int
    breakdown: dict[str, int] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)

    @property
    def utilization(self) -> float | None:
        """``macs / (cycles * peak_macs_per_cycle)``; None on the functional simulator."""
        return self.macs / (self.cycles * self.peak_macs_per_cycle) if self.cycles else None

    def __str__(self) -> str:
        rows = [("macs", f"{self.macs:,}", "")]
        if self.cycles is not None:
            rows = [("cycles", f"{self.cycles:,}", ""), *rows,
                    ("utilization", f"{100 * (self.utilization or 0):.1f} %", f"of {self.peak_macs_per_cycle:,} a cycle")]
            rows += [(f"  {name}", f"{value:,}", f"{100 * value / self.cycles:.1f} %") for name, value in self.breakdown.items() if value]
        rows += [(name, f"{value:,}", "") for name, value in self.counters.items() if value]
        widths = [max(len(row[column]) for row in rows) for column in range(2)]
        return "\n".join(f"{name:<{widths[0]}}  {value:>{widths[1]}}  {share}".rstrip() for name, value, share in rows)

    def __add__(self, other: "Stats") -> "Stats":
        """Figures of two runs one after the other; unknown cycles stay unknown."""
        if not isinstance(other, Stats):
            return NotImplemented
        return Stats(
            cycles=None if self.cycles is None or other.cycles is None else self.cycles + other.cycles,
            macs=self.macs + other.macs,
            peak_macs_per_cycle=max(self.peak_macs_per_cycle, other.peak_macs_per_cycle),
            breakdown=_added(self.breakdown, other.breakdown),
            counters=_added(self.counters, other.counters),
        )

    def as_row(self) -> dict[str, Any]:
        """The figures as fields of a benchmark row."""
        return {
            "cycles": self.cycles,
            "macs": self.macs,
            "peak_macs_per_cycle": self.peak_macs_per_cycle,
            "utilization": self.utilization,
            "breakdown": dict(self.breakdown),
            "counters": dict(self.counters),
        }

    def as_dict(self) -> dict[str, Any]:
        """All attributes as a plain dictionary, ``utilization`` included."""
        return asdict(self) | {"utilization": self.utilization}


def _added(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    return {
        name: first.get(name, 0) + second.get(name, 0)
        for name in (*first, *(key for key in second if key not in first))
    }
