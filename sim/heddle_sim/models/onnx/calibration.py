"""Quantisation of float networks after training, from inputs that are typical of them."""

from __future__ import annotations

import itertools
import logging
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from heddle.errors import UsageError, UsageTypeError

from ...arguments import plain_array
from ...packages import needed
from ..errors import ModelError
from ..samples import stacked
from .forms import averages_images
from .sessions import all_values

__all__ = ["Calibration", "calibrated"]

_OPERATORS = ["Conv", "MatMul", "Gemm", "Add", "AveragePool", "GlobalAveragePool", "ReduceMean", "MaxPool", "Relu", "Clip", "Reshape",
              "Flatten", "Transpose", "Squeeze", "Unsqueeze"]
_WIDE_OPERATORS = ["Conv", "MatMul", "Gemm", "Relu", "Clip"]        # of 16 bits: layers with weights, and what is part of them
_QUANTISED = ("QuantizeLinear", "QLinearConv", "QLinearMatMul", "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger")
_WARNING, _FATAL = 2, 4         # severities of onnxruntime's messages, the first its default
_LEAST_OPSET = 13       # with scales for each filter


class Calibration(NamedTuple):
    """``samples`` of each input: one of its shape, or several along an axis in front of it. Bits of activations and weights: 8 or 16."""

    samples: Mapping[str, np.ndarray]
    activation_bits: int = 8


def calibrated(model: Any, calibration: Calibration, what: str) -> tuple[Any, list[dict[str, np.ndarray]]]:
    """The model with QDQ forms: activations of 8 or 16 bits, filters of as many with a scale each, ranges those of the samples. Beside it
    the inputs of a run for each sample.

    Before that, what is part of a layer becomes so: normalisations, factors, added constants and padding behind or in front of it.

    Parameters
    ----------
    model : onnx.ModelProto
        With bound dimensions.
    calibration : Calibration
    what : str
        Name of the model in messages.

    Raises ``ValueError`` for samples that do not fit, ``ModelError`` where onnxruntime cannot quantise the network.
    """
    onnx, quantisation = needed("onnx", "an ONNX file"), needed("onnxruntime.quantization", "calibration")
    if any(node.op_type in _QUANTISED for node in model.graph.node):
        raise UsageError(f"calibrate must be none for a network that is quantised, as {what} is")
    runs = _feeds(model, calibration.samples)
    for inputs in runs if _loops(model.graph) else ():      # the quantiser's own runs have no limit of time
        all_values(model, [value.name for value in model.graph.output], inputs, what)
    wide = calibration.activation_bits == 16
    element = quantisation.QuantType.QInt16 if wide else quantisation.QuantType.QInt8
    try:
        if max((item.version for item in model.opset_import if item.domain in ("", "ai.onnx")), default=0) < _LEAST_OPSET:
            model = onnx.version_converter.convert_version(model, _LEAST_OPSET)
        with tempfile.TemporaryDirectory() as folder, _quiet():
            fused, path = (str(Path(folder) / name) for name in ("fused.onnx", "quantised.onnx"))
            _write_fused(model, fused)
            left = _prepare(onnx, fused)
            quantisation.quantize_static(fused, path, _reader(quantisation, runs), quant_format=quantisation.QuantFormat.QDQ,
                                         per_channel=True, op_types_to_quantize=_WIDE_OPERATORS if wide else _OPERATORS,
                                         activation_type=element, weight_type=element, nodes_to_exclude=left,
                                         extra_options={"ActivationSymmetric": wide, "ForceQuantizeNoInputCheck": not wide})
            return onnx.load(path), runs
    except Exception as error:      # of several packages, without a common class
        raise ModelError(f"{what} must be a network that onnxruntime quantises: {' '.join(str(error).split())}; without calibrate its "
                         f"float layers run on the host") from None


def _loops(graph: Any) -> bool:
    """Whether a graph has a Loop, also in a branch."""
    return any(node.op_type == "Loop" or any(_loops(attribute.g) for attribute in node.attribute) for node in graph.node)


def _write_fused(model: Any, path: str) -> None:
    """Write the model as onnxruntime simplifies it, still in operators of ONNX; where it cannot, as it is."""
    onnx, runtime = needed("onnx", "an ONNX file"), needed("onnxruntime", "calibration")
    options = runtime.SessionOptions()
    options.optimized_model_filepath = path
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    try:
        runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:       # padding joins a pool with a smaller window, for one
        onnx.save(model, path)


def _prepare(onnx: Any, path: str) -> list[str]:
    """Write products and biases of a model as the quantiser is to have them; returns the names of nodes that it is to leave."""
    model = onnx.load(path)
    _filter_products(onnx, model)
    left = _fit_biases(model) + _other_means(onnx, model)
    onnx.save(model, path)
    return left


def _new_constant(graph: Any, tensor: Any, name: str) -> Any:
    """A constant that is ``tensor`` under a new name: ``name`` with the first number that makes it one that no tensor has."""
    taken = {constant.name for constant in graph.initializer} | {name for node in graph.node for name in (*node.input, *node.output)}
    copy = graph.initializer.add()
    copy.CopyFrom(tensor)
    copy.name = next(numbered for number in itertools.count(1) if (numbered := f"{name} {number}") not in taken)
    return copy


def _filter_products(onnx: Any, model: Any) -> None:
    """Make convolutions of products whose first factor is a constant matrix: its rows are filters, and the rows of the second factor are
    channels. The quantiser would give its columns scales of their own, with which there is no integer sum."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    products = [node for node in model.graph.node if (node.op_type, node.domain) == ("MatMul", "") and node.input[1] not in constants
                and node.input[0] in constants and len(constants[node.input[0]].dims) == 2]
    if not products:
        return
    ranks = _ranks(onnx, model)
    for node in products:
        if ranks.get(node.input[1]) == 3:
            filters = _new_constant(model.graph, constants[node.input[0]], f"{node.input[0]} as filters")
            filters.dims.append(1)
            node.op_type = "Conv"
            node.input[:] = [node.input[1], filters.name]


def _ranks(onnx: Any, model: Any) -> dict[str, int]:
    """Numbers of axes of tensors whose shapes are inferred."""
    inferred = onnx.shape_inference.infer_shapes(model).graph
    return {value.name: len(value.type.tensor_type.shape.dim) for value in (*inferred.input, *inferred.value_info, *inferred.output)
            if value.type.tensor_type.HasField("shape")}


def _other_means(onnx: Any, model: Any) -> list[str]:
    """Names of the ReduceMean nodes that are no averages of images, as those of normalisations: they stay float."""
    means = [node for node in model.graph.node if (node.op_type, node.domain) == ("ReduceMean", "")]
    ranks = _ranks(onnx, model) if means else {}
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    left = []
    for node in means:
        axes = next((list(attribute.ints) for attribute in node.attribute if attribute.name == "axes"), [])
        if len(node.input) > 1 and node.input[1] in constants:
            axes = onnx.numpy_helper.to_array(constants[node.input[1]]).ravel().tolist()
        if not averages_images(axes, ranks.get(node.input[0], 0)):
            node.name = node.name or f"{node.op_type} of {node.output[0]}"
            left.append(node.name)
    return left


def _fit_biases(model: Any) -> list[str]:
    """Give each layer a bias as onnxruntime's quantiser expects it; returns the names of nodes for which there is none.

    It has one dimension, and is that of one layer: for others the quantiser takes a number behind the name, also where a tensor has it.
    """
    constants, met, left = {tensor.name: tensor for tensor in model.graph.initializer}, set[str](), list[str]()
    for node in model.graph.node:
        if node.op_type not in ("Conv", "Gemm") or len(node.input) < 3 or (bias := node.input[2]) not in constants:
            continue
        shape = list(constants[bias].dims)
        if len(shape) > 1 and shape[:-1] != [1] * (len(shape) - 1):
            node.name = node.name or f"{node.op_type} of {node.output[0]}"
            left.append(node.name)
        elif bias in met or len(shape) > 1:
            copy = _new_constant(model.graph, constants[bias], f"{bias} of layer")
            del copy.dims[:-1]
            node.input[2] = copy.name
        met.add(bias)
    return left


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the advice that onnxruntime's quantisation and its sessions log."""
    runtime, before = needed("onnxruntime", "calibration"), logging.root.manager.disable
    logging.disable(logging.WARNING)
    runtime.set_default_logger_severity(_FATAL)
    try:
        yield
    finally:
        logging.disable(before)
        runtime.set_default_logger_severity(_WARNING)


def _feeds(model: Any, samples: Mapping[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """Inputs of each run for samples as ``calibrated`` takes them. Raises ``ValueError`` for those that do not fit."""
    constants = {tensor.name for tensor in model.graph.initializer}
    kinds = {value.name: value.type.tensor_type for value in model.graph.input if value.name not in constants}
    shapes = {name: tuple(dimension.dim_value for dimension in kind.shape.dim) for name, kind in kinds.items()}
    if len(shapes) == 1 and set(samples) == {""}:       # the only one needs no name
        samples = {next(iter(shapes)): samples[""]}
    if set(samples) != set(shapes):
        raise UsageError(f"calibrate must have samples of {', '.join(shapes)}, not of {', '.join(samples) or 'none'}")
    stacks = {}
    for name, shape in shapes.items():
        array = _of_type(name, plain_array(f"calibrate {name}", samples[name]), _dtype(kinds[name].elem_type))
        stacks[name] = stacked(f"calibrate {name}", array, shape)
    if len({len(stack) for stack in stacks.values()}) != 1:
        raise UsageError(f"calibrate must have equally many samples of all inputs, not {[len(stack) for stack in stacks.values()]}")
    return [dict(zip(stacks, map(np.asarray, parts))) for parts in zip(*stacks.values())]      # a scalar is an array too


def _dtype(element: int) -> np.dtype:
    return np.dtype(needed("onnx", "an ONNX file").helper.tensor_dtype_to_np_dtype(element))


def _of_type(name: str, array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Samples of the type of their input; float64 is rounded to it. Raises ``ValueError`` for other types, and for no finite numbers."""
    if array.dtype == np.float64 and dtype.kind == "f":
        with np.errstate(over="ignore"):
            array = array.astype(dtype)
    if array.dtype != dtype:
        raise UsageTypeError(f"calibrate {name} must be an array of {dtype}, not {array.dtype}")
    if dtype.kind == "f" and not np.isfinite(array).all():
        raise UsageError(f"calibrate {name} must have finite numbers, not {array[~np.isfinite(array)][0]}")
    return array


def _reader(quantisation: Any, runs: list[dict[str, np.ndarray]]) -> Any:
    """What onnxruntime asks for inputs, one after the other."""
    class Reader(quantisation.CalibrationDataReader):
        def __init__(self) -> None:
            self.left = list(runs)

        def get_next(self) -> dict[str, np.ndarray] | None:
            return self.left.pop(0) if self.left else None

    return Reader()
