"""The swizzles of shared memory, seen as an exchange of banks."""

from amaranth.hdl import Cat, Const, Mux, Signal, Value

from ..constants import BANKS
from ..isa.encoding import Swizzle

__all__ = ["exchange_of", "swizzle", "swizzle_bits", "swizzle_field", "swizzles"]


def swizzles(cfg):
    """Those that copies of the configuration can have."""
    return () if not cfg.copy_swizzles else (Swizzle.B32, Swizzle.B64, Swizzle.B128) if cfg.tensors else (Swizzle.B128,)


def swizzle_bits(cfg):
    """Bits of the field ``swizzle`` of bursts and beats: the mode, or whether it is that of 128 bytes where there is no other."""
    return len(swizzles(cfg)).bit_length()


def swizzle_field(cfg, mode):
    """The field of a ``Swizzle`` that the configuration has."""
    return Value.cast(mode)[:swizzle_bits(cfg)] if cfg.tensors else (mode == Swizzle.B128)[:swizzle_bits(cfg)]


def exchange_of(cfg, field, row):
    """What the banks of ``row`` are XORed with: its lowest 1, 2 or 3 bits in the modes of 32, 64 and 128 bytes.

    The 16-byte blocks of a row go to the banks of their number XOR this: address bits from 4 on XOR those from 7 on of the final
    shared address.
    """
    if not cfg.copy_swizzles:
        return Const(0, 3)
    if not cfg.tensors:
        return Mux(field, row, 0)[:3]
    return row[:3] & Cat(field.any(), field[1], field.all())


def swizzle(m, name, values, number):
    """Bit b of ``values`` moved to bit b XOR the low bits of ``number``. The exchange is its own inverse."""
    level = 1
    while level < BANKS:
        exchanged = Signal(BANKS, name=f"{name}_by_{level}")
        m.d.comb += exchanged.eq(Mux(number[level.bit_length() - 1], Cat(values[b ^ level] for b in range(BANKS)), values))
        values, level = exchanged, 2 * level
    return values
