"""Bench of the descriptor cache, against a memory whose contents change."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge
from heddle.isa.tensor_descriptor import descriptor_layout
from heddle.tmau.descriptor_cache import DescriptorCache
from heddle_sim.toolchain.cocotb_process import bench_config, bench_parameters

from ..agents.descriptor_memory import DescriptorMemory
from ..agents.pause import PATTERNS, always, none, pattern
from ..agents.payload import pack
from ..checkers.scoreboard import Scoreboard
from ..fixture import Bench

SIZE = 1 << 13


class CacheBench(Bench):
    """Requests with numbers, and a memory of descriptors; ``pause`` of ``i``, ``sink_pause`` of ``o`` and of both streams of memory."""

    def __init__(self, dut, latency=(1, 30), source_pause="none", sink_pause="none"):
        self.entries = bench_parameters()["entries"]
        self.unit = DescriptorCache(bench_config(), 16, self.entries)
        super().__init__(dut, self.unit)
        self.latency, self.source_pause, self.sink_pause = latency, source_pause, sink_pause

    async def start(self):
        await super().start()
        contents = self.rng.integers(0, 256, SIZE, "uint8")
        self.server = DescriptorMemory(self.dut, self.cfg, self.rng, contents, self.latency, lambda: pattern(self.sink_pause, self.rng))
        self.memory, self.asked = self.server.memory, self.server.asked
        self.requests = self.source("i", self.unit.i.payload.shape(), pause=self.source_pause)
        self.results = self.sink("o", self.unit.o.payload.shape(), pause=self.sink_pause)
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
        scoreboard = Scoreboard("requests", strict=True)
        for number, address in enumerate(addresses):
            scoreboard.expect((number, address))
            self.requests.put({"address": address, "request": number})
        await self.until(lambda: len(self.results.received) >= len(addresses), 200 * len(addresses) + 4000,
                         f"{len(addresses)} requests must come out")
        items, self.results.received[:] = self.results.received[:], []
        scoreboard.observe(*((item["request"], item["address"]) for item in items))
        scoreboard.finish(len(addresses))
        return items


def word(item):
    """The descriptor as a number."""
    return item["descriptor"] if isinstance(item["descriptor"], int) else pack(descriptor_layout, item["descriptor"])


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(source=["none", "bursty"], sink=PATTERNS)
async def descriptors_are_joined_in_order(dut, source, sink):
    bench = CacheBench(dut, source_pause=source, sink_pause=sink)
    await bench.start()
    addresses = [64 * int(number) for number in bench.rng.integers(0, SIZE // 64 - 1, 3 * bench.entries)]
    chosen = [addresses[int(number)] for number in bench.rng.integers(0, len(addresses), 80)]
    for item, address in zip(await bench.request(*chosen), chosen):
        assert mask(word(item)) == mask(bench.contents(address)) and not item["error"]
    assert len(bench.asked) % 2 == 0 and len(bench.asked) < 2 * len(chosen)
    bench.finish()


def mask(value):
    """The bits that fields of the layout name."""
    bits = sum(((1 << field.width) - 1) << field.offset for _, field in descriptor_layout)
    return value & bits


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def a_hit_reads_no_memory(dut):
    bench = CacheBench(dut)
    await bench.start()
    addresses = [192 * number for number in range(bench.entries)]
    await bench.request(*addresses)
    assert len(bench.asked) == 2 * bench.entries
    before = bench.contents(0)
    bench.memory[:] ^= 0xFF     # the cache does not notice
    start = bench.cycle
    items = await bench.request(*addresses * 5)
    assert bench.cycle - start <= 5 * bench.entries + 4, "a hit takes one cycle"
    assert len(bench.asked) == 2 * bench.entries
    assert mask(word(items[0])) == mask(before)
    bench.finish()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def invalidated_descriptors_are_fetched_again(dut):
    bench = CacheBench(dut, latency=(20, 20))
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
    bench.finish()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def errors_and_illegal_addresses(dut):
    bench = CacheBench(dut)
    await bench.start()
    bench.server.errors = {192}
    illegal = 1 << bench.cfg.axi_address_bits if bench.cfg.axi_address_bits < 32 else 68
    items = await bench.request(192, 128, 320, illegal, 33, 320, 192)
    assert [item["error"] for item in items] == [1, 1, 0, 0, 0, 0, 1]
    assert len(bench.asked) == 8, "what failed is not kept, and illegal addresses are not read"
    bench.finish()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def the_next_descriptor_is_fetched_ahead(dut):
    """While a request waits at ``o``, the descriptor of the next one comes."""
    bench = CacheBench(dut, latency=(40, 40))
    await bench.start()
    bench.results.pause = always()
    bench.requests.put({"address": 0, "request": 1}, {"address": 640, "request": 2})
    await ClockCycles(dut.clk, 250)
    assert bench.asked == [0, 64, 640, 704] and not bench.results.received
    bench.results.pause = none()
    await ClockCycles(dut.clk, 6)
    assert [mask(word(item)) for item in bench.results.received] == [mask(bench.contents(address)) for address in (0, 640)]
    bench.finish()
