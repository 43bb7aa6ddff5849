"""Cycle model of the engine: sweeps, columns, jobs of the tail and contexts, with the latencies of its units (docs/units/rnn.md).

It follows the order of events, not every cycle, so that large layers take no longer than small ones with as many columns. Loaded words
wait while the tail writes. Not modelled: writers that wait for banks, also where a result of two banks takes two cycles
(``shared_writes`` 1).

Which columns are left out depends on the data: tasks of a model with ``skip_zeros`` say it (``skipping.zero_columns``), and ``run_cycles``
finds it out. Where they do not, all columns count, which is the longest that they can take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from heddle.config import Config
from heddle.errors import UsageError
from heddle.rnn.layouts import Wait

from .skipping import LookAhead, zero_columns

if TYPE_CHECKING:
    from .model import EngineModel
    from .step import Sweep
    from .task import EngineImage

__all__ = ["Latencies", "run_cycles", "task_cycles", "task_timeline"]

_TURN = 5                   # cycles from a choice of a context to its next at the earliest
_CHOICE = 2                 # and to its sweep at the column reader
_FIRST_READ = 1             # from a sweep's acceptance to its first read
_TABLES = 16                # from the start of a run to its tasks, without the words of sweeps and operations
_FIRST_WORD = 2             # from the beginning of a transfer to the cycle in which its first word enters vector memory
_PROGRESS = 4               # from a write of the tail, as the loader meets it, to the progress that it makes


def _words(cfg: Config, nbytes: int) -> int:
    """Transfers of a row: 16 bytes each, but in a ``ModelConfig`` that says otherwise."""
    return -(-nbytes // getattr(cfg, "load_bytes", 16))


@dataclass(frozen=True)
class Latencies:
    """Cycles between the units.

    Attributes
    ----------
    sums : int
        From the acceptance of the last column of a sweep to the first slot of its job.
    slot : int
        From a slot to the progress of what it wrote.
    settled : int
        From the last slot of a job to the first of the next one of its context.
    """

    sums: int
    slot: int
    settled: int

    @classmethod
    def of(cls, cfg: Config) -> Self:
        from heddle.rnn.tail import ISSUE_LATENCY, SETTLED, TAIL_LATENCY
        sums = max(cfg.engine_sum_latency - ISSUE_LATENCY, 3)
        return cls(sums, ISSUE_LATENCY + cfg.register_read_latency + TAIL_LATENCY + 3, SETTLED)


@dataclass
class _Job:
    """When what it writes can be read: ``first`` + index · ``period`` for each group, all of them at the end."""

    begin: int
    operations: int
    groups: int
    lanes: int
    latency: int
    writing: np.ndarray         # of each operation: its result goes to vector memory

    def writes(self, first: int, count: int) -> np.ndarray:
        """Of ``count`` cycles from ``first`` on those in which a result enters vector memory, so that no loaded word does."""
        since = np.arange(count) + (first - self.begin - self.latency + _PROGRESS)
        return self.writing[since % self.operations] & (since >= 0) & (since < self.groups * self.operations)

    @property
    def finished(self) -> int:
        return self.begin + self.groups * self.operations - 1 + self.latency

    def available(self, elements: int) -> int:
        groups = min(-(-elements // self.lanes), self.groups)
        return self.begin + groups * self.operations - 1 + self.latency


@dataclass(eq=False)
class _Context:
    """A task under way."""

    model: EngineModel | None = None    # None while it is free
    steps: int = 0
    zeros: list[list[np.ndarray]] | None = None
    waits: list[Wait] = field(default_factory=list)
    number: int = 0             # of the next sweep
    step: int = 0
    known: int = 0              # cycle from which the next sweep may be chosen
    jobs: list[_Job] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)        # cycles at which rows of input are there
    released: list[int] = field(default_factory=list)
    begin: int = 0
    free: int = 0               # cycle from which it takes a task

    @property
    def sweep(self) -> Sweep:
        return self.model.step.sweeps[self.number]

    def limited(self) -> int:
        """The sweep waits until at most one job is unfinished; returns the cycle."""
        if (self.sweep.begins or self.sweep.job) and len(self.jobs) > 1:
            return self.jobs[-2].finished
        return 0

    def source(self) -> _Job | None:
        """The job that makes the vector of the sweep, or None."""
        back = {Wait.LAST: 1, Wait.BEFORE: 2}.get(self.waits[self.number])
        return self.jobs[-back] if back and len(self.jobs) >= back else None

    def loaded(self) -> bool:
        """The row that the next sweep waits for is loaded, or known to be."""
        waits = self.waits[self.number] == Wait.INPUT and self.model.input_bytes
        return not waits or len(self.rows) > self.step

    def next_row(self) -> int | None:
        """Cycle from which its next row of input may be loaded, two rows having places; None where none is to be loaded, or not yet."""
        index = len(self.rows)
        if self.model is None or not self.model.input_bytes or index >= self.steps or index - 2 >= len(self.released):
            return None
        return self.released[index - 2] if index >= 2 else self.begin


class _Transfer(NamedTuple):
    """``words`` that are loaded from cycle ``begin`` on for context ``number``: its next "row", the next "task" record, or the state with
    which the task "start"s."""

    begin: int
    words: int
    number: int
    what: str


class _Engine:
    """The lanes, the tail, and who has them."""

    def __init__(self, cfg: Config, tasks: Sequence[tuple], contexts: int) -> None:
        self.cfg, self.latency = cfg, Latencies.of(cfg)
        self.pending = list(tasks)
        self.contexts = [_Context() for _ in range(contexts)]
        self.lanes = 0              # cycle in which the lanes accept a column
        self.reader = 0             # cycle in which the reader accepts a sweep
        self.offered = 0            # cycle from which a sweep may be chosen
        self.tail = 0               # cycle in which a slot may begin
        self.turn = 0
        self.events: list[tuple[Any, ...]] = []     # see ``task_timeline``
        self.end = 0
        models = list({id(model): model for model, *_ in tasks}.values())
        sweeps = sum(len(model.step.sweeps) for model in models)
        operations = sum(len(job.operations) for model in models for job in model.schedules if job)
        self.loader = _TABLES + sweeps + operations     # cycle in which it looks for work
        self.transfer = self.loader             # cycle in which it may begin to read
        self.moving: _Transfer | None = None    # what is being loaded
        self.over: int | None = None            # the cycle in which that ends, until there is another job
        self.jobs: list[_Job] = []              # whose results may still hold it up
        self.served = 0             # the context that it looks at
        self.task: int | None = None        # cycle from which it has the record of a task

    def run(self) -> int:
        while True:
            chosen = self._choose()
            if self.moving:
                if self.over is None:
                    self.over = self._loaded(self.moving)
                end = self.over
                if chosen is None or chosen[1] >= end:      # no sweep is left whose job could hold it up
                    self._arrive(self.moving, end)
                    continue
            elif (wanted := self._wanted()) and (chosen is None or wanted[0] <= chosen[1]):
                self._serve(*wanted)
                continue
            if chosen is None:
                return self.end
            self._take(chosen[0])
            self._sweep(*chosen)

    def _wanted(self) -> tuple[int, int, str] | None:
        """(Cycle, context, what) that the loader does next, as far as it is known: the rows of a context, then a task for it."""
        count, wanted = len(self.contexts), []
        for index in range(count):
            number = (self.served + index) % count
            context = self.contexts[number]
            row = context.next_row()
            if row is not None:
                wanted.append((max(row, self.loader + index), number, "row"))
            if self.pending and self.task is None and index == 0:
                wanted.append((self.loader, number, "task"))
            if self.task is not None and context.model is None:
                wanted.append((max(context.free, self.task, self.loader + index), number, "start"))
        return min(wanted, key=lambda want: want[0], default=None)

    def _serve(self, at: int, number: int, what: str) -> None:
        self.served, begin = number, max(at + 1, self.transfer)
        if what == "row":
            words = _words(self.cfg, self.contexts[number].model.input_bytes)
        else:
            words = 2 if what == "task" else _words(self.cfg, self.pending[0][0].state_bytes)
        self.moving, self.over = _Transfer(begin, words, number, what), None

    def _loaded(self, transfer: _Transfer) -> int:
        """Cycle from which the next transfer may begin: each word waits for a cycle in which the tail writes nothing."""
        if not transfer.words:
            return transfer.begin + 1
        at = transfer.begin + _FIRST_WORD
        self.jobs = [job for job in self.jobs if job.finished > at]
        words = transfer.words
        while self.jobs:
            free = ~np.any([job.writes(at, words) for job in self.jobs], axis=0)
            if (left := words - int(free.sum())) == 0:
                break
            at, words = at + words, left
        return at + words + 1

    def _arrive(self, transfer: _Transfer, end: int) -> None:
        """A transfer is over; the one of a state hands its task to a free context."""
        self.moving, self.transfer, self.loader = None, end, end + 1
        if transfer.what == "row":
            self.loader = transfer.begin + 1
            self.contexts[transfer.number].rows.append(end)
        elif transfer.what == "task":
            self.task = end + 1
        else:
            model, steps, *zeros = self.pending.pop(0)
            waits = [model.wait(number) for number in range(len(model.step.sweeps))]
            self.task = None
            self.contexts[transfer.number] = _Context(
                model, steps, zeros[0] if zeros else None, waits, known=self.loader + _TURN - 1, begin=self.loader)

    def _ready(self, context: _Context) -> tuple[int, int | None]:
        """(Cycle from which the context is ready, cycle from which it may be chosen early)."""
        at = max(context.known, context.limited())
        source = context.source()
        if context.waits[context.number] == Wait.INPUT and context.model.input_bytes:
            return max(at, context.rows[context.step]), None
        if source is None:
            return at, None
        before = max((job.finished for other in self.contexts for job in other.jobs if job.begin < source.begin), default=0)
        return max(at, source.available(self.cfg.dot)), max(at, before)      # no other job is before it

    def _choose(self) -> tuple[_Context, int] | None:
        """The context whose sweep comes next, and the cycle in which it is chosen; None where none has one."""
        count = len(self.contexts)
        order = [self.contexts[(self.turn + index) % count] for index in range(count)]
        times = [(context, *self._ready(context)) for context in order if context.model and context.loaded()]
        if not times:
            return None
        at = max(self.offered, min(ready for _, ready, _ in times))
        chosen = next(context for context, ready, _ in times if ready <= at)
        early = [(max(self.offered, self.reader + 1, soon), context) for context, _, soon in times if soon is not None]
        soonest = min(early, key=lambda pair: pair[0], default=(at, chosen))
        return soonest[::-1] if soonest[0] < at else (chosen, at)

    def _take(self, context: _Context) -> None:
        last = context.number == len(context.model.step.sweeps) - 1
        self.turn = (self.contexts.index(context) + last) % len(self.contexts)

    def _sweep(self, context: _Context, chosen: int) -> None:
        """Columns of a sweep, and its job."""
        cfg, model, sweep = self.cfg, context.model, context.sweep
        cat = model.cat(sweep.rows[0])
        blocks, group = sum(model.blocks[name] for name in sweep.rows), cfg.dot // cat
        columns, source = -(-model.step.vectors[sweep.vector].size // group), context.source()
        accepted = max(chosen + _CHOICE, self.reader)
        self.offered = max(chosen + _CHOICE, accepted)
        moved, runs, zeros = accepted + _FIRST_READ, [], self._skipped(context, columns)
        ahead, column = self._look_ahead(context, zeros, group, source), -1
        while column < columns - 1:
            column += 1
            there = source.available((column + 1) * group) if source else 0
            read, last = max(moved, there), column == columns - 1
            zero = zeros is not None and zeros[column]
            column += ahead.left_out(column, read) if ahead else 0
            if zero:        # the last waits for the lanes, but does not take them
                moved = max(self.lanes, read + 1) if last else read + 1
                continue
            taken = max(self.lanes, read + 1)
            runs.append((taken, taken + blocks))
            self.lanes, moved = taken + blocks, taken
            if zeros is None and (source is None or source.finished <= read):       # the others follow without waiting
                rest = columns - 1 - column
                taken += rest * blocks
                runs[-1] = (runs[-1][0], taken + blocks)
                self.lanes, moved = taken + blocks, taken
                break
        self.reader = moved
        context.known = chosen + _TURN
        begin = end = None
        if sweep.job:
            begin, end = self._job(context, moved)
        runs = runs or [(moved, moved)]
        self.events.append((self.contexts.index(context), context.step, context.number, runs[0][0], runs[-1][1], begin, end, runs))
        self._advance(context, moved)

    @staticmethod
    def _skipped(context: _Context, columns: int) -> np.ndarray | None:
        """Which columns of a sweep are left out, None where none is."""
        if context.zeros is None or not context.model.skip_zeros:
            return None
        zeros = np.array(context.zeros[context.step][context.number], bool)
        if zeros.shape != (columns,):
            raise UsageError(f"columns of zeros of sweep {context.number} must be {columns} flags, not {zeros.shape}")
        zeros[0] &= not context.sweep.begins
        return zeros

    def _look_ahead(self, context: _Context, zeros: np.ndarray | None, group: int, source: _Job | None) -> LookAhead | None:
        """What leaves columns out unread, None where nothing does."""
        if zeros is None or (context.model.held is not None and not context.step):
            return None
        return LookAhead(zeros, self.cfg.vector_lanes // group, source.finished if source else 0)

    def _job(self, context: _Context, moved: int) -> tuple[int, int]:
        latency, job = self.latency, context.model.schedules[context.number]
        settled = context.jobs[-1].finished - latency.slot + latency.settled if job.settled and context.jobs else 0
        begin = max(moved + latency.sums, self.tail, settled)
        self.tail = begin + job.slots
        writing = np.array([bool(operation.destination) for operation, _ in job.operations])
        context.jobs.append(_Job(begin, len(job.operations), job.groups, self.cfg.tail_lanes * job.each, latency.slot, writing))
        del context.jobs[:-3]
        self.jobs.append(context.jobs[-1])
        self.over = None
        return begin, self.tail

    def _advance(self, context: _Context, moved: int) -> None:
        steps, step = context.model.step.sweeps, context.model.step
        inputs = [number for number, sweep in enumerate(steps) if step.vectors[sweep.vector].kind == "input"]
        if inputs and context.number == inputs[-1]:
            context.released.append(moved)
        context.number += 1
        if context.number == len(steps):
            context.number, context.step = 0, context.step + 1
            if context.step == context.steps:
                over = context.jobs[-1].finished
                self.end = max(self.end, over)
                context.model, context.free = None, over + 2


def task_timeline(cfg: Config, tasks: Sequence[tuple], contexts: int) -> tuple[int, list[tuple]]:
    """(cycles, events) of (model, steps) pairs that ``contexts`` contexts take in order, or of triples with what ``zero_columns`` says of
    the task. An event is (context, step, sweep, first column, lanes, begin, slots, [(begin, end) of columns]): the cycle of the first
    column, the end in the lanes, begin of the job, end of its slots. Begin and end of the job are None without one. Several columns that
    follow each other are one where nothing was waited for."""
    engine = _Engine(cfg, tasks, min(contexts, len(tasks)))
    cycles = engine.run()
    return cycles, engine.events


def task_cycles(cfg: Config, tasks: Sequence[tuple], contexts: int) -> int:
    """Cycles of a run; see ``task_timeline``."""
    return task_timeline(cfg, tasks, contexts)[0]


def run_cycles(cfg: Config, image: EngineImage) -> int:
    """Cycles of the run of an ``EngineImage``, without that of the biases. Columns of zeros are looked for where they are left out."""
    tasks: list[tuple[Any, ...]] = [(task.model, task.steps) for task in image.tasks]
    if any(task.model.skip_zeros for task in image.tasks):
        tasks = [(*task, zeros) for task, zeros in zip(tasks, zero_columns(cfg, image))]
    return task_cycles(cfg, tasks, image.contexts)
