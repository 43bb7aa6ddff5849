"""From models and tasks to what the engine reads: records, weight words, rows of input, places of results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from heddle.config import Config
from heddle.constants import PRODUCT_REGISTERS
from heddle.errors import UsageError
from heddle.rnn.layouts import (
    ELEMENT_BITS,
    MAX_STEPS,
    Start,
    Wait,
    header_layout,
    operation_layout,
    sweep_layout,
    task_layout,
    task_memory_layout,
)

from ..golden.recurrent_engine import ROW_BYTES
from ..isa.records import record_bytes
from .model import EngineModel, round_up
from .task import EngineImage, SharedMemory, Task

if TYPE_CHECKING:
    from .schedule import JobSchedule
    from .step import Sweep

__all__ = ["bias_digits", "build_image", "check_fit", "weight_words"]

_DIGIT = 128                # biases are sums of constants 1, 128 and 128², each times 8 bits
_TOP = _DIGIT * _DIGIT
# Fields of an operation of a step that are those of its record.
_AS_THEY_ARE = ("function", "pre", "cell", "second", "load_state", "wide_state", "keep_activation", "keep_gate", "wide_result", "shift",
                "multiplier", "shift_activation", "shift_second")


def weight_words(cfg: Config, cat: int, blocks: int, columns: int, matrix: np.ndarray) -> np.ndarray:
    """int8 [threads, columns · blocks, dot]: factor words of a matrix of rows (by lane, tap, block) and elements."""
    elements = cfg.dot // cat
    padded = np.zeros((blocks * cat * cfg.threads, columns * elements), np.int8)
    padded[:matrix.shape[0], :matrix.shape[1]] = matrix
    shaped = padded.reshape(blocks, cat, cfg.threads, columns, elements)
    return shaped.transpose(2, 3, 0, 4, 1).reshape(cfg.threads, columns * blocks, cfg.dot)


def _interleave(cfg: Config, weights: np.ndarray) -> np.ndarray:
    """Rows as they lie in row groups: int8 [gates, elements, n] to [groups · gates · tail_lanes, n] [S3.2]."""
    gates, elements, size = weights.shape
    groups = -(-elements // cfg.tail_lanes)
    padded = np.zeros((gates, groups * cfg.tail_lanes, size), weights.dtype)
    padded[:, :elements] = weights
    return padded.reshape(gates, groups, cfg.tail_lanes, size).transpose(1, 0, 2, 3).reshape(-1, size)


def bias_digits(biases: np.ndarray, top: int) -> np.ndarray:
    """8-bit factors [..., 2 + top] of constants 1, 128 and ``top`` times 128² that make ``biases``."""
    values = np.asarray(biases, np.int64)
    digits = []
    for _ in range(2):
        low = (values + _DIGIT // 2) % _DIGIT - _DIGIT // 2
        digits.append(low)
        values = (values - low) // _DIGIT
    for _ in range(top):
        part = np.clip(values, -128, 127)
        digits.append(part)
        values = values - part
    if values.any():
        raise UsageError(f"biases must be below {top * 127 * _TOP} with {top} constants, not {np.abs(biases).max()}")
    return np.stack(digits, axis=-1).astype(np.int8)


class _Builder:
    """Puts models and tasks into one image."""

    def __init__(self, cfg: Config, tasks: list[Task], contexts: int | None, models: list[EngineModel] | None = None) -> None:
        self.cfg, self.tasks = cfg, tasks
        if not cfg.rnn:
            raise UsageError(f"configuration {cfg.name} must have rnn (rnn is false)")
        if not tasks:
            raise UsageError("tasks must be at least one, not none")
        self.models = list({id(model): model for model in (*(models or ()), *(task.model for task in tasks))}.values())
        self.parity = max(model.parity_registers for model in self.models)
        self.registers = max((2 * self.parity if model.parity_registers else 0) + model.other_registers for model in self.models)
        if any(model.other_registers for model in self.models):
            self.registers = max(2 * self.parity + model.other_registers for model in self.models)
        self.elements = max(model.elements for model in self.models)
        self.bias_registers = sum(model.blocks[name] for model in self.models for name in self._with_bias(model))
        self._choose_contexts(contexts)
        self.words: list[np.ndarray] = []
        self.next_word = 0
        self.first_sweeps: dict[int, int] = {}
        self.sweeps: list[bytes] = []
        self.operations: list[bytes] = []
        self.bias_sweeps: list[dict[str, Any]] = []
        self.bias_rows: list[np.ndarray] = []
        self.bias_base = self.contexts * self.registers

    def _loads_biases(self) -> bool:
        """Biases come from a table instead of the lanes: where the words of weights leave none for them. No lane may have several sums: a
        program could load the first of them only."""
        biased = [(model, name) for model in self.models for name in self._with_bias(model)]
        if any(model.cat(name) > 1 for model, name in biased):
            return False
        weights = sum(self._sweep_words(model, sweep) for model in self.models for sweep in model.step.sweeps)
        constants = sum(model.blocks[name] for model, name in biased) * -(-(2 + self.top) // self.cfg.dot)
        return weights <= self.cfg.factor_words < weights + constants

    def _sweep_words(self, model: EngineModel, sweep: Sweep) -> int:
        """Factor words of a sweep: blocks times columns."""
        columns = -(-model.step.vectors[sweep.vector].size // (self.cfg.dot // model.cat(sweep.rows[0])))
        return columns * sum(model.blocks[name] for name in sweep.rows)

    @staticmethod
    def _with_bias(model: EngineModel) -> list[str]:
        return [name for sweep in model.step.sweeps if model.needs_bias(sweep) for name in sweep.rows]

    def _choose_contexts(self, wanted: int | None) -> None:
        cfg = self.cfg
        limits = {"rnn_contexts": cfg.rnn_contexts, "tasks": len(self.tasks),
                  "rnn_elements": min(cfg.rnn_elements, 1 << ELEMENT_BITS + 3) // self.elements,
                  "product registers": (PRODUCT_REGISTERS - self.bias_registers) // max(1, self.registers)}
        if self.elements > 1 << ELEMENT_BITS or not limits["rnn_elements"]:
            raise UsageError(f"vectors of a context must fit {min(cfg.rnn_elements, 1 << ELEMENT_BITS)} elements (rnn_elements), "
                             f"not take {self.elements}")
        if limits["product registers"] < 1:
            raise UsageError(f"sums and biases must fit {PRODUCT_REGISTERS} product registers, not take "
                             f"{self.registers + self.bias_registers}")
        most = min(limits.values())
        if wanted is not None and not 1 <= wanted <= most:
            name = next(name for name, limit in limits.items() if limit == most)
            raise UsageError(f"contexts must be from 1 to {most} ({name}), not {wanted}")
        least = 1 if wanted is None else wanted
        self.contexts = next((count for count in range(wanted or most, least, -1) if self._tap_registers(count) is not None), least)
        self.tap_registers = self._tap_registers(self.contexts)
        if self.tap_registers is None:
            used = self._shared_registers(least)
            raise UsageError(f"sums with cat above 1 must have registers that differ modulo {cfg.rnn_tap_registers} (rnn_tap_registers of "
                             f"configuration {cfg.name}), not {len(used)} of them up to {max(used)}; cat 1 or fewer contexts need fewer")

    def _tap_registers(self, contexts: int) -> int:
        """The least power of two modulo which registers of sums with several taps differ, as those of taps other than the first are
        numbered; 0 without such sums, None where the lanes have fewer."""
        used = self._shared_registers(contexts)
        sizes = (1 << bits for bits in range(self.cfg.rnn_tap_registers.bit_length()))
        return next((size for size in sizes if len({number % size for number in used}) == len(used)), None) if used else 0

    def _shared_registers(self, contexts: int) -> set[int]:
        """Registers of sums with several taps."""
        used, bias = set(), contexts * self.registers
        for model in self.models:
            offsets = model.register_offsets(self.parity)
            for name, first in offsets.items():
                blocks = model.blocks[name]
                biases = blocks if name in self._with_bias(model) else 0
                if model.cat(name) > 1:
                    starts = [first + context * self.registers + odd * self.parity
                              for context in range(contexts) for odd in range(1 + model.alternating[name])]
                    used |= {start + block for start in starts for block in range(blocks)} | set(range(bias, bias + biases))
                bias += biases
        return used

    # -- records ----------------------------------------------------------------------------

    def add_model(self, model: EngineModel) -> None:
        """Sweeps, operations and words of a model."""
        step, offsets = model.step, model.register_offsets(self.parity)
        bias_of = self._add_biases(model)
        self.first_sweeps[id(model)] = len(self.sweeps)
        inputs = [n for n, sweep in enumerate(step.sweeps) if step.vectors[sweep.vector].kind == "input"]
        for number, sweep in enumerate(step.sweeps):
            cat = model.cat(sweep.rows[0])
            blocks, columns = sum(model.blocks[name] for name in sweep.rows), -(-step.vectors[sweep.vector].size // (self.cfg.dot // cat))
            matrix = np.concatenate([self._block_rows(model, name, _interleave(self.cfg, weights))
                                     for name, weights in zip(sweep.rows, sweep.weights)])
            values: dict[str, Any] = dict(
                element=model.places[sweep.vector], columns=columns - 1, weight=self._add_words(cat, blocks, columns, matrix),
                blocks=blocks - 1, product=offsets[sweep.rows[0]], cat=cat.bit_length() - 1, wait=model.wait(number),
                start=Start.CONTINUE, parity=model.alternating[sweep.rows[0]], input=number in inputs, skip=model.skip_zeros,
                release=number == inputs[-1] if inputs else 0, last=number == len(step.sweeps) - 1)
            if sweep.begins:
                biased = model.needs_bias(sweep)
                start = Start.PERSIST if model.held is not None else Start.BIAS
                values |= dict(start=start if biased else Start.ZERO, bias=bias_of[sweep.rows[0]] if biased else 0)
            if model.held is not None:
                values |= dict(difference=1, sent=model.sent[number], held=model.held.get(sweep.vector, 0))
            if sweep.job:
                job = model.schedules[number]
                values |= dict(launch=1, operation=len(self.operations), operations=len(job.operations) - 1, groups=job.groups - 1,
                               pairs=job.pairs, settled=job.settled)
                self._add_operations(model, job, offsets)
            self.sweeps.append(record_bytes(sweep_layout, **values))

    def _block_rows(self, model: EngineModel, name: str, rows: np.ndarray) -> np.ndarray:
        """Rows of a set, padded to whole blocks."""
        padded = np.zeros((model.blocks[name] * model.cat(name) * self.cfg.threads, rows.shape[1]), np.int8)
        padded[:len(rows)] = rows
        return padded

    def _add_words(self, cat: int, blocks: int, columns: int, matrix: np.ndarray) -> int:
        first = self.next_word
        self.next_word += columns * blocks
        if first <= self.cfg.factor_words:      # behind that a record has no number for them, and all of them do not fit
            self.words.append(weight_words(self.cfg, cat, blocks, columns, matrix))
        return min(first, self.cfg.factor_words)

    def _add_biases(self, model: EngineModel) -> dict[str, int]:
        """A sweep of constants for each set with biases, or rows of a table; returns their first registers."""
        registers, loads = {}, self._loads_biases()
        for name in self._with_bias(model):
            registers[name] = self.bias_base
            rows = model.step.rows[name]
            if loads:
                table = np.zeros((model.blocks[name], self.cfg.threads), "<i4")
                interleaved = _interleave(self.cfg, rows.bias[:, :, None])
                table.reshape(-1)[:len(interleaved)] = interleaved[:, 0]
                self.bias_rows.append(table)
                self.bias_base += model.blocks[name]
                continue
            digits = _interleave(self.cfg, bias_digits(rows.bias, self.top))
            cat, blocks = model.cat(name), model.blocks[name]
            columns = -(-digits.shape[1] // (self.cfg.dot // cat))
            word = self._add_words(cat, blocks, columns, self._block_rows(model, name, digits))
            self.bias_sweeps.append(dict(columns=columns - 1, weight=word, blocks=blocks - 1, product=self.bias_base,
                                         cat=cat.bit_length() - 1, start=Start.ZERO, wait=Wait.NONE))
            self.bias_base += blocks
        return registers

    def _add_operations(self, model: EngineModel, job: JobSchedule, offsets: dict[str, int]) -> None:
        for operation, group in job.operations:
            further = group * self.cfg.tail_lanes
            values = {name: getattr(operation, name) for name in _AS_THEY_ARE} | dict(idle=operation.rows is None, second_group=group)
            if operation.rows:
                rows, gates = operation.rows, model.step.rows[operation.rows].gates
                values |= dict(product=offsets[rows], parity=model.alternating[rows], cat=model.cat(rows).bit_length() - 1,
                               first=operation.gate + group * gates, stride=job.each * gates)
            if operation.operand:
                values |= dict(read=1, operand=model.places[operation.operand] + further)
            if operation.destination:
                values |= dict(write=1, destination=model.places[operation.destination] + further)
                if operation.destination in model.outputs:
                    values |= dict(output=1, output_byte=model.outputs[operation.destination].byte + 2 * further)
            self.operations.append(record_bytes(operation_layout, **values))

    @property
    def top(self) -> int:
        """Constants of 128² that the largest bias needs."""
        largest = max((np.abs(model.step.rows[name].bias).max() for model in self.models for name in self._with_bias(model)), default=0)
        return int(largest) // (127 * _TOP) + 1

    # -- memory -----------------------------------------------------------------------------

    def add_models(self) -> None:
        """Records and words of all models. Raises ``ValueError`` when they do not fit."""
        cfg = self.cfg
        for model in self.models:
            self.add_model(model)
        records = min(cfg.rnn_records, 255)
        for what, name, count, most in (("weights", "factor_words", self.next_word, cfg.factor_words),
                                        ("sweeps of all models", "rnn_records", len(self.sweeps), records),
                                        ("operations of the tail", "rnn_records", len(self.operations), records),
                                        ("sets of biases", "rnn_records", len(self.bias_sweeps), records)):
            if count > most:
                raise UsageError(f"{what} must fit {most} ({name} of configuration {cfg.name}), not take {count}")

    def build(self, origin: int = 0, outputs_at: int = 0) -> EngineImage:
        """``EngineImage`` from address ``origin`` on, its outputs behind ``outputs_at``."""
        cfg = self.cfg
        self.add_models()
        memory = SharedMemory(cfg, origin)
        bias_address, bias_registers = self._bias_image(memory) if self.bias_sweeps else None, None
        if self.bias_rows:
            bias_address = memory.place(np.concatenate(self.bias_rows))
            bias_registers = range(self.bias_base - sum(map(len, self.bias_rows)), self.bias_base)
        address = memory.reserve(ROW_BYTES * (1 + 2 * len(self.tasks) + len(self.sweeps) + len(self.operations)))
        records, rows = [], []
        loaded = [self._loaded(memory, task) for task in self.tasks]
        memory.used = outputs_address = max(memory.used, outputs_at)
        for number, (task, (values, places)) in enumerate(zip(self.tasks, loaded), 1):
            rows.append(self._reserve_outputs(memory, task, places))
            records += [record_bytes(task_layout, **values, last=number == len(self.tasks)), record_bytes(task_memory_layout, **places)]
        header = record_bytes(header_layout, sweeps=len(self.sweeps), operations=len(self.operations),
                         elements=self.elements, registers=self.registers, parity=self.parity, contexts=self.contexts,
                         tap_registers=self.tap_registers)
        memory.put(address, b"".join([header, *self.sweeps, *self.operations, *records]))
        macs = sum(task.steps * task.model.step.macs() for task in self.tasks)
        words = np.concatenate(self.words, axis=1)
        return EngineImage(words, memory.image(), bias_address, bias_registers, address, outputs_address, macs, self.contexts,
                           self.tasks, rows, origin)

    def _bias_image(self, memory: SharedMemory) -> int:
        constants = [1, _DIGIT] + [_TOP] * self.top
        nbytes = 2 * round_up(len(constants), self.cfg.vector_lanes)
        elements = min(round_up(nbytes // 2, self.cfg.vector_lanes), 1 << ELEMENT_BITS)
        state = memory.place(np.array(constants + [0] * (nbytes // 2 - len(constants)), "<i2"))
        last = len(self.bias_sweeps) - 1
        sweeps = [record_bytes(sweep_layout, **values, last=number == last) for number, values in enumerate(self.bias_sweeps)]
        records = [record_bytes(header_layout, sweeps=len(sweeps), operations=0, elements=elements, contexts=1,
                           tap_registers=self.tap_registers),
                   *sweeps, record_bytes(task_layout, steps=1, state_bytes=nbytes, last=1),
                   record_bytes(task_memory_layout, state_address=state)]
        return memory.place(np.frombuffer(b"".join(records), np.uint8))

    def _loaded(self, memory: SharedMemory, task: Task) -> tuple[dict[str, int], dict[str, int]]:
        """States and input of a task; returns fields of its records."""
        model, step = task.model, task.model.step
        values = dict(sweep=self.first_sweeps[id(model)], steps=task.steps % MAX_STEPS, start=task.start, input_bytes=model.input_bytes,
                      input_element=0, state_bytes=model.state_bytes, state_element=model.state_element if model.state_bytes else 0)
        places = {}
        if model.state_bytes:
            row = np.zeros(model.state_bytes // 2, "<i2")
            for name, vector in step.vectors.items():
                if vector.kind in ("state", "constant"):
                    start = model.places[name] - model.state_element
                    row[start:start + vector.size] = vector.values if vector.kind == "constant" else task.states.get(name, 0)
            places["state_address"] = memory.place(row)
        if model.input_bytes:
            rows = np.zeros((task.steps, model.input_bytes // 2), "<i2")
            for name, block in task.inputs.items():
                rows[:, model.places[name]:model.places[name] + block.shape[1]] = block
            first = memory.place(rows)
            places |= dict(input_address=first, input_pitch=model.input_bytes)
            if model.reverse:
                places |= dict(input_address=first + (task.steps - 1) * model.input_bytes, input_pitch=-model.input_bytes)
        return values, places

    def _reserve_outputs(self, memory: SharedMemory, task: Task, places: dict[str, int]) -> int:
        """Room for the outputs of a task; adds its fields and returns the address of its first row."""
        model, spare = task.model, round_up(2 * self.cfg.vector_lanes, ROW_BYTES)
        output = memory.reserve(task.steps * model.output_pitch + model.final_bytes + spare)
        if model.reverse:
            output += (task.steps - 1) * model.output_pitch
        places |= dict(output_address=output, output_pitch=-model.output_pitch if model.reverse else model.output_pitch)
        return output


def build_image(cfg: Config, tasks: list[Task], contexts: int | None = None, models: list[EngineModel] | None = None,
                **places: int) -> EngineImage:
    """``EngineImage`` of tasks for one run, at ``places`` of shared memory (``origin``, ``outputs_at``).

    ``contexts``: tasks that take turns; by default as many as there are and fit. ``models``: those whose weights are there, in this order;
    by default those of the tasks. Raises ``ValueError``, which names what does not fit.
    """
    return _Builder(cfg, list(tasks), contexts, models).build(**places)


def check_fit(cfg: Config, models: list[EngineModel], contexts: int | None = 1) -> int:
    """Contexts that can take turns when models are on the engine together, ``contexts`` if given (None: as many as fit, a task for each of
    ``models``). Raises ``ValueError`` when they do not fit."""
    tasks = []
    for model in models:
        inputs = {name: np.zeros((1, vector.size), np.int16) for name, vector in model.step.vectors.items() if vector.kind == "input"}
        tasks.append(Task(model, inputs, steps=1))
    builder = _Builder(cfg, tasks, contexts)
    builder.add_models()
    return builder.contexts
