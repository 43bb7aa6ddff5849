"""Bench of the ALU against its golden model."""

import cocotb
import numpy as np
from heddle.isa.encoding import UNIFORM_FUNCTIONS, CompareFunction
from heddle.lib.alu import Alu
from heddle_sim.golden.thread import alu, compare

from ..fixture import Bench

CORNERS = [0, 1, 2, 3, 15, 16, 30, 31, 32, 33, 63, 64, 0x7FFFFFFE, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xAAAAAAAA, 0xFFFFFFE0,
           0xFFFFFFFE, 0xFFFFFFFF]


def operands(rng, count):
    """Every pair of corner values, random pairs, and random numbers with every shift amount."""
    pairs = [(a, b) for a in CORNERS for b in CORNERS]
    pairs += [(int(a), shift) for shift in range(32) for a in rng.integers(0, 1 << 32, 2)]
    pairs += rng.integers(0, 1 << 32, (count, 2)).tolist()
    pairs += [(a, a) for a in rng.integers(0, 1 << 32, 8).tolist()]
    return np.array(pairs, np.uint64).astype(np.uint32)


async def begin(dut):
    """The bench, and operands a and b."""
    bench = Bench(dut, Alu())
    await bench.start()
    return bench, *operands(bench.rng, 200).T


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(function=list(UNIFORM_FUNCTIONS))
async def functions(dut, function):
    """Every function on corner and random values."""
    bench, a, b = await begin(dut)
    dut.function.value = function.value
    for x, y, expected in zip(a.tolist(), b.tolist(), alu(function, a, b).tolist(), strict=True):
        dut.a.value, dut.b.value = x, y
        await bench.settle()
        result = dut.result.value.to_unsigned()
        assert result == expected, f"{function.name} of {x:#x} and {y:#x} is {result:#x}, not {expected:#x}"


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(comparison=list(CompareFunction), unsigned=[0, 1])
async def comparisons(dut, comparison, unsigned):
    """Every comparison on corner and random values, whatever the function."""
    bench, a, b = await begin(dut)
    functions = list(UNIFORM_FUNCTIONS)
    dut.compare.value, dut.unsigned.value = comparison.value, unsigned
    for x, y, expected in zip(a.tolist(), b.tolist(), compare(comparison, unsigned, a, b).tolist(), strict=True):
        dut.a.value, dut.b.value = x, y
        dut.function.value = bench.random.choice(functions).value
        await bench.settle()
        assert bool(dut.compare_result.value) == expected, f"{x:#x} {comparison.name} {y:#x}, unsigned {unsigned}"
