"""Swizzle modes of shared memory: exchange of the banks of a row."""

from amaranth.hdl import Cat, Const, Mux, Signal, Value
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, BANKS
from ..isa.encoding import Swizzle

__all__ = ["exchange_of", "swizzle", "swizzle_bits", "swizzle_field", "swizzled", "swizzles"]


def swizzles(cfg):
    """Swizzle modes that the configuration supports, for copies and for segments."""
    return () if not cfg.copy_swizzles else (Swizzle.B32, Swizzle.B64, Swizzle.B128) if cfg.tensors else (Swizzle.B128,)


def swizzle_bits(cfg):
    """Bits of a field ``swizzle``: the mode, or one bit if 128 bytes is the only mode, or none."""
    return len(swizzles(cfg)).bit_length()


def swizzle_field(cfg, mode):
    """Field ``swizzle`` for a supported ``Swizzle`` mode: its number among none and ``swizzles(cfg)``."""
    return Value.cast(mode)[:swizzle_bits(cfg)] if cfg.tensors else (mode == Swizzle.B128)[:swizzle_bits(cfg)]


def exchange_of(cfg, field, row):
    """Number of 3 bits by which the banks of ``row`` are XORed: its lowest 1, 2 or 3 bits for 32, 64 and 128 bytes; combinational.

    Block n of a row of 16-byte blocks lies in bank n XOR this number. In terms of the final shared address, bits from 4 on are XORed
    with bits from 7 on.
    """
    if not cfg.copy_swizzles:
        return Const(0, 3)
    if not cfg.tensors:
        return Mux(field, row, 0)[:3]
    return row[:3] & Cat(field.any(), field[1], field.all())


def swizzled(cfg, address, field, unit):
    """Where ``address`` lies with the swizzle of ``field``: its bank XOR ``exchange_of``; combinational, one XOR.

    ``address`` counts units of ``unit`` bytes, a power of two up to 16.
    """
    if not cfg.copy_swizzles:
        return address
    block = exact_log2(BANK_BYTES // unit)
    row = block + exact_log2(BANKS)
    return Cat(address[:block], address[block:row] ^ exchange_of(cfg, field, address[row:]), address[row:])


def swizzle(m, name, values, number):
    """``values`` with bit b moved to bit b XOR the low bits of ``number``; combinational. The exchange is its own inverse."""
    level = 1
    while level < BANKS:
        exchanged = Signal(BANKS, name=f"{name}_by_{level}")
        m.d.comb += exchanged.eq(Mux(number[level.bit_length() - 1], Cat(values[b ^ level] for b in range(BANKS)), values))
        values, level = exchanged, 2 * level
    return values
