"""Recurrent instruction of the functional simulator: runs the model of the recurrent engine."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
from heddle.config import Config
from heddle.constants import FIRST_FACTOR_REGISTER, PRODUCT_REGISTERS

from ..golden.recurrent_engine import EngineFault, EngineState, engine_run
from ..golden.thread import ThreadState
from .run_result import ProgramStop

__all__ = ["COUNTS", "RecurrentInstruction"]

COUNTS = ("rnn_skipped", "rnn_elements", "rnn_multiplied")      # skipped columns; vector elements; nonzero vector elements


class RecurrentInstruction:
    """Mixin of ``FunctionalSimulator``: the engine uses thread registers and shared memory; its other state is ``engine``."""

    cfg: Config
    state: ThreadState
    uniform: np.ndarray
    _counts: Counter[str]
    engine: EngineState | None = None

    def _recurrent(self, instruction: SimpleNamespace) -> None:
        self._execute_recurrent(int(self.uniform[instruction.a]))

    def _execute_recurrent(self, address: int) -> None:
        cfg, registers = self.cfg, self.state.registers
        if self.engine is None:
            self.engine = EngineState.for_config(cfg)
        factors = np.ascontiguousarray(registers[:, FIRST_FACTOR_REGISTER:]).view(np.int8)
        self.engine.factors = factors.reshape(cfg.threads, cfg.factor_words, cfg.dot)
        self.engine.products = registers[:, :PRODUCT_REGISTERS].view(np.int32).astype(np.int64)
        engine = self.engine
        before = engine.skipped, engine.elements, engine.multiplied
        try:
            engine_run(cfg, self.engine, self.state.shared, address)
        except EngineFault as fault:
            raise ProgramStop(fault.code, fault.operand) from None
        finally:
            for name, count, old in zip(COUNTS, (engine.skipped, engine.elements, engine.multiplied), before):
                self._counts[name] += count - old
            registers[:, :PRODUCT_REGISTERS] = self.engine.products.astype(np.int32).view(np.uint32)
