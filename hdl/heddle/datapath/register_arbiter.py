"""Arbiter of the register files of the PEs between ``mm`` and the thread unit."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out, Signature

from ..constants import FIRST_FACTOR_REGISTER
from ..interfaces.datapath import OPERAND_BITS
from ..interfaces.layouts import OffsetReadPort, RegisterPort
from ..parameters.matrix import DatapathParameters
from .layouts import TAP_ROW_BITS, TAPS, capture_layout, factor_access_layout, product_access_layout, tap_banks, tap_read_bits
from .pipeline_control import ProductAccessPort

__all__ = ["ACCESS_MEMBERS", "AccessPort", "RegisterArbiter", "RegisterFilePort"]

ACCESS_MEMBERS = ("read", "read_number", "read_grant", "write_product", "write_register", "write_grant", "write_factor", "write_pause",
                  "write_word", "write_parts")


def AccessPort(cfg):
    """The members of ``RegisterPort`` that access the register files."""
    members = RegisterPort(cfg).members
    return Signature({name: members[name] for name in (
        *ACCESS_MEMBERS, *["read_tap"] * cfg.rnn, *["read_taps"] * cfg.sparse, *["read_pair"] * cfg.register_pairs)})


def RegisterFilePort(cfg):
    """Accesses to the register files of all PEs, seen from the register arbiter.

    *Ports*:
    products : Out(product_access_layout)
        Accesses to the product register files.
    factors : Out(factor_access_layout(cfg))
        Access to port B of the factor register files.
    capture : Out(capture_layout(cfg))
        Destination of the values read in the cycle before; registered.
    read_tap : Out(tap_read_bits(cfg))
        With ``rnn``: bank of a CAT tap that is read, one-hot from bank 0 of tap 1 on; with ``read_taps`` a bank of each tap.
    """
    return Signature({
        "products": Out(product_access_layout),
        "factors": Out(factor_access_layout(cfg)),
        "capture": Out(capture_layout(cfg)),
        **({"read_tap": Out(tap_read_bits(cfg))} if cfg.rnn else {}),
    })


class RegisterArbiter(Component):
    """Arbiter of the register files: grants the accesses of the thread unit and of offset reads, and drives the controls of the PEs.

    Product registers: reads of the thread unit are always granted; a write is granted in a cycle in which ``mm`` does not write. Port B of
    the factor register file, highest priority first: writes of the thread unit, reads of offsets, reads of the thread unit. When a read
    of offsets waits, the thread unit is requested to leave a cycle without a write. The read waits three cycles at most.

    A step of the sparse engine reads port B before all others; there is no other access to it in this cycle.

    Parameters
    ----------
    cfg : DatapathParameters

    *Ports*:
    registers : In(AccessPort(cfg))
        Accesses of the thread unit.
    products : In(ProductAccessPort())
        Accesses of ``mm`` to the product register files.
    offset_read : In(OffsetReadPort(cfg))
        Reads of the offsets of the next ``mm``.
    sparse_active : In(1)
        With ``sparse``: a step of the sparse engine, which has the word of port B for each group of PEs: ``files.factors.word`` is 0.
    operand_write : In(1)
        With ``sparse``: the sparse engine writes operand rows, with parts and PEs of ``registers``.
    operand_word : In(4)
        With ``sparse``: word of this write.
    files : Out(RegisterFilePort(cfg))
        Accesses to the register files.
    pause : Out(1)
        A write to a product register waits: the fetch of B shall leave a step out; once for a write, registered.

    *Latency*: grants of reads are combinational; the grant of a product write comes at least one cycle after its request.
    ``files.capture`` follows the grant by one cycle. ``pause`` comes one cycle after the first cycle of waiting, with ``thread_overlap``
    one later.

    *Throughput*: one access of each register file a cycle; a product write takes at least two cycles.

    *Back-pressure*: the grants of reads are combinational from the requests at port B. ``write_grant`` comes from a register.

    *Reset*: no value is captured, no write is granted.
    """

    def __init__(self, cfg):
        self.cfg = cfg = DatapathParameters.of(cfg)
        super().__init__({
            "registers": In(AccessPort(cfg)),
            "products": In(ProductAccessPort()),
            "offset_read": In(OffsetReadPort(cfg)),
            "files": Out(RegisterFilePort(cfg)),
            "pause": Out(1),
            **({"sparse_active": In(1), "operand_write": In(1), "operand_word": In(OPERAND_BITS)} if cfg.sparse else {}),
        })

    @property
    def part_bits(self):
        """Bits of a register number that select the 32-bit part of a factor word."""
        return self.cfg.numbers_per_word.bit_length() - 1

    def elaborate(self, platform):
        m = Module()
        self._products(m)
        number, factor_read = self._factor_file(m)
        self._capture(m, number, factor_read)
        return m

    def _products(self, m):
        port, access, products = self.registers, self.files.products, self.products
        granted, asked = Signal(), Signal()
        m.d.comb += [
            access.matrix_register.eq(products.read_register),
            access.thread_register.eq(port.read_number),
            access.matrix_write.eq(products.write),
            access.thread_next.eq(port.write_product & ~products.write_next & ~granted),
            access.thread_write.eq(granted),
            access.write_register.eq(Mux(granted, port.write_register, products.write_register)),
            port.write_grant.eq(granted),
        ]
        # With thread_overlap ``mm`` may skip a write by itself, so ``pause`` comes a cycle later.
        asks = ~asked
        if self.cfg.thread_overlap:
            waited = Signal(name="waited")
            m.d.sync += waited.eq(port.write_product & asked)
            asks = asked & ~waited & ~granted
        m.d.sync += [
            granted.eq(access.thread_next),
            asked.eq(port.write_product),
            self.pause.eq(port.write_product & products.write_next & asks),
        ]

    def _factor_file(self, m):
        """Returns the number of the factor register that is read, and whether the thread unit reads it."""
        port, offset, access = self.registers, self.offset_read, self.files.factors
        number = Signal.like(offset.number, name="number")
        factor = Signal()
        granted = Signal()
        m.d.sync += port.write_pause.eq(offset.request & port.write_factor & ~port.write_pause)
        m.d.comb += [
            factor.eq(port.read_number >= FIRST_FACTOR_REGISTER),
            granted.eq(port.read & factor & ~port.write_factor & ~offset.request),
            port.read_grant.eq(granted | (port.read & ~factor)),
            offset.grant.eq(offset.request & ~port.write_factor),
            number.eq(Mux(offset.request, offset.number, port.read_number - FIRST_FACTOR_REGISTER)),
            access.word.eq(Mux(port.write_factor, port.write_word, number[self.part_bits:])),
            access.read.eq(granted | offset.grant),
            access.write.eq(Mux(port.write_factor, port.write_parts, 0)),
        ]
        if self.cfg.sparse:
            m.d.comb += [access.operand_write.eq(Mux(self.operand_write, port.write_parts, 0)), access.operand_word.eq(self.operand_word)]
            with m.If(self.sparse_active):
                m.d.comb += [access.word.eq(0), access.read.eq(1)]       # each group of PEs has a word of its own
        return number, granted

    def _capture(self, m, number, factor_read):
        port = self.registers
        capture = Signal(capture_layout(self.cfg))
        product_read = port.read_grant & ~factor_read
        m.d.comb += self.files.capture.eq(capture)
        if self.cfg.rnn:
            banks = tap_banks(self.cfg)
            bank = port.read_number[TAP_ROW_BITS:] % banks
            for tap in range(1, TAPS):
                reads = port.read_tap == tap
                m.d.comb += self.files.read_tap.word_select(tap - 1, banks).eq(
                    Mux(product_read & (reads | port.read_taps if self.cfg.sparse else reads), 1 << bank, 0))
            product_read = product_read & (port.read_tap == 0)
        if self.cfg.register_pairs:
            m.d.sync += capture.odd.eq(product_read & (port.read_number[0] | port.read_pair))
            product_read = product_read & ~port.read_number[0]
        m.d.sync += [
            capture.product.eq(product_read),
            capture.factor.eq(factor_read),
            capture.offset.eq(self.offset_read.grant),
        ]
        for part in range(self.cfg.numbers_per_word):
            m.d.sync += capture.parts[part].eq(number[:self.part_bits] == part)
