"""Saturation and rounding of signed numbers; combinational."""

from amaranth.hdl import Cat, Mux, Signal, signed

__all__ = ["add_carry", "add_rounded", "round_right", "saturate"]


def saturate(m, value, bits, name):
    """Saturation: the signed ``value`` limited to ``bits`` bits, and a bit that flags the limitation. Adds signals ``name`` and
    ``<name>_over`` to ``m``.
    """
    assert value.shape().signed and len(value) > bits
    result, over = Signal(signed(bits), name=name), Signal(name=f"{name}_over")
    m.d.comb += [
        over.eq((value[bits - 1:] != 0) & ~value[bits - 1:].all()),
        result.eq(Mux(over, Cat((~value[-1]).replicate(bits - 1), value[-1]), value[:bits])),
    ]
    return result, over


def round_right(m, value, amount, name):
    """Rounding right shift: the signed ``value`` / 2^``amount`` to the nearest integer, halves upwards. ``amount`` is a signal; the
    result is one bit wider than ``value``.
    """
    shifted, result = Signal(signed(len(value) + 1), name=f"{name}_shifted"), Signal(signed(len(value) + 1), name=name)
    m.d.comb += [shifted.eq(Cat(0, value).as_signed() >> amount), result.eq(shifted[1:].as_signed() + shifted[0])]
    return result


def add_carry(left, right, carry):
    """Sum of two signed numbers and a carry bit in one carry chain; a sum of three terms would take more."""
    return (Cat(1, left).as_signed() + Cat(carry, right).as_signed())[1:].as_signed()


def add_rounded(product, shift, addend):
    """``addend`` plus the signed ``product`` / 2^``shift``, rounded to the nearest integer, halves upwards. ``shift`` is an integer."""
    return add_carry(product[shift:].as_signed(), addend, product[shift - 1])
