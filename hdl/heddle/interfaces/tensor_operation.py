"""Tensor copy as the front end issues it to the TMAU."""

from amaranth.hdl import signed
from amaranth.lib import data

from ..isa.encoding import Reduction
from ..isa.tensor_descriptor import MAX_RANK, MAX_SPATIAL, TensorMode
from .layouts import PC_BITS

__all__ = ["tensor_operation_layout"]


def tensor_operation_layout():
    """Tensor copy as issued by the front end: ``request`` and the byte address of its descriptor.

    Arrays have the descriptor's order: dimension 0 (innermost) first.
    """
    return data.StructLayout({"address": 32, "request": data.StructLayout({
        "coordinates": data.ArrayLayout(signed(32), MAX_RANK),
        "offsets": data.ArrayLayout(16, MAX_SPATIAL),
        "shared_address": 32,
        "mode": TensorMode,
        "rank_minus_one": 3,
        "store": 1,
        "prefetch": 1,      # no data are moved and the shared address is ignored; with ``cfg.prefetches``
        "reduction": Reduction,
        "barrier": 4,
        "has_barrier": 1,
        "mask": 16,         # destination cores of a multicast load, 0: this core only
        "pc": PC_BITS,
    })})
