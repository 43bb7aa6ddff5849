"""Payloads between the stages of the matrix unit."""

from amaranth.lib import data
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, BANKS
from ..interfaces.datapath import step_layout
from ..interfaces.layouts import PC_BITS, column_fields, word_number_bits
from ..interfaces.swizzle import swizzle_bits
from .merges import COLUMN_MODES, POSITIONS_A

__all__ = ["PIECE_BITS", "entry_fields", "group_layout", "has_item", "merge_layout", "pick_layout", "slots_layout", "loop_step_layout",
           "word_request_layout"]

PIECE_BITS = exact_log2(BANK_BYTES)


def entry_fields(cfg):
    """Fields of checked words for compiled offsets: a word for the offset memory, and its number there; a word of single bytes, and which
    byte of each slot."""
    by_byte = {"by_byte": 1, "bytes": data.ArrayLayout(exact_log2(cfg.dot), cfg.dot)} if cfg.byte_entries else {}
    return {"fill": 1, "fill_word": word_number_bits(cfg)} | by_byte if cfg.compiled_offsets else {}


def _passed_on(cfg):
    """Fields of the operation that every stage up to the address checks passes on."""
    return {
        "last": 1,                                  # end of the operation
        "zero": 1,
        "lanes": cfg.threads,
        "a_signed": 1,
        "b_signed": 1,
        "int16": 1,
        "swapped": 1,                               # second pass of 16-bit elements
        "swizzle": swizzle_bits(cfg),
        "pc": PC_BITS,
        **column_fields(cfg),
    }


def loop_step_layout(cfg):
    """One step of one k-slice, from the loop sequencer."""
    return data.StructLayout({
        **_passed_on(cfg),
        "index": cfg.threads,                       # number of the step, one-hot: its product register minus ``product``
        "fetched": POSITIONS_A,                     # columns of the step; a step without columns only carries ``last``
        **({"single": 1} if cfg.fetch_slots == 1 else {}),  # the step has at most one word
        "slice": 4,
        "word": cfg.word_index_bits,                # number of the first word of the slice along k
        "first": 1,                                 # first step of the operation
        "base": 32,
        "element_shift": 3,
        "product": 8,                               # product register of step 0
        "factor_word": word_number_bits(cfg),       # factor word of slice 0
        "modes": len(COLUMN_MODES),
        "ka": 2,
        "kb": 2,
        "kb_destination": 2,
        "lane_sum": 1,
        "quad": cfg.thread_bits - 2,                # with lane_sum: number of the four PEs that take part
        **({"part": 2} if cfg.transpose else {}),   # transposed B: word along k of the slice, with lane_sum of the quad
    })


def merge_layout(cfg):
    """Distribution of a step over the PEs; PE t has position t mod ``positions``."""
    return data.StructLayout({
        "active": cfg.positions,                    # positions that have a word in this step
        "destination": 4,                           # positions, modulo 4, that receive sums
        **({"source": 4} if cfg.transpose else {}),  # transposed B: positions, modulo 4, that multiply
        "pairs": 1,
        "quads": 1,
        "total": 1,                                 # the sum is over all PEs
        "receive_total": 1,                         # PE 0 receives the sum over all PEs
        "place": 4,                                 # position of the first word of the group
        "mask": 4,                                  # PEs of a merge group, minus one
    })


def group_layout(cfg):
    """Words of one step that are fetched together: up to four columns, the same words of each."""
    return data.StructLayout({
        **_passed_on(cfg),
        "columns": data.ArrayLayout(cfg.threads, min(POSITIONS_A, cfg.fetch_slots)),    # one-hot each
        "used": min(POSITIONS_A, cfg.fetch_slots),
        "word": cfg.word_index_bits,                # first word along k
        "extra": 2,                                 # words of each column, minus one
        "lanes_b": 3,                               # 1, 2 or 4 PEs along k, one-hot
        "complete": 1,                              # the step has all its words with this group
        "number": cfg.thread_bits,                  # number of the step
        "slice": 4,
        "base": 32,
        "element_shift": 3,
        "product": 8,
        "factor_word": word_number_bits(cfg),
        "merge": merge_layout(cfg),
    })


def piece_layout(cfg):
    """Pieces that are fetched together: 16 bytes of each of some rows of transposed B."""
    return data.StructLayout({
        "used": 1,                                  # the words are pieces
        "group": exact_log2(cfg.dot // cfg.piece_slots),
        "last": 1,                                  # all rows are complete with these
    })


def pick_layout(cfg):
    """A step whose words come from a column of transposed B."""
    return data.StructLayout({
        "first": 1,                                 # first step that uses its pieces
        "column": PIECE_BITS,                       # byte of the column in each piece
        "step": step_layout(cfg),
        "b_signed": 1,
    })


def slots_layout(cfg):
    """Checked words of one group, each in its fetch slot; or one step with transposed B, whose address is that without ``swizzle``.

    ``used``, ``step`` and ``last`` are low where a stage has no item.
    """
    return data.StructLayout({
        "used": cfg.fetch_slots,
        "words": data.ArrayLayout(cfg.shared_address_bits - exact_log2(cfg.dot), cfg.fetch_slots),  # address in units of ``dot`` bytes
        "step": 1,
        "last": 1,
        "product": 8,
        "factor_word": cfg.factor_address_bits,
        "zero": 1,
        "lanes": cfg.threads,
        "a_signed": 1,
        "b_signed": 1,
        "int16": 1,
        "swapped": 1,
        "merge": merge_layout(cfg),
        **entry_fields(cfg),
        **({"transpose": 1, "pitch": cfg.shared_address_bits - PIECE_BITS} if cfg.transpose else {}),
        **({"column": PIECE_BITS, "piece": piece_layout(cfg), "swizzle": swizzle_bits(cfg)} if cfg.transpose else {}),
    })


def has_item(slots):
    """Whether a ``slots_layout`` has words, a step, or the end of an operation."""
    return slots.used.any() | slots.step | slots.last


def word_request_layout(cfg):
    """Reads of B that are requested in the same cycle, the fetch slots of their words, and the step of the PEs.

    ``step.step``: the step is complete with these words. ``bank``: banks that are read, none for a step without words.
    """
    slot = data.StructLayout({
        "served": 1,
        "bank": BANKS,                                          # one hot
        "chunk": exact_log2(BANK_BYTES // cfg.dot),             # number of the ``dot`` bytes in the word of the bank
    })
    return data.StructLayout({
        "step": step_layout(cfg),
        "b_signed": 1,
        "place": 4,
        "mask": 4,
        **entry_fields(cfg),
        **({"piece": piece_layout(cfg)} if cfg.transpose else {}),
        "bank": BANKS,
        "rows": data.ArrayLayout(cfg.row_bits, 1 if cfg.fetch_slots == 1 else BANKS),
        "slots": data.ArrayLayout(slot, cfg.fetch_slots),
    })
