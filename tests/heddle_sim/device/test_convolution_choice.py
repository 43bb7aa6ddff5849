"""Table of the methods of a convolution: device, command line and messages draw from it."""

import re

import numpy as np
import pytest
from heddle_sim import Device, Requantise
from heddle_sim.cli import main
from heddle_sim.compiled.geometry import Geometry
from heddle_sim.compiled.layout import ImageLayout
from heddle_sim.device.convolution_choice import METHODS, NAMES, chosen_method, expectations
from heddle_sim.device.convolution_method import ConvolutionLayer, ConvolutionMethod, Expectation
from heddle_sim.device.stats import Stats
from heddle_sim.kernels.families import FAMILIES
from heddle_sim.kernels.problem import ConvolutionProblem

X, W = np.ones((1, 2, 4, 4), np.int8), np.ones((2, 2, 3, 3), np.int8)
HALF = Requantise(1 << 30, 40)


class AtOnce(ConvolutionMethod):
    """Gives zeros in a cycle."""

    name, wide = "at once", True

    def expected(self, cfg, layer):
        return Expectation(1, 1, ConvolutionProblem(layer.geometry))

    def run(self, device, convolution):
        layer = convolution.layer
        return np.zeros(layer.layout.shape(1, layer.geometry.outputs, layer.geometry.result), np.int32), Stats(1, 0, {}, {})


def test_a_method_is_a_line(monkeypatch):
    """"auto" takes it where it is the fastest, and messages name it."""
    monkeypatch.setitem(METHODS, "at once", AtOnce())
    with Device("base", "golden", memory_bytes=1 << 16) as device:
        y, stats = device.conv(X, W)
        assert stats.cycles == 1 and not y.any()
        with pytest.raises(ValueError, match='method must be "compiled" or "depthwise" or "im2col" or "at once" with requantise'):
            device.conv(X, W, method="gather", requantise=HALF)
        with pytest.raises(ValueError, match='method must be "im2col" or "at once" or "auto" with 16-bit elements'):
            device.conv(X.astype(np.int16), W, method="compiled")
        layer = ConvolutionLayer(Geometry(1, (4, 4), 2, 2, (3, 3), ((0, 0),) * 2, (1, 1), (1, 1)), ImageLayout("NCHW"))
        assert expectations(device.cfg, layer)["at once"].cycles == 1


@pytest.mark.parametrize(("method", "options", "says"), [
    ("gather", {"requantise": HALF}, '"compiled" or "depthwise" or "im2col" with requantise, not "gather"'),
    *((method, {"w_zero_point": 10}, f'"compiled" or "depthwise" where w minus w_zero_point has nine bits, not "{method}"')
      for method in ("gather", "im2col"))])
def test_refused_before_anything_runs(method, options, says):
    """By name, with the methods that take such a layer."""
    w = np.where(np.eye(2, dtype=bool)[:, :, None, None], -128 * W, 127 * W)     # from -128 to 127
    with Device("base", "golden", memory_bytes=1 << 16) as device:
        with pytest.raises(ValueError, match=says):
            device.conv(X, w, method=method, **options)
        assert device.runs == 0 and device.conv(X, w, **options).y.shape == (1, 2, 2, 2)


def test_names():
    """Each has a kernel family of its own, and is a choice of the command line."""
    assert ("auto", *METHODS) == NAMES and all(method.name == name for name, method in METHODS.items())
    kernels = [method.kernel for method in METHODS.values()]
    assert len({*kernels}) == len(kernels) and all([kernel] in FAMILIES.values() for kernel in kernels)


@pytest.mark.parametrize("verb", ["run", "bench"])
def test_choices(verb, capsys):
    assert main([verb, "conv", "--method", "none of them"]) == 2
    choices = re.search(r"choose from ([^)]*)\)", capsys.readouterr().err).group(1)
    assert [choice for choice in re.findall(r"\w+", choices) if choice != "both"] == list(NAMES)


def test_one_that_is_left_is_taken_without_a_plan(monkeypatch):
    """And the last one of those for all layers says why nothing can be done."""
    layer = ConvolutionLayer(Geometry(1, (4, 4), 2, 2, (3, 3), ((0, 0),) * 2, (1, 1), (1, 1)), ImageLayout("NCHW"), bias=True)
    for method in METHODS.values():
        monkeypatch.setattr(method, "expected", None)
    with Device("base", "golden", memory_bytes=1 << 16) as device:
        assert chosen_method(device.cfg, layer, "auto").name == "compiled"
    monkeypatch.undo()
    with Device("small", "golden", memory_bytes=1 << 16) as device, pytest.raises(ValueError, match="must have tensors for a convolution"):
        device.conv(X, W)
