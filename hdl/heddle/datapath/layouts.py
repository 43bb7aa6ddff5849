"""Control words of the datapath; each exists once and is broadcast to all PEs."""

from amaranth.hdl import signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Out, Signature

from .product_register_file import PRODUCT_ADDRESS_BITS

__all__ = ["OPERAND_BITS", "SamplePort", "SparseReadPort", "accumulate_layout", "capture_layout", "factor_access_layout",
           "product_access_layout", "sparse_operands_layout", "step_layout", "tap_banks", "tap_layout", "tap_read_bits"]

TAP_ROW_BITS = 4            # row bits of a tap accumulator in its bank: the depth of a cell of distributed RAM
TAPS = 4
OPERAND_BITS = 4            # bits of the number of a word of the operand rows: the depth of a cell of distributed RAM


def tap_banks(cfg):
    """Banks of 16 accumulators of one CAT tap."""
    return cfg.rnn_tap_registers >> TAP_ROW_BITS


def tap_read_bits(cfg):
    """Width of a one-hot selection of a bank of the CAT taps 1 to 3."""
    return (TAPS - 1) * tap_banks(cfg)


def step_layout(cfg):
    """Control word of one step of ``mm``: a factor word of every PE times a word of B. Without a step ``step`` and ``last`` are zero."""
    return data.StructLayout({
        "step": 1,                                  # factor word and word of B are multiplied and accumulated
        "last": 1,                                  # end of the operation, with or without a step
        "product": 8,
        "factor_word": cfg.factor_address_bits,
        "zero": 1,                                  # the sum replaces the product register
        "lanes": cfg.threads,                       # PEs that multiply
        "receivers": cfg.threads,                   # PEs that add the sum to their product register
        "pairs": 1,                                 # the sum is over pairs of PEs
        "quads": 1,                                 # the sum is over quads of PEs; with neither, each PE has its own
        "total": 1,                                 # the sums over quads are added for PE 0; at most one of them is not zero
        "a_signed": 1,
        "int16": 1,                                 # elements of 16 bits
        "swapped": 1,                               # second of two passes: the bytes of each element of B are swapped
    })


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


def sparse_operands_layout(cfg):
    """Operands of a group of PEs in a step of the sparse engine; zero without a step. Port A of the factor register file reads
    ``first_word``, port B ``second_word``; ``first_part`` of multipliers 0 to 3 and ``second_part`` of multipliers 4 to 7 are their 32-bit
    parts.
    """
    word, part = cfg.factor_address_bits, range(cfg.numbers_per_word)
    return data.StructLayout({"first_word": word, "first_part": part, "second_word": word, "second_part": part})


def SparseReadPort(cfg):
    """Operands of a step of the sparse engine, beside the step, seen from the engine.

    *Ports*:
    active : Out(1)
        In the cycle of a step: multipliers take the factor words of ``operands``.
    operands : Out(sparse_operands_layout(cfg)).array(thread_groups)
        Factor words of each group of PEs in this step.
    elements : Out(signed(engine_element_bits)).array(thread_groups, 2)
        Elements of each group for multipliers 0 to 3 and 4 to 7, one cycle after the step; else zero.
    unsigned : Out(1)
        The bytes of the factor words are unsigned.
    """
    groups = cfg.thread_groups
    return Signature({
        "active": Out(1), "operands": Out(sparse_operands_layout(cfg)).array(groups),
        "elements": Out(signed(cfg.engine_element_bits)).array(groups, 2), "unsigned": Out(1),
    })


def SamplePort(cfg):
    """Operand rows in a step of the engine, their writes, and sums over all PEs, seen from the sparse engine.

    *Ports*:
    active : Out(numbers_per_word)
        In the cycle of a step: multipliers 4 n to 4 n + 3 take, with bit n, the operand row of their PE in the place of broadcast elements.
        These are all of a sampled product, and those with a non-zero of a depthwise row.
    word : Out(4)
        Word of the operand rows.
    unsigned, unsigned_operand : Out(1)
        The bytes of the factor words of a sampled product, of the operand rows, are unsigned.
    write : Out(1)
        The data of ``RegisterPort``, its ``write_parts`` and ``write_lanes``, are written to the operand rows.
    write_word : Out(4)
        Word of the operand rows that is written.
    total : In(32)
        Sum over all PEs, ``sample_latency`` cycles after the step.
    """
    return Signature({
        "active": Out(cfg.numbers_per_word), "word": Out(OPERAND_BITS), "unsigned": Out(1), "unsigned_operand": Out(1), "write": Out(1),
        "write_word": Out(OPERAND_BITS), "total": In(32),
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
