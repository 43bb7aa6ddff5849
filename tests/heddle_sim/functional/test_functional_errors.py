"""Functional simulator: every error with its code, program counter and operand; every check at issue."""

import random

import numpy as np
import pytest
from heddle import load_config
from heddle.isa.encoding import INSTRUCTION_BITS, Opcode, OperandSource, Space, Special
from heddle.isa.error_codes import ErrorCode
from heddle.isa.issue_rules import CHECKS
from heddle_sim.functional.simulator import FunctionalSimulator
from heddle_sim.isa import assemble
from heddle_sim.isa.fields import FIELDS, pack
from heddle_sim.isa.program import Program

CFG = load_config("tiny").replace(copy_within=False)


def simulator(cfg=CFG, memory_bytes=4096):
    return FunctionalSimulator(cfg, np.zeros(memory_bytes, np.uint8))


def run(text, sim=None, **options):
    sim = sim or simulator()
    return sim, sim.run(assemble(text), **options)


def assert_error(result, code, pc, operand):
    assert (result.error, result.pc, result.operand) == (code, pc, operand), result.message()


# -- errors of execution ------------------------------------------------------------------------

ERRORS = [
    ("nop\n.word 0x77\nhalt", ErrorCode.ILLEGAL_INSTRUCTION, 1, 0x77),
    ("nop", ErrorCode.PROGRAM_COUNTER, 1, 1),
    ("nop\n.word 0", ErrorCode.ILLEGAL_INSTRUCTION, 1, 0),
    ("bra 1", ErrorCode.PROGRAM_COUNTER, 0, 1),
    ("nop\ntrap 0xdeadbeef", ErrorCode.TRAP, 1, 0xDEADBEEF),
    ("bra 512", ErrorCode.PROGRAM_COUNTER, 0, 512),
    ("nop\nbra 0xffffffff", ErrorCode.PROGRAM_COUNTER, 1, 0xFFFFFFFF),
    ("segment.global.b32.d2 ur0, 0", ErrorCode.UNSUPPORTED, 0, 1 | 2 << 1 | 1 << 4),
    ("segment.global.b8.32B ur0, 0", ErrorCode.UNSUPPORTED, 0, 1 | 1 << 7),
    ("segment.global.b32 ur9, 0\nmm8 r0, ur9:rf256:0, r256", ErrorCode.UNSUPPORTED, 1, 9),
    ("mov r1, 2\nld.b32 r1, ur0:r1:0", ErrorCode.MISALIGNED, 1, 2),
    ("mov r1, %tid\nst.v4 ur0:r1:16, r4", ErrorCode.MISALIGNED, 1, 17),
    ("mov r1, %tid\nld.u8 r4, ur0:r1:0x3fff", ErrorCode.OUT_OF_RANGE, 1, 0x4000),
    ("mov r256, 2\nmm8 r0, ur0:rf256:0, r256", ErrorCode.MISALIGNED, 1, 2),
    ("mov r256, 0x4000\nmm8 r0, ur0:rf256:0, r256", ErrorCode.OUT_OF_RANGE, 1, 0x4000),
    ("mov r256, 0x3ffc\nmm8.k2 r0, ur0:rf256:0, r256", ErrorCode.OUT_OF_RANGE, 1, 0x4000),
    ("segment.shared.b8.128B ur1, 0x380\nmov r256, 120\nmm8.k3 r0, ur1:rf256:0, r256", ErrorCode.PANEL_RANGE, 2, 0x400),
    ("segment.shared.b8.64B ur1, 0x380\nmov r256, 120\nmm8.kb3 r0, ur1:rf256:0, r256", ErrorCode.PANEL_RANGE, 2, 0x400),
    ("segment.shared.b8.128B ur1, 0x3f80\nmov r256, 120\nmm8.k3 r0, ur1:rf256:0, r256", ErrorCode.OUT_OF_RANGE, 2, 0x4000),
    ("segment.shared.b8.128B ur1, 0x382\nmov r1, 0\nld.b32 r1, ur1:r1:0", ErrorCode.MISALIGNED, 2, 0x382),
    ("segment.global.b8 ur1, 4096\nmov r1, %tid\nld.u8 r1, ur1:r1:-1", ErrorCode.AXI_READ, 2, 4096),
    ("segment.global.b8 ur1, 4096\nmov r1, 0\nst.b8 ur1:r1:0, r1", ErrorCode.AXI_WRITE, 2, 4096),
    ("umov ur1, 8\ncopy_block.shared.global ur1, ur0, 1", ErrorCode.MISALIGNED, 1, 8),
    ("umov ur1, 8\ncopy_block.shared.global ur0, ur1, 1", ErrorCode.MISALIGNED, 1, 8),
    ("copy_block.shared.shared ur0, ur0, 0", ErrorCode.UNSUPPORTED, 0, 0),
    ("copy_rows.shared.global.add ur0, ur0, ur0", ErrorCode.UNSUPPORTED, 0, 1 << 1 | 1 << 4),
    ("copy_block.global.global ur0, ur0, 1", ErrorCode.UNSUPPORTED, 0, 1),
    ("umov ur1, 0x3ff0\ncopy_block.shared.global ur1, ur0, 2", ErrorCode.OUT_OF_RANGE, 1, 0x4000),
    ("umov ur1, 4080\ncopy_block.shared.global ur0, ur1, 2", ErrorCode.AXI_READ, 1, 4096),
    ("umov ur1, 4096\ncopy_block.global.shared ur1, ur0, 1", ErrorCode.AXI_WRITE, 1, 4096),
    ("barrier.expect b2, 1\nbarrier.wait b2", ErrorCode.BARRIER_UNDERRUN, 1, 2),
    ("copy_block.shared.global ur0, ur0, 1, b5\nbarrier.wait b5", ErrorCode.BARRIER_OVERRUN, 1, 5),
    ("barrier.expect b2, 0x80000000\nbarrier.wait b2", ErrorCode.BARRIER_EXPECT, 1, 2),
    ("barrier.expect b2, 0x80000000\nbarrier.expect b2, 0x80000000\nbarrier.wait b2", ErrorCode.BARRIER_EXPECT, 2, 2),
    ("barrier.expect b2, 0x7fffffff\nbarrier.wait b2", ErrorCode.BARRIER_UNDERRUN, 1, 2),
    ("barrier.expect b2, 0x7fffffff\nbarrier.expect b2, 1\nbarrier.wait b2", ErrorCode.BARRIER_EXPECT, 2, 2),
]


@pytest.mark.parametrize(("text", "code", "pc", "operand"), ERRORS)
def test_errors(text, code, pc, operand):
    sim, result = run(text)
    assert_error(result, code, pc, operand)
    assert not result.ok and f"instruction {pc}" in result.message()
    assert sim.run(assemble("halt")).ok         # the machine stays usable


def test_swizzles_without_tensors():
    text = "copy_block.shared.global.64B ur0, ur0, 1\nhalt"
    _, result = run(text, simulator(CFG.replace(tensors=False)))
    assert_error(result, ErrorCode.UNSUPPORTED, 0, 1 << 1 | 2 << 2)
    assert run(text)[1].ok
    for swizzle, error in (("128B", None), ("64B", 2), ("32B", 1)):
        text = f"segment.shared.b8.{swizzle} ur0, 0\nhalt"
        _, result = run(text, simulator(CFG.replace(tensors=False)))
        assert result.ok if error is None else (result.error, result.operand) == (ErrorCode.UNSUPPORTED, error << 7)
        assert run(text)[1].ok
        _, result = run(text, simulator(CFG.replace(copy_swizzles=False)))
        assert result.error is ErrorCode.UNSUPPORTED


def test_a_stopping_error_replaces_product_range():
    _, result = run("mov r300, 0\nmm8 r255, ur0:rf300:0, r256\ntrap 4\nhalt")
    assert_error(result, ErrorCode.TRAP, 2, 4)


def test_global_out_of_range():
    cfg = CFG.replace(axi_address_bits=16)
    _, result = run("segment.global.b32 ur1, 0x10000\nmov r1, 0\nld.b32 r1, ur1:r1:0", simulator(cfg, 1 << 16))
    assert_error(result, ErrorCode.OUT_OF_RANGE, 2, 0x10000)


def test_timeout_and_program_end():
    _, result = run("nop\nloop: bra loop", instruction_limit=1000)
    assert_error(result, ErrorCode.TIMEOUT, 1, 1000)
    assert "line 2: loop: bra loop" in result.message()
    assert result.instructions == 1000
    _, result = run("umov ur1, 5\nloop: usub ur1, ur1, 1\nusetp.ne up0, ur1, 0\n@up0 bra loop\nhalt", instruction_limit=0)
    assert result.ok
    assert result.instructions == 17
    cfg = CFG.replace(instruction_words=64)
    _, result = run("nop\n" * 64, simulator(cfg))
    assert_error(result, ErrorCode.PROGRAM_COUNTER, 64, 64)
    _, result = run("nop\n" * 63 + "halt", simulator(cfg))
    assert result.ok


def test_message_names_source_line():
    _, result = run("\n  nop\n  trap 3   # here\n")
    assert result.message() == "instruction 1 (line 3: trap 3   # here): trap 3"


# -- checks at issue ----------------------------------------------------------------------------

SOURCES = {"b_source": OperandSource.IMMEDIATE.value}
ALU = {"opcode": Opcode.THREAD_ALU, **SOURCES}
LOAD = {"opcode": Opcode.LOAD}
STORE = {"opcode": Opcode.STORE}
MM = {"opcode": Opcode.MATRIX, "a": 256, "c": 256}
FILL = {"opcode": Opcode.OFFSETS, "a": 256}
GATHER = {"opcode": Opcode.GATHER}
UALU = {"opcode": Opcode.UNIFORM_ALU, **SOURCES}
COPY = {"opcode": Opcode.COPY_BLOCK, **SOURCES}
ROWS = {"opcode": Opcode.COPY_ROWS, "modifiers.copy.source": Space.GLOBAL}
ACCESS, FUNCTION, SPECIAL = "modifiers.memory.access", "modifiers.alu.function", "modifiers.alu.special"
COMPARE, ENTRIES = "modifiers.alu.compare", "modifiers.memory.entries"
LAST = CFG.registers - 1

TCMP, UCMP, EXPECT = ({"opcode": opcode, **SOURCES} for opcode in
                      (Opcode.THREAD_COMPARE, Opcode.UNIFORM_COMPARE, Opcode.BARRIER_EXPECT))
SEGMENT = {"opcode": Opcode.SEGMENT, **SOURCES}
TSPECIAL, USPECIAL = {"opcode": Opcode.THREAD_SPECIAL}, {"opcode": Opcode.UNIFORM_SPECIAL}
WAIT = {"opcode": Opcode.BARRIER_WAIT}
SHIFT = "modifiers.segment.element_shift"

RANK = "modifiers.copy.rank_minus_one"
# A false guard keeps the copies themselves from being made.
TILE = {"opcode": Opcode.COPY_TENSOR, "modifiers.copy.source": Space.GLOBAL, RANK: 2, "guard": 0}
PIXELS = TILE | {"modifiers.copy.mode": 1, RANK: 3}
HINT = {"opcode": Opcode.PREFETCH_TENSOR, RANK: 2}
BLOCK_HINT = {"opcode": Opcode.PREFETCH_BLOCK, **SOURCES}
FORGET = {"opcode": Opcode.INVALIDATE_DESCRIPTOR}

# Field values of an instruction, the field at fault, its value, and whether it is illegal with that value.
BOUNDARIES = [
    (ALU, "dst", LAST, False), (ALU, "dst", LAST + 1, True), (ALU, "a", LAST + 1, True), (ALU, "b_source", 3, True),
    (ALU | {"b_source": 0}, "b", LAST, False), (ALU | {"b_source": 0}, "b", LAST + 1, True),
    (ALU | {"b_source": 1}, "b", 63, False), (ALU | {"b_source": 1}, "b", 64, True), (ALU, "b", 4095, False),
    (ALU, FUNCTION, 10, False), (ALU, FUNCTION, 12, False), (TCMP, "dst", 6, False), (TCMP, "dst", 7, True),
    (TCMP, COMPARE, 6, True), (TSPECIAL, SPECIAL, Special.CYCLE.value, False), (TSPECIAL, SPECIAL, 6, True),
    (TSPECIAL, "dst", LAST + 1, True), (USPECIAL, SPECIAL, 0, True), (USPECIAL, SPECIAL, 1, False),
    (USPECIAL, "dst", 64, True), (UALU, "dst", 64, True), (UALU, "a", 64, True), (UALU, "b_source", 0, True),
    (UALU, FUNCTION, 11, True), (UALU, FUNCTION, 15, True), (UALU | {"b_source": 1}, "b", 64, True), (UALU, "dst", 63, False),
    (UCMP, "dst", 7, True), (UCMP, COMPARE, 7, True), (LOAD | {ACCESS: 5}, "dst", 3, True),
    (LOAD | {ACCESS: 5}, "dst", 2, False), (LOAD | {ACCESS: 6}, "dst", 258, True),
    (LOAD | {ACCESS: 6}, "dst", LAST + 1, True), (LOAD | {ACCESS: 6}, "dst", LAST - 3, False),
    (LOAD, "a", LAST + 1, True), (LOAD, "b", 15, False), (LOAD, "b", 16, True), (LOAD, ACCESS, 7, True),
    (LOAD, ACCESS, 1, False), (STORE | {ACCESS: 6}, "c", 252, False), (STORE | {ACCESS: 6}, "c", 254, True),
    (STORE | {ACCESS: 4}, "c", 256, True), (STORE, ACCESS, 1, True), (STORE, ACCESS, 3, True),
    (STORE, ACCESS, 7, True), (STORE, "a", LAST + 1, True), (STORE, "b", 16, True), (MM, "dst", 256, True),
    (MM, "a", 255, True), (MM, "a", LAST + 1, True), (MM, "b", 16, True), (MM, "c", 252, True),
    (MM, "c", LAST, False), (MM, "c", LAST + 1, True), (MM | {"modifiers.matrix.k_length": 1}, "c", LAST, True),
    (FILL, "a", 255, True), (FILL, "b", 16, True), (FILL, "c", CFG.offset_words, True), (FILL, "c", CFG.offset_words - 1, False),
    (FILL | {"modifiers.matrix.k_length": 1}, "c", CFG.offset_words - 1, True),
    (GATHER, "dst", LAST - 3, False), (GATHER, "dst", LAST - 2, True), (GATHER, "dst", LAST + 1, True), (GATHER, "a", LAST + 1, True),
    (GATHER, "b", 16, True), (GATHER, ACCESS, 1, True), (GATHER, ACCESS, 2, True), (GATHER, ACCESS, 7, True), (GATHER, ENTRIES, 15, False),
    (GATHER | {ACCESS: 4}, ENTRIES, 3, False), (GATHER | {ACCESS: 4}, ENTRIES, 4, True), (GATHER | {ACCESS: 5}, ENTRIES, 2, True),
    (GATHER | {ACCESS: 6}, ENTRIES, 0, False), (GATHER | {ACCESS: 6}, ENTRIES, 1, True), (GATHER, "c", 63, False),
    (SEGMENT, "dst", 16, True), (SEGMENT, "b_source", 0, True), (SEGMENT | {"b_source": 1}, "b", 64, True),
    (SEGMENT, SHIFT, 4, False), (SEGMENT, SHIFT, 5, True), (EXPECT, "a", 16, True), (EXPECT, "b_source", 0, True),
    (WAIT, "a", 16, True), (WAIT, "a", 15, False), (EXPECT | {"b_source": 1}, "b", 64, True),
    (TCMP, "a", LAST + 1, True), (TCMP, "b_source", 3, True), (TCMP | {"b_source": 0}, "b", LAST + 1, True),
    (UCMP, "a", 64, True), (UCMP, "b_source", 0, True), (UCMP | {"b_source": 1}, "b", 64, True),
    (ROWS, "dst", 62, False), (ROWS, "dst", 63, True), (ROWS, "a", 63, True), (ROWS, "b", 63, True), (ROWS, "b", 62, False),
    (COPY, "dst", 64, True), (COPY, "a", 64, True), (COPY, "b_source", 3, True),
    (COPY | {"b_source": 1}, "b", 64, True),
    (TILE, "dst", 63, False), (TILE, "dst", 64, True), (TILE, "a", 64, True), (TILE, "b", 61, False), (TILE, "b", 62, True),
    (TILE, "c", 4095, False), (TILE, RANK, 4, False), (TILE, RANK, 5, True), (TILE, "modifiers.copy.mode", 2, True),
    (PIXELS, "c", 62, False), (PIXELS, "c", 63, True), (PIXELS, "b", 60, False), (PIXELS, "b", 61, True), (PIXELS, RANK, 1, True),
    (HINT, "a", 64, True), (HINT, "b", 62, True), (HINT, RANK, 5, True), (HINT | {"modifiers.copy.mode": 1}, "c", 64, True),
    (BLOCK_HINT, "a", 64, True), (BLOCK_HINT, "b_source", 0, True), (BLOCK_HINT | {"b_source": 1}, "b", 64, True),
    (FORGET, "a", 63, False), (FORGET, "a", 64, True), ({"opcode": Opcode.RECURRENT}, "a", 64, True),
    ({"opcode": Opcode.SPARSE}, "a", 64, True), ({"opcode": Opcode.TAKE_TILE}, "dst", 63, False),
    ({"opcode": Opcode.TAKE_TILE}, "dst", 64, True),
    (TSPECIAL, "a", 4095, False), ({"opcode": Opcode.LANE_MASK, "b_source": 1}, "b", 4095, False),
]


@pytest.mark.parametrize("guard", [0, 7])
@pytest.mark.parametrize(("fields", "field", "value", "illegal"), BOUNDARIES)
def test_operand_checks(fields, field, value, illegal, guard):
    """Illegal operands stop the program whatever the guard says; the operand of the error is the field."""
    word = pack({"guard": guard} | fields | {field: value})
    result = simulator(CFG.replace(rnn=True, cores=2, l2_kib=8)).run(Program([word, pack({"opcode": Opcode.HALT, "guard": 7})]))
    if not illegal:
        assert result.ok, result.message()
        return
    assert_error(result, ErrorCode.ILLEGAL_OPERAND, 0, FIELDS[field.partition(".")[0]].get(word))


def test_every_illegal_operand_check_has_a_case():
    tried = {(fields["opcode"], field.partition(".")[0]) for fields, field, _, illegal in BOUNDARIES if illegal}
    wanted = {(opcode, check.field) for opcode, checks in CHECKS.items() for check in checks
              if check.code is ErrorCode.ILLEGAL_OPERAND}
    assert wanted <= tried, wanted - tried


@pytest.mark.parametrize("opcode", Opcode)
def test_fields_that_nobody_set(opcode):
    """A program of any bits ends, or an error says why not; what an instruction does not use does not matter."""
    rng, cfg, end = random.Random(opcode.value), CFG.replace(rnn=True), pack({"opcode": Opcode.HALT, "guard": 7})
    for _ in range(50):
        word = rng.getrandbits(INSTRUCTION_BITS)
        word ^= FIELDS["opcode"].get(word) ^ opcode.value
        result = simulator(cfg).run(Program([word, end]))
        assert result.ok or isinstance(result.error, ErrorCode), hex(word)


@pytest.mark.parametrize("spaces", [0, 3])
@pytest.mark.parametrize("reduction", [0, 9])
def test_unsupported_tensor_copies(spaces, reduction):
    """Within one memory, an undefined reduction, one into shared memory; and without tensors every copy."""
    copy = TILE | {"guard": 7, "modifiers.copy.destination": spaces & 1, "modifiers.copy.source": spaces >> 1}
    to_shared = TILE | {"modifiers.copy.reduction": 1}
    to_global = TILE | {"modifiers.copy.destination": 1, "modifiers.copy.source": 0, "modifiers.copy.reduction": reduction or 10}
    for cfg, words in ((CFG, (copy, to_shared, to_global)), (CFG.replace(tensors=False), (TILE, PIXELS, HINT, BLOCK_HINT, FORGET))):
        for word in map(pack, words):
            assert_error(simulator(cfg).run(Program([word])), ErrorCode.UNSUPPORTED, 0, FIELDS["modifiers"].get(word))


@pytest.mark.parametrize("field", ["element", "kb_destination", "transpose"])
def test_unsupported_mm(field):
    fields = MM | {"guard": 0, f"modifiers.matrix.{field}": 2 if field == "element" else 1, "modifiers.matrix.k_length": 3}
    word = pack(fields)
    assert_error(simulator(CFG.replace(transpose=False)).run(Program([word])), ErrorCode.UNSUPPORTED, 0, FIELDS["modifiers"].get(word))


def test_checks_are_made_in_order():
    everything = {"dst": 4095, "a": 4095, "b": 4095, "c": 4095, "b_source": 3, "modifiers": (1 << 34) - 1}
    for opcode, checks in CHECKS.items():
        if checks:
            word = pack(everything | {"opcode": opcode})
            first = checks[0].field
            operand = (1 << 32) - 1 if first == "modifiers" else everything[first]
            without = CFG.replace(tensors=False, rnn=False, sparse=False, compiled_offsets=0, gather_offsets=False)
            result = simulator(without).run(Program([word]))
            assert_error(result, checks[0].code, 0, operand)
