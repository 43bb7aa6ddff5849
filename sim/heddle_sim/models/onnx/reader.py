"""Reader of ONNX files: a ``Graph`` with all shapes, and the nodes as the file has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from heddle.errors import UsageError

from ...arguments import plain_array
from ...packages import needed
from ..errors import ModelError
from ..graph import Graph, Node, Tensor
from .calibration import Calibration, calibrated
from .sessions import all_values, constant_values

__all__ = ["MOST_BYTES", "OnnxFile", "Shapes", "read_onnx"]

MOST_BYTES = 1 << 30            # of a file
_ALSO_MICROSOFT = ("QuantizeLinear", "DequantizeLinear")        # before opset 21 those of 16 bits stand in that domain
_RANDOM = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout")
_MOST_COMPUTED = 1 << 24        # elements of a constant that is computed from others
Shapes = Mapping[str, int | Sequence[int]]


@dataclass(frozen=True, eq=False)
class OnnxFile:
    """A file as read: its model with bound dimensions, the graph, and the nodes of the file by the names of those of the graph.

    ``samples``: inputs of a run for each sample that it was quantised for.
    """

    model: Any
    graph: Graph
    protos: dict[str, Any]
    samples: Sequence[Mapping[str, np.ndarray]]


def read_onnx(path: Path, shapes: Shapes | None = None, constants: Mapping[str, np.ndarray] | None = None,
              calibration: Calibration | None = None) -> OnnxFile:
    """``OnnxFile`` of a file.

    Parameters
    ----------
    path : path
        Of the file.
    shapes : dict of str to int or to integers
        Lengths of symbolic dimensions by their names, or shapes of inputs by theirs.
    constants : dict of str to array
        Inputs that always have these elements, such as weights.
    calibration : Calibration, optional
        A float network is quantised for it.

    Raises ``ModelError`` for what is no such file, is too large or has dimensions that stay open, ``MissingPackage`` without ``onnx``.
    """
    onnx = needed("onnx", "an ONNX file")
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise ModelError(f"{path} must have at most {MOST_BYTES} bytes, not {size}")
    model = _parsed(onnx, path)
    _fix(onnx, model, dict(constants or {}))
    _bind(path, model, dict(shapes or {}))
    samples: list[dict[str, np.ndarray]] = []
    if calibration:
        model, samples = calibrated(model, calibration, str(path))
    _sort(model.graph)
    try:
        _check(onnx, model)
        if model.functions:
            model = needed("onnx.inliner", "an ONNX file").inline_local_functions(model)
        model = onnx.shape_inference.infer_shapes(model, strict_mode=False, data_prop=True)
    except OSError:
        raise
    except Exception as error:      # of several packages, without a common class
        raise ModelError(f"{path} must be a valid ONNX file: {_first_line(error)}") from None
    return _Reader(onnx, path, model, samples).file()


def _check(onnx: Any, model: Any) -> None:
    """Raises what the checker of ONNX raises. Outputs may be without a type or a shape, which are found later."""
    def is_open(value: Any) -> bool:
        kind = value.type.tensor_type
        return value.type.WhichOneof("value") in (None, "tensor_type") and not (kind.elem_type and kind.HasField("shape"))

    if any(map(is_open, model.graph.output)):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        for value in filter(is_open, copy.graph.output):
            value.type.tensor_type.elem_type = value.type.tensor_type.elem_type or onnx.TensorProto.FLOAT
            value.type.tensor_type.shape.SetInParent()
        model = copy
    onnx.checker.check_model(model)


def _parsed(onnx: Any, path: Path) -> Any:
    try:
        model = onnx.load(str(path))
    except OSError:
        raise
    except Exception as error: # protobuf's class has moved between versions
        if isinstance(error, onnx.checker.ValidationError) or "xternal data" in str(error):
            raise ModelError(f"{path} must have the data of its constants in files beside it: {_first_line(error)}") from None
        raise ModelError(f"{path} must be an ONNX file, not one that does not parse ({_first_line(error)})") from None
    if not model.graph.node or not model.opset_import:
        raise ModelError(f"{path} must be an ONNX file with nodes, not one without")
    newest = onnx.defs.onnx_opset_version()
    for opset in model.opset_import:
        if opset.domain in ("", "ai.onnx") and opset.version > newest:
            raise ModelError(f"{path} must have operators of a version up to {newest}, which the package onnx has, not {opset.version}")
    return model


def _first_line(error: Exception) -> str:
    """The first line of a message, with the next one where it ends with a colon."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return " ".join(lines[:1 + lines[0].endswith(":")])


def _sort(graph: Any) -> None:
    """Put nodes behind those whose results they take, as onnxruntime does with files that have them in another order."""
    makers = {name: number for number, node in enumerate(graph.node) for name in node.output if name}
    nodes, order, placed = list(graph.node), list[int](), set[int]()
    for number in range(len(nodes)):
        waiting = [(number, False)]
        while waiting:
            current, ready = waiting.pop()
            if current in placed and not ready:
                continue
            if ready:
                order.append(current)
                continue
            placed.add(current)
            waiting.append((current, True))
            waiting += [(makers[name], False) for name in reversed((*nodes[current].input, *_captured(nodes[current]))) if name in makers]
    if order != sorted(order):
        del graph.node[:]
        graph.node.extend(nodes[number] for number in order)


def _fix(onnx: Any, model: Any, constants: Mapping[str, np.ndarray]) -> None:
    """Make inputs constants."""
    for name, array in constants.items():
        if name not in {value.name for value in model.graph.input}:
            raise UsageError(f"constants must be inputs of the network, not {name!r}")
        kept = [value for value in model.graph.input if value.name != name]
        del model.graph.input[:]
        model.graph.input.extend(kept)
        model.graph.initializer.append(onnx.numpy_helper.from_array(plain_array(f"constant {name}", array), name))


def _bind(path: Path, model: Any, shapes: dict[str, int | Sequence[int]]) -> None:
    """Set symbolic dimensions of the inputs; negative ones, as some exporters write them, are open too."""
    for value in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_value < 0:
                dimension.ClearField("dim_value")
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = {value.name: value.type.tensor_type.shape.dim for value in model.graph.input if value.name not in constants}
    if "" in shapes and len(inputs) == 1:       # the only one needs no name
        shapes = {name or next(iter(inputs)): shape for name, shape in shapes.items()}
    symbols = {dimension.dim_param for dimensions in inputs.values() for dimension in dimensions if dimension.dim_param}
    lengths = {name: length for name, length in shapes.items() if name in symbols and isinstance(length, int)}
    if unknown := shapes.keys() - inputs.keys() - lengths.keys():
        known, names = ", ".join([*inputs, *sorted(symbols)]), ", ".join(sorted(map(repr, unknown)))
        raise UsageError(f"shapes must name inputs or symbolic dimensions of the network ({known}), not {names}")
    for name in shapes.keys() - lengths.keys():
        for axis, (length, dimension) in enumerate(zip(_as_shape(name, shapes[name], inputs[name]), inputs[name])):
            fixed = dimension.HasField("dim_value")     # else a symbol, which has one length in all inputs
            wanted = dimension.dim_value if fixed else lengths.setdefault(_symbol(name, axis, dimension), length)
            if length != wanted:
                raise UsageError(f"shape of input {name} must have {wanted} on axis {axis}, not {length}")
    for name, dimensions in inputs.items():
        for axis, dimension in enumerate(dimensions):
            if dimension.HasField("dim_value"):
                continue
            symbol = _symbol(name, axis, dimension)
            length = lengths.get(symbol) or lengths.get(dimension.dim_param, 0)
            if length < 1:
                what, key = (symbol, symbol) if symbol == dimension.dim_param else (f"axis {axis}", name)
                raise ModelError(f"{path} must have all dimensions of input {name} bound, not {what} open: give a shape ({key}=…)")
            dimension.dim_value = length


def _symbol(name: str, axis: int, dimension: Any) -> str:
    """Name of an open dimension of an input; what exporters call ``?`` has a length of its own on each axis."""
    return f"{name} axis {axis}" if dimension.dim_param in ("", "?") else dimension.dim_param


def _as_shape(name: str, given: int | Sequence[int], dimensions: Any) -> tuple[int, ...]:
    """A length for each dimension of an input."""
    shape = (given,) if isinstance(given, int) else tuple(given)
    if len(shape) != len(dimensions):
        raise UsageError(f"shape of input {name} must have {len(dimensions)} dimensions, not {len(shape)}")
    return shape


class _Reader:
    """Tensors and nodes of a model whose shapes have been inferred; ``samples`` as of ``OnnxFile``."""

    def __init__(self, onnx: Any, path: Path, model: Any, samples: Sequence[Mapping[str, np.ndarray]]) -> None:
        self.onnx, self.path, self.model, self.samples = onnx, path, model, samples
        self.tensors: dict[str, Tensor] = {}

    def file(self) -> OnnxFile:
        graph = self.model.graph
        for initialiser in graph.initializer:
            self._constant(initialiser.name, self.onnx.numpy_helper.to_array(initialiser))
        if graph.sparse_initializer:
            raise ModelError(f"{self.path} must have dense constants, not sparse ones")
        protos = []
        for proto in graph.node:
            if proto.op_type == "Constant" and proto.domain in ("", "ai.onnx") and proto.output:
                self._constant(proto.output[0], self._constant_value(proto))
            else:
                protos.append(proto)
        inputs = tuple(value.name for value in graph.input if value.name not in self.tensors)
        outputs = tuple(value.name for value in graph.output)
        self._values([*graph.input, *graph.value_info, *graph.output])
        protos = self._without_constant(protos)
        self._open_values(protos, inputs)
        nodes, named = [], {}
        for number, proto in enumerate(protos):
            node = self._node(number, proto)
            nodes.append(node)
            named[node.name] = proto
        found = Graph(self.tensors, tuple(nodes), inputs, outputs)
        found.check(str(self.path))
        return OnnxFile(self.model, found, named, self.samples)

    def _constant(self, name: str, array: np.ndarray) -> None:
        self.tensors[name] = Tensor(name, array.dtype, array.shape, data=array)

    def _constant_value(self, proto: Any) -> np.ndarray:
        (attribute,) = proto.attribute
        value = self.onnx.helper.get_attribute_value(attribute)
        if attribute.name == "value":
            return self.onnx.numpy_helper.to_array(value)
        kinds = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
        if attribute.name not in kinds:
            raise ModelError(f"{self.path} must have constants of numbers, not {attribute.name} of {proto.output[0]}")
        return np.array(value, kinds[attribute.name])

    def _without_constant(self, protos: Sequence[Any]) -> list[Any]:
        """Nodes without those of constants alone, whose results become constants."""
        constants = {name: tensor.data for name, tensor in self.tensors.items() if tensor.data is not None}
        found, left, known = list[Any](), list[Any](), set(constants)
        for proto in protos:
            is_constant = proto.input and known.issuperset(filter(None, proto.input)) and self._is_computed_once(proto)
            (found if is_constant else left).append(proto)
            known.update(filter(None, proto.output) if is_constant else ())
        if not found:
            return left
        try:
            values = constant_values(self.model, found, constants, str(self.path))
        except ModelError:          # its node says so when it runs
            return list(protos)
        for name, array in values.items():
            self._constant(name, array)
        return left

    def _is_computed_once(self, proto: Any) -> bool:
        """Whether a node gives the same for the same constants, and not too much; what DequantizeLinear gives stays integer."""
        results = [self.tensors.get(name) for name in proto.output if name]
        has_graphs = any(attribute.HasField("g") or attribute.graphs for attribute in proto.attribute)
        return (_is_plain(proto) and proto.op_type not in ("DequantizeLinear", *_RANDOM) and not has_graphs and
                all(tensor is not None and prod(tensor.shape) <= _MOST_COMPUTED for tensor in results))

    def _values(self, values: Sequence[Any]) -> None:
        """Tensors whose type and shape are inferred. Raises ``ModelError`` for values that are no tensors."""
        for value in values:
            kind, what = value.type.tensor_type, value.type.WhichOneof("value") or "tensor_type"
            if what != "tensor_type":
                raise ModelError(f"{self.path} must have tensors between its nodes, not {value.name}, a {what.removesuffix('_type')}")
            if value.name in self.tensors or not value.type.HasField("tensor_type") or not kind.HasField("shape"):
                continue
            if not kind.elem_type or any(not dimension.HasField("dim_value") for dimension in kind.shape.dim):
                continue
            dtype = np.dtype(self.onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
            self.tensors[value.name] = Tensor(value.name, dtype, tuple(dimension.dim_value for dimension in kind.shape.dim))

    def _open_values(self, protos: Sequence[Any], inputs: Sequence[str]) -> None:
        """What shape inference leaves open, such as operators of other domains: as onnxruntime finds it for a sample, or zeros."""
        wanted = [name for proto in protos for name in proto.output if name and name not in self.tensors]
        if not wanted:
            return
        missing = [name for name in inputs if name not in self.tensors]
        if missing:
            raise ModelError(f"{self.path} must have a type and a shape for input {missing[0]}, not an open one")
        zeros = {name: np.zeros(self.tensors[name].shape, self.tensors[name].dtype) for name in inputs}
        for name, array in all_values(self.model, wanted, next(iter(self.samples), zeros), str(self.path)).items():
            self.tensors[name] = Tensor(name, array.dtype, array.shape)

    def _node(self, number: int, proto: Any) -> Node:
        attributes = {attribute.name: self.onnx.helper.get_attribute_value(attribute) for attribute in proto.attribute}
        attributes["kept outputs"] = tuple(index for index, name in enumerate(proto.output) if name)
        names = tuple(name or None for name in proto.input)
        captured = tuple(dict.fromkeys(name for name in _captured(proto) if name in self.tensors and name not in names))
        op = proto.op_type if _is_plain(proto) else f"{proto.domain}.{proto.op_type}"
        return Node(op, f"{number} {proto.name or next(filter(None, proto.output), '')}", names + captured,
                    tuple(name for name in proto.output if name), attributes)


def _is_plain(proto: Any) -> bool:
    """Whether the operator of a node is one of ONNX."""
    return proto.domain in ("", "ai.onnx") or proto.domain == "com.microsoft" and proto.op_type in _ALSO_MICROSOFT


def _captured(proto: Any) -> Iterator[str]:
    """Names that the subgraphs of a node read from outside, and some that they define."""
    for attribute in proto.attribute:
        for graph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
            for node in graph.node:
                yield from filter(None, node.input)
                yield from _captured(node)
            yield from (value.name for value in graph.output)
