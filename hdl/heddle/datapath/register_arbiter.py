"""Shares the register files of the lanes between ``mm`` and the thread unit."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out, Signature

from ..config import PRODUCT_BANKS
from ..layouts import Capture, RegisterPort
from .layouts import bank_access_layout, capture_layout, factor_access_layout
from .product_file import ROW_BITS

__all__ = ["ACCESS_MEMBERS", "AccessPort", "RegisterArbiter"]

ACCESS_MEMBERS = ("read_banks", "read_row", "read_factor", "read_number", "capture", "read_grant", "read_factor_grant",
                  "write_banks", "write_row", "write_grant", "write_factor", "write_word", "write_chunk", "write_parts",
                  "write_factor_grant")


def AccessPort(cfg):
    """The members of a ``RegisterPort`` that have to do with reads and writes of the register files."""
    members = RegisterPort(cfg).members
    return Signature({name: members[name] for name in ACCESS_MEMBERS})


class RegisterArbiter(Component):
    """Grants the accesses of a ``RegisterPort`` and turns them into the lanes' controls.

    ``mm`` has each product bank it reads or writes to itself in that cycle; the thread unit gets the others, bank by
    bank. Port B of the factor file: a write of the thread unit, then its read, then the offsets of the next ``mm``,
    which also wait while the thread unit asks for product registers. Grants are combinational from the port and
    registered state of ``mm``. ``capture`` is registered: it belongs to the data, one cycle after the grant. Reset
    forgets a capture.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    registers : In(AccessPort(cfg))
    read_bank, write_bank : In(4)
    read_row, write_row : In(6)
        The accesses of ``mm``.
    offset_read : In(1)
    offset_number : In(offset register number - 256)
    offset_grant : Out(1)
        Combinational; the lanes hold the offsets two cycles later.
    access : Out(bank_access_layout)
    factor_access : Out(factor_access_layout(cfg))
    capture : Out(capture_layout(cfg))
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "registers": In(AccessPort(cfg)),
            "read_bank": In(PRODUCT_BANKS),
            "read_row": In(ROW_BITS),
            "write_bank": In(PRODUCT_BANKS),
            "write_row": In(ROW_BITS),
            "offset_read": In(1),
            "offset_number": In(self.part_bits + cfg.factor_address_bits),
            "offset_grant": Out(1),
            "access": Out(bank_access_layout),
            "factor_access": Out(factor_access_layout(cfg)),
            "capture": Out(capture_layout(cfg)),
        })

    @property
    def part_bits(self):
        """Bits of a register number that select the 32-bit part of a factor word."""
        return self.cfg.numbers_per_word.bit_length() - 1

    def elaborate(self, platform):
        m = Module()
        self._product_banks(m)
        number = self._factor_file(m)
        self._capture(m, number)
        return m

    def _product_banks(self, m):
        port = self.registers
        m.d.comb += [
            port.read_grant.eq(Mux(port.read_factor, 0, port.read_banks & ~self.read_bank)),
            port.write_grant.eq(port.write_banks & ~self.write_bank),
            self.access.matrix_write.eq(self.write_bank),
            self.access.thread_write.eq(port.write_grant),
        ]
        for bank in range(PRODUCT_BANKS):
            m.d.comb += [
                self.access.read_row[bank].eq(Mux(self.read_bank[bank], self.read_row, port.read_row)),
                self.access.write_row[bank].eq(Mux(self.write_bank[bank], self.write_row, port.write_row)),
            ]

    def _factor_file(self, m):
        """Returns the number of the factor register that is read."""
        port = self.registers
        number = Signal.like(self.offset_number)
        m.d.comb += [
            port.write_factor_grant.eq(port.write_factor),
            port.read_factor_grant.eq(port.read_factor & ~port.write_factor),
            self.offset_grant.eq(self.offset_read & ~port.write_factor & ~port.read_factor & (port.read_banks == 0)),
            number.eq(Mux(port.read_factor, port.read_number, self.offset_number)),
            self.factor_access.word.eq(Mux(port.write_factor, port.write_word, number[self.part_bits:])),
            self.factor_access.read.eq(port.read_factor_grant | self.offset_grant),
            self.factor_access.write.eq(Mux(port.write_factor, port.write_parts, 0)),
            self.factor_access.chunk.eq(port.write_chunk),
        ]
        return number

    def _capture(self, m, number):
        port = self.registers
        capture = Signal(capture_layout(self.cfg))
        quad = Signal()
        granted = Signal()
        m.d.comb += [
            quad.eq(port.capture == Capture.QUAD),
            granted.eq(port.read_factor_grant | (port.read_grant.any() & ~quad)),
            self.capture.eq(capture),
        ]
        m.d.sync += [
            capture.banks.eq(Mux(quad, 0, port.read_grant)),
            capture.quad.eq(Mux(quad, port.read_grant, 0)),
            capture.address.eq(granted & (port.capture == Capture.ADDRESS)),
            capture.offset.eq(self.offset_grant),
        ]
        for index, word in enumerate((Capture.WORD_0, Capture.WORD_1, Capture.WORD_2, Capture.WORD_3)):
            m.d.sync += capture.words[index].eq(granted & (port.capture == word))
        for part in range(self.cfg.numbers_per_word):
            m.d.sync += capture.parts[part].eq(self.factor_access.read & (number[:self.part_bits] == part))
