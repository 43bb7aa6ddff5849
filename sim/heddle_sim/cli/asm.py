"""Assemble a program.

Prints a listing, or writes the words as raw bytes (16 per instruction, lowest byte first) or as lines of
hexadecimal digits. With --json a row for each instruction.
"""

import argparse

from ..isa import assemble
from .common import add_config, add_json, configuration, print_json
from .files import file_path, instruction_rows, read_text, write_text

__all__ = ["add_arguments", "execute"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", help="text of the program, - for standard input")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write the program here; .hex writes text, anything else bytes"
    )
    add_config(parser)
    add_json(parser)


def execute(options: argparse.Namespace) -> None:
    cfg = configuration(options)
    program = assemble(read_text(options.source), cfg)
    if options.json:
        print_json("asm", cfg.name, instruction_rows(program))
    elif options.output is None:
        print(program.listing(), end="")
    if options.output is None:
        return
    if options.output.endswith(".hex"):
        write_text(options.output, "".join(f"{word:032x}\n" for word in program.words))
    else:
        file_path(options.output).write_bytes(program.to_bytes())
