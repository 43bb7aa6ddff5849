"""The instruction of the functional simulator that runs the engine for recurrent networks."""

import numpy as np
from heddle.constants import FIRST_FACTOR_REGISTER, PRODUCT_REGISTERS

from .golden.rnn import EngineFault, EngineState, engine_run
from .run_result import ProgramStop

__all__ = ["RecurrentInstruction"]


class RecurrentInstruction:
    """Part of ``FunctionalSimulator``: the engine works on the thread registers and on shared memory; what else it keeps is ``engine``."""

    engine = None

    def _recurrent(self, instruction):
        self._execute_recurrent(int(self.uniform[instruction.a]))

    def _execute_recurrent(self, address):
        cfg, registers = self.cfg, self.state.registers
        if self.engine is None:
            self.engine = EngineState.for_config(cfg)
        factors = np.ascontiguousarray(registers[:, FIRST_FACTOR_REGISTER:]).view(np.int8)
        self.engine.factors = factors.reshape(cfg.threads, cfg.factor_words, cfg.dot)
        self.engine.products = registers[:, :PRODUCT_REGISTERS].view(np.int32).astype(np.int64)
        try:
            engine_run(cfg, self.engine, self.state.shared, address)
        except EngineFault as fault:
            raise ProgramStop(fault.code, fault.operand) from None
        finally:
            registers[:, :PRODUCT_REGISTERS] = self.engine.products.astype(np.int32).view(np.uint32)
