"""Rehearsal of operations: everything but the run, so that what a device refuses is found before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from heddle.config import Config
from heddle.errors import HeddleError

from ..device import Device, Stats
from ..isa.program import Program
from .errors import Refusal
from .graph import Tensor
from .operations import DeviceOperation

__all__ = ["Rehearsal"]


class Rehearsal(Device):
    """A device that checks and plans operations, and places their operands, but executes no program.

    ``memory_bytes``: of global memory, as of the device that is to run them.
    """

    def __init__(self, config: Config, memory_bytes: int) -> None:
        super().__init__(config, "golden", memory_bytes=memory_bytes)

    def run(self, program: Program | str, uniform: Mapping[int, int] | None = None, macs: int = 0, element_bytes: int = 1) -> Stats:
        """Figures without cycles; the program is not executed."""
        return Stats(None, macs, self.cfg.peak_macs(element_bytes))

    def check(self, operation: DeviceOperation, activations: Sequence[Tensor], results: int = 1) -> Stats:
        """Figures of an operation of a node with ``results``. Raises ``Refusal``: with the message of the device where it refuses the
        operation, and where the operation gives another number of results."""
        arrays = [np.zeros(tensor.shape, tensor.dtype) if tensor.data is None else tensor.data for tensor in activations]
        try:
            found, stats = operation.run(self, arrays)
        except HeddleError as error:
            raise Refusal(str(error)) from None
        if len(found) != results:
            raise Refusal(f"the node must have as many results as Device.{operation.method} ({len(found)}), not {results}")
        return stats
