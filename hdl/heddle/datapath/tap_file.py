"""The accumulators of one tap of a lane."""

from amaranth.hdl import Module
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from ..constants import RNN_TAP_REGISTERS
from .layouts import TAP_ADDRESS_BITS

__all__ = ["TapFile"]


class TapFile(Component):
    """``RNN_TAP_REGISTERS`` registers of 32 bits in distributed RAM: read, added to and written in one cycle [S3.4].

    Both reads are combinational and independent of each other. A write is seen by reads of later cycles, so that nothing has to be
    forwarded. Every port works every cycle. Registers keep their values over a reset.

    Members
    -------
    source, register : In(TAP_ADDRESS_BITS)
    source_data, data : Out(32)
        The registers ``source`` and ``register``.
    product : In(TAP_ADDRESS_BITS)
    write : In(1)
    total : In(32)
        Written to ``product``.
    """

    def __init__(self):
        super().__init__({
            "source": In(TAP_ADDRESS_BITS),
            "source_data": Out(32),
            "register": In(TAP_ADDRESS_BITS),
            "data": Out(32),
            "product": In(TAP_ADDRESS_BITS),
            "write": In(1),
            "total": In(32),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(shape=32, depth=RNN_TAP_REGISTERS, init=[], attrs={"ram_style": "distributed"})
        for address, value in ((self.source, self.source_data), (self.register, self.data)):
            read = memory.read_port(domain="comb")
            m.d.comb += [read.addr.eq(address), value.eq(read.data)]
        write = memory.write_port()
        m.d.comb += [write.addr.eq(self.product), write.data.eq(self.total), write.en.eq(self.write)]
        return m
