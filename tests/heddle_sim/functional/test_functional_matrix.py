"""Functional simulator: ``mm`` and whole matrix products against numpy."""

import numpy as np
import pytest
from heddle import Config, load_config
from heddle.isa.encoding import LoopOrder, Swizzle
from heddle.isa.error_codes import ErrorCode
from heddle_sim.functional.simulator import FunctionalSimulator
from heddle_sim.functional.unit_operations import multiply
from heddle_sim.golden.matrix import MatrixOperation
from heddle_sim.golden.matrix import multiply as golden_multiply
from heddle_sim.isa import assemble

pytestmark = pytest.mark.smoke

CFG = load_config("tiny")


def run(text, sim):
    return sim.run(assemble(text))


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


WIDE = Config(name="wide", threads=16, dot=16, factor_words=64)


@pytest.mark.parametrize("cfg", [CFG, WIDE], ids=lambda cfg: cfg.name)
@pytest.mark.parametrize("signs", ["sa.sb", "sa.ub", "ua.sb", "ua.ub"])
@pytest.mark.parametrize("slices", [1, 3, 16])
def test_mm_against_numpy(cfg, signs, slices):
    rng = np.random.default_rng(slices)
    sim = FunctionalSimulator(cfg)
    a, b = place_matrices(sim, cfg.threads, slices, rng)
    before = rng.integers(0, 1 << 32, (cfg.threads, 256), dtype=np.uint32)
    before[:, 200] = np.arange(cfg.threads)
    sim.state.registers[:, :256] = before
    offset = cfg.registers - 1
    sim.state.registers[:, offset] = np.arange(cfg.threads) * slices
    result = run(f"""
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
    sim = FunctionalSimulator(cfg)
    sim.state.registers[:, 256:320] = (value >> 8 or value) * 0x01010101
    sim.state.shared[:] = value & 0xFF
    result = run(f"segment.shared.b8 ur0, 0\nmov r383, 0\nmm8.{signs}.k16 r0, ur0:rf383:0, r256\nhalt", sim)
    assert result.ok
    product = {255: 255 * 255, 128: 128 * 128, 0x80FF: -128 * 255}[value] * 256
    assert (sim.state.registers[:, :8].view(np.int32) == product).all()


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("signs", ["sa.sb", "sa.ub", "ua.sb", "ua.ub"])
def test_mm16(signs, passes):
    """Products of 16-bit integers of either signedness, modulo 2^32 [S0.15]."""
    cfg, rng, slices = CFG.replace(wide_lanes=passes == 1), np.random.default_rng(3), 5
    sim = FunctionalSimulator(cfg)
    kinds = ["<i2" if signs[index] == "s" else "<u2" for index in (0, 3)]
    a, b = (rng.integers(0, 1 << 16, (cfg.threads, slices * cfg.dot // 2)).astype("<u2") for _ in range(2))
    a[0], b[0] = 0x8000, 0x8000
    a[1], b[1] = 0xFFFF, 0xFFFF
    sim.state.registers[:, 256:256 + slices * cfg.numbers_per_word] = a.view("<u4")
    sim.state.shared[:b.nbytes] = b.view(np.uint8).reshape(-1)
    offset = cfg.registers - 1
    sim.state.registers[:, offset] = np.arange(cfg.threads) * slices * cfg.dot // 2
    result = run(f"segment.shared.b16 ur4, 0\nmm16.{signs}.k{slices}.z r8, ur4:rf{offset}:0, r256\nhalt", sim)
    expected = a.view(kinds[0]).astype(np.int64) @ b.view(kinds[1]).astype(np.int64).T
    assert result.ok
    assert (sim.state.registers[:, 8:8 + cfg.threads] == expected.astype(np.uint32)).all()
    assert result.counts["matrix_steps"] == cfg.threads * slices * passes


def test_mm16_needs_its_lanes():
    result = run("mm16 r0, ur0:rf256:0, r256\nhalt", FunctionalSimulator(CFG.replace(mm16=False)))
    assert result.error is ErrorCode.UNSUPPORTED


def merge(rng, cfg):
    """Random merges that the configuration allows, none in a third of all cases."""
    if rng.integers(4) == 0:
        return {"lane_sum": 1}
    while True:
        ka, kb = (int(value) for value in rng.integers(0, 4, 2) * (rng.integers(3) > 0))
        if cfg.threads > 8 or ka < 2 or kb < 2:
            return {"ka": ka, "ka_interleaved": int(rng.integers(2)), "kb": kb,
                    "kb_destination": int(rng.integers(kb + 1))}


@pytest.mark.parametrize("name", ["tiny", "small"])
def test_mm_against_the_golden_model(name):
    """Registers, errors and steps of random operations, wrong addresses and ranges included, are those step by step."""
    cfg = load_config(name)
    rng = np.random.default_rng(11)
    codes = set()
    for count in range(200):
        sim = FunctionalSimulator(cfg)
        registers = sim.state.registers
        registers[:] = rng.integers(0, 1 << 32, registers.shape, dtype=np.uint32)
        sim.state.shared[:] = rng.integers(0, 256, cfg.shared_bytes)
        shift, offset, slices = int(rng.integers(5)), cfg.registers - 1, int(rng.integers(1, 17))
        step = max(cfg.dot >> shift, 1) if count % 4 else 1
        registers[:, offset] = rng.integers(0, 64, cfg.threads) * step + (cfg.shared_bytes >> shift) * (count % 8 == 1)
        operation = MatrixOperation(
            columns=rng.integers(0, 2, cfg.threads) > 0, lanes=rng.integers(0, 2, cfg.threads) > 0,
            product=int(rng.integers(230, 256) if count % 3 == 0 else rng.integers(200)), k_length=slices - 1,
            base=cfg.dot * int(rng.integers(8)), factor_word=int(rng.integers(cfg.factor_words - slices)),
            offset_register=offset - 256, element_shift=shift,
            a_signed=count & 1, b_signed=count >> 1 & 1, order=LoopOrder(count >> 2 & 1), zero=count >> 3 & 1,
            int16=count >> 4 & 1, swizzle=Swizzle(int(rng.integers(4) * rng.integers(2))), **merge(rng, cfg))
        factors = registers.view(np.uint8)[:, 1024:].reshape(cfg.threads, cfg.factor_words, cfg.dot)
        expected = golden_multiply(registers[:, :256].view(np.int32), factors, sim.state.shared, operation)
        factors = factors.copy()
        errors, steps = multiply(sim.state, operation)
        assert (registers[:, :256].view(np.int32) == expected.products).all()
        assert (registers.view(np.uint8)[:, 1024:] == factors.reshape(cfg.threads, -1)).all()
        assert errors == [(code, operand) for code, _, operand in expected.errors]
        assert steps == len(expected.steps) * cfg.passes(1 + operation.int16)
        codes |= {code for code, _ in errors} or {ErrorCode.NONE}
    assert codes == {ErrorCode.NONE, ErrorCode.PRODUCT_RANGE, ErrorCode.MISALIGNED, ErrorCode.OUT_OF_RANGE, ErrorCode.PANEL_RANGE}


def test_mm_lane_mask_and_product_range():
    sim = FunctionalSimulator(CFG)
    a, b = place_matrices(sim, CFG.threads, 1, np.random.default_rng(9))
    sim.state.registers[:, 300] = np.arange(CFG.threads) * CFG.dot
    sim.state.registers[:, 300][6] = 3          # of a column beyond r255: not fetched, no error of its address
    result = run("""
        mov r0, %tid
        setp.ge p0, r0, 4
        @p0 lanemask
        mm8.z r250, ur0:rf300:0, r256
        setp.lt p1, r0, 6
        lanemask
        @p1 mm8 r250, ur0:rf300:0, r256
        halt
    """, sim)
    assert (result.error, result.pc, result.operand) == (ErrorCode.PRODUCT_RANGE, 3, 256)
    assert not result.ok and result.counts["HALT"] == 1
    product = as_numbers(a, True) @ as_numbers(b, True).T
    product[4:] *= 2
    assert (sim.state.registers[:, 250:256].view(np.int32) == product[:, :6]).all()


def matmul_program(cfg, m, n, k):
    """C = A B^T for m, n multiples of the threads and k of 16 words: A and B by rows at ur0 and ur1, C at ur2."""
    words, quads, threads = k // cfg.dot, k // 16, cfg.threads
    offset = 256 + words * cfg.numbers_per_word     # register behind the factors: row of B in words

    def repeat(count, pattern):
        return "\n".join(pattern(index) for index in range(count))

    def multiply(part):
        zero = ".z" if part == 0 else ""
        return f"mm8{zero}.k16 r64, ur3:rf{offset}:{16 * part}, r{256 + 16 * part * cfg.numbers_per_word}"

    return assemble(f"""
            segment.global.b128 ur0, ur0
            segment.global.b32 ur2, ur2
            segment.shared.b{8 * cfg.dot} ur3, 0
            mov r4, %tid
            mov r5, 0               # row of A in quads
            mov r6, 0               # row of C in elements
            mov r{offset}, 0
            {repeat(quads, lambda _: "add r5, r5, r4")}
            {repeat(n, lambda _: "add r6, r6, r4")}
            {repeat(words, lambda _: f"add r{offset}, r{offset}, r4")}
            umov ur10, {m // threads}
            umov ur13, 0
    rows:   {repeat(quads, lambda quad: f"ld.v4 r{256 + 4 * quad}, ur0:r5:{quad}")}
            umov ur11, {n // threads}
            umov ur4, ur1
            mov r7, r6
    columns:
            barrier.expect b1, {threads * k}
            copy_block.shared.global ur13, ur4, {threads * quads}, b1
            uadd ur4, ur4, {threads * k}
            barrier.wait b1
            {repeat(words // 16, multiply)}
            {repeat(threads, lambda column: f"st.b32 ur2:r7:{column}, r{64 + column}")}
            wait.matrix
            add r7, r7, {threads}
            usub ur11, ur11, 1
            usetp.gt up0, ur11, 0
            @up0 bra columns
            add r5, r5, {threads * quads}
            add r6, r6, {threads * n}
            usub ur10, ur10, 1
            usetp.gt up0, ur10, 0
            @up0 bra rows
            wait
            halt
    """, cfg)


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
