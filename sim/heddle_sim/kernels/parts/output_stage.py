"""Lines for the output stage of the thread unit: sums plus bias, requantised, to bytes [S0.17]."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from heddle.errors import UsageError
from heddle.isa.encoding import output_bounds_layout

from ...golden.output_stage import BIAS_BITS, channel_words
from ...golden.requantise import Requantise
from .requantisation import RequantiseSteps

__all__ = ["MOST_BIAS", "OutputStage", "bias_words"]

MOST_BIAS = 1 << BIAS_BITS - 1          # of columns with their own shifts, beyond the greatest


def bias_words(spec: Requantise | None, bias: np.ndarray) -> np.ndarray:
    """Biases as the output stage takes them, modulo 2^32: with the shifts of their columns where these have their own.

    Raises ``ValueError`` for a bias that then has no room.
    """
    if spec is None or not spec.own_shifts:
        return bias
    if bias.size and not -MOST_BIAS <= bias.min() <= bias.max() < MOST_BIAS:
        raise UsageError(f"bias minus x_zero_point times the sum of the filter must be from {-MOST_BIAS} to {MOST_BIAS - 1} with a shift "
                         f"for each column or double_rounding, not {bias.min()} to {bias.max()}")
    return channel_words(bias, np.asarray(spec.shift) - 32)


class OutputStage:
    """Instructions ``channel`` and ``requant`` for a ``Requantise``.

    Attributes
    ----------
    spec : Requantise
    multipliers : int or int32 array (N,)
        As the output stage takes them.
    clamps : bool
        Sums are brought into range before the output stage, which then adds no bias.
    """

    def __init__(self, spec: Requantise) -> None:
        self.spec, self._steps = spec, None if spec.own_shifts else RequantiseSteps.of(spec)

    @property
    def multipliers(self) -> int | np.ndarray:
        """See above."""
        return np.asarray(self.spec.multiplier, np.int32) if self._steps is None else self._steps.multipliers

    @property
    def clamps(self) -> bool:
        """See above."""
        return self._steps is not None and bool(self._steps.before)

    def channel(self, bias: int, multiplier: int, zero: int, part: int = 0) -> str:
        """Bias and multiplier of the lanes, from two registers, become set ``part``; ``zero``: a register that is 0."""
        return f"    channel r{zero if self.clamps else bias}, r{multiplier}, {part}"

    def word(self, register: int, target: int, bias: int, order: str = "", part: int = 0) -> Iterator[str]:
        """Four sums of each lane, from ``register`` on, to a word in ``target``; ``bias``: the register that has it."""
        if self._steps is not None and self.clamps:
            yield from (f"    add r{register + index}, r{register + index}, r{bias}" for index in range(4))
            yield from (f"    {name}.v4 r{register}, r{register}, {value}" for name, value in self._steps.before)
        minimum, maximum = self.spec.bounds
        bounds = {"zero_point": int(self.spec.zero_point) & 0xff, "minimum": minimum & 0xff, "maximum": maximum & 0xff, "set": part,
                  "own_shifts": self.spec.own_shifts, "double_rounding": self.spec.double_rounding}
        form = ("u8" if np.dtype(self.spec.dtype) == np.uint8 else "s8") + order
        yield (f"    requant.{form} r{target}, r{register}, {output_bounds_layout.const(bounds).as_value().value:#x}, "
               f"{0 if self._steps is None else self._steps.total_shift - 32}")
