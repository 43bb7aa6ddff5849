"""Bench of the local DMA channel within shared memory: bytes, reductions, acknowledgements, stop, pace, with shared memory of any
latency."""

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from heddle.constants import BANK_BYTES
from heddle.interfaces.layouts import barrier_arrival_layout
from heddle.isa.encoding import Reduction
from heddle.isa.tensor_descriptor import FLOAT_FORMATS, TensorFormat
from heddle.tmau.layouts import move_layout
from heddle.tmau.local_dma_shared import ARRIVAL_BLOCKS, SharedDma
from heddle_sim.golden.reductions import reduce_elements
from heddle_sim.toolchain.cocotb_process import bench_config

from ..agents.banks import BankMemory
from ..fixture import Bench
from ..stimulus.shared_memories import SHARED
from .reduction_unit import choices

CORNERS = (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)       # equal elements, zero, carries from one half into the other


class DmaBench(Bench):
    """Copies one after the other, and the bytes that must be there."""

    def __init__(self, dut, shared, pause="bursty"):
        super().__init__(dut, SharedDma(bench_config()))
        self.shared, self.pause = SHARED[shared], pause
        self.completed = self.acknowledged = self.arrived = self.blocks = 0

    async def start(self):
        await super().start()
        self.pairs, self.reduced = [pair for pair in choices(self.cfg) if pair[1] not in FLOAT_FORMATS], 0
        self.banks = BankMemory(self.dut, self.cfg, self.rng, read="bank_read", write="bank_write", **self.shared)
        words = self.banks.data.view(np.uint32)
        corners = np.flatnonzero(self.rng.random(len(words)) < 0.6)
        words[corners] = self.rng.choice(np.array(CORNERS, np.uint32), len(corners))
        self.golden = self.banks.data.copy()
        self.moves = self.source("i", move_layout(self.cfg), pause=self.pause, on_item=self._accepted)
        self.told = self.sink("o_moved", barrier_arrival_layout, pause=self.pause, on_item=self._moved)
        cocotb.start_soon(self._every_cycle())

    def move(self, blocks, barrier=None, reduces=None):
        """A copy between the halves of memory, from the lower one or from the upper one; returns source and destination.

        ``reduces``: it is a reduction; by chance where nothing is said.
        """
        half = self.cfg.shared_bytes // BANK_BYTES // 2
        places = [int(self.rng.integers(half - blocks + 1)), half + int(self.rng.integers(half - blocks + 1))]
        source, destination = places[::-1] if self.rng.random() < 0.5 else places
        self.moves.put({
            "in_shared": 1, "destination_block": destination, "source_block": source, "blocks": blocks, "barrier": barrier or 0,
            "has_barrier": int(barrier is not None), "pc": int(self.rng.integers(4096)),
            **self._reduction(self.rng.random() < 0.5 if reduces is None else reduces)})
        return source, destination

    def _reduction(self, reduces):
        """Members of a copy that say what it reduces."""
        if not self.cfg.reductions:
            return {}
        reduction, format = self.pairs[int(self.rng.integers(len(self.pairs)))] if reduces else (Reduction.NONE, TensorFormat.U8)
        return {"reduction": reduction.value, "format": format.value}

    def _accepted(self, item):
        start, end = item["source_block"] * BANK_BYTES, (item["source_block"] + item["blocks"]) * BANK_BYTES
        target = item["destination_block"] * BANK_BYTES
        self.golden[target:target + end - start] = self.written(item, self.golden[target:target + end - start], self.golden[start:end])
        self.blocks += item["blocks"]
        self.current = item

    def written(self, item, old, new):
        """Bytes that a copy ``item`` leaves where ``old`` was."""
        reduction = Reduction(item.get("reduction", 0))
        if reduction == Reduction.NONE:
            return new.copy()
        self.reduced += 1
        return reduce_elements(reduction, TensorFormat(item["format"]), old.copy(), new.copy())

    def _moved(self, item):
        assert self.current["has_barrier"] and item["barrier"] == self.current["barrier"] and not item["remote"]
        assert 0 < item["bytes"] <= ARRIVAL_BLOCKS * BANK_BYTES
        self.arrived += item["bytes"]

    async def _every_cycle(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            self.acknowledged += int(dut.bank_write__written.value)
            if self.told.handles.is_valid() and not dut.stop.value:
                assert self.acknowledged == self.blocks, "a barrier is told when all writes are acknowledged"
            if dut.completed.value:
                self.completed += 1
                assert dut.busy.value
                assert dut.stop.value or self.acknowledged == self.blocks, "a copy ends when all writes are acknowledged"

    async def idle(self, count):
        """Wait until ``count`` copies have ended; returns the cycles."""
        cycles = await self.until(lambda: self.completed >= count, 60_000, f"{count} copies must end")
        await self.cycles(3)
        assert not self.dut.busy.value and self.completed == count
        return cycles

    def compare(self):
        wrong = np.flatnonzero(self.banks.data != self.golden)
        assert not len(wrong), f"{len(wrong)} bytes differ, first at {wrong[0]:#x}"


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(shared=list(SHARED))
async def random_copies(dut, shared):
    """Copies of all alignments, with barrier and without."""
    bench = DmaBench(dut, shared)
    await bench.start()
    expected = 0
    for number in range(25):
        blocks, barrier = int(bench.rng.integers(1, 40)), int(bench.rng.integers(16)) if bench.rng.random() < 0.6 else None
        bench.move(blocks, barrier)
        expected += BANK_BYTES * blocks * (barrier is not None)
        await bench.idle(number + 1)
        assert bench.arrived == expected
    bench.finish()
    bench.compare()
    assert bench.reduced > 5 or not bench.cfg.reductions


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(reduces=[False, True])
async def large_copy(dut, reduces):
    """A barrier is told of a large copy in several parts; a block a cycle at the least latency, in two cycles of a reduction."""
    bench = DmaBench(dut, "least", "none")
    if reduces and not bench.cfg.reductions:
        return
    await bench.start()
    rest = 0b0011011 if reduces else 0b1100100
    blocks = min(ARRIVAL_BLOCKS + rest, bench.cfg.shared_bytes // BANK_BYTES // 2)
    bench.move(blocks, 5, reduces)
    bench.told.pause.step = lambda other: bench.cycle % 3 > 0
    cycles = await bench.idle(1)
    assert bench.arrived == BANK_BYTES * blocks
    assert bench.told.count == -(-blocks // ARRIVAL_BLOCKS)
    assert cycles <= (2 if reduces else 1) * blocks + 20, cycles
    bench.finish()
    bench.compare()


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(shared=list(SHARED))
async def stopping(dut, shared):
    """``stop`` ends a copy after the blocks that were requested: what is written is the beginning of the copy."""
    bench = DmaBench(dut, shared, "none")
    await bench.start()
    early = 0
    for number in range(20):
        blocks = 60
        before, already = bench.banks.data.copy(), bench.acknowledged
        source, destination = bench.move(blocks, 3)
        await bench.cycles(int(bench.rng.integers(1, 90)))
        dut.stop.value = 1
        await bench.until(lambda: not bench.moves.queue and not dut.busy.value, 3000, "the copy must end")
        await bench.cycles(3)
        dut.stop.value = 0
        await bench.cycles(1)
        written = bench.acknowledged - already
        early += written < blocks
        expected = before.copy()
        target = slice(destination * 16, (destination + written) * 16)
        expected[target] = bench.written(bench.current, before[target], before[source * 16:(source + written) * 16])
        assert (bench.banks.data == expected).all(), f"the first {written} blocks must be written"
        assert bench.completed == number + 1
        bench.blocks, bench.golden = bench.acknowledged, bench.banks.data.copy()
    assert early > 5
    bench.move(20)
    await bench.idle(21)
    bench.finish()
    bench.compare()
