"""Functional simulator: executes whole programs on numpy arrays, one instruction at a time, without timing."""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import count
from types import SimpleNamespace
from typing import cast

import numpy as np
from heddle.config import Config
from heddle.constants import BARRIERS, SEGMENTS, UNIFORM_PREDICATES, UNIFORM_REGISTERS
from heddle.errors import UsageError
from heddle.interfaces.layouts import PC_BITS
from heddle.isa.compiled_offsets import OFFSET_BITS, OffsetEntry
from heddle.isa.encoding import GUARD_ALWAYS, Opcode, Space, Special, Swizzle
from heddle.isa.error_codes import ErrorCode

from ..golden.thread import ThreadError, ThreadState, active_threads, execute
from ..isa.program import Program
from .copies import BarrierOpen, CopyInstructions
from .decoded import THREAD_KINDS, Decoder
from .integers import ALU, COMPARE, signed
from .recurrent_engine import RecurrentInstruction
from .run_result import ProgramStop, RunResult
from .sparse_engine import SparseInstructions
from .unit_operations import multiply

__all__ = ["FunctionalSimulator"]

_WORD = 0xFFFFFFFF
_HALT = -1          # in place of the next program counter


class FunctionalSimulator(CopyInstructions, RecurrentInstruction, SparseInstructions):
    """Functional simulator of one core and its global memory.

    The model follows ``docs/architecture.md`` and the checks of ``docs/isa.md``. Instructions execute one after the other and
    completely, copies included. Registers, uniform registers, segments, shared memory and instruction memory persist between runs.
    Predicates, lane mask and barriers are reset at the start of each run.

    Parameters
    ----------
    cfg : Config
        Configuration.
    memory : uint8 array
        Global memory, byte 0 at address 0; programs change it in place. Accesses beyond its end are AXI errors.
    core : int
        Number of this core, from 0 below ``cfg.cores``: the value of ``%core``.

    Attributes
    ----------
    state : ThreadState
        ``registers`` (uint32 [threads, cfg.registers]), ``predicates``, ``lane_mask``, ``shared`` (uint8), ``memory``.
    uniform : uint32 [64]
        Uniform registers.
    uniform_predicates : bool [7]
        Uniform predicates.
    segments : list of (base, Space, element_shift, Swizzle)
        Segment table.
    pending : int64 [16]
        Pending bytes of each barrier.
    instructions : list of int
        Instruction memory.
    peers : list of FunctionalSimulator
        All cores of the device, by number; multicast copies write to their shared memories. A single core has only itself as peer.
    tiles : iterator of int
        Numbers that ``take_tile`` has yet to hand out; the cores of a device have one in common.
    executed : int
        Executed instructions.
    """

    def __init__(self, cfg: Config, memory: np.ndarray | None = None, core: int = 0) -> None:
        memory = np.zeros(0, np.uint8) if memory is None else memory
        if not isinstance(memory, np.ndarray) or memory.dtype != np.uint8 or memory.ndim != 1:
            raise UsageError(f"memory must be a one-dimensional uint8 array, not {type(memory).__name__} "
                             f"{getattr(memory, 'dtype', '')} {getattr(memory, 'shape', '')}".rstrip())
        if not 0 <= core < cfg.cores:
            raise UsageError(f"core must be from 0 to {cfg.cores - 1}, not {core}")
        self.cfg, self.core = cfg, core
        self.state = ThreadState.create(cfg)
        self.state.memory = memory
        self.uniform = np.zeros(UNIFORM_REGISTERS, np.uint32)
        self.uniform_predicates = np.zeros(UNIFORM_PREDICATES, bool)
        self.segments = [(0, Space.SHARED, 0, Swizzle.NONE)] * SEGMENTS
        self.pending = np.zeros(BARRIERS, np.int64)
        self.instructions = [0] * cfg.instruction_words
        self._end = 0
        self._decoder = Decoder(cfg)
        self._handlers = {opcode.name: self._thread if opcode in THREAD_KINDS else getattr(self, "_" + opcode.name.lower())
                          for opcode in Opcode}
        self.peers = [self if number == core else None for number in range(cfg.cores)]      # type: ignore[misc]    # by itself it has none
        self._program: Program | None = None
        self._counts = Counter()
        self._product_error: tuple[ErrorCode, int, int] | None = None
        self._pc = 0

    # -- running ----------------------------------------------------------------------------

    def load(self, program: Program | Iterable[int], address: int = 0) -> None:
        """Write a program (``Program`` or words) into the instruction memory from ``address``; its end is the end of the program.
        Instructions behind the end are void.
        """
        program = program if isinstance(program, Program) else Program(program)
        if address < 0 or address + len(program) > self.cfg.instruction_words:
            raise UsageError(f"program must fit {self.cfg.instruction_words} instructions, "
                             f"not {len(program)} from {address}")
        self.instructions[address:address + len(program)] = program.words
        self._end = address + len(program)
        self._program = program if address == 0 else None

    def run(self, program: Program | Iterable[int] | None = None, entry: int = 0, uniform: Mapping[int, int] | None = None,
            instruction_limit: int = 100_000_000) -> RunResult:
        """Run from instruction ``entry`` until ``halt`` or an error.

        Parameters
        ----------
        program : Program or words, optional
            Program to load at instruction 0 first; without it the instruction memory runs unchanged.
        entry : int
            Number of the first instruction.
        uniform : dict of int to int, optional
            Uniform registers to set first.
        instruction_limit : int
            Limit of executed instructions, where ``copy_rows`` counts once for each row; 0: none. At the limit the error is TIMEOUT
            with the limit as operand and the next instruction as program counter.

        Returns
        -------
        RunResult
        """
        self.begin(program, entry, uniform, instruction_limit)
        return cast(RunResult, self.advance())

    def begin(self, program: Program | Iterable[int] | None = None, entry: int = 0, uniform: Mapping[int, int] | None = None,
              instruction_limit: int = 100_000_000) -> None:
        """Prepare a run with the parameters of ``run`` without execution; ``advance`` executes."""
        if program is not None:
            self.load(program)
        if not 0 <= entry < self.cfg.instruction_words:
            raise UsageError(f"entry must be from 0 to {self.cfg.instruction_words - 1}, not {entry}")
        for index, value in (uniform or {}).items():
            if not 0 <= index < UNIFORM_REGISTERS:
                raise UsageError(f"uniform register must be from 0 to {UNIFORM_REGISTERS - 1}, not {index}")
            self.uniform[index] = int(value) & _WORD
        self.state.start()
        self.uniform_predicates[:] = False
        self.pending[:] = 0
        self._expected = [0] * BARRIERS         # bytes since the last wait of each barrier
        self._counts = Counter()
        self._product_error = None
        self.tiles = count()
        self.executed, self._rows, self._next, self._limit = 0, 0, entry, instruction_limit

    def advance(self, alone: bool = True) -> RunResult | None:
        """Execute until the program ends; without ``alone`` also until it waits at a barrier for copies of another core.

        Returns ``RunResult``, or None where the core waits.
        """
        pc, self._alone = self._next, alone
        try:
            while pc != _HALT:
                self._within_limit()
                pc = self._step(pc)
                self.executed += 1
        except ProgramStop as stop:
            pc = (pc if stop.pc is None else stop.pc) & ((1 << PC_BITS) - 1)
            return self._result(stop.code, pc, stop.operand, stop.dimension)
        except BarrierOpen:
            self._next = pc
            self._counts[Opcode.BARRIER_WAIT.name] -= 1
            return None
        return self._result(*(self._product_error or (ErrorCode.NONE, 0, 0)))

    def _within_limit(self) -> None:
        if self._limit and self.executed + self._rows >= self._limit:
            raise ProgramStop(ErrorCode.TIMEOUT, self._limit)

    def _result(self, code: ErrorCode, pc: int, operand: int, dimension: int = 0) -> RunResult:
        return RunResult(code, pc, operand, self.executed, dict(self._counts), self._program, dimension)

    def _step(self, pc: int) -> int:
        """Execute the instruction at ``pc``; returns the next program counter."""
        if pc >= self._end:
            raise ProgramStop(ErrorCode.PROGRAM_COUNTER, pc)
        instruction = self._decoder.decode(self.instructions[pc])
        if instruction.violation:
            raise ProgramStop(instruction.violation.code, instruction.violation.operand)
        self._pc = pc
        self._counts[instruction.name] += 1
        if instruction.issues or self._guarded(instruction):
            target = self._handlers[instruction.name](instruction)
            return pc + 1 if target is None else target
        return pc + 1

    def _guarded(self, instruction: SimpleNamespace) -> bool:
        guard = instruction.guard
        value = True if guard == GUARD_ALWAYS else bool(self.uniform_predicates[guard])
        return value != bool(instruction.guard_negate)

    def _b(self, instruction: SimpleNamespace) -> int:
        """Uniform operand b as an integer."""
        return int(self.uniform[instruction.b]) if instruction.b_is_uniform else instruction.imm

    # -- control ----------------------------------------------------------------------------

    def _trap(self, instruction: SimpleNamespace) -> None:
        raise ProgramStop(ErrorCode.TRAP, instruction.imm)

    def _halt(self, instruction: SimpleNamespace) -> int:
        return _HALT

    def _branch(self, instruction: SimpleNamespace) -> int:
        if instruction.imm >= self._end:
            raise ProgramStop(ErrorCode.PROGRAM_COUNTER, instruction.imm)
        return instruction.imm

    def _nop(self, instruction: SimpleNamespace) -> None:
        pass

    def _wait(self, instruction: SimpleNamespace) -> None:
        """No effect: all earlier instructions are complete."""

    _commit_group = _wait_group = _wait

    def _segment(self, instruction: SimpleNamespace) -> None:
        self.segments[instruction.dst] = (self._b(instruction), instruction.space, instruction.element_shift, instruction.swizzle)

    # -- uniform instructions ---------------------------------------------------------------

    def _special(self, special: Special) -> int:
        """Special registers with one value for all threads; without timing %cycle is 0."""
        return {Special.THREADS: self.cfg.threads, Special.DOT: self.cfg.dot, Special.CORE: self.core,
                Special.CORES: self.cfg.cores, Special.CYCLE: 0}[special]

    def _uniform_alu(self, instruction: SimpleNamespace) -> None:
        a = int(self.uniform[instruction.a])
        self.uniform[instruction.dst] = ALU[instruction.function](a, self._b(instruction))

    def _uniform_compare(self, instruction: SimpleNamespace) -> None:
        a, b = int(self.uniform[instruction.a]), self._b(instruction)
        if not instruction.unsigned:
            a, b = signed(a), signed(b)
        self.uniform_predicates[instruction.dst] = COMPARE[instruction.compare](a, b)

    def _uniform_special(self, instruction: SimpleNamespace) -> None:
        self.uniform[instruction.dst] = self._special(instruction.special)

    def _take_tile(self, instruction: SimpleNamespace) -> None:
        self.uniform[instruction.dst] = next(self.tiles)

    # -- operations of units ----------------------------------------------------------------

    def _execute_thread(self, operation: SimpleNamespace) -> list[ThreadError]:
        return execute(self.state, operation)

    def _execute_matrix(self, operation: SimpleNamespace) -> tuple[list[tuple[ErrorCode, int]], int]:
        return multiply(self.state, operation)

    def _address(self, instruction: SimpleNamespace, operation: SimpleNamespace) -> tuple[int, Space]:
        """Base address with the scaled immediate, and space, of the segment in field b; sets element size and swizzle of the operation."""
        base, space, shift, operation.swizzle = self.segments[instruction.b]
        operation.element_shift = shift
        return (base + (instruction.imm << shift)) & _WORD, space

    def _thread(self, instruction: SimpleNamespace) -> None:
        operation = instruction.operation
        operation.pc = self._pc
        if instruction.opcode in (Opcode.LOAD, Opcode.STORE):
            operation.value, operation.space = self._address(instruction, operation)
        elif instruction.opcode is Opcode.GATHER:
            operation.value, space = self._address(instruction, operation)
            if space is not Space.SHARED:
                raise ProgramStop(ErrorCode.UNSUPPORTED, instruction.b)
            uniform = int(self.uniform[instruction.b])
            operation.element_shift, operation.padding = 0, uniform & (1 << OFFSET_BITS) - 1
            operation.first_entry = (uniform >> OFFSET_BITS) + instruction.c
        elif instruction.opcode is Opcode.THREAD_SPECIAL:
            operation.value = 0 if instruction.special is Special.TID else self._special(instruction.special)
        elif instruction.opcode is Opcode.LANE_MASK or operation.b_is_register:
            operation.value = 0     # field b is not used, whatever it holds, or names a register of the threads
        else:
            operation.value = self._b(instruction)
        for error in self._execute_thread(operation):
            raise ProgramStop(error.code, error.operand)

    def _matrix(self, instruction: SimpleNamespace) -> None:
        operation = instruction.operation
        operation.base, space = self._address(instruction, operation)
        if space is not Space.SHARED:
            raise ProgramStop(ErrorCode.UNSUPPORTED, instruction.b)
        shift = 0 if operation.compiled is not OffsetEntry.NONE else operation.element_shift
        operation.pitch = (int(self.uniform[instruction.b]) << shift) & _WORD
        operation.pc = self._pc
        operation.columns = (np.arange(self.cfg.threads) == 0 if operation.fill
                             else active_threads(self.state, instruction.guard, instruction.guard_negate))
        operation.lanes = self.state.lane_mask
        errors, steps = self._execute_matrix(operation)
        self._counts["matrix_steps"] += steps
        for code, operand in errors:
            if code is not ErrorCode.PRODUCT_RANGE:
                raise ProgramStop(code, operand)
            self._product_error = self._product_error or (code, self._pc, operand)

    _offsets = _matrix

    def _invalidate_descriptor(self, instruction: SimpleNamespace) -> None:
        """No effect: descriptors are read each time."""
