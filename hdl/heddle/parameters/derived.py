"""Derived parameters that follow from several groups."""

from dataclasses import dataclass

from ..constants import BANK_BYTES
from .front_end import FrontEndGroup
from .l2 import L2Group
from .matrix import MatrixGroup
from .slices import SlicesGroup
from .sparse import SparseGroup
from .thread import ThreadGroup
from .tmau import TmauGroup

__all__ = ["DerivedParameters"]


@dataclass(frozen=True, kw_only=True)
class DerivedParameters(SlicesGroup, SparseGroup, L2Group, TmauGroup, MatrixGroup, ThreadGroup, FrontEndGroup):
    """All groups together, and the derived parameters that follow from several of them. Units take these as values."""

    @property
    def element_bits(self) -> int:
        """Bits of a broadcast element of B, signed."""
        return 17 if self.wide_lanes else self.engine_element_bits if self.rnn else 9

    @property
    def prefetches(self) -> bool:
        """Whether prefetches have an effect."""
        return self.tensors and self.l2_kib > 0

    @property
    def prefetched_blocks(self) -> int:
        """Blocks of 16 bytes that ``prefetch_block`` requests at most: the size of the L2 cache; 0 where prefetches have no effect."""
        return (self.l2_kib << 10) // BANK_BYTES if self.prefetches else 0

    @property
    def transfer_blocks(self) -> int:
        """Blocks of 16 bytes of the largest load, store or prefetch."""
        return max(self.shared_bytes // BANK_BYTES, self.prefetched_blocks)
