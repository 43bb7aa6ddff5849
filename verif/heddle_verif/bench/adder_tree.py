"""Bench of the reduction tree: every tap against plain sums."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from heddle_sim.toolchain.cocotb_runner import bench_parameters

CYCLES = 300


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def taps_are_sums(dut):
    """New numbers every cycle, extreme ones often; level l shows sums of ``2**l`` inputs, l cycles later, without overflow."""
    width, depth = bench_parameters()["width"], bench_parameters()["depth"]
    choose = random.Random(cocotb.RANDOM_SEED)
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    Clock(dut.clk, 10, unit="ns").start()
    dut.rst.value = 0
    history, compared = [], 0
    for cycle in range(CYCLES):
        await RisingEdge(dut.clk)
        for level in range(1, depth + 1):
            if len(history) <= level:
                continue
            numbers = history[-1 - level]
            for index in range(1 << (depth - level)):
                got = getattr(dut, f"taps_{level}__{index}").value.to_signed()
                expected = sum(numbers[index << level:(index + 1) << level])
                assert got == expected, f"cycle {cycle}, level {level}, tap {index}: {got}, expected {expected}"
                compared += 1
        kind = choose.randrange(4)
        numbers = [low if kind == 0 else high if kind == 1 else choose.randint(low, high) for _ in range(1 << depth)]
        for index, number in enumerate(numbers):
            getattr(dut, f"i__{index}").value = number & ((1 << width) - 1)
        history.append(numbers)
    assert compared >= (CYCLES - depth - 1) * depth > 0
