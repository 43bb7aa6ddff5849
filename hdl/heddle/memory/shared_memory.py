"""Shared memory of a core: eight banks of 16 bytes with fixed priorities."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In

from ..config import BANK_BYTES, BANKS
from ..layouts import BankReadPort, BankWritePort

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
        for b in range(BANKS):
            memory = Memory(shape=8 * BANK_BYTES, depth=self.cfg.shared_rows, init=[],
                            attrs={"no_rw_check": 1})   # rows never collide, see _write_bank
            m.submodules[f"bank_{b}"] = memory
            reading, read_row = self._read_bank(m, memory, b)
            self._write_bank(m, memory, b, reading, read_row)
        return m

    def _arbitrate(self, m, ports, b, blocked):
        """Grant bank ``b`` to the first port that requests it, unless ``blocked``."""
        taken = blocked
        for port in ports:
            m.d.comb += port.grant[b].eq(port.request[b] & ~taken)
            taken = taken | port.request[b]

    def _first(self, ports, b, select):
        """Member ``select(port)`` of the first port that requests bank ``b``."""
        value = select(ports[-1])
        for port in reversed(ports[:-1]):
            value = Mux(port.request[b], select(port), value)
        return value

    def _read_bank(self, m, memory, b):
        # An asynchronous read with a register behind it: synthesis makes the register the block RAM's own.
        port = memory.read_port(domain="comb")
        reading = Signal(name=f"reading_{b}")
        row = Signal(self.cfg.row_bits, name=f"read_row_{b}")
        memory_word = Signal(8 * BANK_BYTES, name=f"memory_word_{b}", reset_less=True)
        word = Signal(8 * BANK_BYTES, name=f"word_{b}", reset_less=True)
        self._arbitrate(m, self.read, b, Const(0))
        m.d.comb += [
            reading.eq(Cat(reader.request[b] for reader in self.read).any()),
            row.eq(self._first(self.read, b, lambda reader: reader.row[b])),
            port.addr.eq(row),
        ]
        m.d.sync += [memory_word.eq(port.data), word.eq(memory_word)]
        m.d.comb += [reader.data[b].eq(word) for reader in self.read]
        return reading, row

    def _write_bank(self, m, memory, b, reading, read_row):
        # Block RAM leaves open what a read of a row in the cycle of its write returns, so the write waits.
        port = memory.write_port(granularity=8)
        row = Signal(self.cfg.row_bits, name=f"write_row_{b}")
        blocked = Signal(name=f"write_blocked_{b}")
        self._arbitrate(m, self.write, b, blocked)
        writing = Cat(writer.request[b] for writer in self.write).any() & ~blocked
        m.d.comb += [
            row.eq(self._first(self.write, b, lambda writer: writer.row[b])),
            blocked.eq(reading & (row == read_row)),
            port.addr.eq(row),
            port.data.eq(self._first(self.write, b, lambda writer: writer.data[b])),
            port.en.eq(self._first(self.write, b, lambda writer: writer.mask[b]) & writing.replicate(BANK_BYTES)),
        ]
