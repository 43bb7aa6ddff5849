"""Group ``sparse``: sparse engine."""

from dataclasses import dataclass

from amaranth.utils import exact_log2

from ..constants import BANKS
from .group import ConfigError
from .memory import MemoryGroup
from .rnn import RnnGroup

__all__ = ["OPERAND_WORDS", "SPARSE_SLOTS", "SparseGroup", "SparseParameters"]

SPARSE_SLOTS = 8        # lanes whose sums, 16 bytes each, fill a row of shared memory
OPERAND_WORDS = 8       # factor words of a row of A of a sampled product, at most


@dataclass(frozen=True, kw_only=True)
class SparseGroup(RnnGroup):
    """Table ``sparse``: sparse engine.

    Parameters
    ----------
    sparse : bool
        The sparse engine exists. Requires ``rnn``, whose CAT taps it uses, 8 ``thread_slots`` and 8 ``shared_writes``.
    """

    sparse: bool = False

    def _check(self) -> None:
        """Raises ``ConfigError`` where a value violates a rule."""
        if self.sparse and not (self.rnn and self.thread_slots == SPARSE_SLOTS and self.shared_writes == BANKS):
            raise ConfigError(f"sparse must be false with rnn = {self.rnn}, thread_slots = {self.thread_slots} and shared_writes = "
                              f"{self.shared_writes} (True, {SPARSE_SLOTS} and {BANKS}), not True")

    @property
    def sparse_columns(self) -> int:
        """Columns of a panel of B: four of each PE."""
        return 4 * self.threads

    @property
    def sparse_rows(self) -> int:
        """Rows of a panel of B that the factor register files hold."""
        return self.factor_words * self.dot // 4

    @property
    def sample_latency(self) -> int:
        """Cycles from a step of a sampled product to its sum over all PEs."""
        return 5 + exact_log2(self.dot) + exact_log2(self.threads // 4) + 2 * self.lane_slices

    @property
    def sparse_pairs(self) -> int:
        """Non-zeros that a step multiplies at most: one for each port of the factor register file, and for four multipliers of a PE."""
        return min(2, self.dot // 4)


@dataclass(frozen=True, kw_only=True)
class SparseParameters(SparseGroup, MemoryGroup):
    """What the sparse engine takes: core, thread groups, memory, the recurrent engine's taps and its group."""
