"""The page ``docs/isa.md``, generated: ``python -m heddle_sim.docgen.instructions > docs/isa.md``."""

from collections.abc import Iterable, Iterator, Sequence

from heddle.constants import FIRST_FACTOR_REGISTER, MOST_EXPECTED
from heddle.isa import encoding as layout
from heddle.isa.error_codes import ErrorCode
from heddle.isa.error_messages import ERROR_MESSAGES
from heddle.isa.instructions import INSTRUCTIONS, Operand, Unit
from heddle.isa.issue_rules import CHECKS, RULES

from ..isa.fields import FIELDS, Field
from ..isa.modifiers import MODIFIERS, Flags

__all__ = ["isa_page", "operand_text"]

_FIELD_DOC = {
    "opcode": "which instruction",
    "guard": "predicate that guards the instruction; 7 is always true",
    "guard_negate": "the guard holds where the predicate is false",
    "b_source": "where operand b comes from",
    "dst": "destination: register, predicate, uniform register or segment",
    "a": "first operand, or offset register of an address, or barrier",
    "b": "second operand: register or uniform register; segment of an address",
    "c": "data register of a store, first factor register of `mm`",
    "modifiers": "one of the groups below",
    "imm": "immediate operand, offset of an address, branch target",
}
_OPERAND_TEXT = {
    "select": "[!]p:predicate", "amount": "amount",
    "source": "b", "uniform_source": "b", "special": "%special", "address": "segment:offset:imm",
    "label": "label", "immediate": "imm",
}
_PREFIX = {"register": "r", "uniform": "ur", "predicate": "p", "uniform_predicate": "up", "segment": "ur",
           "barrier": "b"}
_UNITS = ((Unit.CONTROL, "Control"), (Unit.UNIFORM, "Uniform"), (Unit.THREAD, "Threads"), (Unit.MATRIX, "Matrix"),
          (Unit.COPY, "Copies"))
_ENUMERATIONS = ("Opcode", "OperandSource", "AluFunction", "CompareFunction", "Special", "Access", "Space",
                 "ElementType", "LoopOrder", "Swizzle", "Reduction", "WaitUnit")


_EXECUTION_ERRORS = (
    ("PROGRAM_COUNTER", "a taken branch leaves the program, which ends with what was loaded last (program counter: that of the branch)",
     "the target"),
    ("PROGRAM_COUNTER", "the program runs past its last instruction, or begins behind it (program counter: the operand, modulo 4096)",
     "the number of the instruction that it lacks"),
    ("TRAP", "`trap`", "the immediate"),
    ("MISALIGNED", ("an address of a load or store is not a multiple of the access size, of a column of B not of "
                    "`dot`, of a copy not of 16"), "the address"),
    ("OUT_OF_RANGE", "an aligned address lies outside shared memory, or at or above 2^`axi_address_bits`",
     "the address; of a copy that begins inside, the end of the memory"),
    ("PRODUCT_RANGE", "`mm`: a fetched column lies beyond r255; it is ignored and the program goes on", "256"),
    ("OFFSET_RANGE", "`gather`, `mm` with `.ow` or `.ob`: an entry behind the compiled-offset memory, or with `.ob` a first entry that is "
     "no multiple of %dot", "number of entries of the memory"),
    ("PANEL_RANGE", "`mm`: a column in a swizzled tile goes on behind the 128 bytes of shared memory in which it begins",
     "the address of the first word behind them"),
    ("UNSUPPORTED", "`copy_block` between two addresses of one memory", "the space"),
    ("MULTICAST_MASK", "the mask of a multicast names no core, or one that does not exist", "the mask"),
    ("AXI_READ, AXI_WRITE", "the memory answered with an error", "the address"),
    ("TENSOR_…", "`copy_tensor` breaks a rule (`docs/tensor-errors.md`); nothing is moved", "the value, its low 32 bits"),
    ("BARRIER_UNDERRUN", "`barrier.wait`: bytes are missing and no copy is under way", "the barrier"),
    ("BARRIER_OVERRUN", "`barrier.wait`: copies before it bring more bytes than were expected, now or later", "the barrier"),
    ("BARRIER_EXPECT", f"`barrier.wait`: more than {MOST_EXPECTED} bytes are expected since the wait before", "the barrier"),
    ("WAIT_TIMEOUT", "`wait`, `barrier.wait`, `wait_group` or `commit_group` took longer than the limit of waits",
     "mask of the units, barrier, number of groups, 0"),
    ("TIMEOUT", ("the run took longer than its limit (program counter: the instruction at issue, or the last one; of the lowest core whose "
                 "program had not ended)"), "the limit"),
)


def operand_text(operand: Operand) -> str:
    """How an operand of the instruction table is shown in a syntax line, e.g. ``r:dst`` or ``[b:barrier]``."""
    text = _OPERAND_TEXT.get(operand.kind) or f"{_PREFIX[operand.kind]}:{operand.field.rpartition('.')[2]}"
    return f"[{text}]" if operand.optional or operand.modifier else text


def _table(header: list[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines] + [""]


def _bits(field: Field) -> str:
    return f"{field.offset + field.width - 1}:{field.offset}" if field.width > 1 else str(field.offset)


def _format() -> Iterator[str]:
    yield "## Format"
    yield ""
    yield "All instructions have 128 bits and one layout. Fields that an instruction does not use are ignored; the"
    yield "assembler leaves them zero."
    yield ""
    rows = [[f"`{name}`", _bits(field), _FIELD_DOC[name]] for name, field in FIELDS.items() if "." not in name]
    yield from _table(["field", "bits", "meaning"], rows)
    yield "The groups of `modifiers`, which share its bits:"
    yield ""
    rows = [[f"`{name.partition('.')[2]}`", _bits(field)] for name, field in FIELDS.items() if name.count(".") == 2]
    yield from _table(["field", "bits"], rows)
    yield "Values of the enumerations:"
    yield ""
    for name in _ENUMERATIONS:
        members = ", ".join(f"{member.name} {member.value:#x}" for member in getattr(layout, name))
        yield f"- `{name}`: {members}."
    yield ""


def _text() -> Iterator[str]:
    yield f"""## Text

    @p1 mm8.ka2.kb2.t1.sa.ub r0, ur4:rf290:0x00, r256

One instruction a line: guard, mnemonic with modifiers, operands separated by commas. `name:` defines a label (alone
on a line or in front of an instruction), `#` and `//` start a comment, `.word 0x…` gives an instruction word as a
number.

- Guard: `@p1` or `@!p1` (threads where p1 is true or false) for thread instructions, `lanemask` and `mm`; `@up1` or
  `@!up1` for all others. `p7` and `up7` are always true and the same as no guard.
- `r0`–`r255`: product and general registers; `r{FIRST_FACTOR_REGISTER}` and up: factor registers. `ur0`–`ur63`: uniform
  registers. `p0`–`p6`, `up0`–`up6`: predicates. `b0`–`b15`: barriers.
- Operand `b` of the list below: `r5` (thread instructions), `ur6`, or an immediate.
- Immediates: decimal, `0x…` or `0b…`, from -2147483648 to 4294967295; `-1` and `0xffffffff` are the same word.
- Address `ur4:rf290:0x10`: segment-table entry 4, offset register 290 (written `rf` or `r`), immediate. The thread's
  byte address is `base + ((r290 + imm) << element_shift)`, modulo 2^32. In a swizzled segment the access is made where the swizzle
  put this address (`docs/swizzle.md`); checks and errors know the address itself.
- Special registers: {", ".join(f"`%{special.name.lower()}`" for special in layout.Special)}.
  `%cycle` is the number of cycles since the run began; it is 0 on the golden simulator.
- A branch takes a label or the number of an instruction.
"""


def _modifier_rows(group: str) -> Iterator[list[str]]:
    for slot in MODIFIERS[group]:
        tokens = [f"`.{token}`" for token in slot.tokens if token]
        if isinstance(slot, Flags):
            default = "all; `.none` names no unit"
        elif slot.default is None:
            default = "none, must be given"
        else:
            default = f"`.{slot.default}`" if slot.default else "without"
        yield [f"`{group}`", slot.doc, " ".join(tokens), default]


def _modifiers() -> Iterator[str]:
    yield "## Modifiers"
    yield ""
    yield "Modifiers come in any order, except that copies name the destination first. What a configuration lacks is encoded and raises"
    yield "UNSUPPORTED:"
    yield ""
    yield "- `copy_block` and `copy_rows`: `.128B` needs `copy_swizzles`, the other swizzles need `tensors` too. Reductions need"
    yield "  `reductions`, and `.shared.global` has none."
    yield "- Segments have the same swizzles as copies, those of shared memory only."
    yield ""
    yield "With `.t1`, B lies in rows of k. Thread n's address is that of the first element of column n. Uniform register `ur4` of address"
    yield "`ur4:rf290:imm` holds the distance of the rows, in elements of the segment: a multiple of 16 bytes below the size of shared"
    yield "memory. Columns, and with `.kb` and `.sum` words along k, are taken one by one. Slices are outermost, also with `.kin`. The sums"
    yield "are the same, and each byte of B is read once."
    yield ""
    rows = [row for group in MODIFIERS for row in _modifier_rows(group)]
    yield from _table(["instructions", "meaning", "modifiers", "default"], rows)


def _instructions() -> Iterator[str]:
    yield "## Instructions"
    yield ""
    for unit, title in _UNITS:
        yield f"### {title}"
        yield ""
        rows = []
        for row in (row for row in INSTRUCTIONS if row.unit == unit):
            modifiers = f"`{row.modifiers}`" if row.modifiers else ""
            syntax = f"{row.mnemonic} {', '.join(map(operand_text, row.operands))}".strip()
            rows.append([f"`{syntax}`", f"{row.opcode.value:#04x}", modifiers, row.doc])
        yield from _table(["instruction", "opcode", "modifiers", "meaning"], rows)


def _checks() -> Iterator[str]:
    yield """## Checks at issue

Every instruction is checked when it is issued, before it has any effect, and whatever its guard says. The checks of its
opcode are made in the order of the table; the first that fails stops the program with its code. **The operand of the
error is the value of the field that failed**, zero-extended (of `modifiers` the low 32 bits); the program counter is
that of the instruction. Fields that the table does not name are not checked.

An undefined opcode is ILLEGAL_INSTRUCTION with the opcode as operand.
"""
    rows = []
    for opcode, checks in CHECKS.items():
        for number, check in enumerate(checks):
            rows.append([f"`{opcode.name}`" if number == 0 else "", f"`{check.field}`", check.rule, check.code.name])
    without = ", ".join(f"`{opcode.name}`" for opcode, checks in CHECKS.items() if not checks)
    yield from _table(["opcode", "field", "rule", "code"], rows)
    yield f"No checks: {without}."
    yield ""
    used = [rule for rule in RULES if any(check.rule == rule for checks in CHECKS.values() for check in checks)]
    yield from _table(["rule", "the field must be"], [[rule, RULES[rule]] for rule in used])
    yield """Notes:

- The number of registers is 256 + `factor_words` · `dot` / 4, a multiple of 4: an aligned vector never leaves the
  register file.
- `factors`: with w = (number - 256) / (`dot` / 4), the remainder is 0 and w + k_length (the field, slices minus one) is
  below `factor_words`.
- `vector` and `product_vector` look at `memory.access`; any value but V2 and V4 asks for no alignment.
- `source_number` looks at `b_source`, which was checked before.
- `mov` has `a` = 0 and is checked like every other ALU function. The function, compare and special fields are checked
  only for the opcodes that use them.
- A segment-table entry that was never defined is shared memory from address 0 with elements of 8 bits. `shared_segment`
  is the only check that looks at state other than the instruction.
"""


def _execution() -> Iterator[str]:
    yield "## Errors of execution"
    yield ""
    yield "After the checks, in the unit that executes the instruction, and only where the guard holds:"
    yield ""
    yield from _table(["code", "raised when", "operand"], _EXECUTION_ERRORS)
    yield "Codes:"
    yield ""
    rows = [[code.value, code.name, "`" + ERROR_MESSAGES[code] + "`"] for code in ErrorCode]
    yield from _table(["number", "code", "message"], rows)


def _state() -> Iterator[str]:
    yield """## State of a run

At the start all predicates are false, the lane mask is all ones and no barrier expects bytes. Registers, uniform
registers, the segment table and shared memory keep the values of the run before."""


def isa_page() -> str:
    """The page as one string, ending with a newline."""
    parts = ["# Instruction set", "",
             "<!-- Generated: python -m heddle_sim.docgen.instructions > docs/isa.md -->", "",
             "Generated from `instructions.py`, `encoding.py` and `issue_rules.py` of `hdl/heddle/isa` and the modifiers.",
             ""]
    for section in (_format, _text, _modifiers, _instructions, _checks, _execution, _state):
        parts.extend(section())
    return "\n".join(parts).rstrip("\n") + "\n"


if __name__ == "__main__":
    print(isa_page(), end="")
