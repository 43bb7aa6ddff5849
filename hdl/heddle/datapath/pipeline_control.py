"""Control pipeline of the PEs."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out, Signature
from amaranth.utils import exact_log2

from ..interfaces.datapath import OPERAND_BITS, PRODUCT_ADDRESS_BITS, SamplePort, SparseReadPort, engine_step_layout, step_layout
from ..parameters.matrix import DatapathParameters
from .cross_lane_tree import GROUP_LEVELS
from .layouts import TAP_ROW_BITS, accumulate_layout, tap_banks, tap_layout

__all__ = ["AccumulatePort", "MultiplyPort", "PipelineControl", "ProductAccessPort"]


def MultiplyPort(cfg, lanes=1, groups=1):
    """Control of the multipliers of ``lanes`` PEs in ``groups``, seen from the control pipeline.

    *Ports*:
    a_signed : Out(2)
        Even bytes of the factor word are signed; odd bytes are.
    wide : Out(1)
        With ``wide_lanes``: elements of 16 bits.
    active : Out(lanes)
        PEs that take part in the step.
    first : Out(groups * numbers_per_word)
        With ``sparse``: part of the word of port A that multipliers 0 to 3 of each group take, one-hot.
    second : Out(groups * (1 + numbers_per_word))
        With ``sparse``: what multipliers 4 to 7 take, one-hot: part 1 of the word of port A, or a part of the word of port B.
    unsigned : Out(1)
        With ``sparse``: the bytes of the factor words are unsigned.
    operand : Out(numbers_per_word)
        With ``sparse``: multipliers, four for each bit, that take the operand row in the place of a word of B.
    operand_word : Out(4)
        With ``sparse``: word of the operand rows.
    operand_unsigned : Out(1)
        With ``sparse``: its bytes are unsigned.
    """
    parts = cfg.numbers_per_word
    return Signature({
        "a_signed": Out(2), **({"wide": Out(1)} if cfg.wide_lanes else {}), "active": Out(lanes),
        **({"first": Out(groups * parts), "second": Out(groups * (1 + parts)), "unsigned": Out(1), "operand": Out(parts),
            "operand_word": Out(OPERAND_BITS), "operand_unsigned": Out(1)} if cfg.sparse else {}),
    })


def AccumulatePort(cfg, lanes=1):
    """Control of the accumulators of ``lanes`` PEs, seen from the control pipeline.

    *Ports*:
    source : Out(accumulate_layout)
        Source that is added to: product register, last sum or the sum before; none without a step.
    clear : Out(lanes)
        PEs that add to nothing: the sum replaces the product register.
    own : Out(1)
        Each PE counts its own dot product; zero in merges and without a step.
    scaled : Out(1)
        With ``two_passes``: the sum counts 2^8 times.
    receive : Out(lanes)
        PEs that receive a sum over PEs; one cycle after the other members.
    """
    return Signature({
        "source": Out(accumulate_layout), "clear": Out(lanes), "own": Out(1), **({"scaled": Out(1)} if cfg.two_passes else {}),
        "receive": Out(lanes),
    })


def ProductAccessPort():
    """Accesses of ``mm`` to the product register files, seen from the control pipeline.

    *Ports*:
    read_register, write_register : Out(8)
        Product register that is read; that is written.
    write_next, write : Out(1)
        The sum is written in the next cycle; in this one.
    """
    return Signature({
        "read_register": Out(PRODUCT_ADDRESS_BITS), "write_next": Out(1), "write": Out(1), "write_register": Out(PRODUCT_ADDRESS_BITS),
    })


def _sample_steps(cfg):
    """The members of ``SamplePort`` that belong to a step."""
    return Signature({name: SamplePort(cfg).members[name] for name in ("active", "word", "unsigned", "unsigned_operand")})


class PipelineControl(Component):
    """Control pipeline: follows each step through the PEs and drives, once for all of them, the controls of each cycle.

    A sum is visible in the product register file three cycles after the cycle that reads the register. Sums of the two steps before are
    therefore forwarded when they belong to the same register. With ``thread_overlap`` a sum that the next cycle replaces is not written, so
    that the thread unit may write.

    A step of the engine for recurrent networks is active in all PEs with signed weights. Such a step enters the pipeline ``GROUP_LEVELS``
    (2) cycles ahead, because it has no sums over PEs. The step may read another register than it writes; its sums are always written.

    Parameters
    ----------
    cfg : DatapathParameters

    *Ports*:
    i : In(step_layout(cfg))
        Step of ``mm``, in cycle 0.
    engine_active : In(1)
        With ``rnn``: high in each cycle 0 and 1 of a step of the engine; no step of ``mm`` is in flight.
    engine_step : In(engine_step_layout(cfg))
        With ``rnn``: step of the engine, in cycle 0.
    sparse_reads : In(SparseReadPort(cfg))
        With ``sparse``: factor words of this step, in cycle 0; elements are not used.
    samples : In(SamplePort(cfg))
        With ``sparse``: this step as one of a sampled product, in cycle 0: the members that belong to a step.
    multiply : Out(MultiplyPort(cfg, threads, thread_groups))
        Control of the multipliers.
    odd_high : Out(1)
        With ``two_passes``: products of odd bytes count 2^16 times.
    accumulate : Out(AccumulatePort(cfg, threads))
        Control of the accumulators.
    pairs, quads : Out(1)
        The step adds over pairs, over quads of PEs; both zero without a step.
    total : Out(1)
        The sums over quads are added for PE 0.
    products : Out(ProductAccessPort())
        Accesses to the product register files.
    taps : Out(tap_layout(cfg))
        With ``rnn``: control of the CAT trees.
    done : Out(1)
        The last accumulation of an operation is written: a read granted in this cycle sees it.

    *Latency*: all outputs come from registers. Their cycles, with D = log2(``dot``) and ``i`` in cycle 0:

    - 1: ``multiply``
    - 1 + D: ``odd_high``
    - 3 + D: ``products.read_register``
    - 4 + D: ``accumulate``, except ``receive``; ``pairs``, ``quads``, ``total``, ``products.write_next``
    - 5 + D: ``accumulate.receive``, ``products.write``, ``products.write_register``
    - 6 + D: ``done``

    A step of the engine: ``multiply`` 1, ``products.read_register`` and ``taps`` 1 + D, ``accumulate`` 2 + D, ``products.write`` 3 + D.

    *Throughput*: one step a cycle, no back-pressure.

    *Reset*: no step is in flight.
    """

    def __init__(self, cfg):
        self.cfg = cfg = DatapathParameters.of(cfg)
        super().__init__({
            "i": In(step_layout(cfg)),
            "multiply": Out(MultiplyPort(cfg, cfg.threads, cfg.thread_groups)),
            **({"odd_high": Out(1)} if cfg.two_passes else {}),
            "accumulate": Out(AccumulatePort(cfg, cfg.threads)),
            "pairs": Out(1),
            "quads": Out(1),
            "total": Out(1),
            "products": Out(ProductAccessPort()),
            "done": Out(1),
            **({"engine_active": In(1), "engine_step": In(engine_step_layout(cfg)), "taps": Out(tap_layout(cfg))} if cfg.rnn else {}),
            **({"sparse_reads": In(SparseReadPort(cfg)), "samples": In(_sample_steps(cfg))} if cfg.sparse else {}),
        })

    @property
    def _read_cycle(self):
        """Cycle in which the product register is read."""
        return 1 + exact_log2(self.cfg.dot) + GROUP_LEVELS

    def elaborate(self, platform):
        m = Module()
        read = self._read_cycle

        def delayed(value, cycles, name, engine=None, **options):
            """``value`` of cycle 0 in each of the cycles 0 to ``cycles``; ``engine`` merges the steps of the engine in cycle
            ``GROUP_LEVELS``.
            """
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
        self._elements(m, delayed)
        if self.cfg.sparse:
            self._operands(m)
        active = delayed(self._or_active(self.i.lanes), 1, "active", reset_less=True)
        zero = delayed(self.i.zero, read, "zero", lambda stage: Mux(self.engine_active, self.engine_step.zero, stage),
                       reset_less=True)
        source, engine = self._engine(m, delayed, product, zero) if self.cfg.rnn else (product, None)
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
        added_to, written = self._accumulate(m, step, source, product, engine)
        m.d.comb += [
            self.multiply.active.eq(active[1]),
            self.products.read_register.eq(source[read]),
            *added_to,
            self.accumulate.clear.eq(clear),
            self.pairs.eq(pairs[read + 1]),
            self.quads.eq(quads[read + 1]),
            self.accumulate.own.eq(own),
            self.total.eq(total[read + 1]),
            self.accumulate.receive.eq(receivers[read + 2]),
            *written,
            self.products.write_register.eq(product[read + 2]),
            self.done.eq(last[read + 3]),
        ]
        return m

    def _accumulate(self, m, step, source, product, engine):
        """Assignments: source that the sum is added to, and whether the sum is written."""
        read = self._read_cycle
        forward_one = Signal()
        forward_two = Signal()
        read_counts = Signal()
        repeats = [Signal(name=f"repeats_{distance}") for distance in (1, 2)]
        # With thread_overlap compared a cycle earlier, because ``write_next`` depends on it.
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
        # A step of the engine that reads the register of the last sum may write another one.
        replaced = repeats[0] & ~engine[read] if self.cfg.rnn else repeats[0]
        if overlap:                     # not written when the next cycle replaces the sum
            written = Signal(name="written")
            m.d.sync += written.eq(self.products.write_next)
        return ([
            self.accumulate.source.read.eq(read_counts),
            self.accumulate.source.forward_one.eq(forward_one),
            self.accumulate.source.forward_two.eq(forward_two),
        ], [
            self.products.write_next.eq(step[read + 1] & ~replaced if overlap else step[read + 1]),
            self.products.write.eq(written),
        ])

    def _or_active(self, value):
        """All ones while the engine owns the PEs."""
        return value | self.engine_active.replicate(len(value)) if self.cfg.rnn else value

    def _engine(self, m, delayed, product, zero):
        """Fields of steps of the engine only. Returns the register that is added to and the step, indexed by the cycles of steps of ``mm``.
        """
        read, step = self._read_cycle, self.engine_step
        none = [None] * GROUP_LEVELS

        def joined(value, until, name, **options):
            return none + delayed(value, until - GROUP_LEVELS, f"engine_{name}", **options)

        source = joined(Mux(self.engine_active, step.source, product[GROUP_LEVELS]), read + 1, "source", reset_less=True)
        engine = joined(step.step, read + 1, "step")
        quarters = joined(step.step & step.cat[1], read, "quarters")
        split = joined(step.step & step.cat.any(), read + 1, "split")

        def bank(name, register, condition):
            """Bank of a register of the taps, one-hot, one cycle later."""
            one_hot = Signal(tap_banks(self.cfg), name=f"{name}_bank")
            m.d.sync += one_hot.eq(Mux(condition, 1 << register[TAP_ROW_BITS:] % tap_banks(self.cfg), 0))
            m.d.comb += self.taps[f"{name}_bank"].eq(one_hot)

        for late, counts, at in (("", quarters, read), ("late_", split, read + 1)):
            bank(f"{late}source", source[at - 1], counts[at - 1] & ~zero[at - 1])
            bank(f"{late}product", product[at - 1], counts[at - 1])
            m.d.comb += [self.taps[f"{late}source_row"].eq(source[at]), self.taps[f"{late}product_row"].eq(product[at])]
        m.d.comb += [self.taps.quarters.eq(quarters[read]), self.taps.split.eq(split[read + 1]), self.taps.sum.eq(engine[read + 1])]
        return source, engine

    def _elements(self, m, delayed):
        """Signs and weights. The low byte of an element has no sign, unless a multiplier takes both bytes."""
        read = self._read_cycle
        a_signed, int16 = self._or_active(self.i.a_signed), self.i.int16
        if self.cfg.rnn:
            int16 = int16 & ~self.engine_active
        low_signed = a_signed if self.cfg.wide_lanes else a_signed & ~int16
        outputs = [(self.multiply.a_signed, Cat(low_signed, a_signed), 1, "a_signed")]
        if self.cfg.wide_lanes:
            outputs += [(self.multiply.wide, int16, 1, "wide")]
        if self.cfg.two_passes:
            outputs += [(self.odd_high, int16 & ~self.i.swapped, read - 2, "odd_high"),
                        (self.accumulate.scaled, int16 & self.i.swapped, read + 1, "scaled")]
        for output, value, cycles, name in outputs:
            m.d.comb += output.eq(delayed(value, cycles, name, reset_less=True)[-1])

    def _operands(self, m):
        """Parts of factor words that the multipliers take, in cycle 1."""
        sparse, samples, parts = self.sparse_reads, self.samples, self.cfg.numbers_per_word
        operand, operand_word = Signal(parts, reset_less=True), Signal(OPERAND_BITS, reset_less=True)
        operand_unsigned = Signal(reset_less=True)
        first, second = (Signal(self.multiply.signature.members[name].shape, name=name, reset_less=True) for name in ("first", "second"))
        unsigned = Signal(reset_less=True)
        for number, group in enumerate(sparse.operands):
            m.d.sync += [
                first.word_select(number, parts).eq(Mux(sparse.active, 1 << group.first_part, 1)),
                second.word_select(number, 1 + parts).eq(Mux(sparse.active, 2 << group.second_part, 1)),
            ]
        m.d.sync += [
            unsigned.eq(Mux(sparse.active, sparse.unsigned, samples.active.any() & samples.unsigned)),
            operand.eq(samples.active), operand_word.eq(samples.word), operand_unsigned.eq(samples.unsigned_operand),
        ]
        m.d.comb += [
            self.multiply.operand.eq(operand), self.multiply.operand_word.eq(operand_word),
            self.multiply.operand_unsigned.eq(operand_unsigned),
        ]
        m.d.comb += [self.multiply.first.eq(first), self.multiply.second.eq(second), self.multiply.unsigned.eq(unsigned)]
