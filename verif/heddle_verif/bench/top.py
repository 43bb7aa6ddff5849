"""Bench of the complete device: kernels and random programs, errors through the registers, a memory that does not answer."""

import itertools

import cocotb
import numpy as np
from heddle.constants import UNIFORM_REGISTERS
from heddle.control.run_control import STUCK_CYCLES
from heddle.isa.compiled_offsets import OFFSET_BITS
from heddle.isa.encoding import GUARD_ALWAYS, Opcode
from heddle.isa.error_codes import ErrorCode
from heddle.isa.register_map import DEVICE_ID
from heddle.top import Top
from heddle_sim.device.memory import row_pitch
from heddle_sim.functional.simulator import FunctionalSimulator
from heddle_sim.isa import assemble
from heddle_sim.isa.fields import pack
from heddle_sim.kernels.planner import plan
from heddle_sim.kernels.problem import Elements, MatmulProblem, Operands, Schedule
from heddle_sim.toolchain.cocotb_process import bench_config

from heddle_verif.agents.axi_host import AxiHost
from heddle_verif.fixture import Bench
from heddle_verif.stimulus.program_texts import fill_program, random_program

MEMORY_BYTES = 1 << 16
NONE = (ErrorCode.NONE, 0, 0)
SHAPES = [(1, 1, 1), (7, 9, 15), (17, 8, 33)]


async def prepared(dut, stalls=0.3):
    """The device after reset, and the functional simulator on an equal memory."""
    bench = Bench(dut, Top(bench_config()), idle_limit=None)     # runs have a limit of their own
    host = AxiHost(bench, MEMORY_BYTES, stalls)
    await bench.start()
    await host.reset()
    golden = FunctionalSimulator(bench_config(), host.rng.integers(0, 256, MEMORY_BYTES, np.uint8))
    host.ram.write(0, golden.state.memory.tobytes())
    return host, golden


async def fill(host, golden):
    """Give the state that outlives a reset, and earlier tests, the same value in device and simulator."""
    program = assemble(fill_program(bench_config(), 0x2000), bench_config())
    uniform = {number: int(host.rng.integers(1 << 32)) for number in range(UNIFORM_REGISTERS)}
    assert golden.run(program, uniform=uniform).ok
    assert await host.run(program.words, uniform) == NONE


def image(matrix):
    """Bytes of a matrix with its rows padded to 16 bytes."""
    rows, columns = matrix.shape
    padded = np.zeros((rows, row_pitch(columns, 1)), np.uint8)
    padded[:, :columns] = matrix.view(np.uint8)
    return padded.tobytes()


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(shape=range(len(SHAPES)), stalls=[0.0, 0.5])
async def matrix_product(dut, shape, stalls):
    """The kernel on random operands; the bytes around the result stay as they are."""
    host, golden = await prepared(dut, stalls)
    assert await host.read("id") == DEVICE_ID
    m, n, k = SHAPES[shape]
    a, b = host.rng.integers(-128, 128, (m, k), np.int8), host.rng.integers(0, 256, (n, k), np.uint8)
    addresses = [0x1000, 0x3000, 0x8000]
    for address, matrix in zip(addresses, (a, b)):
        host.ram.write(address, image(matrix))
    before = host.memory
    problem = MatmulProblem(m, n, k, Elements(b_signed=False), schedule=Schedule(1, 1, "k-outer"))
    launch, = plan(bench_config(), problem).launches(Operands(*addresses))
    assert await host.run(launch.program.words, launch.uniform) == NONE
    pitch, after = row_pitch(n, 4), host.memory
    rows = after[addresses[2]:][:m * pitch].reshape(m, pitch)
    assert np.array_equal(rows[:, :4 * n].copy().view(np.int32), a.astype(np.int32) @ b.T.astype(np.int32))
    after[addresses[2]:][:m * pitch] = before[addresses[2]:][:m * pitch]
    assert np.array_equal(after, before)
    counters = await host.counters()
    assert counters["matrix_steps"] >= n * -(-m // bench_config().threads)


@cocotb.test(timeout_time=8, timeout_unit="ms")
@cocotb.parametrize(stalls=[0.0, 0.4, 0.8])
async def random_programs(dut, stalls):
    """Programs one after the other; memory, and with it all registers and shared memory, as the functional simulator says."""
    host, golden = await prepared(dut, 0)
    await fill(host, golden)
    for number in range(host.bench.rounds(3)):
        program = assemble(random_program(host.rng, bench_config(), 100, memory_bytes=MEMORY_BYTES), bench_config())
        result = golden.run(program)
        host.stall(0)
        await host.load(program.words)
        host.stall(stalls)
        await host.start()
        await host.until_interrupt()
        assert await host.outcome() == (NONE, False)
        different = np.flatnonzero(host.memory != golden.state.memory)
        assert not len(different), f"program {number}: {different[:8]} differ\n{program.source}"
        assert (await host.counters())["instructions"] == result.instructions


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def short_program(dut):
    """Loads, copies, mm and stores of one short program; for the slower simulator."""
    host, golden = await prepared(dut)
    text = """
        segment.shared.b8.d1 ur1, 0x400
        segment.global.b32.d1 ur2, 0x4000
        umov ur8, 0x400
        umov ur9, 0x1230
        copy_block.shared.global ur8, ur9, 32, b2
        barrier.expect b2, 512
        mov r256, %tid
        shl r257, r256, 4
        barrier.wait b2
        ld.v4 r260, ur1:rf257:0
        mm8.sa.ub.k3.z r8, ur1:rf257:0, r260
        st.b32 ur2:rf256:0, r8
        setp.gt p1, r9, 0
        @p1 st.b32 ur2:rf256:64, r9
        halt"""
    program = assemble(text, bench_config())
    assert golden.run(program).ok
    assert await host.run(program.words) == NONE
    assert np.array_equal(host.memory, golden.state.memory)
    assert (await host.counters())["matrix_instructions"] == 1


def wrong(**values):
    """A word that the assembler would refuse."""
    return f".word {pack({'guard': GUARD_ALWAYS, 'b_source': 2} | values):#x}"


def wrong_programs(cfg):
    """Name to (code, text): programs that end with that error."""
    beyond, far = cfg.shared_bytes, MEMORY_BYTES + 0x1000
    offsets = "mov r256, %tid\nshl r257, r256, 4\nmov r258, 0"
    copies = "umov ur1, {}\numov ur2, {}\ncopy_block.{} ur1, ur2, 3{}\nwait"
    code = ErrorCode
    return {
        "illegal instruction": (code.ILLEGAL_INSTRUCTION, wrong(opcode=0xEE)),
        "empty memory": (code.ILLEGAL_INSTRUCTION, "nop\n.word 0"),
        "register": (code.ILLEGAL_OPERAND, wrong(opcode=Opcode.THREAD_ALU, dst=cfg.registers)),
        "mm of global memory": (code.UNSUPPORTED, "segment.global.b8.d1 ur3, 0\nmm8.sa.sb r0, ur3:rf257:0, r256"),
        "swizzled copy": (code.UNSUPPORTED, wrong(opcode=Opcode.COPY_BLOCK, **{"modifiers.copy.swizzle": 1})),
        "multicast on one core": (code.UNSUPPORTED, wrong(opcode=Opcode.COPY_BLOCK, **{"modifiers.copy.multicast": 1})),
        "branch": (code.PROGRAM_COUNTER, wrong(opcode=Opcode.BRANCH, imm=1 << 20)),
        "shared misaligned": (code.MISALIGNED, f"{offsets}\nsegment.shared.b8.d1 ur3, 2\nld.b32 r4, ur3:rf257:0"),
        "global misaligned": (code.MISALIGNED, f"{offsets}\nsegment.global.b8.d1 ur3, 0\n@p0 ld.v4 r4, ur3:rf257:1\nst.v4 ur3:rf257:8, r4"),
        "mm misaligned": (code.MISALIGNED, f"{offsets}\nsegment.shared.b8.d1 ur3, 1\nmm8.sa.sb r0, ur3:rf257:0, r260"),
        "copy misaligned": (code.MISALIGNED, copies.format(0, 8, "shared.global", "")),
        "beyond shared memory": (code.OUT_OF_RANGE, f"{offsets}\nsegment.shared.b8.d1 ur3, {beyond - 32}\nst.b32 ur3:rf257:0, r4"),
        "mm beyond shared memory": (code.OUT_OF_RANGE, f"{offsets}\nsegment.shared.b8.d1 ur3, {beyond - 32}\n"
                                                       "mm8.sa.sb r0, ur3:rf257:0, r260"),
        "mm beyond its offsets": (code.OFFSET_RANGE, f"{offsets}\numov ur3, {cfg.compiled_offsets << OFFSET_BITS}\n"
                                                     "segment.shared.b8.d1 ur3, 0\nmm8.ow.sa.sb r0, ur3:rf257:0, r260"),
        "mm beyond its panel": (code.PANEL_RANGE, f"{offsets}\nsegment.shared.b8.d1.128B ur3, 0\nmm8.sa.sb.k5 r0, ur3:rf257:0, r260"),
        "copy beyond shared memory": (code.OUT_OF_RANGE, copies.format(beyond - 32, 0, "shared.global", ", b1")),
        "columns beyond r255": (code.PRODUCT_RANGE, f"{offsets}\nsegment.shared.b8.d1 ur3, 0\nmm8.sa.sb r252, ur3:rf257:0, r260\n"
                                                    "segment.global.b32.d1 ur4, 0x2000\nst.b32 ur4:rf256:0, r253"),
        "load of no memory": (code.AXI_READ, f"{offsets}\nsegment.global.b8.d1 ur3, {far}\nld.b32 r4, ur3:rf258:0\nwait"),
        "copy of no memory": (code.AXI_READ, copies.format(0, far, "shared.global", ", b3")),
        "store to no memory": (code.AXI_WRITE, f"{offsets}\nsegment.global.b8.d1 ur3, {far}\nst.b32 ur3:rf258:0, r4\nwait"),
        "copy to no memory": (code.AXI_WRITE, copies.format(far, 0, "global.shared", ", b3")),
        "bytes that never come": (code.BARRIER_UNDERRUN, copies.format(0, 0, "shared.global", ", b3") +
                                  "\nbarrier.expect b3, 64\nbarrier.wait b3"),
        "more bytes than a barrier counts": (code.BARRIER_EXPECT, "nop\n" + "barrier.expect b14, 0x80000000\n" * 2 + "barrier.wait b14"),
        "bytes that nobody expects": (code.BARRIER_OVERRUN, copies.format(0, 0, "shared.global", ", b15") + "\nbarrier.wait b15"),
        "trap": (code.TRAP, "nop\ntrap 0x89ABCDEF"),
    }


@cocotb.test(timeout_time=8, timeout_unit="ms")
async def errors(dut):
    """Every error class: code, program counter and operand of the functional simulator; then a program that works."""
    host, golden = await prepared(dut, 0.2)
    await fill(host, golden)
    good = assemble("mov r300, %tid\nsegment.global.b32.d1 ur5, 0x3000\nadd r9, r300, ur20\nst.b32 ur5:rf300:0, r9\nhalt", bench_config())
    programs = wrong_programs(bench_config())
    for number, (name, (code, text)) in enumerate(programs.items()):
        program = assemble(text + "\nhalt", bench_config())
        expected = golden.run(program)
        assert expected.error is code, (name, expected)
        error = await host.run(program.words)
        assert error == (expected.error, expected.pc, expected.operand), f"{name}: {error}, not {expected}"
        await host.counters()
        golden.run(good, uniform={20: number})
        assert await host.run(good.words, {20: number}) == NONE, name
        assert np.array_equal(host.memory, golden.state.memory), name
    # Those of tensors, of sparse jobs, of waits that are limited and of several cores have tests of their own.
    elsewhere = {code for code in ErrorCode if code.name.startswith(("TENSOR_", "SPARSE_"))} | {
        ErrorCode.WAIT_TIMEOUT, ErrorCode.MULTICAST_MASK, ErrorCode.RECURRENT_IMAGE}
    assert {code for code, _ in programs.values()} == set(ErrorCode) - elsewhere - {ErrorCode.NONE, ErrorCode.TIMEOUT}


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def timeouts(dut):
    """A program without an end stops at its limit; one that waits for a memory without answers is stuck until reset."""
    host, golden = await prepared(dut, 0.0)
    endless = assemble("again: uadd ur1, ur1, 1\nmov r1, ur1\nbra again", bench_config())
    code, place, limit = await host.run(endless.words, timeout=700)
    assert (code, limit) == (ErrorCode.TIMEOUT, 700)
    assert place < 3
    cycles = (await host.counters())["cycles"]
    assert 700 <= cycles < 800, cycles
    assert await host.run(assemble("halt", bench_config()).words, timeout=700) == NONE

    host.ram.read_if.r_channel.set_pause_generator(itertools.repeat(True))
    reads = assemble("umov ur1, 0\ncopy_block.shared.global ur1, ur1, 4\nwait\nhalt", bench_config())
    await host.load(reads.words)
    await host.start(timeout=300)
    await host.until_interrupt()
    error, stuck = await host.outcome()
    assert error == (ErrorCode.TIMEOUT, 2, 300), "at the wait"
    assert stuck
    cycles = (await host.counters())["cycles"]
    assert STUCK_CYCLES + 300 <= cycles < STUCK_CYCLES + 320, cycles
    await host.write("interrupt", 3)
    await host.write("control", 1)
    assert await host.read("status") & 1 == 0, "a device that is stuck must not start"
    await host.reset()
    host.stall(0)
    await host.reset()
    assert await host.run(reads.words) == NONE
