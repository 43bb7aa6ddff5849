"""ONNX's LSTM, GRU and RNN as operations of the device, which quantises their float operands itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from heddle.errors import HeddleError

from ...device import Device, Stats
from ...rnn.onnx import onnx_operands
from ...rnn.quantise import SAMPLE_DAMPING, quantise_layer
from ..errors import Refusal
from ..graph import Graph, Node
from ..operations import DeviceOperation

if TYPE_CHECKING:
    from ...rnn.reference import FloatLayer

__all__ = ["RECURRENT", "Recurrent", "recurrent"]

Sample = tuple[np.ndarray, np.ndarray, np.ndarray]

_DYNAMIC_LSTM = "com.microsoft.DynamicQuantizeLSTM"
RECURRENT = {"LSTM": "lstm", "GRU": "gru", "RNN": "rnn", _DYNAMIC_LSTM: "lstm"}
_NAMES = ("x", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")
_FORM = ("direction", "layout", "activations", "linear_before_reset")      # attributes that ``Device`` has too
_KEPT = "kept outputs"          # of the reader: places of the results that are not left out
_IGNORED = ("hidden_size", "input_forget")


@dataclass(frozen=True, eq=False)
class Recurrent(DeviceOperation):
    """``Device.lstm``, ``gru`` or ``rnn``.

    Attributes
    ----------
    kind : str
        The method.
    constants : dict of int to array
        Constant operands by their places; the others are activations.
    form : mapping
        Options of the method.
    results : tuple of int
        Which of Y, Y_h and Y_c the node gives.
    """

    kind: str
    constants: Mapping[int, np.ndarray]
    form: Mapping[str, Any]
    results: tuple[int, ...]

    @property
    def method(self) -> str:        # type: ignore[override]    # one of three
        return self.kind

    def run(self, device: Device, arrays: Sequence[np.ndarray], keep: bool = False) -> tuple[list[np.ndarray], Stats]:
        given = dict(self.constants) | dict(zip(self.operands, map(np.asarray, arrays)))
        operands = {_NAMES[place]: array for place, array in given.items()}
        outputs, stats = getattr(device, self.kind)(**operands, **self.form)
        return [outputs[index] for index in self.results], stats

    def calibrated(self, samples: Sequence[Sequence[np.ndarray]]) -> Recurrent:
        """The operation with weights and ranges for ``samples``: lists of activations. Without, those of each call are for its own
        activations. Raises ``Refusal`` for operands that the device does not take."""
        data: list[list[Sample]] = []
        layers: Sequence[FloatLayer] = ()
        try:
            for arrays in samples:
                given = dict(self.constants) | dict(zip(self.operands, arrays))
                operands = [given.get(place) for place in range(len(_NAMES) if self.kind == "lstm" else len(_NAMES) - 2)]
                onnx = onnx_operands(self.kind, *operands, **self.form)         # type: ignore[arg-type]    # the first three are there
                layers = onnx.layers
                data = data or [[] for _ in layers]
                for direction, found in enumerate(data):
                    found += onnx.data(direction)
            quantised = [quantise_layer(layer, found, damping=SAMPLE_DAMPING) for layer, found in zip(layers, data)]
        except HeddleError as error:
            raise Refusal(str(error)) from None
        return replace(self, form=dict(self.form) | {"quantised": quantised})

    def call(self, device: Device, arrays: Sequence[np.ndarray], keep: bool) -> tuple[np.ndarray, Stats]:
        (y, *_), stats = self.run(device, arrays)
        return y, stats


def recurrent(graph: Graph, node: Node) -> Recurrent:
    """Operation of a node. Raises ``Refusal`` for what the device does not have."""
    kind = RECURRENT[node.op]
    for name, value in node.attributes.items():
        if name not in (*_FORM, *_IGNORED, _KEPT):
            raise Refusal(f"{node.op} must be without {name} on the device, not with {value}")
    if node.attributes.get("input_forget", 0):
        raise Refusal("input_forget must be 0, not 1")
    form = {name: _plain(node.attributes[name]) for name in _FORM if name in node.attributes}
    constants: dict[int, np.ndarray] = {}
    activations: list[int] = []
    for place, operand in enumerate(node.inputs):
        if operand is None:
            continue
        tensor = graph.tensors[operand]
        if tensor.data is not None:
            constants[place] = tensor.data
        else:
            activations.append(place)
    if node.op == _DYNAMIC_LSTM:
        constants = _with_real_weights(constants)
    if any(place >= len(_NAMES) for place in (*constants, *activations)):
        raise Refusal(f"{node.op} must have at most {len(_NAMES)} operands, not {len(node.inputs)}")
    kept = node.attributes[_KEPT]
    return Recurrent((), kind, constants, form, kept, operands=tuple(activations))


def _with_real_weights(constants: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Constant operands of DynamicQuantizeLSTM as those of LSTM. Its W and R lie in columns (directions, …, 4 hidden); behind P are their
    scales and zero points, for each direction or for each column of it. Raises ``Refusal`` where one of them is not constant."""
    found = {place: array for place, array in constants.items() if place < len(_NAMES)}
    for place, scale in ((1, 8), (2, 10)):
        if not {place, scale} <= constants.keys():
            raise Refusal(f"{_NAMES[place]} and its scale must be constant, not computed")
        w, scales = constants[place].astype(np.float32), constants[scale]
        points = constants.get(scale + 1, np.zeros_like(scales))
        scales, points = (array.astype(np.float32).reshape(len(w), 1, -1) for array in (scales, points))
        found[place] = np.ascontiguousarray(((w - points) * scales).transpose(0, 2, 1))
    return found


def _plain(value: Any) -> Any:
    """Attributes as Python has them: text instead of bytes."""
    if isinstance(value, bytes):
        return value.decode()
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
