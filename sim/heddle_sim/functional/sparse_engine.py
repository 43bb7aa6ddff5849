"""Sparse instructions of the functional simulator: run the model of the sparse engine."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
from heddle.config import Config
from heddle.constants import FIRST_FACTOR_REGISTER

from ..golden.sparse_engine import EngineRegisters, SparseFault, sparse_run
from ..golden.thread import ThreadState
from .run_result import ProgramStop

__all__ = ["SparseInstructions"]


class SparseInstructions:
    """Mixin of ``FunctionalSimulator``: a job is done when its instruction has executed. Product registers are not modelled: the engine
    changes r0 to r15, whose values are then undefined. What jobs keep beside the factor registers is ``sparse_registers``.
    """

    cfg: Config
    state: ThreadState
    uniform: np.ndarray
    _counts: Counter[str]
    sparse_registers: EngineRegisters | None = None

    def _sparse(self, instruction: SimpleNamespace) -> None:
        self._execute_sparse(int(self.uniform[instruction.a]))

    def _wait_sparse(self, instruction: SimpleNamespace) -> None:
        """No effect: all jobs are done."""

    def _execute_sparse(self, address: int) -> None:
        cfg, registers = self.cfg, self.state.registers
        factors = np.ascontiguousarray(registers[:, FIRST_FACTOR_REGISTER:]).view(np.uint8)
        if self.sparse_registers is None:
            self.sparse_registers = EngineRegisters.of(cfg)
        self.sparse_registers.factors = factors.reshape(cfg.threads, cfg.factor_words, cfg.dot)
        try:
            self._counts["sparse_elements"] += sparse_run(cfg, self.sparse_registers, self.state.shared, address)
        except SparseFault as fault:
            raise ProgramStop(fault.code, fault.operand) from None
        finally:
            registers[:, FIRST_FACTOR_REGISTER:] = factors.reshape(cfg.threads, -1).view(np.uint32)
