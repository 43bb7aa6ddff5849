"""Functional simulator: whole programs against numpy, and what a run keeps."""

import operator

import numpy as np
import pytest
from heddle import load_config
from heddle.isa.encoding import UNIFORM_FUNCTIONS, AluFunction, CompareFunction
from heddle.isa.error_codes import ErrorCode
from heddle_sim.functional.simulator import FunctionalSimulator
from heddle_sim.isa import assemble

pytestmark = pytest.mark.smoke

CFG = load_config("tiny")


def simulator(cfg=CFG, memory_bytes=4096, seed=1):
    memory = np.random.default_rng(seed).integers(0, 256, memory_bytes, dtype=np.uint8)
    return FunctionalSimulator(cfg, memory)


def run(text, sim=None, **options):
    sim = sim or simulator()
    return sim, sim.run(assemble(text), **options)


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


@pytest.mark.parametrize("function", [function for function in UNIFORM_FUNCTIONS if function is not AluFunction.MOV])
def test_alu_functions_threads_and_uniform(function):
    rng = np.random.default_rng(function.value)
    corners = [0, 1, 31, 32, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
    a = np.array([*corners, rng.integers(1 << 32)], np.uint32)
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
        AluFunction.SAR: signed_a >> b % 32, AluFunction.MIN: min(signed_a, signed_b),
        AluFunction.MAX: max(signed_a, signed_b),
    }[function]
    return result % (1 << 32)


def test_products_selection_and_bytes():
    corners = [0, 1, 255, 256, 0x7FFFFFFF, 0x80000000, 0xFFFFFF00, 0xFFFFFFFF]
    a = np.array(corners, np.uint32)
    signed = a.view(np.int32).tolist()
    for b in (*corners, 0x12345678):
        sim = simulator()
        sim.state.registers[:, 4:8] = a[:, None] + np.arange(4, dtype=np.uint32)
        sim.state.registers[:, 9] = b
        _, result = run(f"""
            mul r20, r4, {b}
            mulh r21, r4, r9
            mulh.u r22, r4, r9
            setp.lt p1, r4, 0
            sel r23, p1, r4, {b}
            sel r24, !p1, r4, ur1
            mulh.v4 r28, r4, ur1
            @p1 mov.v4 r32, 3
            narrow.s8 r40, r4, {b % 32}
            @!p1 narrow.u8 r41, r4, ur2
            mulh.v4 r12, r4, ur1
            narrow.s8 r42, r12, {b % 32}
            scale.s8 r43, r4, {b}, {b % 32}
            halt
        """, sim, uniform={1: b, 2: b % 32})
        assert result.ok
        word, wide = sim.state.registers, [signed[t] * (b - (b >> 31 << 32)) for t in range(8)]
        for t in range(8):
            assert word[t, 20] == wide[t] % (1 << 32) and word[t, 21] == (wide[t] >> 32) % (1 << 32)
            assert word[t, 22] == int(a[t]) * b >> 32
            assert word[t, 23] == (a[t] if signed[t] < 0 else b) and word[t, 24] == (a[t] if signed[t] >= 0 else b)
            assert word[t, 28] == word[t, 21] and word[t, 32:36].tolist() == [3 * (signed[t] < 0)] * 4
            assert word[t, 42] == word[t, 43]
            for number, (low, high) in ((40, (-128, 127)), (41, (0, 255))):
                numbers = [int(value) for value in word[t, 4:8].view(np.int32)]
                bytes_ = [min(max((value * 2 + (1 << b % 32)) >> (b % 32 + 1), low), high) % 256 for value in numbers]
                packed = sum(byte << 8 * index for index, byte in enumerate(bytes_))
                assert word[t, number] == (packed if number == 40 or signed[t] >= 0 else 0), (b, t, number)


@pytest.mark.parametrize("function", list(CompareFunction))
def test_compares(function):
    compare = {"EQ": operator.eq, "NE": operator.ne, "LT": operator.lt, "LE": operator.le, "GT": operator.gt,
               "GE": operator.ge}[function.name]
    values = [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
    name = function.name.lower()
    for a in values:
        for b in values:
            sim, result = run(f"""
                mov r0, {a}
                setp.{name} p0, r0, {b}
                setp.{name}.u p1, r0, ur1
                umov ur0, {a}
                usetp.{name} up3, ur0, {b}
                usetp.{name}.u up4, ur0, ur1
                halt
            """, uniform={1: b})
            assert result.ok
            signed = [value - (1 << 32) if value >> 31 else value for value in (a, b)]
            assert sim.state.predicates[0].tolist() == [compare(*signed)] * CFG.threads
            assert sim.state.predicates[1].tolist() == [compare(a, b)] * CFG.threads
            assert sim.uniform_predicates[3:5].tolist() == [compare(*signed), compare(a, b)]


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


@pytest.mark.parametrize("access", ["u8", "u16", "b32", "v2", "v4"])
@pytest.mark.parametrize(("swizzle", "bits"), [("32B", 1), ("64B", 2), ("128B", 3)])
def test_swizzled_segments(access, swizzle, bits):
    """Loads find through a swizzled segment what a copy put there, and stores put it where a copy finds it."""
    sim = simulator()
    size = {"u8": 1, "u16": 2, "b32": 4, "v2": 8, "v4": 16}[access]
    store = {"u8": "b8", "u16": "b16"}.get(access, access)
    sim.state.memory[:] = np.random.default_rng(bits).integers(0, 256, len(sim.state.memory))
    before = sim.state.memory.copy()
    _, result = run(f"""
        umov ur1, 384
        umov ur2, 1024
        copy_block.shared.global.{swizzle} ur1, ur2, 72, b0
        barrier.expect b0, 1152
        barrier.wait b0
        segment.shared.b8.{swizzle} ur3, 384
        mov r4, %tid
        mul r4, r4, 144
        ld.{access} r8, ur3:r4:0
        st.{store} ur3:r4:16, r8
        copy_block.global.shared.{swizzle} ur2, ur1, 72
        halt
    """, sim)
    assert result.ok
    tile, expected = before[1024:1024 + 1152], before[1024:1024 + 1152].copy()
    for thread in range(CFG.threads):
        found = sim.state.registers[thread, 8:12].astype("<u4").tobytes()[:size]
        assert found == tile[144 * thread:][:size].tobytes()
        expected[144 * thread + 16:][:size] = tile[144 * thread:][:size]
        place = 384 + 144 * thread
        place ^= (place >> 7 & (1 << bits) - 1) << 4
        assert sim.state.shared[place:place + size].tobytes() == found
    assert (sim.state.memory[1024:1024 + 1152] == expected).all()


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


def test_barriers_do_not_wrap():
    """Bytes that add up to a multiple of 2^32 are not none; rounds end with their waits."""
    most = (1 << 31) - 1
    _, result = run("barrier.expect b0, ur1\nbarrier.expect b0, ur1\nbarrier.wait b0\nhalt", uniform={1: -(1 << 31)})
    assert (result.error, result.pc, result.operand) == (ErrorCode.BARRIER_EXPECT, 2, 0)
    sim = simulator()
    sim.state.memory, sim._execute_copy = np.zeros(16, np.uint8), lambda operation, state: None
    rounds = f"barrier.expect b0, {most - 15}\ncopy_block.shared.global ur0, ur0, {most // 16}, b0\nbarrier.wait b0\n" * 5
    assert sim.run(assemble(rounds + "halt")).ok
    copies = "copy_block.shared.global ur0, ur0, 0x8000000, b0\n" * 2
    assert sim.run(assemble(copies + "barrier.wait b0\nhalt")).error is ErrorCode.BARRIER_OVERRUN


@pytest.mark.parametrize(("destination", "source"), [("shared", "global"), ("global", "shared")])
def test_copy_rows(destination, source):
    sim = simulator()
    spaces = {"shared": sim.state.shared, "global": sim.state.memory}
    sim.state.shared[:] = np.random.default_rng(6).integers(0, 256, len(sim.state.shared))
    expected = {space: memory.copy() for space, memory in spaces.items()}
    for row in range(5):
        expected[destination][1024 + 64 * row:1056 + 64 * row] = expected[source][48 + 16 * row:80 + 16 * row]
    _, result = run(f"""
        barrier.expect b7, {2 * 5 * 16}
        copy_rows.{destination}.{source} ur0, ur2, ur4, b7
        barrier.wait b7
        umov ur5, 0
        copy_rows.{source}.{source} ur0, ur2, ur4, b7
        barrier.wait b7
        halt
    """, sim, uniform=dict(enumerate([1024, 64, 48, 16, 2, 5])))     # address and pitch twice, blocks and rows
    assert result.ok, result.message()
    assert result.counts["copied_bytes"] == 160
    assert all((spaces[space] == expected[space]).all() for space in spaces)


def test_copy_rows_stops_at_a_wrong_row():
    sim = simulator()
    sim.state.memory[:] = 1
    uniform = dict(enumerate([CFG.shared_bytes - 64, 32, 16, 0xFFFFFFF0, 1, 4]))
    _, result = run("copy_rows.shared.global ur0, ur2, ur4", sim, uniform=uniform)
    assert (result.error, result.operand) == (ErrorCode.OUT_OF_RANGE, CFG.shared_bytes)
    assert sim.state.shared[-64:].reshape(4, 16)[:, 0].tolist() == [1, 0, 1, 0]


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
