"""Networks that stay loaded: the same results as ``run``, weights placed once, activations that the host does not read."""

import numpy as np
import pytest
from heddle_sim import Device, Network, load_model
from heddle_sim.device.device_array import DeviceArray
from heddle_sim.golden.requantise import Requantise
from heddle_sim.models.folder import models_folder
from heddle_verif.stimulus.recurrent_networks import random_layer

SPEC = Requantise(1 << 20, 28, 3, dtype=np.int8)


@pytest.fixture(scope="module")
def device():
    with Device("base", "golden", memory_bytes=8 << 20) as device:
        yield device


def layer(rng, channels, outputs, size=3, group=1):
    return {"w": rng.integers(-128, 128, (outputs, channels // group, size, size), np.int8),
            "bias": rng.integers(-999, 999, outputs, np.int32), "pads": size // 2, "group": group, "x_zero_point": 3, "requantise": SPEC}


@pytest.mark.parametrize("layout, channels, images, stays", [
    ("NHWC", (16, 32, 48), 1, True), ("NHWC", (16, 32, 16), 3, True), ("NHWC", (16, 24, 16), 1, False), ("NCHW", (5, 7, 6), 2, True),
    ("NCHWc16", (32, 32, 16), 1, True), ("CNHW", (4, 6, 5), 2, True)])
def test_two_convolutions(device, layout, channels, images, stays):
    """The second one reads what the first one left, if it wants these planes; the bytes are the same."""
    from heddle_sim.compiled.layout import ImageLayout

    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, ImageLayout(layout).shape(images, channels[0], (6, 5)), np.int8)
    first, second = (layer(rng, *pair) for pair in zip(channels, channels[1:]))
    wanted = device.conv(device.conv(x, layout=layout, **first).y, layout=layout, **second).y
    used = device.memory.allocator.used
    middle = device.conv(x, layout=layout, keep=True, **first).y
    assert isinstance(middle, DeviceArray) and device.memory.allocator.used > used
    found = device.conv(middle, layout=layout, **second).y
    assert np.array_equal(found, wanted) and middle.fetched is not stays
    assert np.array_equal(middle, device.conv(x, layout=layout, **first).y)
    del middle
    assert device.memory.allocator.used == used


def test_filters_of_sixteen_bits_widen_what_stays(device):
    rng = np.random.default_rng(2)
    x, w = rng.integers(-128, 128, (1, 6, 5, 16), np.int8), rng.integers(-999, 999, (3, 16, 3, 3), np.int16)
    there = device.conv(x, layout="NHWC", keep=True, **layer(rng, 16, 16)).y
    assert np.array_equal(device.conv(there, w, layout="NHWC").y, device.conv(np.asarray(there), w, layout="NHWC").y)


def test_pools_read_in_place(device):
    rng = np.random.default_rng(1)
    x, first = rng.integers(-128, 128, (1, 8, 8, 16), np.int8), layer(rng, 16, 32)
    there = device.conv(x, layout="NHWC", keep=True, **first).y
    assert not there.fetched
    maximum, average = device.max_pool(there, 2, strides=2, layout="NHWC").y, device.average_pool(there, 8, layout="NHWC").y
    assert not there.fetched
    here = np.asarray(there)
    assert there.fetched and np.array_equal(maximum, device.max_pool(here, 2, strides=2, layout="NHWC").y)
    assert np.array_equal(average, device.average_pool(here, 8, layout="NHWC").y)


def test_results_of_pools_stay(device):
    """Two pools and a convolution, of which the host reads the last result only; others than multiples of 16 channels are arrays."""
    rng = np.random.default_rng(4)
    x, one = rng.integers(-128, 128, (2, 8, 8, 16), np.int8), layer(rng, 16, 16)
    first = device.max_pool(x, 2, strides=2, layout="NHWC", keep=True).y
    second = device.average_pool(first, 2, strides=2, layout="NHWC", keep=True).y
    third = device.conv(second, layout="NHWC", keep=True, **one).y
    last = device.global_average_pool(third, layout="NHWC").y
    assert not (first.fetched or second.fetched or third.fetched)
    plain = device.average_pool(device.max_pool(x, 2, strides=2, layout="NHWC").y, 2, strides=2, layout="NHWC").y
    assert np.array_equal(second, plain)
    assert np.array_equal(last, device.global_average_pool(device.conv(plain, layout="NHWC", **one).y, layout="NHWC").y)
    assert isinstance(device.max_pool(x[..., :8], 2, layout="NHWC", keep=True).y, np.ndarray)


def test_sums_read_in_place_and_stay(device):
    """Of two convolutions, of one and an array, of one in planes that have gaps; the sum goes into a convolution."""
    rng = np.random.default_rng(5)
    x, one = rng.integers(-128, 128, (1, 6, 5, 16), np.int8), layer(rng, 16, 16)
    factors = ((90, 70), 7)
    low = device.add(x, x, *factors, keep=True).y       # where memory begins: in front of an image with padding there must be bytes
    a, b = (device.conv(x, layout="NHWC", keep=True, **each).y for each in (one, layer(rng, 16, 16)))
    y = device.add(a, b, *factors, keep=True).y
    z = device.conv(y, layout="NHWC", **one).y
    assert isinstance(y, DeviceArray) and not (a.fetched or b.fetched or y.fetched)
    plain = device.add(np.asarray(a), np.asarray(b), *factors).y
    assert np.array_equal(y, plain) and np.array_equal(z, device.conv(plain, layout="NHWC", **one).y)
    assert np.array_equal(device.add(a, x, *factors).y, device.add(np.asarray(a), x, *factors).y)
    gaps = device.conv(x, layout="NHWC", keep=True, **layer(rng, 16, 24)).y.reshape(-1)
    assert np.array_equal(device.add(gaps, gaps, *factors).y, device.add(np.asarray(gaps), np.asarray(gaps), *factors).y)
    assert np.array_equal(low, device.add(x, x, *factors).y)
    assert isinstance(device.add(x[..., :1], x[..., :1], *factors, keep=True).y, np.ndarray)


def test_results_of_several_runs_are_arrays(device):
    """A group each: no run has the whole result."""
    rng = np.random.default_rng(2)
    x, one = rng.integers(-128, 128, (1, 6, 6, 64), np.int8), layer(rng, 64, 128, group=2)
    found = device.conv(x, layout="NHWC", keep=True, **one)
    assert np.array_equal(found.y, device.conv(x, layout="NHWC", **one).y)


@pytest.mark.parametrize("name, kept", [("resnet8", 12), ("kws", 9)])
def test_networks(device, name, kept):
    """Weights are placed by the first call; the tensors between device layers stay there."""
    path = models_folder() / f"{name}.tflite"
    if not path.is_file():
        pytest.skip(f"{path.name} is not in {models_folder().name}")
    rng, used = np.random.default_rng(0), device.memory.allocator.used
    with load_model(path, device) as model, device.load(model) as loaded:
        sizes = []
        for _ in range(2):
            inputs = {key: rng.integers(-128, 128, tensor.shape, np.int8) for key, tensor in model.inputs().items()}
            found, wanted = loaded(inputs), model.run(inputs)
            assert all(np.array_equal(found.outputs[key], wanted.outputs[key]) for key in wanted.outputs)
            assert found.stats == wanted.stats
            sizes.append(loaded.weight_bytes)
            assert len(loaded.stayed) >= kept, loaded.stayed
        assert sizes[0] == sizes[1] > sum(placed.operation.w.size for placed in model.placement if hasattr(placed.operation, "w"))
        assert loaded.weight_cycles == -(-sizes[0] // device.cfg.axi_bytes)
        del found, wanted
    assert device.memory.allocator.used == used
    with pytest.raises(ValueError, match="network must be loaded, not closed"):
        loaded(inputs)


def test_recurrent_networks(device):
    """Weights stay in the factor registers; another run of the device in between makes them come again. States go on."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((12, 8)).astype(np.float32)
    network = Network.of_layer(random_layer(rng, "lstm", 8, 16), [(x, None, None)])
    with device.load(network) as loaded:
        parts = [loaded(x[:4]), loaded(x[4:8])]
        device.add(np.ones(16, np.int8), np.ones(16, np.int8), (1, 1), 0)
        parts.append(loaded(x[8:]))
        assert [part.loaded for part in parts] == [True, False, True]
        loaded.reset()
        (whole,) = [loaded(x)]
    assert not whole.loaded
    assert np.array_equal(np.concatenate([part.outputs["y.h"] for part in parts]), whole.outputs["y.h"])


def test_what_is_no_network(device):
    with pytest.raises(TypeError, match="network must be a Network, or one of load_model, not int"):
        device.load(3)
