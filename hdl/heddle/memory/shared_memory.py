"""Shared memory of a core: eight banks of 16 bytes with fixed priorities."""

from amaranth.hdl import Module, Mux
from amaranth.lib.wiring import Component, In

from ..constants import BANKS
from ..layouts import BankReadPort, BankWritePort
from ..once import Once
from .shared_bank import SharedBank

__all__ = ["SharedMemory"]


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
    mask on the lines of bank 0, and only the requesting write port with the lowest index is granted.

    Parameters
    ----------
    cfg : Config
    readers, writers : int
        Number of ports, each at least 1; index 0 goes first.

    Members
    -------
    read : In(BankReadPort(cfg)).array(readers)
    write : In(BankWritePort(cfg)).array(writers)
    """

    def __init__(self, cfg, readers=3, writers=2):
        for name, value in (("readers", readers), ("writers", writers)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be an integer of at least 1, not {value!r}")
        self.cfg = cfg
        self.readers = readers
        self.writers = writers
        super().__init__({
            "read": In(BankReadPort(cfg)).array(readers),
            "write": In(BankWritePort(cfg)).array(writers),
        })

    def elaborate(self, platform):
        m = Module()
        common = self.cfg.shared_writes == 1
        banks = Once("heddle_shared_bank", SharedBank, self.cfg, self.readers, 1 if common else self.writers)
        writes = self._one_write(m) if common else self.write
        for index in range(BANKS):
            bank = banks.instantiate(m, f"bank_{index}")
            for outer, inner in zip(self.read, bank.read):
                m.d.comb += [
                    inner.request.eq(outer.request[index]), inner.row.eq(outer.row[index]),
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
        row, data, mask = self.write[-1].row[0], self.write[-1].data[0], self.write[-1].mask[0]
        request, taken = self.write[-1].request, 0
        for port in reversed(self.write[:-1]):
            asks = port.request.any()
            row, data, mask = Mux(asks, port.row[0], row), Mux(asks, port.data[0], data), Mux(asks, port.mask[0], mask)
            request = Mux(asks, port.request, request)
        m.d.comb += bus.request.eq(request)
        for index in range(BANKS):
            m.d.comb += [bus.row[index].eq(row), bus.data[index].eq(data), bus.mask[index].eq(mask)]
        for port in self.write:
            m.d.comb += port.grant.eq(Mux(taken, 0, bus.grant))
            taken = taken | port.request.any()
        return [bus]
