"""What recurrent networks refuse, in Python and as an error of the instruction [S3.2, S3.6]."""

import numpy as np
import pytest
from heddle import load_config
from heddle.isa.error_codes import ErrorCode
from heddle.rnn.layouts import header_layout
from heddle_sim import Device
from heddle_sim.device.errors import DeviceError
from heddle_sim.isa.features import lacking
from heddle_sim.rnn.model import EngineModel
from heddle_sim.rnn.network import Network, Sequence
from heddle_sim.rnn.onnx import onnx_operands
from heddle_sim.rnn.reference import FloatLayer
from heddle_verif.stimulus.recurrent_layers import layer_operands

BASE, TINY = (load_config(name).replace(rnn=True) for name in ("base", "tiny"))


@pytest.fixture(scope="module")
def device():
    with Device(BASE, "golden", memory_bytes=1 << 20) as device:
        yield device


X, W, R = np.zeros((2, 1, 3)), np.zeros((1, 8, 3)), np.zeros((1, 8, 2))


@pytest.mark.parametrize("arguments, options, says", [
    ((X, W, R), dict(direction="both"), "direction must be one of forward, reverse, bidirectional, not 'both'"),
    ((X, W, R), dict(layout=2), "layout must be 0 or 1, not 2"),
    ((X, W[:, :7], R), {}, "W must have shape (1, 8, inputs), not (1, 7, 3)"),
    ((X[:, 0], W, R), {}, "X must have shape (steps, batch, 3), not (2, 3)"),
    ((X, W, R[0]), {}, "R must have shape (1, 4 * hidden, hidden), not (8, 2)"),
    ((X, W, R, np.zeros((1, 8))), {}, "B must have shape (1, 16), not (1, 8)"),
    ((X, W, R, None, [3]), {}, "sequence_lens must be 1 integers from 0 to 2, not [3]"),
    ((X, W, R, None, None, np.zeros((1, 1, 3))), {}, "initial_h must have shape (1, 1, 2), not (1, 1, 3)"),
    ((X * np.nan, W, R), {}, "X must be finite, not nan at (0, 0, 0)"),
    ((X, W, R, None, None, None, np.full((1, 1, 2), 17.0)), {}, "initial_c must have magnitudes up to 16, not 17"),
    ((X, W, R), dict(activations=["Sigmoid", "Tanh"]), "activations must be 3 for each direction, not 2"),
    ((X, W, R), dict(activations=["Elu", "Tanh", "Tanh"]),
     "activations must be among Sigmoid, Tanh, Relu, Affine, not 'Elu'"),
    ((X, W, R), dict(cats=3), "cats must be 1, 2 or 4 for y, not 3 for y"),
    ((X, W, R), dict(contexts=5), "contexts must be from 1 to 4 (rnn_contexts), not 5"),
    ((X, W, R), dict(contexts="2"), "contexts must be from 1 to 4 (rnn_contexts), not '2'"),
    (([[[1.0], [2.0, 3.0]]], W, R), {}, "X must have shape (steps, batch, 3), not lists of different lengths"),
    ((X, W, None), {}, "R must be an array of numbers, not None"),
    ((X, W, R), dict(activations="Tanh"), "activations must be a list of names, not 'Tanh'"),
    ((X, W, R), dict(skip_zeros="no"), "skip_zeros must be True or False, not 'no'"),
    ((X, W, R), dict(threshold="0.1"), "threshold must be a number from 0 on, or None, not '0.1'"),
    ((X, W, R), dict(fractions={"x0": 30}), "fractions of x0 must be an integer from -8 to 15, not 30"),
    ((X, W, R), dict(fractions={"h": 20}), "fractions of h must be an integer from 9 to 15, not 20"),
    ((X, W, R), dict(weight_scales={"i": 0.0}), "weight_scales of i must be a positive number, not 0.0"),
    ((X, W, R), dict(quantised=[None]), "quantised must be layers of type QuantisedLayer, not NoneType"),
    ((X, np.ones((1, 2400, 3)), np.ones((1, 2400, 600))), {},
     "W and R must have at most 262144 elements (threads 32 x dot 8 x factor_words 1024 of configuration base), not 1447200"),
    ((X, W * 0 + 1e9, R), {}, "unit of the sums of gate i must be below 0.000122068, not 240.296: 127 of them are its largest weight times "
     "the unit of its vector, 2**26 its largest bias"),
])
def test_wrong_operands(arguments, options, says, device):
    with pytest.raises((TypeError, ValueError)) as raised:
        device.lstm(*arguments, **options)
    assert str(raised.value) == says


@pytest.mark.parametrize("given, says", [
    (("network", X[:, 0]), "network must be of type Network, not str"),
    ((None, X), "input x must have shape (steps, 3), not (2, 1, 3)"),
    ((None, X[:, 0, :2]), "input x must have shape (steps, 3), not (2, 2)"),
    ((None, X[:0, 0]), "input x must have no empty axis, not shape (0, 3)"),
    ((None, X[:, 0] + np.inf), "input x must be finite, not inf at (0, 0)"),
    ((None, {"z": X[:, 0]}), "inputs must be x, not z"),
    ((None, X[:, 0], {"y.q": np.zeros(2)}), "states must be among y.h, y.c, not 'y.q'"),
    ((None, X[:, 0], {"y.h": np.zeros(3)}), "states y.h must have shape (2,), not (3,)"),
    ((None, X[:, 0], [0, 0]), "states must be a dictionary, not list"),
    ((None, X[:, 0], {}, 1.5), "start must be an integer from 0 to 16777215, not 1.5"),
])
def test_wrong_sequences(given, says):
    network = given[0] or Network.of_layer(onnx_operands("lstm", X, W, R).layers[0])
    with pytest.raises((TypeError, ValueError)) as raised:
        Sequence(network, *given[1:])
    assert str(raised.value) == says


def test_wrong_layers():
    fields = dict(kind="gru", w=np.ones((3, 2, 4)), r=np.ones((3, 2, 2)), wb=np.zeros((3, 2)), rb=np.zeros((3, 2)),
                  activations=("Sigmoid", "Tanh"))
    for change, says in ((dict(w=np.ones((2, 2, 4))), "w must have shape (3, size, inputs), not (2, 2, 4)"),
                         (dict(r=None), "r must be an array of numbers, not None"),
                         (dict(rb=np.zeros(6)), "rb must have shape (3, 2), not (6,)"),
                         (dict(w=np.full((3, 2, 4), np.nan)), "w must be finite, not nan at (0, 0, 0)"),
                         (dict(activations=("Tanh",)), "activations must be 2 for kind gru, not 1")):
        with pytest.raises((TypeError, ValueError)) as raised:
            FloatLayer(**fields | change)
        assert str(raised.value) == says
    for call, says in ((lambda: Network.of_layer(onnx_operands("lstm", X, W, R)), "layer must be of type FloatLayer, not OnnxOperands"),
                       (lambda: Network.of_quantised(FloatLayer(**fields)), "layer must be of type QuantisedLayer, not FloatLayer")):
        with pytest.raises(TypeError) as raised:
            call()
        assert str(raised.value) == says


def test_what_does_not_fit():
    rng = np.random.default_rng(0)
    cases = [
        (TINY, ("lstm", 17, 8), "weights must fit 64 (factor_words of configuration tiny), not take 96"),
        (BASE.replace(rnn_elements=256), ("rnn", 200, 100), "vectors of a context must fit 256 elements (rnn_elements), not take 408"),
        (BASE.replace(rnn_records=8), ("lstm", 4, 4, 3),
         "sweeps of all models must fit 8 (rnn_records of configuration base), not take 12"),
        (load_config("base").replace(rnn=False, sparse=False), ("rnn", 4, 4),
         f"configuration base must have rnn ({lacking(load_config('small'), 'rnn')})"),
    ]
    for cfg, (kind, hidden, inputs, *copies), says in cases:
        sequences = []
        for _ in range(2 * (copies[0] if copies else 0) or 1):
            onnx = onnx_operands(kind, *layer_operands(rng, kind, hidden, inputs, 2, batch=1))
            sequences.append(Sequence(Network.of_layer(onnx.layers[0], onnx.data(0), cats=1), onnx.x[:, 0]))
        with Device(cfg, "golden", memory_bytes=1 << 20) as device, pytest.raises(ValueError) as raised:
            device.run_tasks(sequences)
        assert str(raised.value) == says


def test_errors_of_the_instruction():
    program = "umov ur1, 4096\numov ur2, 16\nrnn ur1\nhalt"
    with Device(TINY.replace(shared_memory_kib=4), "golden", memory_bytes=4096) as device, pytest.raises(DeviceError) as raised:
        device.run(program)
    assert (raised.value.code, raised.value.pc, raised.value.operand) == (ErrorCode.OUT_OF_RANGE, 2, 4096)
    with Device(TINY, "golden", memory_bytes=4096) as device:
        for address, code, operand in ((16, ErrorCode.RECURRENT_IMAGE, 16), (20, ErrorCode.OUT_OF_RANGE, 20)):
            with pytest.raises(DeviceError) as raised:
                device.run(f"umov ur1, {address}\nrnn ur1\nhalt")
            assert (raised.value.code, raised.value.operand) == (code, operand)
        for wrong in (dict(contexts=2, elements=8192), dict(contexts=1, tap_registers=2 * TINY.rnn_tap_registers)):
            header = header_layout.const(dict(sweeps=1) | wrong).as_value().value.to_bytes(16, "little")
            device.memory.write(0, np.frombuffer(header, np.uint8))
            with pytest.raises(DeviceError) as raised:
                device.run("umov ur0, 0\nbarrier.expect b0, 16\ncopy_block.shared.global ur0, ur0, 1, b0\nbarrier.wait b0\nrnn ur0\nhalt")
            assert (raised.value.code, raised.value.operand) == (ErrorCode.RECURRENT_IMAGE, 0)
    with Device(TINY.replace(rnn=False, sparse=False), "golden", memory_bytes=4096) as device, pytest.raises(DeviceError) as raised:
        device.run("rnn ur1\nhalt")
    assert raised.value.code is ErrorCode.UNSUPPORTED


def test_cats_must_exist():
    network = Network.of_layer(onnx_operands("lstm", X, W, R).layers[0])
    with pytest.raises(ValueError, match="cats must be 1, 2 or 4 for y, not 8 for y"):
        EngineModel(BASE, network.step, 8)
