"""Step sequencer: steps of the PEs for the rows of sparse matrices."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out, flipped
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES
from ..interfaces.datapath import OPERAND_BITS, EngineStepPort, SamplePort, SparseReadPort
from ..interfaces.layouts import ErrorStream
from ..isa.error_codes import ErrorCode
from ..isa.sparse_job import ELEMENTS_OF_WORD, MOST_SUB_WARPS, SUM_BYTES, PanelTarget
from ..lib.stream import link
from ..parameters.sparse import SparseParameters
from .element_window import ElementWindow
from .layouts import (
    BLOCK_BITS,
    ROWS_INSIDE,
    SAMPLES_INSIDE,
    SUMS_BITS,
    ItemKind,
    PanelPort,
    drain_entry_layout,
    element_layout,
    item_layout,
    sample_layout,
    vector_layout,
)

__all__ = ["StepSequencer"]

CAT_FOUR = 2        # log2 of the sums of a PE

# Step before its checks. ``count``: non-zeros; ``last``: of its row; ``halves``: there is room for a second one; ``weights``: number of
# the step of its row. Of a sampled product: number of the step of its element, whether it is the last one, and place of the sum, counted
# in sums.
chosen_layout = data.StructLayout({
    "count": 4, "first": 1, "last": 1, "halves": 1, "sums": SUMS_BITS, "fault": 2,
    "elements": data.ArrayLayout(element_layout, ELEMENTS_OF_WORD),
    "step": 3, "final": 1, "sum": BLOCK_BITS + 2, "half": 1, "odd": 1, "weights": OPERAND_BITS, "item": item_layout,
})


class StepSequencer(Component):
    """Step sequencer: multiplies the non-zeros of a row, up to two in a step, with their rows of the panel [S4]. Groups of PEs that are
    sub-warps have as many non-zeros each, of rows of their own [S4.5].

    A step is chosen in one cycle and checked in the next one. Row n of the engine, counted modulo 16, has its sums in accumulators n. A row
    without non-zeros has a step with zeros. At most ``ROWS_INSIDE`` (16) rows are between their first step and the read of their sums.
    Step n of a depthwise row multiplies with word n modulo 16 of the operand rows, where PEs have weights of their own.

    Of a sampled product an element takes ``words`` steps, on the factor words of its column, with the row of A that the PEs hold. A row
    without elements takes a cycle and no step. Steps of rows and panels, and those of sampled products, wait until all sums of the other
    kind have left.

    Parameters
    ----------
    cfg : SparseParameters

    *Ports*:
    i : In(stream.Signature(item_layout))
        Work in order.
    i_vector : In(stream.Signature(vector_layout))
        Non-zeros of the rows.
    place : In(30)
        Number of the word of a vector with ``fault``.
    pe : Out(EngineStepPort(cfg))
        Steps of the PEs; registered. Elements are 0.
    reads : Out(SparseReadPort(cfg))
        Factor words of the steps, and their elements; registered.
    panel : Out(PanelPort())
        Loads of the panel; a load begins when no step is chosen, and steps behind it wait for its end.
    o_row : Out(stream.Signature(drain_entry_layout(cfg), always_ready=True))
        Rows, in the cycle of their last step; jobs of panels at their end.
    drained : In(1)
        The sums of the oldest row are read.
    samples : Out(SamplePort(cfg))
        Operand rows of sampled products and depthwise rows; registered. ``write`` and ``write_word`` are 0, and ``total`` is not used.
    o_sample : Out(stream.Signature(sample_layout, always_ready=True))
        Steps of sampled products, and ends of their jobs without one, in the cycle of the step; registered.
    left : In(1)
        The row of A of the oldest row of a mask is in the PEs,
    half : In(1)
        in this half of the operand rows,
    odd : In(1)
        in the upper 4 words of it.
    release : Out(1)
        Its last step is chosen.
    released : In(3)
        Elements of sampled products, and ends without one, whose sums have left.
    rows_busy, samples_busy : In(1)
        Sums of rows, of sampled products have not left.
    o_error : Out(ErrorStream())
        The first error; registered. No step follows until reset.
    halves : Out(1)
        The step in this cycle has one non-zero where two fit.

    *Latency*: 2 cycles from ``i`` and the window to ``pe.step``; ``reads.elements`` and ``pe.take`` follow one cycle later.

    *Throughput*: one step a cycle, without a gap between rows.

    *Back-pressure*: ``i.ready`` depends on ``i``. The PEs never stall a step.

    *Reset*: no work. The elements of a step in the last cycle before still come.

    *Errors*: those of items; OUT_OF_RANGE where non-zeros, or the sums of a row, are outside of shared memory; SPARSE_INDEX for an index
    that the panel does not have. Rows before that of the error are at ``o_row``, this row and later ones are not; of a sampled product the
    elements before that of the error are at ``o_sample``, this one and later ones are not.
    """

    def __init__(self, cfg):
        self.cfg = cfg = SparseParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(item_layout)), "i_vector": In(stream.Signature(vector_layout)), "place": In(30),
            "pe": Out(EngineStepPort(cfg)), "reads": Out(SparseReadPort(cfg)), "panel": Out(PanelPort()),
            "o_row": Out(stream.Signature(drain_entry_layout(cfg), always_ready=True)), "drained": In(1), "o_error": Out(ErrorStream()),
            "halves": Out(1), "samples": Out(SamplePort(cfg)), "o_sample": Out(stream.Signature(sample_layout, always_ready=True)),
            "left": In(1), "half": In(1), "odd": In(1), "release": Out(1), "released": In(3), "rows_busy": In(1), "samples_busy": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        self._valid, self._chosen = Signal(), Signal(chosen_layout, reset_less=True)
        self._failed = Signal()
        self._mode = Signal()       # steps are those of sampled products
        self._choose(m)
        self._panel(m)
        error = self._check(m)
        self._step(m, error)
        return m

    def _choose(self, m):
        """The next step, of the item at ``i``."""
        m.submodules.window = window = ElementWindow()
        link(m, flipped(self.i_vector), window.i)
        item, pairs = self.i.payload, self.cfg.sparse_pairs
        first, left, remaining = Signal(init=1), Signal.like(item.count), Signal.like(item.count)    # non-zeros of the row
        weights = Signal(OPERAND_BITS)
        inside, sums = Signal(range(ROWS_INSIDE + 1)), Signal(SUMS_BITS)
        fires, last, ready, count = Signal(), Signal(), Signal(), Signal.like(self._chosen.count)
        row = self.i.valid & (item.kind == ItemKind.ROW) & (item.samples == self._mode)
        chosen = self._chosen
        self._item_ends = Signal()      # the panel at ``i`` is loaded
        final, room = self._elements(m, fires, count, first)
        most = Mux(item.samples, 1, pairs << Mux(item.sub_warps, item.strips, 0))
        m.d.comb += [
            remaining.eq(Mux(first, item.count, left)), last.eq((remaining <= most) & final),
            count.eq(Mux(remaining > most, most, remaining)),
            ready.eq((count == 0) | (window.present[0] & ((count == 1) | window.present[1] | window.fault[0]))),
            fires.eq(row & ready & Mux(item.samples, room & (self.left | (count == 0)), ~first | (inside != ROWS_INSIDE))),
            self.release.eq(fires & last & item.samples & (item.count != 0)),
            window.begins.eq(row & item.begins & first), window.start.eq(item.start), window.take.eq(Mux(fires & final, count, 0)),
            window.ends.eq(fires & last & item.ends),
            self.i.ready.eq(Mux(item.kind == ItemKind.ROW, fires & last, Mux(item.kind == ItemKind.PANEL, self._item_ends, ~self._valid))),
        ]
        m.d.sync += [
            self._valid.eq(fires | (self.i.valid & (item.kind == ItemKind.FAULT) & ~self._valid)), chosen.count.eq(count),
            chosen.first.eq(first), chosen.last.eq(last), chosen.sums.eq(sums),
            chosen.halves.eq((count == 1) & (pairs > 1) & ~item.samples),
            chosen.fault.eq(window.fault), chosen.item.eq(item),
            *(kept.eq(value) for kept, value in zip(chosen.elements, window.o, strict=True)),
            inside.eq(inside + (fires & first & ~item.samples) - self.drained), chosen.half.eq(self.half), chosen.odd.eq(self.odd),
            chosen.weights.eq(weights),
        ]
        with m.If(fires):
            m.d.sync += [
                first.eq(last), left.eq(remaining - Mux(final, count, 0)), sums.eq(sums + last), weights.eq(Mux(last, 0, weights + 1)),
            ]

    def _elements(self, m, fires, count, first):
        """Steps of the elements of sampled products. Returns whether the step is the last one of its element, as each of a row is, and
        whether there is room for the sum.
        """
        item, chosen, samples = self.i.payload, self._chosen, self.i.payload.samples
        step, final, inside = Signal(3), Signal(), Signal(range(SAMPLES_INSIDE + 1))
        place, now = Signal(BLOCK_BITS + 2), Signal(BLOCK_BITS + 2)
        m.d.comb += [
            final.eq(~samples | (count == 0) | (step == (item.words - 1)[:3])), now.eq(Mux(first, Cat(item.place, item.output), place)),
        ]
        # With the last row a place is taken also without an element, for the end of the job.
        enters = fires & samples & final & ((count != 0) | item.ends)
        m.d.sync += [inside.eq(inside + enters - self.released), chosen.step.eq(step), chosen.final.eq(final), chosen.sum.eq(now)]
        with m.If(fires):
            m.d.sync += [step.eq(Mux(final, 0, step + 1)), place.eq(now + final)]
        quiet = ~self._valid & ~self.rows_busy & ~self.samples_busy
        with m.If(self.i.valid & quiet & (item.kind != ItemKind.FAULT)):
            m.d.sync += self._mode.eq(samples & (item.kind == ItemKind.ROW))
        return final, inside != SAMPLES_INSIDE

    def _panel(self, m):
        """Hands a panel to its loader; biases and multipliers when all sums before have left."""
        item, panel, loads = self.i.payload, self.panel, Signal()
        waits = self.i.valid & (item.kind == ItemKind.PANEL)
        m.d.comb += [
            panel.begin.eq(waits & ~loads & ~self._valid & ~self._failed & ~self._mode & panel.free
                           & ~((item.target == PanelTarget.SCALES) & self.rows_busy)),
            panel.word.eq(item.operand), panel.row.eq(item.panel_rows), panel.rows.eq(item.number), panel.target.eq(item.target),
            panel.strips.eq(item.strips), panel.sub_warps.eq(item.sub_warps),
            self._item_ends.eq(panel.done),
        ]
        with m.If(panel.begin):
            m.d.sync += loads.eq(1)
        with m.If(panel.done):
            m.d.sync += loads.eq(0)

    def _check(self, m):
        """Whether the chosen step has an error, which is reported."""
        chosen, item, report = self._chosen, self._chosen.item, self.o_error
        limit, error = Signal(16), Signal()
        most = max(2, self.cfg.sparse_pairs * min(MOST_SUB_WARPS, self.cfg.thread_groups))      # non-zeros of a step
        several = Signal(most)                              # they are there
        wrong = [several[number] & (chosen.elements[number].index >= limit) for number in range(most)]
        gone = [several[number] & chosen.fault[number] for number in range(2)]
        beyond = Mux(item.samples, several[0] & (chosen.sum >= self.cfg.shared_bytes // SUM_BYTES), chosen.last & item.outside)
        m.d.comb += [
            limit.eq(item.panel_rows), *(bit.eq(chosen.count > number) for number, bit in enumerate(several)),
            error.eq(self._valid & ~self._failed & ((item.kind == ItemKind.FAULT) | Cat(*wrong, *gone, beyond).any())),
        ]
        m.d.sync += [report.valid.eq(error), report.payload.pc.eq(item.pc)]
        with m.If(error):
            m.d.sync += self._failed.eq(1)
        outside = ErrorCode.OUT_OF_RANGE
        with m.If(item.kind == ItemKind.FAULT):
            m.d.sync += [report.payload.code.eq(item.code), report.payload.operand.eq(item.operand)]
        for number in range(most):
            index = chosen.elements[number].index
            with m.Elif(gone[number] if number < len(gone) else 0):
                m.d.sync += [report.payload.code.eq(outside), report.payload.operand.eq(self.place * BANK_BYTES)]
            with m.Elif(wrong[number]):
                m.d.sync += [report.payload.code.eq(ErrorCode.SPARSE_INDEX), report.payload.operand.eq(Cat(index, item.number))]
        with m.Elif(item.samples):
            m.d.sync += [report.payload.code.eq(outside), report.payload.operand.eq(chosen.sum[2:] << exact_log2(BANK_BYTES))]
        with m.Else():
            m.d.sync += [report.payload.code.eq(outside), report.payload.operand.eq(Mux(item.scaled, item.output << 5, item.output << 7))]
        return error

    def _step(self, m, error):
        cfg, chosen, item = self.cfg, self._chosen, self._chosen.item
        step, reads, row = self.pe.step, self.reads, self.o_row.payload
        fires, ends, halves, column = Signal(), Signal(), Signal(), Signal.like(step.factor_word)
        sampled, take = Signal(reset_less=True), Signal(reset_less=True)
        self._sample(m, fires)
        for group in range(cfg.thread_groups):
            self._operands(m, group, fires & ~item.samples)
        m.d.comb += [
            fires.eq(self._valid & ~self._failed & ~error),
            column.eq(chosen.elements[0].index * item.words + chosen.step),
            reads.active.eq(step.step & ~sampled), self.halves.eq(step.step & halves),
            self.o_row.valid.eq((step.step & ends & ~sampled) | row.empty), self.pe.take.eq(take),
        ]
        m.d.sync += [
            step.step.eq(fires & ~(item.samples & (chosen.count == 0))), step.product.eq(chosen.sums), step.source.eq(chosen.sums),
            step.zero.eq(chosen.first), step.cat.eq(Mux(item.samples, 0, CAT_FOUR)),
            step.factor_word.eq(Mux(item.samples, column, 0)), reads.unsigned.eq(item.unsigned_panel), sampled.eq(item.samples),
            ends.eq(chosen.last), halves.eq(chosen.halves), row.sums.eq(chosen.sums), row.output.eq(item.output),
            row.ends.eq(item.ends), row.scaled.eq(item.scaled), row.strips.eq(item.strips), row.stride.eq(item.stride),
            row.empty.eq(self.panel.done),
            take.eq(step.step),
        ]
        with m.If(self.panel.done):
            m.d.sync += row.ends.eq(1)

    def _operands(self, m, group, counts):
        """Factor words and elements of a group of PEs, zero unless the step ``counts``."""
        cfg, chosen, item = self.cfg, self._chosen, self._chosen.item
        parts, bits, pairs = exact_log2(cfg.numbers_per_word), exact_log2(cfg.thread_groups), cfg.sparse_pairs
        # Non-zeros of the group, by log2 of the strips.
        places = [(group >> bits - strips) * pairs for strips in range(min(bits, exact_log2(MOST_SUB_WARPS)) + 1)]
        first, second = (Array(chosen.elements[place + number].as_value() for place in places)[Mux(item.sub_warps, item.strips, 0)]
                         for number in range(2))
        first, second = (data.View(element_layout, element) for element in (first, second))
        rows = [Signal(range(cfg.sparse_rows), name=f"panel_row_{group}_{number}") for number in range(2)]
        elements = [Signal.like(value, name=f"element_{group}_{number}", reset_less=True)
                    for number, value in enumerate(self.reads.elements[group])]
        # A reset may end the work, but not the step that is in the PEs: its elements come one cycle later.
        words = [Signal.like(element, name=f"word_{group}_{number}") for number, element in enumerate(elements)]
        several = (chosen.count > 1) & (pairs > 1)
        operands = self.reads.operands[group]
        # A place without a non-zero reads what another one reads, or row 0: rows that are not loaded never enter a PE.
        m.d.comb += [
            rows[0].eq(Mux(chosen.count == 0, 0, first.index)), rows[1].eq(Mux(several, second.index, rows[0])),
            *(value.eq(word) for value, word in zip(self.reads.elements[group], words, strict=True)),
        ]
        m.d.sync += [
            operands.eq(0), *(element.eq(0) for element in elements),
            *(word.eq(element) for word, element in zip(words, elements, strict=True)),
        ]
        with m.If(counts):
            m.d.sync += [
                operands.first_word.eq(rows[0] >> parts), operands.first_part.eq(rows[0]), operands.second_word.eq(rows[1] >> parts),
                operands.second_part.eq(rows[1]), elements[0].eq(Mux(chosen.count == 0, 0, first.value)),
                elements[1].eq(Mux(several, second.value, 0)),
            ]

    def _sample(self, m, fires):
        """The step as one of a sampled product, or of a depthwise row."""
        chosen, item, samples, entry = self._chosen, self._chosen.item, self.samples, self.o_sample.payload
        present = Cat(chosen.count != 0, chosen.count > 1)      # non-zeros, whose multipliers have weights of their own
        taken = Mux(item.samples, (1 << self.cfg.numbers_per_word) - 1, Mux(item.depthwise, present[:self.cfg.sparse_pairs], 0))
        m.d.sync += [
            samples.active.eq(Mux(fires, taken, 0)),        # without a step the multipliers belong to other units
            samples.word.eq(Mux(item.depthwise, chosen.weights, Cat(chosen.step[:2], chosen.step[2] | chosen.odd, chosen.half))),
            samples.unsigned.eq(item.unsigned_panel), samples.unsigned_operand.eq(item.unsigned_left),
            self.o_sample.valid.eq(fires & item.samples & ((chosen.count != 0) | item.ends)),
            entry.empty.eq(chosen.count == 0), entry.begins.eq(chosen.step == 0), entry.final.eq(chosen.final & (chosen.count != 0)),
            entry.ends.eq(chosen.last & item.ends), entry.value.eq(chosen.elements[0].value), entry.place.eq(chosen.sum),
            entry.word.eq(chosen.sum >> 2),
        ]
