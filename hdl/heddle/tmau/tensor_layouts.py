"""What the parts of tensor copies hand to each other."""

from amaranth.hdl import signed
from amaranth.lib import data

from ..constants import BANK_BYTES
from ..interfaces.layouts import PC_BITS
from ..isa.encoding import Reduction
from ..isa.tensor_descriptor import MAX_RANK, MAX_SPATIAL, Fill, TensorFormat, TensorMode, descriptor_layout
from .box_walk import box_walk_layout
from .multicast_port import multicast_members

__all__ = ["BLOCK_BITS", "NO_VIOLATION", "box_layout", "tensor_failure_layout", "tensor_operation_layout",
           "tensor_request_layout", "violation_layout"]

# ``code`` of ErrorCode; 0 is the innermost dimension; the low 32 bits of the value.
violation_layout = data.StructLayout({"code": 7, "dimension": 3, "value": 32})
NO_VIOLATION = 127
BLOCK_BITS = BANK_BYTES.bit_length() - 1


def _request_members():
    return {
        "coordinates": data.ArrayLayout(signed(32), MAX_RANK),
        "offsets": data.ArrayLayout(16, MAX_SPATIAL),
        "shared_address": 32,
        "mode": TensorMode,
        "rank_minus_one": 3,
        "store": 1,
        "prefetch": 1,      # nothing is moved, and the shared address does not count; with ``cfg.prefetches``
        "reduction": Reduction,
        "barrier": 4,
        "has_barrier": 1,
        "mask": 16,         # cores that a multicast load goes to, 0: this one
        "pc": PC_BITS,
    }


def tensor_operation_layout():
    """A tensor copy as it leaves the front end: a request and the address of its descriptor. Arrays are in the descriptor's order,
    dimension 0 first."""
    return data.StructLayout({"address": 32, "request": data.StructLayout(_request_members())})


def tensor_request_layout():
    """A request with its descriptor, which could not be read when ``descriptor_error`` is set."""
    return data.StructLayout({"descriptor": descriptor_layout, "descriptor_address": 32, "descriptor_error": 1, **_request_members()})


def tensor_failure_layout():
    return data.StructLayout({"violation": violation_layout, "pc": PC_BITS})


def box_layout(cfg):
    """A checked box.

    Of each row of ``row_blocks`` blocks of 16 bytes the first ``left_blocks`` lie outside the tensor, and so do those from ``inside_end``
    on and the last ``missing_bytes`` of the block before; ``walk`` has the block of global memory at which the row would begin.
    """
    shared_blocks = cfg.shared_address_bits - BLOCK_BITS
    return data.StructLayout({
        "walk": box_walk_layout(cfg),
        "row_blocks": 8,
        "left_blocks": 8,
        "inside_end": 9,
        "missing_bytes": 4,
        "shared_block": shared_blocks,
        "bytes": cfg.shared_address_bits + 1,
        "swizzle": 2,
        "format": TensorFormat,
        "fill": Fill,
        "store": 1,
        **({"prefetch": 1} if cfg.prefetches else {}),
        "reduction": Reduction,
        "barrier": 4,
        "has_barrier": 1,
        "pc": PC_BITS,
        **multicast_members(cfg),
    })
