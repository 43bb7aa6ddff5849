"""Merge split: groups of words of a step that are fetched together."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.layouts import column_fields
from ..lib.onehot import any_of, at_most_one
from ..parameters.matrix import MatrixParameters
from .layouts import group_layout, loop_step_layout
from .merges import COLUMN_MODES, POSITIONS_A, column_place, columns_together, one_hot_lanes_b, one_word

__all__ = ["MergeSplit"]

LANES_B = (1, 2, 4)


class MergeSplit(Component):
    """Merge split: divides the words of a step into groups of up to ``fetch_slots`` words that are fetched together [S0.5-S0.7].

    The words of a step are those of its fetched columns, column by column, each with ``kb`` words along k. A step without merges is one
    group. Groups without a fetched column are left out. A step without columns is one group without words. With transposed B a step is one
    group of one column, with the position and the step that the merge gives this column.

    Parameters
    ----------
    cfg : MatrixParameters

    *Ports*:
    i : In(stream.Signature(loop_step_layout(cfg)))
        Steps.
    offset_load : Out(1)
        The next offsets come into use: the first group of an operation leaves ``i`` in this cycle.
    offset_wait : Out(1)
        The next offsets will come into use with the step at ``i``, but not in this cycle.
    o : Out(stream.Signature(group_layout(cfg)))
        Groups; registered.

    *Latency*: one cycle while ``o.ready`` is high.

    *Throughput*: one group a cycle.

    *Back-pressure*: all registers hold while ``o.ready`` is low. ``i.ready`` is combinational from ``o.ready`` and ``i``: low while a step
    has further groups. ``offset_load`` and ``offset_wait`` are combinational from ``i`` and ``o.ready``.

    *Reset*: no group is in flight.
    """

    def __init__(self, cfg):
        self.cfg = cfg = MatrixParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(loop_step_layout(cfg))),
            "offset_load": Out(1),
            "offset_wait": Out(1),
            "o": Out(stream.Signature(group_layout(cfg))),
        })

    def elaborate(self, platform):
        m = Module()
        slots, self._step = self.cfg.fetch_slots, self.i.payload
        lanes_b = Signal(3)
        begun = Signal()                            # the first group of the step has left
        left = Signal(POSITIONS_A, reset_less=True)     # columns with words that have not left, when begun
        part = Signal(2)                            # number of the group's first word, of the ``kb`` words of each column
        todo = Signal(POSITIONS_A)
        later = Signal(POSITIONS_A)
        last_part = Signal()
        complete = Signal()
        m.d.comb += [
            lanes_b.eq(one_hot_lanes_b(self._step.kb)),
            todo.eq(Mux(begun, left, self._step.fetched)),
            last_part.eq((part + slots > self._step.kb) if slots < 4 else 1),
            complete.eq(self._complete(m, begun, later, part, last_part)),
            self.i.ready.eq(self.o.ready & ~(self.i.valid & ~complete)),
            self.offset_load.eq(self.i.valid & self._step.first & ~begun & self.o.ready),
            self.offset_wait.eq(self.i.valid & self._step.first & ~begun & ~self.o.ready),
        ]
        places = self._columns(m, lanes_b, todo, later)
        # Signals, because each use of an expression becomes cells of its own in the Verilog.
        positions, number, modes = Signal(POSITIONS_A), Signal(self.cfg.thread_bits), Signal(len(COLUMN_MODES))
        m.d.comb += [positions.eq(self._step.fetched), number.eq(self._number()), modes.eq(self._step.modes)]
        if self.cfg.transpose:
            merged_position, merged_number = self._merged_column()
            with m.If(self._step.transpose):
                m.d.comb += [last_part.eq(1), positions.eq(merged_position), number.eq(merged_number), modes.eq(1)]
        with m.If(self.o.ready & self.i.valid):
            m.d.sync += [
                begun.eq(~complete),
                left.eq(Mux(last_part, later, todo)),
                part.eq(Mux(complete | last_part, 0, part + slots)),
            ]
        output_valid = Signal()
        output = Signal(group_layout(self.cfg), reset_less=True)
        m.d.comb += [self.o.valid.eq(output_valid), self.o.payload.eq(output)]
        with m.If(self.o.ready):
            m.d.sync += [
                output_valid.eq(self.i.valid),
                output.used.eq(Cat(any_of(here & todo[a] for a, here in enumerate(place)) for place in places)),
                output.word.eq(self._step.word + part),
                output.extra.eq(self._extra(part)),
                output.lanes_b.eq(lanes_b),
                output.complete.eq(complete),
                output.last.eq(self._step.last & complete),
                output.number.eq(number),
            ]
            self._select(m, output, places, modes)
            self._active(m, output.merge, lanes_b, positions)
            self._merge(m, output.merge, lanes_b, places, part)
            for lane in range(self.cfg.threads):
                m.d.sync += output.lanes[lane].eq(self._step.lanes[lane] & (~self._step.lane_sum | (self._step.quad == lane // 4)))
            for name in ("zero", "a_signed", "b_signed", "int16", "swapped", "pc", "slice", "base", "element_shift", "swizzle",
                         "product", "factor_word", *column_fields(self.cfg)):
                m.d.sync += getattr(output, name).eq(getattr(self._step, name))
        return m

    def _complete(self, m, begun, later, part, last_part):
        """Whether the group is the last of its step. With one fetch slot this is registered, because it drives the enable of the whole
        sequencer.
        """
        if self.cfg.fetch_slots > 1:
            return (self._step.fetched == 0) | ((later == 0) & last_part)
        final = Signal(name="final", reset_less=True)       # for the groups after the first
        with m.If(self.o.ready & self.i.valid):
            m.d.sync += final.eq(Mux(last_part, at_most_one(later) & one_word(self.cfg, self._step),
                                     (later == 0) & (part + 1 == self._step.kb)))
        return Mux(begun, final, self._step.single)

    def _columns(self, m, lanes_b, todo, later):
        """Columns of the step in the group: for each column of the group, its position, one-hot."""
        slots = self.cfg.fetch_slots
        first = Signal(POSITIONS_A)
        taken = Signal(POSITIONS_A)
        lower_pair, none = todo[:2].any(), Const(0, 1)
        lowest = {1: todo & -todo, 2: Cat(lower_pair, none, ~lower_pair, none), 4: Const(1, POSITIONS_A)}
        places = [[[] for _ in range(POSITIONS_A)] for _ in range(min(POSITIONS_A, slots))]
        for mode, lanes in enumerate(LANES_B):
            together = columns_together(slots, lanes)
            for a in range(POSITIONS_A):
                places[a % together][a].append(lanes_b[mode] & first[a - a % together])
        firsts = [Mux(lanes_b[mode], lowest[columns_together(slots, lanes)][:POSITIONS_A], 0)
                  for mode, lanes in enumerate(LANES_B)]
        for column, place in enumerate(places):
            for a, terms in enumerate(place):
                place[a] = Signal(name=f"place_{column}_{a}") if terms else Const(0, 1)
                if terms:
                    m.d.comb += place[a].eq(any_of(terms))
        m.d.comb += [
            first.eq(any_of(firsts)),
            taken.eq(Cat(any_of(place[a] for place in places) for a in range(POSITIONS_A))),
            later.eq(todo & ~taken),
        ]
        return places

    def _select(self, m, output, places, modes):
        """Each column of the group among all columns, one-hot."""
        threads = self.cfg.threads
        for column_of_group, place in enumerate(places):
            selects = [Signal(len(COLUMN_MODES), name=f"select_{column_of_group}_{a}") for a in range(POSITIONS_A)]
            m.d.comb += [select.eq(Mux(here, modes, 0)) for select, here in zip(selects, place, strict=True)]
            for column in range(threads):
                terms = []
                for number, mode in enumerate(COLUMN_MODES):
                    a, index = column_place(threads, mode, column)
                    if not (isinstance(place[a], Const) and place[a].value == 0):
                        terms.append(self._step.index[index] & selects[a][number])
                if terms:
                    m.d.sync += output.columns[column_of_group][column].eq(any_of(terms))
                else:
                    m.d.sync += output.columns[column_of_group][column].eq(0)

    def _extra(self, part):
        """Words of each column in the group, minus one."""
        slots, kb = self.cfg.fetch_slots, self._step.kb
        if slots == 1:
            return 0
        return Mux(kb[1] & ~part[1], 1, kb[0]) if slots == 2 else kb

    def _number(self):
        return Cat(any_of(self._step.index[number] for number in range(self.cfg.threads) if number >> bit & 1)
                   for bit in range(self.cfg.thread_bits))

    def _merged_column(self):
        """(position, one-hot; step) of the column of a step with transposed B in the merge; the index of the step is this column."""
        def where(condition):
            columns = [self._step.modes[number] & self._step.index[column] for number, mode in enumerate(COLUMN_MODES)
                       for column in range(self.cfg.threads) if condition(*column_place(self.cfg.threads, mode, column))]
            return any_of(columns)

        return (Cat(where(lambda a, index, place=place: a == place) for place in range(POSITIONS_A)),
                Cat(where(lambda a, index, bit=bit: index >> bit & 1) for bit in range(self.cfg.thread_bits)))

    def _wide(self):
        """Whether two, and whether four PEs are along the columns."""
        return Cat(self._step.ka == 1, self._step.ka[1])

    def _active(self, m, merge, lanes_b, fetched):
        """Positions that take part in the step, from the positions with a fetched column."""
        wide = self._wide()
        # Columns of four neighbouring positions, repeated when there are fewer.
        spread = (fetched[0], Mux(wide.any(), fetched[1], fetched[0]), Mux(wide[1], fetched[2], fetched[0]),
                  Mux(wide[1], fetched[3], Mux(wide[0], fetched[1], fetched[0])))
        for position in range(self.cfg.positions):
            terms = [lanes_b[mode] & spread[position // lanes % 4] for mode, lanes in enumerate(LANES_B)]
            if position % 4 == 3:
                terms[2] = terms[2] & self._step.kb[0]         # idle when three share a dot product
            m.d.sync += merge.active[position].eq(any_of(terms))

    def _merge(self, m, merge, lanes_b, places, part):
        """Positions of the group and of the PEs that receive its sums."""
        destination, wide = self._step.kb_destination, self._wide()
        for position in range(4):
            m.d.sync += merge.destination[position].eq(
                lanes_b[0] | (lanes_b[1] & (destination[0] == position % 2))
                | (lanes_b[2] & (destination == position) & ~self._step.lane_sum))
            if self.cfg.transpose:
                m.d.sync += merge.source[position].eq(
                    lanes_b[0] | (lanes_b[1] & (self._step.part[0] == position % 2)) | (lanes_b[2] & (self._step.part == position)))
        position_a = Cat(any_of(places[0][a] for a in range(POSITIONS_A) if a >> bit & 1) for bit in range(2))
        m.d.sync += [
            merge.pairs.eq(lanes_b[1]),
            merge.quads.eq(lanes_b[2]),
            merge.total.eq(self._step.lane_sum),
            merge.receive_total.eq(self._step.lane_sum & self._step.lanes[0]),
            merge.place.eq(any_of(Mux(lanes_b[mode], (position_a * lanes) | part, 0)
                                  for mode, lanes in enumerate(LANES_B))),
            merge.mask.eq(Cat(
                wide.any() | ~lanes_b[0],                               # 2 PEs or more
                wide[1] | lanes_b[2] | (wide[0] & lanes_b[1]),          # 4
                (wide[1] & ~lanes_b[0]) | (wide[0] & lanes_b[2]),       # 8
                wide[1] & lanes_b[2])),                                 # 16
        ]
