"""Reading and writing of every kind of operand in the assembly text."""

import re
from collections.abc import Mapping

from heddle.constants import FIRST_FACTOR_REGISTER
from heddle.errors import UsageError
from heddle.isa.encoding import OperandSource, Special
from heddle.isa.instructions import Operand

from .fields import FIELDS

__all__ = ["OperandError", "LabelReference", "operand_fields", "parse_operand", "format_operand", "parse_number"]

_PREFIXES = {
    "register": ("r", "a register such as r5"),
    "uniform": ("ur", "a uniform register such as ur5"),
    "predicate": ("p", "a predicate such as p1"),
    "uniform_predicate": ("up", "a uniform predicate such as up1"),
    "segment": ("ur", "a segment such as ur4"),
    "barrier": ("b", "a barrier such as b0"),
}
_SPECIALS = {"%" + special.name.lower(): special for special in Special}
_SPECIAL = "modifiers.alu.special"


class OperandError(UsageError):
    """The text of an operand breaks a rule; the message says ``<operand> must be <rule>, not <text>``."""


class LabelReference(str):
    """A label in place of a number, to be resolved when all labels are known."""


def parse_number(text: str, name: str = "immediate") -> int:
    """Number of 32 bits (signed or unsigned) as an unsigned integer."""
    try:
        value = int(text, 0)
    except ValueError:
        raise OperandError(f"{name} must be a number, not {text!r}") from None
    if not -(1 << 31) <= value < 1 << 32:
        raise OperandError(f"{name} must be from {-(1 << 31)} to {(1 << 32) - 1}, not {text}")
    return value & 0xFFFFFFFF


def _number_after(prefix: str, text: str) -> int | None:
    match = re.fullmatch(prefix + r"(\d+)", text)
    return int(match[1]) if match else None


def _parse_numbered(text: str, kind: str, field: str, name: str) -> dict[str, int | LabelReference]:
    prefix, rule = _PREFIXES[kind]
    number = _number_after(prefix, text)
    if number is None:
        raise OperandError(f"{name} must be {rule}, not {text!r}")
    limit = FIELDS[field].mask
    if number > limit:
        raise OperandError(f"{name} must be from {prefix}0 to {prefix}{limit}, not {text}")
    return {field: number}


def _parse_source(text: str, thread: bool) -> dict[str, int | LabelReference]:
    for prefix, source in (("r", OperandSource.REGISTER), ("ur", OperandSource.UNIFORM)):
        if _number_after(prefix, text) is None:
            continue
        if source is OperandSource.REGISTER and not thread:
            break
        kind = "register" if source is OperandSource.REGISTER else "uniform"
        return {"b_source": source.value} | _parse_numbered(text, kind, "b", "b")
    try:
        int(text, 0)
    except ValueError:
        rule = "a register, a uniform register or a number" if thread else "a uniform register or a number"
        raise OperandError(f"b must be {rule}, not {text!r}") from None
    return {"b_source": OperandSource.IMMEDIATE.value, "imm": parse_number(text, "b")}


def _parse_address(text: str) -> dict[str, int | LabelReference]:
    parts = [part.strip() for part in text.split(":")]
    if len(parts) != 3:
        raise OperandError(f"address must be segment:offset:immediate such as ur4:rf290:0x00, not {text!r}")
    segment, offset, immediate = parts
    offset = "r" + offset[2:] if offset.startswith("rf") else offset
    return {**_parse_numbered(segment, "segment", "b", "segment"),
            **_parse_numbered(offset, "register", "a", "offset register"),
            "imm": parse_number(immediate, "offset")}


def operand_fields(operand: Operand) -> list[str]:
    """Names of the fields that an operand of the instruction table occupies."""
    special = {"select": ["guard", "guard_negate"],
               "source": ["b_source", "b", "imm"], "uniform_source": ["b_source", "b", "imm"], "special": [_SPECIAL],
               "address": ["b", "a", "imm"], "label": ["imm"], "immediate": ["imm"]}
    if operand.kind in special:
        return special[operand.kind]
    return [operand.field] + (["modifiers.copy.has_barrier"] if operand.optional else [])


def parse_operand(operand: Operand, text: str) -> dict[str, int | LabelReference]:
    """Field values (dotted name to number or ``LabelReference``) for the text of one operand; or ``OperandError``."""
    if operand.kind in ("source", "uniform_source"):
        return _parse_source(text, operand.kind == "source")
    if operand.kind == "address":
        return _parse_address(text)
    if operand.kind == "select":
        match = re.fullmatch(r"(!?)p([0-7])", text)
        if not match:
            raise OperandError(f"predicate must be p0 to p7 or !p0 to !p7, not {text!r}")
        return {"guard": int(match[2]), "guard_negate": int(bool(match[1]))}
    if operand.kind == "immediate":
        return {"imm": parse_number(text)}
    if operand.kind == "label":
        is_name = re.fullmatch(r"[A-Za-z_.][\w.]*", text)
        return {"imm": LabelReference(text) if is_name else parse_number(text, "label")}
    if operand.kind == "special":
        if text not in _SPECIALS:
            raise OperandError(f"special register must be one of {', '.join(_SPECIALS)}, not {text!r}")
        return {_SPECIAL: _SPECIALS[text].value}
    if operand.kind == "amount":
        amount = parse_number(text, "amount")
        if amount > FIELDS[operand.field].mask:
            raise OperandError(f"amount must be from 0 to {FIELDS[operand.field].mask}, not {text}")
        return {operand.field: amount}
    name = "barrier" if operand.kind == "barrier" else operand.field
    values = _parse_numbered(text, operand.kind, operand.field, name)
    return values | ({"modifiers.copy.has_barrier": 1} if operand.optional else {})


def _format_immediate(value: int) -> str:
    signed = value - (1 << 32) if value >> 31 else value
    return str(signed) if -(1 << 16) <= signed < 1 << 16 else f"{value:#010x}"


def format_operand(operand: Operand, values: Mapping[str, int], labels: Mapping[int, str] | None = None) -> str | None:
    """Canonical text of one operand from its fields; ``None`` when it is optional and absent or has no text.

    ``labels`` maps instruction numbers to names for branch targets.
    """
    if operand.kind in ("source", "uniform_source"):
        source = values["b_source"]
        if source == OperandSource.IMMEDIATE.value:
            return _format_immediate(values["imm"])
        return f"{'r' if source == OperandSource.REGISTER.value else 'ur'}{values['b']}"
    if operand.kind == "address":
        offset = f"rf{values['a']}" if values["a"] >= FIRST_FACTOR_REGISTER else f"r{values['a']}"
        return f"ur{values['b']}:{offset}:{values['imm']:#04x}"
    if operand.kind == "amount":
        return str(values[operand.field])
    if operand.kind == "select":
        return f"{'!' if values['guard_negate'] else ''}p{values['guard']}"
    if operand.kind == "immediate":
        return _format_immediate(values["imm"])
    if operand.kind == "label":
        return (labels or {}).get(values["imm"], str(values["imm"]))
    if operand.kind == "special":
        return next((text for text, special in _SPECIALS.items() if special.value == values[_SPECIAL]), None)
    if operand.optional and not values["modifiers.copy.has_barrier"]:
        return None
    return f"{_PREFIXES[operand.kind][0]}{values[operand.field]}"
