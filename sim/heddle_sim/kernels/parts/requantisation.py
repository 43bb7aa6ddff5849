"""Requantisation of product registers as thread instructions [S0.17].

A result is x = sum * multiplier / 2**shift, rounded, plus the zero point, clamped. ``mulh`` leaves floor(sum * multiplier / 2**32); the
rest of the shift, with its rounding, is done by ``narrow``: floor((floor(p / 2**32) + 2**(s - 1)) / 2**s) is
floor((p + 2**(s + 31)) / 2**(s + 32)), so nothing is rounded twice. Zero point and bounds are scaled by 2**s and applied between the two;
bounds at the limits of the type are those of ``narrow``. Without any of these ``scale`` does the work of both instructions. Factors of
1/4 and more leave no shift for ``narrow``: there the sums are clamped to what can change the result and shifted left first.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from heddle.errors import UsageError

from ...golden.requantise import MAX_MULTIPLIER, Requantise

__all__ = ["RequantiseSteps", "check_one_shift", "clamps"]

_MAX_NARROW = 22        # zero point << shift plus a product of mulh (31 bits and a sign) then fits 32 bits
_SATURATES = 1024       # with this factor every sum but 0 goes beyond the bounds


def check_one_shift(spec: Requantise) -> None:
    """Raises ``ValueError`` for what only the output stage of convolutions does."""
    if spec.own_shifts:
        raise UsageError("requantise must have one shift and no double_rounding, but for convolutions")


def clamps(spec: Requantise) -> tuple[tuple[str, int], ...]:
    """Instructions that bring results to the bounds of ``spec``, (name, operand); none for those of its type."""
    (minimum, maximum), limits = spec.bounds, np.iinfo(spec.dtype)
    return (("max", minimum),) * (minimum > limits.min) + (("min", maximum),) * (maximum < limits.max)


@dataclass(frozen=True)
class RequantiseSteps:
    """The constants of the instructions: (name, operand) of those before and after ``mulh``, and the shift of ``narrow``.

    ``multipliers`` is one integer, or an int32 array with one for each column. ``total_shift`` (33 to 62) belongs to it.
    """

    before: tuple[tuple[str, int], ...]
    multipliers: np.ndarray | int
    after: tuple[tuple[str, int], ...]
    shift: int
    total_shift: int
    unsigned: bool

    @classmethod
    def of(cls, spec: Requantise) -> Self:
        """For a ``Requantise`` with one shift. Raises ``ValueError`` when factors per column are too far apart."""
        check_one_shift(spec)
        multipliers: Any = np.asarray(spec.multiplier, np.int64)
        shift = int(spec.shift)
        if not spec.per_column and int(multipliers) > _SATURATES << shift:
            multipliers, shift = np.int64(_SATURATES), 0
        while shift < 33 and 2 * multipliers.max() <= MAX_MULTIPLIER:
            multipliers, shift = multipliers * 2, shift + 1
        (minimum, maximum), zero = spec.bounds, int(spec.zero_point)
        before: tuple[tuple[str, int], ...] = ()
        after = []
        if shift < 33:
            before = cls._enlarge(int(multipliers.min()), shift, minimum - zero, maximum - zero)
            shift = 33
        scale = shift - 32
        if scale > _MAX_NARROW:
            after.append(("sar", scale - _MAX_NARROW))
            scale = _MAX_NARROW
        constants = (("add", zero),) * (zero != 0) + clamps(spec)
        after += [(name, value << scale) for name, value in constants]
        return cls(before, multipliers.astype(np.int32) if spec.per_column else int(multipliers), tuple(after), scale, shift,
                   np.dtype(spec.dtype) == np.uint8)

    @staticmethod
    def _enlarge(multiplier: int, shift: int, minimum: int, maximum: int) -> tuple[tuple[str, int], tuple[str, int], tuple[str, int]]:
        """Clamp the sums to those that matter and shift them left, so that 33 bits of shift are left."""
        left = 33 - shift
        low, high = (((minimum - 1) << shift) // multiplier, -(-((maximum + 1) << shift) // multiplier))
        if not -(1 << 31) <= low << left <= high << left < 1 << 31:
            raise UsageError("multiplier / 2**shift must be below 1/4, or differ less from column to column: the least is "
                             f"{multiplier} / 2**{shift}, scaled until the greatest multiplier has 31 bits")
        return ("max", low), ("min", high), ("shl", left)

    def instructions(self, first: int, count: int, target: int,
                     multiplier_load: Callable[[int], tuple[str, int]] | None = None) -> Iterator[str]:
        """Lines that turn ``count`` registers (a multiple of four) from ``first`` into bytes of ``count`` / 4 registers from ``target``.

        ``multiplier_load(quad)`` is, with multipliers per column, (line that loads those of four columns, register of the first).
        """
        for quad in range(count // 4):
            register = first + 4 * quad
            for name, value in self.before:
                yield f"    {name}.v4 r{register}, r{register}, {value}"
            narrow = "u8" if self.unsigned else "s8"
            if not multiplier_load and not self.after:
                yield f"    scale.{narrow} r{target + quad}, r{register}, {self.multipliers}, {self.shift}"
                continue
            if not multiplier_load:
                yield f"    mulh.v4 r{register}, r{register}, {self.multipliers}"
            else:
                line, factor = multiplier_load(quad)
                yield line
                for column in range(4):
                    yield f"    mulh r{register + column}, r{register + column}, r{factor + column}"
            for name, value in self.after:
                yield f"    {name}.v4 r{register}, r{register}, {value}"
            yield f"    narrow.{narrow} r{target + quad}, r{register}, {self.shift}"
