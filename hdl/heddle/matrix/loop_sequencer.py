"""Loop sequencer of ``mm``: steps and k-slices, without a gap between operations."""

from typing import NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..interfaces.layouts import OffsetReadPort, column_fields, matrix_operation_layout
from ..isa.encoding import LoopOrder
from ..lib.onehot import any_of, at_most_one
from ..parameters.matrix import MatrixParameters
from .layouts import loop_step_layout
from .merges import COLUMN_MODES, POSITIONS_A, column_modes, column_place, one_word, position_steps

__all__ = ["LoopSequencer"]


class _Present(NamedTuple):
    """The operation whose steps are listed."""

    fields: data.View
    valid: Signal
    first: Signal           # no step has left
    final: Signal           # this is the last step
    empty: Signal           # no step has columns


class _Columns(NamedTuple):
    """Columns to fetch, for each position of a merge group: one bit a step."""

    modes: Signal           # mode of the merge, one-hot
    prepared: list[Signal]  # of the next operation
    present: list[Signal]


class LoopSequencer(Component):
    """Loop sequencer: lists the steps of every k-slice of an operation, lowest first, in either loop order [S0.4, S0.5, S0.9].

    Step i has the columns that the positions of a merge group multiply for product register ``product + i``; without merges it has column
    i. Steps without a fetched column are left out. Where 16-bit elements take two passes each step is listed twice, the second time
    ``swapped``.

    With transposed B a step has one column and one word along k, merges or not, because sums are linear. A slice is listed once for each
    word along k (``part``), and the base moves on by the rows of a word [S0.8]. Slices are then outermost.

    While an operation is listed, the next one is taken and its offsets are requested from the PEs. An operation without active columns, and
    every operation while ``stop`` is high, is one step without columns that carries ``last``. With ``stop`` the present operation ends too.

    Parameters
    ----------
    cfg : MatrixParameters

    *Ports*:
    i : In(stream.Signature(matrix_operation_layout(cfg)))
        Operations.
    stop : In(1)
        Operations end early.
    offset_read : Out(OffsetReadPort(cfg))
        Reads of the offsets of the next operation.
    offset_wait : In(1)
        The offsets that were read last are not in use yet, although their first step has left.
    o : Out(stream.Signature(loop_step_layout(cfg)))
        Steps; registered.
    pending : Out(1)
        Steps come after ``o``.

    *Latency*: four cycles from ``i`` to the first step, plus the wait for ``offset_read.grant``.

    *Throughput*: one step a cycle. The next operation is taken one cycle after its predecessor has started.

    *Back-pressure*: all registers hold while ``o.ready`` is low. ``i.ready`` comes from a register. ``offset_read.request`` is
    combinational from ``offset_wait`` and ``stop``.

    *Reset*: all operations are dropped.
    """

    def __init__(self, cfg):
        self.cfg = cfg = MatrixParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(matrix_operation_layout(cfg))),
            "stop": In(1),
            "offset_read": Out(OffsetReadPort(cfg)),
            "offset_wait": In(1),
            "o": Out(stream.Signature(loop_step_layout(cfg))),
            "pending": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        layout = matrix_operation_layout(self.cfg)
        next_valid = Signal()                       # there is an operation after the present one
        next_operation = Signal(layout, reset_less=True)
        valid = Signal()
        operation = Signal(layout, reset_less=True)
        first = Signal()                            # no step has left
        empty = Signal()
        start = Signal()
        final = Signal()
        ready, next_empty = self._next(m, next_valid, next_operation, start, (valid & first) | self.offset_wait)
        # The next operation is loaded whenever the registers are free, and qualified by ``valid``: few levels of logic lie between
        # ``o.ready`` and the registers.
        replace = Signal()
        move = Signal()
        m.d.comb += [
            replace.eq(~valid | final),
            move.eq(~valid | self.o.ready),
            start.eq(ready & replace & move),
        ]

        present = _Present(operation, valid, first, final, empty)
        columns = self._columns(m, next_operation, replace & move)
        fields = self._loops(m, present, columns, replace, move)
        with m.If(self.o.ready):
            m.d.sync += [first.eq(0), valid.eq(valid & ~final)]
        with m.If(start):
            m.d.sync += [valid.eq(1), first.eq(1)]
        with m.If(replace & move):
            m.d.sync += [operation.eq(next_operation), empty.eq(next_empty)]
        self._output(m, present, fields)
        m.d.comb += self.pending.eq(valid | next_valid)
        return m

    def _next(self, m, valid, operation, start, offsets_in_wait):
        """Takes the next operation and has its offsets read; returns whether it can start and whether it is empty."""
        has_offsets = Signal()
        no_columns = Signal()
        empty = Signal()
        ready = Signal()
        m.d.comb += [
            empty.eq(no_columns | self.stop),
            ready.eq(valid & (has_offsets | empty)),
            self.i.ready.eq(~valid),
            self.offset_read.request.eq(valid & ~has_offsets & ~empty & ~offsets_in_wait),
            self.offset_read.number.eq(operation.offset_register),
        ]
        # Empty for a cycle after ``start``: the offsets of the next operation are not requested earlier in any case, and so ``o.ready``
        # does not reach the enable of these registers.
        with m.If(start):
            m.d.sync += valid.eq(0)
        with m.If(self.offset_read.grant):
            m.d.sync += has_offsets.eq(1)
        with m.If(self.i.ready):
            m.d.sync += [
                valid.eq(self.i.valid),
                operation.eq(self.i.payload),
                operation.kb.eq(self.i.payload.kb | self.i.payload.lane_sum.replicate(2)),     # four PEs at a time
                *([operation.order.eq(Mux(self.i.payload.transpose, LoopOrder.SLICES_OUTER, self.i.payload.order))]
                  if self.cfg.transpose else []),
                has_offsets.eq(0),
                no_columns.eq(self.i.payload.columns == 0),
            ]
        return ready, empty

    def _columns(self, m, next_operation, replace):
        """Mode of the merge, and the steps in which each position has a column to fetch.

        Both are prepared in the cycle in which the next operation requests its offsets.
        """
        threads = self.cfg.threads
        decoded = Signal(len(COLUMN_MODES))
        modes_next, modes = (Signal(len(COLUMN_MODES), name=name, reset_less=True) for name in ("modes_next", "modes"))
        m.d.comb += decoded.eq(column_modes(next_operation))
        m.d.sync += modes_next.eq(decoded)
        used = decoded
        if self.cfg.transpose:
            used = Signal(len(COLUMN_MODES), name="column_modes")
            m.d.comb += used.eq(Mux(next_operation.transpose, 1, decoded))
        columns = _Columns(modes, [], [])
        for a in range(POSITIONS_A):
            steps = position_steps(threads, a)
            prepared, present = (Signal(steps, name=f"{name}_{a}", reset_less=True) for name in ("prepared", "fetched"))
            sources = [[] for _ in range(steps)]
            for number, mode in enumerate(COLUMN_MODES):
                for column in range(threads):
                    place, index = column_place(threads, mode, column)
                    if place == a:
                        sources[index].append(used[number] & next_operation.columns[column])
            m.d.sync += prepared.eq(Cat(any_of(terms) for terms in sources))
            with m.If(replace):
                m.d.sync += present.eq(prepared)
            columns.prepared.append(prepared)
            columns.present.append(present)
        with m.If(replace):
            m.d.sync += modes.eq(modes_next)
        return columns

    def _loops(self, m, present, columns, replace, move):
        """The two loops; returns the values of fields of ``loop_step_layout``.

        ``move``: the next step is taken. With ``replace`` it is the first one of the next operation.
        """
        threads, operation = self.cfg.threads, present.fields
        # The present step, one-hot, and the steps of the slice after it; the same for the start of a slice.
        step, others, first_step, other_steps, next_step, next_others, start_step, start_others = (
            Signal(threads, name=name, reset_less=True) for name in (
                "step", "others", "first_step", "other_steps", "next_step", "next_others", "start_step", "start_others"))
        index = Signal(4, reset_less=True)
        word = Signal(self.cfg.word_index_bits, reset_less=True)
        first_word = Signal.like(word)              # first word of the slice, the same for all steps
        last_step = Signal()
        swapped = Signal(reset_less=True)           # second pass
        last_pass = Signal()
        quad = Signal(self.cfg.thread_bits - 2, reset_less=True)
        last_quad = Signal()
        last_slice = Signal()
        next_slice = Signal()                       # the next slice begins, with slices outermost
        next_word = Signal.like(word)
        quads, slice_over, slices_over = operation.lane_sum, last_step, index == operation.k_length
        if self.cfg.transpose:
            part, last_part = self._parts(m, operation, replace & move, next_slice)
            quads, slice_over, slices_over = quads & ~operation.transpose, slice_over & last_part, slices_over & last_part
        for source, lowest, rest in ((any_of(columns.prepared), start_step, start_others),
                                     (others, next_step, next_others)):
            below = Signal(threads)
            m.d.comb += [below.eq(source - 1), lowest.eq(source & ~below), rest.eq(source & below)]
        m.d.comb += [
            last_step.eq(others == 0),
            last_pass.eq((~operation.int16 | swapped) if self.cfg.two_passes else 1),
            last_quad.eq(~quads | quad.all()),
            last_slice.eq(slices_over),
            next_word.eq(word + operation.kb + 1),
            next_slice.eq(move & last_pass & last_step),
            present.final.eq((last_step & last_slice & last_quad & last_pass) | present.empty | self.stop),
        ]
        with m.If(move):
            m.d.sync += swapped.eq(~last_pass)
        with m.If(move & last_pass & ~last_quad):
            m.d.sync += [quad.eq(quad + 1), word.eq(next_word)]
        with m.Elif(move & last_pass):
            m.d.sync += quad.eq(0)
            with m.If(operation.order == LoopOrder.COLUMNS_OUTER):
                m.d.sync += [index.eq(Mux(last_slice, 0, index + 1)), word.eq(Mux(last_slice, 0, next_word))]
                with m.If(last_slice):
                    m.d.sync += [step.eq(next_step), others.eq(next_others)]
            with m.Else():
                m.d.sync += [
                    index.eq(index + slice_over),
                    word.eq(Mux(last_step, next_word, first_word)),
                    step.eq(Mux(last_step, first_step, next_step)),
                    others.eq(Mux(last_step, other_steps, next_others)),
                ]
                with m.If(last_step):
                    m.d.sync += first_word.eq(next_word)
        with m.If(replace & move):
            m.d.sync += [index.eq(0), quad.eq(0), word.eq(0), first_word.eq(0), swapped.eq(0)]
            m.d.sync += [register.eq(start_step) for register in (step, first_step)]
            m.d.sync += [register.eq(start_others) for register in (others, other_steps)]
        fields = {"index": step, "fetched": Cat((step & fetched).any() for fetched in columns.present), "slice": index, "word": word,
                  "quad": quad, "modes": columns.modes, "swapped": swapped}
        return fields | ({"part": part[:2], "quad": Mux(operation.transpose, part[2:], quad)} if self.cfg.transpose else {})

    def _parts(self, m, operation, replace, next_slice):
        """Transposed B: the present word along k of the slice, and whether it is the last."""
        part, last_part = Signal(max(2, self.cfg.thread_bits), reset_less=True), Signal()
        m.d.comb += last_part.eq(~operation.transpose | ((part[:2] == operation.kb) & (~operation.lane_sum | part[2:].all())))
        rows = exact_log2(self.cfg.dot)
        stride = Mux(operation.int16, operation.pitch << rows - 1, operation.pitch << rows)
        with m.If(operation.transpose & next_slice):
            m.d.sync += [operation.base.eq(operation.base + stride), part.eq(Mux(last_part, 0, part + 1))]
        with m.If(replace):
            m.d.sync += part.eq(0)
        return part, last_part

    def _output(self, m, present, fields):
        """Register of the step."""
        operation, output_valid = present.fields, Signal(name="output_valid")
        output = Signal(loop_step_layout(self.cfg), reset_less=True)
        zero = operation.zero & (fields["slice"] == 0) & (fields["quad"] == 0)
        if self.cfg.transpose:
            zero = zero & (fields["part"] == 0)
        with m.If(self.o.ready):
            m.d.sync += output_valid.eq(present.valid)
            for name, value in fields.items():
                m.d.sync += getattr(output, name).eq(value)
            m.d.sync += [
                output.first.eq(present.first),
                output.last.eq(present.final),
                output.zero.eq(zero & ~fields["swapped"]),
                output.int16.eq(operation.int16 if self.cfg.mm16 else 0),
            ]
            for name in ("base", "element_shift", "swizzle", "product", "factor_word", "lanes", "a_signed", "b_signed", "ka", "kb",
                         "kb_destination", "lane_sum", "pc", *column_fields(self.cfg)):
                m.d.sync += getattr(output, name).eq(getattr(operation, name))
            if self.cfg.fetch_slots == 1:
                m.d.sync += output.single.eq(self._single(operation, fields["fetched"]) | present.empty | self.stop)
            with m.If(present.empty | self.stop):
                m.d.sync += output.fetched.eq(0)
            if self.cfg.transpose:
                with m.If(operation.transpose):     # the base moves on instead of the word
                    m.d.sync += output.word.eq(0)
        m.d.comb += [self.o.valid.eq(output_valid), self.o.payload.eq(output)]

    def _single(self, operation, fetched):
        """Whether a step has at most one word: one column of one word along k, or none."""
        return (fetched == 0) | (at_most_one(fetched) & one_word(self.cfg, operation))
