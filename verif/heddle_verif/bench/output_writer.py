"""Bench of ``OutputWriter``: contents of memory, acknowledgements and cycles, with a memory of any latency."""

import cocotb
from cocotb.triggers import RisingEdge
from heddle.constants import BANK_BYTES
from heddle.rnn.layouts import tail_output_layout
from heddle.rnn.output_writer import UNACKNOWLEDGED, OutputWriter
from heddle_sim.toolchain.cocotb_process import bench_config

from ..agents.banks import BankMemory
from ..fixture import Bench


class WriterBench(Bench):
    """Items at random places; what memory must hold. ``options`` are those of ``BankMemory``."""

    def __init__(self, dut, pause="bursty", **options):
        super().__init__(dut, OutputWriter(bench_config()))
        self.memory = BankMemory(dut, self.cfg, self.rng, read=None, write="bank", **options)
        self.expected = self.memory.data.copy()
        self.source = self.source("i", tail_output_layout(self.cfg), pause=pause, on_item=self._taken)
        self.bytes = 2 * self.cfg.tail_lanes
        self.unit = min(self.bytes, BANK_BYTES)             # addresses are multiples of it
        self.requests = 2 if self.bytes > BANK_BYTES and self.cfg.shared_writes == 1 else 1     # of an item
        self.missing = self.most = 0        # requests without acknowledgement
        self.fault = None
        cocotb.start_soon(self._watch())

    def put(self, address):
        """Queue an item of random elements."""
        elements = [int(value) for value in self.rng.integers(1 << 16, size=self.cfg.tail_lanes)]
        self.source.put({"address": address, "elements": elements})

    def _taken(self, item):
        address, data = item["address"], b"".join(value.to_bytes(2, "little") for value in item["elements"])
        if address + self.bytes <= len(self.expected):
            self.expected[address:address + self.bytes] = list(data)
        elif self.fault is None:
            self.fault = address

    async def _watch(self):
        """Acknowledgements of every cycle."""
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value:
                self.missing = 0
                continue
            self.missing -= int(dut.bank__written.value)
            assert self.missing >= 0 and bool(dut.busy.value) == (self.missing > 0), f"busy with {self.missing} requests"
            self.missing += int(dut.bank__request__valid.value and dut.bank__request__ready.value)
            self.most = max(self.most, self.missing)

    async def settled(self):
        """Wait until all items are in memory, and compare it."""
        await self.source.drained()
        await RisingEdge(self.dut.clk)
        while self.dut.busy.value:
            await RisingEdge(self.dut.clk)
        assert (self.memory.data == self.expected).all()

    def place(self):
        """An address in memory; some are near each other, some last in their row."""
        size = len(self.expected) - self.bytes
        last_of_row = 112 + 128 * self.rng.integers(size // 128)
        address = int(self.rng.choice([self.rng.integers(size + 1), self.rng.integers(256), last_of_row, size]))
        return address // self.unit * self.unit


@cocotb.test(timeout_time=500, timeout_unit="us")
@cocotb.parametrize(memory=[(1.0, 0, 1), (0.3, 0, 1), (0.7, 9, 8), (1.0, 30, 30)], pause=["none", "bursty"])
async def items(dut, memory, pause):
    """Items in memory, in order; never more requests without acknowledgement than are counted."""
    bench = WriterBench(dut, pause, **dict(zip(("grant_chance", "delay", "places"), memory)))
    await bench.start()
    for _ in range(10):
        for _ in range(20):
            bench.put(bench.place())
        await bench.settled()
    bench.finish()
    assert bench.most <= UNACKNOWLEDGED and (bench.most == UNACKNOWLEDGED or memory[1] < 30), bench.most
    assert not dut.fault.value


@cocotb.test(timeout_time=100, timeout_unit="us")
async def pace(dut):
    """At the least latency of memory a request a cycle; busy ends with the acknowledgement, one cycle after the last transfer."""
    bench = WriterBench(dut, "none", grant_chance=1.0)
    await bench.start()
    begin = bench.cycle
    for _ in range(40):
        bench.put(bench.place())
    await bench.settled()
    bench.finish()
    assert bench.cycle - begin == 40 * bench.requests + 2 and bench.most == 1, (bench.cycle - begin, bench.most)


@cocotb.test(timeout_time=400, timeout_unit="us")
async def outside(dut):
    """Items beyond memory are dropped; the address of the first stands until ``stop``; none is requested."""
    bench = WriterBench(dut, delay=5, places=4)
    await bench.start()
    size = len(bench.expected)
    ends = [size - bench.bytes + bench.unit * number for number in range(1, bench.bytes // bench.unit + 1)]
    ends += [size + (1 << bit) - bench.bytes for bit in range(bench.bytes.bit_length(), 20)]
    for address in (*ends, size, (1 << 20) - bench.unit):
        for place in (bench.place(), address, size, bench.place()):
            bench.put(place)
        await bench.settled()
        assert bench.fault == address and dut.fault.value and int(dut.fault_value.value) == address
        dut.stop.value = 1
        await RisingEdge(dut.clk)
        dut.stop.value = 0
        await bench.cycles(2)
        assert not dut.fault.value
        bench.fault = None
    bench.finish()


@cocotb.test(timeout_time=200, timeout_unit="us")
async def reset_under_way(dut):
    """A reset forgets requests without acknowledgement and the first half of an item."""
    bench = WriterBench(dut, "none", delay=20, places=20)
    await bench.start()
    for length in range(1, 12):
        for _ in range(10):
            bench.put(bench.place())
        await bench.cycles(length)
        await bench.restart(bench.source)
        bench.expected[:] = bench.memory.data
        assert not dut.busy.value
        bench.put(bench.place())
        await bench.settled()
    bench.finish()
