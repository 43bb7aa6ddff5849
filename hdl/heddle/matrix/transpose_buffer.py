"""Transpose buffer: columns of transposed B from pieces of its rows."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out

from ..constants import BANK_BYTES
from ..interfaces.datapath import step_layout
from ..parameters.matrix import MatrixParameters
from .layouts import pick_layout, piece_layout

__all__ = ["TransposeBuffer"]


class TransposeBuffer(Component):
    """Transpose buffer: holds pieces of 16 bytes of ``dot`` rows of B and reads columns from them; double buffered [S0.8].

    Byte i of the word of a step is byte ``column`` of row i. 16-bit elements fill two rows each. Rows i and i xor 1 are equal. Byte i of
    the word is then byte ``column`` + (i mod 2) of row i. The first step of a set of pieces waits until the set is complete. The set then
    replaces the one before, and the next set may arrive.

    Parameters
    ----------
    cfg : MatrixParameters

    *Ports*:
    line : In(128).array(piece_slots)
        16 bytes for each fetch slot of ``piece``.
    served : In(piece_slots)
        Fetch slots whose bytes are valid.
    piece : In(piece_layout(cfg))
        Group of rows of these bytes.
    int16 : In(1)
        The elements of ``piece`` have 16 bits.
    i : In(stream.Signature(pick_layout(cfg)))
        Steps, each with a column.
    switched : Out(1)
        A new set of pieces comes into use.
    step : Out(step_layout(cfg))
        Step for the PEs.
    valid : Out(1)
        ``step`` has a step or the end of an operation.
    b_signed : Out(1)
        Elements of B are signed.
    word : Out(8 * dot)
        Word of B; zero without a step.
    busy : Out(1)
        Steps are in flight here.

    *Latency*: two cycles from ``i`` to ``step`` and ``word``.

    *Throughput*: one step a cycle.

    *Back-pressure*: ``i.ready`` is low for the first step of a set that is not complete; it is combinational from ``i.payload.first``.
    ``switched`` is combinational from ``i``. ``step`` is never held.

    *Reset*: no set is complete and no step is in flight.
    """

    def __init__(self, cfg):
        self.cfg = cfg = MatrixParameters.of(cfg)
        super().__init__({
            "line": In(8 * BANK_BYTES).array(cfg.piece_slots),
            "served": In(cfg.piece_slots),
            "piece": In(piece_layout(cfg)),
            "int16": In(1),
            "i": In(stream.Signature(pick_layout(cfg))),
            "switched": Out(1),
            "step": Out(step_layout(cfg)),
            "valid": Out(1),
            "b_signed": Out(1),
            "word": Out(8 * cfg.dot),
            "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        rows = data.ArrayLayout(8 * BANK_BYTES, self.cfg.dot)
        coming, current = Signal(rows, reset_less=True), Signal(rows, reset_less=True)
        complete = Signal()
        first = self.i.payload.first
        m.d.comb += [
            self.i.ready.eq(~first | complete),
            self.switched.eq(self.i.valid & first & complete),
        ]
        with m.If(self.switched):
            m.d.sync += [complete.eq(0), current.eq(coming)]
        with m.If(self.piece.last):
            m.d.sync += complete.eq(1)
        self._arrive(m, coming)

        taken, entry = Signal(), Signal(pick_layout(self.cfg), reset_less=True)
        given, output = Signal(), Signal(pick_layout(self.cfg), reset_less=True)
        word = Signal(8 * self.cfg.dot)
        m.d.sync += [taken.eq(self.i.valid & self.i.ready), entry.eq(self.i.payload), given.eq(taken), output.eq(entry),
                     word.eq(Mux(taken & entry.step.step, self._pick(entry, current), 0))]
        m.d.comb += [self.valid.eq(given), self.step.eq(output.step), self.b_signed.eq(output.b_signed), self.word.eq(word),
                     self.busy.eq(taken | given)]
        with m.If(~given):
            m.d.comb += [self.step.step.eq(0), self.step.last.eq(0)]
        return m

    def _arrive(self, m, coming):
        slots = self.cfg.piece_slots
        for row in range(self.cfg.dot):
            group, slot = divmod(row, slots)
            here = self.piece.group == group
            if slots == 1:
                here = Mux(self.int16, self.piece.group == row // 2, here)
            with m.If(self.piece.used & self.served[slot] & here):
                m.d.sync += coming[row].eq(self.line[slot])

    def _pick(self, entry, current):
        picked = []
        for row in range(self.cfg.dot):
            byte = Cat(Mux(entry.step.int16, row % 2, entry.column[0]), entry.column[1:])
            picked.append(current[row].word_select(byte, 8))
        return Cat(picked)
