"""Packing and unpacking of 128-bit instruction words, derived from ``heddle.isa.encoding``."""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

from amaranth.hdl import Shape, ShapeLike
from amaranth.lib import data
from heddle.errors import UsageError
from heddle.isa.encoding import INSTRUCTION_BITS, Opcode, instruction_layout

__all__ = ["FIELDS", "WORD_BYTES", "Field", "pack", "unpack", "opcode_of"]

WORD_BYTES = INSTRUCTION_BITS // 8


class Field:
    """Place of one field in the instruction word: ``offset`` and ``width`` in bits, ``shape`` as declared."""

    def __init__(self, name: str, offset: int, shape: ShapeLike) -> None:
        self.name = name
        self.offset = offset
        self.shape = shape
        self.width = Shape.cast(shape).width
        self.mask = (1 << self.width) - 1

    def get(self, word: int) -> int:
        """Value of the field in ``word``, zero-extended."""
        return word >> self.offset & self.mask

    def __repr__(self) -> str:
        return f"Field({self.name!r}, {self.offset}, {self.width})"


def _walk(layout: data.Layout, prefix: str, offset: int) -> Iterator[tuple[str, Field]]:
    for name, member in layout:
        path = f"{prefix}{name}"
        yield path, Field(path, offset + member.offset, member.shape)
        if isinstance(member.shape, data.Layout):
            yield from _walk(member.shape, path + ".", offset + member.offset)


# Dotted name ("dst", "modifiers.matrix.k_length") to place, of every field and of every field inside the modifiers.
FIELDS = dict(_walk(instruction_layout, "", 0))


def pack(values: Mapping[str, int | Enum]) -> int:
    """Instruction word (int of 128 bits) with the given fields set and all others zero.

    ``values`` maps dotted names to integers or enumeration members; a negative value is taken modulo the field's size.
    ``KeyError`` for a name that is no field, ``ValueError`` for a value that does not fit.
    """
    word = 0
    for name, value in values.items():
        field = FIELDS[name]
        number = int(value.value if hasattr(value, "value") else value)
        if not -(field.mask + 1) // 2 <= number <= field.mask:
            raise UsageError(f"{name} must fit {field.width} bits, not {number}")
        word |= (number & field.mask) << field.offset
    return word


def unpack(word: int, names: Iterable[str]) -> dict[str, int]:
    """The named fields of an instruction word as a dictionary of non-negative integers."""
    return {name: FIELDS[name].get(word) for name in names}


def opcode_of(word: int) -> Opcode | None:
    """The ``Opcode`` of a word, or ``None`` when it is not defined."""
    try:
        return Opcode(FIELDS["opcode"].get(word))
    except ValueError:
        return None
