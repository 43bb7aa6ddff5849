"""TFLite's UNIDIRECTIONAL_SEQUENCE_LSTM beside LiteRT's reference kernels, over calls that go on from the states of the one before."""

import numpy as np
import pytest
from heddle_sim import Device, load_model
from heddle_sim.models.comparison import compared
from heddle_verif.stimulus.tflite_files import TfliteFile

CALLS, GATES, NONE, TANH = 3, "ifco", 0, 4
DEVICE_MOST, HOST_MOST = 2, 1       # of 256
X = dict(scale=0.03, zero_point=-4)


def lstm(path, shape=(1, 6, 8), units=16, integer=True, gates=GATES, peepholes=False, activation=TANH, projection=False, **options):
    """A file with one layer as converters write it: int8 with cells of int16, or float. Without "i" in ``gates`` it has no input gate."""
    rng, file, inputs = np.random.default_rng(units), TfliteFile(), shape[2]

    def constant(name, values, levels=127, dtype="int8", scale=None):
        if not integer:
            return file.constant(name, values, "float32")
        scale = np.abs(values).max() / levels if scale is None else scale
        return file.constant(name, np.rint(values / scale), dtype, scale=scale)

    def quantised(name, shape, **quantisation):
        return file.tensor(name, shape, "int8", **quantisation) if integer else file.tensor(name, shape, "float32")

    batch = shape[1] if options.get("timeMajor") else shape[0]
    x = quantised("x", shape, **X)
    values = {kind + g: rng.normal(0, units ** -0.5, (units, width)) for width, kind in ((inputs, "w"), (units, "r")) for g in GATES}
    w, r = ([constant(kind + g, values[kind + g]) if g in gates else -1 for g in GATES] for kind in "wr")
    b = [constant(f"b{g}", rng.normal(0, 0.3, units), dtype="int32", scale=X["scale"] * np.abs(values[f"w{g}"]).max() / 127)
         if g in gates else -1 for g in GATES]
    p = [constant(f"p{g}", rng.normal(0, 0.3, units), 32767, "int16") if peepholes and g in gates else -1 for g in "ifo"]
    h = quantised("h", (batch, units), scale=1 / 128)
    c = file.tensor("c", (batch, units), "int16", scale=2.0 ** -11) if integer else file.tensor("c", (batch, units), "float32")
    y = quantised("y", (*shape[:2], units), scale=1 / 128)
    within = [file.tensor(f"gate {g}", (0,), "int16", scale=2.0 ** -12) for g in GATES] + [quantised("hidden", (0,), scale=1 / 128)]
    for state in (h, c):
        file.graph.tensors[state].isVariable = True
    projections = [w[1] if projection else -1, -1]
    file.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", [x, *w, *r, *p, *b, *projections, h, c, -1, -1, -1, -1], [y],
                  "UnidirectionalSequenceLSTMOptions", fusedActivationFunction=activation, cellClip=10.0, **options)
    file.graph.operators[-1].intermediates = within if integer else []
    return file.write(path, [x], [y])


def inputs_of(model, number):
    ((name, tensor),) = model.inputs().items()
    rng = np.random.default_rng(number)
    return {name: rng.integers(-128, 128, tensor.shape, np.int8) if tensor.dtype == np.int8 else
            rng.standard_normal(tensor.shape).astype(np.float32)}


def check(path, device, where, most):
    """The layer runs ``where``, and its results are within ``most`` of the reference's in each call; ``reset`` forgets the states."""
    with load_model(path, device) as model:
        (placed,) = (placed for placed in model.placement if placed.node.op == "UNIDIRECTIONAL_SEQUENCE_LSTM")
        assert placed.where == where, placed.why
        inputs = [inputs_of(model, number) for number in range(CALLS)]
        found = [compared(model, one) for one in inputs]
        assert all(one.outputs["y"].most <= most for one in found), [one.outputs["y"] for one in found]
        assert all(sum(node is not None for node in one.nodes) == 1 for one in found)
        again = model.run(inputs[0]).outputs["y"]
        model.reset()
        first = model.run(inputs[0]).outputs["y"]
    assert np.array_equal(first, found[0].result.outputs["y"]) and not np.array_equal(again, first)


@pytest.mark.parametrize("shape, units, options", [
    ((1, 6, 8), 16, {}), ((2, 5, 7), 9, {}), ((5, 2, 8), 16, {"timeMajor": True}), ((1, 6, 8), 16, {"gates": "fco"}),
    ((1, 6, 8), 16, {"peepholes": True}), ((1, 6, 8), 12, {"peepholes": True, "gates": "fco"}), ((1, 20, 40), 64, {})])
def test_int8(tmp_path, device, shape, units, options):
    check(lstm(tmp_path / "a.tflite", shape, units, **options), device, "device", DEVICE_MOST)


def test_float(tmp_path, device):
    check(lstm(tmp_path / "a.tflite", (2, 6, 8), 16, integer=False), device, "device", 0.02)


@pytest.mark.parametrize("integer, most", [(True, HOST_MOST), (False, 1e-5)])
@pytest.mark.parametrize("options", [{}, {"peepholes": True, "gates": "fco", "timeMajor": True}])
def test_on_the_host(tmp_path, integer, most, options):
    """Of a configuration without a recurrent engine."""
    with Device("small", "golden", memory_bytes=1 << 20) as small:
        check(lstm(tmp_path / "a.tflite", (3, 4, 8), integer=integer, **options), small, "host", most)


@pytest.mark.parametrize("options, says", [
    ({"projection": True}, "projection weights must be left out, not given"),
    ({"activation": NONE}, "activation function must be TANH, not NONE"),
    ({"gates": "ifo"}, "weights must be given for the forget, cell and output gates")])
def test_layers_that_are_refused(tmp_path, options, says):
    path = lstm(tmp_path / "a.tflite", **options)
    with pytest.raises(ValueError) as failure:
        load_model(path, "base", simulator="golden")
    assert str(failure.value) == f"{path} must have layers that the host has, but of UNIDIRECTIONAL_SEQUENCE_LSTM 0 y {says}"
