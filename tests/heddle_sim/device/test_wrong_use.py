"""Wrong use: on the command line one line and exit code 2, in Python ``ValueError`` or ``TypeError`` with parameter, rule and value."""

import io
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from heddle import load_config
from heddle_sim import Device
from heddle_sim.backends.verilator_device import MemorySettings, RtlSimulation
from heddle_sim.cli import main
from heddle_sim.golden.requantise import Requantise
from heddle_sim.isa import assemble, disassemble
from heddle_sim.isa.program import Program
from heddle_sim.rnn.network import Network, Sequence
from heddle_sim.rnn.plan import plan
from heddle_sim.rnn.quantise import quantise_layer
from heddle_sim.rnn.reference import FloatLayer

GOLDEN = ["--config", "tiny", "--simulator", "golden", "--memory-mib", "1"]
TINY = load_config("tiny")
NO_TEXT = b"\xff\xfe\x00halt\n"


@pytest.fixture
def device():
    with Device(TINY, "golden", memory_bytes=1 << 20) as device:
        yield device


def refused(capsys, says, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "") and captured.err.count("\n") == 1, captured
    assert captured.err.startswith("heddle") and ": error: " in captured.err and says in captured.err, captured.err


# -- command line ---------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [["asm"], ["run", "program"]])
def test_programs_that_are_not_utf8(capsys, tmp_path, verb):
    path = tmp_path / "a.s"
    path.write_bytes(NO_TEXT)
    refused(capsys, "a.s must be text in UTF-8, not have byte 0xff at 0", *verb, path, *(GOLDEN if verb[0] == "run" else []))


def test_standard_input_that_is_not_utf8(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(NO_TEXT), encoding="utf-8"))
    refused(capsys, "- must be text in UTF-8, not have byte 0xff at 0", "asm", "-")


@pytest.mark.parametrize("verb", [["run", "matmul", "--m", 1, "--n", 1, "--k", 1], ["asm", "x.s"], ["generate"], ["synth"],
                                  ["bench", "gemm"]])
def test_configurations_that_are_not_utf8(capsys, tmp_path, monkeypatch, verb):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.s").write_text("halt\n")
    (tmp_path / "c.toml").write_bytes(b"threads = 8 # \xff\n")
    refused(capsys, "c.toml: file must be TOML text in UTF-8: ", *verb, "--config", "c.toml")


@pytest.mark.parametrize("verb", [["disasm"], ["run", "program"]])
@pytest.mark.parametrize("name, content, says", [
    ("odd.bin", b"12345", "size of a program must be a multiple of 16 bytes, not 5"),
    ("empty.bin", b"", "number of words must be at least 1, not 0"),
    ("empty.hex", b"", "number of words must be at least 1, not 0"),
    ("blank.hex", b" \n\n", "number of words must be at least 1, not 0"),
    ("bad.hex", b"00\nxyz\n", "line 2 must be 1 to 32 hexadecimal digits, not 'xyz'"),
    ("long.hex", b"0" * 33, f"line 1 must be 1 to 32 hexadecimal digits, not '{'0' * 33}'"),
    ("negative.hex", b"-1\n", "line 1 must be 1 to 32 hexadecimal digits, not '-1'"),
    ("underscore.hex", b"1_0\n", "line 1 must be 1 to 32 hexadecimal digits, not '1_0'"),
    ("bytes.hex", NO_TEXT, "must be text in UTF-8, not have byte 0xff at 0"),
], ids=lambda value: value if isinstance(value, str) and "." in value else "")
def test_words_that_are_none(capsys, tmp_path, verb, name, content, says):
    path = tmp_path / name
    path.write_bytes(content)
    refused(capsys, says, *verb, path, *(GOLDEN if verb[0] == "run" else []))


@pytest.mark.parametrize("text, says", [
    ("99=1", "--uniform must have a NUMBER from 0 to 63, not '99=1'"), ("-1=1", "--uniform must have a NUMBER from 0 to 63, not '-1=1'"),
    ("0=99999999999", "--uniform must have a VALUE from -2147483648 to 4294967295, not '0=99999999999'"),
    ("0=-2147483649", "--uniform must have a VALUE from"), ("0", "--uniform must be NUMBER=VALUE, not '0'"),
    ("0=1.5", "--uniform must be NUMBER=VALUE"), ("=1", "--uniform must be NUMBER=VALUE"),
    (f"0={'9' * 5000}", "--uniform must be NUMBER=VALUE")],
    ids=lambda value: value[:12])
def test_uniform_registers_that_are_none(capsys, tmp_path, text, says):
    path = tmp_path / "a.s"
    path.write_text("halt\n")
    refused(capsys, says, "run", "program", path, *GOLDEN, f"--uniform={text}")


def test_programs_of_a_wrong_length(capsys, tmp_path):
    path = tmp_path / "a.s"
    path.write_text("# nothing\n")
    refused(capsys, "a.s must have 1 to 512 instructions, not 0", "run", "program", path, *GOLDEN)
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(16) * 513)
    refused(capsys, "a.bin must have 1 to 512 instructions, not 513", "run", "program", path, *GOLDEN)


@pytest.mark.parametrize("options, says", [
    (["--latency", 1 << 32], "invalid positive integer value: '4294967296'"), (["--latency", -1], "invalid positive integer value: '-1'"),
    (["--jitter", 1 << 32], "invalid integer from 0 value: '4294967296'"), (["--jitter", -1], "invalid integer from 0 value: '-1'"),
    (["--seed", -1], "invalid seed (an integer from 0) value: '-1'"), (["--seed", 1 << 64], "invalid seed (an integer from 0) value"),
    (["--bandwidth", "nan"], "bandwidth must be above 0 and at most 1"), (["--bandwidth", -1], "bandwidth must be above 0"),
    (["--timeout-cycles", 1 << 32], "invalid positive integer value"),
    (["--memory-mib", 1 << 20], "memory_bytes must be from 4096 to 4294967296"),
    (["--m", 1 << 40], "invalid positive integer value"), (["--m", 1 << 31, "--k", 1 << 31], "memory_bytes must leave room for "),
])
def test_options_of_the_device(capsys, options, says):
    refused(capsys, says, "run", "matmul", "--m", 1, "--n", 1, "--k", 1, *GOLDEN, *options)


@pytest.mark.parametrize("verb", [["bench", "rnn"], ["bench", "rnn-plan"], ["show", "rnn"]])
def test_sizes_that_no_memory_holds(capsys, verb):
    refused(capsys, "from 1 to 8192 value: '4294967295'", *verb, "--hidden", (1 << 32) - 1)
    if verb != ["bench", "rnn-plan"]:
        refused(capsys, "invalid number of steps from 1 to 65536 value: '65537'", *verb, "--steps", 65537)
        refused(capsys, "invalid number of elements from 1 to 8192 value: '8193'", *verb, "--inputs", 8193)


def test_a_file_of_weights_that_is_empty(capsys, tmp_path):
    path = tmp_path / "weights.npz"
    path.write_bytes(b"")
    refused(capsys, "--weights must be an .npz file with the arrays of RNNoise: ", "bench", "rnn", "--suite", "rnnoise", "--weights", path)


@pytest.mark.parametrize("verb", [["asm", "a\0b"], ["disasm", "a\0b.bin"], ["run", "program", "a\0b", *GOLDEN],
                                  ["generate", "--unit", "barriers", "--quiet", "-o", "a\0b"]])
def test_names_of_files_with_a_zero_byte(capsys, verb):
    refused(capsys, "name of a file must have no zero byte, not 'a\\x00b", *verb)


def run_heddle(*arguments, before="", **environment):
    """Exit code, output and errors of a process of its own, from a shell that runs ``before`` first."""
    line = f"{before} exec {sys.executable} -c 'import sys; from heddle_sim.cli import main; sys.exit(main())' \"$@\""
    result = subprocess.run(["sh", "-c", line, "sh", *arguments], capture_output=True, env=os.environ | environment, timeout=60)
    return result.returncode, result.stdout, result.stderr


def test_names_and_comments_that_standard_output_cannot_say(tmp_path):
    """Bytes that are no UTF-8 in the name of a file, and a terminal that has ASCII only: escapes, no traceback."""
    path = os.fsencode(tmp_path) + b"/a\xff.s"
    with open(path, "wb") as file:
        file.write("größe: halt\n".encode())
    code, out, err = run_heddle("run", "program", path, *GOLDEN, PYTHONIOENCODING="utf-8:strict")
    assert (code, err) == (0, b"") and b"a\\udcff.s" in out
    code, out, err = run_heddle("asm", path, "--config", "tiny", PYTHONIOENCODING="ascii:strict")
    assert (code, err) == (0, b"") and b"gr\\xf6\\xdfe:" in out


def test_closed_standard_input_and_output():
    code, out, err = run_heddle("asm", "-", before="exec <&-;")
    assert (code, out) == (2, b"") and err == b"heddle asm: error: - must be standard input that is open, not closed\n"
    assert run_heddle("show", "configs", before="exec >&-;")[::2] == (0, b"")


@pytest.mark.parametrize("limit", ["0", "-1", "nan", "inf", "x"])
def test_time_limits(capsys, limit):
    refused(capsys, f"invalid number of seconds value: '{limit}'", "synth", "--time-limit", limit)


# -- Python: devices ------------------------------------------------------------------------


@pytest.mark.parametrize("parameters, error, says", [
    ({"config": None}, TypeError, "configuration must be a Config, a name or a path, not None"),
    ({"config": {"threads": 8}}, TypeError, "configuration must be a Config, a name or a path, not {'threads': 8}"),
    ({"bandwidth": "1"}, TypeError, "bandwidth must be a number, not '1'"),
    ({"bandwidth": None}, TypeError, "bandwidth must be a number, not None"),
    ({"bandwidth": True}, TypeError, "bandwidth must be a number, not True"),
    ({"bandwidth": 1 << 5000}, ValueError, "bandwidth must be a number that fits float64, not one of 2**1024 or more"),
    ({"bandwidth": float("nan")}, ValueError, "bandwidth must be above 0 and at most 1 (beats per cycle), not nan"),
    ({"latency": 1 << 32}, ValueError, "latency must be an integer from 1 to 4294967295, not 4294967296"),
    ({"latency": -1}, ValueError, "latency must be an integer from 1, not -1"),
    ({"latency": None}, ValueError, "latency must be an integer from 1, not None"),
    ({"jitter": 1 << 32}, ValueError, "jitter must be an integer from 0 to 4294967295, not 4294967296"),
    ({"seed": 1 << 64}, ValueError, "seed must be an integer from 0 to 18446744073709551615, not 18446744073709551616"),
    ({"seed": -1}, ValueError, "seed must be an integer from 0, not -1"),
    ({"memory_settings": {"latency": 3}}, TypeError, "memory_settings must be a MemorySettings, not dict"),
    ({"memory_settings": 0}, TypeError, "memory_settings must be a MemorySettings, not int"),
    ({"simulator": ["golden"]}, ValueError, "simulator must be one of verilator, golden, not ['golden']"),
])
def test_parameters_of_the_device(parameters, error, says):
    with pytest.raises(error, match=f"^{re.escape(says)}$"):
        Device(**{"config": TINY, "simulator": "golden", "memory_bytes": 4096} | parameters)


@pytest.mark.parametrize("parameters, error, says", [
    ({"stall": "0"}, TypeError, "stall must be a number, not '0'"),
    ({"outstanding": 1 << 32}, ValueError, "outstanding must be an integer"),
    ({"reorder": "no"}, TypeError, "reorder must be True or False, not 'no'"), ({"interleave": 1}, TypeError, "interleave must be True or"),
    ({"error_range": 7}, TypeError, "error_range must be a tuple of base and size, not 7"),
    ({"error_range": (0, -1)}, ValueError, "size of error_range must be from 0 to 18446744073709551615, not -1"),
    ({"error_range": ("0", 1)}, TypeError, "base of error_range must be an integer, not '0'"),
])
def test_memory_settings(parameters, error, says):
    with pytest.raises(error, match=f"^{re.escape(says)}"):
        MemorySettings(**parameters)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_simulation_that_is_never_made():
    for arguments in ((None, np.zeros(16, np.uint8)), (TINY, None), (TINY, np.ma.zeros(16, np.uint8))):
        with pytest.raises(TypeError, match="^(cfg|memory) must be "):
            RtlSimulation(*arguments)


@pytest.mark.parametrize("arguments, error, says", [
    (("halt", [1, 2]), TypeError, "uniform must be a dictionary of register numbers to values, not [1, 2]"),
    (("halt", 0), TypeError, "uniform must be a dictionary of register numbers to values, not 0"),
    (("halt", {True: 1}), TypeError, "uniform register number must be an integer, not True"),
    (("halt", None, "3"), TypeError, "macs must be an integer, not '3'"), (("halt", None, -1), ValueError, "macs must be from 0 to "),
    (("halt", None, 0, 3), ValueError, "element_bytes must be from 1 to 2, not 3"),
    ((b"halt",), TypeError, "program must be a Program or text, not bytes"),
])
def test_runs(device, arguments, error, says):
    with pytest.raises(error, match=f"^{re.escape(says)}"):
        device.run(*arguments)


@pytest.mark.parametrize("call, error, says", [
    (lambda d: d.write(0, np.array([object()])), TypeError, "data must be an array of numbers, not ndarray of dtype object"),
    (lambda d: d.write(0, None), TypeError, "data must be an array of numbers, not NoneType of dtype object"),
    (lambda d: d.write(0, "text"), TypeError, "data must be an array of numbers, not str of dtype "),
    (lambda d: d.write(0, [[1], [1, 2]]), ValueError, "data must be an array, not lists of different lengths"),
    (lambda d: d.write("0", np.zeros(1)), TypeError, "address must be an integer, not '0'"),
    (lambda d: d.write(1.5, np.zeros(1)), TypeError, "address must be an integer, not 1.5"),
    (lambda d: d.read(0, (-1,), np.int8), ValueError, "shape must be from 0 to 1048576, not -1"),
    (lambda d: d.read(0, (1 << 40, 1 << 40), np.int8), ValueError, "shape must be from 0 to 1048576, not 1099511627776"),
    (lambda d: d.read(0, 1.5, np.int8), TypeError, "shape must be an integer, not 1.5"),
    (lambda d: d.read(0, None, np.int8), TypeError, "shape must be an integer, not None"),
    (lambda d: d.read(0, (1,), object), TypeError, "dtype must be of elements that are bytes in memory, not object"),
    (lambda d: d.read(0, (1,), "nope"), TypeError, "dtype must be a numpy type, not 'nope'"),
    (lambda d: d.read(0, (1,), "(2,"), TypeError, "dtype must be a numpy type, not '(2,'"),
    (lambda d: d.read(0, (1,), (np.int8, (2,))), TypeError, "dtype must be a numpy type, not (<class 'numpy.int8'>, (2,))"),
    (lambda d: d.read(np.ma.array(0), (1,), np.int8), TypeError, "address must be an integer, not masked_array("),
    (lambda d: d.free(None), TypeError, "address must be an integer, not None"),
    (lambda d: d.free("x"), TypeError, "address must be an integer, not 'x'"),
])
def test_memory(device, call, error, says):
    with pytest.raises(error, match=f"^{re.escape(says)}"):
        call(device)


X, W = np.ones((1, 4, 5, 5), np.int8), np.ones((2, 4, 3, 3), np.int8)


@pytest.mark.parametrize("options, error, says", [
    ({"strides": 1.5}, TypeError, "strides must be an integer or a tuple of integers, not 1.5"),
    ({"strides": True}, TypeError, "strides must be an integer or a tuple of integers, not True"),
    ({"strides": (1, True)}, TypeError, "strides must be an integer, or 2 of them, not (1, True)"),
    ({"strides": (1, 1.5)}, TypeError, "strides must be an integer, or 2 of them, not (1, 1.5)"),
    ({"strides": (1, 1, 1)}, ValueError, "strides must be an integer, or 2 of them, not (1, 1, 1)"),
    ({"strides": "11"}, TypeError, "strides must be an integer or a tuple of integers, not '11'"),
    ({"dilations": None}, TypeError, "dilations must be an integer or a tuple of integers, not None"),
    ({"pads": (1, 1, 1)}, ValueError, "pads must be an integer, 2 of them (one for each axis) or 4 (begins, then ends), not (1, 1, 1)"),
    ({"pads": True}, TypeError, "pads must be an integer or a tuple of integers, not True"),
    ({"pads": 0.5}, TypeError, "pads must be an integer or a tuple of integers, not 0.5"),
    ({"pads": ((0, 1), 1)}, ValueError, "pads must have 2 pairs, not ((0, 1), 1)"),
    ({"pads": ((0, 1),)}, ValueError, "pads must have 2 pairs, not ((0, 1),)"),
    ({"layout": ["NHWC"]}, ValueError, "layout must be one of"),
])
def test_convolutions(device, options, error, says):
    with pytest.raises(error, match=f"^{re.escape(says)}"):
        device.conv(X, W, **options)


LAYER = FloatLayer("rnn", np.ones((1, 2, 3)) / 4, np.ones((1, 2, 2)) / 4, np.zeros((1, 2)), np.zeros((1, 2)), ("Tanh",))


@pytest.mark.parametrize("call, error, says", [
    (lambda: assemble(b"halt"), TypeError, "text must be text, not bytes"),
    (lambda: assemble("halt", "tiny"), TypeError, "cfg must be a Config, not str"),
    (lambda: disassemble(7), TypeError, "words must be integers, not 7"),
    (lambda: disassemble([-1]), ValueError, "word 0 must fit 128 bits, not -0x1"),
    (lambda: plan(4, 64, 64, 64, threads=()), TypeError, "threads must be a sequence of at least one integer, not ()"),
    (lambda: plan(4, 64, 64, 64, threads=[0]), ValueError, "threads must be a positive integer, not 0"),
    (lambda: plan(4, 64, True, 64), ValueError, "inputs must be an integer from 0, not True"),
    (lambda: plan(4, 64, 64, 64, latency="22"), ValueError, "latency must be an integer from 0, not '22'"),
    (lambda: plan(4, 64, 64, 64, order="tiles"), ValueError, "order must be one of columns, rows, not 'tiles'"),
    (lambda: quantise_layer(LAYER, damping=0), ValueError, "damping must be a positive number, not 0"),
    (lambda: quantise_layer(LAYER, 7), TypeError, "data must be a list of tuples (x, h, c), not int"),
    (lambda: quantise_layer(LAYER, [np.ones((2, 3))]), TypeError, "data must be tuples (x, h, c), not ndarray"),
    (lambda: quantise_layer(LAYER, [(np.ones((2, 4)), None, None)]), ValueError, "x of data must have shape (None, 3), not (2, 4)"),
    (lambda: quantise_layer(LAYER, fractions={"h": True}), ValueError, "fractions of h must be an integer from 9 to 15, not True"),
    (lambda: quantise_layer(LAYER, weight_scales={"i": True}), ValueError, "weight_scales of i must be a positive number, not True"),
    (lambda: Network(reverse="no"), TypeError, "reverse must be True or False, not 'no'"),
    (lambda: Network(threshold=True), ValueError, "threshold must be a number from 0 on, or None, not True"),
    (lambda: Network().add_input(["x"], 3, 8), TypeError, "name must be text, not ['x']"),
    (lambda: Network().add_input("x", 0, 8), ValueError, "size must be from 1 to 65536, not 0"),
    (lambda: Network().add_input("x", 3, 8.0), TypeError, "fraction must be an integer, not 8.0"),
])
def test_programs_plans_and_layers(call, error, says):
    with pytest.raises(error, match=f"^{re.escape(says)}"):
        call()


# -- Python: masked arrays ------------------------------------------------------------------


def masked(array):
    return np.ma.masked_array(array, mask=np.zeros(np.shape(array), bool))


A, B, IMAGE = np.ones((2, 16), np.int8), np.ones((16, 2), np.int8), np.ones(32, np.uint8)
REC = {"x": np.ones((2, 1, 3)), "W": np.ones((1, 8, 3)) / 4, "R": np.ones((1, 8, 2)) / 4, "B": np.ones((1, 16)),
       "sequence_lens": np.array([2]), "initial_h": np.zeros((1, 1, 2)), "initial_c": np.zeros((1, 1, 2)), "P": np.zeros((1, 6))}


SPARSE = scipy.sparse.csr_array(np.eye(2, dtype=np.int8))


def gates(count):
    """Operands of a recurrent layer of 2 units with so many gates, without cell state and peepholes."""
    weights = (np.ones((1, 2 * count, size)) / 4 for size in (3, 2))
    return np.ones((2, 1, 3)), *weights, np.ones((1, 4 * count)), np.array([2]), np.zeros((1, 1, 2))


def sequence(d, inputs, states):
    network = Network()
    network.add_input("x", 3, 8)
    return Sequence(network, inputs, states)


CALLS = {
    "matmul": (lambda d, a, b: d.matmul(a, b), A, B), "linear": (lambda d, x, w, bias: d.linear(x, w, bias), A, B, np.zeros(2, np.int32)),
    "resident": (lambda d, a, b: d.matmul(a, b, resident=True), A, B), "tensordot": (lambda d, a, b: d.tensordot(a, b), A, B),
    "conv": (lambda d, x, w: d.conv(x, w), X, W), "write": (lambda d, data: d.write(0, data), A),
    "copy_tensor": (lambda d, array: d.copy_tensor(array, box=(1, 16), coords=(0, 0)), A),
    "store_tensor": (lambda d, image, array: d.store_tensor(image, array, box=(2, 16), coords=(0, 0)), IMAGE, A),
    "prefetch_tensor": (lambda d, array: d.prefetch_tensor(array, box=(1, 16), coords=(0, 0)), A),
    "copy_block": (lambda d, array: d.copy_block(array), A), "store_block": (lambda d, image, array: d.store_block(image, array), IMAGE, A),
    "move_block": (lambda d, array, into: d.move_block(array, into), A, A), "requantise": (lambda d, m: Requantise(m, 3), np.array([1, 2])),
    "lstm": (lambda d, *operands: d.lstm(*operands), *REC.values()),
    "gru": (lambda d, *operands: d.gru(*operands), *gates(3)), "rnn": (lambda d, *operands: d.rnn(*operands), *gates(1)),
    "conv bias": (lambda d, bias: d.conv(X, W, bias), np.zeros(len(W), np.int32)),
    "max_pool": (lambda d, x: d.max_pool(x, 1), X), "average_pool": (lambda d, x: d.average_pool(x, 1), X),
    "global_average_pool": (lambda d, x: d.global_average_pool(x), X), "add": (lambda d, a, b: d.add(a, b, (1, 1), 1), A, A),
    "sddmm": (lambda d, a, b: d.sddmm(a, b, SPARSE), A, B), "spmm": (lambda d, b: d.spmm(SPARSE, b), A),
    "sparse_linear_forward": (lambda d, x: d.sparse_linear_forward(SPARSE, x), A),
    "sparse_linear_backward": (lambda d, x, dy: d.sparse_linear_backward(SPARSE, x, dy), A, A),
}


@pytest.mark.parametrize("name, position", [(name, n) for name, (_, *operands) in CALLS.items() for n in range(len(operands))])
def test_masked_arrays_are_refused(device, name, position):
    """Everywhere, whatever the mask says; the same call without mask works."""
    call, *operands = CALLS[name]
    if position == 0:
        call(device, *operands)
    with pytest.raises(TypeError, match="^[a-zA-Z_]+ must be an array without mask, not a masked array$"):
        call(device, *operands[:position], masked(operands[position]), *operands[position + 1:])


@pytest.mark.parametrize("call, says", [
    (lambda d: d.copy_tensor(A, box=masked((1, 16)), coords=(0, 0)), "box must be a tuple of integers, not a masked array"),
    (lambda d: d.conv(X, W, strides=masked((1, 1))), "strides must be an array without mask"),
    (lambda d: d.linear_chain(masked(A), [(B, None, Requantise(1, 4))]), "x must be an array without mask"),
    (lambda d: d.linear_chain(A, [(masked(B), None, Requantise(1, 4))]), "w of layer 0 must be an array without mask"),
    (lambda d: d.linear_chain(A, [(B, masked(np.zeros(2, np.int32)), Requantise(1, 4))]), "bias of layer 0 must be an array without mask"),
    (lambda d: d.tensordot(A, B, masked((1, 0))), "axes must be an array without mask"),
    (lambda d: Program(masked((1, 2))), "words must be integers, not masked_array"),
    (lambda d: quantise_layer(LAYER, [(masked(np.ones((2, 3))), None, None)]), "x of data must be an array without mask"),
    (lambda d: quantise_layer(LAYER, [(np.ones((2, 3)), masked(np.ones(2)), None)]), "h of data must be an array without mask"),
    (lambda d: plan(4, 64, 64, 64, threads=masked([1, 2])), "threads must be an array without mask"),
])
def test_masked_arrays_in_other_arguments(device, call, says):
    with pytest.raises(TypeError, match=f"^{re.escape(says)}"):
        call(device)


def test_masked_arrays_in_lists_and_sequences(device):
    with pytest.raises(TypeError, match="^data must be an array without mask"):
        device.write(0, [masked(A[0]), A[0]])
    for inputs, states in ((masked(np.ones((2, 3))), {}), ({"x": masked(np.ones((2, 3)))}, {})):
        with pytest.raises(TypeError, match="^input x must be an array without mask"):
            sequence(device, inputs, states)
