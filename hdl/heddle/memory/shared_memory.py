"""Shared memory of a core: eight banks of 16 bytes with fixed priorities."""

from amaranth.hdl import Module
from amaranth.lib.wiring import Component, In

from ..config import BANKS
from ..layouts import BankReadPort, BankWritePort
from ..once import Once
from .shared_bank import SharedBank

__all__ = ["SharedMemory"]


class SharedMemory(Component):
    """Eight banks of ``cfg.shared_rows`` words of 16 bytes, each read once and written once a cycle.

    Byte address a lies in bank ``(a // 16) % 8``, row ``a // 128``. In every bank the requesting port with the lowest index
    is granted, combinationally and in the cycle of the request; a port that was not granted keeps its request up.
    The word that was read stands on ``data`` for one cycle, ``SHARED_READ_LATENCY`` (2) cycles after the grant: one cycle in the
    memory, one in the register behind it. ``data`` is common to all readers. Throughput: 128 bytes read and 128 bytes written a
    cycle. A write is visible to reads granted in later cycles; a write to the row that its bank reads in the same cycle is not
    granted. Reset leaves the contents as they are; at power-up they are zero [S1.13, docs/units/shared_memory.md].

    Area: ``cfg.shared_bytes`` of block RAM; a ``readers``-way row multiplexer and a ``writers``-way 16-byte multiplexer per bank.

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
        banks = Once("heddle_shared_bank", SharedBank, self.cfg, self.readers, self.writers)
        for index in range(BANKS):
            bank = banks.instantiate(m, f"bank_{index}")
            for outer, inner in zip(self.read, bank.read):
                m.d.comb += [
                    inner.request.eq(outer.request[index]), inner.row.eq(outer.row[index]),
                    outer.grant[index].eq(inner.grant), outer.data[index].eq(bank.data),
                ]
            for outer, inner in zip(self.write, bank.write):
                m.d.comb += [
                    inner.request.eq(outer.request[index]), inner.row.eq(outer.row[index]), inner.data.eq(outer.data[index]),
                    inner.mask.eq(outer.mask[index]), outer.grant[index].eq(inner.grant),
                ]
        return m
