"""The control pipeline of the lanes."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..rnn.layouts import engine_step_layout
from .cross_lane_tree import GROUP_LEVELS
from .layouts import TAP_ROW_BITS, accumulate_layout, step_layout, tap_banks, tap_layout
from .product_register_file import PRODUCT_ADDRESS_BITS

__all__ = ["PipelineControl"]


class PipelineControl(Component):
    """Follows each step through the lanes and says, once for all of them, what to do in which cycle.

    With D = log2(dot) and ``i`` in cycle 0, the outputs belong to these cycles of a step: ``a_signed``, ``wide`` and
    ``active`` 1, ``odd_high`` 1 + D, ``read_register`` 3 + D, ``accumulate``, ``clear``, ``pairs``, ``quads``, ``total``, ``own``,
    ``scaled`` and ``write_next`` 4 + D, ``receive``, ``write`` and ``write_register`` 5 + D, ``done`` 6 + D. All are registered. The
    product file shows a sum three cycles after the cycle that reads the register, hence the sums of the two cycles before are forwarded
    when they belong to the same register. With ``cfg.thread_overlap`` a sum that the next cycle replaces is not written, so that the thread
    unit may write.

    A step of the engine for recurrent networks is active in all lanes, with signed weights, and joins the others ``GROUP_LEVELS`` cycles
    ahead: no sums over lanes are made of it. In cycles of its own: ``a_signed``, ``wide`` and ``active`` 1, ``read_register`` and ``taps``
    1 + D, ``accumulate`` 2 + D, ``write`` 3 + D. It may read another register than it writes; its sums are always written.

    One step a cycle, nothing held back. Reset drops what is under way.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i : In(step_layout(cfg))
    engine_active : In(1)
        With ``cfg.rnn``: high in each cycle 0 and 1 of a step of the engine, with no step of ``mm`` under way.
    engine_step : In(engine_step_layout(cfg))
    a_signed : Out(2)
        Of even and of odd bytes.
    wide, odd_high, scaled : Out(1)
        For elements of 16 bits, where the lanes have them: see ``Lane``.
    active : Out(threads)
        Lanes that take part.
    read_register, write_register : Out(8)
    write, write_next : Out(1)
        The sum is written in this cycle, in the next one.
    accumulate : Out(accumulate_layout)
    clear : Out(threads)
        Lanes that replace the register.
    pairs, quads, own : Out(1)
        The step adds over pairs or quads of lanes, or counts each lane's own sum; all zero without a step.
    total : Out(1)
        The sums over quads are for lane 0 together.
    taps : Out(tap_layout(cfg))
        With ``cfg.rnn``.
    receive : Out(threads)
        Lanes that such a sum is for.
    done : Out(1)
        The last accumulation of an operation is written: reads granted in this cycle see it.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "i": In(step_layout(cfg)),
            "a_signed": Out(2),
            **({"wide": Out(1)} if cfg.wide_lanes else {}),
            **({"odd_high": Out(1), "scaled": Out(1)} if cfg.two_passes else {}),
            "active": Out(cfg.threads),
            "read_register": Out(PRODUCT_ADDRESS_BITS),
            "accumulate": Out(accumulate_layout),
            "clear": Out(cfg.threads),
            "pairs": Out(1),
            "quads": Out(1),
            "own": Out(1),
            "total": Out(1),
            "receive": Out(cfg.threads),
            "write_next": Out(1),
            "write": Out(1),
            "write_register": Out(PRODUCT_ADDRESS_BITS),
            "done": Out(1),
            **({"engine_active": In(1), "engine_step": In(engine_step_layout(cfg)), "taps": Out(tap_layout(cfg))} if cfg.rnn else {}),
        })

    def elaborate(self, platform):
        m = Module()
        read = 1 + exact_log2(self.cfg.dot) + GROUP_LEVELS      # the cycle that reads the product register

        def delayed(value, cycles, name, engine=None, **options):
            """``value`` of cycle 0 in each of the cycles 0 to ``cycles``; ``engine`` adds what joins it."""
            stages = [value]
            for cycle in range(1, cycles + 1):
                stage = Signal(value.shape(), name=f"{name}_{cycle}", **options)
                m.d.sync += stage.eq(stages[-1])
                stages.append(engine(stage) if engine and self.cfg.rnn and cycle == GROUP_LEVELS else stage)
            return stages

        step = delayed(self.i.step, read + 2, "step", lambda stage: stage | self.engine_step.step)
        last = delayed(self.i.last, read + 3, "last")
        product = delayed(self.i.product, read + 2, "product", lambda stage: Mux(self.engine_active, self.engine_step.product, stage),
                          reset_less=True)
        self._elements(m, delayed, read)
        active = delayed(self._or_active(self.i.lanes), 1, "active", reset_less=True)
        zero = delayed(self.i.zero, read, "zero", lambda stage: Mux(self.engine_active, self.engine_step.zero, stage),
                       reset_less=True)
        source, engine = self._engine(m, delayed, read, product, zero) if self.cfg.rnn else (product, None)
        receivers = delayed(self.i.receivers, read + 2, "receivers", reset_less=True)
        clear = Signal(self.cfg.threads, reset_less=True)
        own = Signal()
        pairs = delayed(self.i.pairs & self.i.step, read + 1, "pairs")
        quads = delayed(self.i.quads & self.i.step, read + 1, "quads")
        total = delayed(self.i.total, read + 1, "total", reset_less=True)
        cleared, counts = receivers[read], step[read] & ~(pairs[read] | quads[read])
        if self.cfg.rnn:
            cleared, counts = cleared | engine[read].replicate(self.cfg.threads), counts & ~engine[read]
        m.d.sync += [clear.eq(Mux(zero[read], cleared, 0)), own.eq(counts)]
        added_to, written = self._accumulate(m, read, step, source, product, engine)
        m.d.comb += [
            self.active.eq(active[1]),
            self.read_register.eq(source[read]),
            *added_to,
            self.clear.eq(clear),
            self.pairs.eq(pairs[read + 1]),
            self.quads.eq(quads[read + 1]),
            self.own.eq(own),
            self.total.eq(total[read + 1]),
            self.receive.eq(receivers[read + 2]),
            *written,
            self.write_register.eq(product[read + 2]),
            self.done.eq(last[read + 3]),
        ]
        return m

    def _accumulate(self, m, read, step, source, product, engine):
        """Assignments: where the number that is added to comes from, and whether the sum is written."""
        forward_one = Signal()
        forward_two = Signal()
        read_counts = Signal()
        repeats = [Signal(name=f"repeats_{distance}") for distance in (1, 2)]
        # With thread_overlap compared a cycle before, because ``write_next`` follows from it.
        overlap = self.cfg.thread_overlap
        domain, at = (m.d.sync, read - 1) if overlap else (m.d.comb, read)
        for distance, repeat in enumerate(repeats, 1):
            domain += repeat.eq(step[at] & step[at + distance] & (source[at] == product[at + distance]))
        m.d.sync += [
            forward_one.eq(repeats[0]),
            forward_two.eq(repeats[1] & ~repeats[0]),
            read_counts.eq(step[read] & ~(repeats[0] | repeats[1])),
        ]
        written = step[read + 2]
        # A step of the engine that adds to the last sum does not always replace it.
        replaced = repeats[0] & ~engine[read] if self.cfg.rnn else repeats[0]
        if overlap:                     # unless the sum is replaced in the cycle after
            written = Signal(name="written")
            m.d.sync += written.eq(self.write_next)
        return ([
            self.accumulate.read.eq(read_counts),
            self.accumulate.forward_one.eq(forward_one),
            self.accumulate.forward_two.eq(forward_two),
        ], [
            self.write_next.eq(step[read + 1] & ~replaced if overlap else step[read + 1]),
            self.write.eq(written),
        ])

    def _or_active(self, value):
        """All ones while the engine owns the lanes."""
        return value | self.engine_active.replicate(len(value)) if self.cfg.rnn else value

    def _engine(self, m, delayed, read, product, zero):
        """What only steps of the engine have. Returns the register that is added to and the step, by stages of the other steps."""
        step = self.engine_step
        none = [None] * GROUP_LEVELS

        def joined(value, until, name, **options):
            return none + delayed(value, until - GROUP_LEVELS, f"engine_{name}", **options)

        source = joined(Mux(self.engine_active, step.source, product[GROUP_LEVELS]), read + 1, "source", reset_less=True)
        engine = joined(step.step, read + 1, "step")
        quarters = joined(step.step & step.cat[1], read, "quarters")
        split = joined(step.step & step.cat.any(), read + 1, "split")

        def bank(name, register, condition):
            """The bank of a register of the taps, one hot, a cycle later."""
            one_hot = Signal(tap_banks(self.cfg), name=f"{name}_bank")
            m.d.sync += one_hot.eq(Mux(condition, 1 << register[TAP_ROW_BITS:] % tap_banks(self.cfg), 0))
            m.d.comb += self.taps[f"{name}_bank"].eq(one_hot)

        for late, counts, at in (("", quarters, read), ("late_", split, read + 1)):
            bank(f"{late}source", source[at - 1], counts[at - 1] & ~zero[at - 1])
            bank(f"{late}product", product[at - 1], counts[at - 1])
            m.d.comb += [self.taps[f"{late}source_row"].eq(source[at]), self.taps[f"{late}product_row"].eq(product[at])]
        m.d.comb += [self.taps.quarters.eq(quarters[read]), self.taps.split.eq(split[read + 1]), self.taps.sum.eq(engine[read + 1])]
        return source, engine

    def _elements(self, m, delayed, read):
        """Signs and weights. The low byte of an element has no sign, but where a multiplier takes both bytes."""
        a_signed, int16 = self._or_active(self.i.a_signed), self.i.int16
        if self.cfg.rnn:
            int16 = int16 & ~self.engine_active
        low_signed = a_signed if self.cfg.wide_lanes else a_signed & ~int16
        outputs = [(self.a_signed, Cat(low_signed, a_signed), 1, "a_signed")]
        if self.cfg.wide_lanes:
            outputs += [(self.wide, int16, 1, "wide")]
        if self.cfg.two_passes:
            outputs += [(self.odd_high, int16 & ~self.i.swapped, read - 2, "odd_high"),
                        (self.scaled, int16 & self.i.swapped, read + 1, "scaled")]
        for output, value, cycles, name in outputs:
            m.d.comb += output.eq(delayed(value, cycles, name, reset_less=True)[-1])
