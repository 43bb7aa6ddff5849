"""The operands of ONNX's LSTM, GRU and RNN: checked, taken apart by direction and batch, and put together again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from heddle.errors import UsageError, UsageTypeError
from heddle.rnn.layouts import CELL_FRACTION
from numpy.typing import ArrayLike

from ..arguments import check_choice, check_mask
from .checks import number_array
from .reference import ACTIVATIONS, GATES, FloatLayer

__all__ = ["OnnxOperands", "onnx_operands"]

DIRECTIONS = ("forward", "reverse", "bidirectional")
_CELL_LIMIT = 2.0 ** (15 - CELL_FRACTION)
DEFAULTS = {"lstm": ("Sigmoid", "Tanh", "Tanh"), "gru": ("Sigmoid", "Tanh"), "rnn": ("Tanh",)}


@dataclass(frozen=True)
class OnnxOperands:
    """Operands of a recurrent operator.

    Attributes
    ----------
    layers : list of FloatLayer
        One for each direction.
    reverse : list of bool
        The direction begins with the last step.
    x : float64 [steps, batch, inputs]
    lengths : int [batch]
    h, c : float64 [directions, batch, size]
    layout : int
    """

    layers: list[FloatLayer]
    reverse: list[bool]
    x: np.ndarray
    lengths: np.ndarray
    h: np.ndarray
    c: np.ndarray
    layout: int

    def data(self, direction: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """What the direction is to be quantised for: (x, h, c) of each batch element that has steps."""
        order = slice(None, None, -1) if self.reverse[direction] else slice(None)
        return [(self.x[:length, batch][order], self.h[direction, batch], self.c[direction, batch])
                for batch, length in enumerate(self.lengths) if length]

    def arrange(self, outputs: Mapping[tuple[int, int], np.ndarray], h: Mapping[tuple[int, int], np.ndarray],
                c: Mapping[tuple[int, int], np.ndarray] | None = None) -> tuple[np.ndarray, ...]:
        """Y, Y_h and, with ``c``, Y_c in float32 and the layout of the operands, from dicts by (direction, batch).

        Steps behind the end of a sequence are zero; a sequence without steps keeps its state.
        """
        steps, batches = self.x.shape[:2]
        directions, size = len(self.layers), self.layers[0].size
        y = np.zeros((steps, directions, batches, size), np.float32)
        finals = [self.h.astype(np.float32), *([] if c is None else [self.c.astype(np.float32)])]
        for (direction, batch), rows in outputs.items():
            y[:len(rows), direction, batch] = rows
            for final, values in zip(finals, [h] if c is None else [h, c]):
                final[direction, batch] = values[direction, batch]
        if self.layout:
            y, finals = y.transpose(2, 0, 1, 3), [final.transpose(1, 0, 2) for final in finals]
        return tuple(np.ascontiguousarray(array) for array in (y, *finals))


def _activations(kind: str, given: Sequence[str] | None, directions: int) -> list[tuple[str, ...]]:
    """Names for each direction."""
    defaults = DEFAULTS[kind]
    if given is None:
        return [defaults] * directions
    if not isinstance(given, (list, tuple)):
        raise UsageTypeError(f"activations must be a list of names, not {given!r}")
    known = {name.lower(): name for name in ACTIVATIONS}
    names: list[Any] = [known.get(str(name).lower(), name) for name in given]
    for name in names:
        if not isinstance(name, str) or name not in ACTIVATIONS:
            raise UsageError(f"activations must be among {', '.join(ACTIVATIONS)}, not {name!r}")
    if len(names) == len(defaults):
        names *= directions
    if len(names) != len(defaults) * directions:
        raise UsageError(f"activations must be {len(defaults)} for each direction, not {len(names)}")
    return [tuple(names[first:first + len(defaults)]) for first in range(0, len(names), len(defaults))]


def onnx_operands(kind: str, x: ArrayLike, w: ArrayLike, r: ArrayLike, b: ArrayLike | None = None, sequence_lens: ArrayLike | None = None,
                  initial_h: ArrayLike | None = None, initial_c: ArrayLike | None = None, p: ArrayLike | None = None, *,
                  direction: str = "forward", layout: int = 0, activations: Sequence[str] | None = None,
                  linear_before_reset: int = 0) -> OnnxOperands:
    """``OnnxOperands`` of operator ``kind`` ("lstm", "gru", "rnn"), with the shapes and the order of gates of ONNX.

    Raises ``ValueError`` or ``TypeError``, which names the operand.
    """
    check_choice("direction", direction, DIRECTIONS)
    for name, value in (("layout", layout), ("linear_before_reset", linear_before_reset)):
        if not isinstance(value, (bool, Integral)) or value not in (0, 1):
            raise UsageError(f"{name} must be 0 or 1, not {value!r}")
    directions, gates = 1 + (direction == "bidirectional"), len(GATES[kind])
    r = number_array("R", r, (directions, None, None), f"({directions}, {gates} * hidden, hidden)")
    hidden = r.shape[2]
    r = number_array("R", r, (directions, gates * hidden, hidden))
    w = number_array("W", w, (directions, gates * hidden, None), f"({directions}, {gates * hidden}, inputs)")
    inputs = w.shape[2]
    x = number_array("X", x, (None, None, inputs), f"({'batch, steps' if layout else 'steps, batch'}, {inputs})")
    x = x.transpose(1, 0, 2) if layout else x
    steps, batches = x.shape[:2]
    b = np.zeros((directions, 2 * gates * hidden)) if b is None else number_array("B", b, (directions, 2 * gates * hidden))
    states = []
    for name, state in (("initial_h", initial_h), ("initial_c", initial_c)):
        shape = (batches, directions, hidden) if layout else (directions, batches, hidden)
        state = np.zeros(shape) if state is None else number_array(name, state, shape)
        states.append(state.transpose(1, 0, 2) if layout else state)
    if np.abs(states[1]).max() > _CELL_LIMIT:
        raise UsageError(f"initial_c must have magnitudes up to {_CELL_LIMIT:g}, not {np.abs(states[1]).max():g}")
    check_mask("sequence_lens", sequence_lens)
    try:
        lengths = np.full(batches, steps) if sequence_lens is None else np.asarray(sequence_lens)
    except ValueError:
        raise UsageError(f"sequence_lens must be {batches} integers from 0 to {steps}, not {sequence_lens!r}") from None
    if lengths.dtype.kind not in "iu" or lengths.shape != (batches,) or lengths.min() < 0 or lengths.max() > steps:
        raise UsageError(f"sequence_lens must be {batches} integers from 0 to {steps}, not {lengths.tolist()}")
    p = None if p is None else number_array("P", p, (directions, 3 * hidden))
    layers = []
    for index, names in enumerate(_activations(kind, activations, directions)):
        wb, rb = b[index].reshape(2, gates, hidden)
        layers.append(FloatLayer(
            kind, w[index].reshape(gates, hidden, inputs), r[index].reshape(gates, hidden, hidden), wb, rb, names,
            None if p is None else p[index].reshape(3, hidden), bool(linear_before_reset)))
    reverse = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    return OnnxOperands(layers, reverse, x, lengths.astype(int), states[0], states[1], layout)
