"""Out-of-bounds fill: data of elements outside a tensor."""

from amaranth.hdl import Cat, Const, Mux, Signal

from ..constants import BANK_BYTES
from ..isa.tensor_descriptor import NAN_BITS, TensorFormat
from .layouts import Filler, unit_bytes

__all__ = ["completed", "filler_word"]

_ELEMENTS = {Filler.NAN_16: (TensorFormat.F16, 16), Filler.NAN_32: (TensorFormat.F32, 32), Filler.NAN_64: (TensorFormat.F64, 64)}


def filler_word(m, filler, nbytes):
    """``nbytes`` bytes of out-of-bounds fill of kind ``filler``: zeros, or NaNs of 16, 32 or 64 bits; combinational."""
    word = Signal(8 * nbytes, name="filler_word")
    with m.Switch(filler):
        for kind, (format, bits) in _ELEMENTS.items():
            with m.Case(kind):
                m.d.comb += word.eq(Cat(Const(NAN_BITS[format], bits) for _ in range(8 * nbytes // bits)))
    return word


def completed(m, cfg, word, slot, number):
    """A beat of read data whose bytes beyond the tensor are replaced by out-of-bounds fill; combinational.

    ``slot`` has ``beats_minus_one``, ``skip_last``, ``missing_bytes`` and ``filler`` of the burst; ``number`` is the beat's number. The
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
    filler = filler_word(m, slot.filler, nbytes)
    return Cat(Mux(nbytes - byte <= here, filler.word_select(byte, 8), word.word_select(byte, 8)) for byte in range(nbytes))
