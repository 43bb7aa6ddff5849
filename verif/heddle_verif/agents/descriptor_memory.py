"""Memory from which descriptors are fetched, behind the streams ``read_request`` and ``read_data`` of a design."""

import cocotb
from cocotb.triggers import RisingEdge
from heddle.interfaces.layouts import read_data_layout, read_request_layout

from .stream import StreamSink, StreamSource

__all__ = ["DescriptorMemory"]


class DescriptorMemory:
    """Answers halves of descriptors in any order, beat by beat in turns; ``pause()`` makes the pattern of each of both streams.

    Attributes
    ----------
    memory : uint8 array
    errors : set of int
        Addresses of halves that are answered with an error.
    asked : list of int
        Addresses in the order of the requests.
    cycle : int
        Since ``start``.
    """

    def __init__(self, dut, cfg, rng, memory, latency, pause):
        self.memory, self.errors, self.asked, self.cycle = memory, set(), [], 0
        self._dut, self._cfg, self._rng, self._latency = dut, cfg, rng, latency
        StreamSink(dut, "read_request", read_request_layout(cfg, 1), pause=pause(), on_item=self._take)
        self._answers = StreamSource(dut, "read_data", read_data_layout(cfg, 1), rng=rng, pause=pause())
        self._jobs = {0: [], 1: []}

    def start(self):
        cocotb.start_soon(self._answer())

    def _take(self, request):
        beats = request["beats_minus_one"] + 1
        assert beats * self._cfg.axi_bytes == 64 and request["address"] % 64 == 0
        self.asked.append(request["address"])
        due = self.cycle + int(self._rng.integers(*self._latency, endpoint=True))
        for beat in range(beats):
            due += int(self._rng.integers(0, 3))
            self._jobs[request["tag"]].append((due, request["address"] + beat * self._cfg.axi_bytes, beat == beats - 1))

    async def _answer(self):
        while True:
            await RisingEdge(self._dut.clk)
            self.cycle += 1
            ready = [tag for tag, jobs in self._jobs.items() if jobs and jobs[0][0] <= self.cycle]
            if ready and not self._answers.queue:
                tag = ready[int(self._rng.integers(len(ready)))]
                _, address, last = self._jobs[tag].pop(0)
                beat = int.from_bytes(self.memory[address:address + self._cfg.axi_bytes].tobytes(), "little")
                self._answers.put({"data": beat, "tag": tag, "last": int(last), "error": int(address // 64 * 64 in self.errors)})
