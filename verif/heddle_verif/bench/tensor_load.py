"""Bench of the load engine with bursts that lie outside a tensor, in part or as a whole."""

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from heddle.constants import BANK_BYTES, BANKS, ROW_BYTES
from heddle.interfaces.layouts import barrier_arrival_layout, read_data_layout, read_request_layout
from heddle.isa.encoding import Swizzle
from heddle.isa.tensor_descriptor import NAN_BITS, TensorFormat
from heddle.tmau.layouts import Filler, burst_layout, unit_bytes, units_per_beat
from heddle_sim.golden.block_copy import swizzled
from heddle_sim.toolchain.cocotb_runner import bench_config

from ..agents.pause import PATTERNS, none, pattern
from ..agents.stream import StreamSink, StreamSource

MEMORY = 1 << 14
LINE_BLOCKS = 8
FILLERS = {Filler.ZERO: b"\0", Filler.NAN_16: NAN_BITS[TensorFormat.F16].to_bytes(2, "little"),
           Filler.NAN_32: NAN_BITS[TensorFormat.F32].to_bytes(4, "little"), Filler.NAN_64: NAN_BITS[TensorFormat.F64].to_bytes(8, "little")}


class Bench:
    """Memory that answers in any order of the tags, banks that grant at random, and the bytes that must be written."""

    def __init__(self, dut, rng, pause, grant):
        self.dut, self.cfg, self.rng, self.grant = dut, bench_config(), rng, grant
        self.memory = rng.integers(0, 256, MEMORY, np.uint8)
        self.shared = rng.integers(0, 256, self.cfg.shared_bytes, np.uint8)
        self.golden = self.shared.copy()
        self.bursts = StreamSource(dut, "i_burst", burst_layout(self.cfg), rng=rng, pause=pause())
        self.requests = StreamSink(dut, "read_request", read_request_layout(self.cfg, self.cfg.tag_bits), pause=pause(), on_item=self._take)
        self.data = StreamSource(dut, "read_data", read_data_layout(self.cfg, self.cfg.tag_bits), rng=rng, pause=pause())
        self.arrivals = StreamSink(dut, "o_moved", barrier_arrival_layout, pause=pause())
        self.swizzle = Swizzle(int(rng.integers(4)))        # of all: what lies in a row is exchanged the same way
        self.jobs, self.asked, self.completed, self.sent, self.arrived = {}, 0, 0, 0, 0
        dut.bank_write__grant.value = 0

    async def start(self):
        Clock(self.dut.clk, 10, unit="ns").start()
        self.dut.rst.value = 1
        await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0
        self.task = cocotb.start_soon(self._loop())

    def _take(self, request):
        assert not self.jobs.get(request["tag"]), "a tag is used twice"
        beats = request["beats_minus_one"] + 1
        self.jobs[request["tag"]] = [(request["address"] + n * self.cfg.axi_bytes, n == beats - 1) for n in range(beats)]
        self.asked += 1

    async def _loop(self):
        dut, write = self.dut, self.dut.bank_write__request
        while True:
            await RisingEdge(dut.clk)
            self.completed += int(dut.completed.value)
            granted = write.value.to_unsigned() & dut.bank_write__grant.value.to_unsigned()
            for bank in range(BANKS):
                if granted >> bank & 1:
                    place = getattr(dut, f"bank_write__row__{bank}").value.to_unsigned() * ROW_BYTES + bank * BANK_BYTES
                    word = getattr(dut, f"bank_write__data__{bank}").value.to_unsigned().to_bytes(BANK_BYTES, "little")
                    mask = getattr(dut, f"bank_write__mask__{bank}").value.to_unsigned()
                    for byte in range(BANK_BYTES):
                        if mask >> byte & 1:
                            self.shared[place + byte] = word[byte]
            dut.bank_write__grant.value = sum(int(self.rng.random() < self.grant) << bank for bank in range(BANKS))
            waiting = [tag for tag, beats in self.jobs.items() if beats]
            if waiting and len(self.data.queue) < 2:
                tag = waiting[int(self.rng.integers(len(waiting)))]
                address, last = self.jobs[tag].pop(0)
                word = int.from_bytes(self.memory[address:address + self.cfg.axi_bytes].tobytes(), "little")
                self.data.put({"data": word, "tag": tag, "last": int(last), "error": 0})

    def send(self, shared_block, blocks, outside):
        """A piece of ``blocks`` blocks to ``shared_block``, from a random line of memory or from nowhere."""
        cfg, rng = self.cfg, self.rng
        filler = Filler(int(rng.integers(4)))
        element = len(FILLERS[filler])
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
            "missing_bytes": missing, "filler": filler, "swizzle": self.swizzle.value,
            **({"mask": int(rng.integers(2))} if cfg.multicast else {})})
        nbytes = 16 * blocks
        pattern_bytes = np.frombuffer((FILLERS[filler] * nbytes)[:nbytes], np.uint8)
        values = pattern_bytes if outside else self.memory[16 * global_block:16 * global_block + nbytes].copy()
        if missing:
            values[-missing:] = pattern_bytes[-missing:]
        self.golden[swizzled(np.arange(16 * shared_block, 16 * shared_block + nbytes), self.swizzle)] = values
        self.sent += 1
        self.arrived += nbytes
        return not outside

    async def finish(self, reads):
        cycles = 0
        while self.completed < self.sent:
            await RisingEdge(self.dut.clk)
            cycles += 1
            assert cycles < 300 * self.sent + 2000, f"{self.completed} of {self.sent} completed"
        await ClockCycles(self.dut.clk, 5)
        while self.cfg.multicast and self.dut.busy.value:
            await RisingEdge(self.dut.clk)
        assert not self.task.done() and not self.dut.busy.value
        wrong = np.flatnonzero(self.shared != self.golden)
        assert not len(wrong), f"{len(wrong)} bytes differ, first at {wrong[0]:#x}"
        assert self.asked == reads, "what is outside is not read"
        assert sum(item["bytes"] for item in self.arrivals.received) == self.arrived
        return cycles


async def _run(dut, pause, grant, count=120):
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng, lambda: pattern(pause, rng), grant)
    await bench.start()
    place = reads = 0
    for _ in range(count):
        blocks = int(rng.integers(1, LINE_BLOCKS + 1))
        place += int(rng.integers(0, 3))
        if place + blocks > bench.cfg.shared_bytes // BANK_BYTES:
            break
        reads += bench.send(place, blocks, rng.random() < 0.4)
        place += blocks
    return await bench.finish(reads), bench


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(pause=PATTERNS, grant=[1, 0.5])
async def bursts_inside_and_outside(dut, pause, grant):
    await _run(dut, pause, grant)


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def a_beat_a_cycle_outside(dut):
    """Bursts outside take a cycle for each of their beats."""
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng, none, 1)
    await bench.start()
    await ClockCycles(dut.clk, bench.cfg.axi_reads + 4)     # slots are cleared first
    beats = 0
    for place in range(0, 320, 8):
        bench.send(place, 8, True)
        beats += -(-8 * 16 // bench.cfg.axi_bytes)
    cycles = await bench.finish(0)
    assert cycles <= beats + 20, f"{cycles} cycles for {beats} beats"
