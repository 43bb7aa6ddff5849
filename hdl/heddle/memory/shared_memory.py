"""Shared memory of a core: eight banks of 16 bytes with fixed priorities."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import Component, In

from ..constants import BANKS
from ..errors import UsageError
from ..interfaces.layouts import BankReadPort, BankWritePort
from ..lib.onehot import any_of
from ..lib.shared_module import SharedModule
from .shared_bank import SharedBank

__all__ = ["SharedMemory"]

FIRST_READERS = 2       # that go before the first write port, with ``cfg.banks_known_ahead``


class SharedMemory(Component):
    """Eight banks of ``cfg.shared_rows`` words of 16 bytes, each read once and written once a cycle.

    Byte address a lies in bank ``(a // 16) % 8``, row ``a // 128``. In every bank the requesting port with the lowest index
    is granted, combinationally and in the cycle of the request; a port that was not granted keeps its request up.
    The word that was read stands on ``data`` for one cycle, ``SHARED_READ_LATENCY`` (1) cycles after the grant, at the output of the
    block RAM: each reader keeps what it wants in registers of its own. ``data`` is common to all readers. Throughput: 128 bytes read
    and 128 bytes written a cycle. A write is visible to reads granted in later cycles; a write to the row that its bank reads in the
    same cycle is not granted. Reset leaves the contents as they are; at power-up they are zero [S1.13, docs/units/shared_memory.md].

    Area: ``cfg.shared_bytes`` of block RAM; a ``readers``-way row multiplexer and a ``writers``-way 16-byte multiplexer per bank.

    With ``cfg.shared_writes`` 1 there is one bus for the words that are written: a port asks for one bank at a time, with row, data and
    mask on the lines of bank 0, and only the requesting write port with the lowest index is granted. With ``cfg.far_registers`` rows are
    compared for each write port on its own, before the bus. With ``cfg.banks_known_ahead`` a read port has one row, on the lines of bank 0
    too, and a bank that is read is not written, whatever the row: the first two read ports go first, then the first write port, then the
    others.

    Parameters
    ----------
    cfg : Config
    readers, writers : int
        Number of ports, each at least 1; index 0 goes first.

    Members
    -------
    read : In(BankReadPort(cfg)).array(readers)
    write : In(BankWritePort(cfg)).array(writers)
    asks : In(1).array(writers)
        With ``cfg.shared_writes`` 1 and ``cfg.far_registers``: whether each write port asks for a bank; its owner knows that ahead.
    """

    def __init__(self, cfg, readers=3, writers=2):
        for name, value in (("readers", readers), ("writers", writers)):
            if not isinstance(value, int) or value < 1:
                raise UsageError(f"{name} must be an integer of at least 1, not {value!r}")
        self.cfg = cfg
        self.readers = readers
        self.writers = writers
        self._common = cfg.shared_writes == 1
        self._ahead = self._common and cfg.far_registers
        super().__init__({
            "read": In(BankReadPort(cfg)).array(readers),
            "write": In(BankWritePort(cfg)).array(writers),
        } | ({"asks": In(1).array(writers)} if self._ahead else {}))

    def elaborate(self, platform):
        m = Module()
        banks = SharedModule("heddle_shared_bank", SharedBank, self.cfg, self.readers, 1 if self._common else self.writers, self._ahead)
        writes = self._one_write(m) if self._common else self.write
        ordered = self.cfg.banks_known_ahead
        for index in range(BANKS):
            bank = banks.instantiate(m, f"bank_{index}")
            for number, (outer, inner) in enumerate(zip(self.read, bank.read)):
                waits = self.write[0].request[index] if ordered and number >= FIRST_READERS else 0
                m.d.comb += [
                    inner.request.eq(outer.request[index] & ~waits), inner.row.eq(outer.row[0 if ordered else index]),
                    outer.grant[index].eq(inner.grant), outer.data[index].eq(bank.data),
                ]
            for outer, inner in zip(writes, bank.write):
                m.d.comb += [
                    inner.request.eq(outer.request[index]), inner.row.eq(outer.row[index]), inner.data.eq(outer.data[index]),
                    inner.mask.eq(outer.mask[index]), outer.grant[index].eq(inner.grant),
                ]
        return m

    def _one_write(self, m):
        """The bus of ``shared_writes`` 1, as the only write port of the banks."""
        bus = BankWritePort(self.cfg).create(path=("bus",))
        self._asks = list(self.asks) if self._ahead else [port.request.any() for port in self.write]
        if self._ahead:
            self._grant_ahead(m, bus)
        else:
            m.d.comb += bus.request.eq(self._of_first([port.request for port in self.write]))
            taken = 0
            for port, asks in zip(self.write, self._asks):
                m.d.comb += port.grant.eq(Mux(taken, 0, bus.grant))
                taken = taken | asks
        for name in ("row", "data", "mask"):
            m.d.comb += [value.eq(self._of_first([getattr(port, name)[0] for port in self.write])) for value in getattr(bus, name)]
        return [bus]

    def _grant_ahead(self, m, bus):
        """What reaches the banks of each write port. No multiplexer of rows stands in front of the comparisons."""
        granted, taken = [], Const(0)
        for number, port in enumerate(self.write):
            blocked = Signal(name=f"blocked_{number}")
            # One that asks in vain has the same row a cycle later: a write that waits for it needs no grant to be known.
            m.d.comb += [
                blocked.eq(Cat(self._meet(port, reader) for reader in self._before(number)).any()),
                port.grant.eq(port.request & (~taken & ~blocked).replicate(BANKS)),
            ]
            granted.append(port.grant)
            taken = taken | self._asks[number]
        m.d.comb += bus.request.eq(any_of(granted))

    def _before(self, number):
        """The readers that a write port waits for."""
        return self.read[:FIRST_READERS] if self.cfg.banks_known_ahead and not number else self.read

    def _meet(self, port, reader):
        """Whether a reader asks for the bank that a write port asks for, and for the same row unless all of the bank waits."""
        if self.cfg.banks_known_ahead:
            return (port.request & reader.request).any()
        return Cat(asks & asked & (port.row[0] == row) for asks, asked, row in zip(port.request, reader.request, reader.row)).any()

    def _of_first(self, values):
        """The value of the first write port that asks for a bank."""
        chosen = values[-1]
        for value, asks in zip(reversed(values[:-1]), reversed(self._asks[:-1])):
            chosen = Mux(asks, value, chosen)
        return chosen
