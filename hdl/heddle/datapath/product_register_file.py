"""Product register file of one PE."""

from amaranth.hdl import Module, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.datapath import PRODUCT_ADDRESS_BITS

__all__ = ["ProductRegisterFile"]


class ProductRegisterFile(Component):
    """Product register file of a PE: 256 registers of 32 bits, with a copy for ``mm`` and one for the thread unit.

    Parameters
    ----------
    pairs : bool
        The copy for the thread unit is two memories, one of the even and one of the odd registers, both of which are read.

    *Ports*:
    matrix_register, thread_register : In(8)
        Register that each side reads.
    matrix_data : Out(32)
        Register that ``mm`` read in the cycle before.
    thread_data : Out(32).array(1)
        Register that the thread unit read in the cycle before. With ``pairs`` an array of 2: the even and the odd one of its pair.
    write_register : In(8)
        Register that is written.
    write_data : In(32)
        Its new value.
    write_enable : In(1)
        The write takes place.

    *Latency*: one cycle for a read. A write is seen by reads of later cycles. A read of a register in the cycle of its write
    is undefined, so each memory is one plain block RAM.

    *Throughput*: both reads and a write in every cycle.

    *Reset*: none; registers hold their values.
    """

    def __init__(self, pairs=False):
        self._pairs = pairs
        super().__init__({
            "matrix_register": In(PRODUCT_ADDRESS_BITS),
            "matrix_data": Out(32),
            "thread_register": In(PRODUCT_ADDRESS_BITS),
            "thread_data": Out(32).array(1 + pairs),
            "write_register": In(PRODUCT_ADDRESS_BITS),
            "write_data": In(32),
            "write_enable": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        self._memory(m, "matrix", self.matrix_register, self.matrix_data)
        if not self._pairs:
            self._memory(m, "thread", self.thread_register, self.thread_data[0])
            return m
        for odd, data in enumerate(self.thread_data):
            self._memory(m, f"thread_{odd}", self.thread_register, data, odd)
        return m

    def _memory(self, m, name, register, data, odd=None):
        """A copy of all registers, or of the even or odd ones."""
        row, write_row, writes = register, self.write_register, self.write_enable
        if odd is not None:
            row, write_row, writes = row[1:], write_row[1:], writes & (write_row[0] == odd)
        # Yosys merges a combinational read with the register behind it and honours no_rw_check, unlike for a synchronous read port.
        m.submodules[name] = memory = Memory(
            shape=32, depth=1 << len(row), init=[], attrs={"ram_style": "block", "no_rw_check": 1})
        read = memory.read_port(domain="comb")
        write = memory.write_port()
        output = Signal(32, name=f"{name}_output", reset_less=True)
        m.d.sync += output.eq(read.data)
        m.d.comb += [
            read.addr.eq(row), data.eq(output), write.addr.eq(write_row), write.data.eq(self.write_data), write.en.eq(writes),
        ]
