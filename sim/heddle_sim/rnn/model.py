"""One model on the engine: where the rows, vectors and outputs of a step lie, as far as that does not depend on other models."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from heddle.config import Config
from heddle.errors import UsageError
from heddle.rnn.layouts import MAX_BLOCKS, Wait

from .schedule import schedule_job

if TYPE_CHECKING:
    from .step import Rows, Step, Sweep

__all__ = ["EngineModel", "Output", "round_up"]

OUTPUT_ALIGNMENT = 16


def round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


@dataclass(frozen=True)
class Output:
    """Where in the row of a step the new value of a vector goes: ``byte`` of the record, ``offset`` from the place of the row's outputs."""

    byte: int
    offset: int
    size: int


class EngineModel:
    """A step laid out for a configuration.

    Parameters
    ----------
    cfg : Config
        With ``rnn``.
    step : Step
    cats : dict of str to int, optional
        Dot products of a lane (1, 2 or 4) for rows of a layer; 1 where absent. An integer is for all.
    reverse : bool
        Tasks of the model begin with the last row of their input.
    skip_zeros : bool
        Columns whose elements are all zero take no step of the lanes; changes nothing but the time.
    held : dict of str to int, or int, optional
        With ``cfg.rnn_differences``: sums persist, and vectors are multiplied as differences to what was sent of them before; differences
        up to this magnitude wait. 0 for vectors that are not named. Implies ``skip_zeros``.

    Attributes
    ----------
    schedules : list of JobSchedule or None
        Of the job of each sweep.
    blocks : dict of str to int
        Blocks (product registers of a lane) of each set of rows.
    alternating : dict of str to bool
        Sets of rows whose registers alternate from step to step.
    elements : int
        Of vector memory that a context needs.
    places : dict of str to int
        First element of each vector; of an input that of even steps.
    input_bytes, state_bytes : int
        Of rows of input, and of what is loaded before the first step.
    outputs : dict of str to Output
        Of the vectors of ``step.outputs``, and of all other states, whose last values only are wanted.
    output_pitch, final_bytes : int
        Bytes of outputs of a step, and of the other states.

    A model whose input has one row or more: states that no output holds lie behind the outputs of their step, where those of the next
    step are written over them. ``ValueError`` for what cannot be laid out.
    """

    def __init__(self, cfg: Config, step: Step, cats: dict[str, int] | int = 1, reverse: bool = False, skip_zeros: bool = False,
                 held: int | dict[str, int] | None = None) -> None:
        self.cfg, self.step, self.reverse, self.skip_zeros = cfg, step, reverse, skip_zeros or held is not None
        if held is not None and not cfg.rnn_differences:
            raise UsageError(f"held must be None for configuration {cfg.name} (rnn_differences is false), not {held}")
        self.held = dict.fromkeys(step.vectors, held) if isinstance(held, int) else held
        layers = {rows.layer for rows in step.rows.values()}
        self.cats = dict.fromkeys(layers, 1) | cats if isinstance(cats, dict) else dict.fromkeys(layers, cats)
        for layer, cat in self.cats.items():
            if layer not in layers or isinstance(cat, bool) or not isinstance(cat, int) or cat not in (1, 2, 4) or cat > cfg.dot:
                raise UsageError(f"cats must be 1, 2 or 4 for {', '.join(sorted(layers))}, not {cat!r} for {layer}")
        if not step.jobs:
            raise UsageError("step must have a job, not only sweeps")
        self.lane_groups = cfg.threads // cfg.tail_lanes
        self.blocks = {name: self._blocks(rows) for name, rows in step.rows.items()}
        self.schedules = [schedule_job(step, number, self.groups(sweep.job.elements)) if sweep.job else None
                          for number, sweep in enumerate(step.sweeps)]
        self._alternate()
        self._check_jobs()
        self._place_vectors()
        self._place_outputs()

    def cat(self, rows: str) -> int:
        """Dot products of a lane for a set of rows."""
        return self.cats[self.step.rows[rows].layer]

    def _blocks(self, rows: Rows) -> int:
        groups = rows.gates * -(-rows.elements // self.cfg.tail_lanes)
        blocks = -(-groups // (self.lane_groups * self.cats[rows.layer]))
        if blocks > MAX_BLOCKS:
            raise UsageError(f"rows of {rows.layer} must take at most {MAX_BLOCKS} blocks of {self.cfg.threads * self.cats[rows.layer]} "
                             f"rows, not {blocks}")
        return blocks

    def groups(self, elements: int) -> int:
        """Groups of elements of the tail."""
        return -(-elements // self.cfg.tail_lanes)

    # -- registers --------------------------------------------------------------------------

    def _alternate(self) -> None:
        """Sums are replaced while at most one job of the context is unfinished: those of an earlier one need no second set."""
        jobs, launched = len(self.step.jobs), 0
        begins: dict[str, int] = {}
        used: dict[str, int] = {}
        for sweep in self.step.sweeps:
            for name in sweep.rows:
                if sweep.begins:
                    begins[name] = launched
            if sweep.job:
                used |= {operation.rows: launched for operation in sweep.job.operations if operation.rows}
                launched += 1
        for name in self.step.rows:
            if name not in begins or name not in used:
                raise UsageError(f"rows {name} must be made by a sweep and read by a job")
        self.alternating = {name: begins[name] + jobs - used[name] < 2 for name in self.step.rows}
        for sweep in self.step.sweeps:      # a sweep has one flag for all of its rows
            if any(self.alternating[name] for name in sweep.rows):
                self.alternating |= dict.fromkeys(sweep.rows, True)

    def _check_jobs(self) -> None:
        """A job begins when the sums of the first block of its sweep are made, and those of another block come each cycle."""
        for sweep, schedule in zip(self.step.sweeps, self.schedules):
            first = dict(zip(sweep.rows, np.cumsum([0] + [self.blocks[name] for name in sweep.rows])))
            for index, (operation, group) in enumerate(schedule.operations if schedule else ()):
                if operation.rows not in first:
                    continue
                groups = np.arange(schedule.groups)
                row_groups = operation.gate + (schedule.each * groups + group) * self.step.rows[operation.rows].gates
                blocks = first[operation.rows] + row_groups // (self.lane_groups * self.cat(operation.rows))
                if np.any(blocks > groups * len(schedule.operations) + index):
                    raise UsageError(f"operation {index} of a job must read {operation.rows} when the sweep of {sweep.vector} has made it, "
                                     "not before")

    @property
    def parity_registers(self) -> int:
        """Product registers of the sets that alternate, once."""
        return sum(count for name, count in self.blocks.items() if self.alternating[name])

    @property
    def other_registers(self) -> int:
        return sum(self.blocks.values()) - self.parity_registers

    def register_offsets(self, parity: int) -> dict[str, int]:
        """First register of each set in those of a context; odd steps of those that alternate are ``parity`` further."""
        offsets, next_free = {}, {True: 0, False: 2 * parity}
        for name, count in self.blocks.items():
            offsets[name] = next_free[self.alternating[name]]
            next_free[self.alternating[name]] += count
        return offsets

    def needs_bias(self, sweep: Sweep) -> bool:
        """The sums of a sweep begin with biases, not all of them zero; sums that persist always do."""
        return sweep.begins and (self.held is not None or any(np.any(self.step.rows[name].bias) for name in sweep.rows))

    # -- vectors ----------------------------------------------------------------------------

    def _place_vectors(self) -> None:
        width, vectors = self.cfg.vector_lanes, self.step.vectors
        self.places: dict[str, int] = {}
        place = 0

        def put(kinds: Collection[str]) -> int:
            nonlocal place
            first = place
            for name, vector in vectors.items():
                if vector.kind in kinds:
                    self.places[name] = place
                    place += round_up(vector.size, width)
            return 2 * (place - first)

        self.input_bytes = put(("input",))
        place *= 2                                  # a second row for odd steps
        self.state_element = place
        self.state_bytes = put(("state", "constant"))
        put(("work",))
        self.elements = place
        self.sent: list[int] = []                   # of each sweep, first element of what was sent
        for sweep in self.step.sweeps if self.held is not None else ():
            self.sent.append(sum(round_up(vectors[before.vector].size, width) for before in self.step.sweeps[:len(self.sent)]))
            self.elements = max(self.elements, self.sent[-1] + round_up(vectors[sweep.vector].size, width))

    def wait(self, number: int) -> Wait:
        """What sweep ``number`` waits for."""
        sweep = self.step.sweeps[number]
        kind = self.step.vectors[sweep.vector].kind
        if kind == "input":
            return Wait.INPUT
        launched = sum(1 for before in self.step.sweeps[:number] if before.job)
        jobs = self.step.jobs
        writers = [index for index, job in enumerate(jobs) if any(op.destination == sweep.vector for op in job.operations)]
        if kind == "constant":
            return Wait.NONE
        if len(writers) != 1:
            raise UsageError(f"vector {sweep.vector} must be made by one job of a step, not {len(writers)}")
        since = launched - writers[0] if writers[0] < launched else launched + len(jobs) - writers[0]
        if kind == "work" and writers[0] >= launched:
            raise UsageError(f"vector {sweep.vector} must be made before it is read")
        # Of three jobs of a context the first is finished.
        return {1: Wait.LAST, 2: Wait.BEFORE}.get(since, Wait.NONE)

    # -- outputs ----------------------------------------------------------------------------

    def _place_outputs(self) -> None:
        step, offset = self.step, 0
        offsets = {}

        def put(names: Iterable[str]) -> None:
            nonlocal offset
            for name in names:
                offsets[name] = offset
                size = 2 * self.groups(step.vectors[name].size) * self.cfg.tail_lanes
                offset += round_up(size, OUTPUT_ALIGNMENT)

        for name in step.outputs:
            if name not in step.vectors or step.vectors[name].kind not in ("state", "work"):
                raise UsageError(f"outputs must be vectors that a job makes, not {name!r}")
        put(step.outputs)
        self.output_pitch = offset
        put([name for name in step.states() if name not in step.outputs])
        self.final_bytes = offset - self.output_pitch
        if self.output_pitch > 32767:
            raise UsageError(f"outputs of a step must be at most 32767 bytes, not {self.output_pitch}")
        self.outputs = {}
        for name, place in offsets.items():
            if self.reverse:        # the row begins with the other states; outputs follow
                place = place + self.final_bytes if place < self.output_pitch else place - self.output_pitch
            self.outputs[name] = Output(place, place - self.final_bytes if self.reverse else place, step.vectors[name].size)
