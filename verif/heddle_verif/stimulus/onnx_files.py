"""ONNX files for tests: operators on random constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

__all__ = ["write_onnx"]

Described = Mapping[str, tuple[str, Sequence[int | str]]]


def write_onnx(path: Path, nodes: Sequence[Any], inputs: Described, outputs: Described, constants: Mapping[str, np.ndarray],
               opset: int = 21) -> Path:
    """A file of nodes (``onnx.helper.make_node``), with inputs and outputs as (numpy type, shape) by name; returns its path."""
    def described(values: Described) -> list[Any]:
        return [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)
                for name, (kind, shape) in values.items()]

    graph = helper.make_graph(list(nodes), "network", described(inputs), described(outputs),
                              [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()])
    domains = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=10), str(path))
    return path
