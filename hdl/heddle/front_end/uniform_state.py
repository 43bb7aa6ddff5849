"""Uniform registers and the segment table."""

from amaranth import *
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In

from ..constants import SEGMENTS, UNIFORM_REGISTERS
from ..interfaces.control import UniformStream
from ..interfaces.front_end import SegmentReadPort, SegmentStream, UniformReadPort, segment_layout
from ..parameters.front_end import FrontEndParameters

__all__ = ["UniformState"]


class UniformState(Component):
    """Uniform register file of 64 words of 32 bits, and segment table of 16 entries, in distributed RAM.

    Parameters
    ----------
    cfg : FrontEndParameters
        With ``tensors`` there is a third read port, ``c``.

    *Ports*:
    a, b, c : In(UniformReadPort())
        Reads of uniform registers; ``c`` only with ``tensors``.
    segment : In(SegmentReadPort(cfg))
        Reads of the segment table.
    i_uniform : In(UniformStream())
        Writes of uniform registers.
    i_segment : In(SegmentStream(cfg))
        Writes of the segment table.

    *Latency*: reads are combinational; a read sees the writes of earlier cycles.

    *Throughput*: in every cycle each read port reads, and one register and one segment are written.

    *Reset*: none; registers and segments hold their values between runs. Initial values are zero: a segment that was never written is
    shared memory from address 0 with elements of 8 bits.
    """

    def __init__(self, cfg):
        self.cfg = cfg = FrontEndParameters.of(cfg)
        super().__init__({
            "a": In(UniformReadPort()), "b": In(UniformReadPort()), **({"c": In(UniformReadPort())} if cfg.tensors else {}),
            "segment": In(SegmentReadPort(cfg)), "i_uniform": In(UniformStream()), "i_segment": In(SegmentStream(cfg)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.uniform_registers = registers = Memory(shape=32, depth=UNIFORM_REGISTERS, init=[])
        m.submodules.segment_table = table = Memory(shape=segment_layout(self.cfg), depth=SEGMENTS, init=[])
        reads = (self.a, self.b, *([self.c] if self.cfg.tensors else []))
        self._ports(m, registers, reads, self.i_uniform, self.i_uniform.payload.value)
        self._ports(m, table, (self.segment,), self.i_segment, self.i_segment.payload.segment)
        return m

    def _ports(self, m, memory, reads, writes, value):
        for port in reads:
            read = memory.read_port(domain="comb")
            m.d.comb += [read.addr.eq(port.index), port.value.eq(read.data)]
        write = memory.write_port()
        m.d.comb += [write.en.eq(writes.valid), write.addr.eq(writes.payload.index), write.data.eq(value)]
