"""Group ``matrix``: products of the matrix unit."""

from dataclasses import dataclass

from amaranth.utils import exact_log2

from ..constants import MAX_COMPILED_OFFSETS
from .group import ConfigError
from .memory import MemoryGroup
from .thread import ThreadGroup

__all__ = ["DatapathParameters", "MatrixGroup", "MatrixParameters"]


@dataclass(frozen=True, kw_only=True)
class MatrixGroup(ThreadGroup):
    """Table ``matrix``: formats of the products and fetches of B.

    Parameters
    ----------
    mm16 : bool
        The PEs also multiply 16-bit integers, a step in two passes: ``threads * dot / 4`` multiply-accumulates a cycle.
    wide_lanes : bool
        Every other multiplier takes 17 x 17 bit, so that ``mm16`` needs one pass: ``threads * dot / 2`` a cycle. Requires ``mm16``.
    transpose : bool
        ``mm`` also reads B stored in rows of k instead of columns (``.t1``).
    fetch_words : int
        Words of B (``dot`` bytes each) that reach the PEs of a core per cycle at most, for merges of ``mm`` (1, 2, 4, 8 or 16).
    matrix_queue : int
        Depth of the instruction queue of the matrix unit (2 to 16).
    compiled_offsets : int
        Entries of the compiled-offset memory, by which ``mm`` finds the elements of a convolution: 0, or a power of two from 64 to 4096.
    gather_offsets : bool
        The threads also load by compiled offsets (``gather``), with a copy of the memory beside their load-store unit. Requires
        ``compiled_offsets`` and 4 slots and more.
    """

    mm16: bool = True
    wide_lanes: bool = False
    transpose: bool = True
    fetch_words: int = 16
    matrix_queue: int = 8
    compiled_offsets: int = 0
    gather_offsets: bool = False

    def _check(self) -> None:
        """Raises ``ConfigError`` where a value violates a rule."""
        self._one_of("fetch_words", (1, 2, 4, 8, 16))
        self._between("matrix_queue", 2, 16)
        if self.compiled_offsets:
            self._power("compiled_offsets", 64, MAX_COMPILED_OFFSETS)
        if self.wide_lanes and not self.mm16:
            raise ConfigError("wide_lanes must be false with mm16 = False, not True")
        if self.gather_offsets and not (self.compiled_offsets and self.thread_overlap):
            raise ConfigError(f"gather_offsets must be false with compiled_offsets = {self.compiled_offsets} and thread_slots = "
                              f"{self.thread_slots} (at least 64 entries and 4 slots), not True")

    def peak_macs(self, element_bytes: int) -> int:
        """Multiply-accumulates per cycle of the whole device with integers of one or two bytes."""
        return self.peak_macs_per_cycle // (1 if element_bytes == 1 else 2 * self.passes(element_bytes))

    def passes(self, element_bytes: int) -> int:
        """Steps of the PEs for one factor word of integers of one or two bytes."""
        return 1 if element_bytes == 1 or self.wide_lanes else 2

    @property
    def two_passes(self) -> bool:
        """16-bit integers are multiplied byte by byte, in two passes."""
        return self.mm16 and not self.wide_lanes

    @property
    def sum_bits(self) -> int:
        """Bits of the dot product of a PE: ``dot`` products of 9 x 9 bit signed, exact; with ``mm16`` modulo 2^32."""
        return 32 if self.mm16 else 18 + exact_log2(self.dot)

    @property
    def fetch_slots(self) -> int:
        """Words of B that are fetched together, at most the positions of a group."""
        return min(self.fetch_words, self.positions)

    @property
    def byte_entries(self) -> bool:
        """Whether ``mm`` takes an entry of the compiled-offset memory for each byte of a word."""
        return self.compiled_offsets > 0 and self.fetch_slots >= self.dot

    @property
    def offset_words(self) -> int:
        """Words of ``dot`` bytes of the compiled-offset memory, 4 bytes an entry."""
        return 4 * self.compiled_offsets // self.dot

    @property
    def piece_slots(self) -> int:
        """Rows of transposed B that are fetched together, 16 bytes of each."""
        return min(self.fetch_slots, self.dot)


@dataclass(frozen=True, kw_only=True)
class DatapathParameters(MatrixGroup):
    """What the PEs take: core, thread groups and formats, and what the engines add to a PE."""

    element_bits: int
    engine_element_bits: int
    rnn: bool
    rnn_tap_registers: int
    sparse: bool


@dataclass(frozen=True, kw_only=True)
class MatrixParameters(DatapathParameters, MemoryGroup):
    """What the matrix unit takes: what its PEs take, memory, how the fetch of B meets its banks, and which tiles are swizzled."""

    copy_swizzles: bool
    tensors: bool
