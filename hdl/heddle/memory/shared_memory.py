"""Shared memory of a core: eight banks of 16-byte words with fixed-priority bank arbiters."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import Component, In

from ..constants import BANKS
from ..errors import UsageError
from ..interfaces.layouts import BankReadPort, BankWritePort
from ..lib.onehot import any_of
from ..lib.shared_module import SharedModule
from ..parameters.memory import MemoryParameters
from .shared_bank import SharedBank

__all__ = ["SharedMemory"]

FIRST_READERS = 2       # read ports with priority over the first write port, with ``cfg.banks_known_ahead``


class SharedMemory(Component):
    """Shared memory of a core: eight banks of ``cfg.shared_rows`` words of 16 bytes with a bank arbiter each [S1.13].

    Byte address a lies in bank ``(a // 16) % 8``, row ``a // 128``. In every bank the requesting port with the lowest index is granted.
    A port that was not granted holds its request. There is no fairness: a port waits as long as ports of lower index request the bank.

    Parameters
    ----------
    cfg : MemoryParameters
    readers, writers : int
        Number of ports, each at least 1; index 0 has the highest priority.

    *Ports*:
    read : In(BankReadPort(cfg)).array(readers)
        Read ports. ``data`` is common to all of them; each reader registers the words of its own grants.
    write : In(BankWritePort(cfg)).array(writers)
        Write ports.
    asks : In(1).array(writers)
        Only with ``cfg.shared_writes`` 1 and ``cfg.far_registers``: write port n requests some bank. The owner derives it from
        registers.

    *Latency*: ``grant`` in the cycle of ``request``. ``data`` is valid for one cycle, ``SHARED_READ_LATENCY`` (1) cycles after the
    grant, at the output of the block RAM. A granted write is visible to reads that are granted in later cycles.

    *Throughput*: one read and one write per bank and cycle: 128 bytes read and 128 bytes written; 16 bytes written with
    ``cfg.shared_writes`` 1.

    *Back-pressure*: every ``grant`` is combinational. A read grant depends on ``request`` of the read ports of lower index. A write
    grant depends on ``request`` of the write ports of lower index and on the reads. A write is not granted in the cycle in which its
    bank reads the same row.

    *Write bus*: with ``cfg.shared_writes`` 1 all write ports share one bus. A port requests one bank at a time, with row, data and mask
    on the lines of bank 0. Only the requesting write port with the lowest index is granted. With ``cfg.far_registers`` each write port
    has its own row comparators before the bus, and ``asks`` selects the port. A write then waits for every read request of its row,
    granted or not.

    *Predicted banks*: with ``cfg.banks_known_ahead`` a read port has one row, on the lines of bank 0. A bank that is read is not
    written, whatever the row. The order of priority is: read ports 0 and 1, write port 0, the other read ports, the other write ports.

    *Reset*: contents stay as they are; at power-up they are zero.

    *Area*: ``cfg.shared_bytes`` of block RAM; per bank a ``readers``-way row multiplexer and a ``writers``-way 16-byte multiplexer.

    *Errors*: the constructor raises ``UsageError`` when ``readers`` or ``writers`` is not an integer of at least 1.

    *Source*: [S1.13], docs/units/shared_memory.md.
    """

    def __init__(self, cfg, readers=3, writers=2):
        cfg = MemoryParameters.of(cfg)
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
        banks = SharedModule("heddle_shared_bank", SharedBank, self.cfg.shared_rows, self.readers, 1 if self._common else self.writers,
                             self._ahead)
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
        """The write bus of ``cfg.shared_writes`` 1, as the only write port of the banks."""
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
        """Grants of the write ports and requests on the bus. No row multiplexer precedes the comparators."""
        granted, taken = [], Const(0)
        for number, port in enumerate(self.write):
            blocked = Signal(name=f"blocked_{number}")
            # A reader that is not granted requests the same row a cycle later. A write may therefore wait for requests instead of grants.
            m.d.comb += [
                blocked.eq(Cat(self._meet(port, reader) for reader in self._before(number)).any()),
                port.grant.eq(port.request & (~taken & ~blocked).replicate(BANKS)),
            ]
            granted.append(port.grant)
            taken = taken | self._asks[number]
        m.d.comb += bus.request.eq(any_of(granted))

    def _before(self, number):
        """Readers with priority over write port ``number``."""
        return self.read[:FIRST_READERS] if self.cfg.banks_known_ahead and not number else self.read

    def _meet(self, port, reader):
        """Whether ``reader`` requests the bank that ``port`` requests, and the same row.

        With ``cfg.banks_known_ahead`` the row does not matter.
        """
        if self.cfg.banks_known_ahead:
            return (port.request & reader.request).any()
        return Cat(asks & asked & (port.row[0] == row) for asks, asked, row in zip(port.request, reader.request, reader.row)).any()

    def _of_first(self, values):
        """The value of the requesting write port with the lowest index."""
        chosen = values[-1]
        for value, asks in zip(reversed(values[:-1]), reversed(self._asks[:-1])):
            chosen = Mux(asks, value, chosen)
        return chosen
