"""The product registers of one lane."""

from amaranth.hdl import Module, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from ..constants import PRODUCT_REGISTERS

__all__ = ["PRODUCT_ADDRESS_BITS", "ProductRegisterFile"]

PRODUCT_ADDRESS_BITS = (PRODUCT_REGISTERS - 1).bit_length()


class ProductRegisterFile(Component):
    """256 registers of 32 bits in two equal memories: one is read by ``mm``, the other by the thread unit.

    So both read a register every cycle and no bank has to be selected. ``matrix_data`` is register ``matrix_register`` one cycle
    later; ``thread_data`` is register ``thread_register`` likewise. A write is seen by reads of later cycles; reading a
    register in the cycle that writes it gives no defined value, so that a memory is one plain block RAM. Registers keep
    their values over a reset.

    Members
    -------
    matrix_register, thread_register : In(8)
    matrix_data, thread_data : Out(32)
    write_register : In(8)
    write_data : In(32)
    write_enable : In(1)
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
            # A combinational read into a register: Yosys merges the two and honours no_rw_check, which it does not
            # for a read port that is synchronous from the start.
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
