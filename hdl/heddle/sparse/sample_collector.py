"""Sample collector: sums of the elements of sampled products, from the PEs to words of shared memory."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..lib.delay import Delay, Stages
from ..lib.product import PartialProduct
from ..lib.stream import Queue
from ..parameters.sparse import SparseParameters
from .layouts import SAMPLES_INSIDE, SUMS_OF_WORD, sample_layout, sample_word_layout

__all__ = ["SampleCollector"]

SUM_BITS = 32


class SampleCollector(Component):
    """Sample collector: adds the steps of each element, multiplies the sum by the value of the mask modulo 2^32, and packs words of four.

    Elements of a job follow each other in memory. A word leaves when its last place is filled, and at the end of a job.

    Parameters
    ----------
    cfg : SparseParameters

    *Ports*:
    i : In(stream.Signature(sample_layout, always_ready=True))
        Steps, in the cycle in which they are at the PEs, and ends of jobs; at most ``SAMPLES_INSIDE`` (32) last steps and ends whose word
        has not left.
    total : In(32)
        Sum of a step over all PEs, ``sample_latency`` cycles later.
    flush : In(1)
        No step follows: what is packed leaves.
    o : Out(stream.Signature(sample_word_layout))
        Words.
    busy : Out(1)
        An element has not left.

    *Latency*: ``sample_latency`` + 4 cycles from the last step of the fourth element to ``o``.

    *Throughput*: one step a cycle.

    *Back-pressure*: none at ``i``: who chooses steps counts the elements.

    *Reset*: empty.
    """

    def __init__(self, cfg):
        self.cfg = cfg = SparseParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(sample_layout, always_ready=True)), "total": In(SUM_BITS), "flush": In(1),
            "o": Out(stream.Signature(sample_word_layout)), "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.delay = delay = Delay(sample_layout, self.cfg.sample_latency)
        m.submodules.product = product = PartialProduct(SUM_BITS)
        step, summed = Signal(sample_layout), Signal(SUM_BITS, reset_less=True)
        arrives = Stages(m, self.i.valid, "arrives", reset=True)[self.cfg.sample_latency]
        ready, multiplied = Signal(), Signal()              # an entry is at ``summed``; its product is there
        of_sum, entry = (Signal(sample_layout, name=name, reset_less=True) for name in ("of_sum", "entry"))
        m.d.comb += [
            delay.i.eq(self.i.payload), step.eq(delay.o), product.a.eq(summed), product.b.eq(of_sum.value),
        ]
        m.d.sync += [ready.eq(arrives & (step.final | step.empty)), of_sum.eq(step), multiplied.eq(ready), entry.eq(of_sum)]
        with m.If(arrives & ~step.empty):
            m.d.sync += summed.eq(self.total + Mux(step.begins, 0, summed))
        self._pack(m, multiplied, entry, product.o)
        return m

    def _pack(self, m, multiplied, entry, result):
        """Packs sums; ``held`` is the word that is not complete."""
        m.submodules.words = words = Queue(sample_word_layout, SAMPLES_INSIDE, registered=False)
        held, word = Signal(sample_word_layout), words.i.payload
        moving, inside = Signal(range(SAMPLES_INSIDE + 1)), Signal(range(SAMPLES_INSIDE + 1))   # entries not packed; that have not left
        enters, leaves, full, adds = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            enters.eq(self.i.valid & (self.i.payload.final | self.i.payload.empty)), leaves.eq(self.o.valid & self.o.ready),
            full.eq(multiplied & (entry.ends | (entry.place == SUMS_OF_WORD - 1))),
            words.i.valid.eq(full | (self.flush & (held.entries != 0) & (moving == 0) & ~self.i.valid)),
            adds.eq(multiplied & ~entry.empty), word.eq(held), word.empty.eq((held.mask == 0) & ~adds),
            word.ends.eq(multiplied & entry.ends), word.entries.eq(held.entries + multiplied),
            self.o.valid.eq(words.o.valid), self.o.payload.eq(words.o.payload), words.o.ready.eq(self.o.ready),
            self.busy.eq((inside != 0) | self.i.valid),
        ]
        with m.If(adds):
            m.d.comb += word.word.eq(entry.word)
            for place in range(SUMS_OF_WORD):
                with m.If(entry.place == place):
                    m.d.comb += [word.data[place].eq(result), word.mask[place].eq(1)]
        m.d.sync += [
            moving.eq(moving + enters - multiplied), inside.eq(inside + enters - Mux(leaves, self.o.payload.entries, 0)), held.eq(word),
        ]
        with m.If(words.i.valid):
            m.d.sync += [held.mask.eq(0), held.entries.eq(0)]
