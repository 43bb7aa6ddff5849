"""Golden model of the recurrent engine: executes an image in shared memory (docs/units/rnn.md) [S3.1-S3.7].

Tasks are independent, and waiting changes no result. The model therefore runs one task after the other, and in each step one
matrix-vector pass after the other. A job is executed when its pass ends.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from amaranth.lib import data
from heddle.config import Config
from heddle.constants import PRODUCT_REGISTERS
from heddle.isa.error_codes import ErrorCode
from heddle.rnn.layouts import (
    MAX_STEPS,
    RECORD_BITS,
    Start,
    header_layout,
    operation_layout,
    sweep_layout,
    task_layout,
    task_memory_layout,
)

from .recurrent_tail import sum_position, tail

__all__ = ["EngineFault", "EngineState", "Image", "ROW_BYTES", "engine_run", "field_values", "read_image"]

ROW_BYTES = RECORD_BITS // 8
_WORD = 1 << 32


class EngineFault(ValueError):
    """Error of an image: ``code`` and ``operand`` as the engine reports both."""

    def __init__(self, code: ErrorCode, operand: int, message: str) -> None:
        super().__init__(message)
        self.code, self.operand = code, operand


def _in_memory(shared: np.ndarray, address: int, nbytes: int, what: str) -> None:
    if not 0 <= address <= address + nbytes <= len(shared):
        raise EngineFault(ErrorCode.OUT_OF_RANGE, address, f"{what} must lie below {len(shared):#x}, not at {address:#x}")


@dataclass
class EngineState:
    """State of the engine beside shared memory; all values persist between runs.

    Attributes
    ----------
    factors : int8 [threads, factor_words, dot]
        Factor registers.
    products : int64 [threads, 256]
        Product registers as signed 32-bit values: sums of CAT tap 0.
    taps : int64 [3, threads, rnn_tap_registers]
        Sums of CAT taps 1 to 3.
    vector : int64 [rnn_elements]
        Vector memory, signed 16-bit values.
    sent : int64 [rnn_elements]
        Reference vectors of the delta threshold, signed 16-bit values.
    matrices : dict
        Cache of weight matrices by number of the matrix-vector pass.
    skipped : int
        Zero columns that were skipped.
    multiplied, elements : int
        Nonzero vector elements, and all vector elements, of the passes.
    zeros : list or None
        If a list, the model appends the zero flags of the columns of each pass: bool [columns].
    """

    factors: np.ndarray
    products: np.ndarray
    taps: np.ndarray
    vector: np.ndarray
    sent: np.ndarray
    matrices: dict[int, np.ndarray] = field(default_factory=dict, repr=False)
    skipped: int = 0
    multiplied: int = 0
    elements: int = 0
    zeros: list[np.ndarray] | None = None

    def registers(self, tap: int) -> tuple[np.ndarray, int]:
        """Registers of a CAT tap, int64 [threads, size], and ``size``."""
        registers = self.taps[tap - 1] if tap else self.products
        return registers, registers.shape[1]

    @classmethod
    def for_config(cls, cfg: Config, factors: np.ndarray | None = None, seed: int | None = None) -> Self:
        """State of zeros; with a seed random values in all but ``factors``, because no result may depend on initial values."""
        shapes = ((cfg.threads, PRODUCT_REGISTERS), (3, cfg.threads, cfg.rnn_tap_registers), (cfg.rnn_elements,), (cfg.rnn_elements,))
        factors = np.zeros((cfg.threads, cfg.factor_words, cfg.dot), np.int8) if factors is None else factors
        if seed is None:
            products, taps, vector, sent = (np.zeros(shape, np.int64) for shape in shapes)
            return cls(factors, products, taps, vector, sent)
        rng = np.random.default_rng(seed)
        limits = (31, 31, 15, 15)
        products, taps, vector, sent = (rng.integers(-1 << bits, 1 << bits, shape) for shape, bits in zip(shapes, limits))
        return cls(factors, products, taps, vector, sent)


class Fields:
    """The fields of a record, integers and enum members."""

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any: ...


@dataclass(frozen=True)
class Image:
    """Records of an image: ``header``, ``tasks`` (pairs), ``sweeps`` and ``operations``, each an object with its fields."""

    header: Fields
    tasks: list[tuple[Fields, Fields]]
    sweeps: list[Fields]
    operations: list[Fields]


def field_values(layout: data.StructLayout, row: np.ndarray) -> Fields:
    """Fields of a record of 16 bytes, as an object of integers and enum members."""
    bits = int.from_bytes(bytes(row), "little")
    record = layout.from_bits(bits)
    fields = Fields()
    for name, _ in layout:
        if name != "unused":
            setattr(fields, name, getattr(record, name))
    return fields


def read_image(cfg: Config, shared: np.ndarray, address: int) -> Image:
    """``Image`` at a shared byte address, a multiple of 16. Raises ``EngineFault``."""
    if address % ROW_BYTES:
        raise EngineFault(ErrorCode.OUT_OF_RANGE, address, f"address of an image must be a multiple of {ROW_BYTES}, not {address:#x}")

    def records(layout: data.StructLayout, first: int, count: int) -> list[Fields]:
        start = address + first * ROW_BYTES
        _in_memory(shared, start, count * ROW_BYTES, "records of an image")
        return [field_values(layout, shared[at:at + ROW_BYTES]) for at in range(start, start + count * ROW_BYTES, ROW_BYTES)]

    header, = records(header_layout, 0, 1)
    elements = header.elements * min(header.contexts, cfg.rnn_contexts)
    if not (elements <= cfg.rnn_elements and 1 <= header.sweeps <= cfg.rnn_records and header.operations <= cfg.rnn_records
            and 1 <= header.contexts <= cfg.rnn_contexts and header.tap_registers <= cfg.rnn_tap_registers):
        raise EngineFault(ErrorCode.RECURRENT_IMAGE, address, "counts of the header must be those of an image for this engine")
    sweeps = records(sweep_layout, 1, header.sweeps)
    operations = records(operation_layout, 1 + header.sweeps, header.operations)
    first = 1 + header.sweeps + header.operations
    tasks: list[tuple[Fields, Fields]] = []
    while not tasks or not tasks[-1][0].last:
        tasks.append((records(task_layout, first, 1)[0], records(task_memory_layout, first + 1, 1)[0]))
        first += 2
    return Image(header, tasks, sweeps, operations)


class _Context:
    """One task in one context, step by step."""

    def __init__(self, cfg: Config, state: EngineState, shared: np.ndarray, image: Image, number: int) -> None:
        self.cfg, self.state, self.shared, self.image = cfg, state, shared, image
        self.element_base = number * image.header.elements
        self.register_base = number * image.header.registers

    def run(self, task: Fields, memory: Fields) -> None:
        """All steps of a task."""
        if task.state_bytes:
            self._load(memory.state_address, task.state_bytes, task.state_element)
        width = self.cfg.vector_lanes
        distance = -(-(task.input_bytes // 2) // width) * width     # from the row of even steps to that of odd ones
        for step in range(task.steps or MAX_STEPS):
            if task.input_bytes:
                self._load(memory.input_address + step * _signed16(memory.input_pitch), task.input_bytes,
                           task.input_element + (step & 1) * distance)
            row = memory.output_address + step * _signed16(memory.output_pitch)
            for number in range(task.sweep, len(self.image.sweeps)):
                sweep = self.image.sweeps[number]
                self._sweep(number, sweep, step, distance)
                if sweep.launch:
                    self._job(sweep, step & 1, row)
                if sweep.last:
                    break

    def _load(self, address: int, nbytes: int, element: int) -> None:
        _in_memory(self.shared, address, nbytes, "rows of a task")
        values = self.shared[address:address + nbytes].view("<i2")
        first = self.element_base + element
        self.state.vector[first:first + len(values)] = values

    def _sweep(self, number: int, sweep: Fields, step: int, distance: int) -> None:
        cfg, state, odd = self.cfg, self.state, step & 1
        cat, blocks, columns = 1 << sweep.cat, sweep.blocks + 1, sweep.columns + 1
        first = self.element_base + sweep.element + (distance if odd and sweep.input else 0)
        elements = cfg.dot // cat
        vector = state.vector[first:first + columns * elements]
        if cfg.rnn_differences and sweep.difference:
            vector = self._differences(sweep, vector, step == 0)
        if sweep.skip or state.zeros is not None:
            zeros: Any = ~vector.reshape(columns, elements).any(axis=1)
            if sweep.skip:      # not the first, where it begins the sums
                state.skipped += int(zeros[sweep.start != Start.CONTINUE:].sum())
            if state.zeros is not None:
                state.zeros.append(zeros)
        state.multiplied, state.elements = state.multiplied + int(np.count_nonzero(vector)), state.elements + len(vector)
        vector = vector.astype(np.float64)
        sums = (self._matrix(number, sweep) @ vector).astype(np.int64).reshape(cfg.threads, blocks, cat)
        product = sweep.product + self.register_base + (self.image.header.parity if odd and sweep.parity else 0)
        targets = product + np.arange(blocks)
        sources = sweep.bias + np.arange(blocks) if sweep.start == Start.BIAS else targets
        if cfg.rnn_differences and sweep.start == Start.PERSIST:
            last = sweep.product + self.register_base + (self.image.header.parity if sweep.parity and not odd else 0)
            sources = (sweep.bias if step == 0 else last) + np.arange(blocks)
        for tap in range(cat):
            registers, size = state.registers(tap)
            before = 0 if sweep.start == Start.ZERO else registers[:, sources % size]
            registers[:, targets % size] = _wrap32(before + sums[:, :, tap])

    def _differences(self, sweep: Fields, vector: np.ndarray, fresh: bool) -> np.ndarray:
        """Differences to the reference vector, 17 bits; differences of at most the threshold are zero."""
        first = self.element_base + sweep.sent
        sent = self.state.sent[first:first + len(vector)]
        if fresh:
            sent[:] = 0
        difference = vector - sent
        difference[np.abs(difference) <= sweep.held] = 0
        sent += difference
        return difference

    def _matrix(self, number: int, sweep: Fields) -> np.ndarray:
        """Weights of a matrix-vector pass, rows (lane, block, tap), columns as the vector; float64, in which all sums are exact."""
        if number not in self.state.matrices:
            cfg, cat = self.cfg, 1 << sweep.cat
            blocks, columns = sweep.blocks + 1, sweep.columns + 1
            words = self.state.factors[:, sweep.weight:sweep.weight + columns * blocks]
            shaped = words.reshape(cfg.threads, columns, blocks, cfg.dot // cat, cat)
            self.state.matrices[number] = shaped.transpose(0, 2, 4, 1, 3).reshape(cfg.threads * blocks * cat, -1).astype(np.float64)
        return self.state.matrices[number]

    def _job(self, sweep: Fields, odd: int, row: int) -> None:
        """The tail on all element groups at once: stored values and states belong to one element."""
        lanes, groups, pairs = self.cfg.tail_lanes, sweep.groups + 1, sweep.pairs
        operations = self.image.operations[sweep.operation:sweep.operation + sweep.operations + 1]
        elements = (np.arange(groups)[:, None] * (lanes << pairs) + np.arange(lanes)).reshape(-1)       # of the job, in each operation
        vector = self.state.vector[self.element_base:]
        operands = [vector[operation.operand + elements] if operation.read else None for operation in operations]
        sums = [None if operation.idle else self._sums(operation, groups, odd) for operation in operations]
        for operation, result in zip(operations, tail(operations, sums, operands)):
            if operation.write:
                vector[operation.destination + elements] = result
            if operation.output:
                places = row + operation.output_byte + 2 * elements[::lanes]        # of groups
                for place in places:
                    _in_memory(self.shared, int(place), 2 * lanes, "outputs of a task")
                self.shared[(places[:, None] + np.arange(2 * lanes)).reshape(-1)] = result.astype("<i2").view(np.uint8)

    def _sums(self, operation: Fields, groups: int, odd: int) -> np.ndarray:
        """Sums of all elements of an operation."""
        lanes, parity = self.cfg.tail_lanes, self.image.header.parity if odd else 0
        result = np.empty((groups, lanes), np.int64)
        for group in range(groups):
            place, tap, register = sum_position(self.cfg, operation, group, self.register_base, parity)
            registers, size = self.state.registers(tap)
            result[group] = registers[place * lanes:(place + 1) * lanes, register % size]
        return result.reshape(-1)


def engine_run(cfg: Config, state: EngineState, shared: np.ndarray, address: int) -> None:
    """Run the engine on one image, from the instruction to the end of its last task.

    Parameters
    ----------
    cfg : Config
        Configuration.
    state : EngineState
        Changed in place.
    shared : uint8 array
        Shared memory; outputs are written to it.
    address : int
        Byte address of the image, a multiple of 16.

    Raises
    ------
    EngineFault
        For errors that the engine reports.
    """
    image = read_image(cfg, shared, address)
    state.matrices.clear()
    for number, (task, memory) in enumerate(image.tasks):
        _Context(cfg, state, shared, image, number % image.header.contexts).run(task, memory)


def _signed16(value: int) -> int:
    return value - ((value & 0x8000) << 1)


def _wrap32(values: np.ndarray) -> np.ndarray:
    return (values + (_WORD >> 1)) % _WORD - (_WORD >> 1)
