"""Functional simulator: runs whole programs on numpy arrays, one instruction at a time, without time."""

from collections import Counter
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import cast

import numpy as np
from heddle.config import Config
from heddle.constants import BARRIERS, SEGMENTS, UNIFORM_PREDICATES, UNIFORM_REGISTERS
from heddle.errors import UsageError
from heddle.interfaces.layouts import PC_BITS
from heddle.isa.encoding import GUARD_ALWAYS, Opcode, Space, Special
from heddle.isa.error_codes import ErrorCode

from ..golden.thread import ThreadError, ThreadState, active_threads, execute
from ..isa.program import Program
from .copies import BarrierOpen, CopyInstructions
from .decoded import THREAD_KINDS, Decoder
from .integers import ALU, COMPARE, signed
from .recurrent_engine import RecurrentInstruction
from .run_result import ProgramStop, RunResult
from .unit_operations import multiply

__all__ = ["FunctionalSimulator"]

_WORD = 0xFFFFFFFF
_HALT = -1          # in place of the next program counter


class FunctionalSimulator(CopyInstructions, RecurrentInstruction):
    """One core and its global memory.

    Follows ``docs/architecture.md`` and the checks of ``docs/isa.md``: instructions execute one after the other and
    completely, copies included. Registers, uniform registers, segments, shared memory and the instruction memory keep
    their values between runs; predicates, lane mask and barriers are reset at the start of each.

    Parameters
    ----------
    cfg : Config
    memory : uint8 array
        Global memory, byte 0 at address 0; programs change it in place. Accesses beyond its end are AXI errors.
    core : int
        Number of this core, from 0 below ``cfg.cores``: the value of ``%core``.

    Attributes
    ----------
    state : ThreadState
        ``registers`` (uint32 [threads, cfg.registers]), ``predicates``, ``lane_mask``, ``shared`` (uint8), ``memory``.
    uniform : uint32 [64]
    uniform_predicates : bool [7]
    segments : list of (base, Space, element_shift)
    pending : int64 [16]
        Bytes that each barrier still waits for.
    instructions : list of int
        The instruction memory.
    peers : list of FunctionalSimulator
        All cores of the device, by number; multicast copies write to their shared memories. By itself a core has none but itself.
    executed : int
        Instructions executed so far.
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
        self.segments = [(0, Space.SHARED, 0)] * SEGMENTS
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
        """Write a program (``Program`` or words) into the instruction memory from ``address``; it ends there: what the memory holds
        behind it is void."""
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
            Loaded at instruction 0 first; without it the instruction memory is run as it is.
        uniform : dict of int to int, optional
            Uniform registers to set first.
        instruction_limit : int
            TIMEOUT (operand: the limit; program counter: the next instruction) when so many instructions were executed, where
            ``copy_rows`` is one for each row; 0: no limit.

        Returns
        -------
        RunResult
        """
        self.begin(program, entry, uniform, instruction_limit)
        return cast(RunResult, self.advance())

    def begin(self, program: Program | Iterable[int] | None = None, entry: int = 0, uniform: Mapping[int, int] | None = None,
              instruction_limit: int = 100_000_000) -> None:
        """Like ``run``, without executing anything: that is left to ``advance``."""
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
        self.executed, self._rows, self._next, self._limit = 0, 0, entry, instruction_limit

    def advance(self, alone: bool = True) -> RunResult | None:
        """Go on until the program ends; or until it waits at a barrier, for copies of another core, unless it is ``alone``.

        Returns ``RunResult``, or None where it waits.
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
        """Everything before has finished already."""

    _commit_group = _wait_group = _wait

    def _segment(self, instruction: SimpleNamespace) -> None:
        self.segments[instruction.dst] = (self._b(instruction), instruction.space, instruction.element_shift)

    # -- uniform instructions ---------------------------------------------------------------

    def _special(self, special: Special) -> int:
        """Special registers that are the same for all threads; there is no time, so %cycle is 0."""
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

    # -- operations of units ----------------------------------------------------------------

    def _execute_thread(self, operation: SimpleNamespace) -> list[ThreadError]:
        return execute(self.state, operation)

    def _execute_matrix(self, operation: SimpleNamespace) -> tuple[list[tuple[ErrorCode, int]], int]:
        return multiply(self.state, operation)

    def _address(self, instruction: SimpleNamespace, operation: SimpleNamespace) -> tuple[int, Space]:
        """Base address with the scaled immediate, and element size, of the segment in field b."""
        base, space, shift = self.segments[instruction.b]
        operation.element_shift = shift
        return (base + (instruction.imm << shift)) & _WORD, space

    def _thread(self, instruction: SimpleNamespace) -> None:
        operation = instruction.operation
        operation.pc = self._pc
        if instruction.opcode in (Opcode.LOAD, Opcode.STORE):
            operation.value, operation.space = self._address(instruction, operation)
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
        operation.pitch = (int(self.uniform[instruction.b]) << operation.element_shift) & _WORD
        operation.pc = self._pc
        operation.columns = active_threads(self.state, instruction.guard, instruction.guard_negate)
        operation.lanes = self.state.lane_mask
        errors, steps = self._execute_matrix(operation)
        self._counts["matrix_steps"] += steps
        for code, operand in errors:
            if code is not ErrorCode.PRODUCT_RANGE:
                raise ProgramStop(code, operand)
            self._product_error = self._product_error or (code, self._pc, operand)

    def _invalidate_descriptor(self, instruction: SimpleNamespace) -> None:
        """Descriptors are read each time."""
