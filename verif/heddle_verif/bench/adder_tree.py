"""Bench of the adder tree: its root against plain sums."""

import cocotb
from cocotb.triggers import RisingEdge
from heddle.lib.adder_tree import AdderTree
from heddle_sim.toolchain.cocotb_process import bench_parameters

from ..checkers.scoreboard import Scoreboard
from ..fixture import Bench

CYCLES = 300


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def root_is_the_sum(dut):
    """New numbers every cycle, extreme ones often; the root shows their sum ``depth`` cycles later, without overflow."""
    width, depth = bench_parameters()["width"], bench_parameters()["depth"]
    bench = Bench(dut, AdderTree(width, depth), idle_limit=None)
    await bench.start()
    choose, roots = bench.random, Scoreboard("root", strict=True)
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    for cycle in range(CYCLES + depth):
        kind = choose.randrange(4)
        numbers = [low if kind == 0 else high if kind == 1 else choose.randint(low, high) for _ in range(1 << depth)]
        for index, number in enumerate(numbers):
            getattr(dut, f"i__{index}").value = number & ((1 << width) - 1)
        if cycle < CYCLES:
            roots.expect(sum(numbers))
        await RisingEdge(dut.clk)
        if cycle >= depth:
            roots.observe(dut.root.value.to_signed())
    roots.finish(CYCLES)
