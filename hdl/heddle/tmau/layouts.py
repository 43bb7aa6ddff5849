"""Payloads of the streams between the parts of the TMAU."""

from amaranth.lib import data
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, MAX_BURST_BYTES
from ..interfaces.layouts import PC_BITS, SHARED_READ_LATENCY
from ..interfaces.reductions import reduction_members
from ..interfaces.swizzle import swizzle_bits
from ..interfaces.tensor_operation import tensor_operation_layout
from ..isa.encoding import Reduction
from ..isa.tensor_descriptor import Fill, TensorFormat, descriptor_layout
from .box_walk import box_walk_layout

__all__ = ["BLOCK_BITS", "NO_VIOLATION", "WRITES_IN_FLIGHT", "box_layout", "burst_layout", "conversion_members",
           "located_beat_layout", "move_layout", "multicast_beat_layout", "multicast_members", "reads_in_flight", "tensor_failure_layout",
           "tensor_request_layout", "transfer_layout", "unit_bytes", "units_per_beat", "violation_layout"]

BURST_BLOCKS = MAX_BURST_BYTES // BANK_BYTES
WRITES_IN_FLIGHT = 2    # write requests to shared memory without acknowledgement at most: enough for one a cycle at the least latency

# A broken rule: ``code`` of ErrorCode, dimension (0 is the innermost), low 32 bits of the offending value.
violation_layout = data.StructLayout({"code": 7, "dimension": 3, "value": 32})
NO_VIOLATION = 127
BLOCK_BITS = BANK_BYTES.bit_length() - 1        # log2 of the bytes of a block


def tensor_request_layout():
    """Tensor copy with its descriptor; ``descriptor_error``: memory answered the fetch of the descriptor with an error."""
    return data.StructLayout({"descriptor": descriptor_layout, "descriptor_address": 32, "descriptor_error": 1,
                              **tensor_operation_layout()["request"].shape.members})


def tensor_failure_layout():
    return data.StructLayout({"violation": violation_layout, "pc": PC_BITS})


def box_layout(cfg):
    """Checked box of a tensor copy.

    A row has ``row_blocks`` blocks of 16 bytes; in shared memory the next row begins ``pitch_blocks`` blocks after it. Blocks below
    ``left_blocks`` and from ``inside_end`` on lie outside the tensor, as do the last ``missing_bytes`` bytes of block ``inside_end`` - 1.
    ``walk`` has the global block of the row's first block, inside or not.
    ``shared_block`` is the start in shared memory, ``bytes`` the bytes that are moved.
    """
    shared_blocks = cfg.shared_address_bits - BLOCK_BITS
    return data.StructLayout({
        "walk": box_walk_layout(cfg),
        "row_blocks": 8,
        "pitch_blocks": 8,
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
    """Layout member ``mask`` of a copy and its beats: destination cores, zero for this core only; none without ``cfg.multicast``."""
    return {"mask": cfg.cores} if cfg.multicast else {}


def unit_bytes(cfg):
    """Bytes of a unit: the smaller of a beat of the AXI bus and a word of a bank."""
    return min(cfg.axi_bytes, BANK_BYTES)


def units_per_beat(cfg):
    return cfg.axi_bytes // unit_bytes(cfg)


def reads_in_flight(cfg):
    """Read requests to shared memory without their last answer at most: enough for one a cycle at the least latency."""
    return SHARED_READ_LATENCY + cfg.tmau_slices + 1


def burst_layout(cfg):
    """Burst of global memory and the place of its beats in shared memory.

    Unit i of beat j belongs to unit ``pointer + j * units_per_beat + i`` of shared memory, modulo its size. The first ``skip_first``
    units of the first beat and the last ``skip_last`` units of the last beat are not part of the burst. ``swizzle`` exchanges the banks
    of a row. ``blocks``: size in blocks of 16 bytes. ``ends_transfer``: last burst of its transfer. With ``cfg.tensors``: ``outside``
    bursts have no request, and ``missing_bytes`` bytes at the end lie beyond the tensor; ``fill`` replaces both.
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
        # Out of bounds: the whole burst (then without a request), or its last bytes; kind of fill.
        **({"outside": 1, "missing_bytes": range(BANK_BYTES), "fill": Fill, "of_tensor": 1} if cfg.tensors else {}),
        **({"prefetch": 1} if cfg.prefetches else {}),      # no answer
        **conversion_members(cfg), **reduction_members(cfg), **multicast_members(cfg),
    })


def transfer_layout(cfg):
    """Checked block copy: addresses and size in blocks of 16 bytes; at least one block, all inside their memories."""
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
    """Checked copy within a memory, for a local DMA channel: addresses and size in blocks of 16 bytes, at least one block."""
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
    """Beat of read data with its place: valid unit i belongs to unit ``pointer + i`` of shared memory.

    ``tag`` is the entry of the transaction table, ``last`` marks the burst's last beat; ``beat_address`` and ``pc`` serve errors.
    """
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
    """Beat of a multicast load for the shared memories of the cores in ``mask``, with the fields of its barrier update."""
    beat = located_beat_layout(cfg)
    names = ("data", "pointer", "valid_units", "error", "barrier", "has_barrier", "swizzle", "mask")
    return data.StructLayout({name: beat[name].shape for name in names})


def conversion_members(cfg):
    """Layout member ``rounds`` of a load that converts floats; none without ``cfg.tensor_floats``."""
    return {"rounds": 1} if cfg.tensors and cfg.tensor_floats else {}
