"""Global memory as a model, behind a client's ``GlobalPort``."""

from collections import defaultdict, deque

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from heddle.interfaces.layouts import read_data_layout, read_request_layout, write_data_layout, write_request_layout, write_response_layout

from .pause import bursty
from .stream import StreamSink, StreamSource

__all__ = ["GlobalMemory"]

PAGE = 4096


class GlobalMemory:
    """Serves the five streams of a ``GlobalPort`` of the design.

    Every beat of an answer becomes ready after a random latency of its request. Answers of different tags come in any order,
    beats interleaved; answers of one tag in the order of its requests. A burst that leaves its 4 KiB page, is not aligned to a
    beat or lies outside the memory fails the test, unless its address is in an error range. Reads see writes that were answered.

    Parameters
    ----------
    dut, name
        Design and name of the port.
    cfg : heddle.Config
    tag_bits : int
    rng : numpy.random.Generator
    size : int
        Bytes of the memory, from address 0.
    latency : (int, int)
        Least and greatest latency in cycles.
    errors : iterable of range
        Byte addresses whose beats are answered with ``error``; writes to them do nothing.
    ahead : int
        Beats of answers that may wait to be offered: 2 for a beat a cycle.
    pause : callable
        Called as ``pause(rng)`` for the pattern of each stream.

    Attributes
    ----------
    data : numpy.ndarray
        The bytes, random at first.
    reads, writes : list of (address, beats, tag)
        Requests in the order in which they were taken.
    """

    def __init__(self, dut, name, cfg, tag_bits, rng, *, size=1 << 16, latency=(1, 30), errors=(), ahead=1, pause=bursty):
        self.data = rng.integers(0, 256, size, np.uint8)
        self.errors = list(errors)
        self.reads, self.writes = [], []
        self._dut, self._cfg, self._rng, self._latency = dut, cfg, rng, latency
        self._cycle, self._ahead = 0, ahead
        self._read_jobs, self._write_jobs = defaultdict(deque), deque()
        self._responses = defaultdict(deque)
        self._open, self._beats = deque(), deque()

        def sink(stream, shape, on_item):
            return StreamSink(dut, f"{name}__{stream}", shape, pause=pause(rng), on_item=on_item)

        def source(stream, shape):
            return StreamSource(dut, f"{name}__{stream}", shape, rng=rng, pause=pause(rng))

        self._sinks = [sink("read_request", read_request_layout(cfg, tag_bits), self._take_read),
                       sink("write_request", write_request_layout(cfg, tag_bits), self._take_write),
                       sink("write_data", write_data_layout(cfg), self._beats.append)]
        self._read_data = source("read_data", read_data_layout(cfg, tag_bits))
        self._write_response = source("write_response", write_response_layout(tag_bits))
        cocotb.start_soon(self._run())

    @property
    def idle(self):
        """No request waits for data or answers."""
        return not (any(self._read_jobs.values()) or any(self._responses.values()) or self._open or self._beats
                    or self._read_data.queue or self._write_response.queue)

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
        for beat in range(beats):
            self._read_jobs[tag].append((self._due(), address + beat * self._cfg.axi_bytes, beat == beats - 1))

    def _take_write(self, request):
        burst = self._check(request, "write")
        self.writes.append(burst)
        self._open.append(burst)

    def _collect_writes(self):
        """Bursts whose data are complete become answers with a latency; memory changes with the answer."""
        while self._open and len(self._beats) >= self._open[0][1]:
            address, beats, tag = self._open.popleft()
            data = [self._beats.popleft() for _ in range(beats)]
            assert [bool(beat["last"]) for beat in data] == [False] * (beats - 1) + [True], f"last must mark beat {beats} of {address:#x}"
            self._responses[tag].append((self._due(), address, data))

    def _store(self, address, data):
        error = False
        for index, beat in enumerate(data):
            start = address + index * self._cfg.axi_bytes
            if self._fails(start):
                error = True
                continue
            value = np.frombuffer(beat["data"].to_bytes(self._cfg.axi_bytes, "little"), np.uint8)
            enabled = np.array([beat["strobe"] >> byte & 1 for byte in range(self._cfg.axi_bytes)], bool)
            self.data[start:start + self._cfg.axi_bytes][enabled] = value[enabled]
        return error

    def _ready_tag(self, jobs):
        tags = [tag for tag, queue in jobs.items() if queue and queue[0][0] <= self._cycle]
        return None if not tags else tags[int(self._rng.integers(len(tags)))]

    async def _run(self):
        while True:
            await RisingEdge(self._dut.clk)
            self._cycle += 1
            self._collect_writes()
            tag = self._ready_tag(self._read_jobs)
            if tag is not None and len(self._read_data.queue) < self._ahead:
                _, address, last = self._read_jobs[tag].popleft()
                error = self._fails(address)
                data = 0 if error else int.from_bytes(self.data[address:address + self._cfg.axi_bytes].tobytes(), "little")
                self._read_data.put({"data": data, "tag": tag, "last": last, "error": error})
            tag = self._ready_tag(self._responses)
            if tag is not None and not self._write_response.queue:
                _, address, data = self._responses[tag].popleft()
                self._write_response.put({"tag": tag, "error": self._store(address, data)})
