"""On-chip memory of convolutions, and which kernels a device executed."""

from itertools import product

import numpy as np
import pytest
from heddle import load_config
from heddle_sim import Device
from heddle_sim.cli.convolution_suites import SUITES
from heddle_sim.compiled import ImageLayout
from heddle_sim.device.convolution_choice import METHODS, expectations, fastest_method, method_of
from heddle_sim.device.convolution_method import ConvolutionLayer, Expectation
from heddle_sim.device.observers import executed_kernels

BASE = load_config("base")


@pytest.mark.parametrize("suite", ["list", "mobilenet", "depthwise"])
def test_what_a_convolution_takes_is_there(suite):
    """Of every layer that a method can do; im2col needs no offsets. Only some layers of the list have room for gathers."""
    seen = set()
    for layer, layout in product(SUITES[suite], ("NHWC", "NCHW")):
        shape = layer.geometry(layer.image[0])
        for name, method in expectations(BASE, ConvolutionLayer(shape, ImageLayout(layout))).items():
            if method.problem is None:
                continue
            kernel = METHODS[name].kernel(BASE, method.problem)
            used = kernel.footprint
            assert method_of(kernel) is METHODS[name]
            assert 0 < used.shared <= BASE.shared_bytes and 0 < used.factors <= BASE.threads * BASE.factor_words * BASE.dot
            assert (0 < used.offsets <= 4 * BASE.compiled_offsets) if name in ("compiled", "gather") else used.offsets == 0
            assert 0 < kernel.lane_bound <= 1
            seen.add(name)
    assert seen >= {"compiled", "im2col"} and ("gather" in seen) == (suite != "depthwise") and ("depthwise" in seen) == (suite != "list")


def test_the_fastest_method():
    """Fewest cycles, the first of equals; a method that cannot do it is not taken, whatever its cycles."""
    problem = ConvolutionLayer(SUITES["list"][-1].geometry(8), ImageLayout("NHWC"))
    fast, slow, none = Expectation(7, 1, problem), Expectation(8, 1, problem), Expectation(why_not="no room")
    for found, name in (((fast, slow), "compiled"), ((slow, fast), "im2col"), ((fast, fast), "compiled"), ((none, slow), "im2col"),
                        ((slow, none), "compiled"), ((none, none), None)):
        assert fastest_method(dict(zip(("compiled", "im2col"), found))) == name


def test_executed_kernels():
    """In their order, also of contexts within contexts, and no others."""
    a = np.ones((4, 4), np.int8)
    with Device("tiny", "golden", memory_bytes=1 << 16) as device:
        device.matmul(a, a)
        with executed_kernels() as outer:
            device.matmul(a, a)
            with executed_kernels() as inner:
                device.add(a, a, (1, 1), 0)
            device.max_pool(a[None, ..., None], 2, layout="NHWC")
        device.matmul(a, a)
    assert [kernel.problem.name for kernel in inner] == ["add"]
    assert [kernel.problem.name for kernel in outer][1:] == ["add", "max_pool"] and len(outer) == 3
