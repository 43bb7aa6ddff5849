"""A bank of shared memory: arbitration and contents."""

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Cat, Const, Cover, Module, Mux, Signal
from amaranth.lib.wiring import Component
from heddle.interfaces.layouts import SHARED_READ_LATENCY
from heddle.memory.shared_bank import SharedBank

__all__ = ["SharedBankSpec"]


class SharedBankSpec(Component):
    """At most one read and one write are granted; the lowest port that requests goes first; the row of the granted port is the one read.

    Contents: every bit of a symbolic row keeps what the last granted write with its byte enabled put there. It is on ``data``
    ``SHARED_READ_LATENCY`` cycles after a granted read of the row. Environment: none, all requests are free.
    """

    def __init__(self, readers=3, writers=2, rows=4, bits=range(128)):
        self._readers, self._writers, self._rows, self._bits = readers, writers, rows, bits
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = SharedBank(self._rows, self._readers, self._writers)
        for port in [*dut.read, *dut.write]:
            m.d.comb += [port.request.eq(AnySeq(1)), port.row.eq(AnySeq(len(port.row)))]
        for port in dut.write:
            m.d.comb += [port.data.eq(AnySeq(len(port.data))), port.mask.eq(AnySeq(len(port.mask)))]

        read_row, write_row = (self._priority(m, name, ports) for name, ports in (("read", dut.read), ("write", dut.write)))
        reads = Cat(port.request for port in dut.read).any()
        writes = Cat(port.request for port in dut.write).any()
        collides = reads & writes & (read_row == write_row)
        m.d.comb += [
            Assert(Cat(port.grant for port in dut.read).any() == reads),
            Assert(Cat(port.grant for port in dut.write).any() == (writes & ~collides)),
            Cover(collides), Cover(reads & writes & ~collides),
        ]
        row = Signal(range(self._rows))
        m.d.comb += row.eq(AnyConst(len(row)))
        for bit in self._bits:
            self._contents(m, dut, bit, reads & (read_row == row), writes & ~collides & (write_row == row))
        return m

    def _priority(self, m, name, ports):
        """Grants of a list of ports; returns the row of the first that requests."""
        earlier, row = Const(0, 1), Signal.like(ports[0].row, name=f"{name}_row")
        for number, port in enumerate(ports):
            m.d.comb += [Assert(~port.grant | (port.request & ~earlier)), Cover(port.grant)]
            with m.If(port.request & ~earlier):
                m.d.comb += row.eq(port.row)
            first = Signal(name=f"{name}_requested_{number}")
            m.d.comb += first.eq(port.request | earlier)
            earlier = first
        return row

    def _contents(self, m, dut, bit, read, write):
        stored = Signal(name=f"stored_{bit}", reset_less=True)
        value, enabled = Const(0), Const(0)
        for port in reversed(list(dut.write)):
            value, enabled = Mux(port.request, port.data[bit], value), Mux(port.request, port.mask[bit // 8], enabled)
        with m.If(write & enabled):
            m.d.sync += stored.eq(value)
        asked, value = read, stored
        for stage in range(SHARED_READ_LATENCY):
            asked_before, asked = asked, Signal(name=f"asked_{bit}_{stage}")
            value_before, value = value, Signal(name=f"expected_{bit}_{stage}", reset_less=True)
            m.d.sync += [asked.eq(asked_before), value.eq(value_before)]
        with m.If(asked):
            m.d.comb += [Assert(dut.data[bit] == value), Cover(value)]
