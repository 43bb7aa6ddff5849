"""Traces in the Trace Event Format, as Perfetto and Chrome read them: a track for each unit and core, cycles as time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from heddle.config import Config
from heddle.isa.counter_table import BREAKDOWN

from ..device.recording import LayerRecord, Recorder, RunRecord
from .windows import Window, windows_of

__all__ = ["trace_events"]

Event = dict[str, Any]
_NETWORK, _UNITS, _CORE = 1, 2, 10          # processes: the layers, the units of all cores, the first core
_LAYERS, _RUNS = 1, 2                       # tracks of the layers
_STEP = 10                                  # of a unit: stretches in which it is busy in alike parts of ten are one slice


class _Unit(NamedTuple):
    """Track of a unit. ``busy``: counters whose sum is its busy cycles. ``beside``: counters that each slice shows, too."""

    name: str
    busy: tuple[str, ...]
    beside: tuple[str, ...] = ()


_ALL_UNITS = (
    _Unit("matrix unit", ("matrix_steps",)),
    _Unit("recurrent engine", ("rnn_steps",), ("rnn_waits",)),
    _Unit("sparse engine", ("sparse_steps", "sparse_loads"), ("sparse_waits",)),
    _Unit("thread unit: shared memory", ("thread_shared_cycles",), ("thread_instructions",)),
    _Unit("front end: issue", ("instructions",)),
)


def trace_events(recorder: Recorder, name: str) -> dict[str, Any]:
    """The JSON object of a trace: an event for each layer, run and stretch of a unit's work. One cycle is one microsecond.

    ``name``: of what ran. Layers and runs have exact cycles; the work within a run has those of the samples. Layers on the host take no
    cycles and are instants. Runs that do not count, such as loads, are there too.
    """
    cfg = recorder.cfg
    events: list[Event] = [_named("process_name", _NETWORK, 0, name), _named("thread_name", _NETWORK, _LAYERS, "layers"),
                           _named("thread_name", _NETWORK, _RUNS, "runs")]
    if cfg is not None:
        events += _tracks(cfg)
    now = 0
    for layer in recorder.layers:
        begin = now
        for run in layer.runs:
            if run.stats.cycles is None or cfg is None:
                continue
            events += _run_events(cfg, run, now)
            now += run.stats.cycles
        events.append(_layer_event(layer, begin, now))
    return {"traceEvents": events, "displayTimeUnit": "ms",
            "otherData": {"of": name, "config": cfg.name if cfg else None, "time": "1 us is one cycle", "cycles": now,
                          "sample_cycles": recorder.sample_cycles}}


def _named(kind: str, process: int, track: int, name: str) -> Event:
    return {"ph": "M", "name": kind, "pid": process, "tid": track, "args": {"name": name}}


def _slice(process: int, track: int, name: str, begin: int, end: int, arguments: dict[str, Any]) -> Event:
    return {"ph": "X", "name": name, "cat": "cycles", "pid": process, "tid": track, "ts": begin, "dur": end - begin, "args": arguments}


def _units(cfg: Config) -> list[_Unit]:
    return [unit for unit in _ALL_UNITS if (unit.busy != ("rnn_steps",) or cfg.rnn) and (unit.busy[0] != "sparse_steps" or cfg.sparse)]


def _tracks(cfg: Config) -> Iterator[Event]:
    yield _named("process_name", _UNITS, 0, "units" if cfg.cores == 1 else f"units of {cfg.cores} cores")
    for track, unit in enumerate(_units(cfg)):
        yield _named("thread_name", _UNITS, track, unit.name)
    for core in range(cfg.cores):
        yield _named("process_name", _CORE + core, 0, f"core {core}")
        for track, name in enumerate(_core_tracks(cfg, core)):
            yield _named("thread_name", _CORE + core, track, name)


def _core_tracks(cfg: Config, core: int) -> tuple[str, ...]:
    port = f"L2 bank {core}" if cfg.l2_kib else "bus"
    return (f"{port}: read", f"{port}: write", *["cycles go to"] * (core == 0))


def _layer_event(layer: LayerRecord, begin: int, end: int) -> Event:
    stats = layer.stats
    arguments: dict[str, Any] = {"op": layer.op, "where": layer.where}
    if stats is None or end == begin:
        return {"ph": "i", "s": "p", "name": f"{layer.op} {layer.name} ({layer.where})", "cat": layer.where, "pid": _NETWORK,
                "tid": _LAYERS, "ts": begin, "args": arguments | {"seconds": layer.seconds}}
    arguments |= {"cycles": stats.cycles, "macs": stats.macs, "utilization": stats.utilization}
    return _slice(_NETWORK, _LAYERS, f"{layer.op} {layer.name}", begin, end, arguments | stats.breakdown)


def _run_events(cfg: Config, run: RunRecord, start: int) -> Iterator[Event]:
    stats = run.stats
    counters = {name: value for name, value in stats.counters.items() if value}
    yield _slice(_NETWORK, _RUNS, run.name, start, start + (stats.cycles or 0),
                 {"counted": run.counted, "macs": stats.macs} | stats.breakdown | counters)
    windows = list(windows_of(run))
    for track, unit in enumerate(_units(cfg)):
        shares = [_share(sum(window.counts[name] for name in unit.busy), window, cfg.cores) for window in windows]
        yield from _stretches(_UNITS, track, windows, shares, start, unit.beside)
    for window in windows:
        yield from _window_events(window, start)
    for core in range(cfg.cores):
        for track, kind in enumerate(("read_beats", "write_beats")):
            shares = [_share(_beats(cfg, window, core, kind), window, 1) for window in windows]
            yield from _stretches(_CORE + core, track, windows, shares, start)


def _beats(cfg: Config, window: Window, core: int, kind: str) -> int:
    """Beats of a port; without samples an even part of what all ports counted."""
    return window.ports[core][kind] if window.ports else window.counts[kind] // cfg.cores


def _share(count: int, window: Window, cores: int) -> float:
    """Part of the cycles of a window."""
    return min(count / (window.cycles * cores), 1.0)


def _stretches(process: int, track: int, windows: list[Window], shares: list[float], start: int,
               beside: tuple[str, ...] = ()) -> Iterator[Event]:
    """A slice for each stretch of windows that are busy alike, named by how much; none where a unit is idle."""
    first = 0
    for index in range(1, len(windows) + 1):
        if index < len(windows) and _level(shares[index]) == _level(shares[first]):
            continue
        part = windows[first:index]
        cycles = sum(window.cycles for window in part)
        share = sum(share * window.cycles for share, window in zip(shares[first:index], part)) / cycles
        if share > 0:
            counts = {name: sum(window.counts[name] for window in part) for name in beside}
            yield _slice(process, track, f"{100 * share:.0f} %", start + part[0].begin, start + part[-1].end, {"share": share} | counts)
        first = index


def _level(share: float) -> int:
    return -(-int(1000 * share) // (1000 // _STEP)) if share > 0 else -1


def _window_events(window: Window, start: int) -> Iterator[Event]:
    """What core 0 did in the cycles of a window: a value for each reason of the breakdown, in parts of 100."""
    yield {"ph": "C", "name": "cycles go to", "pid": _CORE, "tid": 2, "ts": start + window.begin,
           "args": {name: round(100 * _share(window.counts[name], window, 1), 1) for name in BREAKDOWN}}
