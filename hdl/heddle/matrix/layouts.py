"""Payloads between the stages of the matrix unit."""

from amaranth.lib import data
from amaranth.utils import exact_log2

from ..config import BANK_BYTES, BANKS
from ..datapath.layouts import step_layout
from ..layouts import PC_BITS

__all__ = ["column_layout", "word_request_layout"]


def column_layout(cfg):
    """One column of one k-slice, as walked: everything that later stages need of its operation."""
    return data.StructLayout({
        "column": cfg.threads,                      # one hot
        "slice": 4,
        "empty": 1,                                 # no column: only marks the end of an operation that takes no step
        "last": 1,                                  # of the operation
        "base": 32,
        "element_shift": 3,
        "product": 8,                               # of column 0
        "factor_word": cfg.factor_address_bits,     # of slice 0
        "zero": 1,
        "lanes": cfg.threads,
        "a_signed": 1,
        "b_signed": 1,
        "pc": PC_BITS,
    })


def word_request_layout(cfg):
    """A word of B to be read, and the step of the lanes that it is for.

    ``step.step`` tells whether there is a word; without, only ``step.last`` counts.
    """
    return data.StructLayout({
        "step": step_layout(cfg),
        "b_signed": 1,
        "bank": BANKS,                                          # one hot
        "row": cfg.row_bits,
        "chunk": exact_log2(BANK_BYTES // cfg.dot),             # of ``dot`` bytes, in the word of the bank
    })
