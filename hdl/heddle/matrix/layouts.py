"""Payloads between the stages of the matrix unit."""

from amaranth.lib import data
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, BANKS
from ..datapath.layouts import step_layout
from ..interfaces.layouts import PC_BITS
from .merges import COLUMN_MODES, POSITIONS_A

__all__ = ["PIECE_BITS", "group_layout", "merge_layout", "pick_layout", "slots_layout", "walked_layout", "word_request_layout"]

PIECE_BITS = exact_log2(BANK_BYTES)


def _pitch(cfg, bits):
    """What is passed on for transposed B; nothing without it."""
    return {"transpose": 1, "pitch": bits} if cfg.transpose else {}


def _passed_on(cfg):
    """What every stage up to the checks needs of the operation."""
    return {
        "last": 1,                                  # of the operation
        "zero": 1,
        "lanes": cfg.threads,
        "a_signed": 1,
        "b_signed": 1,
        "int16": 1,
        "swapped": 1,                               # second pass of 16-bit elements
        "pc": PC_BITS,
        **_pitch(cfg, 32),
    }


def walked_layout(cfg):
    """One step of one k-slice, as walked."""
    return data.StructLayout({
        **_passed_on(cfg),
        "index": cfg.threads,                       # of the step, one hot: its product register minus ``product``
        "fetched": POSITIONS_A,                     # columns of the step; without any it only carries ``last``
        **({"single": 1} if cfg.fetch_slots == 1 else {}),  # the step has one word at most
        "slice": 4,
        "word": cfg.word_index_bits,                # first word of the slice along k
        "first": 1,                                 # of the operation
        "base": 32,
        "element_shift": 3,
        "product": 8,                               # of step 0
        "factor_word": cfg.factor_address_bits,     # of slice 0
        "modes": len(COLUMN_MODES),
        "ka": 2,
        "kb": 2,
        "kb_destination": 2,
        "lane_sum": 1,
        "quad": cfg.thread_bits - 2,                # with lane_sum: four lanes at a time take part
        **({"part": 2} if cfg.transpose else {}),   # transposed B: the word along k, of the four of a quad with lane_sum
    })


def merge_layout(cfg):
    """How a step is spread over the lanes; lane t is position t mod ``positions`` here."""
    return data.StructLayout({
        "active": cfg.positions,                    # positions that have a word in this step
        "destination": 4,                           # positions, modulo 4, that receive sums
        **({"source": 4} if cfg.transpose else {}),  # transposed B: positions, modulo 4, that multiply
        "pairs": 1,
        "quads": 1,
        "total": 1,                                 # the sum is one over all lanes,
        "receive_total": 1,                         # which lane 0 receives
        "place": 4,                                 # position of the first word of these
        "mask": 4,                                  # lanes of a group, minus one
    })


def group_layout(cfg):
    """Words of one step that are fetched together: up to four columns, the same words of each."""
    return data.StructLayout({
        **_passed_on(cfg),
        "columns": data.ArrayLayout(cfg.threads, min(POSITIONS_A, cfg.fetch_slots)),    # one hot each
        "used": min(POSITIONS_A, cfg.fetch_slots),
        "word": cfg.word_index_bits,                # first word along k
        "extra": 2,                                 # words of each column, minus one
        "lanes_b": 3,                               # 1, 2 or 4 lanes along k, one hot
        "complete": 1,                              # the step has all its words with these
        "number": cfg.thread_bits,                  # of the step
        "slice": 4,
        "base": 32,
        "element_shift": 3,
        "product": 8,
        "factor_word": cfg.factor_address_bits,
        "merge": merge_layout(cfg),
    })


def piece_layout(cfg):
    """Rows of transposed B, 16 bytes of each, that are fetched together."""
    return data.StructLayout({
        "used": 1,                                  # the words are pieces
        "group": exact_log2(cfg.dot // cfg.piece_slots),
        "last": 1,                                  # all rows are there with these
    })


def pick_layout(cfg):
    """A step with a column of transposed B."""
    return data.StructLayout({
        "first": 1,                                 # of its pieces
        "column": PIECE_BITS,                       # byte in each of them
        "step": step_layout(cfg),
        "b_signed": 1,
    })


def slots_layout(cfg):
    """Checked words, each in its slot, that come with the same cycle if their banks allow it; or one step with transposed B."""
    return data.StructLayout({
        "used": cfg.fetch_slots,
        **({"void": 1} if cfg.words_voided else {}),    # the word has an error and is not read
        "words": data.ArrayLayout(cfg.shared_address_bits - exact_log2(cfg.dot), cfg.fetch_slots),  # address / dot
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
        **_pitch(cfg, cfg.shared_address_bits - PIECE_BITS),
        **({"column": PIECE_BITS, "piece": piece_layout(cfg)} if cfg.transpose else {}),
    })


def word_request_layout(cfg):
    """Reads of B that are asked for together, the slots that their words are for, and the step of the lanes.

    ``step.step`` tells whether the step is complete with these words, ``bank`` whether there are words at all.
    """
    slot = data.StructLayout({
        "served": 1,
        "bank": BANKS,                                          # one hot
        "chunk": exact_log2(BANK_BYTES // cfg.dot),             # of ``dot`` bytes, in the word of the bank
    })
    return data.StructLayout({
        "step": step_layout(cfg),
        "b_signed": 1,
        "place": 4,
        "mask": 4,
        **({"piece": piece_layout(cfg)} if cfg.transpose else {}),
        "bank": BANKS,
        "rows": data.ArrayLayout(cfg.row_bits, 1 if cfg.fetch_slots == 1 else BANKS),
        "slots": data.ArrayLayout(slot, cfg.fetch_slots),
    })
