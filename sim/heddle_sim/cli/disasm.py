"""Turn instruction words back into text.

Reads what `heddle asm -o` wrote: raw bytes, or lines of hexadecimal digits in a .hex file.
"""

from pathlib import Path

from ..isa import disassemble
from ..program import Program
from .common import CommandFailed

__all__ = ["add_arguments", "execute"]


def add_arguments(parser):
    parser.add_argument("program", help="a file of instruction words")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the text here instead of standard output")


def execute(options):
    path = Path(options.program)
    try:
        if path.suffix == ".hex":
            program = Program([int(line, 16) for line in path.read_text().split()])
        else:
            program = Program.from_bytes(path.read_bytes())
    except ValueError as error:
        raise CommandFailed(f"{path} must hold instruction words: {error}") from None
    text = disassemble(program)
    if options.output is None:
        print(text, end="" if text.endswith("\n") else "\n")
    else:
        Path(options.output).write_text(text)
