"""Bank of shared memory with its bank arbiter."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out, Signature

from ..constants import BANK_BYTES

__all__ = ["SharedBank"]


class SharedBank(Component):
    """Bank of shared memory: ``rows`` words of 16 bytes with a fixed-priority bank arbiter for each direction.

    One read and one write are granted per cycle, each to the requesting port with the lowest index. A write to the row of the read that
    is granted in the same cycle is not granted.

    Parameters
    ----------
    rows : int
        Number of words.
    readers, writers : int
        Number of ports.

    *Ports*:
    read : In(Signature).array(readers)
        ``request``: read ``row``. ``grant`` (combinational): the read is performed.
    data : Out(128)
        Word of the read that was granted in the cycle before.
    write : In(Signature).array(writers)
        ``request``: write ``data`` to ``row`` where ``mask`` enables the byte. ``grant`` (combinational): the write is performed.

    *Latency*: ``grant`` in the cycle of ``request``; ``data`` is valid for one cycle, 1 cycle after the grant. A granted write is
    visible to reads that are granted in later cycles.

    *Throughput*: one read and one write per cycle.

    *Back-pressure*: a read ``grant`` depends on ``request`` of the read ports up to its own. A write ``grant`` depends on ``request``
    of the write ports up to its own, on the rows of all ports and on the read grants.

    *Reset*: none; contents are zero at power-up.
    """

    def __init__(self, rows, readers, writers):
        self._rows = rows
        address = {"request": Out(1), "row": Out(range(rows)), "grant": In(1)}
        super().__init__({
            "read": In(Signature(address)).array(readers),
            "data": Out(8 * BANK_BYTES),
            "write": In(Signature(address | {"data": Out(8 * BANK_BYTES), "mask": Out(BANK_BYTES)})).array(writers),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = memory = Memory(shape=8 * BANK_BYTES, depth=self._rows, init=[],
                                             attrs={"no_rw_check": 1})   # the arbiters exclude a read and a write of the same row
        # An asynchronous read with a register at its output: synthesis maps the register to that of the block RAM.
        read, write = memory.read_port(domain="comb"), memory.write_port(granularity=8)
        self._arbitrate(m, self.read, 0)
        word = Signal(8 * BANK_BYTES, reset_less=True)
        m.d.comb += [read.addr.eq(self._first(self.read, "row")), self.data.eq(word)]
        m.d.sync += word.eq(read.data)

        # A block RAM does not define the read data of a row that is written in the same cycle, so the write waits.
        blocked, hit = Signal(), Signal(len(self.read))     # compare every row, then select by grant: fewer logic levels
        m.d.comb += [
            hit.eq(Cat(port.row == write.addr for port in self.read)),
            blocked.eq((hit & Cat(port.grant for port in self.read)).any()),
        ]
        writing = self._arbitrate(m, self.write, blocked)
        m.d.comb += [
            write.addr.eq(self._first(self.write, "row")),
            write.data.eq(self._first(self.write, "data")),
            write.en.eq(self._first(self.write, "mask") & (writing & ~blocked).replicate(BANK_BYTES)),
        ]
        return m

    def _arbitrate(self, m, ports, blocked):
        """Grant the requesting port with the lowest index, unless ``blocked``; returns whether any port requests."""
        taken = blocked
        for port in ports:
            m.d.comb += port.grant.eq(port.request & ~taken)
            taken = taken | port.request
        return Cat(port.request for port in ports).any()

    def _first(self, ports, member):
        """A member of the requesting port with the lowest index."""
        value = getattr(ports[-1], member)
        for port in reversed(ports[:-1]):
            value = Mux(port.request, getattr(port, member), value)
        return value
