"""Which context has the lanes and the tail in which cycles, by the cycle model: what ``heddle show rnn`` draws [S3.6]."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from heddle.config import Config

from .timing import Latencies, task_timeline

if TYPE_CHECKING:
    from .model import EngineModel

__all__ = ["Span", "Timeline", "model_timeline"]


@dataclass(frozen=True)
class Span:
    """A sweep of a context.

    Attributes
    ----------
    context, step, sweep : int
    columns : tuple of (begin, end)
        Cycles in which the lanes multiply; between them it waits for elements of its vector.
    job : (begin, end, written) or None
        Cycles of the slots of its job, and that from which the last of its results can be read.
    """

    context: int
    step: int
    sweep: int
    columns: tuple[tuple[int, int], ...]
    job: tuple[int, int, int] | None


@dataclass(frozen=True)
class Timeline:
    """A run of equal tasks.

    Attributes
    ----------
    model : EngineModel
    threads, steps : int
        Tasks, each in a context of its own, and steps of each.
    cycles : int
    spans : list of Span
        In the order in which they have the lanes.
    """

    model: EngineModel
    threads: int
    steps: int
    cycles: int
    spans: list[Span]

    @property
    def busy(self) -> int:
        """Cycles in which the lanes multiply."""
        return sum(end - begin for span in self.spans for begin, end in span.columns)

    @property
    def tail_busy(self) -> int:
        """Cycles in which a slot of the tail begins."""
        return sum(span.job[1] - span.job[0] for span in self.spans if span.job)

    @property
    def step_columns(self) -> int:
        """Cycles of the sweeps of a step in the lanes."""
        return self.busy // (self.steps * self.threads)

    @property
    def pace(self) -> float | None:
        """Cycles that a step takes, waits included, when all threads are under way: without the first step of each and the last two.
        None with fewer than five steps."""
        if self.steps < 5:
            return None
        last = len(self.model.step.sweeps) - 1
        ends = [span.columns[-1][1] for span in self.spans if span.sweep == last]
        first, over = ends[self.threads - 1], ends[-2 * self.threads - 1]
        columns = [(max(begin, first), min(end, over)) for span in self.spans for begin, end in span.columns]
        return self.step_columns * (over - first) / sum(max(0, end - begin) for begin, end in columns)

    def gaps(self) -> list[tuple[int, int]]:
        """Cycles [(begin, end)] from the first to the last column in which nobody has the lanes."""
        columns = [run for span in self.spans for run in span.columns]
        return [(before[1], after[0]) for before, after in zip(columns, columns[1:]) if after[0] > before[1]]

    def symbols(self) -> list[str]:
        """A letter for each sweep of a step: the first of its vector's name, as a capital when the vector was multiplied before."""
        found = []
        for number, sweep in enumerate(self.model.step.sweeps):
            letter = sweep.vector.rsplit(".", 1)[-1][0]
            choices = [letter.lower(), letter.upper(), *"0123456789", *map(chr, range(ord("a"), ord("z") + 1)), str(number)]
            found.append(next((choice for choice in choices if choice not in found), "?"))
        return found

    def rows(self) -> Iterator[dict[str, Any]]:
        """Dictionaries for JSON: one for each sweep."""
        symbols = self.symbols()
        for span in self.spans:
            begin, end, written = span.job or (None, None, None)
            yield {"kind": "sweep", "thread": span.context, "step": span.step, "sweep": span.sweep, "symbol": symbols[span.sweep],
                   "vector": self.model.step.sweeps[span.sweep].vector, "columns": [list(run) for run in span.columns],
                   "job_begin": begin, "job_end": end, "written": written}


def model_timeline(cfg: Config, model: EngineModel, threads: int, steps: int) -> Timeline:
    """``Timeline`` of ``threads`` tasks of ``steps`` steps of an ``EngineModel``, each in a context of its own."""
    cycles, events = task_timeline(cfg, [(model, steps)] * threads, threads)
    drain = Latencies.of(cfg).slot - 1
    spans = []
    for context, step, sweep, _, _, begin, end, runs in events:
        joined: list[tuple[int, int]] = []
        for run in runs:
            if joined and joined[-1][1] == run[0]:
                joined[-1] = (joined[-1][0], run[1])
            else:
                joined.append(tuple(run))
        spans.append(Span(context, step, sweep, tuple(joined), None if begin is None else (begin, end, end + drain)))
    return Timeline(model, threads, steps, cycles, spans)
