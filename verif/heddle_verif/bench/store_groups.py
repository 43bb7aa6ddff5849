"""Bench of groups of stores in the TMAU: what has passed is in memory, what is read may be overwritten, nothing is for ever."""

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from heddle.constants import STORE_GROUPS
from heddle.isa.encoding import Space
from heddle_sim.golden.tensor_traversal import swizzled_addresses
from heddle_sim.toolchain.cocotb_process import bench_parameters

from .tensor_environment import TensorBench, TensorWorkload
from .tmau import PROFILES

PATIENCE = 60_000       # cycles


class GroupBench(TensorBench):
    """Remembers the bytes that each group writes and reads. Those that were read change at once."""

    def __init__(self, dut, stalls):
        super().__init__(dut, stalls)
        self.open, self.written, self.sources = ([], []), [], []       # of the next group; of those not passed, oldest first
        self.committed = False
        self.early = {"pending": 0, "unread": 0}        # groups that passed while others did not

    def issue(self, operation, golden=True):
        before = self.golden_memory.copy()
        super().issue(operation, golden)
        if operation.destination_space == Space.GLOBAL and operation.blocks:
            self._note(before, operation.source, 16 * operation.blocks, operation.swizzle)

    def _execute(self, fields, request, barrier):
        before = self.golden_memory.copy()
        super()._execute(fields, request, barrier)
        if request.store:
            self._note(before, request.shared_address, fields.room, fields.swizzle)

    def _note(self, before, start, nbytes, swizzle):
        self.open[0].append(np.flatnonzero(before != self.golden_memory))
        self.open[1].append(swizzled_addresses(np.arange(start, start + nbytes), swizzle))

    async def commit(self):
        """End a group when everything was taken and there is room for it."""
        for _ in range(PATIENCE):
            await RisingEdge(self.dut.clk)
            if not self.waiting_operations and int(self.dut.groups_pending.value) < STORE_GROUPS:
                break
        else:
            raise AssertionError("groups must pass")
        self.dut.commit.value = 1
        await RisingEdge(self.dut.clk)
        self.dut.commit.value = 0
        self.written.append(self.open[0])
        self.sources.append(self.open[1])
        self.open = [], []
        await RisingEdge(self.dut.clk)
        assert 1 <= int(self.dut.groups_pending.value) <= len(self.written), "a group must be pending at first"

    def _reports(self):
        super()._reports()
        if self.dut.commit.value:
            return
        for name, groups in (("pending", self.written), ("unread", self.sources)):
            level = int(getattr(self.dut, f"groups_{name}").value)
            for _ in range(len(groups) - level):
                self.early[name] += len(groups) > 1
                for places in groups.pop(0):
                    if name == "pending":
                        assert np.array_equal(self.memory[places], self.golden_memory[places]), "a group passed before it was written"
                    else:
                        self.shared[places] ^= 0xFF
                        self.golden_shared[places] = self.shared[places]


@cocotb.test(timeout_time=100, timeout_unit="ms")
@cocotb.parametrize(profile=list(PROFILES))
async def random_groups(dut, profile):
    """Groups of stores of blocks and of tensors, also empty ones, between loads."""
    bench = GroupBench(dut, PROFILES[profile])
    await bench.start()
    work = TensorWorkload(bench)
    groups = 0
    for _ in range(bench_parameters()["batches"]):
        await work.restart()
        for _ in range(12):
            full = False
            for _ in range(bench.random.choice((0, 1, 1, 2, 3))):
                store = bench.rng.random() < 0.8
                full |= not (work.tensor(store, max_rows=20) if bench.rng.random() < 0.5 else work.blocks(store))
            await bench.commit()
            groups += 1
            if full:
                break
        await bench.idle()
        for _ in range(8):      # latency of the counts
            await RisingEdge(dut.clk)
        assert not bench.written
        assert not bench.sources
    assert groups > 4
    assert all(bench.early.values()), bench.early


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def clearing(dut):
    """What is left of groups whose stores were discarded is forgotten."""
    bench = GroupBench(dut, PROFILES["latency"])
    await bench.start()
    work = TensorWorkload(bench)
    await work.restart()
    for _ in range(3):
        work.blocks(True)
        work.tensor(True, max_rows=30)
        await bench.commit()
    dut.stop.value = 1
    bench.written, bench.sources = [], []
    for _ in range(3000):
        await RisingEdge(dut.clk)
    assert not bench.busy
    dut.stop.value, dut.clear.value = 0, 1
    await RisingEdge(dut.clk)
    dut.clear.value = 0
    await RisingEdge(dut.clk)
    assert int(dut.groups_pending.value) == int(dut.groups_unread.value) == 0
    bench.golden_memory, bench.golden_shared = bench.memory.copy(), bench.shared.copy()
    bench.expected_arrivals, bench.expected_accesses = bench.arrived.copy(), bench.accesses.copy()
    bench.expected_accesses["failed"] += 1
    await work.restart()
    for _ in range(3):
        work.blocks(True)
        await bench.commit()
    await bench.idle()
    for _ in range(8):
        await RisingEdge(dut.clk)
    assert not bench.written and not bench.sources
