"""What calls of a device return: named tuples that unpack in the order of their fields."""

from typing import Any, NamedTuple

import numpy as np

from ..rnn.network import SequenceResult
from .stats import Stats

__all__ = ["ArrayResult", "ImageResult", "LayerResult", "LstmOutputs", "MatrixResult", "RecurrentOutputs", "RecurrentResult",
           "SampledResult", "SparseGradients", "TaskResults"]


class MatrixResult(NamedTuple):
    """Of ``matmul``, ``tensordot``, ``spmm`` and ``sparse_linear_forward``."""

    c: np.ndarray
    stats: Stats


class SampledResult(NamedTuple):
    """Of ``sddmm``: ``d`` has the class of the mask."""

    d: Any
    stats: Stats


class SparseGradients(NamedTuple):
    """Of ``sparse_linear_backward``: gradients of the inputs, and of the weights in their class."""

    dx: np.ndarray
    dw: Any
    stats: Stats


class LayerResult(NamedTuple):
    """Of ``linear``, ``conv``, pooling and ``add``."""

    y: np.ndarray
    stats: Stats


class ImageResult(NamedTuple):
    """Of loads into shared memory: its bytes."""

    image: np.ndarray
    stats: Stats


class ArrayResult(NamedTuple):
    """Of stores to global memory: the array afterwards."""

    array: np.ndarray
    stats: Stats


class RecurrentOutputs(NamedTuple):
    """Of ``gru`` and ``rnn``, with ONNX's names."""

    Y: np.ndarray
    Y_h: np.ndarray


class LstmOutputs(NamedTuple):
    """Of ``lstm``, with ONNX's names."""

    Y: np.ndarray
    Y_h: np.ndarray
    Y_c: np.ndarray


class RecurrentResult(NamedTuple):
    """Of ``lstm``, ``gru`` and ``rnn``."""

    outputs: RecurrentOutputs | LstmOutputs
    stats: Stats


class TaskResults(NamedTuple):
    """Of ``run_tasks``: a ``SequenceResult`` for each sequence."""

    results: list[SequenceResult]
    stats: Stats
