"""Payload layouts and port signatures shared by two or more units; layouts private to a unit are in the unit."""

from amaranth.hdl import signed
from amaranth.lib import data, enum, stream
from amaranth.lib.wiring import In, Out, Signature

from ..constants import BANK_BYTES, BANKS, BARRIERS, PRODUCT_REGISTERS, REGISTER_BITS
from ..isa.compiled_offsets import ENTRY_BITS, OFFSET_BITS, OffsetEntry
from ..isa.encoding import Access, AluFunction, CompareFunction, LoopOrder, OutputUse, Reduction, Space, Swizzle
from ..isa.error_codes import ErrorCode
from ..isa.tensor_descriptor import TensorFormat
from .swizzle import swizzle_bits

__all__ = [
    "PC_BITS", "SHARED_READ_LATENCY", "error_layout", "ErrorStream", "shared_read_layout", "shared_answer_layout",
    "shared_write_layout", "SharedReadPort", "SharedWritePort", "GlobalPort",
    "ThreadKind", "thread_operation_layout", "matrix_operation_layout", "copy_operation_layout", "CopyKind",
    "row_operation_layout", "RegisterPort", "MemoryPort", "read_request_layout", "read_data_layout", "write_request_layout",
    "write_data_layout", "write_response_layout", "barrier_arrival_layout", "OffsetReadPort", "OffsetWritePort", "column_fields",
    "word_number_bits",
]

PC_BITS = 12                # bits of a program counter in error reports, for every configuration
SHARED_READ_LATENCY = 1     # cycles from a read request that is granted at once to its answer


# -- errors ---------------------------------------------------------------------------------

# ``dimension`` of a tensor, 0 the innermost; 0 for errors without a dimension.
error_layout = data.StructLayout({"code": ErrorCode, "pc": PC_BITS, "operand": 32, "dimension": 3})


def ErrorStream():
    """Error stream of a unit: valid for one cycle per error, always ready."""
    return stream.Signature(error_layout, always_ready=True)


# -- shared memory --------------------------------------------------------------------------

def shared_read_layout(cfg):
    """Read request to shared memory: row ``row[b]`` of each bank b of ``bank``, which is not 0."""
    return data.StructLayout({"bank": BANKS, "row": data.ArrayLayout(cfg.row_bits, BANKS)})


# Words of a read request: those of ``bank`` are at ``data``; ``last`` with the last ones of the request.
shared_answer_layout = data.StructLayout({"bank": BANKS, "last": 1, "data": data.ArrayLayout(8 * BANK_BYTES, BANKS)})


def shared_write_layout(cfg):
    """Write request to shared memory: ``data[b]`` to the bytes ``mask[b]`` of row ``row[b]`` of each bank b of ``bank``.

    ``bank`` is not 0. With ``shared_writes`` 1 it has one bit, and row, data and mask have one line for all banks.
    """
    lines = cfg.shared_writes
    return data.StructLayout({
        "bank": BANKS, "row": data.ArrayLayout(cfg.row_bits, lines), "data": data.ArrayLayout(8 * BANK_BYTES, lines),
        "mask": data.ArrayLayout(BANK_BYTES, lines),
    })


def SharedReadPort(cfg):
    """Read port of shared memory, seen from the requester.

    *Ports*:
    request : Out(stream.Signature(shared_read_layout(cfg)))
        Requests.
    answer : In(stream.Signature(shared_answer_layout, always_ready=True))
        Their words, in order: a request has one answer, or several with a part of its banks each.

    *Latency*: ``SHARED_READ_LATENCY`` (1) cycles from the transfer of a request to its answer at least. A requester works with any
    latency.

    *Back-pressure*: ``request.ready`` comes from a register. Answers are never held: a requester has room for what it requests.
    """
    return Signature({
        "request": Out(stream.Signature(shared_read_layout(cfg))),
        "answer": In(stream.Signature(shared_answer_layout, always_ready=True)),
    })


def SharedWritePort(cfg):
    """Write port of shared memory, seen from the requester.

    *Ports*:
    request : Out(stream.Signature(shared_write_layout(cfg)))
        Requests.
    written : In(1)
        The oldest request without this acknowledgement is in memory: a read that is requested in this cycle or later sees it.

    *Latency*: one cycle from the transfer of a request to ``written`` at least. A requester works with any latency.

    *Back-pressure*: ``request.ready`` comes from a register.
    """
    return Signature({"request": Out(stream.Signature(shared_write_layout(cfg))), "written": In(1)})


# -- global memory --------------------------------------------------------------------------

def _burst_members(cfg, tag_bits):
    return {"address": cfg.axi_address_bits, "beats_minus_one": 8, "tag": tag_bits}


def read_request_layout(cfg, tag_bits):
    """Read request: a burst of ``beats_minus_one + 1`` beats from a beat-aligned byte address, never across a multiple of 4 KiB.

    With an L2 cache, ``prefetch`` only loads the lines of the burst into the cache: such a request has no answer.
    """
    return data.StructLayout(_burst_members(cfg, tag_bits) | ({"prefetch": 1} if cfg.l2_kib else {}))


def read_data_layout(cfg, tag_bits):
    return data.StructLayout({"data": cfg.axi_data_bits, "tag": tag_bits, "last": 1, "error": 1})


def write_request_layout(cfg, tag_bits):
    """Write request: a burst as for reads; with ``cfg.reductions`` also the reduction of its bytes with memory.

    A ``reduction`` other than NONE combines elements of ``format``. Only whole elements occur: all bytes of an element have a strobe,
    or none. The pair must be one of ``REDUCTION_FORMATS``; other pairs are not checked and write undefined data.
    """
    return data.StructLayout(_burst_members(cfg, tag_bits)
                             | ({"reduction": Reduction, "format": TensorFormat} if cfg.reductions else {}))


def write_data_layout(cfg):
    return data.StructLayout({"data": cfg.axi_data_bits, "strobe": cfg.axi_bytes, "last": 1})


def write_response_layout(tag_bits):
    return data.StructLayout({"tag": tag_bits, "error": 1})


def GlobalPort(cfg, tag_bits):
    """Client port to global memory, seen from the client: five streams.

    *Ports*:
    read_request : Out(stream.Signature(read_request_layout(cfg, tag_bits)))
        Read bursts.
    read_data : In(stream.Signature(read_data_layout(cfg, tag_bits)))
        Beats of read bursts.
    write_request : Out(stream.Signature(write_request_layout(cfg, tag_bits)))
        Write bursts.
    write_data : Out(stream.Signature(write_data_layout(cfg)))
        Beats of write bursts.
    write_response : In(stream.Signature(write_response_layout(tag_bits)))
        One response per write burst.

    *Order*: answers of different tags arrive in any order, also interleaved; answers of one tag arrive in the order of its requests.
    Write data follow the order of the write requests, and may be valid before or after their request is accepted.
    """
    return _memory_port(cfg, tag_bits, read_request_layout(cfg, tag_bits), write_request_layout(cfg, tag_bits))


def MemoryPort(cfg, tag_bits):
    """Port to global memory behind the L2 cache: a ``GlobalPort`` without prefetch and reduction fields."""
    plain = data.StructLayout(_burst_members(cfg, tag_bits))
    return _memory_port(cfg, tag_bits, plain, plain)


def _memory_port(cfg, tag_bits, read_request, write_request):
    return Signature({
        "read_request": Out(stream.Signature(read_request)),
        "read_data": In(stream.Signature(read_data_layout(cfg, tag_bits))),
        "write_request": Out(stream.Signature(write_request)),
        "write_data": Out(stream.Signature(write_data_layout(cfg))),
        "write_response": In(stream.Signature(write_response_layout(tag_bits))),
    })


# -- thread unit ----------------------------------------------------------------------------

class ThreadKind(enum.Enum, shape=3):
    ALU = 0
    COMPARE = 1
    TID = 2             # dst = thread number; the other special registers are a MOV of ``value``
    LANE_MASK = 3
    LOAD = 4
    STORE = 5


def thread_operation_layout(cfg):
    """Operation of the thread unit; ``swizzle`` is a ``swizzle_field``.

    With ``gather_offsets`` a load may have ``gathers``: it loads ``entries`` plus one elements for each thread, at the places that the
    compiled-offset memory has from ``first_entry`` on, or at address ``padding``; ``element_shift`` is 0.
    """
    return data.StructLayout({
        "kind": ThreadKind,
        "function": AluFunction,
        "compare": CompareFunction,
        "unsigned": 1,
        "access": Access,           # of a load or store; V4 of kind ALU: four registers from a; else B32
        "space": Space,
        "swizzle": swizzle_bits(cfg),   # of the tile in shared memory
        "element_shift": 3,         # thread address = value + (register a << element_shift)
        "guard": 3,
        "guard_negate": 1,
        "dst": REGISTER_BITS,       # register, or predicate number of a compare
        "a": REGISTER_BITS,         # first operand, or offset register
        "b": REGISTER_BITS,         # second operand where b_is_register
        "b_is_register": 1,
        "c": REGISTER_BITS,         # data register of a store
        "value": 32,                # uniform or immediate operand; base address of a load or store
        "pc": PC_BITS,
    } | ({"output": OutputUse} if cfg.output_stage else {}) | (
        {"gathers": 1, "entries": 4, "first_entry": ENTRY_BITS + 1, "padding": OFFSET_BITS} if cfg.gather_offsets else {}))


# -- matrix unit ----------------------------------------------------------------------------

def word_number_bits(cfg):
    """Bits of the number of a factor word, or of a word of the compiled-offset memory."""
    return max(cfg.factor_address_bits, (cfg.offset_words - 1).bit_length() if cfg.compiled_offsets else 0)


def column_fields(cfg):
    """Fields of an operation of the matrix unit that say how it finds its columns of B; none without the parameters.

    ``transpose``: B is stored in rows of k, ``pitch`` bytes apart; slices outermost. ``compiled``: addresses by entries, ``pitch`` is a
    ``uniform_layout``. ``fill``: words go to the compiled-offset memory, from ``factor_word`` on.
    """
    return ({"transpose": 1} if cfg.transpose else {}) | ({"compiled": OffsetEntry, "fill": 1} if cfg.compiled_offsets else {}) | (
        {"pitch": 32} if cfg.transpose or cfg.compiled_offsets else {})


def matrix_operation_layout(cfg):
    """Operation of the matrix unit, one ``mm`` or ``offsets``; column and lane masks are captured at issue. ``swizzle`` is a
    ``swizzle_field``.
    """
    return data.StructLayout({
        "product": 8,                               # product register of column 0
        "factor_word": word_number_bits(cfg),       # first word of the k-slices of A
        "offset_register": cfg.factor_address_bits + cfg.numbers_per_word.bit_length() - 1,  # number - 256
        "base": 32,                                 # shared address of column n = base + (offset << element_shift)
        "element_shift": 3,
        "swizzle": swizzle_bits(cfg),               # of the tile of B
        "columns": cfg.threads,                     # column n is fetched
        "lanes": cfg.threads,                       # row t takes part
        "a_signed": 1,
        "b_signed": 1,
        "k_length": 4,                              # factor words, minus one
        "order": LoopOrder,
        "zero": 1,
        "ka": 2,                                    # PEs that share a row, minus one
        "ka_interleaved": 1,
        "kb": 2,                                    # PEs that share a dot product, minus one
        "kb_destination": 2,
        "lane_sum": 1,                              # all PEs share a dot product; without ka and kb
        "int16": 1,                                 # elements of 16 bits, else of 8
        **column_fields(cfg),
        "pc": PC_BITS,
    })


# -- register access of the thread unit to the PEs ----------------------------------------

def RegisterPort(cfg):
    """Register port of the thread unit to the PEs, seen from the thread unit. Thread g * slots + j belongs to slot j of group g.

    *Ports*:
    read : Out(1)
        Requests a register of all threads of a group.
    read_number : Out(REGISTER_BITS)
        Register number.
    read_group : Out(range(thread_groups))
        Thread group.
    read_pair : Out(1)
        With ``cfg.register_pairs``: requests product registers ``read_number``, which is even, and ``read_number`` + 1.
    read_tap : Out(2)
        With ``cfg.rnn``: 0 reads the register; 1 to 3 read the accumulator of that CAT tap, of number ``read_number`` modulo
        ``rnn_tap_registers``. Only the recurrent engine writes those accumulators.
    read_taps : Out(1)
        With ``cfg.sparse``: requests product register ``read_number``, below 16, and the accumulators of CAT taps 1 to 3 with this number.
    read_grant : In(1)
        Grants the read; combinational.
    read_sums : In(32).array(slots, 4)
        With ``cfg.sparse``: for a read with ``read_taps`` taps 0 to 3 of each slot, in place of ``read_data``; undefined for other reads.
    read_data : In(32).array(slots)
        The registers, for one cycle.
    read_second : In(32).array(slots)
        With ``cfg.register_pairs``: the second registers of pairs, beside ``read_data``; undefined for other reads.
    return_data : Out(word_bits).array(slots)
        Result for each slot.
    return_lanes : Out(threads)
        Threads that capture the lowest 32 bits of ``return_data``, for a later write of a product register.
    write_factor : Out(1)
        Writes ``return_data`` to the factor register file; never refused.
    write_pause : In(1)
        ``write_factor`` is low in the next cycle: another unit waits for the factor register file.
    write_word : Out(factor_address_bits)
        Factor word to write.
    write_parts : Out(numbers_per_word)
        32-bit parts of the word to write.
    write_product : Out(1)
        Writes the captured values to product register ``write_register``; remains high until ``write_grant``.
    write_register : Out(8)
        Product register to write.
    write_lanes : Out(threads)
        Threads of either write.
    write_grant : In(1)
        Grants ``write_product``; combinational. ``mm`` has priority.

    *Latency*: ``cfg.register_read_latency`` cycles from ``read_grant`` to ``read_data``. Reads that are granted in later cycles see a
    write.
    """
    slots = min(cfg.thread_slots, cfg.threads)
    return Signature({
        "read": Out(1),
        "read_number": Out(REGISTER_BITS),
        "read_group": Out(range(cfg.thread_groups)),
        **({"read_pair": Out(1)} if cfg.register_pairs else {}),
        **({"read_tap": Out(2)} if cfg.rnn else {}),
        "read_grant": In(1),
        "read_data": In(32).array(slots),
        **({"read_taps": Out(1), "read_sums": In(32).array(slots, 4)} if cfg.sparse else {}),
        **({"read_second": In(32).array(slots)} if cfg.register_pairs else {}),
        "return_data": Out(cfg.word_bits).array(slots),
        "return_lanes": Out(cfg.threads),
        "write_factor": Out(1), "write_pause": In(1),
        "write_word": Out(cfg.factor_address_bits),
        "write_parts": Out(cfg.numbers_per_word),
        "write_product": Out(1),
        "write_register": Out(PRODUCT_REGISTERS.bit_length() - 1),
        "write_lanes": Out(cfg.threads),
        "write_grant": In(1),
    })


def OffsetWritePort(cfg):
    """Writes of a compiled-offset memory, seen from the writer.

    *Ports*:
    enable : Out(1)
        Writes the entries of a word.
    word : Out(range(offset_words))
        Number of the word.
    data : Out(8 * dot)
        Its entries.
    """
    return Signature({"enable": Out(1), "word": Out(range(cfg.offset_words)), "data": Out(8 * cfg.dot)})


def OffsetReadPort(cfg):
    """Read port for the offsets of the columns of B, one from each PE, seen from the fetch of B.

    *Ports*:
    request : Out(1)
        Requests factor register ``number`` of all PEs as their next offset.
    number : Out(factor_address_bits + log2(numbers_per_word))
        Number of a factor register, counted from register 256.
    grant : In(1)
        Grants the request; combinational.

    *Latency*: the next offset is there two cycles after ``grant``.

    *Back-pressure*: a request without grant must be repeated.
    """
    return Signature({
        "request": Out(1),
        "number": Out(cfg.factor_address_bits + cfg.numbers_per_word.bit_length() - 1),
        "grant": In(1),
    })


# -- copies and barriers --------------------------------------------------------------------

class CopyKind(enum.Enum, shape=4):
    """Requests to the TMAU; other codes are reserved."""

    COPY_BLOCK = 0
    PREFETCH_BLOCK = 1      # blocks from global address ``source`` into the second-level cache


copy_operation_layout = data.StructLayout({
    "kind": CopyKind,
    "destination_space": Space,
    "source_space": Space,
    "destination": 32,
    "source": 32,
    "destination_outside": 1,   # the exact address exceeds 32 bits; ``destination`` is its low part
    "source_outside": 1,
    "blocks": 32,               # of 16 bytes; zero is no operation
    "swizzle": Swizzle,
    "reduction": Reduction,
    "format": 4,                # TensorFormat of the elements of a reduction
    "barrier": 4,
    "has_barrier": 1,
    "mask": 16,                 # destination cores of a multicast load; 0: this core
    "pc": PC_BITS,
})

# Rows of a matrix: ``rows`` operations; signed pitches in bytes from row to row of destination and source.
row_operation_layout = data.StructLayout({
    "first": copy_operation_layout,
    "rows": 32,                 # zero is no operation
    "destination_pitch": signed(32),
    "source_pitch": signed(32),
})



def barrier_blocks_signature():
    """Number of blocks of 16 bytes for a barrier, in a cycle with ``valid``."""
    return Signature({"valid": Out(1), "barrier": Out(range(BARRIERS)), "blocks": Out(28)})


# Bytes that arrived for a barrier; ``remote``: from a copy of another core.
barrier_arrival_layout = data.StructLayout({"barrier": 4, "bytes": 16, "remote": 1})
