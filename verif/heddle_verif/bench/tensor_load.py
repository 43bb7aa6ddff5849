"""Bench of the load engine with bursts that lie outside a tensor, in part or as a whole."""

from functools import partial

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, RisingEdge
from heddle.constants import BANK_BYTES
from heddle.interfaces.layouts import barrier_arrival_layout, error_layout
from heddle.isa.encoding import Swizzle
from heddle.isa.tensor_descriptor import FILL_NAN, Fill
from heddle.tmau.layouts import burst_layout, unit_bytes, units_per_beat
from heddle.tmau.load_engine import LoadEngine
from heddle_sim.golden.block_copy import swizzled
from heddle_sim.toolchain.cocotb_process import bench_config

from ..agents.banks import BankMemory
from ..agents.global_memory import GlobalMemory
from ..agents.pause import PATTERNS, pattern
from ..duts.multicast_loop import LoopedLoad
from ..fixture import Bench
from ..stimulus.shared_memories import SHARED

MEMORY = 1 << 14
LINE_BLOCKS = 8
FILLS = {Fill.ZERO: b"\0", Fill.NAN: FILL_NAN.to_bytes(2, "little")}


def component(cfg):
    """The design: with multicast one whose beats come back to it."""
    return LoopedLoad(cfg) if cfg.multicast else LoadEngine(cfg)


class LoadBench(Bench):
    """Memory that answers in any order of the tags, shared memory as one of ``SHARED``, and the bytes that must be written."""

    def __init__(self, dut, pause, shared):
        super().__init__(dut, component(bench_config()))
        self.pause, self.shared = pause, SHARED[shared]
        self.open_tags = set()
        self.completed = self.sent = self.arrived = 0

    async def start(self):
        await super().start()
        cfg = self.cfg
        self.memory = GlobalMemory(self.dut, "", cfg, cfg.tag_bits, self.rng, size=MEMORY, ahead=2, pause=partial(pattern, self.pause),
                                   writes=False)
        self.memory.on_item = self._check_tag
        self.banks = BankMemory(self.dut, cfg, self.rng, read=None, write="bank_write", **self.shared)
        self.golden = self.banks.data.copy()
        self.bursts = self.source("i_burst", burst_layout(cfg), pause=self.pause)
        self.arrivals = self.sink("o_moved", barrier_arrival_layout, pause=self.pause)
        self.failures = self.sink("o_failure", error_layout)
        self.swizzle = Swizzle(int(self.rng.integers(4)))       # of all: what lies in a row is exchanged the same way
        cocotb.start_soon(self._count())

    def _check_tag(self, stream, item):
        if stream == "read_request":
            assert item["tag"] not in self.open_tags, f"tag {item['tag']} must not be used twice"
            self.open_tags.add(item["tag"])
        elif item["last"]:
            self.open_tags.remove(item["tag"])

    async def _count(self):
        while True:
            await RisingEdge(self.dut.clk)
            self.completed += int(self.dut.completed.value)

    def send(self, shared_block, blocks, outside):
        """A piece of ``blocks`` blocks to ``shared_block``, from a random line of memory or from nowhere."""
        cfg, rng = self.cfg, self.rng
        fill = Fill(int(rng.integers(2)))
        element = 1 << int(rng.integers(4)) if fill == Fill.ZERO else 2 << int(rng.integers(3))
        global_block = 8 * int(rng.integers(MEMORY // 128)) + int(rng.integers(0, LINE_BLOCKS + 1 - blocks))
        missing = 0 if outside else int(rng.integers(0, BANK_BYTES // element)) * element * int(rng.integers(2))
        halves, units = BANK_BYTES // unit_bytes(cfg), units_per_beat(cfg)
        skip = 0 if outside else global_block * halves % units
        end = blocks * halves + skip
        barrier = int(rng.integers(16))
        self.bursts.put({
            "beat_address": (global_block * halves - skip) // units, "beats_minus_one": -(-end // units) - 1,
            "pointer": (shared_block * halves - skip) % (cfg.shared_bytes // unit_bytes(cfg)), "skip_first": skip,
            "skip_last": -end % units, "blocks": blocks, "ends_transfer": 1, "barrier": barrier, "has_barrier": 1, "outside": int(outside),
            "missing_bytes": missing, "fill": fill, "swizzle": self.swizzle.value,
            **({"mask": int(rng.integers(2))} if cfg.multicast else {})})
        nbytes = 16 * blocks
        pattern_bytes = np.frombuffer((FILLS[fill] * nbytes)[:nbytes], np.uint8)
        values = pattern_bytes if outside else self.memory.data[16 * global_block:16 * global_block + nbytes].copy()
        if missing:
            values[-missing:] = pattern_bytes[-missing:]
        self.golden[swizzled(np.arange(16 * shared_block, 16 * shared_block + nbytes), self.swizzle)] = values
        self.sent += 1
        self.arrived += nbytes
        return not outside

    async def idle(self, reads):
        """Wait until everything is over and compare; ``reads`` bursts must have been read. Returns the cycles."""
        cycles = await self.until(lambda: self.completed >= self.sent, 300 * self.sent + 2000, f"{self.sent} bursts must complete")
        await self.cycles(5)
        if self.cfg.multicast:
            await self.until(lambda: not self.dut.busy.value, 2000, "beats of other cores must end")
        assert not self.dut.busy.value
        self.finish()
        assert self.completed == self.sent, f"{self.completed} bursts completed, not {self.sent}"
        wrong = np.flatnonzero(self.banks.data != self.golden)
        assert not len(wrong), f"{len(wrong)} bytes differ, first at {wrong[0]:#x}"
        assert len(self.memory.reads) == reads, "what is outside is not read"
        assert sum(item["bytes"] for item in self.arrivals.received) == self.arrived
        assert self.memory.idle and not self.failures.received
        return cycles


async def _run(dut, pause, shared, count=120):
    bench = LoadBench(dut, pause, shared)
    await bench.start()
    place = reads = 0
    for _ in range(count):
        blocks = int(bench.rng.integers(1, LINE_BLOCKS + 1))
        place += int(bench.rng.integers(0, 3))
        if place + blocks > bench.cfg.shared_bytes // BANK_BYTES:
            break
        reads += bench.send(place, blocks, bench.rng.random() < 0.4)
        place += blocks
    await bench.idle(reads)


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(pause=PATTERNS, shared=list(SHARED))
async def bursts_inside_and_outside(dut, pause, shared):
    await _run(dut, pause, shared)


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def a_beat_a_cycle_outside(dut):
    """Bursts outside take a cycle for each of their beats."""
    bench = LoadBench(dut, "none", "least")
    await bench.start()
    await ClockCycles(dut.clk, bench.cfg.axi_reads + 4)     # slots are cleared first
    beats = 0
    for place in range(0, 320, 8):
        bench.send(place, 8, True)
        beats += -(-8 * 16 // bench.cfg.axi_bytes)
    cycles = await bench.idle(0)
    assert cycles <= beats + 20, f"{cycles} cycles for {beats} beats"
