"""Cycles of thread instructions: what the thread unit needs when nothing stalls (docs/units/thread.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from heddle.config import Config

__all__ = ["thread_cycles"]

_LINE = re.compile(r"\s*(?:@!?p\d+ )?(\w+)((?:\.\w+)*)\s+(.*)")
_REGISTER = re.compile(r"r\d+$")
_VECTORS = {"v2": 2, "v4": 4}


def thread_cycles(cfg: Config, lines: Iterable[str]) -> int:
    """Cycles of thread instructions, given as lines of assembly text, from one to the next; those of other units count as 0."""
    return sum(_cycles(cfg, line) for line in lines)


def _cycles(cfg: Config, line: str) -> int:
    match = _LINE.match(line)
    if match is None or match[1].startswith("u") or match[1] in ("bra", "barrier", "wait", "copy_rows", "copy_block"):
        return 0
    name, modifiers, operands = match[1], match[2].split(".")[1:], match[3].split(",")
    groups, words = cfg.thread_groups, next((_VECTORS[part] for part in modifiers if part in _VECTORS), 1)
    passes = -(-(cfg.threads // groups) // cfg.slot_multipliers)
    after = 0 if cfg.thread_overlap else cfg.register_read_latency + 4
    short = groups + 2 if cfg.thread_overlap else groups + after
    four = 4 * (groups + 2) if cfg.thread_overlap else 4 * (groups + 3) + 1
    if name == "ld":
        return short if words == 1 else words * (groups + 2) if cfg.thread_overlap else words * (groups + 3) + 1
    if name == "st":
        return max(2 * groups, 3) + after if words == 1 else words * groups + 1 + (groups + after - 1 if after else 0)
    if name == "narrow":
        return 4 * groups + 1 + (after + 1 if after else 0)
    if name == "scale":
        return 4 * passes * groups + 1 + (4 if after else 0)
    products = passes * groups + 1 if name in ("mul", "mulh") else 0
    if words == 4:
        return max(four, 4 * passes * groups + 1 + (2 + after if after else 0) if products else 0)
    two = 2 * groups + after if _REGISTER.match(operands[-1].strip()) and name != "mov" else 0
    return max(short, two, products + after if products else 0)
