"""Recurrent networks on a device: images for the engine, runs, results [S3.5-S3.7]."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from functools import reduce
from numbers import Integral
from operator import add
from typing import TYPE_CHECKING

import numpy as np
from heddle.config import Config
from heddle.errors import UsageError

from ..isa.features import lacking
from ..kernels.planner import plan
from ..kernels.recurrent import EngineOperands, EngineRun, factor_table
from ..rnn.image import build_image, check_fit
from ..rnn.network import Sequence, SequenceResult
from ..rnn.task import EngineImage, Task, TaskResult
from ..rnn.timing import task_cycles
from .execution import execute
from .host import Host
from .memory import Placement
from .stats import Stats

if TYPE_CHECKING:
    from ..rnn.model import EngineModel

__all__ = ["check_contexts", "plain_is_better", "run_image", "run_sequences"]

MARGIN = 1024               # bytes of shared memory for headers and alignment, and for each task
TASK_MARGIN = 128
IMAGE_INSTRUCTIONS = 64     # of the instruction memory, for each image of a program
_STEPS = 4                  # of each sequence, to compare layouts


class _Engine:
    """Runs images on the device; factor registers and biases keep their values from one run to the next."""

    def __init__(self, device: Host) -> None:
        self.device = device

    def run(self, images: list[list[EngineImage]], load: bool) -> tuple[list[list[np.ndarray]], Stats]:
        """Shared memory of each core after each of its images, and figures. ``images``: a list for each core, see ``EngineRun``. ``load``:
        weights and biases are loaded as part of the run."""
        device = self.device
        source: int | None = None
        loads: int | None = None
        cores: list[tuple[int, ...]] = []
        with Placement(device.memory) as places:
            if load:
                table = factor_table(device.cfg, next(image.words for of_core in images for image in of_core))
                source, loads = places.place(table.reshape(1, -1)), len(table)
            for of_core in images:
                room = sum(image.output_bytes for image in of_core)
                cores.append((places.place(np.concatenate([image.loaded for image in of_core])[None]),
                              places.reserve((1, room), np.uint8)) if of_core else ())
            stats = execute(device, plan(device.cfg, EngineRun(images, loads)), EngineOperands(source, tuple(cores)))
            return [self._outputs(of_core, *pair[1:]) if of_core else [] for of_core, pair in zip(images, cores)], stats

    def _outputs(self, images: list[EngineImage], address: int) -> list[np.ndarray]:
        found = []
        for image in images:
            shared = image.shared.copy()
            shared[image.outputs_address:] = self.device.read(address, (image.output_bytes,), np.uint8)
            found.append(shared)
            address += image.output_bytes
        return found


def run_image(device: Host, image: EngineImage) -> tuple[np.ndarray, Stats]:
    """Run one ``EngineImage`` on core 0, weights and all. Returns ``(shared memory, stats)``."""
    (found, *_), stats = _Engine(device).run([[image]] + [[]] * (device.cfg.cores - 1), True)
    return found[0], stats


class _Progress:
    """A sequence of which some steps are done."""

    def __init__(self, cfg: Config, sequence: Sequence, plain: bool) -> None:
        self.sequence, self.model = sequence, sequence.network.model(cfg, plain)
        self.inputs, self.states = sequence.quantised()
        self.steps = len(next(iter(self.inputs.values())))
        self.done = 0
        self.parts: list[TaskResult] = []

    def task(self, steps: int) -> Task:
        """The next ``steps`` steps."""
        count = min(steps, self.steps - self.done)
        first = self.steps - self.done - count if self.model.reverse else self.done
        inputs = {name: rows[first:first + count] for name, rows in self.inputs.items()}
        return Task(self.model, inputs, self.states, start=self.sequence.start if self.done == 0 else 0)

    def take(self, task: Task, result: TaskResult) -> None:
        self.done, self.states = self.done + task.steps, result.states
        self.parts.append(result)

    @property
    def left(self) -> int:
        return self.steps - self.done

    @property
    def work(self) -> int:
        """Multiply-accumulates."""
        return self.steps * self.model.step.macs()

    @property
    def step_bytes(self) -> int:
        return self.model.input_bytes + self.model.output_pitch

    @property
    def fixed_bytes(self) -> int:
        return self.model.state_bytes + self.model.final_bytes + TASK_MARGIN + 4 * self.model.cfg.vector_lanes

    def result(self) -> SequenceResult:
        parts = self.parts[::-1] if self.model.reverse else self.parts
        whole = TaskResult({name: np.concatenate([part.outputs[name] for part in parts]) for name in self.model.step.outputs}, self.states)
        vectors = self.model.step.vectors

        def floats(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            return {name: (array * 2.0 ** -vectors[name].fraction).astype(np.float32) for name, array in values.items()}

        return SequenceResult(floats(whole.outputs), floats(whole.states))


def _rounds(cfg: Config, group: list[_Progress]) -> Iterator[list[list[tuple[_Progress, Task]]]]:
    """What a core does, program by program, until all steps are done: lists of images, an image a list of (progress, task).

    Whole sequences that do not fit shared memory together are images of half of it. Copies of one then go on while another is computed.
    Where an image of them would be fewer than the contexts, programs of one image each: as many whole sequences as fit, or parts.
    """
    for images in _halves(cfg, group):
        yield [[(progress, progress.task(progress.left)) for progress in part] for part in images]
    room = _room(cfg, cfg.shared_bytes)
    while any(progress.left for progress in group):
        under_way = [progress for progress in group if progress.left]
        needs = np.cumsum([progress.fixed_bytes + progress.step_bytes * progress.left for progress in under_way])
        whole = int(np.sum(needs <= room))
        if whole >= min(cfg.rnn_contexts, len(under_way)):
            yield [[(progress, progress.task(progress.left)) for progress in under_way[:whole]]]
            continue
        under_way = under_way[:cfg.rnn_contexts]
        while len(under_way) > 1 and _steps(room, under_way) < 1:
            under_way = under_way[:len(under_way) // 2]
        yield [[(progress, progress.task(max(1, _steps(room, under_way)))) for progress in under_way]]


def _room(cfg: Config, nbytes: int) -> int:
    """Of a part of shared memory, for tasks."""
    return nbytes - MARGIN - 16 * 4 * cfg.rnn_records


def _halves(cfg: Config, group: list[_Progress]) -> Iterator[list[list[_Progress]]]:
    """Programs of a core, each a list of images of whole sequences for both halves of shared memory; none where all fit it together, or
    where images would have fewer tasks than there are contexts."""
    room, most = _room(cfg, cfg.shared_bytes // 2), max(1, cfg.instruction_words // (IMAGE_INSTRUCTIONS * cfg.cores))
    if sum(progress.fixed_bytes + progress.step_bytes * progress.left for progress in group) <= _room(cfg, cfg.shared_bytes):
        return
    for count in range(2, len(group) // cfg.rnn_contexts + 1):
        images = [group[len(group) * index // count:len(group) * (index + 1) // count] for index in range(count)]
        if sum(max(bytes_of(part) for part in images) for bytes_of in (_loaded_bytes, _stored_bytes)) <= room:
            yield from (images[first:first + most] for first in range(0, count, most))
            return


def _loaded_bytes(part: list[_Progress]) -> int:
    return sum(progress.model.state_bytes + progress.model.input_bytes * progress.left + TASK_MARGIN for progress in part)


def _stored_bytes(part: list[_Progress]) -> int:
    return sum(progress.fixed_bytes - progress.model.state_bytes + progress.model.output_pitch * progress.left for progress in part)


def _build(cfg: Config, parts: list[list[tuple[_Progress, Task]]], contexts: int | None, models: list[EngineModel]) -> list[EngineImage]:
    """Images of a program of a core. Of several ones, every other lies in the upper half of shared memory. All outputs of a half lie behind
    what any of them loads there."""
    origins = [index % 2 * (cfg.shared_bytes // 2) for index in range(len(parts))]

    def made(part: list[tuple[_Progress, Task]], **places: int) -> EngineImage:
        return build_image(cfg, [task for _, task in part], contexts and min(contexts, len(part)), models, **places)

    images = [made(part, origin=origin) for part, origin in zip(parts, origins)]
    behind = {origin: max(image.outputs_address for image in images if image.origin == origin) for origin in origins}
    images = [image if image.outputs_address == behind[image.origin] else made(part, origin=image.origin, outputs_at=behind[image.origin])
              for part, image in zip(parts, images)]
    if len(images) > 1 and any(len(image.shared) - image.origin > cfg.shared_bytes // 2 for image in images):
        raise UsageError(f"images must fit half of shared memory ({cfg.shared_bytes // 2} bytes), not more")
    return images


def _steps(room: int, group: list[_Progress]) -> int:
    """Steps of all tasks of a group that fit."""
    return (room - sum(progress.fixed_bytes for progress in group)) // sum(progress.step_bytes for progress in group)


def plain_is_better(cfg: Config, sequences: Collection[Sequence], contexts: int | None) -> bool:
    """Whether layers with one dot product of a lane take fewer cycles together than each as it is best alone: they need fewer registers, so
    that more contexts may fit. Also where only they fit."""
    costs = []
    for plain in (False, True):
        models = [sequence.network.model(cfg, plain) for sequence in sequences]
        try:
            fitting = check_fit(cfg, models, contexts and min(contexts, len(models)))
        except ValueError:
            costs.append(float("inf"))
        else:
            costs.append(task_cycles(cfg, [(model, _STEPS) for model in models], fitting))
    return costs[1] <= costs[0]


def _shares(cfg: Config, group: list[_Progress]) -> list[list[_Progress]]:
    """Sequences for each core, the longest first to the core with the least work [S3.7]."""
    shares: list[list[_Progress]] = [[] for _ in range(cfg.cores)]
    work = [0] * cfg.cores
    for progress in sorted(group, key=lambda progress: -progress.work):
        core = work.index(min(work))
        shares[core].append(progress)
        work[core] += progress.work
    return [[progress for progress in group if progress in share] for share in shares]


def check_contexts(cfg: Config, contexts: int | None) -> None:
    """Raises ``ValueError`` when the configuration has no engine, or not so many contexts."""
    if not cfg.rnn:
        raise UsageError(f"configuration {cfg.name} must have rnn ({lacking(cfg, 'rnn')})")
    if contexts is not None and not (isinstance(contexts, Integral) and 1 <= contexts <= cfg.rnn_contexts):
        raise UsageError(f"contexts must be from 1 to {cfg.rnn_contexts} (rnn_contexts), not {contexts!r}")


def run_sequences(device: Host, sequences: Collection[Sequence], contexts: int | None = None, *,
                  loaded: bool = False) -> tuple[list[SequenceResult], Stats]:
    """``([SequenceResult], stats)`` of sequences of one or several networks, as tasks of the engines of all cores.

    What does not fit shared memory is done in several runs, states going from one to the next; ``stats`` adds them up. The first run loads
    weights and biases, and so does one whose weights lie in other registers. ``contexts``: tasks of a core that take turns. ``loaded``:
    weights and biases of the same networks are there from the call before, and are not loaded again.
    """
    cfg = device.cfg
    check_contexts(cfg, contexts)
    engine, plain = _Engine(device), plain_is_better(cfg, sequences, contexts)
    group = [_Progress(cfg, sequence, plain) for sequence in sequences]
    models = [progress.model for progress in group]
    there: list[EngineImage | None] = [None] * cfg.cores
    stats = []
    for chosen in itertools.zip_longest(*(_rounds(cfg, share) for share in _shares(cfg, group)), fillvalue=[]):
        images = [_build(cfg, parts, contexts, models) for parts in chosen]
        firsts = [of_core[0] if of_core else None for of_core in images]
        same = all(image is None or (before is not None and image.same_weights(before)) for image, before in zip(firsts, there))
        found, figures = engine.run(images, not (same or loaded))
        there = [image or (before if same else None) for image, before in zip(firsts, there)]
        loaded = False
        stats.append(figures)
        for part, image, shared in (each for of_core in zip(chosen, images, found) for each in zip(*of_core)):
            for (progress, task), result in zip(part, image.results(shared)):
                progress.take(task, result)
    return [progress.result() for progress in group], reduce(add, stats)
