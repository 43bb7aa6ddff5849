"""Payloads and ports between the parts of the sparse engine."""

from amaranth.hdl import signed
from amaranth.lib import data, enum
from amaranth.lib.wiring import In, Out, Signature

from ..constants import BANK_BYTES, BANKS
from ..interfaces.layouts import PC_BITS, RegisterPort
from ..isa.error_codes import ErrorCode
from ..isa.sparse_job import ELEMENTS_OF_WORD, STRIP_ROWS, SUM_BYTES, PanelTarget, sparse_job_layout

__all__ = ["BLOCK_BITS", "COLUMN_BITS", "COUNT_BITS", "PIECE_BITS", "ROWS_INSIDE", "SAMPLES_INSIDE", "SUMS_BITS", "SUMS_OF_WORD",
           "WORD_BITS", "Client", "ItemKind", "PanelPort", "SparseRegisterPort", "WordAnswerPort", "checked_job_layout",
           "drain_entry_layout", "element_layout", "extent_layout", "item_layout", "left_row_layout", "piece_layout", "result_layout",
           "sample_layout", "sample_word_layout", "vector_layout", "word_request_layout"]

WORD_BITS = 16          # bits of the number of a word of 16 bytes in shared memory
BLOCK_BITS = 20         # bits of the number of a row of 128 bytes, also behind the end of shared memory
COUNT_BITS = 20         # bits of the non-zeros of a row: no more have their indices in shared memory
ROWS_INSIDE = 16        # rows from their first step to the read of their last sums
SAMPLES_INSIDE = 32     # elements of sampled products from the choice of their last step to the write of their sum
SUMS_BITS = 4           # bits of the number of an accumulator
SUMS_OF_WORD = BANK_BYTES // SUM_BYTES
COLUMN_BITS = STRIP_ROWS.bit_length() - 1       # bits of the number of a row of A in its strip
PIECE_BITS = 2          # bits of the number of 32 bytes of a row of shared memory: the scaled sums of eight PEs


class Client(enum.Enum, shape=3):
    """Part of the engine that reads shared memory, in the order of priority."""

    JOBS = 0
    POINTERS = 1
    VALUES = 2
    INDICES = 3
    PANEL = 4


# Read of a word of 16 bytes; ``pair``: of this word and the next one, ``all``: of it and the seven behind it. They are in one row of the
# banks.
word_request_layout = data.StructLayout({"word": WORD_BITS, "pair": 1, "all": 1})


def WordAnswerPort():
    """Words of shared memory that are read, seen from the reads.

    *Ports*:
    answered : Out(len(Client))
        Part of the engine that gets words in this cycle, one-hot.
    last : Out(1)
        They are the last ones of its request.
    word : Out(128)
        Word of a request without ``pair``.
    halves : Out(128).array(2)
        First and second word of a pair, where ``arrived``; else 0.
    arrived : Out(2)
        Words of the pair that come in this cycle.
    words : Out(128).array(8)
        Words of a request of ``all``, where ``banks``.
    banks : Out(8)
        Banks whose words come in this cycle.
    """
    word = 8 * BANK_BYTES
    return Signature({"answered": Out(len(Client)), "last": Out(1), "word": Out(word), "halves": Out(word).array(2), "arrived": Out(2),
                      "words": Out(word).array(BANKS), "banks": Out(BANKS)})


# Job that was read. With a code other than NONE it has an error, and ``job`` is undefined.
checked_job_layout = data.StructLayout({"pc": PC_BITS, "code": ErrorCode, "operand": 32, "job": sparse_job_layout})


class ItemKind(enum.Enum, shape=2):
    """Work of the step sequencer."""

    ROW = 0         # a row of the sparse matrix
    PANEL = 1       # rows of B
    FAULT = 2       # an error, behind all work before it


# One item of work, in order.
item_layout = data.StructLayout({
    "kind": ItemKind,
    "pc": PC_BITS,
    "code": ErrorCode,          # of FAULT
    "operand": 32,              # of FAULT; PANEL: number of the first word of 16 bytes
    "number": 16,               # ROW: number in its job; PANEL: rows
    "panel_rows": 16,           # as in the job
    "count": COUNT_BITS,        # ROW: non-zeros, or the largest number where there are more
    "start": 3,                 # ROW: place of its first non-zero in the word of indices
    "begins": 1,                # ROW: it is the first of its job
    "ends": 1,                  # ROW: it is the last of its job
    "outside": 1,               # ROW: a part of its sums has no place in shared memory
    "output": BLOCK_BITS,       # ROW: row of 128 bytes of its sums, with ``scaled`` the 32 bytes of the first of its bytes, with
                                # ``outside`` the first one that does not exist; with ``samples`` the word of 16 bytes of its first sum
    "unsigned_panel": 1,
    "samples": 1,               # ROW: of a mask
    "words": 4,                 # with ``samples``: factor words of a column of B
    "place": 2,                 # with ``samples``: place of its first sum in a word
    "unsigned_left": 1,
    "depthwise": 1,             # ROW: the PEs have the values
    "scaled": 1,                # ROW: sums become bytes
    "target": PanelTarget,      # PANEL
    "strips": 2,
    "sub_warps": 1,             # PANEL: rows go to every strip; ROW: strips have elements of their own
    "stride": BLOCK_BITS,       # ROW: from the results of a strip to those of the next one, as of ``output``
})

# Non-zeros of a row, which is not empty, by number from the first one of the job on.
extent_layout = data.StructLayout({
    "begins": 1,                # no row of the job before has non-zeros
    "first": 32,
    "last": 32,
    "indices": WORD_BITS,       # words of 16 bytes
    "values": WORD_BITS,
    "wide": 1,
    "unsigned": 1,
    "pattern": 1,               # there are no values: they count as 1
    "two": 1,                   # two words of indices are read together; the first one is even in its job and in shared memory
})

element_layout = data.StructLayout({"index": 16, "value": signed(16)})

# Non-zeros of a word of indices; ``fault``: they are outside of shared memory; ``odd``: second word of two that were read together, which
# the job of the first one may not need.
vector_layout = data.StructLayout({"fault": 1, "odd": 1, "elements": data.ArrayLayout(element_layout, ELEMENTS_OF_WORD)})


# Row of A of a sampled product: its first word of 16 bytes, and how many rows of 4 * threads bytes, as panels have them, it is long.
# ``by_columns``: it has byte ``column`` of this word and of each that follows. ``begins``: no row of its job was before it.
left_row_layout = data.StructLayout({"word": WORD_BITS, "rows": 6, "by_columns": 1, "column": COLUMN_BITS, "begins": 1})

# Step of a sampled product, or with ``empty`` the end of a job whose last row has no element.
sample_layout = data.StructLayout({
    "empty": 1,
    "begins": 1,                # first step of an element
    "final": 1,                 # its last step
    "ends": 1,                  # the element is the last one of its job
    "value": signed(16),        # of the mask
    "place": 2,                 # of the sum in its word,
    "word": WORD_BITS,          # which is this word of 16 bytes
})

# Sums of up to four elements, one after the other, for a word of shared memory; with ``empty`` none.
sample_word_layout = data.StructLayout({
    "empty": 1,
    "ends": 1,                  # they are the last ones of a job
    "entries": 3,               # elements, and ends without one
    "word": WORD_BITS,
    "mask": SUMS_OF_WORD,
    "data": data.ArrayLayout(32, SUMS_OF_WORD),
})


def PanelPort():
    """Load of rows of 4 bytes for each PE, seen from the requester: of B into the panel, of A or weights into the operand rows, or of
    biases and multipliers.

    *Ports*:
    begin : Out(1)
        Starts a load; only while none is in progress.
    word : Out(WORD_BITS)
        With ``begin``: first word of 16 bytes.
    row : Out(16)
        With ``begin``: first row that is written.
    rows : Out(16)
        With ``begin``: rows, at least one.
    target : Out(PanelTarget)
        With ``begin``: where the rows go.
    strips : Out(2)
        With ``begin``: log2 of the parts of the PEs whose rows lie together.
    sub_warps : Out(1)
        With ``begin``: each part gets all rows, which are so much shorter.
    by_columns : Out(1)
        With ``begin``: of each word only byte ``column`` is loaded.
    column : Out(COLUMN_BITS)
        With ``begin``: number of the byte, even with
    two : Out(1)
        with which the next byte is loaded too, to operand rows 4 words behind; at most 4 words each.
    free : In(1)
        A load may begin.
    done : In(1)
        The last word is written in this cycle.
    """
    return Signature({"begin": Out(1), "word": Out(WORD_BITS), "row": Out(16), "rows": Out(16), "target": Out(PanelTarget),
                      "strips": Out(2), "sub_warps": Out(1), "by_columns": Out(1), "column": Out(COLUMN_BITS), "two": Out(1), "free": In(1),
                      "done": In(1)})


def drain_entry_layout(cfg):
    """Row whose last step is done, or with ``empty`` the end of a job without sums; the rest is as in the item."""
    place = cfg.row_bits + PIECE_BITS
    return data.StructLayout({"empty": 1, "ends": 1, "scaled": 1, "sums": SUMS_BITS, "output": place, "strips": 2, "stride": place})


def result_layout(cfg):
    """Sums of eight lanes for a row of shared memory, or with ``empty`` none; ``ends``: the last ones of a job. With ``scaled`` they are
    to become the bytes of 32 bytes of shared memory."""
    return data.StructLayout({
        "empty": 1, "ends": 1, "scaled": 1, "group": range(cfg.thread_groups), "output": cfg.row_bits + PIECE_BITS,
        "data": data.ArrayLayout(8 * BANK_BYTES, cfg.thread_slots),
    })


def piece_layout(cfg):
    """Bytes of eight lanes, four of each, for 32 bytes of shared memory; ``ends``: the last ones of a job."""
    return data.StructLayout({"ends": 1, "output": cfg.row_bits + PIECE_BITS, "data": data.ArrayLayout(8 * BANK_BYTES, 2)})


def SparseRegisterPort(cfg):
    """What the engine drives of ``RegisterPort``, and the sums that it reads."""
    members = RegisterPort(cfg).members
    return Signature({name: members[name] for name in (
        "read", "read_number", "read_group", "read_tap", "read_taps", *["read_pair"] * cfg.register_pairs, "read_sums", "return_data",
        "write_factor", "write_word", "write_parts", "write_lanes")})
