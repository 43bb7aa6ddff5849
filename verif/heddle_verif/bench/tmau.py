"""Bench of the TMAU against its golden model."""

import itertools

import cocotb
from cocotb.triggers import RisingEdge
from heddle.constants import MAX_BURST_BYTES
from heddle.interfaces.layouts import SHARED_READ_LATENCY, CopyKind
from heddle.isa.encoding import Reduction, Space, Swizzle
from heddle.tmau.beat_reader import ANSWER_CYCLES
from heddle_sim.golden.block_copy import CopyOperation, check_copy
from heddle_sim.toolchain.cocotb_process import bench_config

from .tmau_environment import CopyBench, Stalls

PROFILES = {
    "free": Stalls(),
    "latency": Stalls(latency=(30, 60), reorder=True),
    "banks": Stalls(banks=0.5, latency=(1, 20)),
    "all": Stalls(operations=0.4, banks=0.3, requests=0.3, data=0.3, responses=0.4, latency=(1, 40), reorder=True),
    "late": Stalls(banks=0.2, latency=(1, 20), shared_delay=7, shared_places=4),
    "slow": Stalls(operations=0.1, banks=0.85, requests=0.8, data=0.8, responses=0.9, latency=(1, 10), reorder=True),
}
SIZES = [0, 1, 2, 3, 7, 13, 31, 32, 33, 37]     # blocks
LOAD, STORE = (Space.SHARED, Space.GLOBAL), (Space.GLOBAL, Space.SHARED)


class Workload:
    """Operations on regions that do not overlap within a batch: loads use the lower halves of the memories, stores the upper."""

    def __init__(self, bench):
        self.bench, self.random = bench, bench.random
        self.restart()

    def restart(self):
        cfg, memory = self.bench.cfg, len(self.bench.memory)
        # One for all of a batch: they do not meet.
        self.swizzle = self.random.choice(list(Swizzle) if cfg.tensors else [Swizzle.NONE, Swizzle.B128])
        self.next = {LOAD: [0, 0], STORE: [cfg.shared_bytes // 2, memory // 2]}
        self.end = {LOAD: [cfg.shared_bytes // 2, memory // 2], STORE: [cfg.shared_bytes, memory]}

    def operation(self, direction, blocks, gaps=None, barrier=None):
        """The next operation of a direction behind random gaps, or ``None`` when the batch is full."""
        gaps = [self.random.randrange(16) for _ in range(2)] if gaps is None else gaps
        starts = [start + 16 * gap for start, gap in zip(self.next[direction], gaps, strict=True)]
        ends = [start + 16 * blocks for start in starts]
        if any(end > limit for end, limit in zip(ends, self.end[direction], strict=True)):
            return None
        self.next[direction] = ends
        return self.at(direction, *starts, blocks, barrier)

    def at(self, direction, shared, global_, blocks, barrier=None):
        load = direction == LOAD
        barrier = self.random.choice([None, *range(16)]) if barrier is None else barrier
        return CopyOperation(
            destination_space=direction[0], source_space=direction[1], destination=shared if load else global_,
            source=global_ if load else shared, blocks=blocks,
            swizzle=self.swizzle, barrier=barrier or 0,
            has_barrier=int(barrier is not None), pc=self.random.randrange(4096))

    def prefetch(self, blocks):
        """A prefetch from anywhere in global memory, often from the beginning of a burst."""
        source = 16 * self.random.randrange(len(self.bench.memory) // 16 - blocks)
        return CopyOperation(Space.SHARED, Space.GLOBAL, self.random.getrandbits(32),
                             source & -MAX_BURST_BYTES if self.random.random() < 0.5 else source, blocks,
                             kind=CopyKind.PREFETCH_BLOCK, pc=self.random.randrange(4096))

    async def batch(self, operations, sizes=SIZES):
        """Issue random loads and stores until a region is full, and check."""
        self.restart()
        for _ in range(operations):
            if self.bench.cfg.prefetches and self.random.random() < 0.2:
                self.bench.issue(self.prefetch(self.random.choice(sizes)))
            operation = self.operation(self.random.choice([LOAD, STORE]), self.random.choice(sizes))
            if operation is None:
                break
            self.bench.issue(operation)
        await self.bench.idle()


async def begin(dut, stalls, bench=CopyBench, work=Workload, **options):
    """A bench that has started, and what issues its operations."""
    started = bench(dut, stalls, **options)
    await started.start()
    return started, work(started)


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(profile=list(PROFILES))
async def random_copies(dut, profile):
    """Loads and stores together, all sizes, under every profile of stalls."""
    bench, work = await begin(dut, PROFILES[profile])
    batches = bench.some(3)
    for _ in range(batches):
        await work.batch(30)
    for blocks in (97 if profile == "slow" else min(bench.cfg.shared_bytes, len(bench.memory)) // 32 - 8, 127):
        work.restart()
        for direction in (LOAD, STORE):
            bench.issue(work.operation(direction, blocks, gaps=(0, 5)))
        await bench.idle()
    assert bench.compared == batches + 2
    assert bench.moved > 500


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def alignments(dut):
    """Every alignment of source and destination modulo 128 bytes, sizes around a beat and a row."""
    bench, work = await begin(dut, Stalls(banks=0.2, latency=(1, 10), reorder=True))
    for blocks in (1, 2, 5, 9):
        for direction in (LOAD, STORE):
            work.restart()
            shared, global_ = work.next[direction]
            pairs = [(s, g) for s in range(8) for g in range(8)]
            bench.random.shuffle(pairs)
            for number, (s, g) in enumerate(pairs):
                row = number % (bench.cfg.shared_bytes // 512)
                bench.issue(work.at(direction, shared + 256 * row + 16 * s, global_ + 256 * number + 16 * g, blocks))
                if row == bench.cfg.shared_bytes // 512 - 1:
                    await bench.idle()
            await bench.idle()
    assert bench.compared >= 8


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def rejected(dut):
    """Each rule of the front end, between operations that work."""
    bench, work = await begin(dut, PROFILES["all"])
    cfg = bench.cfg
    load, store = {"destination_space": Space.SHARED, "source_space": Space.GLOBAL}, \
        {"destination_space": Space.GLOBAL, "source_space": Space.SHARED}
    limit = 1 << cfg.axi_address_bits
    wrong = [
        dict(load, kind=3),
        *([] if cfg.copy_within else [dict(load, source_space=Space.SHARED), dict(store, source_space=Space.GLOBAL)]),
        *([] if cfg.tensors else [dict(load, swizzle=Swizzle.B64), dict(store, swizzle=Swizzle.B32)]),
        dict(store, reduction=Reduction.MAX), *([] if cfg.prefetches else [dict(load, kind=1, blocks=0)]),
        dict(load, destination=8), dict(load, source=4), dict(store, source=0x7FFFFFF1), dict(store, destination=1),
        dict(load, destination=cfg.shared_bytes), dict(load, destination=cfg.shared_bytes - 16, blocks=2),
        dict(store, source=0x80000000), dict(store, blocks=0xFFFFFFFF), dict(load, blocks=cfg.shared_bytes // 16 + 1),
        dict(load, source=limit - 16, blocks=2), dict(store, destination=limit - 32, blocks=3),
        # Rows of a matrix whose exact address 32 bits do not hold, on either side of either end.
        *(dict(direction, **{end: place}) for direction in (load, store) for end in ("source", "destination") for place in (-16, 1 << 32)),
    ]
    if cfg.prefetches:
        wrong += [dict(load, kind=1, source=4), dict(load, kind=1, source=limit - 16, blocks=2)]
    if cfg.axi_address_bits < 32:
        wrong += [dict(load, source=limit), dict(store, destination=0xFFFFFFF0)]
    for fields in wrong:
        operation = CopyOperation(**{"destination": 0, "source": 0, "blocks": 1, "pc": bench.random.randrange(4096),
                                     "has_barrier": 1} | fields)
        assert check_copy(cfg, operation) is not None, operation
        bench.issue(operation)
        good = work.operation(bench.random.choice([LOAD, STORE]), 3)
        if good and bench.random.random() < 0.5:
            bench.issue(good)
    bench.issue(CopyOperation(Space.SHARED, Space.GLOBAL, 5, 3, 0, has_barrier=1))      # no blocks: nothing to check
    await bench.idle()
    assert sum(bench.errors.values()) == len(wrong)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def limits(dut):
    """Copies that end with the last byte of the memories."""
    bench, work = await begin(dut, PROFILES["latency"])
    shared = bench.cfg.shared_bytes
    memory = len(bench.memory)
    bench.issue(work.at(LOAD, shared - 80, memory - 80, 5))
    await bench.idle()
    bench.issue(work.at(STORE, shared - 16 * 70, memory - 16 * 70, 70))
    await bench.idle()
    bench.issue(work.at(LOAD, 0, 0, shared // 16))
    await bench.idle()


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(profile=["free", "all"])
async def memory_errors(dut, profile):
    """Answers with an error are reported with their burst; the rest of the copy is not touched."""
    bench, work = await begin(dut, PROFILES[profile], fails=lambda address: address // 64 % 5 in (1, 2))
    for _ in range(bench.rounds(3)):
        work.restart()
        for _ in range(40):
            if operation := work.operation(bench.random.choice([LOAD, STORE]), bench.random.choice(SIZES)):
                bench.issue(operation)
            # Errors of the front end meet those of memory: none may be lost.
            for _ in range(bench.random.randrange(4)):
                bench.issue(work.at(LOAD, 8, 0, 1))
        await bench.idle()
    assert len({code for code, *_ in bench.errors}) == 3, "an error was not provoked"


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def stopping(dut):
    """While stopped, everything ends with its done; afterwards the unit works."""
    bench, work = await begin(dut, PROFILES["all"])
    for _ in range(bench.rounds(6)):
        work.restart()
        for _ in range(12):
            if operation := work.operation(bench.random.choice([LOAD, STORE]), bench.random.choice([*SIZES, 100])):
                bench.issue(operation, golden=False)
        await bench.stopped(bench.random.randrange(5, 150))
        await work.batch(10)


async def measured(dut, directions, blocks, operations, stalls):
    """Beats per cycle of both directions over back-to-back operations."""
    bench, work = await begin(dut, stalls)
    for _ in range(max(bench.cfg.axi_reads, bench.cfg.axi_writes)):      # the slots are cleared
        await RisingEdge(dut.clk)
    beats = {LOAD: 0, STORE: 0}
    for n in range(operations):
        for direction in directions:
            shared, global_ = work.end[direction]
            size = 16 * blocks
            bench.issue(work.at(direction, shared - size * (n % 2 + 1), global_ - size * (n + 1), blocks, barrier=3))
            beats[direction] += -(-size // bench.cfg.axi_bytes)
    await bench.idle()
    rates = []
    for direction, name in ((LOAD, "read_data"), (STORE, "write_data")):
        if direction in directions:
            times = bench.times[name]
            assert len(times) == beats[direction]
            rates.append(len(times) / (times[-1] - times[0] + 1))
    dut._log.info(f"beats per cycle {rates}, {blocks} blocks")
    return bench, rates


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(directions=["load", "store", "both"], blocks=[32, 64])
async def throughput(dut, directions, blocks):
    """At least 0.99 beats a cycle over back-to-back copies when nothing holds the unit back."""
    chosen = {"load": [LOAD], "store": [STORE], "both": [LOAD, STORE]}[directions]
    _, rates = await measured(dut, chosen, blocks, 12, Stalls(latency=(4, 4)))
    assert min(rates) >= 0.99, rates


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def latency(dut):
    """Cycles of a load with shared memory at its least latency; operations of one beat keep the bus busy."""
    beat_blocks = max(1, bench_config().axi_bytes // 16)
    bench, rates = await measured(dut, [LOAD], beat_blocks, 24, Stalls(latency=(2, 2)))
    first = {name: times[0] for name, times in bench.times.items() if times}
    dut._log.info(f"load {first}, beats per cycle {rates}")
    assert first["read_request"] - first["operation"] == bench.unit.request_latency
    accepted = bench.times["operation"]
    assert {after - before for before, after in itertools.pairwise(accepted[:8])} == {1}, accepted
    assert first["bank_write"] - first["read_data"] == bench.unit.write_latency
    assert first["arrival"] - first["bank_write"] == 2      # the acknowledgement, and a register
    if bench.cfg.axi_bytes >= 16 and bench.cfg.axi_reads > 8:
        assert rates[0] >= 0.9, rates


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def store_latency(dut):
    """Cycles of a store with shared memory at its least latency; stores of one beat with a barrier keep the bus busy."""
    beat_blocks = max(1, bench_config().axi_bytes // 16)
    bench, rates = await measured(dut, [STORE], beat_blocks, 24, Stalls(latency=(2, 2)))
    first = {name: times[0] for name, times in bench.times.items() if times}
    dut._log.info(f"store {first}, beats per cycle {rates}")
    assert first["bank_read"] - first["operation"] == bench.unit.read_latency
    assert first["write_data"] - first["bank_read"] == SHARED_READ_LATENCY + ANSWER_CYCLES
    if bench.cfg.axi_bytes >= 16:
        assert first["arrival"] - first["bank_read"] == SHARED_READ_LATENCY + 1
    if bench.cfg.axi_bytes >= 16 and bench.cfg.axi_writes > 8:
        assert rates[0] >= 0.9, rates
