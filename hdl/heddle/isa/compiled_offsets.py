"""Formats of compiled offsets: what ``mm`` and ``gather`` add to find the elements of a convolution [S2.1-S2.3]."""

from amaranth.lib import data, enum
from amaranth.utils import exact_log2

from ..constants import MAX_COMPILED_OFFSETS

__all__ = ["ALWAYS", "MASK_BITS", "OFFSET_BITS", "ENTRY_BITS", "POSITIONS", "GATHERED_BYTES", "OffsetEntry", "base_layout",
           "entry_layout", "uniform_layout"]

OFFSET_BITS = 20        # of a byte address, modulo 2^20
MASK_BITS = 12          # mask bits of a thread
POSITIONS = 3           # mask bits that an entry asks for: one for each spatial axis
ALWAYS = 15             # number of a mask bit that is always set
ENTRY_BITS = exact_log2(MAX_COMPILED_OFFSETS)      # of the number of an entry
GATHERED_BYTES = 16     # of a thread by one ``gather`` at most: four registers


class OffsetEntry(enum.Enum, shape=2):
    """What an entry of the compiled-offset memory addresses; NONE: the address advances by itself."""

    NONE = 0
    WORD = 1            # %dot bytes
    BYTE = 2            # one byte; %dot entries make a word


# Entry of the compiled-offset memory. The address of an element is base + offset where all mask bits of its positions are set, else
# the address of the padding.
entry_layout = data.StructLayout({"offset": OFFSET_BITS, "positions": data.ArrayLayout(4, POSITIONS)})

# Offset register of a thread: address of the first element of its window, and which filter positions lie in the image.
base_layout = data.StructLayout({"base": OFFSET_BITS, "mask": MASK_BITS})

# Uniform register with the number of the segment: address of the padding, and number of the first entry.
uniform_layout = data.StructLayout({"padding": OFFSET_BITS, "entry": ENTRY_BITS})
