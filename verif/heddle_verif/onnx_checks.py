"""Operators of ONNX on a device beside onnxruntime, and operands of theirs."""

import numpy as np
from heddle_sim.models import load_model
from heddle_sim.models.comparison import compared

__all__ = ["F32", "I8", "I32", "U8", "check", "random_of", "scales"]

I8, U8, I32, F32 = np.int8, np.uint8, np.int32, np.float32


def random_of(dtype, shape, seed=1):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype) if np.dtype(dtype).itemsize == 1 else np.iinfo(np.int16)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def scales(count, seed=2):
    return np.random.default_rng(seed).uniform(0.01, 0.05, count).astype(F32)


def check(path, device, where, most=1, reason=None):
    """Nodes run where ``where`` says, and differ from the reference by at most ``most``."""
    with load_model(path, device) as model:
        assert [placed.where for placed in model.placement] == where, [node.why for node in model.placement]
        if reason:
            assert [placed.why for placed in model.placement if placed.where == "host"][0] == reason
        found = compared(model, {name: random_of(tensor.dtype, tensor.shape) for name, tensor in model.inputs().items()})
    assert all(one is not None and one.most <= most for one in found.nodes), found.nodes
    assert all(len(np.unique(array)) > 1 for array in found.result.outputs.values())
    return found
