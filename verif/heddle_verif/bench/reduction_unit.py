"""Bench of the reduction unit, bit for bit against the golden model."""

from collections import Counter, deque

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from heddle.isa.encoding import Reduction
from heddle.isa.tensor_descriptor import FLOAT_FORMATS, FORMAT_BYTES, TensorFormat
from heddle.isa.tensor_rules import REDUCTION_FORMATS
from heddle.l2.reduction_unit import ReductionUnit, reducer_latency
from heddle_sim.golden.reductions import reduce_elements
from heddle_sim.toolchain.cocotb_process import bench_config

from ..fixture import Bench

FRACTION_BITS = {TensorFormat.F16: 10, TensorFormat.BF16: 7, TensorFormat.F32: 23, TensorFormat.F32_FTZ: 23}


def special_bits(format):
    """Elements at which something changes: ends of ranges, zeros, infinities, NaNs, subnormal numbers."""
    bits = 8 * FORMAT_BYTES[format]
    top = 1 << bits - 1
    if format not in FRACTION_BITS:
        return [0, 1, 2, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2, 0xFFFFFFFF & (2 * top - 1), 1 << bits // 2]
    one = 1 << FRACTION_BITS[format]                # the smallest normal number
    infinity = (top - 1) ^ (one - 1)
    sizes = [0, 1, 2, one >> 1, one - 1, one, one + 1, 2 * one - 1, 2 * one, infinity - 1, infinity - one, infinity, infinity + 1,
             top - 1, (infinity >> 1) & ~(one - 1), ((infinity >> 1) & ~(one - 1)) - 1]
    return [sign | size for size in sizes for sign in (0, top)]


def near_pair(rng, format):
    """Floating-point numbers whose exponents are close, with many zeros in the fraction: ties and cancellation."""
    fraction, bits = FRACTION_BITS[format], 8 * FORMAT_BYTES[format]
    exponent = int(rng.integers(0, 1 << bits - 1 - fraction))
    pair = []
    for _ in range(2):
        field = min(max(exponent + int(rng.integers(-3, 4)) * int(rng.integers(0, fraction // 3 + 2)), 0), (1 << bits - 1 - fraction) - 1)
        low = int(rng.integers(0, 1 << fraction)) & -1 << int(rng.integers(0, fraction + 1)) & (1 << fraction) - 1
        pair.append(int(rng.integers(0, 2)) << bits - 1 | field << fraction | low)
    return pair


def elements(rng, format, count):
    """Old and new elements as bytes."""
    size = FORMAT_BYTES[format]
    special = special_bits(format)
    pairs = []
    for _ in range(count):
        kind = rng.random()
        if kind < 0.3:
            pair = [special[int(rng.integers(len(special)))] for _ in range(2)]
        elif kind < 0.75 and format in FRACTION_BITS:
            pair = near_pair(rng, format)
        else:
            pair = [int.from_bytes(rng.bytes(size), "little") for _ in range(2)]
        if kind > 0.97:
            pair[1] = pair[0] if kind > 0.985 else pair[0] ^ 1 << 8 * size - 1
        pairs.append(pair)
    return [np.frombuffer(b"".join(pair[side].to_bytes(size, "little") for pair in pairs), np.uint8) for side in range(2)]


def choices(cfg):
    return [(reduction, format) for reduction, formats in REDUCTION_FORMATS.items() for format in sorted(formats, key=lambda f: f.value)
            if cfg.reduction_floats or format not in FLOAT_FORMATS]


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def equals_golden(dut):
    """Every reduction of every format it is defined for, in any order, with pauses of the whole pipeline."""
    bench = Bench(dut, ReductionUnit(bench_config()))
    await bench.start()
    cfg, rng = bench.cfg, bench.rng
    latency, cases, inside, compared = reducer_latency(cfg), choices(cfg), deque(), Counter()
    enabled, entering = False, None
    while sum(compared.values()) < bench.parameters["beats"]:
        await RisingEdge(dut.clk)
        if len(inside) == latency:
            case, old, new, expected = inside[0]
            check(case, old, new, expected, int(dut.result.value).to_bytes(cfg.axi_bytes, "little"))
            compared[case] += 1
            bench.progress()
        if enabled:
            inside.append(entering)
            if len(inside) > latency:
                inside.popleft()
        case = cases[int(rng.integers(len(cases)))] if rng.random() < 0.97 else (Reduction.NONE, TensorFormat(int(rng.integers(0, 13))))
        old, new = elements(rng, case[1], cfg.axi_bytes // FORMAT_BYTES[case[1]])
        entering = (case, old, new, new if case[0] == Reduction.NONE else reduce_elements(*case, old, new))
        enabled = bool(rng.random() < 0.9)
        dut.enable.value = int(enabled)
        dut.old.value, dut.new.value = (int.from_bytes(side.tobytes(), "little") for side in (old, new))
        dut.reduction.value, dut.format.value = case[0].value, case[1].value
    bench.finish()
    missing = [case for case in cases if not compared[case]]
    assert not missing, f"not compared: {missing}"


def check(case, old, new, expected, got):
    if got == expected.tobytes():
        return
    reduction, format = case
    size = FORMAT_BYTES[format]
    for start in range(0, len(got), size):
        a, b, want, result = (int.from_bytes(bytes(side[start:start + size]), "little") for side in (old, new, expected, got))
        assert result == want, f"{reduction.name} {format.name} of {a:#x} and {b:#x} must be {want:#x}, not {result:#x}"
