"""Golden model of the front end: the operations that a program issues to the units."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from heddle.config import Config
from heddle.isa.encoding import WaitUnit
from heddle.isa.error_codes import ErrorCode

from .simulator import FunctionalSimulator

if TYPE_CHECKING:
    from ..golden.thread import ThreadError, ThreadState
    from .copies import CopyInstructions

__all__ = ["FrontModel"]


class FrontModel(FunctionalSimulator):
    """Front end: executes control and uniform instructions and records the operations of the units without execution.

    Thread predicates and lane mask are constant, as set in ``state``; ``barrier.wait`` never fails.

    Attributes
    ----------
    thread, matrix, copy, tensor : list of SimpleNamespace
        Operations of each unit in order, with the fields of its operation layout.
    invalidated : list of int
        Addresses of ``invalidate_descriptor``.
    expected : list of (int, int)
        Barrier and bytes of each ``barrier.expect``.
    passed : list of int
        Barrier of each ``barrier.wait`` with a true guard.
    images : list of int
        Addresses of ``rnn``.
    jobs : list of int
        Addresses of ``sparse``.
    waits : list of int or None
        For each instruction the mask of units that it waits for, and above it the number of ``wait_thread``. 0: no ``wait``, or a false
        guard. None: a wait for groups.
    groups : list
        For each instruction None, "commit", or (pending, unread). One of the two is the limit of ``wait_group`` for that number of
        groups; the other is None.
    """

    def __init__(self, cfg: Config) -> None:
        super().__init__(cfg)
        self.state.start = lambda: None         # type: ignore[method-assign]    # predicates belong to the thread unit, which is not modelled
        self.clear()

    def clear(self) -> None:
        """Clears all records."""
        self.thread: list[SimpleNamespace] = []
        self.matrix: list[SimpleNamespace] = []
        self.copy: list[SimpleNamespace] = []
        self.tensor: list[SimpleNamespace] = []
        self.expected: list[tuple[int, int]] = []
        self.passed: list[int] = []
        self.invalidated: list[int] = []
        self.waits: list[int | None] = []
        self.groups: list[Any] = []
        self.images: list[int] = []
        self.jobs: list[int] = []

    def _step(self, pc: int) -> int:
        self._pc = pc
        self.waits.append(0)
        self.groups.append(None)
        return super()._step(pc)

    def _execute_thread(self, operation: SimpleNamespace) -> list[ThreadError]:
        self.thread.append(SimpleNamespace(**vars(operation)))
        return []

    def _execute_matrix(self, operation: SimpleNamespace) -> tuple[list[tuple[ErrorCode, int]], int]:
        self.matrix.append(SimpleNamespace(**vars(operation)))
        return [], 0

    def _execute_recurrent(self, address: int) -> None:
        self.images.append(address)

    def _execute_sparse(self, address: int) -> None:
        self.jobs.append(address)

    def _execute_copy(self, operation: SimpleNamespace, state: ThreadState) -> None:
        operation.pc = self._pc
        self.copy.append(SimpleNamespace(**vars(operation)))

    def _execute_tensor(self, operation: SimpleNamespace, state: ThreadState) -> tuple[int, None]:
        operation.pc = self._pc
        self.tensor.append(SimpleNamespace(**vars(operation)))
        return 0, None

    def _named(self, mask: int) -> list[CopyInstructions]:
        return [self]       # an operation is recorded once

    def _invalidate_descriptor(self, instruction: SimpleNamespace) -> None:
        self.invalidated.append(int(self.uniform[instruction.a]))

    def _wait(self, instruction: SimpleNamespace) -> None:
        for_thread = instruction.units >> WaitUnit.THREAD.value & 1
        self.waits[-1] = instruction.units | (instruction.unfinished << len(WaitUnit) if for_thread else 0)

    def _commit_group(self, instruction: SimpleNamespace) -> None:
        self.groups[-1], self.waits[-1] = "commit", None

    def _wait_group(self, instruction: SimpleNamespace) -> None:
        self.groups[-1] = (None, instruction.imm) if instruction.read else (instruction.imm, None)
        self.waits[-1] = None

    def _barrier_expect(self, instruction: SimpleNamespace) -> None:
        self.expected.append((instruction.a, self._b(instruction)))

    def _barrier_wait(self, instruction: SimpleNamespace) -> None:
        self.passed.append(instruction.a)
