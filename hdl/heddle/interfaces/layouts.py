"""Payloads and port signatures shared by two or more units; a unit's private layouts stay in the unit."""

from amaranth.hdl import signed
from amaranth.lib import data, enum, stream
from amaranth.lib.wiring import In, Out, Signature

from ..constants import BANK_BYTES, BANKS, BARRIERS, PRODUCT_REGISTERS, REGISTER_BITS
from ..isa.encoding import Access, AluFunction, CompareFunction, LoopOrder, Reduction, Space, Swizzle
from ..isa.error_codes import ErrorCode
from ..isa.tensor_descriptor import TensorFormat

__all__ = [
    "PC_BITS", "SHARED_READ_LATENCY", "error_layout", "ErrorStream", "BankReadPort", "BankWritePort", "GlobalPort",
    "ThreadKind", "thread_operation_layout", "matrix_operation_layout", "copy_operation_layout", "CopyKind",
    "row_operation_layout", "RegisterPort", "MemoryPort", "read_request_layout", "read_data_layout", "write_request_layout",
    "write_data_layout", "write_response_layout", "barrier_arrival_layout",
]

PC_BITS = 12                # a program counter in messages, for every configuration
SHARED_READ_LATENCY = 1     # cycles from a granted bank read to its data


# -- errors ---------------------------------------------------------------------------------

# ``dimension`` of a tensor, 0 the innermost; 0 where the error has none.
error_layout = data.StructLayout({"code": ErrorCode, "pc": PC_BITS, "operand": 32, "dimension": 3})


def ErrorStream():
    """Errors of a unit: valid for one cycle each, never held back."""
    return stream.Signature(error_layout, always_ready=True)


# -- shared memory --------------------------------------------------------------------------

def BankReadPort(cfg):
    """Read requests to the banks of shared memory, seen from the requester.

    ``request`` bit b asks for row ``row[b]`` of bank b; ``grant`` (combinational, same cycle) says which were taken.
    ``data[b]`` holds the word of bank b exactly ``SHARED_READ_LATENCY`` cycles after the cycle of its grant.
    """
    return Signature({
        "request": Out(BANKS),
        "row": Out(cfg.row_bits).array(BANKS),
        "grant": In(BANKS),
        "data": In(8 * BANK_BYTES).array(BANKS),
    })


def BankWritePort(cfg):
    """Write requests to the banks of shared memory, seen from the requester.

    A granted write is visible to reads granted in later cycles. ``mask[b]`` enables the bytes.
    """
    return Signature({
        "request": Out(BANKS),
        "row": Out(cfg.row_bits).array(BANKS),
        "data": Out(8 * BANK_BYTES).array(BANKS),
        "mask": Out(BANK_BYTES).array(BANKS),
        "grant": In(BANKS),
    })


# -- global memory --------------------------------------------------------------------------

def _burst_members(cfg, tag_bits):
    return {"address": cfg.axi_address_bits, "beats_minus_one": 8, "tag": tag_bits}


def read_request_layout(cfg, tag_bits):
    """A burst of ``beats_minus_one + 1`` beats from a beat-aligned address, never across a multiple of 4 KiB.

    Where there is a second-level cache, ``prefetch`` asks for nothing but that it holds the lines: there is no answer.
    """
    return data.StructLayout(_burst_members(cfg, tag_bits) | ({"prefetch": 1} if cfg.l2_kib else {}))


def read_data_layout(cfg, tag_bits):
    return data.StructLayout({"data": cfg.axi_data_bits, "tag": tag_bits, "last": 1, "error": 1})


def write_request_layout(cfg, tag_bits):
    """A burst, as for reads; with ``cfg.reductions`` what becomes of its bytes together with those of memory.

    ``reduction`` other than NONE combines the elements of ``format``, of which there are whole ones only (all bytes of an element
    have a strobe, or none). The pair is one of ``REDUCTION_FORMATS``; other pairs are not checked here and write anything.
    """
    return data.StructLayout(_burst_members(cfg, tag_bits)
                             | ({"reduction": Reduction, "format": TensorFormat} if cfg.reductions else {}))


def write_data_layout(cfg):
    return data.StructLayout({"data": cfg.axi_data_bits, "strobe": cfg.axi_bytes, "last": 1})


def write_response_layout(tag_bits):
    return data.StructLayout({"tag": tag_bits, "error": 1})


def GlobalPort(cfg, tag_bits):
    """A client's port to global memory, seen from the client; all members are streams.

    Answers of different tags come in any order, also interleaved; answers of one tag in the order of its requests.
    Write data follow the order of the write requests and may start before or after their request is taken.
    """
    return _memory_port(cfg, tag_bits, read_request_layout(cfg, tag_bits), write_request_layout(cfg, tag_bits))


def MemoryPort(cfg, tag_bits):
    """A ``GlobalPort`` behind the second level, which takes what is not for memory out of the requests."""
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
    TID = 2             # dst = thread number; the other special registers arrive as MOV of ``value``
    LANE_MASK = 3
    LOAD = 4
    STORE = 5


thread_operation_layout = data.StructLayout({
    "kind": ThreadKind,
    "function": AluFunction,
    "compare": CompareFunction,
    "unsigned": 1,
    "access": Access,           # of a load or store; V4 of kind ALU: four registers from a; else B32
    "space": Space,
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
})


# -- matrix unit ----------------------------------------------------------------------------

def matrix_operation_layout(cfg):
    """One ``mm``; column and lane masks are captured at issue."""
    return data.StructLayout({
        "product": 8,                               # product register of column 0
        "factor_word": cfg.factor_address_bits,     # first word of the k-slices of A
        "offset_register": cfg.factor_address_bits + cfg.numbers_per_word.bit_length() - 1,  # number - 256
        "base": 32,                                 # shared address of column n = base + (offset << element_shift)
        "element_shift": 3,
        "columns": cfg.threads,                     # column n is fetched
        "lanes": cfg.threads,                       # row t takes part
        "a_signed": 1,
        "b_signed": 1,
        "k_length": 4,                              # factor words, minus one
        "order": LoopOrder,
        "zero": 1,
        "ka": 2,                                    # lanes that share a row, minus one
        "ka_interleaved": 1,
        "kb": 2,                                    # lanes that share a dot product, minus one
        "kb_destination": 2,
        "lane_sum": 1,                              # all lanes share a dot product; without ka and kb
        "int16": 1,                                 # elements of 16 bits, else of 8
        # B lies in rows of k, ``pitch`` bytes apart; slices outermost, without merges
        **({"transpose": 1, "pitch": 32} if cfg.transpose else {}),
        "pc": PC_BITS,
    })


# -- register access of the thread unit to the lanes ----------------------------------------

def RegisterPort(cfg):
    """The thread unit's access to the registers of the lanes, seen from the thread unit. Thread g * slots + j belongs to slot j of group g.

    Reads: ``read`` asks for register ``read_number`` of the threads of group ``read_group``. ``cfg.register_read_latency`` (2) cycles after
    the cycle with ``read_grant`` (combinational) the registers stand at ``read_data``, for one cycle.

    Results: ``return_data[j]`` is for slot j. ``write_factor`` writes its 32-bit parts ``write_parts`` to word ``write_word`` of the
    factor file, in the lanes of ``write_lanes``; it is never refused. For product registers, the lanes of ``return_lanes`` keep the
    lowest 32 bits; afterwards ``write_product`` writes what the lanes of ``write_lanes`` keep to their register ``write_register``.
    It stays until ``write_grant`` (combinational): ``mm`` goes first.

    Writes are seen by reads that are granted in later cycles.

    With ``cfg.rnn`` a read of a product register with ``read_tap`` other than 0 is one of the accumulator of that tap instead, of number
    ``read_number`` modulo ``rnn_tap_registers``; nothing writes those but the engine for recurrent networks.
    """
    slots = min(cfg.thread_slots, cfg.threads)
    return Signature({
        "read": Out(1),
        "read_number": Out(REGISTER_BITS),
        "read_group": Out(range(cfg.thread_groups)),
        **({"read_tap": Out(2)} if cfg.rnn else {}),
        "read_grant": In(1),
        "read_data": In(32).array(slots),
        "return_data": Out(cfg.word_bits).array(slots),
        "return_lanes": Out(cfg.threads),
        "write_factor": Out(1),
        "write_word": Out(cfg.factor_address_bits),
        "write_parts": Out(cfg.numbers_per_word),
        "write_product": Out(1),
        "write_register": Out(PRODUCT_REGISTERS.bit_length() - 1),
        "write_lanes": Out(cfg.threads),
        "write_grant": In(1),
    })


# -- copies and barriers --------------------------------------------------------------------

class CopyKind(enum.Enum, shape=4):
    """Requests to the tensor memory access unit; others are reserved."""

    COPY_BLOCK = 0
    PREFETCH_BLOCK = 1      # blocks from global address ``source`` into the second-level cache


copy_operation_layout = data.StructLayout({
    "kind": CopyKind,
    "destination_space": Space,
    "source_space": Space,
    "destination": 32,
    "source": 32,
    "destination_outside": 1,   # the exact address does not fit 32 bits; what stands there is its low part
    "source_outside": 1,
    "blocks": 32,               # of 16 bytes; zero is no operation
    "swizzle": Swizzle,
    "reduction": Reduction,
    "format": 4,                # TensorFormat of the elements of a reduction
    "barrier": 4,
    "has_barrier": 1,
    "mask": 16,                 # cores that a multicast load goes to, 0: this one
    "pc": PC_BITS,
})

# Rows of a matrix: ``rows`` operations, each ``destination_pitch`` and ``source_pitch`` bytes (with sign) behind the one before.
row_operation_layout = data.StructLayout({
    "first": copy_operation_layout,
    "rows": 32,                 # zero is no operation
    "destination_pitch": signed(32),
    "source_pitch": signed(32),
})



def barrier_blocks_signature():
    """In a cycle with ``valid``: a number of blocks of 16 bytes for a barrier."""
    return Signature({"valid": Out(1), "barrier": Out(range(BARRIERS)), "blocks": Out(28)})


# ``remote``: bytes of a copy of another core.
barrier_arrival_layout = data.StructLayout({"barrier": 4, "bytes": 16, "remote": 1})
