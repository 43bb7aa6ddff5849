"""Both ends of the ports to the banks of shared memory: a model of the memory, and a requester."""

from collections import deque

import cocotb
import numpy as np
from cocotb.triggers import Event, RisingEdge, ValueChange
from heddle.constants import BANK_BYTES, BANKS, ROW_BYTES
from heddle.interfaces.layouts import SHARED_READ_LATENCY

__all__ = ["BankMemory", "BankRequester"]

ALL = (1 << BANKS) - 1


class _Port:
    def __init__(self, dut, name):
        self.request = getattr(dut, f"{name}__request")
        self.grant = getattr(dut, f"{name}__grant")
        self.willing = 0            # banks, of a memory
        self.row, self.data, self.mask = ([getattr(dut, f"{name}__{part}__{bank}", None) for bank in range(BANKS)]
                                          for part in ("row", "data", "mask"))


class BankMemory:
    """Shared memory as a model, for designs with ``BankReadPort`` and ``BankWritePort`` outputs.

    Each cycle a random set of banks is willing; ``grant`` is the willing banks among the requested ones, in the same cycle, or with
    ``unasked`` all willing ones, whatever is requested.
    Data stand for one cycle, ``SHARED_READ_LATENCY`` cycles after the grant; in other cycles they are random.

    Parameters
    ----------
    dut
        Design; its ``clk`` and ``rst`` are used.
    size : int
        Bytes of the memory, a multiple of ``ROW_BYTES``.
    rng : numpy.random.Generator
    read, write : str or None
        Names of the ports, None when the design has none.
    grant_chance : float
        Chance that a bank is willing in a cycle.
    one_write : bool
        There is one bus for writes (``shared_writes`` 1): one bank at a time may be asked for, with row, data and mask on the lines of
        bank 0. The lines of other banks are not looked at.
    one_read : bool
        The same of reads: row on the line of bank 0. Each bank has its own data.
    unasked : bool
        Banks grant also what nobody asks for.
    ahead : str or None
        Input of the design (``banks_known_ahead``): the banks that are not willing in the next cycle, for reads and writes alike.
        Implies ``unasked``.

    Attributes
    ----------
    data : numpy.ndarray
        The bytes, random at first; may be changed between accesses.
    on_access : callable or None
        Called as ``on_access(kind, bank, row)`` with kind ``"read"`` or ``"write"`` for each granted access.
    on_refused : callable or None
        Called as ``on_refused(kind, banks)`` in each cycle in which not all requested banks are granted, with a mask of the others.
    """

    def __init__(self, dut, size, rng, *, read="read", write=None, grant_chance=0.7, one_write=False, one_read=False,
                 unasked=False, ahead=None):
        self.data = rng.integers(0, 256, size, np.uint8)
        self.grant_chance = grant_chance
        self.one_write, self.one_read = one_write, one_read
        self.on_access = self.on_refused = None
        self._dut, self._rng = dut, rng
        self._words = self.data.reshape(size // ROW_BYTES, BANKS, BANK_BYTES)
        self._reads = deque([{}] * (SHARED_READ_LATENCY - 1), SHARED_READ_LATENCY)
        self._ports = [(kind, _Port(dut, name)) for kind, name in (("read", read), ("write", write)) if name is not None]
        for kind, port in self._ports:
            port.grant.value = 0
            if not (unasked or ahead):
                cocotb.start_soon(self._serve(kind, port))
                cocotb.start_soon(self._follow(port))
        if unasked or ahead:
            cocotb.start_soon(self._serve_unasked(getattr(dut, ahead) if ahead else None))

    async def _serve(self, kind, port):
        """Accesses happen at the end of a cycle; then other banks are willing."""
        while True:
            await RisingEdge(self._dut.clk)
            self._end_cycle(kind, port, port.willing)
            port.willing = self._willing()
            self._grant(port)

    async def _follow(self, port):
        """Grants follow the requests within the cycle."""
        while True:
            await ValueChange(port.request)
            self._grant(port)

    @staticmethod
    def _grant(port):
        if port.request.value.is_resolvable:
            port.grant.value = int(port.request.value) & port.willing

    async def _serve_unasked(self, ahead):
        """The grants of a cycle stand from its beginning on."""
        willing, coming = dict.fromkeys(("read", "write"), 0), ALL
        while True:
            await RisingEdge(self._dut.clk)
            for kind, port in self._ports:
                self._end_cycle(kind, port, willing[kind])
                willing[kind] = coming if ahead is not None else self._willing()
                port.grant.value = willing[kind]
            if ahead is not None:
                coming = self._willing()
                ahead.value = coming ^ ALL

    def _willing(self):
        return int(np.packbits(self._rng.random(BANKS) < self.grant_chance, bitorder="little")[0])

    def _end_cycle(self, kind, port, willing):
        asked = 0 if self._dut.rst.value else int(port.request.value)
        if asked & ~willing and self.on_refused is not None:
            self.on_refused(kind, asked & ~willing)
        (self._read if kind == "read" else self._write)(port, asked & willing)

    @staticmethod
    def _check_alone(port, kind):
        asked = int(port.request.value) if port.request.value.is_resolvable else 0
        assert asked & (asked - 1) == 0, f"one bank must be asked for with one bus for {kind}, not {asked:#x}"

    def _read(self, port, granted):
        if self.one_read:
            self._check_alone(port, "reads")
        taken = {}
        for bank in _bits(granted):
            row = int(port.row[0 if self.one_read else bank].value)
            taken[bank] = int.from_bytes(self._words[row, bank].tobytes(), "little")
            self._tell("read", bank, row)
        self._reads.append(taken)
        words, others = self._reads[0], self._rng.bytes(BANKS * BANK_BYTES)
        for bank in range(BANKS):
            other = int.from_bytes(others[BANK_BYTES * bank:BANK_BYTES * (bank + 1)], "little")
            port.data[bank].value = words.get(bank, other)

    def _write(self, port, granted):
        if self.one_write:
            self._check_alone(port, "writes")
        for bank in _bits(granted):
            lines = 0 if self.one_write else bank
            row = int(port.row[lines].value)
            word = np.frombuffer(int(port.data[lines].value).to_bytes(BANK_BYTES, "little"), np.uint8)
            enabled = [bool(int(port.mask[lines].value) >> byte & 1) for byte in range(BANK_BYTES)]
            self._words[row, bank][enabled] = word[enabled]
            self._tell("write", bank, row)

    def _tell(self, kind, bank, row):
        if self.on_access is not None:
            self.on_access(kind, bank, row)


class BankRequester:
    """A requester, for designs with ``BankReadPort`` and ``BankWritePort`` inputs.

    Accesses of one bank happen in the order in which they were queued, those of different banks in any order. A request stays
    until it is granted; new ones start with chance ``request_chance`` a cycle.
    """

    def __init__(self, dut, rng, *, read=None, write=None, request_chance=0.7):
        self.request_chance = request_chance
        self.granted = 0            # accesses granted
        self._dut, self._rng = dut, rng
        self._queues = {"read": [deque() for _ in range(BANKS)], "write": [deque() for _ in range(BANKS)]}
        self._under_way = 0
        self._changed = Event()
        for kind, name in (("read", read), ("write", write)):
            if name is not None:
                cocotb.start_soon(self._drive(kind, _Port(dut, name)))

    def read(self, bank, row, on_data):
        """Queue a read; ``on_data(word)`` gets the word as an integer."""
        self._queues["read"][bank].append((row, on_data))
        self._under_way += 1

    def write(self, bank, row, word, mask=(1 << BANK_BYTES) - 1, on_grant=None):
        """Queue a write; ``on_grant()`` is called when it was granted."""
        self._queues["write"][bank].append((row, word, mask, on_grant))
        self._under_way += 1

    async def drained(self):
        """Wait until every access was granted and all data have come."""
        while self._under_way:
            self._changed.clear()
            await self._changed.wait()

    def _done(self):
        self._under_way -= 1
        self._changed.set()

    async def _drive(self, kind, port):
        queues = self._queues[kind]
        current = [None] * BANKS
        arriving = deque([[] for _ in range(SHARED_READ_LATENCY)], SHARED_READ_LATENCY)
        port.request.value = 0
        while True:
            await RisingEdge(self._dut.clk)
            for bank, on_data in arriving[0]:
                on_data(int(port.data[bank].value))
                self._done()
            arriving.append([])
            grant = 0 if self._dut.rst.value else int(port.grant.value)
            for bank in range(BANKS):
                if current[bank] is not None and grant >> bank & 1:
                    self.granted += 1
                    if kind == "read":
                        arriving[-1].append((bank, current[bank][1]))
                    else:
                        self._done()
                        if current[bank][3] is not None:
                            current[bank][3]()
                    current[bank] = None
                if current[bank] is None and queues[bank] and self._rng.random() < self.request_chance:
                    current[bank] = queues[bank].popleft()
                    self._offer(kind, port, bank, current[bank])
            port.request.value = sum(1 << bank for bank in range(BANKS) if current[bank] is not None)

    @staticmethod
    def _offer(kind, port, bank, access):
        port.row[bank].value = access[0]
        if kind == "write":
            port.data[bank].value = access[1]
            port.mask[bank].value = access[2]


def _bits(mask):
    return [bank for bank in range(BANKS) if mask >> bank & 1]
