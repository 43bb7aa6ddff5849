"""Shared memory of a core: eight banks of 16-byte words with fixed-priority bank arbiters."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import Component, In, connect, flipped

from ..constants import BANKS
from ..errors import UsageError
from ..interfaces.layouts import SharedReadPort, SharedWritePort, shared_read_layout, shared_write_layout
from ..lib.shared_module import SharedModule
from ..parameters.memory import MemoryParameters
from .bank_patience import BankPatience
from .bank_port import BankPort
from .shared_bank import SharedBank

__all__ = ["SharedMemory"]


class SharedMemory(Component):
    """Shared memory of a core: eight banks of ``cfg.shared_rows`` words of 16 bytes with a bank arbiter each [S1.13].

    Byte address a lies in bank ``(a // 16) % 8``, row ``a // 128``. In every bank the requesting port with the lowest index is granted,
    for reads and for writes. A request of several banks is served bank by bank; the next one of its port follows when all are granted.
    A request that has waited ``cfg.bank_patience`` cycles is served alone in one cycle.

    Parameters
    ----------
    cfg : MemoryParameters
    readers, writers : int
        Number of ports, each at least 1; index 0 has the highest priority.

    *Ports*:
    read : In(SharedReadPort(cfg)).array(readers)
        Read ports.
    write : In(SharedWritePort(cfg)).array(writers)
        Write ports.

    *Latency*: a request whose banks are free is granted in the cycle of its transfer. The answer of a read comes
    ``SHARED_READ_LATENCY`` (1) cycles after the grant, from the output of the block RAM. ``written`` comes one cycle after the last
    grant of a write; reads that are granted from then on see the write.

    *Throughput*: one read and one write per bank and cycle: 128 bytes read and 128 bytes written; 16 bytes written with
    ``cfg.shared_writes`` 1.

    *Back-pressure*: every ``request.ready`` comes from a register. A write is not granted in the cycle in which its bank reads the same
    row.

    *Write bus*: with ``cfg.shared_writes`` 1 all write ports share one bus, and a request has one bank. Only the requesting write port
    with the lowest index is granted.

    *Reset*: drops the requests; contents stay as they are. At power-up they are zero.

    *Area*: ``cfg.shared_bytes`` of block RAM; per bank a ``readers``-way row multiplexer and a ``writers``-way 16-byte multiplexer; a
    register for a request of each port.

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
        super().__init__({
            "read": In(SharedReadPort(cfg)).array(readers),
            "write": In(SharedWritePort(cfg)).array(writers),
        })

    def elaborate(self, platform):
        m = Module()
        one_bus = self.cfg.shared_writes == 1
        banks = SharedModule("heddle_shared_bank", SharedBank, self.cfg.shared_rows, self.readers, 1 if one_bus else self.writers)
        readers = [self._port(m, f"read_{number}", port, shared_read_layout(self.cfg)) for number, port in enumerate(self.read)]
        writers = [self._port(m, f"write_{number}", port, shared_write_layout(self.cfg)) for number, port in enumerate(self.write)]
        requests = self._requests(m, readers, writers)
        asked, asked_writes = requests[:self.readers], requests[self.readers:]
        held = [port.held for port in writers]
        if one_bus:
            bus = Signal(BANKS, name="bus_grant")
            asked_writes, held = self._one_write(m, writers, asked_writes, bus)
        for index in range(BANKS):
            bank = banks.instantiate(m, f"bank_{index}")
            for port, request, inner in zip(readers, asked, bank.read, strict=True):
                m.d.comb += [inner.request.eq(request[index]), inner.row.eq(port.held.row[index]), port.grant[index].eq(inner.grant)]
            for request, write, inner in zip(asked_writes, held, bank.write, strict=True):
                line = index % len(write.row)
                m.d.comb += [
                    inner.request.eq(request[index]), inner.row.eq(write.row[line]), inner.data.eq(write.data[line]),
                    inner.mask.eq(write.mask[line]),
                ]
            grants = [bus] if one_bus else [port.grant for port in writers]
            m.d.comb += [grant[index].eq(inner.grant) for grant, inner in zip(grants, bank.write, strict=True)]
            m.d.comb += [outer.answer.payload.data[index].eq(bank.data) for outer in self.read]
        for outer, port in zip(self.read, readers, strict=True):
            m.d.comb += [
                outer.answer.valid.eq(port.granted.any()), outer.answer.payload.bank.eq(port.granted),
                outer.answer.payload.last.eq(port.last),
            ]
        m.d.comb += [outer.written.eq(port.last) for outer, port in zip(self.write, writers, strict=True)]
        return m

    def _port(self, m, name, outer, layout):
        m.submodules[name] = port = BankPort(layout)
        connect(m, flipped(outer.request), port.i)
        return port

    def _requests(self, m, readers, writers):
        """Banks that each port requests: of all ports, or of the one that has waited too long. The first reader never waits long."""
        patient = [*readers[1:], *writers]
        m.submodules.patience = patience = BankPatience(len(patient), self.cfg.bank_patience)
        m.d.comb += [
            patience.waits.eq(Cat(~port.i.ready for port in patient)),
            patience.ends.eq(Cat((port.request & ~port.grant) == 0 for port in patient)),
        ]
        others = patience.alone.any()
        requests = []
        for number, port in enumerate([*readers, *writers]):
            may = ~others | patience.alone[number - 1] if number else ~others
            request = Signal(BANKS, name=f"request_{number}")
            m.d.comb += request.eq(Mux(may, port.request, 0))
            requests.append(request)
        return requests

    def _one_write(self, m, writers, requests, grant):
        """The write bus of ``cfg.shared_writes`` 1: requests and payload of the requesting port with the lowest index."""
        request, held, taken = requests[-1], writers[-1].held.as_value(), 0
        for port, asks in reversed(list(zip(writers[:-1], requests[:-1], strict=True))):
            request, held = Mux(asks.any(), asks, request), Mux(asks.any(), port.held.as_value(), held)
        for port, asks in zip(writers, requests, strict=True):
            m.d.comb += port.grant.eq(Mux(taken, 0, asks & grant))
            taken = taken | asks.any()
        bus = Signal(shared_write_layout(self.cfg), name="bus")
        m.d.comb += bus.eq(held)
        return [request], [bus]
