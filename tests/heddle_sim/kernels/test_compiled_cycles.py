"""Cycle model of compiled convolutions, against the hardware [S2.3]."""

import numpy as np
import pytest
from heddle_sim import Device, Requantise
from heddle_sim.cli.convolution_suites import SUITES
from heddle_sim.compiled import ImageLayout
from heddle_sim.kernels.compiled_convolution import CompiledConvolutionProblem
from heddle_sim.kernels.compiled_groups import expected_cycles, merged_groups

SPEC = Requantise(1 << 30, 40)


@pytest.fixture(scope="module")
def hardware():
    with Device("base", memory_bytes=1 << 22) as device:
        yield device


def difference(device, suite, number):
    """Of the model, as a part of the cycles of a layer to int8."""
    geometry, layout = SUITES[suite][number].geometry(SUITES[suite][number].image[0]), ImageLayout("NHWC")
    rng = np.random.default_rng([23, number])
    x, w = (rng.integers(-128, 128, size, np.int8) for size in (
        (1, *geometry.size, geometry.channels), (geometry.outputs, geometry.group_channels, *geometry.filter)))
    bias = rng.integers(-9999, 9999, geometry.outputs, np.int32)
    _, stats = device.conv(x, w, bias, strides=geometry.stride, pads=geometry.padding, group=geometry.group, layout="NHWC",
                           requantise=SPEC, method="compiled")
    problem = merged_groups(device.cfg, CompiledConvolutionProblem(geometry, layout, 0, bias=True, requantise=SPEC))
    return expected_cycles(device.cfg, problem) / stats.cycles - 1


@pytest.mark.parametrize("number", [3, 6, 10, 14, 25, 26])
def test_small_layers(number, hardware):
    """Of MobileNet: products, stores, instructions and weights of the next filters decide."""
    assert abs(difference(hardware, "mobilenet", number)) < 0.1


@pytest.mark.nightly
@pytest.mark.parametrize("number", [9, 13, 15, 18, 19, 20, 21, 22])
def test_layers_of_resnet50(number, hardware):
    assert abs(difference(hardware, "resnet50", number)) < 0.05
