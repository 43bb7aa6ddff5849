"""The sparse engine: which non-zeros its steps multiply."""

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Cat, Const, Cover, Module, Mux, Signal
from amaranth.lib.wiring import Component
from heddle import load_config
from heddle.isa.sparse_job import ELEMENTS_OF_WORD
from heddle.sparse.layouts import ROWS_INSIDE, ItemKind
from heddle.sparse.step_sequencer import StepSequencer

from .contract import obey

__all__ = ["StepSequencerSpec"]

WORDS = 4       # numbers of words, modulo: the window knows two at a time
MOST = 7        # non-zeros of a row


class StepSequencerSpec(Component):
    """Steps multiply every non-zero of the rows of a job once, in order, and no other. A row leaves with its last step, with all its
    non-zeros, behind the rows before it. At most 16 rows are between their first step and the read of their sums.

    Environment: the rows of one job, of up to 7 non-zeros each, that begin anywhere in a word; words come as they please. Non-zeros have
    their number as index, modulo 32, and the value 1; the panel has all of these rows. Sums are read as they please. No sub-warps.
    """

    def __init__(self):
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        cfg = load_config("base")
        m.submodules.dut = dut = StepSequencer(cfg)
        accepts = dut.i.valid & dut.i.ready
        place = self._rows(m, dut, accepts)
        self._words(m, dut)
        # Steps as they leave, with the elements, which come a cycle later. ``seen``: non-zeros of the steps before, modulo 32.
        group = dut.reads.operands[0]
        parts = len(group.first_part)
        numbers = [Signal(parts + len(group.first_word), name=f"number_{index}") for index in range(2)]
        m.d.sync += [numbers[0].eq(Cat(group.first_part, group.first_word)), numbers[1].eq(Cat(group.second_part, group.second_word))]
        stepped, leaves = Signal(), Signal()
        m.d.sync += [stepped.eq(dut.reads.active), leaves.eq(dut.o_row.valid)]
        values, old = [Signal(16, name=f"value_{number}") for number in range(2)], Signal(2, init=3)
        m.d.sync += old.eq(old >> 1)
        count, seen, of_row = Signal(2), Signal(5), Signal(4)
        # Behind a reset come elements of steps before it.
        m.d.comb += [
            *(value.eq(Mux(old.any(), 0, element)) for value, element in zip(values, dut.reads.elements[0], strict=True)),
            count.eq((values[0] != 0) + (values[1] != 0)), Assert(stepped | (count == 0)), Assert(~leaves | stepped),
            Assert((values[1] == 0) | (values[0] != 0)),
        ]
        for number, value in enumerate(values):
            expected = (place + seen + number)[:5]
            m.d.comb += [Assert((value == 0) | (value == 1)), Assert((value == 0) | (numbers[number] == expected))]
        m.d.sync += [seen.eq(seen + count), of_row.eq(of_row + count)]
        # The row that left has been taken from the input three cycles before.
        taken = [(accepts, dut.i.payload.count[:3])]
        for stage in range(3):
            kept = Signal(name=f"taken_{stage}"), Signal(3, name=f"count_{stage}")
            m.d.sync += [signal.eq(value) for signal, value in zip(kept, taken[-1], strict=True)]
            taken.append(kept)
        m.d.comb += Assert(leaves == taken[-1][0])
        with m.If(leaves):
            m.d.comb += Assert(of_row + count == taken[-1][1])
            m.d.sync += of_row.eq(0)
        self._inside(m, dut)
        m.d.comb += [Assert(~dut.o_error.valid), Cover(leaves & (of_row + count == MOST)), Cover(leaves & (of_row + count == 0)),
                     Cover(stepped & (count == 2) & (seen[:3] == 7))]
        return m

    def _rows(self, m, dut, accepts):
        """Rows of a job at ``i``. Returns the place of the first non-zero of the job."""
        item, first, place = dut.i.payload, Signal(init=1), Signal(3, reset_less=True)
        obey(m, dut.i, "i")
        m.d.comb += [
            dut.i.valid.eq(AnySeq(1)), item.kind.eq(ItemKind.ROW), item.count.eq(AnySeq(3)), item.start.eq(AnySeq(3)),
            item.begins.eq(first), item.panel_rows.eq(WORDS * ELEMENTS_OF_WORD),
        ]
        with m.If(dut.i.valid & first):
            m.d.sync += place.eq(item.start)
        with m.If(accepts):
            m.d.sync += first.eq(0)
        return place

    def _words(self, m, dut):
        """Words of non-zeros, whenever they please."""
        word = Signal(range(WORDS))
        m.d.comb += dut.i_vector.valid.eq(AnySeq(1))
        for number, element in enumerate(dut.i_vector.payload.elements):
            m.d.comb += [element.index.eq(Cat(Const(number, 3), word)), element.value.eq(1)]
        with m.If(dut.i_vector.valid & dut.i_vector.ready):
            m.d.sync += word.eq(word + 1)

    def _inside(self, m, dut):
        """Rows whose sums are read: of those that left, and of those with a step no more than ``ROWS_INSIDE``."""
        waiting, begun = Signal(range(ROWS_INSIDE + 2)), Signal(range(ROWS_INSIDE + 2))
        starts = dut.reads.active & dut.pe.step.zero
        m.d.comb += [dut.drained.eq(AnySeq(1)), Assume(~dut.drained | (waiting != 0)), Assert(begun + starts <= ROWS_INSIDE)]
        m.d.sync += [waiting.eq(waiting + dut.o_row.valid - dut.drained), begun.eq(begun + starts - dut.drained)]
