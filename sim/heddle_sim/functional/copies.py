"""Copy and barrier instructions of the functional simulator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
from heddle.config import Config
from heddle.constants import BANK_BYTES, MOST_EXPECTED
from heddle.isa.error_codes import ErrorCode
from heddle.isa.tensor_descriptor import TensorMode

from .integers import signed
from .run_result import ProgramStop
from .tensor_operations import copy_tensor
from .unit_operations import copy_block

if TYPE_CHECKING:
    from ..golden.thread import ThreadState

__all__ = ["BarrierOpen", "CopyInstructions"]

_WORD = 0xFFFFFFFF


class BarrierOpen(Exception):
    """A core waits at a barrier for copies that another core may execute."""


class CopyInstructions:
    """Copy and barrier instructions; each is executed completely before the next instruction."""

    cfg: Config
    state: ThreadState
    uniform: np.ndarray
    pending: np.ndarray
    peers: Sequence[CopyInstructions]
    _expected: list[int]
    _alone: bool
    _rows: int
    _counts: Counter[str]

    if TYPE_CHECKING:       # of the simulator
        def _b(self, instruction: SimpleNamespace) -> int: ...
        def _within_limit(self) -> None: ...

    def _execute_copy(self, operation: SimpleNamespace, state: ThreadState) -> tuple[ErrorCode, int] | None:
        return copy_block(state, operation)

    def _execute_tensor(self, operation: SimpleNamespace, state: ThreadState) -> tuple[int, tuple[ErrorCode, int, int] | None]:
        return copy_tensor(state, operation)

    def _barrier_expect(self, instruction: SimpleNamespace) -> None:
        self.pending[instruction.a] += self._b(instruction)
        self._expected[instruction.a] += self._b(instruction)

    def _barrier_wait(self, instruction: SimpleNamespace) -> None:
        pending, excess = self.pending[instruction.a], self._expected[instruction.a] > MOST_EXPECTED
        if (pending or excess) and not self._alone:
            raise BarrierOpen
        if excess:
            raise ProgramStop(ErrorCode.BARRIER_EXPECT, instruction.a)
        if pending:
            raise ProgramStop(ErrorCode.BARRIER_UNDERRUN if pending > 0 else ErrorCode.BARRIER_OVERRUN, instruction.a)
        self._expected[instruction.a] = 0

    def _copy_block(self, instruction: SimpleNamespace) -> None:
        operation = instruction.operation
        operation.destination, operation.source = int(self.uniform[instruction.dst]), int(self.uniform[instruction.a])
        operation.blocks = self._b(instruction)
        self._copy(operation, self._receivers(instruction))

    def _copy_rows(self, instruction: SimpleNamespace) -> None:
        """Addresses of rows are exact, pitches are signed. Each row counts towards the instruction limit."""
        destination, destination_pitch = (int(value) for value in self.uniform[instruction.dst:instruction.dst + 2])
        source, source_pitch = (int(value) for value in self.uniform[instruction.a:instruction.a + 2])
        destination_pitch, source_pitch = signed(destination_pitch), signed(source_pitch)
        blocks, rows = (int(value) for value in self.uniform[instruction.b:instruction.b + 2])
        operation = instruction.operation
        operation.blocks = blocks
        for row in range(rows):
            self._within_limit()
            operation.destination, operation.source = destination + row * destination_pitch, source + row * source_pitch
            self._copy(operation, [self])
            self._rows += row > 0

    def _copy(self, operation: SimpleNamespace, receivers: list[CopyInstructions]) -> None:
        for receiver in receivers:
            if error := self._execute_copy(operation, receiver.state):
                raise ProgramStop(*error)
        size = operation.blocks * BANK_BYTES
        self._counts["copied_bytes"] += size
        self._arrive(operation, size, receivers)

    def _arrive(self, operation: SimpleNamespace, size: int, receivers: list[CopyInstructions]) -> None:
        if operation.has_barrier:
            for receiver in receivers:
                receiver.pending[operation.barrier] -= size

    def _receivers(self, instruction: SimpleNamespace) -> list[CopyInstructions]:
        """Cores whose shared memories a copy writes."""
        if instruction.mask is None:
            return [self]
        mask = int(self.uniform[instruction.mask])
        instruction.operation.mask = mask
        if mask == 0 or mask >> self.cfg.cores:
            raise ProgramStop(ErrorCode.MULTICAST_MASK, mask)
        return self._named(mask)

    def _named(self, mask: int) -> list[CopyInstructions]:
        """Cores of a mask."""
        return [peer for number, peer in enumerate(self.peers) if mask >> number & 1]

    def _copy_tensor(self, instruction: SimpleNamespace) -> None:
        operation = instruction.operation
        rank = operation.rank_minus_one + 1
        operation.shared_address = 0 if operation.prefetch else int(self.uniform[instruction.dst])
        operation.address = int(self.uniform[instruction.a])
        operation.coordinates = tuple(signed(int(value)) for value in self.uniform[instruction.b:instruction.b + rank])
        operation.offsets = ()
        if operation.mode is TensorMode.IM2COL:
            operation.offsets = tuple(int(value) & 0xFFFF for value in self.uniform[instruction.c:instruction.c + rank - 2])
        receivers = [self] if operation.prefetch else self._receivers(instruction)
        for receiver in receivers:
            size, error = self._execute_tensor(operation, receiver.state)
            if error:
                raise ProgramStop(*error)
        self._counts["copied_bytes"] += 0 if operation.prefetch else size
        self._arrive(operation, size, receivers)

    def _prefetch_block(self, instruction: SimpleNamespace) -> None:
        """The model has no cache; only errors have an effect."""
        operation = instruction.operation
        operation.source, operation.blocks = int(self.uniform[instruction.a]), self._b(instruction)
        if self.cfg.prefetches and (error := self._execute_copy(operation, self.state)):
            raise ProgramStop(*error)

    def _prefetch_tensor(self, instruction: SimpleNamespace) -> None:
        if self.cfg.prefetches:
            self._copy_tensor(instruction)
