"""Bench of the complete device between models of AXI that nobody here wrote: one matrix product, compared with numpy.

Writes ``figures.json`` to the folder of the run: simulated cycles and seconds from doorbell to interrupt. With parameter ``checked`` false
no channel pauses and the rules of the channels are not checked, so that the seconds are those of the simulation.
"""

import json
import time
from pathlib import Path

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, RisingEdge
from heddle.isa.error_codes import ErrorCode
from heddle.isa.register_map import DEVICE_ID
from heddle.top import Top
from heddle_sim.device.memory import row_pitch
from heddle_sim.kernels.planner import plan
from heddle_sim.kernels.problem import Elements, MatmulProblem, Operands, Schedule
from heddle_sim.toolchain.cocotb_process import bench_config, bench_parameters

from heddle_verif.agents.axi_host import AxiHost
from heddle_verif.fixture import PERIOD_NS, Bench

MEMORY_BYTES = 1 << 20
STALLS = 0.3
LIMIT_CYCLES = 200_000
FIGURES = "figures.json"


def operands(m, n, k, seed):
    """Signed A (m, k) and unsigned B (n, k)."""
    generator = np.random.default_rng(seed)
    return generator.integers(-128, 128, (m, k), np.int8), generator.integers(0, 256, (n, k), np.uint8)


def image(matrix):
    """Bytes of a matrix with its rows padded to 16 bytes."""
    rows, columns = matrix.shape
    padded = np.zeros((rows, row_pitch(columns, 1)), np.uint8)
    padded[:, :columns] = matrix.view(np.uint8)
    return padded.tobytes()


async def start(dut):
    """The device after reset, between both AXI models."""
    checked = bench_parameters().get("checked", True)
    bench = Bench(dut, Top(bench_config()), idle_limit=None, checked=checked)
    host = AxiHost(bench, MEMORY_BYTES, STALLS if checked else 0.0)
    await bench.start()
    await host.reset()
    return host


async def until_interrupt(dut):
    """Cycles until the interrupt is up."""
    cycles = 0
    while not dut.interrupt.value:
        await ClockCycles(dut.clk, 16)
        cycles += 16
        assert cycles < LIMIT_CYCLES, f"interrupt must come within {LIMIT_CYCLES} cycles"
    return cycles


@cocotb.test(timeout_time=PERIOD_NS * 2 * LIMIT_CYCLES, timeout_unit="ns")
async def matrix_product(dut):
    """The product of parameters ``m``, ``n``, ``k``; the hardware's own cycle counter agrees with the clock."""
    cfg, parameters = bench_config(), bench_parameters()
    m, n, k = (parameters[name] for name in "mnk")
    host = await start(dut)
    assert await host.read("id") == DEVICE_ID
    a, b = operands(m, n, k, parameters["seed"])
    addresses = [0, len(image(a)) + 4096 & ~4095]
    addresses.append(addresses[1] + len(image(b)) + 4096 & ~4095)
    host.ram.write(addresses[0], image(a))
    host.ram.write(addresses[1], image(b))
    problem = MatmulProblem(m, n, k, Elements(b_signed=False), schedule=Schedule(1, 1, "k-outer"))
    launch, = plan(cfg, problem).launches(Operands(*addresses))
    await host.load(launch.program.words, launch.uniform)
    await host.start()
    begun = time.perf_counter()
    cycles = await until_interrupt(dut)
    seconds = time.perf_counter() - begun
    await RisingEdge(dut.clk)

    assert await host.outcome() == ((ErrorCode.NONE, 0, 0), False)
    assert abs((await host.counters())["cycles"] - cycles) < 64
    pitch = row_pitch(n, 4)
    c = host.memory[addresses[2]:][:m * pitch].reshape(m, pitch)[:, : 4 * n].copy().view(np.int32)
    assert np.array_equal(c, a.astype(np.int32) @ b.T.astype(np.int32))
    Path(FIGURES).write_text(json.dumps({"cycles": cycles, "seconds": seconds}))
