"""Bench of the adder tree: its root against plain sums."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from heddle_sim.toolchain.cocotb_runner import bench_parameters

CYCLES = 300


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def root_is_the_sum(dut):
    """New numbers every cycle, extreme ones often; the root shows their sum ``depth`` cycles later, without overflow."""
    width, depth = bench_parameters()["width"], bench_parameters()["depth"]
    choose = random.Random(cocotb.RANDOM_SEED)
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    Clock(dut.clk, 10, unit="ns").start()
    dut.rst.value = 0
    history, compared = [], 0
    for cycle in range(CYCLES):
        await RisingEdge(dut.clk)
        if len(history) > depth:
            got, expected = dut.root.value.to_signed(), sum(history[-1 - depth])
            assert got == expected, f"cycle {cycle}: the root must be {expected}, not {got}"
            compared += 1
        kind = choose.randrange(4)
        numbers = [low if kind == 0 else high if kind == 1 else choose.randint(low, high) for _ in range(1 << depth)]
        for index, number in enumerate(numbers):
            getattr(dut, f"i__{index}").value = number & ((1 << width) - 1)
        history.append(numbers)
    assert compared >= CYCLES - depth - 1 > 0
