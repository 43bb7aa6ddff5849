"""Sizes of the second-level cache and what its parts hand to each other."""

from dataclasses import dataclass

from amaranth.lib import data
from amaranth.utils import exact_log2

from ..config import Config
from ..constants import LINE_BYTES
from ..isa.encoding import Reduction
from ..isa.tensor_descriptor import TensorFormat

__all__ = ["L2Sizes", "line_answer_layout", "line_ack_layout", "line_beat_layout", "line_burst_layout", "line_part_layout",
           "line_read_layout"]

BEATS_AHEAD = 128       # beats of reads, and of writes, that may be under way in a bank: they cover the latency of memory


@dataclass(frozen=True)
class L2Sizes:
    """Derived sizes: line number = {tag, set, bank}, from the top.

    One bank for each core, each with an AXI master of its own; ``reads`` reads and ``writes`` writes of (parts of) lines may be under way
    in a bank: as many as the TMAU of a core has bursts, so that short rows too cover the latency of memory.
    """

    cfg: Config

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
        """Of the number of a line within its bank."""
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
        """Of the number of a line's place in the cache: {set, way}."""
        return self.set_bits + self.way_bits

    @property
    def reads(self):
        return max(8, BEATS_AHEAD // self.cfg.line_beats, self.cfg.axi_reads)

    @property
    def writes(self):
        return max(8, BEATS_AHEAD // self.cfg.line_beats, self.cfg.axi_writes)


def line_read_layout(cfg):
    """Beats ``first`` to ``last`` of one line are read; with ``prefetch`` nothing is answered."""
    sizes = L2Sizes(cfg)
    return data.StructLayout({"line": sizes.line_bits, "first": sizes.beat_bits, "last": sizes.beat_bits, "prefetch": 1,
                              "core": cfg.core_bits})


def line_burst_layout(cfg):
    """A burst of memory within a line of the bank."""
    sizes = L2Sizes(cfg)
    return data.StructLayout({"line": sizes.line_bits, "first": sizes.beat_bits, "beats_minus_one": sizes.beat_bits})


def line_part_layout(cfg):
    """A beat on its way to the bank, or (``announces``) only that a plain write of beats ``beat`` to ``last`` begins with the next one."""
    return data.StructLayout(line_beat_layout(cfg).members | {"announces": 1, "last": L2Sizes(cfg).beat_bits})


def line_beat_layout(cfg):
    """A beat that is written, beat ``beat`` of its line; ``begins`` and ``ends`` mark those of one line that are written together."""
    sizes = L2Sizes(cfg)
    return data.StructLayout({
        "line": sizes.line_bits, "beat": sizes.beat_bits, "begins": 1, "ends": 1, "data": cfg.axi_data_bits, "strobe": cfg.axi_bytes,
        "core": cfg.core_bits, **({"reduction": Reduction, "format": TensorFormat} if cfg.reductions else {})})


def line_answer_layout(cfg):
    """A beat that was read; ``ends`` marks the last one of a line's."""
    return data.StructLayout({"data": cfg.axi_data_bits, "error": 1, "ends": 1, "core": cfg.core_bits})


def line_ack_layout(cfg):
    """Memory has what was written of a line, or refused it."""
    return data.StructLayout({"error": 1, "core": cfg.core_bits})
