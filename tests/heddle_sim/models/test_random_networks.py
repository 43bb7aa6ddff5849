"""Random quantised networks: nothing is refused, each layer is within 1 of LiteRT's reference kernels, convolutions and pools equal to
them, and a loaded one gives the same."""

import numpy as np
import pytest
from heddle.config import preset_names
from heddle_sim import Device
from heddle_sim.models import load_model
from heddle_sim.models.comparison import compared
from heddle_sim.models.operations import AveragePool, MaximumPool
from heddle_verif.stimulus.tflite_networks import random_tflite_network

# Of ``base``, whatever their sizes.
ON_DEVICE = {"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "ADD", "MEAN", "AVERAGE_POOL_2D", "MAX_POOL_2D"}


def is_exact(placed):
    """Whether a node is a convolution with the multipliers, shifts and rounding of LiteRT's, or a pool of the integers as they are."""
    output = getattr(placed.operation, "requantise", None)
    return output.double_rounding if output is not None else isinstance(placed.operation, (AveragePool, MaximumPool))


def check_network(path, device, exactly):
    """Compared and loaded; returns the placement. Adds the operators whose results must be equal to ``exactly``."""
    with load_model(path, device) as model:
        rng = np.random.default_rng(0)
        inputs = {name: rng.integers(np.iinfo(tensor.dtype).min, np.iinfo(tensor.dtype).max, tensor.shape, tensor.dtype, endpoint=True)
                  for name, tensor in model.inputs().items()}
        found = compared(model, inputs)
        operators = [placed.node.op for placed in model.placement]
        assert all(node.most <= 1 for node in found.nodes), list(zip(operators, found.nodes))
        exact = [node.most for node, placed in zip(found.nodes, model.placement) if is_exact(placed)]
        assert not any(exact), list(zip(operators, found.nodes))
        exactly.update(placed.node.op for placed in model.placement if is_exact(placed))
        with device.load(model) as loaded:
            outputs = loaded(inputs).outputs
        assert all(np.array_equal(outputs[name], array) for name, array in found.result.outputs.items()), operators
        return model.placement


def check_networks(path, configuration, seeds):
    used, exactly = set(), set()
    with Device(configuration, "golden", memory_bytes=8 << 20) as device:
        for seed in seeds:
            placement = check_network(random_tflite_network(np.random.default_rng([97, seed]), path), device, exactly)
            used |= {(placed.node.op, placed.where) for placed in placement}
        if device.cfg.output_stage:         # without it depthwise layers and means of the sparse engine are all that rounds twice
            assert exactly == {"CONV_2D", "DEPTHWISE_CONV_2D", "MEAN", "AVERAGE_POOL_2D", "MAX_POOL_2D"}
    return used


def test_some(tmp_path):
    used = check_networks(tmp_path / "a.tflite", "base", range(12))
    assert len(used) >= 8
    assert not {op for op, where in used if where == "host"} & ON_DEVICE


@pytest.mark.nightly
@pytest.mark.parametrize("configuration", preset_names())
def test_many(tmp_path, configuration):
    check_networks(tmp_path / "a.tflite", configuration, range(100, 120))


@pytest.mark.soak
@pytest.mark.parametrize("configuration", preset_names())
def test_more(tmp_path, configuration, seed):
    check_networks(tmp_path / "a.tflite", configuration, range(1000 * (seed or 0), 1000 * (seed or 0) + 300))
