"""Golden model of the activation pipeline of the recurrent engine: sums to activations, states and results (docs/units/rnn.md).

All arithmetic is integer, on all elements of an operation at once: arrays with one entry per element, or of any shape that broadcasts.
"""

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from heddle.config import Config
from heddle.errors import UsageError
from heddle.rnn.layouts import Cell, Function, Pre
from numpy.typing import ArrayLike

__all__ = ["activation", "dequantise", "round_shift", "saturate", "sum_position", "tail"]

_INTERVAL_BITS = 9          # an interval of the table is 2^-5 of the argument of tanh, 2^9 units of it
_ONE = 1 << 16
_BASE = np.array([round(_ONE * math.tanh(index / 32)) for index in range(257)], np.int64)


def saturate(value: ArrayLike, bits: int) -> np.ndarray:
    """Saturation: ``value`` limited to signed numbers of ``bits`` bits."""
    return np.clip(value, -1 << bits - 1, (1 << bits - 1) - 1)


def round_shift(value: ArrayLike, shift: int) -> np.ndarray:
    """``value / 2^shift`` to the nearest integer, halves upwards."""
    value = np.asarray(value, np.int64)
    return value if shift == 0 else value + (1 << shift - 1) >> shift


def activation(function: Function, v: ArrayLike) -> np.ndarray:
    """Linear, sigmoid, tanh or ReLU of signed 18-bit numbers with 13 fraction bits [S3.5].

    The result is int64, monotonic, with 16 fraction bits for sigmoid and tanh, else 13. ``docs/units/rnn.md`` states the maximum error
    over all arguments, in units of 2^-16.
    """
    v = np.asarray(v, np.int64)
    function = Function(function)
    if function == Function.LINEAR:
        return v.copy()
    if function == Function.RELU:
        return np.maximum(v, 0)
    magnitude = np.minimum(abs(v) if function == Function.SIGMOID else 2 * abs(v), (1 << 17) - 1)
    index, part = magnitude >> _INTERVAL_BITS, magnitude & (1 << _INTERVAL_BITS) - 1
    t = _BASE[index] + round_shift((_BASE[index + 1] - _BASE[index]) * part, _INTERVAL_BITS)
    t = np.where(v < 0, -t, t)
    return t if function == Function.TANH else round_shift(_ONE + t, 1)


def dequantise(sums: ArrayLike, shift: int, multiplier: int) -> np.ndarray:
    """De-quantised sum z: 18 bits with 13 fraction bits, from signed 32-bit sums."""
    return round_shift(saturate(round_shift(_signed32(sums), shift), 18) * int(multiplier), 16)


def sum_position(cfg: Config, operation: Any, group: int, registers: int = 0, parity: int = 0) -> tuple[int, int, int]:
    """Position of the sums of element group ``group``: (lane group, CAT tap, product register).

    ``registers`` and ``parity`` are the register offsets of the job.
    """
    row_group = int(operation.first) + group * int(operation.stride)
    index, cat = row_group // cfg.thread_groups, int(operation.cat)
    register = registers + int(operation.product) + (parity if operation.parity else 0) + (index >> cat)
    return row_group % cfg.thread_groups, index & (1 << cat) - 1, register % 256


def tail(operations: Sequence[Any], sums: Sequence[ArrayLike | None], operands: Sequence[ArrayLike | None]) -> list[np.ndarray | None]:
    """Results of the operations of a job for the sums of its elements.

    Parameters
    ----------
    operations : sequence
        Constants of ``operation_layout``, or any objects with its fields as attributes.
    sums : sequence of int [elements], one for each operation
        Product registers, signed or as words; ignored (may be None) for idle operations.
    operands : sequence of int [elements], one for each operation
        Elements of vector memory, signed; ignored (may be None) where ``read`` is 0.

    Returns
    -------
    list of int64 [elements], one for each operation
        16-bit results, signed; None for idle operations.

    Raises
    ------
    ValueError
        When an operation reads a value that no earlier operation has set.
    """
    values = _Values()
    return [values.step(operation, operand, total) for operation, operand, total in zip(operations, operands, sums, strict=True)]


def _signed32(sums: ArrayLike) -> np.ndarray:
    return (np.asarray(sums).astype(np.int64) + (1 << 31)) % (1 << 32) - (1 << 31)


def _kept(name: str, operation: Any) -> str:
    """Name of a stored value, one for each group of a pair."""
    return f"{name} of the second group" if operation.second_group else name


class _Values:
    """Values that operations store for later operations on the same elements."""

    def __init__(self) -> None:
        self.known: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.known:
            raise UsageError(f"{name} must be set by an operation before it is used")
        return self.known[name]

    def step(self, operation: Any, operand: ArrayLike | None, sums: ArrayLike | None) -> np.ndarray | None:
        known = self.known
        known.pop("operand", None)
        if operation.read:
            known["operand"] = np.asarray(operand, np.int64)
        if operation.load_state:
            known["state"] = known["cell state"] = self["operand"] * 4 if operation.wide_state else self["operand"]
        if operation.idle:
            return None
        v = saturate(dequantise(cast(ArrayLike, sums), int(operation.shift), operation.multiplier) + self._pre(operation), 18)
        f = activation(operation.function, v)
        r = self._cell(operation, round_shift(f, int(operation.shift_activation)))
        if Pre(operation.pre) == Pre.KEEP:
            known[_kept("kept sum", operation)] = v
        if operation.keep_activation:
            known[_kept("kept", operation)] = f
        if operation.keep_gate:
            known[_kept("gate", operation)] = f
        known["result before"] = r
        if Cell(operation.cell) == Cell.STATE:
            known["cell state"] = r
        if Cell(operation.cell) == Cell.OUTPUT:
            del known["result before"]      # made too late for the operation that follows
        return saturate(round_shift(r, 2) if operation.wide_result else r, 16)

    def _pre(self, operation: Any) -> int | np.ndarray:
        if Pre(operation.pre) == Pre.PEEPHOLE:
            return round_shift(self["operand"] * self["state"], 12)
        if Pre(operation.pre) == Pre.GATED:
            return round_shift(self[_kept("gate", operation)] * self[_kept("kept sum", operation)], 16)
        return 0

    def _cell(self, operation: Any, a: np.ndarray) -> np.ndarray:
        cell = Cell(operation.cell)
        if cell == Cell.ACTIVATION:
            return a
        if cell == Cell.PRODUCT:
            r = round_shift(self[_kept("kept", operation)] * a, 16)
        elif cell == Cell.STATE:
            r = round_shift(a * self["state"], 16) + self["result before"]
        elif cell == Cell.GATE:
            r = round_shift(a * self["state"], 16)
        elif cell == Cell.BLEND:
            r = a + round_shift(self[_kept("kept", operation)] * saturate(self["state"] - a, 18), 16)
        else:
            second = round_shift(activation(operation.second, self["cell state"]), int(operation.shift_second))
            r = round_shift(a * second, 16)
        return saturate(r, 18)
