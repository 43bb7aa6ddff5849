"""The software view of the instruction set: assembler, disassembler and documentation."""

from .assembler import assemble
from .disassembler import disassemble, disassemble_word
from .statements import AssemblyError

__all__ = ["AssemblyError", "assemble", "disassemble", "disassemble_word"]
