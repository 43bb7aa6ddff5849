"""A program: instruction words with the labels and source lines they came from."""

from collections.abc import Iterable
from typing import Self

from heddle.errors import UsageError, UsageTypeError

from .disassembler import disassemble_word
from .fields import WORD_BYTES
from .words import integer_list, word_list

__all__ = ["Program"]


class Program:
    """Instructions in the order of the instruction memory.

    Attributes
    ----------
    words : list of int
        Instruction words of 128 bits; index is the program counter.
    labels : dict of str to int
        Program counter of each label.
    lines : list of int
        Source line (from 1) of each word, or 0 when unknown.
    source : str
        The text that was assembled, or "".
    """

    def __init__(self, words: Iterable[int], labels: dict[str, int] | None = None, lines: Iterable[int] | None = None,
                 source: str = "") -> None:
        self.words = word_list(words)
        if not isinstance(labels, dict | None):
            raise UsageTypeError(f"labels must be a dictionary of names to program counters, not {type(labels).__name__}")
        self.labels = dict(labels or {})
        self.lines = [0] * len(self.words) if lines is None else integer_list("lines", lines)
        if not isinstance(source, str):
            raise UsageTypeError(f"source must be text, not {type(source).__name__}")
        self.source = source
        if len(self.lines) != len(self.words):
            raise UsageError(f"lines must be one per word ({len(self.words)}), not {len(self.lines)}")

    def __len__(self) -> int:
        return len(self.words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self.words == other.words

    def to_bytes(self) -> bytes:
        """The words in order, 16 bytes each, lowest byte first."""
        return b"".join(word.to_bytes(WORD_BYTES, "little") for word in self.words)

    @classmethod
    def from_bytes(cls, image: bytes | bytearray | memoryview) -> Self:
        """Program from the bytes of ``to_bytes``; labels and lines are not kept there."""
        if not isinstance(image, (bytes, bytearray, memoryview)):
            raise UsageTypeError(f"image must be bytes, not {type(image).__name__}")
        if len(image) % WORD_BYTES:
            raise UsageError(f"size of a program must be a multiple of {WORD_BYTES} bytes, not {len(image)}")
        parts = (image[start:start + WORD_BYTES] for start in range(0, len(image), WORD_BYTES))
        return cls([int.from_bytes(part, "little") for part in parts])

    def source_line(self, pc: int) -> str:
        """``line N: text`` of the instruction at ``pc``, or "" when it is unknown."""
        number = self.lines[pc] if 0 <= pc < len(self.lines) else 0
        lines = self.source.splitlines()
        return f"line {number}: {lines[number - 1].strip()}" if 0 < number <= len(lines) else ""

    def listing(self) -> str:
        """Text with one line per word: program counter, word, canonical text; labels stand on lines of their own."""
        at: dict[int, list[str]] = {}
        for name, pc in self.labels.items():
            at.setdefault(pc, []).append(name)
        lines = []
        for pc, word in enumerate(self.words):
            lines += [f"{name}:" for name in at.get(pc, ())]
            lines.append(f"{pc:4d}  {word:032x}  {disassemble_word(word)}")
        lines += [f"{name}:" for name in at.get(len(self.words), ())]
        return "\n".join(lines) + "\n" if lines else ""
