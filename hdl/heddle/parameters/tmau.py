"""Group ``tmau``: copies."""

from dataclasses import dataclass

from amaranth.utils import ceil_log2

from .group import ConfigError
from .memory import MemoryGroup

__all__ = ["TmauGroup", "TmauParameters"]


@dataclass(frozen=True, kw_only=True)
class TmauGroup(MemoryGroup):
    """Table ``tmau``: copies that the TMAU has.

    Parameters
    ----------
    multicast : bool
        Loads may write the shared memories of several cores at once (``.multicast``); requires ``cores`` of at least 2.
    tensors : bool
        The TMAU also copies boxes of tensors.
    tensor_im2col : bool
        Tensor copies also have the im2col mode.
    tensor_floats : bool
        Loads of tensors also round to TF32.
    tensor_interleave, tensor_strides, tensor_nan : bool
        Tensors may have interleaved channel slices; traversal strides other than 1; fill by NaN.
    copy_within : bool
        ``copy_block`` also copies within shared memory and within global memory.
    copy_swizzles : bool
        Copies may swizzle: permute the 16-byte blocks of the rows of shared memory.
    copy_queue : int
        Depth of the instruction queue of the TMAU (2 to 16).
    """

    multicast: bool = False
    tensors: bool = False
    tensor_im2col: bool = True
    tensor_floats: bool = True
    tensor_interleave: bool = True
    tensor_strides: bool = True
    tensor_nan: bool = True
    copy_within: bool = False
    copy_swizzles: bool = True
    copy_queue: int = 8

    def _check(self) -> None:
        """Raises ``ConfigError`` where a value violates a rule."""
        self._between("copy_queue", 2, 16)
        if self.multicast and self.cores == 1:
            raise ConfigError("multicast must be false with cores = 1, not True")

    @property
    def tmau_slices(self) -> int:
        """Register slices in the wiring of the TMAU: one before the load engine, one behind the reads of the store engine."""
        return int(self.far_registers)

    @property
    def tag_bits(self) -> int:
        """Bits of the request tag of a client.

        With ``tensors`` two tags behind those of the reads serve the halves of a descriptor. With ``copy_within`` one more bit
        separates copies within a memory.
        """
        return max(ceil_log2(self.axi_reads + 2 * self.tensors), ceil_log2(self.axi_writes), 1) + self.copy_within

    @property
    def axi_id_bits(self) -> int:
        """Bits of an AXI ID: a client number (one bit) above the tag of the client."""
        return self.tag_bits + 1


@dataclass(frozen=True, kw_only=True)
class TmauParameters(TmauGroup):
    """What the TMAU takes: core, memory and its group, and what it asks of the L2 cache."""

    l2_kib: int
    reductions: bool
    reduction_floats: bool
    prefetches: bool
    prefetched_blocks: int
    transfer_blocks: int
