"""LSTM, GRU, plain recurrent and dense layers in float64, as ONNX defines them: the measure of the quantised ones."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from heddle.errors import UsageError
from numpy.typing import ArrayLike

from .checks import number_array

__all__ = ["ACTIVATIONS", "FloatLayer", "GATES", "float_gates", "run_float"]

ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Sigmoid": lambda v: 0.5 * (1.0 + np.tanh(0.5 * v)),
    "Tanh": np.tanh,
    "Relu": lambda v: np.maximum(v, 0.0),
    "Affine": lambda v: v,      # with its default parameters: the value itself
}
GATES = {"lstm": "iofc", "gru": "zrh", "rnn": "i", "dense": "i"}      # in ONNX's order
_FUNCTIONS = {"lstm": 3, "gru": 2, "rnn": 1, "dense": 1}


@dataclass(frozen=True)
class FloatLayer:
    """One direction of a recurrent layer, or a dense layer, in ONNX's order of gates.

    Attributes
    ----------
    kind : str
        "lstm", "gru", "rnn" or "dense".
    w : float64 [gates, size, inputs]
        Of one input or of several whose widths are ``widths``.
    r : float64 [gates, size, size], or None (dense)
    wb, rb : float64 [gates, size]
        Biases of the input and of the hidden part.
    peepholes : float64 [3, size] or None
        i, o, f.
    activations : tuple of str
        "Sigmoid", "Tanh", "Relu" or "Affine": of the gates f, g, h in ONNX's terms (GRU: f, g; plain and dense: f).
    linear_before_reset : bool
    widths : tuple of int
        Of the inputs.
    """

    kind: str
    w: np.ndarray
    r: np.ndarray | None
    wb: np.ndarray
    rb: np.ndarray
    activations: tuple[str, ...]
    peepholes: np.ndarray | None = None
    linear_before_reset: bool = False
    widths: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in GATES:
            raise UsageError(f"kind must be one of {', '.join(GATES)}, not {self.kind!r}")
        for name in self.activations:
            if name not in ACTIVATIONS:
                raise UsageError(f"activations must be among {', '.join(ACTIVATIONS)}, not {name!r}")
        if len(self.activations) != _FUNCTIONS[self.kind]:
            raise UsageError(f"activations must be {_FUNCTIONS[self.kind]} for kind {self.kind}, not {len(self.activations)}")
        gates = len(GATES[self.kind])
        w = number_array("w", self.w, (gates, None, None), f"({gates}, size, inputs)")
        size = w.shape[1]
        shapes = {"r": (gates, size, size), "wb": (gates, size), "rb": (gates, size), "peepholes": (3, size)}
        if self.kind == "dense" and self.r is not None:
            raise UsageError("r must be None for kind dense")
        for name, shape in shapes.items():
            if getattr(self, name) is not None or name in ("wb", "rb") or name == "r" and self.kind != "dense":
                object.__setattr__(self, name, number_array(name, getattr(self, name), shape))
        object.__setattr__(self, "w", w)
        if not self.widths:
            object.__setattr__(self, "widths", (self.w.shape[2],))
        if sum(self.widths) != self.w.shape[2]:
            raise UsageError(f"widths must add up to the {self.w.shape[2]} columns of w, not {sum(self.widths)}")

    @property
    def size(self) -> int:
        return self.w.shape[1]


def float_gates(layer: FloatLayer, x: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Sums of a step without those of the hidden part of a GRU's candidate: [gates, size]."""
    sums = layer.w @ x + layer.wb
    return sums if layer.r is None else sums + layer.r @ h + layer.rb


def run_float(layer: FloatLayer, x: ArrayLike, h: ArrayLike | None = None,
              c: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All steps: ``x`` [steps, inputs] to ``(y [steps, size], h, c)``; ``c`` is zero for all but an LSTM."""
    h = np.zeros(layer.size) if h is None else np.asarray(h, np.float64)
    c = np.zeros(layer.size) if c is None else np.asarray(c, np.float64)
    step: Callable[..., tuple[np.ndarray, np.ndarray]] = {"lstm": _lstm, "gru": _gru, "rnn": _plain, "dense": _plain}[layer.kind]
    functions = [ACTIVATIONS[name] for name in layer.activations]
    rows = np.asarray(x, np.float64)
    y = np.zeros((len(rows), layer.size))
    for index, row in enumerate(rows):
        h, c = step(layer, functions, row, h, c)
        y[index] = h
    return y, h, c


def _plain(layer: FloatLayer, functions: list[Callable[[np.ndarray], np.ndarray]], x: np.ndarray, h: np.ndarray,
           c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return functions[0](float_gates(layer, x, h)[0]), c


def _lstm(layer: FloatLayer, functions: list[Callable[[np.ndarray], np.ndarray]], x: np.ndarray, h: np.ndarray,
          c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    f, g, out = functions
    i_sum, o_sum, f_sum, c_sum = float_gates(layer, x, h)
    peep_i, peep_o, peep_f = np.zeros((3, layer.size)) if layer.peepholes is None else layer.peepholes
    new = f(f_sum + peep_f * c) * c + f(i_sum + peep_i * c) * g(c_sum)
    return f(o_sum + peep_o * new) * out(new), new


def _gru(layer: FloatLayer, functions: list[Callable[[np.ndarray], np.ndarray]], x: np.ndarray, h: np.ndarray,
         c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    f, g = functions
    z_sum, r_sum, _ = float_gates(layer, x, h)
    z, reset = f(z_sum), f(r_sum)
    assert layer.r is not None      # only a dense layer has none
    candidate = layer.w[2] @ x + layer.wb[2]
    if layer.linear_before_reset:
        candidate = candidate + reset * (layer.r[2] @ h + layer.rb[2])
    else:
        candidate = candidate + layer.r[2] @ (reset * h) + layer.rb[2]
    return (1.0 - z) * g(candidate) + z * h, c
