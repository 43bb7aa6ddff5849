"""Bench of the barriers: both status bits in every cycle against plain integers, with far registers those of two cycles before, what
is counted a cycle later."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from heddle.constants import BARRIERS
from heddle.layouts import barrier_arrival_layout
from heddle_sim.harness import bench_config

EXPECTED = [0, 1, 16, 512, 0x7FFF_FFFF, 0xFFFF_FFFF]
ARRIVED = [0, 1, 16, 512, 0xFFFF]


async def reset(dut):
    Clock(dut.clk, 10, unit="ns").start()
    for name in ("expect__valid", "arrive__valid", "clear", "index"):
        getattr(dut, name).value = 0
    dut.rst.value = 1
    await RisingEdge(dut.clk)
    dut.rst.value = 0


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(barriers=[1, 3, BARRIERS])
async def random_counts(dut, barriers):
    """Expectations, arrivals, clears and queries in every cycle, on few barriers and on all."""
    rng = random.Random(cocotb.RANDOM_SEED)
    await reset(dut)
    pending = [0] * BARRIERS
    seen = {"complete": 0, "overrun": 0, "open": 0}
    # Most byte counts balance, so that all three states are met.
    backlog, earlier, far = [], [0] * BARRIERS, bench_config().far_registers
    shown = [None] * 2 * far        # what the unit is still to show
    for _ in range(1500):
        expect = arrive = None
        clear = rng.random() < 0.01
        index = rng.randrange(barriers)
        if rng.random() < 0.4:
            expect = rng.randrange(barriers), rng.choice(EXPECTED + [16 * rng.randrange(64)] * 12)
            backlog.append(expect)
        if rng.random() < 0.5:
            balanced = [entry for entry in backlog if entry[1] <= 0xFFFF]
            if balanced and rng.random() < 0.9:
                arrive = rng.choice(balanced)
                backlog.remove(arrive)
            else:
                arrive = rng.randrange(barriers), rng.choice(ARRIVED)
        dut.expect__valid.value = expect is not None
        dut.arrive__valid.value = arrive is not None
        if expect:
            dut.expect__barrier.value, dut.expect__bytes.value = expect
        if arrive:
            bits = barrier_arrival_layout.const({"barrier": arrive[0], "bytes": arrive[1]}).as_bits()
            dut.arrive__payload.value = bits
        dut.clear.value = clear
        dut.index.value = index
        await RisingEdge(dut.clk)
        value = (earlier if far else pending)[index] & 0xFFFF_FFFF
        complete, overrun = value == 0, bool(value >> 31)
        state = "complete" if complete else "overrun" if overrun else "open"
        seen[state] += 1
        shown.append((complete, overrun))
        now = shown.pop(0)
        assert now is None or (bool(dut.complete.value), bool(dut.overrun.value)) == now, (index, pending[index])
        earlier = list(pending)
        if expect:
            pending[expect[0]] += expect[1]
        if arrive:
            pending[arrive[0]] -= arrive[1]
        if clear:
            pending, backlog = [0] * BARRIERS, []
    assert all(seen.values()), seen


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def same_cycle(dut):
    """Bytes that arrive in the cycle in which they are expected leave the barrier complete, every cycle."""
    await reset(dut)
    for _ in range(2 * bench_config().far_registers):
        await RisingEdge(dut.clk)
    for barrier in range(BARRIERS):
        dut.index.value = barrier
        for count in (1, 16, 0xFFFF):
            dut.expect__valid.value = dut.arrive__valid.value = 1
            dut.expect__barrier.value, dut.expect__bytes.value = barrier, count
            dut.arrive__payload.value = barrier_arrival_layout.const({"barrier": barrier, "bytes": count}).as_bits()
            await RisingEdge(dut.clk)
            assert dut.complete.value == 1
            assert dut.overrun.value == 0
    dut.expect__valid.value = dut.arrive__valid.value = 0
    for barrier in range(BARRIERS):
        dut.index.value = barrier
        await RisingEdge(dut.clk)
        assert dut.complete.value == 1
        assert dut.overrun.value == 0
