"""Steps of the PE array, as the matrix unit, the recurrent engine and the sparse engine request them."""

from amaranth.hdl import signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Out, Signature

from ..constants import PRODUCT_REGISTERS

__all__ = ["OPERAND_BITS", "PRODUCT_ADDRESS_BITS", "EngineStepPort", "SamplePort", "SparseReadPort", "engine_step_layout",
           "sparse_operands_layout", "step_layout"]

OPERAND_BITS = 4            # bits of the number of a word of the operand rows: the depth of a cell of distributed RAM
PRODUCT_ADDRESS_BITS = (PRODUCT_REGISTERS - 1).bit_length()


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


def engine_step_layout(cfg):
    """Request of the recurrent engine to the PE array for one cycle; the elements of the column come beside it
    (``EngineStepPort``).
    """
    return data.StructLayout({
        "step": 1,
        "product": PRODUCT_ADDRESS_BITS,            # accumulator; of CAT taps 1 to 3 modulo ``rnn_tap_registers``
        "source": PRODUCT_ADDRESS_BITS,             # addend register: the accumulator, or the bias
        "zero": 1,                                  # the addend is zero
        "factor_word": cfg.factor_address_bits,
        "cat": 2,                                   # log2 of the dot products of a PE
    })


def EngineStepPort(cfg):
    """Steps of the recurrent engine on the PEs, seen from the engine; never refused.

    *Ports*:
    step : Out(engine_step_layout(cfg))
        Step of the PEs; ``step.step`` marks a valid step.
    take : Out(1)
        ``word`` holds a new column group.
    word : Out(signed(engine_element_bits)).array(dot)
        Elements of the column group, one cycle after the first step of the column.
    """
    return Signature({
        "step": Out(engine_step_layout(cfg)), "take": Out(1), "word": Out(signed(cfg.engine_element_bits)).array(cfg.dot),
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
