"""Sequences for the engine, what a run of them needs, and what it gives."""

from dataclasses import dataclass, field

import numpy as np
from heddle.config import Config
from heddle.errors import UsageError
from heddle.rnn.layouts import MAX_STEPS

from ..golden.recurrent_engine import ROW_BYTES
from .model import EngineModel, round_up

__all__ = ["EngineImage", "SharedMemory", "Task", "TaskResult"]


@dataclass(frozen=True)
class Task:
    """A sequence for a model.

    Attributes
    ----------
    model : EngineModel
    inputs : dict of str to int16 [steps, size]
        Rows of each input vector, in the order in which they lie in memory: with ``model.reverse`` the last row is the first step's.
    states : dict of str to int16 [size]
        Values before the first step; zero where absent.
    steps : int
        Of a model without inputs; else the rows say it.
    start : int
        Cycles after the start of the run before which the task does not begin.
    """

    model: EngineModel
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    states: dict[str, np.ndarray] = field(default_factory=dict)
    steps: int = 0
    start: int = 0

    def __post_init__(self) -> None:
        vectors = self.model.step.vectors
        wanted = {name for name, vector in vectors.items() if vector.kind == "input"}
        if set(self.inputs) != wanted:
            raise UsageError(f"inputs must be {', '.join(sorted(wanted)) or 'none'}, not {', '.join(sorted(self.inputs)) or 'none'}")
        lengths = {len(rows) for rows in self.inputs.values()} | ({self.steps} if self.steps else set())
        if len(lengths) != 1:
            raise UsageError(f"inputs must have one number of steps, not {sorted(lengths)}")
        object.__setattr__(self, "steps", lengths.pop())
        if not 1 <= self.steps <= MAX_STEPS:
            raise UsageError(f"steps must be from 1 to {MAX_STEPS}, not {self.steps}")
        if not 0 <= self.start < 1 << 24:
            raise UsageError(f"start must be from 0 to {(1 << 24) - 1}, not {self.start}")
        for name, rows in self.inputs.items():
            if rows.dtype != np.int16 or rows.shape != (self.steps, vectors[name].size):
                raise UsageError(f"input {name} must be int16 of shape {(self.steps, vectors[name].size)}, "
                                 f"not {rows.dtype} of {rows.shape}")
        for name, values in self.states.items():
            known = name in self.model.step.states()
            if not known or values.dtype != np.int16 or values.shape != (vectors[name].size,):
                raise UsageError(f"states must be int16 vectors of {', '.join(self.model.step.states())}, "
                                 f"not {name} of shape {values.shape}")


@dataclass(frozen=True)
class TaskResult:
    """``outputs``: for each output int16 [steps, size], rows as the inputs; ``states``: int16 [size] after the last step."""

    outputs: dict[str, np.ndarray]
    states: dict[str, np.ndarray]


@dataclass
class EngineImage:
    """What a run needs.

    Attributes
    ----------
    words : int8 [threads, used words, dot]
        Factor registers from word 0 on.
    shared : uint8 array
        Shared memory from address 0 on: images, inputs, states, room for the outputs; nothing below ``origin``.
    bias_address : int or None
        Of the image of the run that makes the biases, to be complete before the other; or of a table of them.
    bias_registers : range or None
        Product registers into which the table goes, int32 [registers, threads]; None where a run makes the biases.
    address : int
        Of the image.
    outputs_address : int
        From here on lie the outputs; what is below is loaded.
    macs : int
        Multiply-accumulates of all tasks, without padding.
    contexts : int
        Tasks that take turns.
    origin : int
        What is loaded lies from here on.
    """

    words: np.ndarray
    shared: np.ndarray
    bias_address: int | None
    bias_registers: range | None
    address: int
    outputs_address: int
    macs: int
    contexts: int
    tasks: list[Task]
    rows: list[int]
    origin: int = 0

    @property
    def loaded(self) -> np.ndarray:
        """What is loaded: uint8."""
        return self.shared[self.origin:self.outputs_address]

    @property
    def output_bytes(self) -> int:
        return len(self.shared) - self.outputs_address

    def same_weights(self, other: "EngineImage") -> bool:
        """The weights and biases of another image are those of this one, in the same registers."""
        known = np.array_equal(self.words, other.words) and (self.bias_address is None) == (other.bias_address is None)
        known = known and self.bias_registers == other.bias_registers
        return known and (self.bias_address is None or self.bias_image() == other.bias_image())

    def bias_image(self) -> bytes:
        """The records of the run that makes the biases, or their table."""
        return bytes(self.shared[self.bias_address:self.address])

    def results(self, shared: np.ndarray) -> list[TaskResult]:
        """``TaskResult`` of each task, from shared memory after the run."""
        found = []
        for task, row in zip(self.tasks, self.rows):
            model, outputs, states = task.model, {}, {}
            pitch = -model.output_pitch if model.reverse else model.output_pitch
            for name, place in model.outputs.items():
                start = row + place.byte
                last = start + (task.steps - 1) * pitch
                values = [np.frombuffer(bytes(shared[at:at + 2 * place.size]), "<i2")
                          for at in (range(start, last + (1 if pitch > 0 else -1), pitch) if name in model.step.outputs else (last,))]
                if name in model.step.outputs:
                    outputs[name] = np.stack(values[::-1] if model.reverse else values)
                if name in model.step.states():
                    states[name] = values[-1].copy()
            found.append(TaskResult(outputs, states))
        return found


class SharedMemory:
    """Shared memory that fills from address ``origin`` on."""

    def __init__(self, cfg: Config, origin: int = 0) -> None:
        self.cfg, self.bytes, self.used = cfg, np.zeros(cfg.shared_bytes, np.uint8), origin

    def reserve(self, nbytes: int) -> int:
        address = self.used
        self.used = round_up(address + nbytes, ROW_BYTES)
        if self.used > len(self.bytes):
            raise UsageError(f"image, inputs and outputs must fit {len(self.bytes)} bytes of shared memory, not take {self.used} and more")
        return address

    def put(self, address: int, data: bytes) -> None:
        self.bytes[address:address + len(data)] = np.frombuffer(data, np.uint8)

    def place(self, array: np.ndarray) -> int:
        address = self.reserve(array.nbytes)
        self.put(address, np.ascontiguousarray(array).tobytes())
        return address

    def image(self) -> np.ndarray:
        return self.bytes[:self.used].copy()
