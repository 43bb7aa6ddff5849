"""Derived sizes of the L2 and the payloads of the streams between its parts."""

from dataclasses import dataclass

from amaranth.lib import data
from amaranth.utils import exact_log2

from ..constants import LINE_BYTES
from ..isa.encoding import Reduction
from ..isa.tensor_descriptor import TensorFormat
from ..parameters.l2 import L2Parameters

__all__ = ["L2Sizes", "line_answer_layout", "line_ack_layout", "line_beat_layout", "line_burst_layout", "line_part_layout",
           "line_read_layout"]

BEATS_AHEAD = 128       # beats of reads, and of writes, outstanding in a bank at least: they cover the latency of memory


@dataclass(frozen=True)
class L2Sizes:
    """Derived sizes of the L2; a line number is {tag, set, bank}, from the most significant bits.

    Lines have ``LINE_BYTES`` (128) bytes, ``cfg.line_beats`` beats. There is one bank per core, each with an AXI master of its own.

    Parameters
    ----------
    cfg : L2Parameters

    *Ports*:
    banks, bank_bits : int
        Banks (= ``cfg.cores``), and bits of a bank number.
    beat_bits : int
        Bits of a beat number within its line.
    line_bits : int
        Bits of a line number within its bank: {tag, set}.
    ways, way_bits, sets, set_bits : int
        Associativity (``cfg.l2_ways``), sets of a bank, and bits of their numbers.
    tag_bits : int
        Bits of a tag.
    place_bits : int
        Bits of a place, the position of a line in the contents: {set, way}.
    reads, writes : int
        Lines, or parts of lines, that may be read and written at once in a bank. Both are at least 8, at least ``BEATS_AHEAD`` (128)
        beats, and at least the bursts of the TMAU (``cfg.axi_reads``, ``cfg.axi_writes``). Short rows thereby also cover the latency of
        memory.
    """

    cfg: L2Parameters

    @property
    def banks(self):
        return self.cfg.cores

    @property
    def bank_bits(self):
        return exact_log2(self.banks)

    @property
    def beat_bits(self):
        return exact_log2(self.cfg.line_beats)

    @property
    def line_bits(self):
        """Bits of a line number within its bank."""
        return self.cfg.axi_address_bits - exact_log2(LINE_BYTES) - self.bank_bits

    @property
    def ways(self):
        return self.cfg.l2_ways

    @property
    def way_bits(self):
        return exact_log2(self.ways)

    @property
    def sets(self):
        return self.cfg.l2_kib * 1024 // (LINE_BYTES * self.banks * self.ways)

    @property
    def set_bits(self):
        return exact_log2(self.sets)

    @property
    def tag_bits(self):
        return self.line_bits - self.set_bits

    @property
    def place_bits(self):
        """Bits of a place, the position of a line in the contents: {set, way}."""
        return self.set_bits + self.way_bits

    @property
    def reads(self):
        return max(8, BEATS_AHEAD // self.cfg.line_beats, self.cfg.axi_reads)

    @property
    def writes(self):
        return max(8, BEATS_AHEAD // self.cfg.line_beats, self.cfg.axi_writes)


def line_read_layout(cfg):
    """Read of beats ``first`` to ``last`` of line ``line`` of a bank, for core ``core``.

    ``prefetch``: the line is only brought into the cache; there is no answer.
    """
    sizes = L2Sizes(cfg)
    return data.StructLayout({"line": sizes.line_bits, "first": sizes.beat_bits, "last": sizes.beat_bits, "prefetch": 1,
                              "core": cfg.core_bits})


def line_burst_layout(cfg):
    """Burst of a bank to memory within one line: ``beats_minus_one`` + 1 beats from beat ``first`` of line ``line``."""
    sizes = L2Sizes(cfg)
    return data.StructLayout({"line": sizes.line_bits, "first": sizes.beat_bits, "beats_minus_one": sizes.beat_bits})


def line_part_layout(cfg):
    """Item of a write stream to a bank: a beat, or an announcement.

    An announcement (``announces``) has no data. The next item begins a plain write of beats ``beat`` to ``last`` of the line.
    """
    return data.StructLayout(line_beat_layout(cfg).members | {"announces": 1, "last": L2Sizes(cfg).beat_bits})


def line_beat_layout(cfg):
    """Beat of a write: beat ``beat`` of line ``line``, with ``data``, byte enables ``strobe`` and the number of the core.

    ``begins`` and ``ends`` mark the first and the last beat of the write within the line. With ``cfg.reductions`` the beat also has
    ``reduction`` and ``format``.
    """
    sizes = L2Sizes(cfg)
    return data.StructLayout({
        "line": sizes.line_bits, "beat": sizes.beat_bits, "begins": 1, "ends": 1, "data": cfg.axi_data_bits, "strobe": cfg.axi_bytes,
        "core": cfg.core_bits, **({"reduction": Reduction, "format": TensorFormat} if cfg.reductions else {})})


def line_answer_layout(cfg):
    """Beat of read data for core ``core``; ``ends`` marks the last beat of the line's answer, ``error`` an error of memory."""
    return data.StructLayout({"data": cfg.axi_data_bits, "error": 1, "ends": 1, "core": cfg.core_bits})


def line_ack_layout(cfg):
    """Acknowledgement to core ``core``: memory has the written beats of a line, or (``error``) refused them."""
    return data.StructLayout({"error": 1, "core": cfg.core_bits})
