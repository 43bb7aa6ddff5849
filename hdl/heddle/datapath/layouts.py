"""Control words between the parts of the datapath; each exists once and is broadcast to all lanes."""

from amaranth.lib import data

from ..config import PRODUCT_BANKS
from .product_file import ROW_BITS

__all__ = ["accumulate_layout", "bank_access_layout", "capture_layout", "factor_access_layout", "step_layout"]


def step_layout(cfg):
    """What the lanes need to know of one cycle of ``mm``; ``step`` and ``last`` are zero in a cycle without."""
    return data.StructLayout({
        "step": 1,                                  # a word is multiplied and accumulated
        "last": 1,                                  # the operation ends in this cycle, with or without a step
        "product": 8,
        "factor_word": cfg.factor_address_bits,
        "zero": 1,                                  # replace the product register
        "lanes": cfg.threads,                       # multiply
        "receivers": cfg.threads,                   # have the sum added to their product register
        "pairs": 1,                                 # the sum is one over pairs of lanes
        "quads": 1,                                 # or over quads; with neither, each lane has its own
        "total": 1,                                 # the sums over quads are added for lane 0; one of them is not zero
        "a_signed": 1,
        "int16": 1,                                 # elements of 16 bits; in two passes, where there are two,
        "swapped": 1,                               # of which this is the second: the bytes of each element of B are swapped
    })


# What a lane adds the dot product to; all zero when there is no step.
accumulate_layout = data.StructLayout({
    "banks": PRODUCT_BANKS,         # the product bank that was read, one hot; zero when a sum is forwarded
    "forward_one": 1,               # the sum of the cycle before
    "forward_two": 1,               # the sum of the cycle before that
})

# Rows of the product banks, and the banks that mm writes.
bank_access_layout = data.StructLayout({
    "read_row": data.ArrayLayout(ROW_BITS, PRODUCT_BANKS),
    "write_row": data.ArrayLayout(ROW_BITS, PRODUCT_BANKS),
    "matrix_write": PRODUCT_BANKS,
    "thread_write": PRODUCT_BANKS,  # of the lanes that the thread unit selects
})


def factor_access_layout(cfg):
    """Port B of the factor file."""
    return data.StructLayout({
        "word": cfg.factor_address_bits,
        "read": 1,
        "write": cfg.numbers_per_word,              # 32-bit parts, of the lanes that the thread unit selects
        "chunk": 2,                                 # part of ``operand`` that is written, in units of ``dot`` bytes
    })


def capture_layout(cfg):
    """Where the values that the register files give in this cycle go."""
    return data.StructLayout({
        "banks": PRODUCT_BANKS,                     # the product bank that is the single word, one hot, or zero
        "parts": cfg.numbers_per_word,              # the factor part that is the single word, one hot, or zero
        "quad": PRODUCT_BANKS,                      # bank j into word j
        "words": 4,                                 # the single word into operand word j
        "address": 1,                               # the single word into the address register
        "offset": 1,                                # the factor part into the next offset
    })
