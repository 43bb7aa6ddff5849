"""The modifiers of the text (``.ka2``, ``.shared`` …): one table for assembler, disassembler and documentation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from heddle.errors import UsageError
from heddle.isa.compiled_offsets import GATHERED_BYTES, OffsetEntry
from heddle.isa.encoding import LoopOrder, OutputUse, Reduction, Space, Swizzle, WaitUnit
from heddle.isa.tensor_descriptor import TensorFormat
from heddle.isa.tensor_rules import REDUCTION_FORMATS

__all__ = ["Choice", "Flags", "MODIFIERS", "ModifierError", "parse_modifiers", "format_modifiers"]


class ModifierError(UsageError):
    """A modifier is unknown, given twice or missing."""


@dataclass(frozen=True)
class Choice:
    """One decision of an instruction, taken by at most one modifier.

    ``tokens`` maps each modifier to the field values that it sets (dotted field name to integer); several modifiers may
    mean the same, the first is the canonical one. ``default`` is the modifier that its absence stands for (``None``: it
    must be given); ``shown`` says whether the disassembler writes the default.
    """

    name: str
    doc: str
    tokens: dict[str, dict[str, int]]
    default: str | None
    shown: bool = False

    def fields(self) -> list[str]:
        """Names of the fields that it sets."""
        return list(next(iter(self.tokens.values())))

    def accepts(self, token: str) -> bool:
        return bool(token) and token in self.tokens

    def format(self, values: Mapping[str, int]) -> list[str] | None:
        """Modifiers for the field values, or ``None`` when there are none with that meaning."""
        for token, wanted in self.tokens.items():
            if all(values[name] == number for name, number in wanted.items()):
                return [token] if token and (self.shown or token != self.default) else []
        return None


@dataclass(frozen=True)
class Flags:
    """A bit mask built from any set of modifiers; none of them means all bits, ``none`` no bit."""

    name: str
    doc: str
    field: str
    tokens: dict[str, int]      # modifier to bit number

    def fields(self) -> list[str]:
        """Names of the fields that it sets."""
        return [self.field]

    def accepts(self, token: str) -> bool:
        return token in self.tokens or token == "none"

    def format(self, values: Mapping[str, int]) -> list[str]:
        """Modifiers for the field values."""
        mask = values[self.field]
        if mask == sum(1 << bit for bit in self.tokens.values()):
            return []
        return [token for token, bit in self.tokens.items() if mask >> bit & 1] or ["none"]


def _enumeration(enumeration: type[Enum], field: str, spell: Callable[[str], str] = str.lower) -> dict[str, dict[str, int]]:
    return {spell(member.name): {field: member.value} for member in enumeration}


def _optional(enumeration: type[Enum], field: str, spell: Callable[[str], str] = str.lower) -> dict[str, dict[str, int]]:
    """Like ``_enumeration``, but the member NONE has no modifier."""
    return {"" if member.name == "NONE" else spell(member.name): {field: member.value} for member in enumeration}


def _swizzles(field: str) -> dict[str, dict[str, int]]:
    return _optional(Swizzle, field, lambda name: name[1:] + "B")


def _ka() -> dict[str, dict[str, int]]:
    ka, interleaved = "modifiers.matrix.ka", "modifiers.matrix.ka_interleaved"
    tokens = {f"ka{n}": {ka: n - 1, interleaved: 0} for n in range(1, 5)}
    return tokens | {f"ka{n}i": {ka: n - 1, interleaved: 1} for n in range(2, 5)}


def _kb() -> dict[str, dict[str, int]]:
    kb, destination = "modifiers.matrix.kb", "modifiers.matrix.kb_destination"
    tokens = {f"kb{n}": {kb: n - 1, destination: 0} for n in range(1, 5)}
    return tokens | {f"kb{n}d{d}": {kb: n - 1, destination: d} for n in range(2, 5) for d in range(n)}


def _flag(field: str, zero: str, one: str) -> dict[str, dict[str, int]]:
    return {zero: {field: 0}, one: {field: 1}}


_MATRIX = "modifiers.matrix."
_COPY = "modifiers.copy."
_REDUCIBLE = sorted(frozenset.union(*REDUCTION_FORMATS.values()), key=lambda kind: kind.value)
_SEGMENT = "modifiers.segment."

def _vector() -> Choice:
    return Choice("vector", "four registers from dst and from a, one function each; b is the same for all",
                  _flag("modifiers.alu.vector", "", "v4"), "")


def _spaces() -> tuple[Choice, Choice]:
    return (Choice("destination", "destination space", _enumeration(Space, _COPY + "destination"), None),
            Choice("source", "source space", _enumeration(Space, _COPY + "source"), None))


def _reduction() -> Choice:
    return Choice("reduction", "combine with the destination", _optional(Reduction, _COPY + "reduction"), "")


def _tensor_rank() -> Choice:
    return Choice("rank", "dimensions of the tensor", {f"{rank}d": {_COPY + "rank_minus_one": rank - 1} for rank in range(1, 6)},
                  None, shown=True)


def _slices() -> Choice:
    return Choice("k", "factor words, one k-slice each", {f"k{n}": {_MATRIX + "k_length": n - 1} for n in range(1, 17)}, "k1")


def _elements() -> Choice:
    return Choice("k", "entries of the compiled-offset memory, one element each",
                  {f"k{n}": {"modifiers.memory.entries": n - 1} for n in range(1, GATHERED_BYTES + 1)}, "k1")


def _copy() -> tuple[Choice, ...]:
    """What ``copy_block`` and ``copy_rows`` have in common."""
    return (
        *_spaces(),
        Choice("swizzle", "swizzle of the shared-memory address", _swizzles(_COPY + "swizzle"), ""),
        _reduction(),
        Choice("format", "elements of a reduction",
               {"": {_COPY + "format": TensorFormat.U8.value}}
               | {kind.name.lower(): {_COPY + "format": kind.value} for kind in _REDUCIBLE}, ""),
    )


def _multicast() -> Choice:
    return Choice("multicast", "to the cores of the mask in a uniform register behind the other operands",
                  _flag(_COPY + "multicast", "", "multicast"), "")


# Modifier group of the instruction table to its decisions, in canonical order.
MODIFIERS: dict[str, tuple[Choice | Flags, ...]] = {
    "": (),
    "compare": (Choice("signedness", "unsigned comparison", _flag("modifiers.alu.unsigned", "s", "u"), "s"),),
    "alu": (_vector(),),
    "mulh": (_vector(), Choice("signedness", "unsigned product", _flag("modifiers.alu.unsigned", "s", "u"), "s")),
    "narrow": (Choice("bytes", "signed or unsigned bytes", _flag("modifiers.alu.unsigned", "s8", "u8"), None, shown=True),),
    "output": (Choice("bytes", "signed or unsigned bytes", _flag("modifiers.alu.unsigned", "s8", "u8"), None, shown=True),
               Choice("order", "of the bytes: neighbouring threads in a word, or one thread of each group",
                      {name: {"modifiers.alu.output": use.value} for name, use in (
                          ("", OutputUse.PACK), ("t", OutputUse.TRANSPOSE), ("g", OutputUse.GROUPS))}, "")),
    "wait": (Flags("units", "units to wait for; all when none is named", "modifiers.wait.units",
                   {unit.name.lower(): unit.value for unit in WaitUnit}),),
    "group": (Choice("read", "only until shared memory has been read", _flag("modifiers.wait.read", "", "read"), ""),),
    "segment": (
        Choice("space", "memory", _enumeration(Space, _SEGMENT + "space"), "shared", shown=True),
        Choice("element", "bits of an element",
               {f"b{8 << shift}": {_SEGMENT + "element_shift": shift} for shift in range(5)}, "b8", shown=True),
        Choice("rank", "dimensions",
               {f"d{rank}": {_SEGMENT + "rank": rank - 1} for rank in range(1, 6)}, "d1", shown=True),
        Choice("swizzle", "swizzle of a tile in shared memory", _swizzles(_SEGMENT + "swizzle"), ""),
    ),
    "copy": _copy(),
    "block": (*_copy(), _multicast()),
    "tensor": (_tensor_rank(), *_spaces(), _multicast(), _reduction()),
    "rank": (_tensor_rank(),),
    "slices": (_slices(),),
    "gather": (_elements(),),
    "matrix": (
        Choice("ka", "threads that share a row; i: interleaved columns", _ka(), "ka1"),
        Choice("kb", "threads that share a dot product; d: the thread that receives it", _kb(), "kb1"),
        Choice("sum", "all threads share every dot product, which thread 0 receives", _flag(_MATRIX + "lane_sum", "", "sum"), ""),
        Choice("t", "B is stored transposed", _flag(_MATRIX + "transpose", "t0", "t1"), "t0"),
        Choice("A", "A is unsigned or signed", _flag(_MATRIX + "a_signed", "ua", "sa"), "sa", shown=True),
        Choice("B", "B is unsigned or signed", _flag(_MATRIX + "b_signed", "ub", "sb"), "sb", shown=True),
        _slices(),
        Choice("offsets", "addresses of B by the compiled-offset memory: an entry for each word (.ow), or for each byte (.ob)",
               {"": {_MATRIX + "compiled": OffsetEntry.NONE.value}, "ow": {_MATRIX + "compiled": OffsetEntry.WORD.value},
                "ob": {_MATRIX + "compiled": OffsetEntry.BYTE.value}}, ""),
        Choice("order", "columns outermost (all slices of a column before the next column)",
               {"": {_MATRIX + "order": LoopOrder.SLICES_OUTER.value},
                "kin": {_MATRIX + "order": LoopOrder.COLUMNS_OUTER.value}}, ""),
        Choice("z", "slice 0 replaces the product registers instead of adding", _flag(_MATRIX + "zero", "", "z"), ""),
    ),
}


def _allowed(group: str) -> str:
    parts = []
    for slot in MODIFIERS[group]:
        tokens = ["." + token for token in slot.tokens if token]
        parts.append(", ".join(tokens) if len(tokens) < 10 else f"{tokens[0]} to {tokens[-1]}")
    return "one of " + ", ".join(dict.fromkeys(parts)) if parts else "absent"


def parse_modifiers(group: str, tokens: Sequence[str]) -> dict[str, int]:
    """Field values (dotted name to integer) that the modifiers of an instruction set, defaults included.

    ``group`` is a key of ``MODIFIERS``, ``tokens`` the modifiers without their dots in the order of the text. A
    modifier goes to the first decision that knows it and is still open. Raises ``ModifierError``.
    """
    slots = MODIFIERS[group]
    taken: dict[str, list[str]] = {}
    for token in tokens:
        candidates = [slot for slot in slots if slot.accepts(token)]
        if not candidates:
            raise ModifierError(f"modifier must be {_allowed(group)}, not .{token}")
        open_slots = [slot for slot in candidates if slot.name not in taken or isinstance(slot, Flags)]
        if not open_slots:
            raise ModifierError(f"{candidates[0].name} must be given once, not again by .{token}")
        taken.setdefault(open_slots[0].name, []).append(token)
    values: dict[str, int] = {}
    for slot in slots:
        given = taken.get(slot.name)
        if isinstance(slot, Flags):
            bits = [slot.tokens[token] for token in given or slot.tokens if token != "none"]
            values[slot.field] = sum(1 << bit for bit in set(bits))
        else:
            chosen = given[0] if given else slot.default
            if chosen is None:
                allowed = ", ".join("." + token for token in slot.tokens)
                raise ModifierError(f"{slot.name} must be one of {allowed}, not missing")
            values.update(slot.tokens[chosen])
    return values


def format_modifiers(group: str, values: Mapping[str, int]) -> str | None:
    """Canonical modifiers (with their dots) for field values, or ``None`` when no text stands for them."""
    tokens = []
    for slot in MODIFIERS[group]:
        part = slot.format(values)
        if part is None:
            return None
        tokens += part
    return "".join("." + token for token in tokens)
