"""Payloads between the parts of the tensor memory access unit."""

from amaranth.hdl import signed
from amaranth.lib import data, enum
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, MAX_BURST_BYTES
from ..interfaces.layouts import PC_BITS
from ..isa.encoding import Reduction
from ..isa.tensor_descriptor import MAX_RANK, MAX_SPATIAL, Fill, TensorFormat, TensorMode, descriptor_layout
from ..l2.reduction_formats import reduction_members
from .box_walk import box_walk_layout
from .swizzle import swizzle_bits

__all__ = ["BLOCK_BITS", "NO_VIOLATION", "box_layout", "burst_layout", "conversion_members", "Filler", "located_beat_layout",
           "move_layout", "multicast_beat_layout", "multicast_members", "tensor_failure_layout", "tensor_operation_layout",
           "tensor_request_layout", "transfer_layout", "unit_bytes", "units_per_beat", "violation_layout"]

BURST_BLOCKS = MAX_BURST_BYTES // BANK_BYTES

# ``code`` of ErrorCode; 0 is the innermost dimension; the low 32 bits of the value.
violation_layout = data.StructLayout({"code": 7, "dimension": 3, "value": 32})
NO_VIOLATION = 127
BLOCK_BITS = BANK_BYTES.bit_length() - 1        # log2 of the bytes of a block


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


def multicast_members(cfg):
    """Of a copy and its beats: the cores that take what is loaded, all zero where it goes to this core alone."""
    return {"mask": cfg.cores} if cfg.multicast else {}


def unit_bytes(cfg):
    """Bytes of a unit, the smaller of a beat of the AXI bus and a word of a bank."""
    return min(cfg.axi_bytes, BANK_BYTES)


def units_per_beat(cfg):
    return cfg.axi_bytes // unit_bytes(cfg)


class Filler(enum.Enum, shape=2):
    """What elements outside a tensor become: zero, or a NaN of their size."""

    ZERO = 0
    NAN_16 = 1
    NAN_32 = 2
    NAN_64 = 3


def burst_layout(cfg):
    """A burst of global memory and where its beats lie in shared memory.

    Unit i of beat j belongs to unit ``pointer + j * units_per_beat + i`` of shared memory (modulo its size), except for the
    first ``skip_first`` units of the first beat and the last ``skip_last`` units of the last one. With ``swizzle`` a
    block goes to another bank of its row (``swizzle.py``).
    """
    skip_bits = exact_log2(units_per_beat(cfg))
    return data.StructLayout({
        "beat_address": cfg.axi_address_bits - exact_log2(cfg.axi_bytes),
        "beats_minus_one": exact_log2(MAX_BURST_BYTES // cfg.axi_bytes),
        "pointer": cfg.shared_address_bits - exact_log2(unit_bytes(cfg)),
        "skip_first": skip_bits,
        "skip_last": skip_bits,
        "blocks": range(BURST_BLOCKS + 1),
        "ends_transfer": 1,
        "barrier": 4,
        "has_barrier": 1,
        "swizzle": swizzle_bits(cfg),
        "pc": PC_BITS,
        # What lies outside a tensor: all of it (there is no request then), or the last bytes; and what becomes of it.
        **({"outside": 1, "missing_bytes": range(BANK_BYTES), "filler": Filler, "of_tensor": 1} if cfg.tensors else {}),
        **({"prefetch": 1} if cfg.prefetches else {}),      # nothing comes back
        **conversion_members(cfg), **reduction_members(cfg), **multicast_members(cfg),
    })


def transfer_layout(cfg):
    """A checked copy: addresses and size in blocks of 16 bytes, at least one block, all of them in their memories."""
    return data.StructLayout({
        "global_block": cfg.axi_address_bits - BLOCK_BITS,
        "shared_block": cfg.shared_address_bits - BLOCK_BITS,
        "blocks": cfg.transfer_blocks.bit_length(),
        "barrier": 4,
        "has_barrier": 1,
        "swizzle": swizzle_bits(cfg),
        "pc": PC_BITS,
        **({"prefetch": 1} if cfg.prefetches else {}), **reduction_members(cfg), **multicast_members(cfg),
    })


def move_layout(cfg):
    """A checked copy within a memory: blocks of 16 bytes, at least one."""
    return data.StructLayout({
        "in_shared": 1,
        "destination_block": cfg.axi_address_bits - BLOCK_BITS,
        "source_block": cfg.axi_address_bits - BLOCK_BITS,
        "blocks": cfg.axi_address_bits - BLOCK_BITS + 1,
        "barrier": 4,
        "has_barrier": 1,
        "pc": PC_BITS,
        **reduction_members(cfg),
    })


def located_beat_layout(cfg):
    """A beat of read data and where it goes: valid unit i goes to unit ``pointer + i`` of shared memory."""
    burst = burst_layout(cfg)
    return data.StructLayout({
        "data": cfg.axi_data_bits,
        "pointer": burst["pointer"].shape,
        "valid_units": units_per_beat(cfg),
        "tag": cfg.tag_bits,
        "last": 1,
        "error": 1,
        "barrier": 4,
        "has_barrier": 1,
        "swizzle": swizzle_bits(cfg),
        "pc": PC_BITS,
        "beat_address": burst["beat_address"].shape,
        **multicast_members(cfg),
    })


def multicast_beat_layout(cfg):
    """A beat for the shared memories of the cores in ``mask``, with what their barriers are told of it."""
    from .layouts import located_beat_layout

    beat = located_beat_layout(cfg)
    names = ("data", "pointer", "valid_units", "error", "barrier", "has_barrier", "swizzle", "mask")
    return data.StructLayout({name: beat[name].shape for name in names})


def conversion_members(cfg):
    """Of a load: what becomes of its elements."""
    return {"rounds": 1, "flushes": 1} if cfg.tensors and cfg.tensor_floats else {}
