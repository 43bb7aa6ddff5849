"""TFLite files for tests, written through LiteRT's classes of the format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

__all__ = ["TfliteFile", "pooling_network"]

# Operators have version 3, but for these.
_VERSIONS = {"LEAKY_RELU": 2, "BROADCAST_TO": 2} | dict.fromkeys((
    "HARD_SWISH", "RESHAPE", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "SPACE_TO_BATCH_ND",
    "BATCH_TO_SPACE_ND", "L2_NORMALIZATION", "L2_POOL_2D", "EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL",
    "LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT", "REDUCE_ALL", "SELECT",
    "SELECT_V2", "FLOOR_DIV", "FLOOR_MOD", "SIGN", "GELU", "CUMSUM", "TOPK_V2", "ONE_HOT", "GATHER_ND", "FILL", "RANGE",
    "ZEROS_LIKE", "RANK", "RELU_0_TO_1", "REDUCE_ANY", "GATHER", "CAST", "IF", "WHILE", "DENSIFY"), 1)
_TYPES = {"int8": "INT8", "uint8": "UINT8", "int16": "INT16", "int32": "INT32", "int64": "INT64", "float32": "FLOAT32", "bool": "BOOL"}


class TfliteFile:
    """A network under construction; tensors and operators have the numbers in which they are added."""

    def __init__(self) -> None:
        self.model = schema.ModelT()
        self.model.version, self.model.operatorCodes, self.model.buffers, self.model.subgraphs = 3, [], [schema.BufferT()], []
        self.begin()

    def begin(self) -> int:
        """Begin a subgraph, to which all that follows belongs; returns its number. The first one has begun already."""
        self.graph = schema.SubGraphT()
        self.graph.tensors, self.graph.operators, self.graph.inputs, self.graph.outputs = [], [], [], []
        self.model.subgraphs.append(self.graph)
        return len(self.model.subgraphs) - 1

    def end(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Inputs and outputs of the subgraph."""
        self.graph.inputs, self.graph.outputs = list(inputs), list(outputs)

    def tensor(self, name: str, shape: Sequence[int], dtype: str = "int8", scale: Any = None, zero_point: Any = 0, axis: int = 0,
               data: np.ndarray | None = None) -> int:
        """A value, or with ``data`` a constant; returns its number."""
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type = name, list(shape), getattr(schema.TensorType, _TYPES[dtype])
        if scale is not None:
            quantisation = schema.QuantizationParametersT()
            quantisation.scale = np.atleast_1d(scale).astype(np.float32).tolist()
            quantisation.zeroPoint = np.broadcast_to(zero_point, np.shape(quantisation.scale)).tolist()
            quantisation.quantizedDimension = axis
            tensor.quantization = quantisation
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data, np.dtype(dtype)).tobytes(), np.uint8)
            self.model.buffers.append(buffer)
            tensor.buffer = len(self.model.buffers) - 1
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def sparse(self, name: str, data: np.ndarray, block: int = 1, **quantisation: Any) -> int:
        """A constant matrix in compressed rows, of blocks of ``block`` columns that are not all zero; returns its number."""
        rows, columns = data.shape
        blocks = data.reshape(rows, columns // block, block)
        filled = blocks.any(axis=2)
        number = self.tensor(name, data.shape, data.dtype.name, data=blocks[filled], **quantisation)
        sparsity = self.graph.tensors[number].sparsity = schema.SparsityParametersT()
        sparsity.traversalOrder, sparsity.blockMap = ([0, 1], []) if block == 1 else ([0, 1, 2], [1])
        dense, compressed = schema.DimensionMetadataT(), schema.DimensionMetadataT()
        dense.denseSize, compressed.format = rows, schema.DimensionType.SPARSE_CSR
        segments, indices = schema.Int32VectorT(), schema.Uint8VectorT()
        segments.values, indices.values = [0, *np.cumsum(filled.sum(axis=1))], list(np.nonzero(filled)[1])
        compressed.arraySegments, compressed.arraySegmentsType = segments, schema.SparseIndexVector.Int32Vector
        compressed.arrayIndices, compressed.arrayIndicesType = indices, schema.SparseIndexVector.Uint8Vector
        within = schema.DimensionMetadataT()
        within.denseSize = block
        sparsity.dimMetadata = [dense, compressed] if block == 1 else [dense, compressed, within]
        return number

    def constant(self, name: str, data: Any, dtype: str = "int32", **quantisation: Any) -> int:
        """A constant with the shape of ``data``; returns its number."""
        array = np.asarray(data, dtype)
        return self.tensor(name, array.shape, dtype, data=array, **quantisation)

    def operator(self, op: str, inputs: Sequence[int], outputs: Sequence[int], options: str | None = None, **fields: Any) -> None:
        """An operator; ``options``: the name of the table of its ``fields``."""
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, op)
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), _VERSIONS.get(op, 3)
        self.model.operatorCodes.append(code)
        operator = schema.OperatorT()
        operator.opcodeIndex, operator.inputs, operator.outputs = len(self.model.operatorCodes) - 1, list(inputs), list(outputs)
        if options is not None:
            operator.builtinOptions = getattr(schema, f"{options}T")()
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, options)
            for name, value in fields.items():
                assert hasattr(operator.builtinOptions, name), name
                setattr(operator.builtinOptions, name, value)
        self.graph.operators.append(operator)

    def write(self, path: Path, inputs: Sequence[int], outputs: Sequence[int]) -> Path:
        """Write the file, whose last subgraph has these inputs and outputs; returns its path."""
        self.end(inputs, outputs)
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        path.write_bytes(bytes(builder.Output()))
        return path


def pooling_network(path: Path) -> Path:
    """A file with a maximum of windows of an image "x", which runs on the device, and a logistic function "y", which does not."""
    file = TfliteFile()
    x, pooled = file.tensor("x", (1, 4, 4, 3), scale=0.05), file.tensor("pooled", (1, 2, 2, 3), scale=0.05)
    y = file.tensor("y", (1, 2, 2, 3), scale=1 / 256, zero_point=-128)
    file.operator("MAX_POOL_2D", [x], [pooled], "Pool2DOptions", padding=1, strideH=2, strideW=2, filterHeight=2, filterWidth=2)
    file.operator("LOGISTIC", [pooled], [y])
    return file.write(path, [x], [y])
