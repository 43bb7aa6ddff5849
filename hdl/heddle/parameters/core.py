"""Group ``core``: the geometry that nearly all units share."""

from dataclasses import dataclass

from amaranth.utils import ceil_log2, exact_log2

from ..constants import FIRST_FACTOR_REGISTER, REGISTER_BITS
from .group import ConfigError, Parameters

__all__ = ["CoreGroup"]


@dataclass(frozen=True, kw_only=True)
class CoreGroup(Parameters):
    """Table ``core``: number and geometry of the cores.

    Parameters
    ----------
    cores : int
        Number of cores (1 to 16), each with its own shared memory, TMAU and AXI port.
    threads : int
        Threads of a core, one PE each (8, 16, 32 or 64).
    dot : int
        Multipliers of a PE: elements of k that one step consumes (4, 8 or 16).
    factor_words : int
        Depth of the factor register file of a PE in words of ``dot`` bytes, a power of two from 32 to 8192. ``factor_words * dot / 4``
        register numbers must fit the 12-bit register field.
    far_registers : bool
        Register stages between units and in front of the PEs, for chips that a signal does not cross in a cycle. Latencies grow by
        cycles; steps of ``mm`` and beats of copies remain one a cycle.
    """

    cores: int = 1
    threads: int = 32
    dot: int = 8
    factor_words: int = 1024
    far_registers: bool = False

    def _check(self) -> None:
        """Raises ``ConfigError`` where a value violates a rule."""
        self._one_of("threads", (8, 16, 32, 64))
        self._one_of("dot", (4, 8, 16))
        self._power("factor_words", 32, 8192)
        self._between("cores", 1, 16)
        last = FIRST_FACTOR_REGISTER + self.factor_registers
        if last > 1 << REGISTER_BITS:
            raise ConfigError(
                f"factor_words must be at most {((1 << REGISTER_BITS) - FIRST_FACTOR_REGISTER) * 4 // self.dot} "
                f"with dot = {self.dot} (register numbers have {REGISTER_BITS} bits), not {self.factor_words}")

    @property
    def core_bits(self) -> int:
        """Bits of a core number, at least one."""
        return max(ceil_log2(self.cores), 1)

    @property
    def tile_scheduler(self) -> bool:
        """Whether there is a tile scheduler: with several cores."""
        return self.cores > 1

    @property
    def peak_macs_per_cycle(self) -> int:
        """8-bit multiply-accumulates per cycle of the whole device."""
        return self.cores * self.threads * self.dot

    @property
    def thread_bits(self) -> int:
        return exact_log2(self.threads)

    @property
    def word_bits(self) -> int:
        """Bits of a factor word, and of the broadcast word of B: ``dot`` bytes."""
        return 8 * self.dot

    @property
    def positions(self) -> int:
        """PEs of the largest group that merges of ``mm`` form."""
        return min(16, self.threads)

    @property
    def word_index_bits(self) -> int:
        """Bits of the number of a word of ``dot`` bytes in a column of B: 16 slices of four words, or of one word for each thread."""
        return 4 + max(2, self.thread_bits)

    @property
    def numbers_per_word(self) -> int:
        """32-bit register numbers per factor word."""
        return self.dot // 4

    @property
    def factor_registers(self) -> int:
        """32-bit register numbers of the factor register file of a PE."""
        return self.factor_words * self.dot // 4

    @property
    def registers(self) -> int:
        """Existing register numbers: product registers, then factor registers."""
        return FIRST_FACTOR_REGISTER + self.factor_registers

    @property
    def factor_address_bits(self) -> int:
        return exact_log2(self.factor_words)
