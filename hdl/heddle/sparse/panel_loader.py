"""Panel loader: rows of B from shared memory to the factor register files, rows of A and weights to the operand rows, and scales."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, BANKS
from ..interfaces.datapath import OPERAND_BITS
from ..isa.sparse_job import SCALE_ROWS, PanelTarget
from ..parameters.sparse import SparseParameters
from .layouts import WORD_BITS, Client, PanelPort, WordAnswerPort, word_request_layout

__all__ = ["PanelLoader"]

LANE_BYTES = 4          # of a row of B
ODD_WORDS = 4           # words from a row of A to the next one of its pair


class PanelLoader(Component):
    """Panel loader: reads rows of B and writes four bytes of each to every PE, those of eight PEs a cycle.

    Where PEs are parted into strips, all rows of the first strip come first. Rows of sub-warps are as long as a strip and go to all strips.

    A row of A of a sampled product is some such rows, which go to the operand rows of the PEs instead. So do weights of depthwise rows.
    By columns a row has a byte of each word: eight words are read at a time, and their bytes go to two PEs. Of two rows at once
    the bytes of two reads go to four PEs, those of the second row one cycle later.
    Biases, multipliers and bounds of scaled rows leave through the same registers.

    Parameters
    ----------
    cfg : SparseParameters

    *Ports*:
    panel : In(PanelPort())
        Loads.
    request : Out(stream.Signature(word_request_layout))
        Reads of pairs of words, 32 bytes each, or by columns of all words of a row of the banks.
    answer : In(WordAnswerPort())
        Words: of pairs, or by columns of a row of the banks.
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
        PEs: the four or eight PEs of the words, by columns two, of two rows at once four.
    data : Out(32).array(thread_slots)
        Data for each PE of a group of eight.

    *Latency*: at the least latency of the memory 4 cycles from ``panel.begin`` to the first ``write``.

    *Throughput*: 32 bytes a cycle; by columns eight, of two rows at once sixteen.

    *Back-pressure*: writes are never refused.

    *Reset*: no load is in progress.
    """

    def __init__(self, cfg):
        self.cfg = cfg = SparseParameters.of(cfg)
        super().__init__({
            "panel": In(PanelPort()), "request": Out(stream.Signature(word_request_layout)), "answer": In(WordAnswerPort()),
            "write": Out(1), "write_operand": Out(1), "write_scale": Out(1), "scale_row": Out(range(SCALE_ROWS)),
            "write_word": Out(cfg.factor_address_bits), "write_parts": Out(cfg.numbers_per_word), "write_lanes": Out(cfg.threads),
            "data": Out(32).array(cfg.thread_slots),
        })

    def elaborate(self, platform):
        m = Module()
        cfg, panel, request, answer = self.cfg, self.panel, self.request, self.answer
        answered = answer.answered[Client.PANEL.value]
        groups, parts = cfg.threads // cfg.thread_slots, exact_log2(cfg.numbers_per_word)
        group_bits = exact_log2(groups)
        word, left, missing = (Signal(WORD_BITS), *(Signal(16 + group_bits, name=name) for name in ("left", "missing")))   # requests
        rows = max(cfg.sparse_rows, cfg.numbers_per_word << OPERAND_BITS)
        first, row, behind = (Signal(range(rows + 1), name=name) for name in ("first", "row", "behind"))    # rows of the panel
        group, within, last_group = Signal(group_bits), Signal(group_bits), Signal()     # group of PEs; its bits within a strip; last of it
        by_columns, column, shared = Signal(), Signal.like(panel.column), Signal()      # ``shared``: a row goes to all strips
        two, pairs = Signal(range(cfg.thread_slots // 2)), cfg.thread_slots // 2     # by columns: two PEs of the group, that are written
        answers, ends, target = answered & answer.last, Signal(), Signal(PanelTarget)
        double, again = Signal(), Signal()      # two rows; the bytes of the second one are written in the place of those of the first one
        writes = Mux(by_columns, answers & (~double | two[0]), answered)
        m.d.comb += [last_group.eq((group & within) == within), ends.eq(answers & (~by_columns | (two == pairs - 1)))]
        m.d.comb += [panel.free.eq(1), request.valid.eq(left != 0), request.payload.word.eq(word), request.payload.pair.eq(1),
                     request.payload.all.eq(by_columns)]
        with m.If(request.valid & request.ready):
            m.d.sync += [word.eq(word + Mux(by_columns, BANKS, 2)), left.eq(left - 1)]
        m.d.sync += [
            missing.eq(missing - answers), panel.done.eq(Mux(double, again & (missing == 0), answers & (missing == 1))),
            two.eq(two + (answers & by_columns)),
            self.write.eq(writes & (target == PanelTarget.PANEL)), self.write_operand.eq(writes & (target == PanelTarget.WEIGHTS)),
            self.write_scale.eq(writes & (target == PanelTarget.SCALES)), self.scale_row.eq(row),
            self.write_word.eq(row >> parts), self.write_parts.eq(1 << row[:parts] if parts else 1),
        ]
        # Groups of a strip, then its rows, then strips.
        with m.If(ends & ~last_group):
            m.d.sync += group.eq(group + 1)
        with m.Elif(ends & (row + 1 != behind)):
            m.d.sync += [group.eq(group & ~within), row.eq(row + 1)]
        with m.Elif(ends):
            m.d.sync += [group.eq(group + 1), row.eq(first)]
        with m.If(panel.begin):
            loads = panel.rows << group_bits >> Mux(panel.sub_warps, panel.strips, 0)       # of 32 bytes
            requests = Mux(panel.by_columns, loads << exact_log2(pairs), loads)
            m.d.sync += [word.eq(panel.word), left.eq(requests), missing.eq(requests), target.eq(panel.target), first.eq(panel.row),
                         row.eq(panel.row), behind.eq(panel.row + panel.rows), group.eq(0), within.eq(groups - 1 >> panel.strips),
                         by_columns.eq(panel.by_columns), column.eq(panel.column), two.eq(0), shared.eq(panel.sub_warps),
                         double.eq(panel.two)]
        slots_of_word, chosen = BANK_BYTES // LANE_BYTES, self._column(m, answered, by_columns, column, "first")
        second = self._column(m, answered, double, column | 1, "second")
        held = [Signal.like(chosen, name=f"held_{number}", reset_less=True) for number in range(2)]     # of the read before
        later = Signal(2 * len(chosen), reset_less=True)
        with m.If(answers):
            m.d.sync += [held[0].eq(chosen), held[1].eq(second), later.eq(Cat(held[1], second))]
        m.d.sync += again.eq(answers & double & two[0])
        columns = Cat(Mux(double, held[0], chosen), chosen)     # of four PEs; of one row at a time of two, twice
        for lane in range(cfg.threads):
            slot = lane % cfg.thread_slots
            mine = Mux(by_columns, Mux(double, two[1] == slot // 4, two == slot // 2), answer.arrived[slot // slots_of_word]) & answered
            if groups > 1:
                mine &= group == (lane // cfg.thread_slots & Mux(shared, within, groups - 1))
            m.d.sync += self.write_lanes[lane].eq(mine)
        for slot, value in enumerate(self.data):
            part = answer.halves[slot // slots_of_word].word_select(slot % slots_of_word, 32)
            m.d.sync += value.eq(part | Mux(by_columns, columns.word_select(slot % 4, 32), 0))      # by columns there are no halves
            with m.If(again):
                m.d.sync += value.eq(later.word_select(slot % 4, 32))
        with m.If(again):
            m.d.sync += [self.write_operand.eq(1), self.write_word.eq(self.write_word | ODD_WORDS), self.write_parts.eq(self.write_parts),
                         self.write_lanes.eq(self.write_lanes)]
        return m

    def _column(self, m, answered, by_columns, column, name):
        """Byte ``column`` of each word of a row of the banks, those that came before in its answer included: 64 bits, or else 0."""
        chosen, held = Signal(8 * BANKS, name=f"{name}_bytes"), Signal(8 * BANKS, name=f"{name}_came", reset_less=True)
        m.d.sync += held.eq(chosen)
        for bank, word in enumerate(self.answer.words):
            byte = Mux(self.answer.banks[bank] & answered, word.word_select(column, 8), held.word_select(bank, 8))
            m.d.comb += chosen.word_select(bank, 8).eq(Mux(by_columns, byte, 0))
        return chosen
