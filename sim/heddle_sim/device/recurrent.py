"""Recurrent networks on a device: images for the engine, runs, results [S3.5-S3.7]."""

import itertools
from functools import reduce
from numbers import Integral
from operator import add

import numpy as np

from ..kernels.recurrent import factor_table, plan_run
from ..rnn.image import build_image, check_fit
from ..rnn.network import SequenceResult
from ..rnn.task import Task, TaskResult
from ..rnn.timing import task_cycles

__all__ = ["check_contexts", "plain_is_better", "run_image", "run_sequences"]

UNWRITTEN = 0xA5
MARGIN = 1024               # bytes of shared memory for headers and alignment, and for each task
TASK_MARGIN = 128
_STEPS = 4                  # of each sequence, to compare layouts


class _Engine:
    """Runs images on the device; factor registers and biases keep their values from one run to the next."""

    def __init__(self, device):
        self.device = device

    def run(self, images, load):
        """Shared memory of each core after its image, and figures. ``load``: weights and biases are loaded as part of the run."""
        device, addresses, found, source, table = self.device, [], [], None, ()
        try:
            if load:
                table = factor_table(device.cfg, next(image.words for image in images if image))
                source = device.memory.place(table.reshape(1, -1))
            for image in images:
                addresses.append(image and [device.memory.place(image.shared[None, :image.outputs_address])])
                if image:
                    addresses[-1].append(device.memory.reserve((1, len(image.shared) - image.outputs_address), np.uint8, UNWRITTEN))
            launches = plan_run(device.cfg, images, addresses, source, len(table))
            stats = reduce(add, (device.run(launch.program, launch.uniform, launch.macs) for launch in launches))
            for image, pair in zip(images, addresses):
                shared = image and image.shared.copy()
                if image:
                    shared[image.outputs_address:] = device.read(pair[1], (len(shared) - image.outputs_address,), np.uint8)
                found.append(shared)
            return found, stats
        finally:
            for address in (*(address for pair in addresses if pair for address in pair), *([] if source is None else [source])):
                device.free(address)


def run_image(device, image):
    """Run one ``EngineImage`` on core 0, weights and all. Returns ``(shared memory, stats)``."""
    found, stats = _Engine(device).run([image] + [None] * (device.cfg.cores - 1), True)
    return found[0], stats


class _Progress:
    """A sequence of which some steps are done."""

    def __init__(self, cfg, sequence, plain):
        self.sequence, self.model = sequence, sequence.network.model(cfg, plain)
        self.inputs, self.states = sequence.quantised()
        self.steps = len(next(iter(self.inputs.values())))
        self.done, self.parts = 0, []

    def task(self, steps):
        """The next ``steps`` steps."""
        count = min(steps, self.steps - self.done)
        first = self.steps - self.done - count if self.model.reverse else self.done
        inputs = {name: rows[first:first + count] for name, rows in self.inputs.items()}
        return Task(self.model, inputs, self.states, start=self.sequence.start if self.done == 0 else 0)

    def take(self, task, result):
        self.done, self.states = self.done + task.steps, result.states
        self.parts.append(result)

    @property
    def left(self):
        return self.steps - self.done

    @property
    def work(self):
        """Multiply-accumulates."""
        return self.steps * self.model.step.macs()

    @property
    def step_bytes(self):
        return self.model.input_bytes + self.model.output_pitch

    @property
    def fixed_bytes(self):
        return self.model.state_bytes + self.model.final_bytes + TASK_MARGIN + 4 * self.model.cfg.vector_lanes

    def result(self):
        parts = self.parts[::-1] if self.model.reverse else self.parts
        whole = TaskResult({name: np.concatenate([part.outputs[name] for part in parts]) for name in self.model.step.outputs}, self.states)
        vectors = self.model.step.vectors

        def floats(values):
            return {name: (array * 2.0 ** -vectors[name].fraction).astype(np.float32) for name, array in values.items()}

        return SequenceResult(floats(whole.outputs), floats(whole.states))


def _rounds(cfg, group):
    """Tasks of a group that fit shared memory together, until all steps are done: lists of (progress, task).

    As many whole sequences as fit; where they would be fewer than the contexts, parts of sequences.
    """
    room = cfg.shared_bytes - MARGIN - 16 * 4 * cfg.rnn_records
    while any(progress.left for progress in group):
        under_way = [progress for progress in group if progress.left]
        needs = np.cumsum([progress.fixed_bytes + progress.step_bytes * progress.left for progress in under_way])
        whole = int(np.sum(needs <= room))
        if whole >= min(cfg.rnn_contexts, len(under_way)):
            yield [(progress, progress.task(progress.left)) for progress in under_way[:whole]]
            continue
        under_way = under_way[:cfg.rnn_contexts]
        while len(under_way) > 1 and _steps(room, under_way) < 1:
            under_way = under_way[:len(under_way) // 2]
        yield [(progress, progress.task(max(1, _steps(room, under_way)))) for progress in under_way]


def _steps(room, group):
    """Steps of all tasks of a group that fit."""
    return (room - sum(progress.fixed_bytes for progress in group)) // sum(progress.step_bytes for progress in group)


def plain_is_better(cfg, sequences, contexts):
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


def _shares(cfg, group):
    """Sequences for each core, the longest first to the core with the least work [S3.7]."""
    shares, work = [[] for _ in range(cfg.cores)], [0] * cfg.cores
    for progress in sorted(group, key=lambda progress: -progress.work):
        core = work.index(min(work))
        shares[core].append(progress)
        work[core] += progress.work
    return [[progress for progress in group if progress in share] for share in shares]


def check_contexts(cfg, contexts):
    """Raises ``ValueError`` when the configuration has no engine, or not so many contexts."""
    if not cfg.rnn:
        raise ValueError(f"configuration {cfg.name} must have rnn (rnn is false)")
    if contexts is not None and not (isinstance(contexts, Integral) and 1 <= contexts <= cfg.rnn_contexts):
        raise ValueError(f"contexts must be from 1 to {cfg.rnn_contexts} (rnn_contexts), not {contexts!r}")


def run_sequences(device, sequences, contexts=None, *, loaded=False):
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
    there, stats = [None] * cfg.cores, []
    for chosen in itertools.zip_longest(*(_rounds(cfg, share) for share in _shares(cfg, group)), fillvalue=()):
        images = [build_image(cfg, [task for _, task in part], contexts and min(contexts, len(part)), models) if part else None
                  for part in chosen]
        same = all(image is None or (before is not None and image.same_weights(before)) for image, before in zip(images, there))
        found, figures = engine.run(images, not (same or loaded))
        there = [image or (before if same else None) for image, before in zip(images, there)]
        loaded = False
        stats.append(figures)
        for part, image, shared in zip(chosen, images, found):
            for (progress, task), result in zip(part, image.results(shared) if image else ()):
                progress.take(task, result)
    return [progress.result() for progress in group], reduce(add, stats)
