"""A timeline of the engine for recurrent networks as text: a line for each thread's sweeps and one for its jobs, a place for each cycle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..rnn.timeline import Timeline

__all__ = ["CONTEXT_COLOURS", "draw", "heading"]

CONTEXT_COLOURS = (223, 159, 157, 229, 183, 216, 152, 194)      # of the 256 of a terminal: light backgrounds under black text
_END = "\x1b[0m"
_LABEL = 10                 # width of what stands before a line
_TICK = 10                  # places from one number of the ruler to the next
NOBODY, DRAIN = ".", "-"


def heading(timeline: Timeline, title: str) -> list[str]:
    """What is drawn, what the letters mean, and the figures."""
    model, cfg = timeline.model, timeline.model.cfg
    cats = sorted(set(model.cats.values()))
    lines = [f"{title}; lanes of {cfg.name}: {cfg.threads} x {cfg.dot} multipliers, cat {', '.join(map(str, cats))}"]
    for number, (symbol, sweep) in enumerate(zip(timeline.symbols(), model.step.sweeps)):
        rows = ", ".join(name.rsplit(".", 1)[-1] for name in sweep.rows)
        blocks = sum(model.blocks[name] for name in sweep.rows)
        columns = -(-model.step.vectors[sweep.vector].size // (cfg.dot // model.cat(sweep.rows[0])))
        text = (f"  {symbol}  sweep {number}: {sweep.vector} times the weights of {rows}, {_count(columns, 'column')} of "
                f"{_count(blocks, 'cycle')}")
        if sweep.job:
            job = model.schedules[number]
            groups = f"{_count(job.groups, 'pair')} of groups" if job.pairs else _count(job.groups, "group")
            text += f"; job of {_count(len(job.operations), 'operation')} for {groups} of elements"
        lines.append(text)
    gaps = timeline.gaps()
    idle = sum(end - begin for begin, end in gaps)
    text = (f"{timeline.cycles:,} cycles: lanes busy {timeline.busy:,} ({100 * timeline.busy / timeline.cycles:.1f} %), "
            f"tail {timeline.tail_busy:,}; between the first and the last column nobody has the lanes in {idle:,}")
    lines.append(text + (f", {max(end - begin for begin, end in gaps):,} at most at a time" if gaps else ""))
    if timeline.pace is not None:
        lines.append(f"a step every {timeline.pace:,.1f} cycles between the first and the last ones; its sweeps take "
                     f"{timeline.step_columns:,}")
    return lines


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _cells(timeline: Timeline) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arrays of characters, one a cycle: who has the lanes, then for each thread its sweeps and its jobs."""
    symbols = timeline.symbols()
    lanes = np.full(timeline.cycles, NOBODY)
    sweeps, jobs = (np.full((timeline.threads, timeline.cycles), " ") for _ in range(2))
    for span in timeline.spans:
        for begin, end in span.columns:
            lanes[begin:end] = str(span.context)
            sweeps[span.context, begin:end] = symbols[span.sweep]
        if span.job:
            begin, end, written = span.job
            drain = jobs[span.context, end:written]
            drain[drain == " "] = DRAIN
            jobs[span.context, begin:end] = str(span.step % 10)
    return lanes, sweeps, jobs


def _shrunk(cells: np.ndarray, scale: int) -> np.ndarray:
    """A place for every ``scale`` cycles, with what most of them have."""
    if scale == 1:
        return cells
    places = []
    for start in range(0, len(cells), scale):
        values, counts = np.unique(cells[start:start + scale], return_counts=True)
        places.append(values[counts.argmax()])
    return np.array(places)


def draw(timeline: Timeline, columns: int = 110, colour: bool = False, limit: int | None = None, scale: int = 1) -> list[str]:
    """Lines of the picture: stretches of ``columns`` places of ``scale`` cycles below each other, ``limit`` of them at most."""
    lanes, sweeps, jobs = _cells(timeline)
    lines: list[tuple[str, np.ndarray, int | None]] = [("lanes", _shrunk(lanes, scale), None)]
    for thread in range(timeline.threads):
        lines.append((f"thread {thread}", _shrunk(sweeps[thread], scale), thread))
        lines.append(("  tail", _shrunk(jobs[thread], scale), thread))
    places, width = len(lines[0][1]), max(_TICK, (columns - _LABEL) // _TICK * _TICK)
    stretches = -(-places // width)
    shown, out = min(stretches, limit or stretches), []
    for stretch in range(shown):
        first, last = stretch * width, min(places, (stretch + 1) * width)
        ruler = "".join(f"{place * scale:<{_TICK}}" for place in range(first, last, _TICK))
        out += [("cycle".ljust(_LABEL) + ruler).rstrip()]
        out += [_line(label, cells[first:last], thread, colour) for label, cells, thread in lines]
        out += [""] * (stretch < shown - 1)
    if shown < stretches:
        out.append(f"and {timeline.cycles - shown * width * scale:,} more cycles (--lines {stretches} shows all)")
    return out


def _line(label: str, cells: np.ndarray, thread: int | None, colour: bool) -> str:
    text = label.ljust(_LABEL)
    if not colour:
        return (text + "".join(cells)).rstrip()
    for cell in cells:
        number = int(cell) if thread is None and cell.isdigit() else thread
        if cell in f" {NOBODY}{DRAIN}" or number is None:
            text += cell
        else:
            text += f"\x1b[38;5;16;48;5;{CONTEXT_COLOURS[number % len(CONTEXT_COLOURS)]}m{cell}{_END}"
    return text
