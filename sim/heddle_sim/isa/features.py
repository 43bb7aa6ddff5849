"""Which parameter of a configuration an instruction needs, and which presets have it."""

import dataclasses
from functools import cache
from typing import Any, cast

from heddle.config import Config, load_config, preset_names
from heddle.isa.encoding import Opcode
from heddle.isa.error_codes import ErrorCode

from .checking import find_violation
from .fields import FIELDS, opcode_of

__all__ = ["BOOLEANS", "NUMBERS", "lacking", "presets_with", "unsupported_message"]

BOOLEANS = tuple(field.name for field in dataclasses.fields(Config) if field.type is bool)
NUMBERS = ("compiled_offsets",)     # integers that are 0 where there is no such feature
# Of what a descriptor or the format of a reduction asks for, which the instruction does not show.
_OF_TENSORS = ("tensor_im2col", "tensor_interleave", "tensor_strides", "tensor_nan", "tensor_floats", "copy_swizzles")
_COPIES = (Opcode.COPY_BLOCK, Opcode.COPY_ROWS, Opcode.COPY_TENSOR, Opcode.PREFETCH_TENSOR)


_NEEDED = {"reduction_floats": "reductions", "rnn_differences": "rnn", "sparse": "rnn"} | {
    name: "tensors" for name in BOOLEANS if name.startswith("tensor_")}       # without these others have no effect


@cache
def presets_with(parameter: str) -> list[str]:
    """Names of the presets in which a parameter that is true, or above 0, has an effect."""
    presets = [load_config(name) for name in preset_names()]
    return [cfg.name for cfg in presets if getattr(cfg, parameter) and getattr(cfg, _NEEDED.get(parameter, parameter))]


def lacking(cfg: Config, parameter: str) -> str:
    """``<parameter> is false; true in <presets>``, of a number 0 and above 0, for the end of a message about a ``Config``."""
    presets, (without, having) = presets_with(parameter), ("0", "above 0") if parameter in NUMBERS else ("false", "true")
    return f"{parameter} is {without}; " + (f"{having} in {', '.join(presets)}" if presets else "so it is in all presets")


class _With:
    """A configuration with a parameter that is true, unchecked: others may be missing that it needs."""

    def __init__(self, cfg: Config, parameter: str) -> None:
        self._cfg, self._parameter = cfg, parameter

    def __getattr__(self, name: str) -> Any:
        return name == self._parameter or getattr(self._cfg, name)


def _candidates(word: int, cfg: Config) -> list[str]:
    """Parameters that are false or 0, one of which the instruction needs."""
    violation, false = find_violation(word, cfg), [name for name in (*BOOLEANS, *NUMBERS) if not getattr(cfg, name)]
    if violation and violation.code is ErrorCode.UNSUPPORTED:
        return [name for name in false if (find := find_violation(word, cast(Config, _With(cfg, name)))) is None
                or find.code is not violation.code or find.field != violation.field]
    opcode = opcode_of(word)
    if violation or opcode not in _COPIES:
        return []
    spaces = [FIELDS[f"modifiers.copy.{name}"].get(word) for name in ("destination", "source")]
    if opcode is Opcode.COPY_BLOCK and spaces[0] == spaces[1]:
        return [name for name in ("copy_within",) if name in false]
    wanted = ["reduction_floats"] * bool(FIELDS["modifiers.copy.reduction"].get(word))
    wanted += _OF_TENSORS if opcode in (Opcode.COPY_TENSOR, Opcode.PREFETCH_TENSOR) else ()
    return [name for name in wanted if name in false]


def unsupported_message(word: int, cfg: Config) -> str | None:
    """What an instruction that ended with UNSUPPORTED needs: the parameter that must be set and the presets that have it, or the rule that
    it breaks on every configuration. ``None`` where that is not known."""
    names = _candidates(word, cfg)
    if names:
        which = " or ".join(names) if len(names) > 1 else names[0]
        least = "above 0" if set(names) <= set(NUMBERS) else "true"
        return f"{which} must be {least} for this instruction ({'; '.join(lacking(cfg, name) for name in names)})"
    violation = find_violation(word, cfg)
    if violation and violation.code is ErrorCode.UNSUPPORTED:
        return f"{violation.field} must be {violation.rule}, not {violation.operand:#x}"
    if violation is None and opcode_of(word) in (Opcode.MATRIX, Opcode.OFFSETS, Opcode.GATHER):
        return "b must be a segment in shared memory"
    return None
