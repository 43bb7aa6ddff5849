"""Reduction unit of the L2: combines a beat of memory with a beat that is written."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import Component, In, Out

from ..isa.encoding import Reduction
from ..isa.tensor_descriptor import TensorFormat
from ..lib.integer_reducer import INTEGER_LATENCY, WORD_BITS, IntegerReducer, integer_control_layout, integer_controls
from ..lib.shared_module import SharedModule
from ..parameters.l2 import L2Parameters
from .float_reducer import FLOAT_LATENCY, FloatReducer, float_control_layout, float_controls

__all__ = ["ReductionUnit", "WordReducer", "reducer_latency"]

FLOATS = (TensorFormat.F16, TensorFormat.BF16, TensorFormat.F32, TensorFormat.F32_FTZ)


def reducer_latency(cfg):
    """Latency of ``ReductionUnit`` in cycles: 3 for integers only, 7 with ``cfg.reduction_floats``."""
    return 1 + (FLOAT_LATENCY if cfg.reduction_floats else INTEGER_LATENCY)


class WordReducer(Component):
    """Reduction of a 64-bit word: elements of 64 or 32 bits and, with ``cfg.reduction_floats``, of 16 bits.

    Parameters
    ----------
    cfg : L2Parameters

    *Ports*:
    enable : In(1)
        All registers advance.
    integer : In(integer_control_layout)
        Control word of integer formats.
    floats : In(float_control_layout)
        Control word of floating-point formats. Only with ``cfg.reduction_floats``.
    is_float : In(1)
        Select the floating-point result. Only with ``cfg.reduction_floats``.
    old, new : In(64)
        Word of memory, and word that is written.
    result : Out(64)
        New word of memory.

    *Latency*: ``reducer_latency(cfg)`` - 1 cycles with ``enable``.

    *Throughput*: one word per cycle with ``enable``.

    *Reset*: none.
    """

    def __init__(self, cfg):
        self.cfg = cfg = L2Parameters.of(cfg)
        members = {"enable": In(1), "integer": In(integer_control_layout), "old": In(WORD_BITS), "new": In(WORD_BITS),
                   "result": Out(WORD_BITS)}
        if cfg.reduction_floats:
            members |= {"floats": In(float_control_layout), "is_float": In(1)}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        m.submodules.integers = integers = IntegerReducer()
        m.d.comb += [integers.enable.eq(self.enable), integers.control.eq(self.integer), integers.old.eq(self.old),
                     integers.new.eq(self.new)]
        if not self.cfg.reduction_floats:
            m.d.comb += self.result.eq(integers.result)
            return m
        integer = self._delayed(m, integers.result, FLOAT_LATENCY - INTEGER_LATENCY, "integer")
        is_float, single = (self._delayed(m, value, FLOAT_LATENCY, name)
                            for value, name in ((self.is_float, "is_float"), (self.floats.single, "single")))
        low_type = SharedModule("reduction_32", FloatReducer, single=True)
        high_type = SharedModule("reduction_16", FloatReducer, single=False)
        halves = []
        for half in range(2):
            old, new = self.old.word_select(half, WORD_BITS // 2), self.new.word_select(half, WORD_BITS // 2)
            low, high = low_type.instantiate(m, f"low_{half}"), high_type.instantiate(m, f"high_{half}")
            for unit, start in ((low, 0), (high, 16)):
                m.d.comb += [unit.enable.eq(self.enable), unit.control.eq(self.floats), unit.old.eq(old[start:]), unit.new.eq(new[start:])]
            halves.append(Cat(low.result[:16], Mux(single, low.result[16:], high.result)))
        m.d.comb += self.result.eq(Mux(is_float, Cat(halves), integer))
        return m

    def _delayed(self, m, value, cycles, name):
        for stage in range(cycles):
            value, before = Signal(len(value), name=f"{name}_{stage}", reset_less=True), value
            with m.If(self.enable):
                m.d.sync += value.eq(before)
        return value


class ReductionUnit(Component):
    """Reduction unit of the L2: combines ``old``, a beat of memory, with ``new``, a beat that is written, element by element [S1.9].

    ``Reduction.NONE`` gives ``new``. Other reductions are defined for the formats of ``REDUCTION_FORMATS``, without
    ``cfg.reduction_floats`` for integer formats only. Results of other pairs are undefined; requests are checked by the requester. The
    result has all elements; the owner applies the byte enables.

    Parameters
    ----------
    cfg : L2Parameters

    *Ports*:
    enable : In(1)
        All registers advance.
    old, new : In(cfg.axi_data_bits)
        Beat of memory, and beat that is written.
    reduction : In(Reduction)
        Operation of the beat.
    format : In(TensorFormat)
        Element format of the beat.
    result : Out(cfg.axi_data_bits)
        New beat of memory.

    *Latency*: ``reducer_latency(cfg)`` cycles with ``enable``: 3, with ``cfg.reduction_floats`` 7.

    *Throughput*: one beat per cycle with ``enable``.

    *Back-pressure*: ``enable`` low holds the pipeline.

    *Reset*: none; the owner tracks valid beats.

    *Source*: [S1.9], docs/units/l2.md.
    """

    def __init__(self, cfg):
        self.cfg = cfg = L2Parameters.of(cfg)
        super().__init__({"enable": In(1), "old": In(cfg.axi_data_bits), "new": In(cfg.axi_data_bits), "reduction": In(Reduction),
                          "format": In(TensorFormat), "result": Out(cfg.axi_data_bits)})

    def elaborate(self, platform):
        m = Module()
        cfg, reduction, format = self.cfg, self.reduction, self.format
        old, new = (Signal(cfg.axi_data_bits, name=name, reset_less=True) for name in ("old_now", "new_now"))
        controls = {"integer": self._control(m, "integer", integer_control_layout, integer_controls(reduction, format))}
        if cfg.reduction_floats:
            is_float = Signal(reset_less=True)
            with m.If(self.enable):
                m.d.sync += is_float.eq(Cat(format == kind for kind in FLOATS).any() & (reduction != Reduction.NONE))
            controls["floats"] = self._control(m, "floats", float_control_layout, float_controls(reduction, format))
            controls["is_float"] = is_float
        with m.If(self.enable):
            m.d.sync += [old.eq(self.old), new.eq(self.new)]
        word_type, results = SharedModule("reduction_word", WordReducer, cfg), []
        for number in range(cfg.axi_data_bits // WORD_BITS):
            word = word_type.instantiate(m, f"word_{number}")
            m.d.comb += [word.enable.eq(self.enable), word.old.eq(old.word_select(number, WORD_BITS)),
                         word.new.eq(new.word_select(number, WORD_BITS)),
                         *(getattr(word, name).eq(value) for name, value in controls.items())]
            results.append(word.result)
        m.d.comb += self.result.eq(Cat(results))
        return m

    def _control(self, m, name, layout, values):
        control = data.View(layout, Signal(layout.size, name=f"{name}_control", reset_less=True))
        with m.If(self.enable):
            m.d.sync += [control[field].eq(value) for field, value in values.items()]
        return control
