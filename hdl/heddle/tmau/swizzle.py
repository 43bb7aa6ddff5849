"""The 128-byte swizzle of shared memory, seen as an exchange of banks."""

from amaranth.hdl import Cat, Mux, Signal

from ..config import BANKS

__all__ = ["swizzle"]


def swizzle(m, name, values, number):
    """Bit b of ``values`` moved to bit b XOR the low bits of ``number``.

    The 16-byte blocks of a 128-byte row go to the banks of their number XOR that of the row: address bits 4 to 6 XOR bits 7 to 9 of the
    final shared address. The exchange is its own inverse.
    """
    level = 1
    while level < BANKS:
        exchanged = Signal(BANKS, name=f"{name}_by_{level}")
        m.d.comb += exchanged.eq(Mux(number[level.bit_length() - 1], Cat(values[b ^ level] for b in range(BANKS)), values))
        values, level = exchanged, 2 * level
    return values
