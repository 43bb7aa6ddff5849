"""Global memory as a model, behind a client's ``GlobalPort``."""

from collections import defaultdict, deque

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from heddle.interfaces.layouts import read_data_layout, read_request_layout, write_data_layout, write_request_layout, write_response_layout
from heddle.isa.encoding import Reduction
from heddle_sim.golden.reductions import reduce_elements

from .pause import bursty
from .stream import StreamSink, StreamSource

__all__ = ["GlobalMemory"]

PAGE = 4096


class GlobalMemory:
    """Serves the five streams of a ``GlobalPort`` of the design, or its two streams of reads.

    Every beat of an answer becomes ready after a random latency of its request. Answers of different tags come in any order,
    beats interleaved; answers of one tag in the order of its requests. A burst fails the test when it leaves its 4 KiB page, is not
    aligned to a beat or lies outside the memory. Addresses in an error range are exempt. Memory changes when the response is taken.
    Writes with a ``reduction`` combine their bytes with memory; a ``prefetch`` has no answer.

    Parameters
    ----------
    dut, name
        Design and name of the port; "" for streams of the design itself.
    cfg : heddle.Config
    tag_bits : int
    rng : numpy.random.Generator
    size : int
        Bytes of the memory, from address 0.
    latency : (int, int)
        Least and greatest latency in cycles. With (0, 0) the response of a write comes in the cycle after its last beat.
    errors : iterable of range
        Byte addresses whose beats are answered with ``error``; writes to them do nothing. Any object that knows ``in`` serves for a range.
    ahead : int
        Beats of read data, and write responses, that may wait to be offered: 2 for one a cycle.
    pause : callable or dict of str to callable
        Called as ``pause(rng)`` for the pattern of each stream; a dictionary has one for each stream by its name.
    in_order : bool
        Of the tags whose answer is ready the one that was asked first is answered.
    writes : bool
        False for designs that only read.

    Attributes
    ----------
    data : numpy.ndarray
        The bytes, random at first.
    reads, writes : list of (address, beats, tag)
        Requests in the order in which they were taken.
    on_item : callable or None
        Called as ``on_item(stream, item)`` for each transfer.
    """

    def __init__(self, dut, name, cfg, tag_bits, rng, *, size=1 << 16, latency=(1, 30), errors=(), ahead=1, pause=bursty,
                 in_order=False, writes=True):
        self.data = rng.integers(0, 256, size, np.uint8)
        self.errors = list(errors)
        self.reads, self.writes = [], []
        self.on_item = None
        self._dut, self._cfg, self._rng, self._latency = dut, cfg, rng, latency
        self._cycle, self._ahead, self._in_order = 0, ahead, in_order
        self._read_jobs, self._responses = defaultdict(deque), defaultdict(deque)      # by tag; the tag that was asked first is first
        self._open, self._beats, self._answered = deque(), deque(), deque()

        def agent(kind, stream, shape, on_item=lambda item: None, **options):
            def tell(item):
                on_item(item)
                if self.on_item is not None:
                    self.on_item(stream, item)
            chosen = pause[stream] if isinstance(pause, dict) else pause
            return kind(dut, f"{name}__{stream}" if name else stream, shape, pause=chosen(rng), on_item=tell, **options)

        agent(StreamSink, "read_request", read_request_layout(cfg, tag_bits), self._take_read)
        if writes:
            agent(StreamSink, "write_request", write_request_layout(cfg, tag_bits), self._take_write)
            agent(StreamSink, "write_data", write_data_layout(cfg), self._take_data)
        self._read_data = agent(StreamSource, "read_data", read_data_layout(cfg, tag_bits), rng=rng)
        self._write_response = None
        if writes:
            self._write_response = agent(StreamSource, "write_response", write_response_layout(tag_bits), self._commit, rng=rng)
        cocotb.start_soon(self._run())

    @property
    def idle(self):
        """No request waits for data or answers."""
        return not (self._read_jobs or self._responses or self._open or self._beats or self._read_data.queue
                    or (self._write_response and self._write_response.queue))

    def forget(self):
        """Drop all requests, data and answers; during reset."""
        for queue in (self._read_jobs, self._responses, self._open, self._beats, self._answered):
            queue.clear()
        self._read_data.forget()
        if self._write_response:
            self._write_response.forget()

    def _due(self):
        return self._cycle + int(self._rng.integers(self._latency[0], self._latency[1] + 1))

    def _fails(self, address):
        return any(address + byte in bad for bad in self.errors for byte in (0, self._cfg.axi_bytes - 1))

    def _check(self, request, kind):
        address, beats, width = request["address"], request["beats_minus_one"] + 1, self._cfg.axi_bytes
        assert address % width == 0, f"{kind} address must be a multiple of {width}, not {address:#x}"
        last = address + beats * width - 1
        assert address // PAGE == last // PAGE, f"{kind} of {beats} beats at {address:#x} must stay in its 4 KiB page"
        assert last < len(self.data) or self._fails(address), f"{kind} must end below {len(self.data):#x}, not at {last:#x}"
        return address, beats, request["tag"]

    def _take_read(self, request):
        address, beats, tag = self._check(request, "read")
        self.reads.append((address, beats, tag))
        if request.get("prefetch"):
            return
        for beat in range(beats):
            self._read_jobs[tag].append((self._due(), address + beat * self._cfg.axi_bytes, beat == beats - 1))

    def _take_write(self, request):
        self.writes.append(self._check(request, "write"))
        self._open.append(request)

    def _take_data(self, beat):
        self._beats.append(beat)
        if self._latency == (0, 0):     # before its source takes its step of this cycle
            self._collect_writes()
            self._answer_write()

    def _collect_writes(self):
        """Bursts whose data are complete become answers with a latency."""
        while self._open and len(self._beats) > self._open[0]["beats_minus_one"]:
            request = self._open.popleft()
            beats = request["beats_minus_one"] + 1
            data = [self._beats.popleft() for _ in range(beats)]
            last = [bool(beat["last"]) for beat in data]
            assert last == [False] * (beats - 1) + [True], f"last must mark beat {beats} of {request['address']:#x}"
            self._responses[request["tag"]].append((self._due(), request, data))

    def _commit(self, response):
        """Write the data of the oldest burst that has a response, but where it fails."""
        request, data = self._answered.popleft()
        reduction = Reduction(request.get("reduction", Reduction.NONE))
        for start, beat in zip(self._starts(request), data, strict=True):
            if self._fails(start):
                continue
            value = np.frombuffer(beat["data"].to_bytes(self._cfg.axi_bytes, "little"), np.uint8)
            enabled = np.unpackbits(np.frombuffer(beat["strobe"].to_bytes(-(-self._cfg.axi_bytes // 8), "little"), np.uint8),
                                    count=self._cfg.axi_bytes, bitorder="little").astype(bool)
            place = self.data[start:start + self._cfg.axi_bytes]
            place[enabled] = value[enabled] if reduction == Reduction.NONE else reduce_elements(
                reduction, request["format"], place[enabled], value[enabled])

    def _starts(self, request):
        """Addresses of the beats."""
        return range(request["address"], request["address"] + (request["beats_minus_one"] + 1) * self._cfg.axi_bytes, self._cfg.axi_bytes)

    def _next(self, jobs):
        """Tag and head of a queue of ``jobs`` that is due, which leaves it; None when none is due."""
        tags = [tag for tag, queue in jobs.items() if queue[0][0] <= self._cycle]
        if not tags:
            return None
        tag = tags[0] if self._in_order else tags[int(self._rng.integers(len(tags)))]
        job = jobs[tag].popleft()
        if not jobs[tag]:
            del jobs[tag]
        return tag, job

    async def _run(self):
        while True:
            await RisingEdge(self._dut.clk)
            self._cycle += 1
            self._collect_writes()
            if len(self._read_data.queue) < self._ahead and (answer := self._next(self._read_jobs)) is not None:
                tag, (_, address, last) = answer
                error = self._fails(address)
                data = 0 if error else int.from_bytes(self.data[address:address + self._cfg.axi_bytes].tobytes(), "little")
                self._read_data.put({"data": data, "tag": tag, "last": last, "error": error})
            if self._write_response:
                self._answer_write()

    def _answer_write(self):
        """Queue a response that is due."""
        if len(self._write_response.queue) < self._ahead and (answer := self._next(self._responses)) is not None:
            tag, (_, request, data) = answer
            self._answered.append((request, data))
            self._write_response.put({"tag": tag, "error": any(map(self._fails, self._starts(request)))})
