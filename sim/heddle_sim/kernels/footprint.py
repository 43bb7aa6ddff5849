"""On-chip memory that a convolution takes."""

from __future__ import annotations

from typing import NamedTuple

from .compiled_plan import CompiledConvolutionPlan
from .convolution import ConvolutionKernel
from .depthwise import DepthwiseKernel
from .gathered_convolution import GatheredConvolutionKernel
from .kernel import Kernel
from .parts.offset_window import ENTRY_BYTES

__all__ = ["Footprint", "footprint"]

_REGISTER = 4       # bytes


class Footprint(NamedTuple):
    """Bytes: of ``shared`` memory up to the end of the last region; of the ``factors`` registers of all lanes; of the memory of compiled
    ``offsets``."""

    shared: int
    factors: int
    offsets: int


def footprint(kernel: Kernel) -> Footprint:
    """What the kernel of a convolution takes.

    Factor registers hold pixels (depthwise, gather, im2col) or weights (compiled), and the places of the columns. They hold these twice
    where one half is loaded while ``mm`` reads the other, and two parts of those that are streamed.
    """
    cfg = kernel.cfg
    if isinstance(kernel, CompiledConvolutionPlan):
        weights = cfg.dot * (2 * kernel.part_words if kernel.streamed else kernel.words * (2 if kernel.halves else 1))
        shared = kernel.slab + kernel.slab_bytes * min(kernel.bands, kernel.band_places)
        entries = kernel.entries.resident + kernel.entries.window
        return Footprint(shared, cfg.threads * (weights + 2 * _REGISTER), ENTRY_BYTES * entries)
    if isinstance(kernel, GatheredConvolutionKernel):
        return Footprint(kernel.shared_end, cfg.threads * (2 * kernel.row_bytes + _REGISTER), ENTRY_BYTES * kernel.elements)
    if isinstance(kernel, DepthwiseKernel):
        return Footprint(kernel.shared_end, kernel.panel_rows(kernel.rows) * cfg.sparse_columns, 0)
    assert isinstance(kernel, ConvolutionKernel), f"kernel must be that of a convolution, not {type(kernel).__name__}"
    return Footprint(max(kernel.stages) + kernel.stage_bytes, cfg.threads * (2 * kernel.used_bytes + _REGISTER), 0)
