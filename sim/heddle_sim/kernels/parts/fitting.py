"""What a kernel takes of shared memory, registers and the instruction memory, and refusals of what does not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from heddle.config import Config, ConfigError
from heddle.constants import REGISTER_GROUPS
from heddle.errors import UsageError

from ...isa import assemble
from .register_groups import words_per_group

if TYPE_CHECKING:
    from ...isa.program import Program
    from .text import KernelText

__all__ = ["Region", "Unfit", "assemble_kernel", "check_factors", "check_regions", "check_tensors", "fitted"]

Built = TypeVar("Built")
_MOST = {"shared_memory_kib": 1024, "instruction_words": 4096}      # as ``Config`` has them


class Unfit(Exception):
    """A kernel does not fit: ``parameter`` of the configuration is too small."""

    def __init__(self, parameter: str) -> None:
        super().__init__(parameter)
        self.parameter = parameter


class Region(NamedTuple):
    """``nbytes`` bytes of shared memory from ``start`` on."""

    name: str
    start: int
    nbytes: int


def check_regions(cfg: Config, regions: Sequence[Region]) -> None:
    """Raises ``AssertionError`` unless all ``Region``s are in shared memory, hold something, and have no byte in common."""
    end, before = 0, "the beginning of shared memory"
    for name, start, nbytes in sorted(regions, key=lambda region: region.start):
        assert nbytes > 0, f"{name} must hold at least one byte, not {nbytes}"
        assert start >= end, f"{name} must begin behind {before}, not at {start} with an end at {end}"
        end, before = start + nbytes, name
    assert end <= cfg.shared_bytes, f"{before} must end within {cfg.shared_bytes} bytes of shared memory, not at {end}"


def check_factors(cfg: Config, words: int, halves: int = 2) -> None:
    """Raises ``AssertionError`` unless ``words`` factor words fit a part (of ``halves``) of the register file that is loaded while
    ``mm`` reads another. The last register group has the places of the columns of B."""
    most = (REGISTER_GROUPS // halves - 1) * words_per_group(cfg)
    assert 0 < words <= most, f"factor words must be from 1 to {most}, not {words}"


def check_tensors(cfg: Config, what: str) -> None:
    """Raises ``ValueError`` where the configuration has no groups of stores, which ``what`` needs."""
    if not cfg.tensors:
        raise UsageError(f"configuration {cfg.name} must have tensors for {what} (groups of stores)")


def assemble_kernel(text: KernelText, cfg: Config) -> Program:
    """``Program`` of a ``KernelText``. Raises ``Unfit`` where it is longer than the instruction memory."""
    if text.instructions > cfg.instruction_words:
        raise Unfit("instruction_words")
    return assemble(str(text), cfg)


def fitted(cfg: Config, kernel: str, build: Callable[[Config], Built], **settings: object) -> Built:
    """``build(cfg)``; where that raises ``Unfit``, ``ConfigError`` says which parameter must have at least which value.

    ``kernel`` and ``settings`` (name to value): what is built, for the message. ``build`` is called with larger values of the parameter
    to find the least.
    """
    try:
        return build(cfg)
    except Unfit as problem:
        parameter = problem.parameter
    had = getattr(cfg, parameter)
    value = 2 * had
    while value <= _MOST[parameter]:
        try:
            build(cfg.replace(**{parameter: value}))
        except Unfit as problem:
            if problem.parameter == parameter:
                value *= 2
                continue
        break
    beyond = f" ({_MOST[parameter]} is the most there is)" if value > _MOST[parameter] else ""
    shown = ", ".join(f"{name} = {value}" for name, value in {"threads": cfg.threads, "dot": cfg.dot, **settings}.items())
    raise ConfigError(f"{parameter} must be {'more than' if beyond else 'at least'} {_MOST[parameter] if beyond else value}{beyond} for "
                      f"{kernel} with {shown}, not {had}")
