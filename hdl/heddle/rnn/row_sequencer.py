"""Gives each column to the lanes, a step for each block of rows."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from .column_reader import column_layout
from .layouts import chosen_sweep_layout, engine_step_layout

__all__ = ["RowSequencer"]


class RowSequencer(Component):
    """Multiplies a column with all blocks of rows: a step of the lanes a cycle [S3.1, S3.2].

    The first step is in the cycle after its column is accepted; ``take`` and ``word`` are a cycle behind it. The next column is accepted
    in the cycle of the last step, so that steps follow each other without a gap. Reset forgets the column at hand.

    Members
    -------
    i : In(stream.Signature(column_layout(cfg)))
    sweep : In(chosen_sweep_layout(cfg))
        What the column at ``i`` belongs to.
    step : Out(engine_step_layout(cfg))
    word : Out(signed(engine_element_bits)).array(dot)
        Element x of the column group.
    take : Out(1)
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "i": In(stream.Signature(column_layout(cfg))),
            "sweep": In(chosen_sweep_layout(cfg)),
            "step": Out(engine_step_layout(cfg)),
            "word": Out(signed(cfg.engine_element_bits)).array(cfg.dot),
            "take": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        sweep, column, step = self.sweep, self.i.payload, self.step
        left = Signal(7, reset_less=True)           # steps of the column behind this one
        elements = Signal(column_layout(self.cfg).members["elements"], reset_less=True)
        m.d.comb += self.i.ready.eq(~step.step | (left == 0))
        with m.If(self.i.ready):
            m.d.sync += step.step.eq(self.i.valid)
        with m.Else():
            m.d.sync += left.eq(left - 1)
            m.d.sync += [number.eq(number + 1) for number in (step.product, step.source, step.factor_word)]
        fresh = Signal()
        m.d.sync += [fresh.eq(0), self.take.eq(fresh)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                fresh.eq(1), left.eq(sweep.blocks), step.product.eq(sweep.product),
                step.source.eq(Mux(column.first, sweep.source, sweep.product)), step.zero.eq(column.first & sweep.zero),
                step.factor_word.eq(column.weight), step.cat.eq(sweep.cat),
                elements.eq(column.elements),
            ]
        with m.If(fresh):       # a cycle behind the step
            m.d.sync += [value.eq(element) for value, element in zip(self.word, elements)]
        return m
