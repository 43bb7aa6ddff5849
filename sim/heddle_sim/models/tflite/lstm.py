"""TFLite's UNIDIRECTIONAL_SEQUENCE_LSTM: on the device, on the host, and its states between calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from heddle.rnn.layouts import CELL_FRACTION

from ...device import Device, Stats
from ...rnn.reference import ACTIVATIONS, FloatLayer
from ..errors import Refusal
from ..graph import Graph, Node, Tensor
from ..operations import DeviceOperation
from ..quantised import constant
from .host_call import HostCall, as_integers, as_real
from .options import activation_of

__all__ = ["NEXT", "SEQUENCE_LSTM", "SequenceLstm", "layer_of", "on_device", "on_host", "with_states"]

NEXT = " (next)"                # behind the name of a state: its value behind the node
SEQUENCE_LSTM = "UNIDIRECTIONAL_SEQUENCE_LSTM"
STATE_OPERANDS = (18, 19)       # hidden and cell state
_OPERANDS = (20, 24)            # with operands of normalisation, or without
_GATES = ("input", "forget", "cell", "output")
_ONNX = (0, 3, 1, 2)            # ONNX has input, output, forget, cell
_ABSENT = {16: "projection weights", 17: "projection biases"} | dict.fromkeys(range(20, 24), "weights of layer normalisation")
_MOST_CELL = 2.0 ** (15 - CELL_FRACTION)


def with_states(node: Node, tensors: dict[str, Tensor]) -> list[Node]:
    """The node with its states as operands and further results, and nodes that keep them from one call to the next.

    New tensors are added to ``tensors``. A node with other operands stays as it is.
    """
    states = [node.inputs[place] for place in STATE_OPERANDS] if len(node.inputs) in _OPERANDS else [None]
    names = [name for name in states if name is not None and tensors[name].data is None]
    if len(names) != len(STATE_OPERANDS):
        return [node]
    before, behind, results = list[Node](), list[Node](), list[str]()
    for name in names:
        handle, after = f"{name} (variable)", f"{name}{NEXT}"
        tensors[handle] = Tensor(handle, np.dtype(np.object_), (1,), data=np.array([name], np.object_), number=-1)
        tensors[after] = replace(tensors[name], name=after)
        before.append(Node("READ_VARIABLE", f"{node.name} from {name}", (handle,), (name,), {"within": True}))
        behind.append(Node("ASSIGN_VARIABLE", f"{node.name} to {name}", (handle, after), ()))
        results.append(after)
    return [*before, replace(node, outputs=(*node.outputs, *results)), *behind]


def layer_of(graph: Graph, node: Node) -> FloatLayer:
    """The layer in real numbers. Raises ``Refusal`` for what neither the device nor the host has."""
    if len(node.inputs) not in _OPERANDS or len(node.outputs) != 1 + len(STATE_OPERANDS):
        raise Refusal(f"operands must be {_OPERANDS[0]} or {_OPERANDS[1]} with states that are variables, not {len(node.inputs)}")
    for place, what in _ABSENT.items():
        if graph.optional(node, place) is not None:
            raise Refusal(f"{what} must be left out, not given")
    if activation_of(node.attributes) != "TANH":
        raise Refusal(f"activation function must be TANH, not {activation_of(node.attributes)}")
    if len(graph.operand(node, 0, "x").shape) != 3:
        raise Refusal(f"x must have axes of steps, batch and elements, not shape {graph.operand(node, 0, 'x').shape}")

    def gates(first: int, what: str) -> np.ndarray:
        """Of all gates; one without an input gate, whose value is 1 minus that of the forget gate, has the negatives of that."""
        found = [_real(graph, node, first + index, f"{what} of the {name} gate") for index, name in enumerate(_GATES)]
        if found[0] is None:
            found[0] = None if found[1] is None else -found[1]
        if any(array is None for array in found):
            raise Refusal(f"{what} must be given for the forget, cell and output gates")
        return np.stack([np.asarray(found[index]) for index in _ONNX])

    w, r, biases = gates(1, "weights"), gates(5, "recurrent weights"), gates(12, "biases")
    peepholes = [_real(graph, node, place, "peephole weights") for place in (9, 11, 10)]
    if peepholes[0] is None and peepholes[2] is not None:
        peepholes[0] = -peepholes[2]
    given = None if any(array is None for array in peepholes) else np.stack([np.asarray(array) for array in peepholes])
    return FloatLayer("lstm", w, r, biases, np.zeros_like(biases), ("Sigmoid", "Tanh", "Tanh"), given)


def _real(graph: Graph, node: Node, place: int, what: str) -> np.ndarray | None:
    """Real values of a constant operand, or None."""
    tensor = graph.optional(node, place)
    if tensor is None:
        return None
    if tensor.dtype.kind in "iu" and tensor.quantisation is None:
        raise Refusal(f"{what} must be float, or quantised, not plain {tensor.dtype}")
    return as_real(tensor, constant(tensor, what))


@dataclass(frozen=True, eq=False)
class SequenceLstm(DeviceOperation):
    """``Device.lstm`` of activations and states in real numbers; results are quantised on the host.

    Attributes
    ----------
    layer : FloatLayer
    tensors : tuple of Tensor
        x, hidden and cell state, result.
    time_major : bool
        The first axis of x is that of the steps, else that of the batch.
    """

    method: ClassVar[str] = "lstm"
    layer: FloatLayer
    tensors: tuple[Tensor, ...]
    time_major: bool

    def run(self, device: Device, arrays: Sequence[np.ndarray], keep: bool = False) -> tuple[list[np.ndarray], Stats]:
        layer, (_, *states, result) = self.layer, self.tensors
        x, h, c = (as_real(tensor, np.asarray(array)) for tensor, array in zip(self.tensors, arrays))
        x = x if self.time_major else x.transpose(1, 0, 2)
        w, r = (weights.reshape(1, -1, weights.shape[2]) for weights in (layer.w, np.asarray(layer.r)))
        bias = np.concatenate([layer.wb, layer.rb]).reshape(1, -1)
        peepholes = None if layer.peepholes is None else layer.peepholes.reshape(1, -1)
        cell = np.clip(c, -_MOST_CELL, _MOST_CELL)[None]
        (y, *last), stats = device.lstm(x.astype(np.float32), w, r, bias, None, h[None], cell, peepholes)
        y = y[:, 0] if self.time_major else y[:, 0].transpose(1, 0, 2)
        return [as_integers(tensor, array) for tensor, array in zip((result, *states), (y, *(state[0] for state in last)))], stats

    def call(self, device: Device, arrays: Sequence[np.ndarray], keep: bool) -> tuple[np.ndarray, Stats]:
        (y, *_), stats = self.run(device, arrays)
        return y, stats


def on_device(graph: Graph, node: Node) -> SequenceLstm:
    """Operation of a node. Raises ``Refusal``."""
    operands = (0, *STATE_OPERANDS)
    tensors = (*(graph.operand(node, place, "operand") for place in operands), graph.tensors[node.outputs[0]])
    return SequenceLstm(tensors[-1].shape, layer_of(graph, node), tensors, bool(node.attributes.get("time_major", 0)), operands=operands)


def on_host(call: HostCall) -> list[np.ndarray]:
    """In real numbers; both states are rounded after each step as their tensors are."""
    layer, time_major, clip = layer_of(call.graph, call.node), call.get("time_major"), call.get("cell_clip", 0.0)
    states = [call.tensor(place) for place in STATE_OPERANDS]
    h, c = (call.real(place) for place in STATE_OPERANDS)
    sigmoid, peepholes = ACTIVATIONS["Sigmoid"], np.zeros((3, layer.size)) if layer.peepholes is None else layer.peepholes
    rows = []
    for row in call.real(0) if time_major else call.real(0).transpose(1, 0, 2):
        i, o, f, g = (row @ w.T + h @ r.T + b for w, r, b in zip(layer.w, np.asarray(layer.r), layer.wb))
        c = sigmoid(f + peepholes[2] * c) * c + sigmoid(i + peepholes[0] * c) * np.tanh(g)
        c = np.clip(c, -clip, clip) if clip > 0 else c
        h = sigmoid(o + peepholes[1] * c) * np.tanh(c)
        h, c = (as_real(tensor, as_integers(tensor, array)) for tensor, array in zip(states, (h, c)))
        rows.append(h)
    y = np.stack(rows, axis=0 if time_major else 1)
    return [call.quantise(y), as_integers(states[0], h), as_integers(states[1], c)]
