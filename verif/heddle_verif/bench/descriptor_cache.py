"""Bench of the descriptor cache, against a memory whose contents change."""

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from heddle.isa.tensor_descriptor import descriptor_layout
from heddle.tmau.descriptor_cache import DescriptorCache
from heddle_sim.toolchain.cocotb_runner import bench_config, bench_parameters

from ..agents.descriptor_memory import DescriptorMemory
from ..agents.pause import PATTERNS, none, pattern
from ..agents.payload import pack
from ..agents.stream import StreamSink, StreamSource

SIZE = 1 << 13


class Bench:
    """Requests with numbers, and a memory of descriptors."""

    def __init__(self, dut, rng, latency=(1, 30), source=none, sink=none):
        self.dut, self.cfg = dut, bench_config()
        self.entries = bench_parameters()["entries"]
        ports = DescriptorCache(self.cfg, 16, self.entries)
        self.server = DescriptorMemory(dut, self.cfg, rng, rng.integers(0, 256, SIZE, np.uint8), latency, sink)
        self.memory, self.asked = self.server.memory, self.server.asked
        self.source = StreamSource(dut, "i", ports.i.payload.shape(), rng=rng, pause=source())
        self.sink = StreamSink(dut, "o", ports.o.payload.shape(), pause=sink())
        dut.invalidate.value = 0
        dut.invalidate_address.value = 0

    async def start(self):
        Clock(self.dut.clk, 10, unit="ns").start()
        self.dut.rst.value = 1
        await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0
        self.server.start()

    def contents(self, address):
        return int.from_bytes(self.memory[address:address + 128].tobytes(), "little")

    async def invalidate(self, address):
        self.dut.invalidate_address.value = address
        self.dut.invalidate.value = 1
        await RisingEdge(self.dut.clk)
        self.dut.invalidate.value = 0

    async def request(self, *addresses):
        """Sends requests and returns what comes for them."""
        self.source.put(*({"address": address, "request": number} for number, address in enumerate(addresses)))
        items = []
        for _ in range(4000):
            await RisingEdge(self.dut.clk)
            if self.sink.count and len(self.sink.received) == len(addresses):
                items, self.sink.received[:] = self.sink.received[:], []
                break
        assert len(items) == len(addresses), "requests must come out"
        for number, (item, address) in enumerate(zip(items, addresses)):
            assert (item["request"], item["address"]) == (number, address)
        return items


def word(item):
    """The descriptor as a number."""
    return item["descriptor"] if isinstance(item["descriptor"], int) else pack(descriptor_layout, item["descriptor"])


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(source=["none", "bursty"], sink=PATTERNS)
async def descriptors_are_joined_in_order(dut, source, sink):
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng, source=lambda: pattern(source, rng), sink=lambda: pattern(sink, rng))
    await bench.start()
    addresses = [64 * int(number) for number in rng.integers(0, SIZE // 64 - 1, 3 * bench.entries)]
    chosen = [addresses[int(number)] for number in rng.integers(0, len(addresses), 80)]
    for item, address in zip(await bench.request(*chosen), chosen):
        assert mask(word(item)) == mask(bench.contents(address)) and not item["error"]
    assert len(bench.asked) % 2 == 0 and len(bench.asked) < 2 * len(chosen)


def mask(value):
    """The bits that fields of the layout name."""
    bits = sum(((1 << field.width) - 1) << field.offset for _, field in descriptor_layout)
    return value & bits


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def a_hit_reads_no_memory(dut):
    bench = Bench(dut, np.random.default_rng(cocotb.RANDOM_SEED))
    await bench.start()
    addresses = [192 * number for number in range(bench.entries)]
    await bench.request(*addresses)
    assert len(bench.asked) == 2 * bench.entries
    before = bench.contents(0)
    bench.memory[:] ^= 0xFF     # the cache does not notice
    start = bench.server.cycle
    items = await bench.request(*addresses * 5)
    assert bench.server.cycle - start <= 5 * bench.entries + 4, "a hit takes one cycle"
    assert len(bench.asked) == 2 * bench.entries
    assert mask(word(items[0])) == mask(before)


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def invalidated_descriptors_are_fetched_again(dut):
    bench = Bench(dut, np.random.default_rng(cocotb.RANDOM_SEED), latency=(20, 20))
    await bench.start()
    await bench.request(64, 256)
    bench.memory[:] ^= 0xFF
    await bench.invalidate(64)
    items = await bench.request(64, 256)
    assert mask(word(items[0])) == mask(bench.contents(64)) and mask(word(items[1])) != mask(bench.contents(256))
    # An address that is invalidated while it is fetched is fetched again for the next request.
    asked = len(bench.asked)
    waiting = cocotb.start_soon(bench.request(1024))
    await ClockCycles(dut.clk, 10)
    await bench.invalidate(1024)
    await waiting
    assert len(bench.asked) == asked + 2
    await bench.request(1024)
    assert len(bench.asked) == asked + 4
    await bench.request(1024)
    assert len(bench.asked) == asked + 4


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def errors_and_illegal_addresses(dut):
    bench = Bench(dut, np.random.default_rng(cocotb.RANDOM_SEED))
    await bench.start()
    bench.server.errors = {192}
    illegal = 1 << bench.cfg.axi_address_bits if bench.cfg.axi_address_bits < 32 else 68
    items = await bench.request(192, 128, 320, illegal, 33, 320, 192)
    assert [item["error"] for item in items] == [1, 1, 0, 0, 0, 0, 1]
    assert len(bench.asked) == 8, "what failed is not kept, and illegal addresses are not read"


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def the_next_descriptor_is_fetched_ahead(dut):
    """While a request waits at ``o``, the descriptor of the next one comes."""
    bench = Bench(dut, np.random.default_rng(cocotb.RANDOM_SEED), latency=(40, 40))
    await bench.start()
    bench.sink.pause.step = lambda other: True
    bench.source.put({"address": 0, "request": 1}, {"address": 640, "request": 2})
    await ClockCycles(dut.clk, 250)
    assert bench.asked == [0, 64, 640, 704] and not bench.sink.received
    bench.sink.pause.step = lambda other: False
    await ClockCycles(dut.clk, 6)
    assert [mask(word(item)) for item in bench.sink.received] == [mask(bench.contents(address)) for address in (0, 640)]
