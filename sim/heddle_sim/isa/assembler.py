"""Assembler: text of the instruction set to a ``Program``."""

import re

from heddle.config import Config
from heddle.errors import UsageTypeError

from .program import Program
from .statements import AssemblyError, Statement, finish, parse_instruction

__all__ = ["assemble"]

_LABEL = re.compile(r"\s*([A-Za-z_.][\w.]*)\s*:")


def assemble(text: str, cfg: Config | None = None) -> Program:
    """Assemble the text of a program.

    Parameters
    ----------
    text : str
        Instructions, labels and comments as described in ``docs/isa.md``.
    cfg : Config, optional
        Refuse register numbers that the configuration does not have and programs longer than its instruction memory.
        Without it only what no configuration allows is refused.

    Returns
    -------
    Program

    Raises
    ------
    AssemblyError
        For the first line that breaks a rule.
    """
    if not isinstance(text, str):
        raise UsageTypeError(f"text must be text, not {type(text).__name__}")
    if not isinstance(cfg, Config | None):
        raise UsageTypeError(f"cfg must be a Config, not {type(cfg).__name__}")
    labels: dict[str, int] = {}
    first_lines: dict[str, int] = {}
    statements: list[Statement | int] = []
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        code = re.split(r"#|//", line, maxsplit=1)[0]
        while match := _LABEL.match(code):
            name = match[1]
            if name in labels:
                first = first_lines[name]
                raise AssemblyError(number, f"label {name!r} must be defined once, not again (first in line {first})")
            labels[name], first_lines[name] = len(statements), number
            code = code[match.end():]
        code = " ".join(code.split())
        if code:
            statements.append(parse_instruction(code, number))
            lines.append(number)
    words = [finish(statement, labels, cfg) for statement in statements]
    if cfg is not None and len(words) > cfg.instruction_words:
        limit = cfg.instruction_words
        raise AssemblyError(lines[limit], f"program must have at most {limit} instructions, not {len(words)}")
    return Program(words, labels, lines, text)
