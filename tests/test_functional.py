"""Functional simulator: whole programs against numpy, every error class with code, program counter and operand."""

import numpy as np
import pytest
from heddle import Config, load_config
from heddle.errors import ErrorCode
from heddle.isa.checks import CHECKS
from heddle.isa.layout import (
    AluFunction,
    CompareFunction,
    Opcode,
    OperandSource,
    Special,
)
from heddle_sim.functional import FunctionalSimulator
from heddle_sim.isa import assemble
from heddle_sim.isa.fields import FIELDS, pack
from heddle_sim.program import Program

CFG = load_config("tiny")


def simulator(cfg=CFG, memory_bytes=4096, seed=1):
    memory = np.random.default_rng(seed).integers(0, 256, memory_bytes, dtype=np.uint8)
    return FunctionalSimulator(cfg, memory)


def run(text, sim=None, **options):
    sim = sim or simulator()
    return sim, sim.run(assemble(text), **options)


def assert_error(result, code, pc, operand):
    assert (result.error, result.pc, result.operand) == (code, pc, operand), result.message()


# -- control, uniform and thread instructions ---------------------------------------------------

def test_loop_with_uniform_counter():
    sim, result = run("""
            umov ur1, 0
            umov ur2, 10
            mov r0, 0
    loop:   uadd ur1, ur1, 3
            add r0, r0, ur1
            usub ur2, ur2, 1
            usetp.gt up0, ur2, 0
            @up0 bra loop
            halt
    """)
    assert result.ok and result.error is ErrorCode.NONE
    assert result.instructions == 3 + 10 * 5 + 1
    assert result.counts["UNIFORM_ALU"] == 22 and result.counts["BRANCH"] == 10
    assert sim.uniform[1] == 30 and (sim.state.registers[:, 0] == sum(range(3, 31, 3))).all()


def test_guards_select_threads():
    sim, result = run("""
        mov r1, %tid
        mov r2, 0
        setp.lt p1, r1, 3
        @p1 mov r2, 5
        @!p1 add r2, r1, 100
        @!p7 mov r2, 0
        @p1 setp.ge.u p1, r1, 2
        @p1 mov r3, 1
        halt
    """)
    assert result.ok
    assert sim.state.registers[:, 2].tolist() == [5, 5, 5, 103, 104, 105, 106, 107]
    assert sim.state.registers[:, 3].tolist() == [0, 0, 1, 0, 0, 0, 0, 0]


def test_uniform_guards():
    sim, result = run("""
        usetp.eq up2, ur0, 1
        @up2 umov ur1, 7
        @!up2 umov ur2, 8
        @up2 trap 3
        @up2 halt
        @up2 segment.global.b8.d1 ur1, 0
        @up2 barrier.expect b0, 16
        @up2 copy_block.shared.global ur0, ur0, 5
        barrier.wait b0
        umov ur3, %threads
        umov ur4, %dot
        umov ur5, %cores
        umov ur6, %core
        umov ur7, %cycle
        mov r4, %dot
        halt
    """, uniform={0: 0, 6: 9, 7: 9})
    assert result.ok
    assert sim.uniform[:8].tolist() == [0, 0, 8, CFG.threads, CFG.dot, 1, 0, 0]
    assert (sim.state.registers[:, 4] == CFG.dot).all()
    assert "copied_bytes" not in result.counts


@pytest.mark.parametrize("function", [function for function in AluFunction if function is not AluFunction.MOV])
def test_alu_functions_threads_and_uniform(function):
    rng = np.random.default_rng(function.value)
    corners = [0, 1, 31, 32, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
    a = np.array(corners + [rng.integers(1 << 32)], np.uint32)
    for b in [*corners, int(rng.integers(1 << 32))]:
        sim = simulator()
        sim.state.registers[:, 260] = a
        name = function.name.lower()
        _, result = run(f"{name} r300, r260, {b}\n{name} r301, r260, ur9\nu{name} ur10, ur8, {b}\nhalt", sim,
                        uniform={8: a[7], 9: b})
        assert result.ok
        expected = [reference(function, int(value), b) for value in a]
        assert sim.state.registers[:, 300].tolist() == expected
        assert sim.state.registers[:, 301].tolist() == expected
        assert sim.uniform[10] == expected[7]


def reference(function, a, b):
    """``function`` on Python integers."""
    signed_a, signed_b = (value - (1 << 32) if value >> 31 else value for value in (a, b))
    result = {
        AluFunction.ADD: a + b, AluFunction.SUB: a - b, AluFunction.AND: a & b, AluFunction.OR: a | b,
        AluFunction.XOR: a ^ b, AluFunction.SHL: a << b % 32, AluFunction.SHR: a >> b % 32,
        AluFunction.SAR: signed_a >> b % 32, AluFunction.MIN: min(signed_a, signed_b), AluFunction.MAX: max(signed_a, signed_b),
    }[function]
    return result % (1 << 32)


@pytest.mark.parametrize("function", list(CompareFunction))
def test_compares(function):
    compare = {"EQ": "__eq__", "NE": "__ne__", "LT": "__lt__", "LE": "__le__", "GT": "__gt__", "GE": "__ge__"}[function.name]
    values = [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
    name = function.name.lower()
    for a in values:
        for b in values:
            sim, result = run(f"mov r0, {a}\nsetp.{name} p0, r0, {b}\nsetp.{name}.u p1, r0, ur1\numov ur0, {a}\n"
                              f"usetp.{name} up3, ur0, {b}\nusetp.{name}.u up4, ur0, ur1\nhalt", uniform={1: b})
            assert result.ok
            signed = [value - (1 << 32) if value >> 31 else value for value in (a, b)]
            assert sim.state.predicates[0].tolist() == [getattr(*signed[:1], compare)(signed[1])] * CFG.threads
            assert sim.state.predicates[1].tolist() == [getattr(a, compare)(b)] * CFG.threads
            assert sim.uniform_predicates[3:5].tolist() == [getattr(signed[0], compare)(signed[1]), getattr(a, compare)(b)]


# -- loads, stores and copies -------------------------------------------------------------------

WIDTHS = [("u8", "b8", "u1"), ("s8", "b8", "i1"), ("u16", "b16", "u2"), ("s16", "b16", "i2"), ("b32", "b32", "u4")]


@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize(("load", "store", "kind"), WIDTHS)
def test_loads_and_stores(space, load, store, kind):
    sim = simulator()
    memory = sim.state.shared if space == "shared" else sim.state.memory
    memory[:1024] = np.random.default_rng(3).integers(0, 256, 1024)
    size = np.dtype(kind).itemsize
    before = memory[:1024].copy().view("<" + kind)
    _, result = run(f"""
        segment.{space}.b{8 * size} ur1, {4 * size}
        mov r280, %tid
        ld.{load} r6, ur1:rf280:2
        shl r281, r280, 1
        st.{store} ur1:rf281:100, r6
        halt
    """, sim)
    assert result.ok
    threads = np.arange(CFG.threads)
    loaded = before[4 + threads + 2]
    assert (sim.state.registers[:, 6] == loaded.astype(np.int64).astype(np.uint32)).all()
    expected = before.copy()
    expected[4 + 2 * threads + 100] = loaded
    assert (memory[:1024] == expected.view(np.uint8)).all()


@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize("words", [2, 4])
def test_vector_loads_and_stores(space, words):
    sim = simulator()
    memory = sim.state.shared if space == "shared" else sim.state.memory
    memory[:512] = np.random.default_rng(4).integers(0, 256, 512)
    before = memory[:512].copy().view("<u4").reshape(-1, words)
    _, result = run(f"""
        segment.{space}.b{32 * words} ur2, 0
        mov r1, %tid
        setp.ne p0, r1, 2
        ld.v{words} r264, ur2:r1:0
        @p0 ld.v{words} r8, ur2:r1:1
        st.v{words} ur2:r1:16, r8
        halt
    """, sim)
    assert result.ok
    active = np.arange(CFG.threads) != 2
    assert (sim.state.registers[:, 264:264 + words] == before[:CFG.threads]).all()
    expected = before[1:CFG.threads + 1] * active[:, None]
    assert (sim.state.registers[:, 8:8 + words] == expected).all()
    assert (memory[:512].view("<u4").reshape(-1, words)[16:16 + CFG.threads] == expected).all()


def test_addresses_wrap():
    sim, result = run("""
        segment.global.b32 ur0, 0xfffffff0
        mov r0, 6
        ld.b32 r1, ur0:r0:-1
        halt
    """)
    assert result.ok
    assert sim.state.registers[0, 1] == sim.state.memory[4:8].view("<u4")[0]


@pytest.mark.parametrize(("destination", "source"), [("shared", "global"), ("global", "shared")])
def test_copies_and_barriers(destination, source):
    sim = simulator()
    spaces = {"shared": sim.state.shared, "global": sim.state.memory}
    sim.state.shared[:] = np.random.default_rng(5).integers(0, 256, len(sim.state.shared))
    data = spaces[source][64:64 + 48].copy()
    _, result = run(f"""
        barrier.expect b3, 48
        umov ur1, 1024
        umov ur2, 64
        copy_block.{destination}.{source} ur1, ur2, 2, b3
        umov ur3, 1056
        umov ur4, 96
        umov ur5, 1
        copy_block.{destination}.{source} ur3, ur4, ur5, b3
        copy_block.{destination}.{source} ur4, ur4, 0, b3
        barrier.wait b3
        wait.copy
        barrier.wait b15
        halt
    """, sim)
    assert result.ok and result.counts["copied_bytes"] == 48
    assert (spaces[destination][1024:1072] == data).all()


# -- mm -----------------------------------------------------------------------------------------

def place_matrices(sim, columns, slices, rng):
    """Random A in the factor file from r256 and B in shared memory from 0; returns them as uint8."""
    cfg = sim.cfg
    a = rng.integers(0, 256, (cfg.threads, slices * cfg.dot), dtype=np.uint8)
    b = rng.integers(0, 256, (columns, slices * cfg.dot), dtype=np.uint8)
    numbers = slices * cfg.numbers_per_word
    sim.state.registers[:, 256:256 + numbers] = a.view("<u4")
    sim.state.shared[:b.size] = b.ravel()
    return a, b


def as_numbers(values, signed):
    return (values.view(np.int8) if signed else values).astype(np.int64)


@pytest.mark.parametrize("cfg", [CFG, Config(name="wide", threads=16, dot=16, factor_words=64)], ids=lambda cfg: cfg.name)
@pytest.mark.parametrize("signs", ["sa.sb", "sa.ub", "ua.sb", "ua.ub"])
@pytest.mark.parametrize("slices", [1, 3, 16])
def test_mm_against_numpy(cfg, signs, slices):
    rng = np.random.default_rng(slices)
    sim = simulator(cfg)
    a, b = place_matrices(sim, cfg.threads, slices, rng)
    before = rng.integers(0, 1 << 32, (cfg.threads, 256), dtype=np.uint32)
    before[:, 200] = np.arange(cfg.threads)
    sim.state.registers[:, :256] = before
    offset = cfg.registers - 1
    sim.state.registers[:, offset] = np.arange(cfg.threads) * slices
    _, result = run(f"""
        segment.shared.b{8 * cfg.dot} ur4, 0
        setp.ne p2, r200, 5
        @p2 mm8.{signs}.k{slices} r8, ur4:rf{offset}:0, r256
        mm8.{signs}.k{slices}.z.kin r100, ur4:rf{offset}:0, r256
        halt
    """, sim)
    assert result.ok, result.message()
    product = as_numbers(a, "sa" in signs) @ as_numbers(b, "sb" in signs).T
    expected = before.astype(np.int64)
    expected[:, 8:8 + cfg.threads] += product
    expected[:, 13] = before[:, 13]
    expected[:, 100:100 + cfg.threads] = product
    assert (sim.state.registers[:, :256] == expected.astype(np.uint32)).all()
    assert result.counts["matrix_steps"] == (2 * cfg.threads - 1) * slices


@pytest.mark.parametrize(("signs", "value"), [("ua.ub", 255), ("sa.sb", 128), ("sa.ub", 0x80FF)])
def test_mm_extreme_values_are_exact(signs, value):
    cfg = Config(name="wide", threads=8, dot=16, factor_words=32)
    sim = simulator(cfg)
    sim.state.registers[:, 256:320] = (value >> 8 or value) * 0x01010101
    sim.state.shared[:] = value & 0xFF
    _, result = run(f"segment.shared.b8 ur0, 0\nmov r383, 0\nmm8.{signs}.k16 r0, ur0:rf383:0, r256\nhalt", sim)
    assert result.ok
    product = {255: 255 * 255, 128: 128 * 128, 0x80FF: -128 * 255}[value] * 256
    assert (sim.state.registers[:, :8].view(np.int32) == product).all()


def test_mm_lane_mask_and_product_range():
    sim = simulator()
    a, b = place_matrices(sim, CFG.threads, 1, np.random.default_rng(9))
    sim.state.registers[:, 300] = np.arange(CFG.threads) * CFG.dot
    sim.state.registers[:, 300][6] = 3          # of a column beyond r255: not fetched, no error of its address
    _, result = run("""
        mov r0, %tid
        setp.ge p0, r0, 4
        @p0 lanemask
        mm8.z r250, ur0:rf300:0, r256
        setp.lt p1, r0, 6
        lanemask
        @p1 mm8 r250, ur0:rf300:0, r256
        halt
    """, sim)
    assert_error(result, ErrorCode.PRODUCT_RANGE, 3, 256)
    assert not result.ok and result.counts["HALT"] == 1
    product = as_numbers(a, True) @ as_numbers(b, True).T
    product[4:] *= 2
    assert (sim.state.registers[:, 250:256].view(np.int32) == product[:, :6]).all()


def test_a_stopping_error_replaces_product_range():
    _, result = run("mov r300, 0\nmm8 r255, ur0:rf300:0, r256\ntrap 4\nhalt")
    assert_error(result, ErrorCode.TRAP, 2, 4)


def matmul_program(cfg, m, n, k):
    """C = A B^T for m, n multiples of the threads and k of 16 words: A and B by rows at ur0 and ur1, C at ur2."""
    words = k // cfg.dot
    quads = k // 16
    lines = ["mov r4, %tid", f"umov ur10, {m // cfg.threads}"]
    offset = 256 + words * cfg.numbers_per_word
    lines += ["mov r5, 0", f"mov r{offset}, 0"]
    lines += ["add r5, r5, r4"] * quads
    lines += [f"add r{offset}, r{offset}, r4"] * words + ["mov r6, 0"] + ["add r6, r6, r4"] * n
    lines += ["segment.global.b128 ur0, ur0", "segment.global.b32 ur2, ur2", f"segment.shared.b{8 * cfg.dot} ur3, 0", "rows:"]
    lines += [f"ld.v4 r{256 + 4 * quad}, ur0:r5:{quad}" for quad in range(quads)]
    lines += [f"umov ur11, {n // cfg.threads}", "umov ur4, ur1", "umov ur13, 0", "mov r7, r6", "columns:"]
    lines += [f"barrier.expect b1, {cfg.threads * k}", f"copy_block.shared.global ur13, ur4, {cfg.threads * quads}, b1",
              f"uadd ur4, ur4, {cfg.threads * k}", "barrier.wait b1"]
    for start in range(0, words, 16):
        zero = ".z" if start == 0 else ""
        lines.append(f"mm8{zero}.k16 r64, ur3:rf{offset}:{start}, r{256 + start * cfg.numbers_per_word}")
    lines += ["wait.matrix"] + [f"st.b32 ur2:r7:{column}, r{64 + column}" for column in range(cfg.threads)]
    lines += [f"add r7, r7, {cfg.threads}", "usub ur11, ur11, 1", "usetp.gt up0, ur11, 0", "@up0 bra columns"]
    lines += [f"add r5, r5, {cfg.threads * quads}", f"add r6, r6, {cfg.threads * n}"]
    lines += ["usub ur10, ur10, 1", "usetp.gt up0, ur10, 0", "@up0 bra rows", "wait", "halt"]
    return assemble("\n".join(lines), cfg.replace(instruction_words=4096))


@pytest.mark.parametrize(("name", "m", "n", "k"), [("tiny", 16, 24, 128), ("base", 512, 512, 512)])
def test_matmul_program(name, m, n, k):
    cfg = load_config(name).replace(instruction_words=4096)
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-128, 128, (rows, k), dtype=np.int8) for rows in (m, n))
    memory = np.zeros(a.size + b.size + 4 * m * n, np.uint8)
    memory[:a.size], memory[a.size:a.size + b.size] = a.view(np.uint8).ravel(), b.view(np.uint8).ravel()
    sim = FunctionalSimulator(cfg, memory)
    result = sim.run(matmul_program(cfg, m, n, k), uniform={0: 0, 1: a.size, 2: a.size + b.size})
    assert result.ok, result.message()
    c = memory[a.size + b.size:].view("<i4").reshape(m, n)
    assert (c == a.astype(np.int64) @ b.astype(np.int64).T).all()
    assert result.counts["matrix_steps"] * cfg.threads * cfg.dot == m * n * k


# -- errors -------------------------------------------------------------------------------------

ERRORS = [
    ("nop\n.word 0x77\nhalt", ErrorCode.ILLEGAL_INSTRUCTION, 1, 0x77),
    ("nop", ErrorCode.ILLEGAL_INSTRUCTION, 1, 0),
    ("nop\ntrap 0xdeadbeef", ErrorCode.TRAP, 1, 0xDEADBEEF),
    ("bra 512", ErrorCode.PROGRAM_COUNTER, 0, 512),
    ("nop\nbra 0xffffffff", ErrorCode.PROGRAM_COUNTER, 1, 0xFFFFFFFF),
    ("segment.global.b32.d2 ur0, 0", ErrorCode.UNSUPPORTED, 0, 1 | 2 << 1 | 1 << 4),
    ("segment.global.b32 ur9, 0\nmm8 r0, ur9:rf256:0, r256", ErrorCode.UNSUPPORTED, 1, 9),
    ("mov r1, 2\nld.b32 r1, ur0:r1:0", ErrorCode.MISALIGNED, 1, 2),
    ("mov r1, %tid\nst.v4 ur0:r1:16, r4", ErrorCode.MISALIGNED, 1, 17),
    ("mov r1, %tid\nld.u8 r4, ur0:r1:0x3fff", ErrorCode.OUT_OF_RANGE, 1, 0x4000),
    ("mov r256, 2\nmm8 r0, ur0:rf256:0, r256", ErrorCode.MISALIGNED, 1, 2),
    ("mov r256, 0x4000\nmm8 r0, ur0:rf256:0, r256", ErrorCode.OUT_OF_RANGE, 1, 0x4000),
    ("mov r256, 0x3ffc\nmm8.k2 r0, ur0:rf256:0, r256", ErrorCode.OUT_OF_RANGE, 1, 0x4000),
    ("segment.global.b8 ur1, 4096\nmov r1, %tid\nld.u8 r1, ur1:r1:-1", ErrorCode.AXI_READ, 2, 4096),
    ("segment.global.b8 ur1, 4096\nmov r1, 0\nst.b8 ur1:r1:0, r1", ErrorCode.AXI_WRITE, 2, 4096),
    ("umov ur1, 8\ncopy_block.shared.global ur1, ur0, 1", ErrorCode.MISALIGNED, 1, 8),
    ("umov ur1, 8\ncopy_block.shared.global ur0, ur1, 1", ErrorCode.MISALIGNED, 1, 8),
    ("copy_block.shared.shared ur0, ur0, 0", ErrorCode.UNSUPPORTED, 0, 0),
    ("copy_block.global.global ur0, ur0, 1", ErrorCode.UNSUPPORTED, 0, 1),
    ("umov ur1, 0x3ff0\ncopy_block.shared.global ur1, ur0, 2", ErrorCode.OUT_OF_RANGE, 1, 0x4000),
    ("umov ur1, 4080\ncopy_block.shared.global ur0, ur1, 2", ErrorCode.AXI_READ, 1, 4096),
    ("umov ur1, 4096\ncopy_block.global.shared ur1, ur0, 1", ErrorCode.AXI_WRITE, 1, 4096),
    ("barrier.expect b2, 1\nbarrier.wait b2", ErrorCode.BARRIER_UNDERRUN, 1, 2),
    ("copy_block.shared.global ur0, ur0, 1, b5\nbarrier.wait b5", ErrorCode.BARRIER_OVERRUN, 1, 5),
    ("copy_block.shared.global.64B ur0, ur0, 1", ErrorCode.UNSUPPORTED, 0, 1 << 1 | 2 << 2),
]


@pytest.mark.parametrize(("text", "code", "pc", "operand"), ERRORS, ids=[f"{error[1].name}-{i}" for i, error in enumerate(ERRORS)])
def test_errors(text, code, pc, operand):
    sim, result = run(text)
    assert_error(result, code, pc, operand)
    assert not result.ok and f"instruction {pc}" in result.message()
    assert sim.run(assemble("halt")).ok         # the machine stays usable


def test_global_out_of_range():
    cfg = CFG.replace(axi_address_bits=16)
    sim, result = run("segment.global.b32 ur1, 0x10000\nmov r1, 0\nld.b32 r1, ur1:r1:0", simulator(cfg, 1 << 16))
    assert_error(result, ErrorCode.OUT_OF_RANGE, 2, 0x10000)


def test_timeout_and_program_end():
    _, result = run("loop: bra loop", instruction_limit=1000)
    assert_error(result, ErrorCode.TIMEOUT, 0, 1000)
    assert result.instructions == 1000
    cfg = CFG.replace(instruction_words=64)
    _, result = run("nop\n" * 64, simulator(cfg))
    assert_error(result, ErrorCode.PROGRAM_COUNTER, 64, 64)
    _, result = run("nop\n" * 63 + "halt", simulator(cfg))
    assert result.ok


def test_message_names_source_line():
    _, result = run("\n  nop\n  trap 3   # here\n")
    assert result.message() == "instruction 1 (line 3: trap 3   # here): trap 3"


SOURCES = {"b_source": OperandSource.IMMEDIATE.value}
ALU = {"opcode": Opcode.THREAD_ALU, **SOURCES}
LOAD = {"opcode": Opcode.LOAD}
STORE = {"opcode": Opcode.STORE}
MM = {"opcode": Opcode.MATRIX, "a": 256, "c": 256}
UALU = {"opcode": Opcode.UNIFORM_ALU, **SOURCES}
COPY = {"opcode": Opcode.COPY_BLOCK, **SOURCES}
ACCESS, FUNCTION, SPECIAL = "modifiers.memory.access", "modifiers.alu.function", "modifiers.alu.special"
COMPARE = "modifiers.alu.compare"
LAST = CFG.registers - 1

TCMP, UCMP, EXPECT = ({"opcode": opcode, **SOURCES} for opcode in
                      (Opcode.THREAD_COMPARE, Opcode.UNIFORM_COMPARE, Opcode.BARRIER_EXPECT))
SEGMENT, TSPECIAL, USPECIAL = {"opcode": Opcode.SEGMENT, **SOURCES}, {"opcode": Opcode.THREAD_SPECIAL}, {"opcode": Opcode.UNIFORM_SPECIAL}
SHIFT = "modifiers.segment.element_shift"

# Field values of an instruction, the field at fault, its value, and whether it is illegal with that value.
BOUNDARIES = [
    (ALU, "dst", LAST, False), (ALU, "dst", LAST + 1, True), (ALU, "a", LAST + 1, True), (ALU, "b_source", 3, True),
    (ALU | {"b_source": 0}, "b", LAST, False), (ALU | {"b_source": 0}, "b", LAST + 1, True),
    (ALU | {"b_source": 1}, "b", 63, False), (ALU | {"b_source": 1}, "b", 64, True), (ALU, "b", 4095, False),
    (ALU, FUNCTION, 10, False), (ALU, FUNCTION, 11, True),
    (TCMP, "dst", 6, False), (TCMP, "dst", 7, True),
    (TCMP, COMPARE, 6, True),
    (TSPECIAL, SPECIAL, Special.CYCLE.value, False), (TSPECIAL, SPECIAL, 6, True),
    (TSPECIAL, "dst", LAST + 1, True),
    (USPECIAL, SPECIAL, 0, True), (USPECIAL, SPECIAL, 1, False),
    (USPECIAL, "dst", 64, True),
    (UALU, "dst", 64, True), (UALU, "a", 64, True), (UALU, "b_source", 0, True), (UALU, FUNCTION, 15, True),
    (UALU | {"b_source": 1}, "b", 64, True), (UALU, "dst", 63, False),
    (UCMP, "dst", 7, True), (UCMP, COMPARE, 7, True),
    (LOAD | {ACCESS: 5}, "dst", 3, True), (LOAD | {ACCESS: 5}, "dst", 2, False), (LOAD | {ACCESS: 6}, "dst", 258, True),
    (LOAD | {ACCESS: 6}, "dst", LAST + 1, True), (LOAD | {ACCESS: 6}, "dst", LAST - 3, False), (LOAD, "a", LAST + 1, True),
    (LOAD, "b", 15, False), (LOAD, "b", 16, True), (LOAD, ACCESS, 7, True), (LOAD, ACCESS, 1, False),
    (STORE | {ACCESS: 6}, "c", 252, False), (STORE | {ACCESS: 6}, "c", 254, True), (STORE | {ACCESS: 4}, "c", 256, True),
    (STORE, ACCESS, 1, True), (STORE, ACCESS, 3, True), (STORE, ACCESS, 7, True), (STORE, "a", LAST + 1, True), (STORE, "b", 16, True),
    (MM, "dst", 256, True), (MM, "a", 255, True), (MM, "a", LAST + 1, True), (MM, "b", 16, True), (MM, "c", 252, True),
    (MM, "c", LAST, False), (MM, "c", LAST + 1, True), (MM | {"modifiers.matrix.k_length": 1}, "c", LAST, True),
    (SEGMENT, "dst", 16, True), (SEGMENT, "b_source", 0, True),
    (SEGMENT | {"b_source": 1}, "b", 64, True), (SEGMENT, SHIFT, 4, False),
    (SEGMENT, SHIFT, 5, True),
    (EXPECT, "a", 16, True), (EXPECT, "b_source", 0, True),
    ({"opcode": Opcode.BARRIER_WAIT}, "a", 16, True), ({"opcode": Opcode.BARRIER_WAIT}, "a", 15, False),
    (EXPECT | {"b_source": 1}, "b", 64, True), (TCMP, "a", LAST + 1, True), (TCMP, "b_source", 3, True),
    (TCMP | {"b_source": 0}, "b", LAST + 1, True), (UCMP, "a", 64, True), (UCMP, "b_source", 0, True),
    (UCMP | {"b_source": 1}, "b", 64, True),
    (COPY, "dst", 64, True), (COPY, "a", 64, True), (COPY, "b_source", 3, True), (COPY | {"b_source": 1}, "b", 64, True),
]


@pytest.mark.parametrize("guard", [0, 7])
@pytest.mark.parametrize(("fields", "field", "value", "illegal"), BOUNDARIES)
def test_operand_checks(fields, field, value, illegal, guard):
    """Illegal operands stop the program whatever the guard says; the operand of the error is the field."""
    word = pack({"guard": guard, **fields, field: value})
    result = simulator().run(Program([word, pack({"opcode": Opcode.HALT, "guard": 7})]))
    if not illegal:
        assert result.ok, result.message()
        return
    assert_error(result, ErrorCode.ILLEGAL_OPERAND, 0, FIELDS[field.partition(".")[0]].get(word))


def test_every_illegal_operand_check_has_a_case():
    tried = {(fields["opcode"], field.partition(".")[0]) for fields, field, _, illegal in BOUNDARIES if illegal}
    wanted = {(opcode, check.field) for opcode, checks in CHECKS.items() for check in checks
              if check.code is ErrorCode.ILLEGAL_OPERAND}
    assert wanted <= tried, wanted - tried


@pytest.mark.parametrize("field", ["element", "ka", "ka_interleaved", "kb", "kb_destination", "transpose", "lane_sum"])
def test_unsupported_mm(field):
    fields = MM | {"guard": 0, f"modifiers.matrix.{field}": 1, "modifiers.matrix.k_length": 3}
    word = pack(fields)
    assert_error(simulator().run(Program([word])), ErrorCode.UNSUPPORTED, 0, FIELDS["modifiers"].get(word))


def test_checks_are_made_in_order():
    everything = {"dst": 4095, "a": 4095, "b": 4095, "c": 4095, "b_source": 3, "modifiers": (1 << 34) - 1}
    for opcode, checks in CHECKS.items():
        if checks:
            word = pack(everything | {"opcode": opcode})
            first = checks[0].field
            operand = (1 << 32) - 1 if first == "modifiers" else everything[first]
            assert_error(simulator().run(Program([word])), checks[0].code, 0, operand)


# -- state --------------------------------------------------------------------------------------

def test_state_between_runs():
    sim, result = run("""
        mov r5, %tid
        umov ur20, 77
        segment.global.b32 ur3, 64
        setp.ge p0, r5, 0
        usetp.eq up0, ur20, 77
        @!p0 lanemask
        barrier.expect b0, 16
        mov r6, 4
        st.v4 ur0:r6:12, r4
        halt
    """)
    assert result.ok
    _, result = run("""
        @up0 trap 1
        @p0 mov r5, 99
        barrier.wait b0
        ld.b32 r7, ur3:r6:0
        ld.b32 r8, ur0:r6:16
        halt
    """, sim)
    assert result.ok
    assert sim.state.registers[:, 5].tolist() == list(range(CFG.threads)) and sim.uniform[20] == 77
    assert (sim.state.registers[:, 7] == sim.state.memory[80:84].view("<u4")[0]).all()
    assert (sim.state.registers[:, 8] == CFG.threads - 1).all() and sim.state.lane_mask.all()


def test_entry_and_instruction_memory_persist():
    sim = simulator()
    sim.load(assemble("umov ur1, 5\nhalt"), 10)
    assert sim.run(entry=10).ok and sim.uniform[1] == 5
    with pytest.raises(ValueError, match=r"^entry must be from 0 to 511, not 512$"):
        sim.run(entry=512)
    with pytest.raises(ValueError, match=r"^program must fit 512 instructions, not 2 from 511$"):
        sim.load([1, 1], 511)
    with pytest.raises(ValueError, match=r"^uniform register must be from 0 to 63, not 64$"):
        sim.run(uniform={64: 1})
    with pytest.raises(ValueError, match=r"^memory must be a one-dimensional uint8 array, not ndarray int8 \(4,\)$"):
        FunctionalSimulator(CFG, np.zeros(4, np.int8))
