"""Golden model of convolutions against onnxruntime, an implementation that nobody here wrote."""

import numpy as np
import onnxruntime
import pytest
from heddle_sim.golden.convolution import convolution
from heddle_verif.stimulus.convolutions import random_geometry
from onnx import TensorProto, helper


def onnx_convolution(x, w, shape):
    """Channels first, in float32."""
    node = helper.make_node("Conv", ["x", "w"], ["y"], strides=shape.stride, dilations=shape.dilation, group=shape.group,
                            pads=[pair[edge] for edge in (0, 1) for pair in shape.padding])
    values = {"x": x.astype(np.float32), "w": w.astype(np.float32)}
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape)
                                            for name, value in values.items()],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, values)[0].astype(np.int64)


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_random_geometries_equal_onnxruntime(spatial):
    """Seven of each number of axes, with groups, strides, dilations and uneven padding; sums stay below 2**24, exact in float32."""
    rng, groups = np.random.default_rng([19, spatial]), set()
    for _ in range(7):
        shape = random_geometry(rng, spatial)
        groups.add(shape.group)
        x = rng.integers(-128, 128, (shape.images, *shape.size, shape.channels), np.int8)
        w = rng.integers(-128, 128, (shape.outputs, *shape.filter, shape.group_channels), np.int8)
        y = convolution(x, w, shape.padding, shape.stride, shape.dilation, shape.group)
        expected = onnx_convolution(np.moveaxis(x, -1, 1), np.moveaxis(w, -1, 1), shape)
        assert np.array_equal(np.moveaxis(y, -1, 1), expected), shape
    assert len(groups) > 1
