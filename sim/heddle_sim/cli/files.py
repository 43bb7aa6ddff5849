"""Programs and texts that options name; what is no program or text is wrong use."""

import re
import sys
from pathlib import Path
from typing import Any

from heddle.config import Config
from heddle.errors import UsageError

from ..isa import assemble, disassemble_word
from ..isa.program import Program

__all__ = ["file_path", "instruction_rows", "is_words", "read_program", "read_text", "read_words", "write_text"]

WORD_SUFFIXES = (".bin", ".hex")
_WORD = re.compile(r"[0-9a-fA-F]{1,32}", re.ASCII)


def instruction_rows(program: Program) -> list[dict[str, Any]]:
    """A row for each instruction: number, word in hexadecimal digits, canonical text."""
    return [{"pc": pc, "word": f"{word:032x}", "text": disassemble_word(word)} for pc, word in enumerate(program.words)]


def file_path(name: str | Path) -> Path:
    """``Path`` of a file that an option names."""
    if "\0" in str(name):
        raise UsageError(f"name of a file must have no zero byte, not {name!r}")
    return Path(name)


def write_text(name: str | Path, text: str) -> None:
    """Write a file of text in UTF-8."""
    file_path(name).write_text(text, encoding="utf-8")


def read_text(name: str | Path) -> str:
    """Text of a file in UTF-8, of standard input where ``name`` is -."""
    if name == "-" and sys.stdin is None:
        raise UsageError("- must be standard input that is open, not closed")
    try:
        return sys.stdin.read() if name == "-" else file_path(name).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} must be text in UTF-8, not have byte {error.object[error.start]:#04x} at {error.start}") from None


def is_words(name: str) -> bool:
    """Whether a file holds instruction words, by its name."""
    return Path(name).suffix in WORD_SUFFIXES


def read_words(name: str) -> Program:
    """``Program`` of a file of instruction words: hexadecimal digits in a .hex file, else raw bytes."""
    path = file_path(name)
    text = read_text(path) if path.suffix == ".hex" else None
    try:
        program = Program.from_bytes(path.read_bytes()) if text is None else Program(_hexadecimal(text))
    except ValueError as error:
        raise UsageError(f"{path} must hold instruction words: {error}") from None
    if not len(program):
        raise UsageError(f"{path} must hold instruction words: number of words must be at least 1, not 0")
    return program


def _hexadecimal(text: str) -> list[int]:
    words = []
    for number, line in enumerate(text.splitlines(), 1):
        for word in line.split():
            if not _WORD.fullmatch(word):
                raise UsageError(f"line {number} must be 1 to 32 hexadecimal digits, not {word[:40]!r}")
            words.append(int(word, 16))
    return words


def read_program(name: str, cfg: Config) -> Program:
    """``Program`` of a file for ``heddle run``: words, or text for the assembler. It must fit the instruction memory."""
    program = read_words(name) if is_words(name) else assemble(read_text(name), cfg)
    if not 1 <= len(program) <= cfg.instruction_words:
        raise UsageError(f"{name} must have 1 to {cfg.instruction_words} instructions, not {len(program)}")
    return program
