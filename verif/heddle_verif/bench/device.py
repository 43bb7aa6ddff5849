"""Bench of the complete device between models of AXI that nobody here wrote: one matrix product, compared with numpy.

Writes ``figures.json`` to the folder of the run: simulated cycles and seconds from doorbell to interrupt.
"""

import json
import time
from pathlib import Path

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam
from heddle.isa.register_map import DEVICE_ID, REGISTERS, UNIFORM_WINDOW, counter_addresses
from heddle_sim.device.memory import row_pitch
from heddle_sim.kernels.planner import plan
from heddle_sim.kernels.problem import Elements, MatmulProblem, Operands, Schedule
from heddle_sim.toolchain.cocotb_process import bench_config, bench_parameters

PERIOD_NS = 10
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
    """Clock, reset and both AXI models."""
    for name in ("s_axil_awprot", "s_axil_arprot"):
        getattr(dut, name).value = 0
    cocotb.start_soon(Clock(dut.clk, PERIOD_NS, unit="ns").start())
    control = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
    memory = AxiRam(AxiBus.from_prefix(dut, "m_axi"), dut.clk, dut.rst, size=1 << 20)
    dut.rst.value = 1
    await ClockCycles(dut.clk, 8)
    dut.rst.value = 0
    await ClockCycles(dut.clk, 2)
    return control, memory


async def load(control, launch):
    """Program and uniform registers."""
    await control.write_dword(REGISTERS["program_address"][0], 0)
    for word in launch.program.words:
        for shift in (0, 32, 64, 96):
            await control.write_dword(REGISTERS["program_data"][0], word >> shift & 0xFFFFFFFF)
    for number, value in launch.uniform.items():
        await control.write_dword(UNIFORM_WINDOW + 4 * number, value)


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
    control, memory = await start(dut)
    assert await control.read_dword(REGISTERS["id"][0]) == DEVICE_ID
    a, b = operands(m, n, k, parameters["seed"])
    addresses = [0, len(image(a)) + 4096 & ~4095]
    addresses.append(addresses[1] + len(image(b)) + 4096 & ~4095)
    memory.write(addresses[0], image(a))
    memory.write(addresses[1], image(b))
    problem = MatmulProblem(m, n, k, Elements(b_signed=False), schedule=Schedule(1, 1, "k-outer"))
    launch, = plan(cfg, problem).launches(Operands(*addresses))
    await load(control, launch)
    await control.write_dword(REGISTERS["interrupt"][0], 3)
    await control.write_dword(REGISTERS["control"][0], 1)
    begun = time.perf_counter()
    cycles = await until_interrupt(dut)
    seconds = time.perf_counter() - begun
    await RisingEdge(dut.clk)

    assert await control.read_dword(REGISTERS["error_code"][0]) == 0
    counted = await control.read_dword(counter_addresses()["cycles"])
    assert abs(counted - cycles) < 64
    pitch = row_pitch(n, 4)
    c = np.frombuffer(memory.read(addresses[2], m * pitch), np.uint8).reshape(m, pitch)[:, : 4 * n].copy().view(np.int32)
    assert np.array_equal(c, a.astype(np.int32) @ b.T.astype(np.int32))
    Path(FIGURES).write_text(json.dumps({"cycles": cycles, "seconds": seconds}))
