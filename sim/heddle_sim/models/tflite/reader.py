"""Reader of TFLite files: a ``Graph`` of the main subgraph."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...packages import needed
from ..errors import ModelError
from ..graph import Graph, Node, Quantisation, Tensor
from .lstm import SEQUENCE_LSTM, with_states
from .sparsity import dense_elements

__all__ = ["MOST_BYTES", "read_tflite"]

MOST_BYTES = 1 << 30            # of a file
_IDENTIFIER = b"TFL3"
# Numbers of TensorType; those that numpy has.
_TYPES = {"FLOAT32": np.float32, "FLOAT16": np.float16, "INT32": np.int32, "UINT8": np.uint8, "INT64": np.int64, "BOOL": np.bool_,
          "INT16": np.int16, "INT8": np.int8, "FLOAT64": np.float64, "UINT64": np.uint64, "UINT32": np.uint32, "UINT16": np.uint16,
          "STRING": np.object_, "RESOURCE": np.object_}
_BAD = (struct.error, IndexError, ValueError, TypeError, OverflowError, KeyError, AttributeError, UnicodeDecodeError, RecursionError)


def read_tflite(path: Path) -> tuple[Graph, ...]:
    """Graphs of a TFLite file, not checked, the main one first; the others are those that nodes call.

    Raises ``ModelError`` for what is no such file, and ``MissingPackage`` without the package ``tflite``.
    """
    schema = needed("tflite", "a TFLite file")
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise ModelError(f"{path} must have at most {MOST_BYTES} bytes, not {size}")
    content = path.read_bytes()
    if content[4:8] != _IDENTIFIER:
        raise ModelError(f"{path} must be a TFLite file with {_IDENTIFIER.decode()} at byte 4, not {content[4:8]!r}")
    try:
        return _File(schema, content, path).graphs()
    except ModelError:
        raise
    except _BAD as error:
        raise ModelError(f"{path} must be a whole TFLite file, not one that ends or points outside ({type(error).__name__})") from None


class _File:
    """The tables of a file."""

    def __init__(self, schema: Any, content: bytes, path: Path) -> None:
        self.schema, self.content, self.path = schema, content, path
        self.model = schema.Model.GetRootAsModel(content, 0)
        self.operators = _names(schema.BuiltinOperator)
        self.types = _names(schema.TensorType)

    def graphs(self) -> tuple[Graph, ...]:
        count = self._count(self.model.SubgraphsLength())
        if not count:
            raise ModelError(f"{self.path} must have at least one subgraph, not none")
        return tuple(self._graph(self.model.Subgraphs(index)) for index in range(count))

    def _count(self, length: int) -> int:
        """A number of entries, each of at least four bytes."""
        if not 0 <= 4 * length <= len(self.content):
            raise IndexError(length)
        return length

    def _graph(self, subgraph: Any) -> Graph:
        tensors: list[Tensor] = []
        for number in range(self._count(subgraph.TensorsLength())):
            tensors.append(self._tensor(subgraph.Tensors(number), number, {tensor.name for tensor in tensors}))

        def named(numbers: Any) -> tuple[str | None, ...]:
            return tuple(None if number < 0 else tensors[number].name for number in _integers(numbers))

        nodes = []
        for number in range(self._count(subgraph.OperatorsLength())):
            operator = subgraph.Operators(number)
            code = self.model.OperatorCodes(operator.OpcodeIndex())
            kind = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
            op = self.operators.get(kind, f"operator {kind}")
            if op == "CUSTOM":
                op = f"CUSTOM {(code.CustomCode() or b'').decode()}"
            outputs = named(operator.OutputsAsNumpy())
            name = f"{number} {outputs[0]}" if outputs else str(number)
            nodes.append(Node(op, name, named(operator.InputsAsNumpy()), tuple(filter(None, outputs)), self._attributes(operator)))
        inputs, outputs = named(subgraph.InputsAsNumpy()), named(subgraph.OutputsAsNumpy())
        made = {name for node in nodes for name in node.outputs} | set(inputs)
        # A constant without elements has no bytes.
        tensors = [replace(tensor, data=np.zeros(tensor.shape, tensor.dtype)) if 0 in tensor.shape and tensor.name not in made else tensor
                   for tensor in tensors]
        named_tensors = {tensor.name: tensor for tensor in tensors}
        for node in (node for node in nodes if node.op == "DENSIFY"):       # sparse constants are read as dense ones
            source, result = named_tensors[node.inputs[0] or ""], node.outputs[0]
            named_tensors[result] = replace(named_tensors[result], data=source.data)
        nodes = [part for node in nodes if node.op != "DENSIFY"
                 for part in (with_states(node, named_tensors) if node.op == SEQUENCE_LSTM else [node])]
        return Graph(named_tensors, tuple(nodes), tuple(filter(None, inputs)), tuple(filter(None, outputs)))

    def _tensor(self, table: Any, number: int, taken: set[str]) -> Tensor:
        name = (table.Name() or b"").decode() or f"tensor {number}"
        name = f"{name} ({number})" if name in taken else name
        kind = self.types.get(table.Type(), str(table.Type()))
        if kind not in _TYPES:
            raise ModelError(f"tensor {name} must have one of the types {', '.join(_TYPES)}, not {kind}")
        dtype, shape = np.dtype(_TYPES[kind]), tuple(_integers(table.ShapeAsNumpy()))
        return Tensor(name, dtype, shape, self._quantisation(table.Quantization(), name), self._data(table, name, dtype, shape), number)

    def _quantisation(self, table: Any, name: str) -> Quantisation | None:
        if table is None or not table.ScaleLength():
            return None
        scale = np.asarray(table.ScaleAsNumpy(), np.float64)
        zero_point = np.asarray(table.ZeroPointAsNumpy(), np.int64) if table.ZeroPointLength() else np.zeros(len(scale), np.int64)
        if len(zero_point) not in (1, len(scale)):
            raise ModelError(f"tensor {name} must have a zero point for each of its {len(scale)} scales, not {len(zero_point)}")
        return Quantisation(scale, np.broadcast_to(zero_point, scale.shape), table.QuantizedDimension())

    def _data(self, table: Any, name: str, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray | None:
        """Elements of a constant; None of a value between nodes."""
        buffer = self.model.Buffers(table.Buffer())
        if buffer is None or not buffer.DataLength() or dtype.hasobject:
            return None
        content = np.asarray(buffer.DataAsNumpy(), np.uint8)
        if (sparsity := table.Sparsity()) is not None:
            return dense_elements(self.schema, sparsity, content.view(dtype), shape, name)
        wanted = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if content.size != wanted:
            raise ModelError(f"tensor {name} of shape {shape} must have {wanted} bytes, not {content.size}")
        return content.view(dtype).reshape(shape)

    def _attributes(self, operator: Any) -> dict[str, Any]:
        """Fields of the options of an operator, in lower case with underscores."""
        table = operator.BuiltinOptions()
        name = _names(self.schema.BuiltinOptions).get(operator.BuiltinOptionsType())
        if table is None or name in (None, "NONE"):
            return {}
        options = getattr(self.schema, str(name))()
        options.Init(table.Bytes, table.Pos)
        attributes: dict[str, Any] = {}
        methods = {method for method in vars(type(options)) if method != "Init" and not method.startswith(("_", "GetRoot")) and
                   not method.endswith(("BufferHasIdentifier", "Length", "IsNone"))}
        for method in sorted(methods):
            if method.endswith("AsNumpy"):
                attributes[_field(method.removesuffix("AsNumpy"))] = tuple(_integers(getattr(options, method)()))
            elif f"{method}AsNumpy" not in methods and not hasattr(options, f"{method}Length"):
                attributes[_field(method)] = getattr(options, method)()
        return attributes


def _names(numbers: Any) -> dict[int, str]:
    """Names of the numbers of an enumeration."""
    return {number: name for name, number in vars(numbers).items() if isinstance(number, int)}


def _integers(values: Any) -> list[int]:
    """A vector of the file as integers; it is 0 where it is left out."""
    return [] if isinstance(values, int) else [int(value) for value in values]


def _field(method: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", method).lower()
