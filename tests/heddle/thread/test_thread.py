"""The thread unit: benches of the ALU and of the unit, and the golden model against one thread at a time in plain Python."""

from types import SimpleNamespace

import numpy as np
import pytest
from heddle import Config, load_config
from heddle.interfaces.layouts import ThreadKind, thread_operation_layout
from heddle.isa.encoding import ACCESS_BYTES, GUARD_ALWAYS, Access, AluFunction, CompareFunction, Space, Swizzle
from heddle.isa.error_codes import ErrorCode
from heddle.lib.alu import Alu
from heddle.thread.shared_lsu import SharedLsu
from heddle.thread.unit import ThreadUnit
from heddle_sim.golden.thread import ThreadState, alu, compare, execute
from heddle_sim.toolchain.cocotb_runner import run_bench
from heddle_verif.variants.bench_cases import bench_cases, half_of

MIDDLE = Config(name="middle", threads=16, dot=8, thread_slots=16, axi_data_bits=128, shared_memory_kib=8, factor_words=64,
                instruction_words=64, axi_reads=8, axi_writes=4)
WIDE = Config(name="wide", threads=32, dot=16, thread_slots=8, axi_data_bits=512, shared_memory_kib=16, factor_words=64,
              instruction_words=64, axi_address_bits=20, axi_reads=8, axi_writes=4)
NARROW = Config(name="narrow", threads=8, dot=4, thread_slots=2, axi_data_bits=64, shared_memory_kib=4, factor_words=64,
                instruction_words=64, axi_reads=8, axi_writes=4, thread_queue=2, shared_writes=1)
CONFIGS = {
    "tiny": load_config("tiny"),
    "narrow": NARROW,
    "single": NARROW.replace(name="single", thread_slots=1, dot=8, factor_words=32),
    "middle": MIDDLE,
    "wide": WIDE,
    "far": NARROW.replace(name="far", thread_slots=1, dot=8, factor_words=32, fetch_words=1, far_registers=True),
    "output": load_config("tiny").replace(name="output", threads=16, sparse=False, thread_slots=4, thread_multipliers=4, output_stage=True),
}
PART = ("profile=all|dependent|every_place|gather_cycles|shared_words|halves|load_behind|"
        "gathered_places/access=(V4|V2|B32)|errors|stores_in_flight|start_and_stop")


@pytest.mark.smoke
def test_alu(simulator, seed):
    result = run_bench(Alu(), bench="heddle_verif.bench.alu", simulator=simulator, seed=seed)
    assert result["tests"] == 23


@pytest.mark.smoke
@bench_cases("hold=0.3|reset_under_way|cycles_of", "tiny", "narrow", "single", "middle", "wide", rare=("middle", "wide"))
def test_shared_lsu(name, test_filter, simulator, seed):
    cfg = CONFIGS[name]
    result = run_bench(SharedLsu(cfg), bench="heddle_verif.bench.shared_lsu", cfg=cfg, simulator=simulator, seed=seed,
                       test_filter=test_filter, parameters=half_of(test_filter))
    assert result["tests"] == (11 if test_filter else 19)


@bench_cases(PART, *CONFIGS, rare=("middle", "wide"))
def test_unit(name, test_filter, simulator, seed):
    result = run_bench(ThreadUnit(CONFIGS[name]), bench="heddle_verif.bench.thread", cfg=CONFIGS[name], simulator=simulator, seed=seed,
                       test_filter=test_filter, parameters=half_of(test_filter))
    assert result["tests"] == (20 if test_filter else 29)


# -- the golden model -----------------------------------------------------------------------

def signed(value, bits=32):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


PLAIN_ALU = {
    AluFunction.ADD: lambda a, b: a + b, AluFunction.SUB: lambda a, b: a - b, AluFunction.AND: lambda a, b: a & b,
    AluFunction.OR: lambda a, b: a | b, AluFunction.XOR: lambda a, b: a ^ b, AluFunction.SHL: lambda a, b: a << b % 32,
    AluFunction.SHR: lambda a, b: a >> b % 32, AluFunction.SAR: lambda a, b: signed(a) >> b % 32,
    AluFunction.MIN: lambda a, b: min(signed(a), signed(b)), AluFunction.MAX: lambda a, b: max(signed(a), signed(b)),
    AluFunction.MOV: lambda a, b: b, AluFunction.SEL: lambda a, b: a, AluFunction.MUL: lambda a, b: a * b,
    AluFunction.MULH: lambda a, b: signed(a) * signed(b) >> 32,
}
PLAIN_COMPARE = {"EQ": "__eq__", "NE": "__ne__", "LT": "__lt__", "LE": "__le__", "GT": "__gt__", "GE": "__ge__"}


def test_golden_functions():
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 1 << 32, (2, 500), np.uint32)
    b[:100] = a[:100]
    b[100:200] = rng.integers(0, 70, 100)
    for function in PLAIN_ALU:
        expected = [PLAIN_ALU[function](x, y) & 0xFFFFFFFF for x, y in zip(a.tolist(), b.tolist())]
        assert alu(function, a, b).tolist() == expected, function
    for function in CompareFunction:
        method = getattr(int, PLAIN_COMPARE[function.name])
        assert compare(function, 1, a, b).tolist() == [method(x, y) for x, y in zip(a.tolist(), b.tolist())]
        assert compare(function, 0, a, b).tolist() == [method(signed(x), signed(y)) for x, y in zip(a.tolist(), b.tolist())]


def operation(swizzle=Swizzle.NONE, **fields):
    """An operation as the golden model takes it."""
    layout = thread_operation_layout(NARROW)
    values = layout.const(fields)
    return SimpleNamespace(**{name: getattr(values, name) for name in layout.members} | {"swizzle": swizzle})


@pytest.mark.parametrize("access", list(Access))
@pytest.mark.parametrize(("space", "swizzle"), [(Space.GLOBAL, Swizzle.NONE), *((Space.SHARED, mode) for mode in Swizzle)])
def test_golden_accesses(access, space, swizzle):
    """Each thread reads and writes its place; in a swizzled tile bits from 7 on exchange as many from 4 on."""
    def place(address):
        for bit in range(swizzle.value):
            address ^= (address >> 7 + bit & 1) << 4 + bit
        return address

    cfg = NARROW
    rng = np.random.default_rng(access.value)
    state = ThreadState.create(cfg, 4096)
    for array, top in ((state.registers, 1 << 32), (state.shared, 256), (state.memory, 256)):
        array[:] = rng.integers(0, top, array.shape, array.dtype)
    state.predicates[2] = [1, 1, 0, 1, 1, 0, 1, 1]
    size = ACCESS_BYTES[access]
    state.registers[:, 7] = rng.permutation(cfg.threads) * size
    memory = state.shared if space is Space.SHARED else state.memory
    fields = {"access": access, "space": space, "a": 7, "value": 960, "guard": 2, "swizzle": swizzle}
    before = state.registers.copy()
    assert execute(state, operation(kind=ThreadKind.LOAD, dst=12, **fields)) == []
    for thread in range(cfg.threads):
        address = place(960 + int(before[thread, 7]))
        value = int.from_bytes(memory[address:address + size].tobytes(), "little")
        if access in (Access.S8, Access.S16):
            value = signed(value, 8 * size) & 0xFFFFFFFF
        for number in range(max(1, size // 4)):
            loaded = value >> 32 * number & 0xFFFFFFFF
            assert state.registers[thread, 12 + number] == (loaded if state.predicates[2][thread] else before[thread, 12 + number])
    contents = memory.copy()
    assert execute(state, operation(kind=ThreadKind.STORE, c=20, **fields)) == []
    for thread in np.flatnonzero(state.predicates[2]).tolist():
        address = place(960 + int(before[thread, 7]))
        value = sum(int(before[thread, 20 + number]) << 32 * number for number in range(4)) & ((1 << 8 * size) - 1)
        contents[address:address + size] = list(value.to_bytes(size, "little"))
    assert (contents == memory).all()


def test_golden_errors():
    """The lowest wrong thread is reported; groups of two threads before its own store, a load writes nothing."""
    cfg = NARROW
    state = ThreadState.create(cfg, 4096)
    state.registers[:, 7] = np.arange(cfg.threads) * 4
    state.registers[5, 7] += 2
    state.registers[6, 7] = cfg.shared_bytes
    state.registers[:, 8] = 0x01010101
    fields = {"access": Access.B32, "space": Space.SHARED, "a": 7, "guard": GUARD_ALWAYS, "pc": 9}
    for kind in (ThreadKind.STORE, ThreadKind.LOAD):
        errors = execute(state, operation(kind=kind, c=8, dst=9, **fields))
        assert [(e.code, e.pc, e.operand) for e in errors] == [(ErrorCode.MISALIGNED, 9, 22)]
    assert np.flatnonzero(state.shared).tolist() == list(range(16))
    assert not state.registers[:, 9].any()
    state.registers[5, 7] = cfg.shared_bytes + 4
    errors = execute(state, operation(kind=ThreadKind.LOAD, dst=9, **fields))
    assert [(e.code, e.operand) for e in errors] == [(ErrorCode.OUT_OF_RANGE, cfg.shared_bytes + 4)]
