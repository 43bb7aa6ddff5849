"""Uniform registers and the segment table."""

from amaranth import *
from amaranth.lib import data
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from ..constants import SEGMENTS, UNIFORM_REGISTERS
from ..isa.encoding import Space
from ..parameters.front_end import FrontEndParameters

__all__ = ["UniformState", "segment_layout"]

segment_layout = data.StructLayout({"base": 32, "space": Space, "element_shift": 3})


class UniformState(Component):
    """Uniform register file of 64 words of 32 bits, and segment table of 16 entries, in distributed RAM.

    Parameters
    ----------
    cfg : FrontEndParameters
        With ``tensors`` there is a third read port, ``c``.

    *Ports*:
    a_index, b_index, c_index : In(range(64))
        Numbers of the uniform registers to read; ``c_index`` only with ``tensors``.
    a, b, c : Out(32)
        The registers of these numbers; ``c`` only with ``tensors``.
    write : In(1)
        Writes uniform register ``write_index``.
    write_index : In(range(64))
        Number of the register.
    write_data : In(32)
        Its new value.
    segment_index : In(range(16))
        Number of the segment to read.
    segment : Out(segment_layout)
        The entry: base address in bytes, space, and log2 of the bytes of an element.
    segment_write : In(1)
        Writes entry ``segment_write_index``.
    segment_write_index : In(range(16))
        Number of the entry.
    segment_write_data : In(segment_layout)
        Its new value.

    *Latency*: reads are combinational; a read sees the writes of earlier cycles.

    *Throughput*: in every cycle each read port reads, and one register and one segment are written.

    *Reset*: none; registers and segments hold their values between runs. Initial values are zero: a segment that was never written is
    shared memory from address 0 with elements of 8 bits.
    """

    def __init__(self, cfg):
        self.cfg = cfg = FrontEndParameters.of(cfg)
        self._index = range(UNIFORM_REGISTERS)
        super().__init__({
            "a_index": In(self._index), "a": Out(32),
            "b_index": In(self._index), "b": Out(32),
            "write": In(1), "write_index": In(self._index), "write_data": In(32),
            "segment_index": In(range(SEGMENTS)), "segment": Out(segment_layout),
            "segment_write": In(1), "segment_write_index": In(range(SEGMENTS)), "segment_write_data": In(segment_layout),
        } | ({"c_index": In(self._index), "c": Out(32)} if cfg.tensors else {}))

    def elaborate(self, platform):
        m = Module()
        m.submodules.uniform_registers = registers = Memory(shape=32, depth=UNIFORM_REGISTERS, init=[])
        m.submodules.segment_table = table = Memory(shape=segment_layout, depth=SEGMENTS, init=[])
        write = registers.write_port()
        for name in ("a", "b", *["c"] * self.cfg.tensors):
            port = registers.read_port(domain="comb")
            m.d.comb += [port.addr.eq(getattr(self, f"{name}_index")), getattr(self, name).eq(port.data)]
        m.d.comb += [write.en.eq(self.write), write.addr.eq(self.write_index), write.data.eq(self.write_data)]
        segment_read, segment_write = table.read_port(domain="comb"), table.write_port()
        m.d.comb += [
            segment_read.addr.eq(self.segment_index), self.segment.eq(segment_read.data),
            segment_write.en.eq(self.segment_write), segment_write.addr.eq(self.segment_write_index),
            segment_write.data.eq(self.segment_write_data),
        ]
        return m
