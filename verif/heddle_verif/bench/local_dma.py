"""Bench of the TMAU: copies within a memory and reductions, beside loads and stores."""

from collections import Counter
from dataclasses import replace
from functools import partial

import cocotb
from heddle.constants import MAX_BURST_BYTES
from heddle.isa.encoding import Reduction, Space, Swizzle
from heddle.isa.error_codes import ErrorCode
from heddle.isa.tensor_descriptor import FLOAT_FORMATS, TensorFormat
from heddle_sim.golden.block_copy import CopyOperation, check_copy
from heddle_sim.toolchain.cocotb_process import bench_parameters

from . import tmau as copy
from .reduction_unit import choices
from .tmau import LOAD, PROFILES, SIZES, STORE, Workload
from .tmau_environment import Stalls

__all__ = []


class Mix(Workload):
    """Copies within a memory read what loads and stores read, and write the ends of the regions that these write."""

    turns: Counter[object] = Counter()      # of the pairs of reduction and format by kind of copy, over all tests

    def restart(self):
        super().restart()
        shared, memory = self.bench.cfg.shared_bytes, len(self.bench.memory)
        self.end[LOAD][0], self.end[STORE][1] = 3 * shared // 8, 3 * memory // 4
        self.sources = {Space.SHARED: (shared // 2, shared), Space.GLOBAL: (0, memory // 2)}
        self.next_move = {Space.SHARED: 3 * shared // 8, Space.GLOBAL: 3 * memory // 4}
        self.end_move = {Space.SHARED: shared // 2, Space.GLOBAL: memory}

    def move(self, space, blocks):
        """The next copy within a memory, or ``None`` when the batch is full."""
        destination = self.next_move[space] + 16 * self.random.randrange(5)
        if self.random.random() < 0.2:
            destination = -(-destination // MAX_BURST_BYTES) * MAX_BURST_BYTES
        low, high = self.sources[space]
        if destination + 16 * blocks > self.end_move[space] or 16 * blocks > high - low:
            return None
        self.next_move[space] = destination + 16 * blocks
        source = self.random.randrange(low, high - 16 * blocks + 1, 16)
        return CopyOperation(space, space, destination, source, blocks, barrier=self.random.randrange(16),
                             has_barrier=self.random.randrange(2), pc=self.random.randrange(4096))

    def any(self):
        """A copy of any kind, reductions among those that may be one."""
        kinds = [LOAD, STORE, Space.SHARED, Space.GLOBAL][:4 if self.bench.cfg.copy_within else 2]
        kind, blocks = self.random.choice(kinds), self.random.choice(SIZES)
        operation = self.move(kind, blocks) if isinstance(kind, Space) else self.operation(kind, blocks)
        if operation and kind != LOAD and self.bench.cfg.reductions and self.random.random() < 0.7:
            reduction, format = self.pair(kind)
            operation = replace(operation, reduction=reduction, format=format)
        return operation

    def pair(self, kind):
        """The next reduction and format of a kind of copy: first one of each reduction, then the others."""
        ranked = Counter()
        pairs = []
        for reduction, format in choices(self.bench.cfg):
            if kind == Space.SHARED and format in FLOAT_FORMATS:
                continue
            pairs.append((ranked[reduction], reduction, format))
            ranked[reduction] += 1
        pairs.sort(key=lambda pair: pair[0])
        turn, self.turns[kind] = self.turns[kind], self.turns[kind] + 1
        return pairs[(turn if kind == STORE or turn < len(ranked) else -turn) % len(pairs)][1:]

    async def mix(self, operations):
        self.restart()
        for _ in range(operations):
            if operation := self.any():
                self.bench.issue(operation)
        await self.bench.idle()


begin = partial(copy.begin, work=Mix)


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(profile=list(PROFILES))
async def random_mix(dut, profile):
    """All kinds of copies together, under every profile of stalls."""
    bench, work = await begin(dut, PROFILES[profile])
    for _ in range(bench_parameters()["rounds"]):
        await work.mix(40)
    assert bench.moved > 100


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def alignments(dut):
    """Copies within a memory: every alignment of both sides modulo 128 bytes, many parts."""
    bench, work = await begin(dut, Stalls(banks=0.2, latency=(1, 10)))
    for space in [Space.SHARED, Space.GLOBAL] * bench.cfg.copy_within:
        for blocks in (1, 3, 33, 70)[-bench_parameters()["rounds"]:]:
            work.restart()
            low, high = work.sources[space]
            for number in range(64):
                if operation := work.move(space, blocks):
                    source = low + 16 * (number % 8) + 128 * (number % ((high - low) // 2048))
                    bench.issue(replace(operation, source=source))
            await bench.idle()


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def memory_errors(dut):
    """Parts that cannot be read are not written, those that cannot be written are reported; the others are copied."""
    bench, work = await begin(dut, PROFILES["all"], fails=lambda address: address // 64 % 9 == 2)
    for _ in range(3):
        await work.mix(25)
    assert {code for code, *_ in bench.errors} == {ErrorCode.AXI_READ.value, ErrorCode.AXI_WRITE.value}


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def rejected(dut):
    """Each rule of copies within a memory and of reductions."""
    bench, work = await begin(dut, PROFILES["all"])
    cfg, limit = bench.cfg, 1 << bench.cfg.axi_address_bits
    store, load = {"destination_space": Space.GLOBAL, "source_space": Space.SHARED}, {"destination_space": Space.SHARED}
    shared, global_ = {"destination_space": Space.SHARED, "source_space": Space.SHARED}, {"destination_space": Space.GLOBAL}
    wrong = [
        dict(store, reduction=Reduction.INC, format=TensorFormat.S32), dict(store, reduction=Reduction.ADD, format=TensorFormat.U8),
        dict(store, reduction=Reduction.XOR, format=TensorFormat.F16), dict(load, reduction=Reduction.ADD, format=TensorFormat.U32),
        dict(store, reduction=Reduction.MAX, format=TensorFormat.F64, blocks=0),
        dict(store, reduction=Reduction.ADD, format=TensorFormat.U64, source=8),
    ] + ([] if cfg.reduction_floats else [dict(store, reduction=Reduction.ADD, format=TensorFormat.F32)])
    if cfg.copy_within:
        wrong += [
            dict(shared, destination=8, source=4), dict(shared, source=4), dict(shared, destination=cfg.shared_bytes),
            dict(shared, source=cfg.shared_bytes - 16, blocks=2), dict(shared, swizzle=Swizzle.B128),
            dict(shared, reduction=Reduction.ADD, format=TensorFormat.F32), dict(shared, reduction=Reduction.INC, format=TensorFormat.U64),
            dict(global_, swizzle=Swizzle.B64),
            dict(global_, destination=24), dict(global_, source=limit - 32, blocks=3), dict(global_, destination=limit - 16, blocks=2),
            dict(global_, reduction=Reduction.DEC, format=TensorFormat.U64), dict(global_, blocks=0xFFFFFFFF),
        ]
    for fields in wrong:
        operation = CopyOperation(**{"destination": 0, "source": 0, "blocks": 1, "source_space": Space.GLOBAL, "has_barrier": 1,
                                     "pc": bench.random.randrange(4096)} | fields)
        assert check_copy(cfg, operation) is not None, operation
        bench.issue(operation)
        if (good := work.any()) and bench.random.random() < 0.5:
            bench.issue(good)
    await bench.idle()
    assert sum(bench.errors.values()) == len(wrong)
    assert {code for code, *_ in bench.errors} > {ErrorCode.UNSUPPORTED.value, *[ErrorCode.TENSOR_REDUCTION.value] * cfg.reductions}


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def stopping(dut):
    """While stopped, everything ends with its done; afterwards the unit works."""
    bench, work = await begin(dut, PROFILES["all"])
    for _ in range(bench.rounds(6)):
        work.restart()
        for _ in range(12):
            if operation := work.any():
                bench.issue(operation, golden=False)
        await bench.stopped(bench.random.randrange(5, 300))
        await work.mix(10)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def pace(dut):
    """Within shared memory a block a cycle; within global memory half of the beats of the bus with memory 64 cycles away, also where
    source and destination lie differently in their bursts."""
    bench, work = await begin(dut, Stalls(latency=(64, 64)))
    cfg = bench.cfg
    if not cfg.copy_within:
        return
    blocks = cfg.shared_bytes // 16 // 4
    bench.issue(CopyOperation(Space.SHARED, Space.SHARED, 0, cfg.shared_bytes // 2, blocks))
    await bench.idle()
    times = bench.times["bank_write"]
    assert blocks / (times[-1] - times[0] + 1) > 0.98
    for offset in (0, 16, 256, 496):
        bench.times["write_data"].clear()
        start, nbytes = bench.cycle, 256 * cfg.axi_bytes
        bench.issue(CopyOperation(Space.GLOBAL, Space.GLOBAL, len(bench.memory) // 2 + offset, 1024, nbytes // 16))
        await bench.idle()
        times = bench.times["write_data"]
        assert nbytes / cfg.axi_bytes / (times[-1] - times[0] + 1) > 0.5, (offset, times[-1] - times[0])
        assert nbytes / cfg.axi_bytes / (bench.cycle - start) > 0.4, offset
