"""Both ends of the ports of shared memory: a model of the memory, and a requester."""

from collections import deque

import cocotb
import numpy as np
from cocotb.triggers import Event, RisingEdge
from heddle.constants import BANK_BYTES, BANKS, ROW_BYTES
from heddle.interfaces.layouts import shared_answer_layout, shared_read_layout, shared_write_layout

from . import pause
from .payload import pack, unpack
from .stream import StreamHandles, StreamSource

__all__ = ["BankMemory", "BankRequester"]


class BankMemory:
    """Shared memory as a model, for designs with ``SharedReadPort`` and ``SharedWritePort`` outputs.

    Each port has a queue of the requests that it has accepted. Of the oldest one a random set of banks is served in a cycle, from the
    cycle of its transfer on or ``delay`` cycles later. Answers stand for the cycle after; in other cycles their payload is random.

    Parameters
    ----------
    dut
        Design; its ``clk`` and ``rst`` are used.
    cfg : Config
    rng : numpy.random.Generator
    read, write : str or None
        Names of the ports, None when the design has none.
    grant_chance : float
        Chance that a bank is willing in a cycle.
    delay : int
        Cycles from the transfer of a request to the first one in which it may be served, drawn for each from 0 to ``delay``.
    places : int
        Requests that a port accepts ahead; with 1 it behaves like ``SharedMemory``.

    Attributes
    ----------
    data : numpy.ndarray
        The bytes, random at first; may be changed between accesses.
    on_access : callable or None
        Called as ``on_access(kind, bank, row)`` with kind ``"read"`` or ``"write"`` for each access.
    on_refused : callable or None
        Called as ``on_refused(kind, banks)`` in each cycle in which not all banks of the oldest request are served, with a mask of the
        others.
    """

    def __init__(self, dut, cfg, rng, *, read="read", write=None, grant_chance=0.7, delay=0, places=1):
        self.data = rng.integers(0, 256, cfg.shared_bytes, np.uint8)
        self.grant_chance, self.delay, self.places = grant_chance, delay, places
        self.on_access = self.on_refused = None
        self._dut, self._rng = dut, rng
        self._words = self.data.reshape(cfg.shared_bytes // ROW_BYTES, BANKS, BANK_BYTES)
        if read is not None:
            cocotb.start_soon(self._serve_reads(read, shared_read_layout(cfg)))
        if write is not None:
            cocotb.start_soon(self._serve_writes(write, shared_write_layout(cfg)))

    async def _serve_reads(self, name, layout):
        request, answer = StreamHandles(self._dut, f"{name}__request", layout), StreamHandles(
            self._dut, f"{name}__answer", shared_answer_layout)
        async for served, fields, last in self._serve("read", request):
            words = bytearray(self._rng.bytes(ROW_BYTES))
            for bank in served:
                words[BANK_BYTES * bank:BANK_BYTES * (bank + 1)] = self._words[fields["row"][bank], bank].tobytes()
            banks = sum(1 << bank for bank in served) if served else int(self._rng.integers(1 << BANKS))
            answer.valid.value = int(bool(served))
            answer.payload.value = pack(shared_answer_layout, {"bank": banks, "last": int(last), "data": int.from_bytes(words, "little")})

    async def _serve_writes(self, name, layout):
        request, written = StreamHandles(self._dut, f"{name}__request", layout), getattr(self._dut, f"{name}__written")
        async for served, fields, last in self._serve("write", request):
            for bank in served:
                line = bank % len(fields["row"])
                word = np.frombuffer(fields["data"][line].to_bytes(BANK_BYTES, "little"), np.uint8)
                enabled = [bool(fields["mask"][line] >> byte & 1) for byte in range(BANK_BYTES)]
                self._words[fields["row"][line], bank][enabled] = word[enabled]
            written.value = int(last)

    async def _serve(self, kind, request):
        """For each cycle: banks that are served, the request that they belong to, and whether it has no further one."""
        queue = deque()     # fields, banks that remain, cycles to wait
        request.ready.value = 1
        while True:
            await RisingEdge(self._dut.clk)
            if self._dut.rst.value:
                queue.clear()
            elif request.is_valid() and request.is_ready():
                fields = unpack(request.shape, request.bits())
                banks = _bits(fields["bank"])
                assert banks, f"a {kind} request must have a bank"
                assert kind == "read" or len(fields["row"]) == BANKS or len(banks) == 1, f"one bank with one bus for writes, not {banks}"
                queue.append([fields, banks, int(self._rng.integers(self.delay + 1))])
            served, fields, last = [], None, False
            for entry in queue:
                entry[2] -= 1
            if queue and queue[0][2] < 0:
                fields, banks, _ = queue[0]
                willing = int(np.packbits(self._rng.random(BANKS) < self.grant_chance, bitorder="little")[0])
                served = [bank for bank in banks if willing >> bank & 1]
                queue[0][1] = refused = [bank for bank in banks if bank not in served]
                self._tell(kind, fields, served, refused)
                last = not refused
                if last:
                    queue.popleft()
            request.ready.value = int(len(queue) < self.places)
            yield served, fields, last

    def _tell(self, kind, fields, served, refused):
        if self.on_refused is not None and refused:
            self.on_refused(kind, sum(1 << bank for bank in refused))
        for bank in served if self.on_access is not None else ():
            self.on_access(kind, bank, fields["row"][bank % len(fields["row"])])


class BankRequester:
    """A requester, for designs with ``SharedReadPort`` and ``SharedWritePort`` inputs.

    Requests of a port happen in the order in which they were queued; in a cycle without one, the next starts with chance
    ``request_chance``.
    """

    def __init__(self, dut, cfg, rng, *, read=None, write=None, request_chance=0.7):
        self.count = 0              # requests that are over
        self._dut = dut
        self._reads, self._writes = deque(), deque()        # requests without all of their answers
        self._changed = Event()
        self._lines = cfg.shared_writes
        self._sources = {name: StreamSource(dut, f"{name}__request", layout, rng=rng, pause=pause.bernoulli(rng, 1 - request_chance))
                         for name, layout in ((read, shared_read_layout(cfg)), (write, shared_write_layout(cfg))) if name is not None}
        self._read, self._write = read, write
        cocotb.start_soon(self._receive())

    def read(self, rows, on_words):
        """Queue a read of ``rows`` (bank to row); ``on_words(words)`` gets bank to word as an integer."""
        self._reads.append((set(rows), {}, on_words))
        self._sources[self._read].put({"bank": sum(1 << bank for bank in rows), "row": [rows.get(bank, 0) for bank in range(BANKS)]})

    def write(self, words, on_written=None):
        """Queue a write of ``words`` (bank to row, word, mask); ``on_written()`` is called with its acknowledgement."""
        self._writes.append(on_written)
        lines = [words.get(bank, (0, 0, 0)) for bank in range(BANKS)] if self._lines == BANKS else list(words.values())
        self._sources[self._write].put({
            "bank": sum(1 << bank for bank in words),
            **{name: [line[place] for line in lines] for place, name in enumerate(("row", "data", "mask"))}})

    def forget(self):
        """Drop all requests; during reset."""
        self._reads.clear()
        self._writes.clear()
        for source in self._sources.values():
            source.forget()
        self._changed.set()

    async def drained(self):
        """Wait until every request is over."""
        while self._reads or self._writes:
            self._changed.clear()
            await self._changed.wait()

    def _over(self):
        self.count += 1
        self._changed.set()

    async def _receive(self):
        answer = StreamHandles(self._dut, f"{self._read}__answer", shared_answer_layout) if self._read else None
        while True:
            await RisingEdge(self._dut.clk)
            if self._dut.rst.value:
                continue
            if answer and answer.is_valid():
                fields = answer.value()
                banks, words, on_words = self._reads[0]
                came = set(_bits(fields["bank"]))
                assert came and came <= banks - words.keys(), f"banks {came} answer, {banks - words.keys()} were asked for"
                words.update((bank, fields["data"][bank]) for bank in came)
                assert bool(fields["last"]) == (words.keys() == banks), f"last {fields['last']} with {words.keys()} of {banks}"
                if fields["last"]:
                    self._reads.popleft()
                    on_words(words)
                    self._over()
            if self._write and getattr(self._dut, f"{self._write}__written").value:
                assert self._writes, "acknowledgement without a write"
                on_written = self._writes.popleft()
                if on_written is not None:
                    on_written()
                self._over()


def _bits(mask):
    return [bank for bank in range(BANKS) if mask >> bank & 1]
