"""Figures of layers: bounds, and where the cycles went that no multiplier used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from heddle.config import Config

from ..device.recording import LayerRecord, Recorder
from .windows import windows_of

__all__ = ["LOSSES", "LayerFigures", "layer_figures", "total_figures"]

# Where cycles go besides products, in the order of the report.
LOSSES = {
    "unfilled": "steps of the lanes with padding or other zeros: multipliers without an operand",
    "pipeline": "steps that could not start: pipeline start, bank conflicts",
    "bus": "the program waited for copies, and the bus was busy",
    "copies": "the program waited for copies, and the bus was not busy: latency",
    "threads": "the program waited for thread instructions: output stage, stores, sums",
    "control": "uniform instructions, branches, start of runs",
    "drain": "the program had ended and writes were on their way",
}


@dataclass(frozen=True)
class LayerFigures:
    """Of a layer, or of all.

    Attributes
    ----------
    name, op, where : str
    runs : int
        Of the device.
    cycles, macs : int
    ideal : float
        Cycles in which all multipliers could do it.
    bus_cycles : int
        Beats of the busier direction of a port.
    bytes : int
        Read and written in global memory.
    busier_bytes : int
        In the direction that moves more.
    losses : dict of str to float
        Cycles by ``LOSSES``; with ``ideal`` they add up to ``cycles``.
    seconds : float
        On the host.
    """

    name: str
    op: str
    where: str
    runs: int
    cycles: int
    macs: int
    ideal: float
    bus_cycles: int
    bytes: int
    busier_bytes: int
    losses: dict[str, float]
    seconds: float

    @property
    def utilization(self) -> float | None:
        """Part of the peak."""
        return self.ideal / self.cycles if self.cycles else None

    @property
    def bound(self) -> float:
        """Least cycles with these multipliers and this bus."""
        return max(self.ideal, self.bus_cycles)

    @property
    def bound_by(self) -> str:
        """"multipliers" or "bus"."""
        return "multipliers" if self.ideal >= self.bus_cycles else "bus"

    @property
    def intensity(self) -> float:
        """Multiply-accumulates for each byte in the direction that moves more."""
        return self.macs / self.busier_bytes if self.busier_bytes else 0.0


def layer_figures(recorder: Recorder) -> list[LayerFigures]:
    """``LayerFigures`` of each layer of a record; those of the host have no cycles."""
    return [_figures(recorder.cfg, layer) for layer in recorder.layers]


def total_figures(figures: Iterable[LayerFigures], name: str) -> LayerFigures:
    """Of all layers together."""
    rows = list(figures)

    def total(values: Iterable[float]) -> float:
        return sum(values)

    return LayerFigures(
        name, "network", "device", sum(row.runs for row in rows), sum(row.cycles for row in rows), sum(row.macs for row in rows),
        total(row.ideal for row in rows), sum(row.bus_cycles for row in rows), sum(row.bytes for row in rows),
        sum(row.busier_bytes for row in rows), {loss: total(row.losses.get(loss, 0) for row in rows) for loss in LOSSES},
        total(row.seconds for row in rows))


def _figures(cfg: Config | None, layer: LayerRecord) -> LayerFigures:
    runs = [run for run in layer.runs if run.counted and run.stats.cycles]
    stats = layer.stats
    if not runs or cfg is None or stats is None:
        return LayerFigures(layer.name, layer.op, layer.where, len(layer.runs), 0, 0, 0.0, 0, 0, 0, {}, layer.seconds)
    beats = stats.counters.get("read_beats", 0), stats.counters.get("write_beats", 0)
    ideal = stats.macs / stats.peak_macs_per_cycle
    on_bus = _on_bus(cfg, [window for run in runs for window in windows_of(run)])
    parts = stats.breakdown
    matrix = float(parts.get("matrix", 0))
    # Products by other units than the lanes (sums of the thread unit) have no step of the matrix unit.
    losses = {"unfilled": max(matrix - ideal, 0.0), "pipeline": parts.get("matrix_wait", 0), "bus": on_bus,
              "copies": max(parts.get("copy_wait", 0) - on_bus, 0), "threads": parts.get("thread", 0),
              "control": parts.get("control", 0), "drain": parts.get("drain", 0)}
    return LayerFigures(layer.name, layer.op, layer.where, len(runs), stats.cycles or 0, stats.macs, min(ideal, stats.cycles or 0),
                        -(-max(beats) // cfg.cores), sum(beats) * cfg.axi_bytes, max(beats) * cfg.axi_bytes, losses, 0.0)


def _on_bus(cfg: Config, windows: Sequence) -> float:
    """Cycles in which the program waits for copies while the bus moves data: in each window the smaller of both."""
    return float(sum(min(window.counts["copy_wait"], max(window.counts["read_beats"], window.counts["write_beats"]) / cfg.cores)
                     for window in windows))
