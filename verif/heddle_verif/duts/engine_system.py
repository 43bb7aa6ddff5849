"""The engine for recurrent networks with the lanes that it uses."""

from amaranth.hdl import Module, Mux
from amaranth.lib.wiring import Component, In, Out, connect, flipped
from heddle.config import Config
from heddle.datapath.pe_array import PEArray
from heddle.interfaces.control import EventPort
from heddle.interfaces.front_end import RecurrentPort
from heddle.interfaces.layouts import SharedReadPort, SharedWritePort
from heddle.isa.counter_table import RNN_EVENTS
from heddle.rnn.recurrent_engine import RecurrentEngine

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
            "run": In(RecurrentPort()), "stop": In(1),
            "bank_read": Out(SharedReadPort(cfg)), "bank_write": Out(SharedWritePort(cfg)),
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
        connect(m, flipped(self.run), engine.run)
        connect(m, engine.pe, lanes.engine)
        registers, sums, slots = lanes.registers, engine.sums, self.cfg.tail_lanes
        m.d.comb += [
            engine.stop.eq(self.stop), lanes.engine_active.eq(engine.run.busy),
            registers.read.eq(sums.enable), registers.read_number.eq(sums.register), registers.read_group.eq(sums.group),
            registers.read_tap.eq(sums.tap),
            registers.write_factor.eq(self.write), registers.write_word.eq(self.write_word), registers.write_parts.eq(~0),
            registers.write_lanes.eq(Mux(self.write, ((1 << slots) - 1) << (self.write_group * slots), 0)),
        ]
        m.d.comb += [data.eq(value) for data, value in zip(sums.data, registers.read_data)]
        m.d.comb += [returned.eq(data) for returned, data in zip(registers.return_data, self.data)]
        return m
