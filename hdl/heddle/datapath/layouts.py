"""Control words between the parts of the datapath; each exists once and is broadcast to all lanes."""

from amaranth.lib import data

from .product_register_file import PRODUCT_ADDRESS_BITS

__all__ = ["accumulate_layout", "capture_layout", "factor_access_layout", "product_access_layout", "step_layout", "tap_banks", "tap_layout",
           "tap_read_bits"]

TAP_ROW_BITS = 4            # of an accumulator of a tap in its bank: what a cell of distributed RAM holds
TAPS = 4


def tap_banks(cfg):
    """Banks of the accumulators of a tap."""
    return cfg.rnn_tap_registers >> TAP_ROW_BITS


def tap_read_bits(cfg):
    """A bank of one of the taps 1 to 3, one hot."""
    return (TAPS - 1) * tap_banks(cfg)


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
    "read": 1,                      # the product register that was read
    "forward_one": 1,               # the sum of the cycle before
    "forward_two": 1,               # the sum of the cycle before that
})

# Registers of the product file, and who writes.
product_access_layout = data.StructLayout({
    "matrix_register": PRODUCT_ADDRESS_BITS,
    "thread_register": PRODUCT_ADDRESS_BITS,
    "write_register": PRODUCT_ADDRESS_BITS,
    "matrix_write": 1,
    "thread_next": 1,               # the thread unit writes in the next cycle, in which mm does not
    "thread_write": 1,              # in the lanes that it selects
})


def factor_access_layout(cfg):
    """Port B of the factor file."""
    return data.StructLayout({
        "word": cfg.factor_address_bits,
        "read": 1,
        "write": cfg.numbers_per_word,              # 32-bit parts, of the lanes that the thread unit selects
    })


def capture_layout(cfg):
    """Where the values that the register files give in this cycle go."""
    return data.StructLayout({
        "product": 1,                               # the product register goes to the thread unit
        "factor": 1,                                # the factor part goes to the thread unit
        "offset": 1,                                # the factor part is the next offset
        "parts": cfg.numbers_per_word,              # the factor part, one hot
    })


def tap_layout(cfg):
    """The upper levels of the tree of a lane in a cycle: the last but one works for one step, the last one for the step before.

    All but rows is zero without a step of the engine for recurrent networks; banks are one hot.
    """
    banks = tap_banks(cfg)
    return data.StructLayout({
        "quarters": 1,                  # CAT-4: the last level but one accumulates,
        "source_row": TAP_ROW_BITS,
        "source_bank": banks,           # from zero on without one
        "product_row": TAP_ROW_BITS,
        "product_bank": banks,
        "split": 1,                     # CAT-2 or CAT-4: the last level accumulates
        "late_source_row": TAP_ROW_BITS,
        "late_source_bank": banks,
        "late_product_row": TAP_ROW_BITS,
        "late_product_bank": banks,
        "sum": 1,                       # tap 0 goes to the product register
    })
