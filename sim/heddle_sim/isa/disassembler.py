"""Disassembler: instruction words to canonical text that assembles to the same bits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from heddle.isa.encoding import GUARD_ALWAYS, Opcode
from heddle.isa.instructions import INSTRUCTIONS, Instruction, Unit

from .fields import FIELDS, opcode_of
from .modifiers import MODIFIERS, format_modifiers
from .operands import format_operand, operand_fields
from .statements import AssemblyError, encode_instruction
from .words import word_list

if TYPE_CHECKING:

    from .program import Program

__all__ = ["disassemble", "disassemble_word"]

_ROWS: dict[Opcode | None, list[Instruction]] = {}
for _row in INSTRUCTIONS:
    _ROWS.setdefault(_row.opcode, []).append(_row)


def _row_of(word: int) -> Instruction | None:
    for row in _ROWS.get(opcode_of(word), ()):
        if all(FIELDS[name].get(word) == getattr(value, "value", value) for name, value in row.fixed.items()):
            return row
    return None


def _guard_text(word: int, row: Instruction) -> str:
    guard, negate = FIELDS["guard"].get(word), FIELDS["guard_negate"].get(word)
    if guard == GUARD_ALWAYS and not negate or any(operand.kind == "select" for operand in row.operands):
        return ""
    prefix = "p" if row.unit in (Unit.THREAD, Unit.MATRIX) else "up"
    return f"@{'!' if negate else ''}{prefix}{guard} "


def _text(word: int, labels: Mapping[int, str] | None) -> str | None:
    row = _row_of(word)
    if row is None:
        return None
    names = [name for slot in MODIFIERS[row.modifiers] for name in slot.fields()]
    modifiers = format_modifiers(row.modifiers, {name: FIELDS[name].get(word) for name in names})
    if modifiers is None:
        return None
    operands = []
    for operand in row.operands:
        if operand.modifier and not FIELDS[operand.modifier].get(word):
            continue
        values = {name: FIELDS[name].get(word) for name in operand_fields(operand)}
        text = format_operand(operand, values, labels)
        if text is None and not operand.optional:
            return None
        operands += [text] if text is not None else []
    return f"{_guard_text(word, row)}{row.mnemonic}{modifiers} {', '.join(operands)}".strip()


def disassemble_word(word: int, labels: Mapping[int, str] | None = None) -> str:
    """Canonical text of one instruction word; ``.word 0x…`` when no instruction has these bits.

    ``labels`` (instruction number to name) replaces branch targets by names.
    """
    text = _text(word, None)
    try:
        if text is not None and encode_instruction(text) == word:
            return _text(word, labels) or text
    except AssemblyError:
        pass        # a word that no text stands for
    return f".word {word:#034x}"


def disassemble(words: Program | Iterable[int]) -> str:
    """Canonical text of a program (a ``Program`` or a sequence of words), with labels ``L<number>`` at branch targets.

    ``assemble`` makes the same words from it.
    """
    listed = word_list(getattr(words, "words", words))      # type: ignore[arg-type]    # mypy: the default of another type
    branches = [word for word in listed if opcode_of(word) is Opcode.BRANCH]
    targets = {FIELDS["imm"].get(word) for word in branches}
    labels = {target: f"L{target}" for target in targets if target <= len(listed)}
    lines = []
    for pc, word in enumerate(listed):
        if pc in labels:
            lines.append(f"{labels[pc]}:")
        lines.append("    " + disassemble_word(word, labels))
    if len(listed) in labels:
        lines.append(f"{labels[len(listed)]}:")
    return "\n".join(lines) + "\n" if lines else ""
