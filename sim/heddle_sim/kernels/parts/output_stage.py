"""Lines for the output stage of the thread unit: sums plus bias, requantised, to bytes [S0.17]."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from heddle.isa.encoding import output_bounds_layout

from ...golden.requantise import Requantise
from .requantisation import RequantiseSteps

__all__ = ["OutputStage"]


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
        self.spec, self._steps = spec, RequantiseSteps.of(spec)

    @property
    def multipliers(self) -> int | np.ndarray:
        """See above."""
        return self._steps.multipliers

    @property
    def clamps(self) -> bool:
        """See above."""
        return bool(self._steps.before)

    def channel(self, bias: int, multiplier: int, zero: int, part: int = 0) -> str:
        """Bias and multiplier of the lanes, from two registers, become set ``part``; ``zero``: a register that is 0."""
        return f"    channel r{zero if self.clamps else bias}, r{multiplier}, {part}"

    def word(self, register: int, target: int, bias: int, order: str = "", part: int = 0) -> Iterator[str]:
        """Four sums of each lane, from ``register`` on, to a word in ``target``; ``bias``: the register that has it."""
        if self.clamps:
            yield from (f"    add r{register + index}, r{register + index}, r{bias}" for index in range(4))
            yield from (f"    {name}.v4 r{register}, r{register}, {value}" for name, value in self._steps.before)
        minimum, maximum = self.spec.bounds
        bounds = {"zero_point": int(self.spec.zero_point) & 0xff, "minimum": minimum & 0xff, "maximum": maximum & 0xff, "set": part}
        form = ("u8" if self._steps.unsigned else "s8") + order
        yield (f"    requant.{form} r{target}, r{register}, {output_bounds_layout.const(bounds).as_value().value:#x}, "
               f"{self._steps.total_shift - 32}")
