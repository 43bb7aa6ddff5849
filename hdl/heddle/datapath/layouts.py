"""Control words of the datapath; each exists once and is broadcast to all PEs."""

from amaranth.lib import data

from ..interfaces.datapath import OPERAND_BITS, PRODUCT_ADDRESS_BITS

__all__ = ["accumulate_layout", "capture_layout", "factor_access_layout", "product_access_layout", "tap_banks", "tap_layout",
           "tap_read_bits"]

TAP_ROW_BITS = 4            # row bits of a tap accumulator in its bank: the depth of a cell of distributed RAM
TAPS = 4


def tap_banks(cfg):
    """Banks of 16 accumulators of one CAT tap."""
    return cfg.rnn_tap_registers >> TAP_ROW_BITS


def tap_read_bits(cfg):
    """Width of a one-hot selection of a bank of the CAT taps 1 to 3."""
    return (TAPS - 1) * tap_banks(cfg)


# Source that a PE adds the dot product to; all zero without a step.
accumulate_layout = data.StructLayout({
    "read": 1,                      # product register that was read
    "forward_one": 1,               # sum of the cycle before
    "forward_two": 1,               # sum of two cycles before
})

# Accesses of ``mm`` and of the thread unit to the product register file.
product_access_layout = data.StructLayout({
    "matrix_register": PRODUCT_ADDRESS_BITS,
    "thread_register": PRODUCT_ADDRESS_BITS,
    "write_register": PRODUCT_ADDRESS_BITS,
    "matrix_write": 1,
    "thread_next": 1,               # the thread unit writes in the next cycle, and ``mm`` does not
    "thread_write": 1,              # the thread unit writes, in the PEs that it selects
})


def factor_access_layout(cfg):
    """Port B of the factor register file and, with ``sparse``, the write port of the operand rows."""
    operand = {"operand_write": cfg.numbers_per_word, "operand_word": OPERAND_BITS} if cfg.sparse else {}
    return data.StructLayout({
        "word": cfg.factor_address_bits,
        "read": 1,
        "write": cfg.numbers_per_word,              # 32-bit parts, in the PEs that the thread unit selects
        **operand,                                  # the same of the operand rows, in these PEs
    })


def capture_layout(cfg):
    """Destinations of the values that the register files deliver in this cycle."""
    return data.StructLayout({
        "product": 1,                               # the product register, of a pair the even one, goes to the thread unit
        **({"odd": 1} if cfg.register_pairs else {}),   # so does the odd one
        "factor": 1,                                # part of a factor word goes to the thread unit
        "offset": 1,                                # part of a factor word becomes the next offset
        "parts": cfg.numbers_per_word,              # 32-bit part of the factor word, one-hot
    })


def tap_layout(cfg):
    """Control word of the last two levels of the CAT tree in one cycle. The last level is one step behind the last level but one.

    All fields but the rows are zero without a step of the engine for recurrent networks; banks are one-hot.
    """
    banks = tap_banks(cfg)
    return data.StructLayout({
        "quarters": 1,                  # CAT-4: the last level but one accumulates
        "source_row": TAP_ROW_BITS,
        "source_bank": banks,           # no bank: the accumulation begins at zero
        "product_row": TAP_ROW_BITS,
        "product_bank": banks,
        "split": 1,                     # CAT-2 or CAT-4: the last level accumulates
        "late_source_row": TAP_ROW_BITS,
        "late_source_bank": banks,
        "late_product_row": TAP_ROW_BITS,
        "late_product_bank": banks,
        "sum": 1,                       # tap 0 is added to the product register
    })
