"""Out-of-bounds fill: data of elements outside a tensor."""

from amaranth.hdl import Cat, Const, Mux, Signal

from ..constants import BANK_BYTES
from ..isa.tensor_descriptor import FILL_NAN, Fill
from .layouts import unit_bytes

__all__ = ["completed", "filler_word"]


def filler_word(fill, nbytes):
    """``nbytes`` bytes of out-of-bounds ``fill``: zeros, or ``FILL_NAN``; combinational."""
    return Mux(fill == Fill.NAN, Cat(Const(FILL_NAN, 16) for _ in range(nbytes // 2)), 0)


def completed(m, cfg, word, slot, number):
    """A beat of read data whose bytes beyond the tensor are replaced by out-of-bounds fill; combinational.

    ``slot`` has ``beats_minus_one``, ``skip_last``, ``missing_bytes`` and ``fill`` of the burst; ``number`` is the beat's number. The
    bytes to replace are the last ones of the burst; they may cover a whole beat.
    """
    nbytes = cfg.axi_bytes
    left = slot.beats_minus_one - number        # later beats of the burst
    missing = Signal(range(2 * nbytes + 2 * BANK_BYTES))
    here = Signal(range(nbytes + 1), name="missing_here")
    m.d.comb += missing.eq(Mux(slot.missing_bytes == 0, 0, slot.skip_last * unit_bytes(cfg) + slot.missing_bytes))
    with m.If(left == 0):
        m.d.comb += here.eq(Mux(missing > nbytes, nbytes, missing))
    with m.Elif((left == 1) & (missing > nbytes)):
        m.d.comb += here.eq(missing - nbytes)
    pattern = filler_word(slot.fill, nbytes)
    return Cat(Mux(nbytes - byte <= here, pattern.word_select(byte, 8), word.word_select(byte, 8)) for byte in range(nbytes))
