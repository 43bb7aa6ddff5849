"""Assembler and disassembler: notation [S0.1], round trips over every instruction, messages; the generated page."""

from pathlib import Path

import numpy as np
import pytest
from heddle import load_config
from heddle.isa.encoding import (
    Access,
    AluFunction,
    CompareFunction,
    ElementType,
    LoopOrder,
    Opcode,
    OperandSource,
    Reduction,
    Space,
    Swizzle,
    instruction_layout,
)
from heddle.isa.error_codes import ErrorCode
from heddle.isa.instructions import INSTRUCTIONS
from heddle_sim.docgen.instructions import isa_page
from heddle_sim.isa import AssemblyError, assemble, disassemble, disassemble_word
from heddle_sim.isa.checking import find_violation
from heddle_sim.isa.fields import FIELDS, pack
from heddle_sim.isa.modifiers import MODIFIERS, Flags
from heddle_sim.isa.operands import operand_fields
from heddle_sim.isa.program import Program

S0_LINE = "@p1 mm8.ka2.kb2.t1.sa.ub r0, ur4:rf290:0x00, r256"

# Text and the fields that it must set, packed by the layout itself.
pytestmark = pytest.mark.smoke

ENCODINGS = [
    (S0_LINE, {"opcode": Opcode.MATRIX, "guard": 1, "dst": 0, "a": 290, "b": 4, "c": 256,
               "modifiers": {"matrix": {"element": ElementType.INT8, "ka": 1, "kb": 1, "transpose": 1,
                                        "a_signed": 1}}}),
    ("@!p2 mm8.ka4i.kb4d1.ua.k16.kin.z r255, ur15:r4095:-1, r4092",
     {"opcode": Opcode.MATRIX, "guard": 2, "guard_negate": 1, "dst": 255, "a": 4095, "b": 15, "c": 4092,
      "imm": 0xFFFFFFFF, "modifiers": {"matrix": {
          "ka": 3, "ka_interleaved": 1, "kb": 3, "kb_destination": 1, "b_signed": 1, "k_length": 15,
          "order": LoopOrder.COLUMNS_OUTER, "zero": 1}}}),
    ("add r3, r4, ur5", {"opcode": Opcode.THREAD_ALU, "guard": 7, "b_source": OperandSource.UNIFORM, "dst": 3, "a": 4,
                         "b": 5, "modifiers": {"alu": {"function": AluFunction.ADD}}}),
    ("sel.v4 r4, !p3, r8, ur2", {"opcode": Opcode.THREAD_ALU, "guard": 3, "guard_negate": 1, "b_source": OperandSource.UNIFORM,
                                 "dst": 4, "a": 8, "b": 2, "modifiers": {"alu": {"function": AluFunction.SEL, "vector": 1}}}),
    ("@p2 mulh.v4.u r260, r8, 5", {"opcode": Opcode.THREAD_ALU, "guard": 2, "b_source": OperandSource.IMMEDIATE, "dst": 260, "a": 8,
                                   "imm": 5, "modifiers": {"alu": {"function": AluFunction.MULH, "vector": 1, "unsigned": 1}}}),
    ("narrow.u8 r9, r252, ur4", {"opcode": Opcode.THREAD_ALU, "guard": 7, "b_source": OperandSource.UNIFORM, "dst": 9, "a": 252,
                                 "b": 4, "modifiers": {"alu": {"function": AluFunction.NARROW, "unsigned": 1}}}),
    ("@p1 scale.s8 r9, r252, 7, 31", {"opcode": Opcode.THREAD_ALU, "guard": 1, "b_source": OperandSource.IMMEDIATE, "dst": 9,
                                      "a": 252, "imm": 7, "c": 31, "modifiers": {"alu": {"function": AluFunction.SCALE}}}),
    ("@up3 usetp.ge.u up6, ur63, 0b101", {
        "opcode": Opcode.UNIFORM_COMPARE, "guard": 3, "b_source": OperandSource.IMMEDIATE, "dst": 6, "a": 63, "imm": 5,
        "modifiers": {"alu": {"compare": CompareFunction.GE, "unsigned": 1}}}),
    ("ld.v4 r260, ur1:r7:8", {"opcode": Opcode.LOAD, "guard": 7, "dst": 260, "a": 7, "b": 1, "imm": 8,
                              "modifiers": {"memory": {"access": Access.V4}}}),
    ("st.b16 ur1:rf300:0, r9", {"opcode": Opcode.STORE, "guard": 7, "a": 300, "b": 1, "c": 9,
                                "modifiers": {"memory": {"access": Access.U16}}}),
    ("segment.global.b32.d3 ur4, ur2", {
        "opcode": Opcode.SEGMENT, "guard": 7, "b_source": OperandSource.UNIFORM, "dst": 4, "b": 2,
        "modifiers": {"segment": {"space": Space.GLOBAL, "element_shift": 2, "rank": 2}}}),
    ("segment.shared.b8.d1.64B ur4, 0x400", {
        "opcode": Opcode.SEGMENT, "guard": 7, "b_source": OperandSource.IMMEDIATE, "dst": 4, "imm": 0x400,
        "modifiers": {"segment": {"swizzle": Swizzle.B64}}}),
    ("copy_block.global.shared.64B.max ur1, ur2, ur3, b9", {
        "opcode": Opcode.COPY_BLOCK, "guard": 7, "b_source": OperandSource.UNIFORM, "dst": 1, "a": 2, "b": 3,
        "modifiers": {"copy": {"destination": Space.GLOBAL, "source": Space.SHARED, "swizzle": Swizzle.B64,
                               "reduction": Reduction.MAX, "barrier": 9, "has_barrier": 1}}}),
    ("copy_rows.shared.global ur0, ur62, ur9, b1", {
        "opcode": Opcode.COPY_ROWS, "guard": 7, "dst": 0, "a": 62, "b": 9,
        "modifiers": {"copy": {"destination": Space.SHARED, "source": Space.GLOBAL, "barrier": 1, "has_barrier": 1}}}),
    ("wait.matrix.copy", {"opcode": Opcode.WAIT, "guard": 7, "modifiers": {"wait": {"units": 0b110}}}),
    ("wait", {"opcode": Opcode.WAIT, "guard": 7, "modifiers": {"wait": {"units": 0b111}}}),
]


@pytest.mark.parametrize(("text", "fields"), ENCODINGS, ids=[text.split()[-1] for text, _ in ENCODINGS])
def test_encoding(text, fields):
    assert assemble(text).words == [instruction_layout.const(fields).as_bits()]


def test_the_line_of_the_requirement_is_canonical():
    program = assemble(S0_LINE)
    assert disassemble(program) == f"    {S0_LINE}\n"
    assert find_violation(program.words[0]) is None


def test_alternatives_assemble_to_the_same_word():
    pairs = [
        ("mm8 r0, ur1:rf256:0, r256", "@p7 mm8.ka1.kb1.t0.sa.sb.k1 r0, ur1:r256:0x0, r256"),
        ("mm8.kb4 r0, ur1:rf256:0, r256", "mm8.kb4d0 r0, ur1:rf256:0, r256"),
        ("setp.lt p0, r1, r2", "setp.lt.s p0, r1, r2"),
        ("segment ur1, 0", "segment.d1.b8.shared ur1, 0x0"),
        ("segment.128B ur1, 0", "segment.shared.b8.d1.128B ur1, 0"),
        ("umov ur1, -1", "  umov\tur1 ,4294967295 // all ones"),
        ("x: bra x", "bra 0 # itself"),
        ("wait.thread.copy.matrix", "wait"),
        ("sub r1, r1, 0xffff_ffff", "sub r1, r1, -1"),
    ]
    for one, other in pairs:
        assert assemble(one) == assemble(other)
    assert assemble("nop\n") != assemble("halt")


# -- round trips --------------------------------------------------------------------------------

def random_word(row, rng, corner):
    """A word of a table row with random operands and modifiers that no configuration refuses."""
    names = {name for operand in row.operands for name in operand_fields(operand)}
    slots = MODIFIERS[row.modifiers]
    while True:
        values = {"opcode": row.opcode, "guard": rng.integers(8), "guard_negate": rng.integers(2)}
        for name in sorted(names):
            mask = FIELDS[name].mask
            values[name] = rng.choice([0, mask, mask // 2, 1]) if corner else rng.integers(mask + 1)
            if name in ("dst", "a", "b", "c") and rng.integers(2):
                values[name] = rng.integers(64)
        values = {name: int(getattr(value, "value", value)) for name, value in values.items()}
        if "b_source" in values:
            unused = ("b",) if values["b_source"] == OperandSource.IMMEDIATE.value else ("imm",)
            values |= dict.fromkeys(unused, 0)
        if not values.get("modifiers.copy.has_barrier", 1):
            values["modifiers.copy.barrier"] = 0
        values |= {name: getattr(value, "value", value) for name, value in row.fixed.items()}
        for slot in slots:
            if isinstance(slot, Flags):
                values[slot.field] = int(rng.integers(FIELDS[slot.field].mask + 1))
            else:
                values |= list(slot.tokens.values())[rng.integers(len(slot.tokens))]
        for operand in row.operands:
            if operand.modifier and not values[operand.modifier]:
                values[operand.field] = 0
        word = pack(values)
        violation = find_violation(word)
        if violation is None or violation.code is ErrorCode.UNSUPPORTED:
            return word


@pytest.mark.parametrize("row", INSTRUCTIONS, ids=lambda row: f"{row.mnemonic}-{row.opcode.name}")
def test_round_trip_of_every_instruction(row):
    rng = np.random.default_rng(INSTRUCTIONS.index(row))
    words = [random_word(row, rng, corner=count % 2) for count in range(60)]
    texts = [disassemble_word(word) for word in words]
    assert not any(text.startswith(".word") for text in texts)
    names = (row.mnemonic, "wait.thread") if row.mnemonic == "wait_thread" else row.mnemonic        # with 0 the two are one
    assert all(text.split()[text.startswith("@")].startswith(names) for text in texts)
    assert assemble("\n".join(texts)).words == words
    assert assemble(disassemble(words)).words == words


def test_round_trip_of_random_words():
    """Any bits survive; bits that no instruction has come as ``.word``."""
    rng = np.random.default_rng(17)
    opcodes = [opcode.value for opcode in Opcode]
    words = [int.from_bytes(rng.bytes(16), "little") for _ in range(300)]
    words += [word & ~0xFF | opcodes[rng.integers(len(opcodes))] for word in words]
    for row in INSTRUCTIONS * 10:       # legal but for one bit
        words.append(random_word(row, rng, corner=False) ^ 1 << int(rng.integers(128)))
    text = disassemble(words)
    assert assemble(text).words == words
    legal = sum(".word" not in line for line in text.splitlines() if not line.endswith(":"))
    assert len(words) // 10 < legal < len(words) // 2


MM = {"opcode": Opcode.MATRIX, "guard": 7, "a": 256, "c": 256}
WORDS_WITHOUT_TEXT = [
    0, 0x77, 1 << 127,
    pack({"opcode": Opcode.NOP, "guard": 7, "dst": 1}),
    pack({"opcode": Opcode.LOAD, "guard": 7, "dst": 1, "modifiers.memory.access": Access.V2}),
    pack(MM | {"modifiers.matrix.ka_interleaved": 1}),
    pack(MM | {"modifiers.matrix.element": ElementType.INT32}),
    pack({"opcode": Opcode.SEGMENT, "guard": 7, "modifiers.segment.rank": 7}),
]


@pytest.mark.parametrize("word", WORDS_WITHOUT_TEXT)
def test_words_without_text(word):
    text = disassemble_word(word)
    assert text == f".word {word:#034x}"
    assert assemble(text).words == [word]


def test_labels():
    program = assemble("""
    first:  nop
    second: third:
            @!up1 bra last      # forward
            bra second
            bra 99
    last:
    """)
    assert program.labels == {"first": 0, "second": 1, "third": 1, "last": 4}
    assert [FIELDS["imm"].get(word) for word in program.words] == [0, 4, 1, 99]
    assert program.lines == [2, 4, 5, 6]
    assert disassemble(program) == "    nop\nL1:\n    @!up1 bra L4\n    bra L1\n    bra 99\nL4:\n"
    assert assemble(disassemble(program)) == program


# -- programs -----------------------------------------------------------------------------------

def test_program_bytes_and_listing():
    program = assemble("start: nop\n halt\nend:")
    image = program.to_bytes()
    assert len(image) == 32 and image[0] == Opcode.NOP.value and image[16] == Opcode.HALT.value
    assert Program.from_bytes(image) == program and len(program) == 2
    first, second = (f"{word:032x}" for word in program.words)
    assert program.listing() == f"start:\n   0  {first}  nop\n   1  {second}  halt\nend:\n"
    assert program.source_line(1) == "line 2: halt" and Program([1]).source_line(0) == ""
    assert assemble("# nothing\n\n").words == [] and disassemble([]) == "" == Program([]).listing()
    with pytest.raises(ValueError, match=r"^size of a program must be a multiple of 16 bytes, not 17$"):
        Program.from_bytes(image[:17])
    with pytest.raises(ValueError, match=r"^word 1 must fit 128 bits, not 0x1"):
        Program([0, 1 << 128])
    with pytest.raises(ValueError, match=r"^lines must be one per word \(1\), not 2$"):
        Program([0], lines=[1, 2])


def test_pack_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match=r"^dst must fit 12 bits, not 4096$"):
        pack({"dst": 4096})
    with pytest.raises(KeyError):
        pack({"nothing": 1})
    assert pack({"imm": -1}) == pack({"imm": 0xFFFFFFFF})


# -- messages -----------------------------------------------------------------------------------

KS = ".ka1, .ka2, .ka3, .ka4, .ka2i, .ka3i, .ka4i, .kb1 to .kb4d3, .sum, .t0, .t1, .ua, .sa, .ub, .sb, .k1 to .k16, .ow, .ob, .kin, .z"
MESSAGES = [
    ("ad r1, r2, r3", "mnemonic must be an instruction, not 'ad' (nearest: add)"),
    ("qqqqq", "mnemonic must be an instruction, not 'qqqqq'"),
    ("setp p1, r2, r3", "mnemonic must be one of setp.eq, setp.ne, setp.lt, setp.le, setp.gt, setp.ge, not 'setp'"),
    ("add r1, r2", "number of operands of add must be 3, not 2"),
    ("copy_block.shared.global ur1", "number of operands of copy_block must be 3 to 4, not 1"),
    ("add x1, r2, r3", "dst must be a register such as r5, not 'x1'"),
    ("add r4096, r2, r3", "dst must be from r0 to r4095, not r4096"),
    ("add r1, ur2, r3", "a must be a register such as r5, not 'ur2'"),
    ("add r1, r2, foo", "b must be a register, a uniform register or a number, not 'foo'"),
    ("uadd ur1, ur2, r3", "b must be a uniform register or a number, not 'r3'"),
    ("uadd ur64, ur2, 1", "dst must be from ur0 to ur63, not ur64"),
    ("add r1, r2, 4294967296", "b must be from -2147483648 to 4294967295, not 4294967296"),
    ("ld.b32 r1, ur1:r2:-2147483649", "offset must be from -2147483648 to 4294967295, not -2147483649"),
    ("trap x", "immediate must be a number, not 'x'"),
    ("mov r1, %foo", "special register must be one of %tid, %threads, %dot, %core, %cores, %cycle, not '%foo'"),
    ("umov ur1, %tid", "special register must be one other than %tid, not %tid"),
    ("setp.lt p7, r1, r2", "dst must be from p0 to p6, not p7"),
    ("usetp.lt up7, ur1, 1", "dst must be from up0 to up6, not up7"),
    ("ld.v4 r6, ur1:r2:0", "dst must be a multiple of 4, not r6"),
    ("st.v2 ur1:r2:0, r7", "c must be a multiple of 2, not r7"),
    ("st.b32 ur1:r2:0, r256", "c must be from r0 to r255, not r256"),
    ("ld.b32 r1, ur16:r2:0", "segment must be from ur0 to ur15, not ur16"),
    ("ld.b32 r1, ur1:r2", "address must be segment:offset:immediate such as ur4:rf290:0x00, not 'ur1:r2'"),
    ("mm8 r256, ur1:rf256:0, r256", "dst must be from r0 to r255, not r256"),
    ("mm8 r0, ur1:r255:0, r256", "offset register must be from r256 to r4095, not r255"),
    ("mm8 r0, ur1:rf256:0, r0", "c must be from r256 to r4095, not r0"),
    ("mm8.k17 r0, ur1:rf256:0, r256", f"modifier must be one of {KS}, not .k17"),
    ("mm8.k2.k3 r0, ur1:rf256:0, r256", "k must be given once, not again by .k3"),
    ("segment.32B.64B ur1, 0", "swizzle must be given once, not again by .64B"),
    ("nop.x", "modifier must be absent, not .x"),
    ("copy_block.shared ur1, ur2, 3", "source must be one of .shared, .global, not missing"),
    ("barrier.wait b16", "a must be from b0 to b15, not b16"),
    ("copy_rows.shared.global ur0, ur0, ur63", "b must be from ur0 to ur62, not ur63"),
    ("add.v4 r2, r4, 1", "dst must be a multiple of 4 with .v4, not r2"),
    ("add.v4 r4, r256, 1", "a must be a multiple of 4 from r0 to r252 with .v4, not r256"),
    ("narrow.s8 r4, r6, 1", "a must be a multiple of 4 from r0 to r252 for narrow and scale, not r6"),
    ("scale.u8 r4, r8, 1, 4096", "amount must be from 0 to 4095, not 4096"),
    ("narrow r4, r8, 1", "bytes must be one of .s8, .u8, not missing"),
    ("mul.v4 r4, r8, r9", "b_source must be a uniform register or an immediate, not r9"),
    ("sel r4, r8, r9, 1", "predicate must be p0 to p7 or !p0 to !p7, not 'r8'"),
    ("@p1 sel r4, p2, r9, 1", "guard of sel must be absent (its predicate selects), not '@p1'"),
    ("umul ur1, ur2, 3", "mnemonic must be an instruction, not 'umul' (nearest: mul)"),
    ("bra nowhere", "label must be defined, not 'nowhere'"),
    ("loop: bra lopp", "label must be defined, not 'lopp' (nearest: loop)"),
    ("bra 1x", "label must be a number, not '1x'"),
    ("a: a: nop", "label 'a' must be defined once, not again (first in line 3)"),
    ("@p1 uadd ur1, ur1, 1", "guard of uadd must be @up0 to @up7 or @!up0 to @!up7, not '@p1'"),
    ("@up1 mm8 r0, ur1:rf256:0, r256", "guard of mm8 must be @p0 to @p7 or @!p0 to @!p7, not '@up1'"),
    ("@p8 nop", "guard of nop must be @up0 to @up7 or @!up0 to @!up7, not '@p8'"),
    ("@p1", "guard must be followed by an instruction, not by the end of the line (@p1)"),
    (f".word {1 << 128}", f".word must be a number of 128 bits without a guard, not '{1 << 128}'"),
    (".word ten", ".word must be a number of 128 bits without a guard, not 'ten'"),
]


@pytest.mark.parametrize(("text", "message"), MESSAGES, ids=[text for text, _ in MESSAGES])
def test_messages(text, message):
    with pytest.raises(AssemblyError) as caught:
        assemble(f"# first\n  nop\n{text}\nhalt")
    assert str(caught.value) == f"line 3: {message}"
    assert caught.value.line == 3


def test_messages_of_a_configuration():
    tiny, small = load_config("tiny"), load_config("small")
    cases = [
        (tiny, "mov r320, 1", "dst must be from r0 to r319, not r320"),
        (tiny, "add r1, r320, 1", "a must be from r0 to r319, not r320"),
        (tiny, "add r1, r1, r320", "b must be from r0 to r319, not r320"),
        (tiny, "mm8 r0, ur1:rf320:0, r256", "offset register must be from r256 to r319, not rf320"),
        (small, "mm8 r0, ur1:rf256:0, r257",
         "c must be the first register of a factor word (2 registers each), not r257"),
        (small, "mm8.k3 r0, ur1:rf256:0, r1276", "c must be at most r1274 with .k3, not r1276"),
    ]
    for cfg, text, message in cases:
        assemble(text)
        with pytest.raises(AssemblyError) as caught:
            assemble(text, cfg)
        assert str(caught.value) == f"line 1: {message}"
    assemble("mov r319, 1\nmm8 r0, ur1:rf319:0, r319", tiny)
    assemble("mm8.k2 r0, ur1:rf256:0, r1276", small)
    assert len(assemble("nop\n" * 512, tiny)) == 512
    with pytest.raises(AssemblyError, match=r"^line 513: program must have at most 512 instructions, not 514$"):
        assemble("nop\n" * 514, tiny)


# -- documentation ------------------------------------------------------------------------------

def test_committed_page_is_the_generated_one():
    page = Path(__file__).parents[3] / "docs" / "isa.md"
    assert page.read_text() == isa_page(), "run: python -m heddle_sim.docgen.instructions > docs/isa.md"


def test_page_names_every_instruction():
    page = isa_page()
    for row in INSTRUCTIONS:
        assert f"| `{row.mnemonic}" in page
    assert S0_LINE in page
