"""The software view of the instruction set: assembler, disassembler and documentation."""

from .assembler import AssemblyError, assemble
from .disassembler import disassemble, disassemble_word

__all__ = ["AssemblyError", "assemble", "disassemble", "disassemble_word"]
