"""Golden model of the PEs under the recurrent engine: sums of matrix-vector passes in CAT taps."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from heddle.rnn.layouts import Start
from numpy.typing import ArrayLike

__all__ = ["EngineStep", "Sums", "row_place", "sweep_steps"]


@dataclass(frozen=True)
class EngineStep:
    """Step of the PEs: register ``product`` of each CAT tap becomes ``source`` (0 with ``zero``) plus the sum of that tap.

    ``cat`` is log2 of the dot products of a PE, as in ``engine_step_layout``.
    """

    product: int
    source: int
    factor_word: int
    cat: int = 0
    zero: int = 0


class Sums:
    """Accumulators of all PEs: tap 0 in the product register file, taps 1 to 3 in registers of their own.

    Parameters
    ----------
    products : int32 [threads, 256]
        Product registers.
    factors : uint8 [threads, words, dot]
        Factor registers; weights are int8.
    tap_registers : int
        Accumulators of each tap but the first (``rnn_tap_registers``).
    """

    def __init__(self, products: np.ndarray, factors: np.ndarray, tap_registers: int = 64) -> None:
        self.products, self.factors = products, factors
        self.taps = np.zeros((4, len(products), tap_registers), np.int32)       # 1 to 3 are used

    def registers(self, tap: int) -> np.ndarray:
        """Registers of a tap, int32 [threads, registers]; a view."""
        return self.taps[tap] if tap else self.products

    def step(self, step: EngineStep, elements: ArrayLike) -> None:
        """Execute one step with the ``dot / cat`` elements of a column group; sums are modulo 2^32."""
        taps = 1 << step.cat
        weights = self.factors[:, step.factor_word].view(np.int8).astype(np.int64)
        for tap in range(taps):
            registers = self.registers(tap)
            count = registers.shape[1]
            before = 0 if step.zero else registers[:, step.source % count].astype(np.int64)
            total = before + weights[:, tap::taps] @ np.asarray(elements, np.int64)[:weights.shape[1] // taps]
            registers[:, step.product % count] = total.astype(np.uint64).astype(np.uint32).view(np.int32)


def sweep_steps(vector: ArrayLike, *, dot: int, cat: int, blocks: int, weight: int, product: int, bias: int = 0,
                start: Start = Start.CONTINUE) -> Iterator[tuple[EngineStep, np.ndarray]]:
    """Steps of a matrix-vector pass, each with its elements, in order: column group by column group, row block by row block.

    ``cat`` is log2 of the dot products of a PE; ``vector`` is an integer array of whole column groups.
    """
    width = dot >> cat
    for column, elements in enumerate(np.asarray(vector).reshape(-1, width)):
        for block in range(blocks):
            first = column == 0
            source = bias if first and start == Start.BIAS else product
            yield EngineStep(product + block, source + block, weight + column * blocks + block, cat,
                             int(first and start == Start.ZERO)), elements


def row_place(row: int, *, threads: int, tail_lanes: int, cat: int) -> tuple[int, int, int]:
    """Lane (PE), CAT tap and register offset of row number ``row`` of a matrix."""
    groups = threads // tail_lanes
    group, k = (row // tail_lanes) % groups, row // tail_lanes // groups
    return group * tail_lanes + row % tail_lanes, k % (1 << cat), k >> cat
