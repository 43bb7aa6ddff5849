"""Group ``memory``: shared memory and the port to global memory."""

from dataclasses import dataclass

from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, BANKS, LINE_BYTES, ROW_BYTES
from .core import CoreGroup
from .group import ConfigError

__all__ = ["MemoryGroup", "MemoryParameters"]


@dataclass(frozen=True, kw_only=True)
class MemoryGroup(CoreGroup):
    """Table ``memory``: shared memory of a core and its AXI port.

    Parameters
    ----------
    shared_memory_kib : int
        Shared memory of a core in KiB, a power of two from 4 to 1024.
    shared_writes : int
        Words of 16 bytes written to the shared memory of a core per cycle at most: 1, on one bus for all banks, or 8, one for each
        bank. 1 requires ``axi_data_bits`` of at most 128.
    bank_patience : int
        Cycles that a request to shared memory waits at most before it is served alone, a power of two from 2 to 1024.
    axi_data_bits : int
        Width of the AXI data bus (64, 128, 256 or 512).
    axi_address_bits : int
        Width of an AXI byte address (16 to 32).
    axi_reads, axi_writes : int
        Outstanding read and write requests of the TMAU (2 to 128).
    """

    shared_memory_kib: int = 128
    shared_writes: int = 8
    bank_patience: int = 64
    axi_data_bits: int = 256
    axi_address_bits: int = 32
    axi_reads: int = 96
    axi_writes: int = 32

    def _check(self) -> None:
        """Raises ``ConfigError`` where a value violates a rule."""
        self._one_of("axi_data_bits", (64, 128, 256, 512))
        self._one_of("shared_writes", (1, 8))
        self._power("bank_patience", 2, 1024)
        if self.shared_writes == 1 and self.axi_data_bits > 8 * BANK_BYTES:
            raise ConfigError(f"shared_writes must be {BANKS} with axi_data_bits = {self.axi_data_bits}, not 1")
        self._power("shared_memory_kib", 4, 1024)
        self._between("axi_address_bits", 16, 32)
        self._between("axi_reads", 2, 128)
        self._between("axi_writes", 2, 128)

    @property
    def shared_bytes(self) -> int:
        return self.shared_memory_kib * 1024

    @property
    def shared_address_bits(self) -> int:
        return exact_log2(self.shared_bytes)

    @property
    def shared_rows(self) -> int:
        return self.shared_bytes // ROW_BYTES

    @property
    def row_bits(self) -> int:
        return exact_log2(self.shared_rows)

    @property
    def axi_bytes(self) -> int:
        return self.axi_data_bits // 8

    @property
    def line_beats(self) -> int:
        """Beats of a line of the L2 cache."""
        return LINE_BYTES // self.axi_bytes


@dataclass(frozen=True, kw_only=True)
class MemoryParameters(MemoryGroup):
    """What shared memory, its barriers, the arbiter of global memory and the AXI master take."""

    tag_bits: int
    axi_id_bits: int
    multicast: bool
    l2_kib: int
    reductions: bool
