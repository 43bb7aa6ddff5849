"""One bank of shared memory with its arbitration."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out, Signature

from ..constants import BANK_BYTES

__all__ = ["SharedBank"]


class SharedBank(Component):
    """``cfg.shared_rows`` words of 16 bytes: one read and one write a cycle, each for the first port that requests.

    Grants are combinational; ``data`` follows one cycle after a read was granted. A write to the row that is read in the same
    cycle is not granted; with ``ahead`` none comes that must not be written. See ``SharedMemory``.

    Members
    -------
    read : array of ``request``, ``row``, ``grant``
    data : Out(128)
    write : array of ``request``, ``row``, ``data``, ``mask`` (byte enables), ``grant``
    """

    def __init__(self, cfg, readers, writers, ahead=False):
        self.cfg = cfg
        self._ahead = ahead
        address = {"request": Out(1), "row": Out(cfg.row_bits), "grant": In(1)}
        super().__init__({
            "read": In(Signature(address)).array(readers),
            "data": Out(8 * BANK_BYTES),
            "write": In(Signature(address | {"data": Out(8 * BANK_BYTES), "mask": Out(BANK_BYTES)})).array(writers),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = memory = Memory(shape=8 * BANK_BYTES, depth=self.cfg.shared_rows, init=[],
                                             attrs={"no_rw_check": 1})   # rows never collide, see below
        # An asynchronous read with a register behind it: synthesis makes the register the block RAM's own.
        read, write = memory.read_port(domain="comb"), memory.write_port(granularity=8)
        self._arbitrate(m, self.read, 0)
        word = Signal(8 * BANK_BYTES, reset_less=True)
        m.d.comb += [read.addr.eq(self._first(self.read, "row")), self.data.eq(word)]
        m.d.sync += word.eq(read.data)

        # Block RAM leaves open what a read of a row in the cycle of its write returns, so the write waits.
        blocked = Const(0)
        if not self._ahead:
            blocked, hit = Signal(), Signal(len(self.read))     # each row is compared, then the right one taken: fewer levels
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
        """Grant the first port that requests, unless ``blocked``; returns whether any requests."""
        taken = blocked
        for port in ports:
            m.d.comb += port.grant.eq(port.request & ~taken)
            taken = taken | port.request
        return Cat(port.request for port in ports).any()

    def _first(self, ports, member):
        """A member of the first port that requests."""
        value = getattr(ports[-1], member)
        for port in reversed(ports[:-1]):
            value = Mux(port.request, getattr(port, member), value)
        return value
