"""The sparse engine with the lanes that it uses."""

from amaranth.hdl import Module
from amaranth.lib.wiring import Component, In, Out, connect, flipped
from heddle.datapath.pe_array import PEArray
from heddle.interfaces.control import EventPort
from heddle.interfaces.front_end import SparsePort
from heddle.interfaces.layouts import ErrorStream, SharedReadPort, SharedWritePort
from heddle.isa.counter_table import SPARSE_EVENTS
from heddle.lib.members import leaves
from heddle.sparse.sparse_engine import SparseEngine

__all__ = ["SparseSystem"]


class SparseSystem(Component):
    """``SparseEngine`` on a ``PEArray``; shared memory is outside."""

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "run": In(SparsePort()), "stop": In(1), "bank_read": Out(SharedReadPort(cfg)), "bank_write": Out(SharedWritePort(cfg)),
            "busy": Out(1), "o_error": Out(ErrorStream()), "events": Out(EventPort(SPARSE_EVENTS)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.engine = engine = SparseEngine(self.cfg)
        m.submodules.lanes = lanes = PEArray(self.cfg)
        for name in ("bank_read", "bank_write", "o_error", "events"):
            connect(m, getattr(engine, name), flipped(getattr(self, name)))
        connect(m, flipped(self.run), engine.run)
        connect(m, engine.pe, lanes.engine)
        connect(m, engine.reads, lanes.sparse_reads)
        connect(m, engine.samples, lanes.samples)
        m.d.comb += [engine.stop.eq(self.stop), lanes.engine_active.eq(engine.busy), self.busy.eq(engine.busy)]
        port, registers = engine.registers, lanes.registers
        for name in port.signature.members:
            for inner, outer in zip(leaves(getattr(port, name)), leaves(getattr(registers, name)), strict=True):
                m.d.comb += inner.eq(outer) if name == "read_sums" else outer.eq(inner)
        return m
