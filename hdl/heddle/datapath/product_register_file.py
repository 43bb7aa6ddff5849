"""Product register file of one PE."""

from amaranth.hdl import Module, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from ..constants import PRODUCT_REGISTERS

__all__ = ["PRODUCT_ADDRESS_BITS", "ProductRegisterFile"]

PRODUCT_ADDRESS_BITS = (PRODUCT_REGISTERS - 1).bit_length()


class ProductRegisterFile(Component):
    """Product register file of a PE: 256 registers of 32 bits in two equal memories, one read by ``mm`` and one by the thread unit.

    *Ports*:
    matrix_register, thread_register : In(8)
        Register that each side reads.
    matrix_data, thread_data : Out(32)
        Register read in the cycle before.
    write_register : In(8)
        Register that is written.
    write_data : In(32)
        Its new value.
    write_enable : In(1)
        The write takes place.

    *Latency*: one cycle for a read. A write is seen by reads of later cycles. A read of the register in the cycle of its write
    is undefined, so each memory is one plain block RAM.

    *Throughput*: both reads and a write in every cycle.

    *Reset*: none; registers hold their values.
    """

    def __init__(self):
        super().__init__({
            "matrix_register": In(PRODUCT_ADDRESS_BITS),
            "matrix_data": Out(32),
            "thread_register": In(PRODUCT_ADDRESS_BITS),
            "thread_data": Out(32),
            "write_register": In(PRODUCT_ADDRESS_BITS),
            "write_data": In(32),
            "write_enable": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        for reader in ("matrix", "thread"):
            # Yosys merges a combinational read with the register behind it and honours no_rw_check, unlike for a synchronous read port.
            m.submodules[reader] = memory = Memory(
                shape=32, depth=PRODUCT_REGISTERS, init=[], attrs={"ram_style": "block", "no_rw_check": 1})
            read = memory.read_port(domain="comb")
            write = memory.write_port()
            output = Signal(32, name=f"{reader}_output", reset_less=True)
            m.d.sync += output.eq(read.data)
            m.d.comb += [
                read.addr.eq(getattr(self, f"{reader}_register")),
                getattr(self, f"{reader}_data").eq(output),
                write.addr.eq(self.write_register),
                write.data.eq(self.write_data),
                write.en.eq(self.write_enable),
            ]
        return m
