"""Turn instruction words back into text.

Reads what `heddle asm -o` wrote: raw bytes, or lines of hexadecimal digits in a .hex file. With --json a row for each instruction.
"""

import argparse

from ..isa import disassemble
from .common import add_json, print_json
from .files import instruction_rows, read_words, write_text

__all__ = ["add_arguments", "execute"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", help="a file of instruction words")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the text here instead of standard output")
    add_json(parser)


def execute(options: argparse.Namespace) -> None:
    program = read_words(options.program)
    text = disassemble(program)
    if options.json:
        print_json("disasm", None, instruction_rows(program))
    elif options.output is None:
        print(text, end="" if text.endswith("\n") else "\n")
    if options.output is not None:
        write_text(options.output, text)
