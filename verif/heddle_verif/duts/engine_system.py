"""The engine for recurrent networks with the lanes that it uses."""

from amaranth.hdl import Module, Mux
from amaranth.lib.wiring import Component, In, Out, connect, flipped
from heddle.config import Config
from heddle.datapath.pe_array import PEArray
from heddle.interfaces.control import EventPort
from heddle.interfaces.front_end import recurrent_error_layout
from heddle.interfaces.layouts import BankReadPort, BankWritePort
from heddle.isa.counter_table import RNN_EVENTS
from heddle.rnn.engine import RecurrentEngine

__all__ = ["EngineSystem", "with_lanes"]


class _FewLanes(Config):
    def _one_of(self, name, allowed):
        super()._one_of(name, (2, *allowed) if name == "threads" else allowed)


def with_lanes(cfg, lanes):
    """A configuration with a number of lanes that whole devices do not have (2): for the engine, its lanes and its golden model."""
    return _FewLanes(**cfg.as_dict() | {"threads": lanes})


class EngineSystem(Component):
    """``RecurrentEngine`` on a ``PEArray``; factor registers are written from outside, shared memory is outside.

    ``write`` puts ``data[j]`` into word ``write_word`` of lane ``write_group * tail_lanes + j``; only while the engine is not busy.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "start": In(1), "address": In(32), "stop": In(1), "busy": Out(1), "error": Out(recurrent_error_layout),
            "bank_read": Out(BankReadPort(cfg)), "bank_write": Out(BankWritePort(cfg)),
            "write": In(1), "write_group": In(range(max(cfg.thread_groups, 2))), "write_word": In(cfg.factor_address_bits),
            "data": In(cfg.word_bits).array(cfg.tail_lanes),
            "events": Out(EventPort(RNN_EVENTS)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.engine = engine = RecurrentEngine(self.cfg)
        m.submodules.lanes = lanes = PEArray(self.cfg)
        connect(m, engine.bank_read, flipped(self.bank_read))
        connect(m, engine.bank_write, flipped(self.bank_write))
        connect(m, engine.events, flipped(self.events))
        registers, sums, slots = lanes.registers, engine.sums, self.cfg.tail_lanes
        m.d.comb += [
            engine.start.eq(self.start), engine.address.eq(self.address), engine.stop.eq(self.stop), self.busy.eq(engine.busy),
            self.error.eq(engine.error),
            lanes.engine_active.eq(engine.busy), lanes.engine_step.eq(engine.pe.step), lanes.engine_take.eq(engine.pe.take),
            registers.read.eq(sums.enable), registers.read_number.eq(sums.register), registers.read_group.eq(sums.group),
            registers.read_tap.eq(sums.tap),
            registers.write_factor.eq(self.write), registers.write_word.eq(self.write_word), registers.write_parts.eq(~0),
            registers.write_lanes.eq(Mux(self.write, ((1 << slots) - 1) << (self.write_group * slots), 0)),
        ]
        m.d.comb += [lane.eq(element) for lane, element in zip(lanes.engine_word, engine.pe.word)]
        m.d.comb += [data.eq(value) for data, value in zip(sums.data, registers.read_data)]
        m.d.comb += [returned.eq(data) for returned, data in zip(registers.return_data, self.data)]
        return m
