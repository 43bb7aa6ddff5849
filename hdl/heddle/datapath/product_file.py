"""The product registers of one lane."""

from amaranth.hdl import Module, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from ..config import PRODUCT_BANKS, PRODUCT_REGISTERS

__all__ = ["ROW_BITS", "ProductFile"]

ROWS = PRODUCT_REGISTERS // PRODUCT_BANKS
ROW_BITS = (ROWS - 1).bit_length()


class ProductFile(Component):
    """256 registers of 32 bits in four banks; register r is row r div 4 of bank r mod 4.

    Every bank reads and writes one row a cycle. ``data[j]`` is row ``read_row[j]`` of bank j one cycle later. A write
    is seen by reads of later cycles; reading a row in the cycle that writes it gives no defined value, so that a bank
    is one plain block RAM. Registers keep their values over a reset.

    Members
    -------
    read_row : In(6).array(4)
    data : Out(32).array(4)
    write_row : In(6).array(4)
    write_data : In(32).array(4)
    write_enable : In(4)
        Bit j writes bank j.
    """

    def __init__(self):
        super().__init__({
            "read_row": In(ROW_BITS).array(PRODUCT_BANKS),
            "data": Out(32).array(PRODUCT_BANKS),
            "write_row": In(ROW_BITS).array(PRODUCT_BANKS),
            "write_data": In(32).array(PRODUCT_BANKS),
            "write_enable": In(PRODUCT_BANKS),
        })

    def elaborate(self, platform):
        m = Module()
        for bank in range(PRODUCT_BANKS):
            # A combinational read into a register: Yosys merges the two and honours no_rw_check, which it does not
            # for a read port that is synchronous from the start.
            m.submodules[f"bank_{bank}"] = memory = Memory(
                shape=32, depth=ROWS, init=[], attrs={"ram_style": "block", "no_rw_check": 1})
            read = memory.read_port(domain="comb")
            write = memory.write_port()
            output = Signal(32, name=f"output_{bank}", reset_less=True)
            m.d.sync += output.eq(read.data)
            m.d.comb += [
                read.addr.eq(self.read_row[bank]),
                self.data[bank].eq(output),
                write.addr.eq(self.write_row[bank]),
                write.data.eq(self.write_data[bank]),
                write.en.eq(self.write_enable[bank]),
            ]
        return m
