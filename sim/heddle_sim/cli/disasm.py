"""Turn instruction words back into text.

Reads what `heddle asm -o` wrote: raw bytes, or lines of hexadecimal digits in a .hex file.
"""

import argparse

from ..isa import disassemble
from .files import read_words, write_text

__all__ = ["add_arguments", "execute"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", help="a file of instruction words")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the text here instead of standard output")


def execute(options: argparse.Namespace) -> None:
    text = disassemble(read_words(options.program))
    if options.output is None:
        print(text, end="" if text.endswith("\n") else "\n")
    else:
        write_text(options.output, text)
