"""Row sequencer: one step of the PEs for each row block of a column."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.datapath import EngineStepPort
from ..parameters.rnn import RnnParameters
from .column_reader import column_layout
from .layouts import chosen_sweep_layout

__all__ = ["RowSequencer"]


class RowSequencer(Component):
    """Row sequencer: multiplies a column by all row blocks of its pass, one step of the PEs a cycle [S3.1, S3.2].

    *Ports*:
    i : In(stream.Signature(column_layout(cfg)))
        Columns in order.
    sweep : In(chosen_sweep_layout(cfg))
        Matrix-vector pass of the column at ``i``.
    pe : Out(EngineStepPort(cfg))
        Steps of the PEs and elements of the columns; registered.

    *Latency*: 1 cycle from the transfer at ``i`` to the first ``pe.step``; ``pe.word`` and ``pe.take`` follow one cycle after the first
    step.

    *Throughput*: one step a cycle, ``sweep.blocks + 1`` steps a column, without a gap between columns.

    *Back-pressure*: ``i.ready`` is high without a step and in the last step of a column; it depends on registers only. The PEs never
    stall a step.

    *Reset*: discards the column.

    *Source*: [S3.1, S3.2].
    """

    def __init__(self, cfg):
        self.cfg = cfg = RnnParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(column_layout(cfg))),
            "sweep": In(chosen_sweep_layout(cfg)),
            "pe": Out(EngineStepPort(cfg)),
        })

    def elaborate(self, platform):
        m = Module()
        sweep, column, step = self.sweep, self.i.payload, self.pe.step
        left = Signal(7, reset_less=True)           # outstanding steps of the column after this one
        elements = Signal(column_layout(self.cfg).members["elements"], reset_less=True)
        m.d.comb += self.i.ready.eq(~step.step | (left == 0))
        with m.If(self.i.ready):        # ``i.valid`` comes late in a cycle: the data are loaded with or without it
            m.d.sync += [
                step.step.eq(self.i.valid), left.eq(sweep.blocks), step.product.eq(sweep.product),
                step.source.eq(Mux(column.first, sweep.source, sweep.product)), step.zero.eq(column.first & sweep.zero),
                step.factor_word.eq(column.weight), step.cat.eq(sweep.cat),
                elements.eq(column.elements),
            ]
        with m.Else():
            m.d.sync += left.eq(left - 1)
            m.d.sync += [number.eq(number + 1) for number in (step.product, step.source, step.factor_word)]
        fresh = Signal()
        m.d.sync += [fresh.eq(self.i.valid & self.i.ready), self.pe.take.eq(fresh)]
        with m.If(fresh):       # one cycle after the first step
            m.d.sync += [value.eq(element) for value, element in zip(self.pe.word, elements, strict=True)]
        return m
