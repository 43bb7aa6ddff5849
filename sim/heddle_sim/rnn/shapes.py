"""Layers of which only the shape counts, and engines of any size, for the cycle model."""

from dataclasses import dataclass

import numpy as np
from heddle import Config
from heddle.constants import BANK_BYTES
from heddle.rnn.layouts import Function

from .layers import add_layer
from .quantise import QuantisedGate, QuantisedLayer
from .step import Step, Vector

__all__ = ["ModelConfig", "shaped_step"]

_SIGMOID, _TANH = Function.SIGMOID, Function.TANH
# Gates with the vectors that each multiplies, and functions.
_CELLS: dict[str, tuple[str, dict[str, tuple[str, ...]], tuple[Function, ...], bool]] = {
    "lstm": ("lstm", dict.fromkeys("iofc", ("x0", "h")), (_SIGMOID, _TANH, _TANH), False),
    "gru": ("gru", {"z": ("x0", "h"), "r": ("x0", "h"), "n": ("x0", "rh")}, (_SIGMOID, _TANH), False),
    "gru_linear": ("gru", {"z": ("x0", "h"), "r": ("x0", "h"), "n": ("x0",), "k": ("h",)}, (_SIGMOID, _TANH), True),
    "rnn": ("rnn", {"i": ("x0", "h")}, (_TANH,), False),
}


@dataclass(frozen=True, kw_only=True)
class ModelConfig(Config):
    """Parameters of an engine that need not be one of the devices: any number of lanes, multipliers and words, unchecked.

    ``threads`` is a multiple of ``thread_slots``, ``dot`` a power of two. For ``EngineModel`` and ``timing`` only.
    ``load_bytes``: bytes of a row of input that come from shared memory in a cycle; 16 in the hardware.
    """

    load_bytes: int = BANK_BYTES

    def __post_init__(self) -> None:
        pass


def shaped_step(cell: str, hidden: int, inputs: int) -> Step:
    """``Step`` of a layer with weights of zero; its result is ``y.h``. ``cell``: "lstm", "gru", "gru_linear" or "rnn"."""
    kind, gates, functions, linear = _CELLS[cell]

    def zeros(vector: str) -> np.ndarray:
        return np.zeros((hidden, inputs if vector == "x0" else hidden), np.int8)

    quantised = {name: QuantisedGate({vector: zeros(vector) for vector in vectors}, np.ones(hidden, np.int32), 1.0, 13, 0, 0)
                 for name, vectors in gates.items()}
    layer = QuantisedLayer(kind, hidden, quantised, functions, {"x0": 13, "h": 13}, {"x0": 1 << 13, "h": 1 << 13},
                           linear_before_reset=linear, widths=(inputs,))
    step = Step()
    step.add_vector("x", Vector(inputs, "input", 13))
    step.outputs.append(add_layer(step, "y", layer, ["x"]))
    return step
