"""One instruction of the assembly text: mnemonic, guard and operands to the fields of its word."""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heddle.config import Config
from heddle.errors import HeddleError
from heddle.isa.encoding import GUARD_ALWAYS, INSTRUCTION_BITS
from heddle.isa.error_codes import ErrorCode
from heddle.isa.instructions import INSTRUCTIONS, Instruction, Operand, Unit

from .checking import Violation, find_violation
from .fields import pack
from .modifiers import ModifierError, parse_modifiers
from .operands import LabelReference, OperandError, operand_fields, parse_operand

__all__ = ["AssemblyError", "Statement", "encode_instruction", "finish", "parse_instruction"]

_GUARD = re.compile(r"@(!?)(up|p)(\d+)$")
_ROWS: dict[str, list[Instruction]] = {}
for _row in INSTRUCTIONS:
    _ROWS.setdefault(_row.mnemonic, []).append(_row)


class AssemblyError(HeddleError, ValueError):
    """The text breaks a rule: ``line N: <what> must be <rule>, not <value>``."""

    wrong_use = True

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


@dataclass
class Statement:
    """One instruction of the text, and the fields found so far."""

    line: int
    values: dict[str, int | LabelReference]
    row: Instruction
    texts: dict[str, str]      # field to the text it came from, for messages


def _nearest(word: str, known: Sequence[str]) -> str:
    matches = difflib.get_close_matches(word, known, n=5, cutoff=0.5)
    matches.sort(key=lambda name: not name.startswith(word))
    return f" (nearest: {matches[0]})" if matches else ""


def _split_mnemonic(text: str, line: int) -> tuple[list[Instruction], list[str]]:
    """Table rows of a mnemonic and its modifiers."""
    parts = text.split(".")
    for count in range(len(parts), 0, -1):
        rows = _ROWS.get(".".join(parts[:count]))
        if rows:
            return rows, parts[count:]
    same_start = [name for name in _ROWS if name.split(".")[0] == parts[0]]
    if same_start:
        forms = ", ".join(same_start)
        raise AssemblyError(line, f"mnemonic must be one of {forms}, not {text!r}")
    raise AssemblyError(line, f"mnemonic must be an instruction, not {text!r}{_nearest(parts[0], list(_ROWS))}")


def _guard_values(text: str, row: Instruction, line: int) -> dict[str, int]:
    if not text:
        return {"guard": GUARD_ALWAYS}
    if any(operand.kind == "select" for operand in row.operands):
        raise AssemblyError(line, f"guard of {row.mnemonic} must be absent (its predicate selects), not {text!r}")
    prefix = "p" if row.unit in (Unit.THREAD, Unit.MATRIX) else "up"
    match = _GUARD.match(text)
    if not match or match[2] != prefix or int(match[3]) > GUARD_ALWAYS:
        raise AssemblyError(line, f"guard of {row.mnemonic} must be @{prefix}0 to @{prefix}{GUARD_ALWAYS} or "
                                  f"@!{prefix}0 to @!{prefix}{GUARD_ALWAYS}, not {text!r}")
    return {"guard": int(match[3]), "guard_negate": int(bool(match[1]))}


def _choose_row(rows: list[Instruction], texts: list[str], line: int) -> Instruction:
    """The row whose operands the texts are meant for: count first, then special registers."""
    special = any(text.startswith("%") for text in texts)
    for row in rows:
        required = sum(not (operand.optional or operand.modifier) for operand in row.operands)
        takes_special = any(operand.kind == "special" for operand in row.operands)
        if required <= len(texts) <= len(row.operands) and (special == takes_special or len(rows) == 1):
            return row
    raise _wrong_count(rows[0].mnemonic, [operand for operand in rows[0].operands if not operand.modifier], texts, line)


def _operands(row: Instruction, values: Mapping[str, int | LabelReference], texts: list[str], line: int) -> list[Operand]:
    """The operands that the modifiers ask for."""
    operands = [operand for operand in row.operands if not operand.modifier or values[operand.modifier]]
    required = sum(not operand.optional for operand in operands)
    if not required <= len(texts) <= len(operands):
        raise _wrong_count(row.mnemonic, operands, texts, line)
    return operands


def _wrong_count(mnemonic: str, operands: list[Operand], texts: list[str], line: int) -> AssemblyError:
    required = sum(not operand.optional for operand in operands)
    count = f"{required}" if required == len(operands) else f"{required} to {len(operands)}"
    return AssemblyError(line, f"number of operands of {mnemonic} must be {count}, not {len(texts)}")


def parse_instruction(text: str, line: int) -> Statement | int:
    guard = ""
    if text.startswith("@"):
        guard, _, text = text.partition(" ")
        text = text.strip()
        if not text:
            raise AssemblyError(line, f"guard must be followed by an instruction, not by the end of the line ({guard})")
    mnemonic, _, rest = text.partition(" ")
    if mnemonic == ".word":
        return _parse_word(guard, rest.strip(), line)
    texts = [part.strip() for part in rest.split(",")] if rest.strip() else []
    rows, tokens = _split_mnemonic(mnemonic, line)
    row = _choose_row(rows, texts, line)
    statement = Statement(line, {"opcode": row.opcode.value}, row, {})
    statement.values |= _guard_values(guard, row, line)
    try:
        statement.values |= parse_modifiers(row.modifiers, tokens)
        for operand, operand_text in zip(_operands(row, statement.values, texts, line), texts, strict=False):
            found = parse_operand(operand, operand_text)
            statement.values |= found
            statement.texts |= dict.fromkeys(operand_fields(operand), operand_text)
    except (ModifierError, OperandError) as error:
        raise AssemblyError(line, str(error)) from None
    statement.values |= {name: getattr(value, "value", value) for name, value in row.fixed.items()}
    return statement


def _parse_word(guard: str, text: str, line: int) -> int:
    try:
        word = int(text, 0)
    except ValueError:
        word = -1
    if guard or not 0 <= word < 1 << INSTRUCTION_BITS:
        rule = f"a number of {INSTRUCTION_BITS} bits without a guard"
        raise AssemblyError(line, f".word must be {rule}, not {(guard + ' ' + text).strip()!r}")
    return word


def finish(statement: Statement | int, labels: Mapping[str, int], cfg: Config | None) -> int:
    """The word of a statement, with labels resolved and checked for legality."""
    if isinstance(statement, int):
        return statement
    values: dict[str, Any] = statement.values
    line = statement.line
    target = values.get("imm")
    if isinstance(target, LabelReference):
        if target not in labels:
            raise AssemblyError(line, f"label must be defined, not {str(target)!r}{_nearest(target, list(labels))}")
        values = values | {"imm": labels[target]}
    word = pack(values)
    violation = find_violation(word, cfg)
    if violation and violation.code is ErrorCode.ILLEGAL_OPERAND:
        raise AssemblyError(line, _refusal(statement, violation))
    return word


def _refusal(statement: Statement, violation: Violation) -> str:
    """What an illegal operand is called in the text, and what was written there."""
    name, shown = violation.field, statement.texts.get(violation.field, str(violation.operand))
    if name == "modifiers" and "modifiers.alu.special" in statement.texts:
        name, shown = "special register", statement.texts["modifiers.alu.special"]
    elif name in ("a", "b") and any(operand.kind == "address" for operand in statement.row.operands):
        name, shown = ("offset register", shown.split(":")[1]) if name == "a" else ("segment", shown.split(":")[0])
    return f"{name} must be {violation.rule}, not {shown}"


def encode_instruction(text: str, cfg: Config | None = None) -> int:
    """The word of a single instruction whose branch target, if any, is a number."""
    return finish(parse_instruction(text.strip(), 1), {}, cfg)
