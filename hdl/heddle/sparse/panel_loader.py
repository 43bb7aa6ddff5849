"""Panel loader: rows of B from shared memory to the factor register files, rows of A and weights to the operand rows, and scales."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES
from ..datapath.layouts import OPERAND_BITS
from ..isa.sparse_job import SCALE_ROWS, PanelTarget
from ..parameters.sparse import SparseParameters
from .layouts import WORD_BITS, PanelPort, word_request_layout

__all__ = ["PanelLoader"]

LANE_BYTES = 4          # of a row of B


class PanelLoader(Component):
    """Panel loader: reads rows of B and writes four bytes of each to every PE, those of eight PEs a cycle.

    Where PEs are parted into strips, all rows of the first strip come first.

    A row of A of a sampled product is some such rows, which go to the operand rows of the PEs instead. So do weights of depthwise rows.
    Biases, multipliers and bounds of scaled rows leave through the same registers.

    Parameters
    ----------
    cfg : SparseParameters

    *Ports*:
    panel : In(PanelPort())
        Loads.
    request : Out(stream.Signature(word_request_layout))
        Reads of pairs of words, 32 bytes each.
    answered : In(1)
        Words of the oldest pair come.
    last : In(1)
        They are the last ones of the pair.
    halves : In(128).array(2)
        The words, where ``arrived``.
    arrived : In(2)
        Words that come in this cycle.
    write : Out(1)
        Writes to the factor register files; registered, as all that follows.
    write_operand : Out(1)
        Writes to the operand rows.
    write_scale : Out(1)
        Biases, multipliers or bounds are at ``data``,
    scale_row : Out(range(SCALE_ROWS))
        of this row.
    write_word : Out(factor_address_bits)
        Factor word, or word of the operand rows.
    write_parts : Out(numbers_per_word)
        Its 32-bit part, one-hot.
    write_lanes : Out(threads)
        PEs: the four or eight PEs of the words.
    data : Out(32).array(thread_slots)
        Data for each PE of a group of eight.

    *Latency*: at the least latency of the memory 4 cycles from ``panel.begin`` to the first ``write``.

    *Throughput*: 32 bytes a cycle.

    *Back-pressure*: writes are never refused.

    *Reset*: no load is in progress.
    """

    def __init__(self, cfg):
        self.cfg = cfg = SparseParameters.of(cfg)
        super().__init__({
            "panel": In(PanelPort()), "request": Out(stream.Signature(word_request_layout)), "answered": In(1), "last": In(1),
            "halves": In(8 * BANK_BYTES).array(2), "arrived": In(2), "write": Out(1), "write_operand": Out(1), "write_scale": Out(1),
            "scale_row": Out(range(SCALE_ROWS)),
            "write_word": Out(cfg.factor_address_bits), "write_parts": Out(cfg.numbers_per_word), "write_lanes": Out(cfg.threads),
            "data": Out(32).array(cfg.thread_slots),
        })

    def elaborate(self, platform):
        m = Module()
        cfg, panel, request = self.cfg, self.panel, self.request
        groups, parts = cfg.threads // cfg.thread_slots, exact_log2(cfg.numbers_per_word)
        group_bits = exact_log2(groups)
        word, left, missing = (Signal(WORD_BITS), *(Signal(16 + group_bits, name=name) for name in ("left", "missing")))   # pairs
        rows = max(cfg.sparse_rows, cfg.numbers_per_word << OPERAND_BITS)
        first, row, behind = (Signal(range(rows + 1), name=name) for name in ("first", "row", "behind"))    # rows of the panel
        group, within, turn = Signal(group_bits), Signal(group_bits), Signal()      # group of PEs; its bits within a strip; last row
        ends, target = self.answered & self.last, Signal(PanelTarget)
        m.d.comb += turn.eq((group & within) == within)
        m.d.comb += [panel.free.eq(1), request.valid.eq(left != 0), request.payload.word.eq(word), request.payload.pair.eq(1)]
        with m.If(request.valid & request.ready):
            m.d.sync += [word.eq(word + 2), left.eq(left - 1)]
        m.d.sync += [
            missing.eq(missing - ends), panel.done.eq(ends & (missing == 1)),
            self.write.eq(self.answered & (target == PanelTarget.PANEL)),
            self.write_operand.eq(self.answered & (target == PanelTarget.WEIGHTS)),
            self.write_scale.eq(self.answered & (target == PanelTarget.SCALES)), self.scale_row.eq(row),
            self.write_word.eq(row >> parts), self.write_parts.eq(1 << row[:parts] if parts else 1),
        ]
        # Groups of a strip, then its rows, then strips.
        with m.If(ends & ~turn):
            m.d.sync += group.eq(group + 1)
        with m.Elif(ends & (row + 1 != behind)):
            m.d.sync += [group.eq(group & ~within), row.eq(row + 1)]
        with m.Elif(ends):
            m.d.sync += [group.eq(group + 1), row.eq(first)]
        with m.If(panel.begin):
            pairs = panel.rows << group_bits
            m.d.sync += [word.eq(panel.word), left.eq(pairs), missing.eq(pairs), target.eq(panel.target), first.eq(panel.row),
                         row.eq(panel.row), behind.eq(panel.row + panel.rows), group.eq(0), within.eq(groups - 1 >> panel.strips)]
        slots_of_word = BANK_BYTES // LANE_BYTES
        for lane in range(cfg.threads):
            half = lane % cfg.thread_slots // slots_of_word
            mine = self.arrived[half] & self.answered
            m.d.sync += self.write_lanes[lane].eq(mine & (group == lane // cfg.thread_slots) if groups > 1 else mine)
        for slot, value in enumerate(self.data):
            m.d.sync += value.eq(self.halves[slot // slots_of_word].word_select(slot % slots_of_word, 32))
        return m
