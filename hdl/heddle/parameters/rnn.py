"""Group ``rnn``: recurrent engine."""

from dataclasses import dataclass

from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, PRODUCT_REGISTERS
from .memory import MemoryGroup
from .thread import ThreadGroup

__all__ = ["RnnGroup", "RnnParameters"]


@dataclass(frozen=True, kw_only=True)
class RnnGroup(ThreadGroup):
    """Table ``rnn``: recurrent engine.

    Parameters
    ----------
    rnn : bool
        The recurrent engine exists. The PEs then multiply 9 x 16 bit and have up to four CAT taps each.
    rnn_contexts : int
        Contexts of the recurrent engine: tasks that are interleaved (1, 2, 4 or 8).
    rnn_elements : int
        Vector memory of the recurrent engine in elements of 16 bits, a power of two from 256 to 65536.
    rnn_records : int
        Depth of its tables of matrix-vector passes and of tail operations, a power of two from 8 to 256.
    rnn_tap_registers : int
        Accumulators of each CAT tap of a PE but the first, a power of two from 16 to 256. Most of the area that
        the engine adds to a PE is in these accumulators. Layers that need more use one dot product per PE.
    rnn_differences : bool
        Delta threshold: the engine can multiply differences to a reference vector and skip small ones. The PEs then multiply 9 x 17
        bit.
    """

    rnn: bool = False
    rnn_contexts: int = 4
    rnn_elements: int = 8192
    rnn_records: int = 32
    rnn_tap_registers: int = 64
    rnn_differences: bool = False

    def _check(self) -> None:
        """Raises ``ConfigError`` where a value violates a rule."""
        self._one_of("rnn_contexts", (1, 2, 4, 8))
        self._power("rnn_elements", 256, 65536)
        self._power("rnn_records", 8, 256)
        self._power("rnn_tap_registers", 16, PRODUCT_REGISTERS)

    @property
    def engine_element_bits(self) -> int:
        """Bits of an element that the recurrent engine multiplies, signed: of a vector, or of a difference to the reference vector."""
        return 16 + self.rnn_differences

    @property
    def tail_lanes(self) -> int:
        """Lanes of the activation pipeline: sums that it accepts in a cycle, those of one thread group."""
        return min(self.thread_slots, self.threads)

    @property
    def engine_sum_latency(self) -> int:
        """Cycles from a step of the recurrent engine to the first register read that sees its sums."""
        return 4 + exact_log2(self.dot)

    @property
    def vector_lanes(self) -> int:
        """Elements of a word of vector memory, at least the 8 elements of a word of shared memory."""
        return max(self.dot, self.tail_lanes, BANK_BYTES // 2)


@dataclass(frozen=True, kw_only=True)
class RnnParameters(RnnGroup, MemoryGroup):
    """What the recurrent engine takes: core, thread groups, memory and its group."""
