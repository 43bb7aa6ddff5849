"""Arguments of every kind, drawn at random: each call works or ends with an error that names what was wrong; commands with one line."""

import argparse
import re
import string

import numpy as np
import pytest
from heddle import load_config
from heddle_sim import Device, DeviceError
from heddle_sim.backends.verilator_device import MemorySettings
from heddle_sim.cli import main
from heddle_sim.cli.main import parser_of
from heddle_sim.golden.requantise import Requantise
from heddle_sim.isa import assemble, disassemble
from heddle_sim.isa.program import Program
from heddle_sim.rnn.network import Network, Sequence
from heddle_sim.rnn.plan import plan
from heddle_sim.rnn.quantise import quantise_layer
from heddle_sim.rnn.reference import FloatLayer
from heddle_sim.tensor.tensor_map import TensorMap

TINY = load_config("tiny")
SEED = 5
CALLS = 80                  # of each method
COMMANDS = 60
VALUES = [
    None, True, False, 0, 1, -1, 3, 1 << 31, 1 << 64, -(1 << 70), 1.5, float("nan"), float("inf"), "", "1", "text", b"\xff", [], [1, 2],
    (1,), [[1], [1, 2]], {}, {"a": 1}, object(), np.int8(3), np.float32(2.5), np.zeros(0, np.int8), np.zeros((), np.int8), np.ones(4),
    np.ones((2, 16), np.int8), np.ones((16, 2), np.uint8), np.ones((2, 0), np.int8), np.ones((1, 2, 3, 4), np.int8), np.array([object()]),
    np.array(["x"]), np.ones((2, 3), complex), np.ma.ones((2, 16), np.int8), np.ones((2, 16), ">i2"), np.zeros(2, [("a", "i1")]), int,
    np.int8, "int8", "golden", "none", "tile", 1 << 5000, np.ma.array(3), np.ma.array([1, 2]), np.bool_(True), np.float64("nan"), range(3),
    "a\ud800", "(2,", (np.int8, (2,)), (1 << 40, 1), (True, False), [(np.ma.ones((2, 3)), None, None)], {"i": True}, {"x0": True}]
A, B = np.ones((2, 16), np.int8), np.ones((16, 2), np.int8)
REC = np.ones((2, 1, 3)), np.ones((1, 8, 3)) / 4, np.ones((1, 8, 2)) / 4


LAYER = FloatLayer("rnn", np.ones((1, 2, 3)) / 4, np.ones((1, 2, 2)) / 4, np.zeros((1, 2)), np.zeros((1, 2)), ("Tanh",))


def network():
    made = Network()
    made.add_input("x", 3, 8)
    return made


# Name: what is called, arguments that work, names of options.
TARGETS = {
    "Device": (lambda d, config="tiny", **options: Device(config, **{"simulator": "golden"} | options).close(),
               ["tiny"], ["simulator", "memory_bytes", "latency", "bandwidth", "jitter", "seed", "memory_settings", "timeout_cycles",
                          "wait_timeout_cycles"]),
    "run": (lambda d, *a, **o: d.run(*a, **o), ["halt"], ["uniform", "macs", "element_bytes"]),
    "allocate": (lambda d, n: d.free(d.allocate(n)), [16], []), "free": (lambda d, n: d.free(n), [0], []),
    "write": (lambda d, *a: d.write(*a), [0, A], []), "read": (lambda d, *a: d.read(*a), [0, (2,), np.int8], []),
    "matmul": (lambda d, *a, **o: d.matmul(*a, **o), [A, B], ["transpose", "b_layout", "ka", "kb", "order", "resident"]),
    "linear": (lambda d, *a, **o: d.linear(*a, **o), [A, B], ["bias", "requantise", "transpose"]),
    "linear_chain": (lambda d, *a, **o: d.linear_chain(*a, **o), [A[:1], [(B, None, Requantise(1, 1))]], ["transpose"]),
    "conv": (lambda d, *a, **o: d.conv(*a, **o), [np.ones((1, 4, 4, 4), np.int8), np.ones((2, 4, 3, 3), np.int8)],
             ["strides", "pads", "dilations", "group", "layout", "method", "representation"]),
    "max_pool": (lambda d, *a, **o: d.max_pool(*a, **o), [np.ones((1, 4, 4, 4), np.int8), 2],
                 ["strides", "pads", "dilations", "layout", "minimum", "maximum"]),
    "average_pool": (lambda d, *a, **o: d.average_pool(*a, **o), [np.ones((1, 4, 4, 4), np.int8), 2],
                     ["strides", "pads", "layout", "count_include_pad", "x_zero_point", "requantise", "minimum", "maximum"]),
    "global_average_pool": (lambda d, *a, **o: d.global_average_pool(*a, **o), [np.ones((1, 4, 4, 4), np.int8)],
                            ["layout", "x_zero_point", "requantise"]),
    "add": (lambda d, *a, **o: d.add(*a, **o), [A, A, (1, 1), 1],
            ["a_zero_point", "b_zero_point", "zero_point", "minimum", "maximum", "relu", "dtype"]),
    "tensordot": (lambda d, *a, **o: d.tensordot(*a, **o), [A, B], ["axes", "b_layout", "ka"]),
    "copy_tensor": (lambda d, array, **o: d.copy_tensor(array, **{"box": (1, 16), "coords": (0, 0)} | o), [A],
                    ["box", "coords", "element_strides", "swizzle", "interleave", "fill", "mode", "lower_corner", "offsets",
                     "smem_address"]),
    "store_tensor": (lambda d, *a, **o: d.store_tensor(*a, **{"box": (2, 16), "coords": (0, 0)} | o),
                     [np.ones(32, np.uint8), A],
                     ["box", "coords", "reduce", "swizzle", "mode", "smem_address"]),
    "prefetch_tensor": (lambda d, array, **o: d.prefetch_tensor(array, **{"box": (1, 16), "coords": (0, 0)} | o), [A],
                        ["box", "coords", "mode"]),
    "copy_block": (lambda d, *a, **o: d.copy_block(*a, **o), [A], ["swizzle", "smem_address"]),
    "store_block": (lambda d, *a, **o: d.store_block(*a, **o), [np.ones(32, np.uint8), A], ["reduce", "swizzle", "smem_address"]),
    "move_block": (lambda d, *a, **o: d.move_block(*a, **o), [A], ["into", "space", "reduce", "smem_address", "smem_destination"]),
    "prefetch_block": (lambda d, *a: d.prefetch_block(*a), [0, 16], []),
    "lstm": (lambda d, *a, **o: d.lstm(*a, **o), list(REC),
             ["B", "sequence_lens", "initial_h", "initial_c", "P", "direction", "layout", "activations", "contexts", "cats", "skip_zeros",
              "threshold", "quantised", "fractions", "weight_scales"]),
    "run_tasks": (lambda d, *a, **o: d.run_tasks(*a, **o), [[]], ["contexts"]),
    "TensorMap": (lambda d, *a, **o: TensorMap.build(*a, **{"box": (1, 16)} | o), [(2, 16), "int8"],
                  ["box", "address", "strides", "element_strides", "swizzle", "mode"]),
    "from_cutensormap": (lambda d, *a: TensorMap.from_cutensormap(*a), [bytes(128)], []),
    "Sequence": (lambda d, *a, **o: Sequence(*a, **o), [network(), np.ones((2, 3))], ["states", "start"]),
    "Network": (lambda d, **o: Network(**o), [], ["reverse", "cats", "skip_zeros", "threshold"]),
    "Program": (lambda d, *a, **o: Program(*a, **o), [[1, 2]], ["labels", "lines", "source"]),
    "assemble": (lambda d, *a: assemble(*a), ["halt", TINY], []), "disassemble": (lambda d, *a: disassemble(*a), [[1, 2]], []),
    "plan": (lambda d, *a, **o: plan(*a, **o), [4, 64, 64, 64], ["threads", "latency", "order", "products"]),
    "quantise_layer": (lambda d, *a, **o: quantise_layer(*a, **o), [LAYER], ["data", "fractions", "weight_scales", "damping"]),
    "add_input": (lambda d, *a, **o: Network().add_input(*a, **o), ["x", 3, 8], ["limit"]),
    "MemorySettings": (lambda d, **o: MemorySettings(**o), [], ["latency", "bandwidth", "stall", "outstanding", "reorder", "interleave",
                                                                "error_range"]),
    "from_bytes": (lambda d, *a: Program.from_bytes(*a), [bytes(16)], []),
    "Requantise": (lambda d, *a, **o: Requantise(*a, **o), [3, 4], ["zero_point", "minimum", "maximum", "relu", "dtype",
                                                                    "double_rounding"]),
}


@pytest.mark.parametrize("name", TARGETS)
def test_calls(name):
    """A value of a wrong kind in one or two places: a result, or an error of ours."""
    target, positional, options = TARGETS[name]
    rng = np.random.default_rng([SEED, *name.encode()])
    with Device(TINY, "golden", memory_bytes=1 << 18, timeout_cycles=10_000) as device:
        for _ in range(CALLS):
            arguments, named = list(positional), {}
            places = [*range(len(arguments)), *options]
            for index in rng.choice(len(places), min(int(rng.integers(1, 3)), len(places)), replace=False):
                (arguments if index < len(arguments) else named)[places[index]] = VALUES[rng.integers(len(VALUES))]
            try:
                target(device, *arguments, **named)
            except DeviceError:
                pass
            except Exception as error:
                if not isinstance(error, (ValueError, TypeError)) or not re.search(r"\bmust\b", str(error)):
                    raise AssertionError(f"{name}{arguments}{named}: {error!r}") from error


# -- command line ---------------------------------------------------------------------------

WORDS = ["", "0", "1", "8", "-1", "1.5", "nan", "inf", "99999999999", "0x10", "x", "1,2", "1x2", "-3,4", "tiny", "nope", "ü", "a b", "--",
         "-", "9" * 400]
VERBS = [["asm"], ["disasm"], ["run", "program"], ["run", "matmul"], ["bench", "gemm"], ["bench", "rnn"], ["bench", "rnn-plan"],
         ["bench", "transpose"], ["show", "tensormap"], ["show", "rnn"], ["bench", "gather"], ["show", "configs"]]
WORK = {"run matmul": ["--m", "4", "--n", "4", "--k", "4"], "bench gemm": ["--m", "4", "--n", "4", "--k", "4"],
        "bench rnn": ["--hidden", "4"],
        "bench transpose": ["--m", "4", "--n", "4", "--k", "4"], "show tensormap": ["--shape", "2", "16", "--box", "1", "16"],
        "show rnn": ["--hidden", "4"], "bench rnn-plan": ["--hidden", "64"]}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Paths of every kind: good and bad programs and configurations, folders, nothing."""
    monkeypatch.chdir(tmp_path)
    rng, names = np.random.default_rng(SEED), []
    contents = {"good.s": b"halt\n", "empty.s": b"", "garbage.s": rng.bytes(200), "letters.s": string.printable.encode(),
                "odd.bin": b"12345",
                "noise.bin": rng.bytes(160), "empty.hex": b"", "bad.hex": b"xyz\n", "garbage.hex": rng.bytes(99),
                "mine.toml": b"threads = 8\ndot = 4\n", "loop.toml": b'extends = "loop.toml"\n', "bad.toml": b"threads = 9\n",
                "garbage.toml": rng.bytes(99), "key.toml": b"thread = 8\n"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        names.append(name)
    for name in ("folder", "folder.toml", "folder.bin"):
        (tmp_path / name).mkdir()
        names.append(name)
    return [*names, "missing.s", "missing/file.bin", "missing.toml", "good.s/below"]


def options_of(verb):
    """Options of a verb, and whether they take a value."""
    parser = parser_of(verb[0])
    for word in verb:
        action, = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
        parser = action.choices[word]
    return [(action.option_strings[-1], action.nargs != 0) for action in parser._actions if action.option_strings and action.dest != "help"]


def test_commands(files, capsys):
    """Options and files at random: done, or one line that says what is wrong; never a traceback."""
    rng, wrong = np.random.default_rng(SEED), 0
    for _ in range(COMMANDS):
        verb = VERBS[rng.integers(len(VERBS))]
        known = options_of(verb)
        arguments = verb + WORK.get(" ".join(verb), [])
        if verb in (["asm"], ["disasm"], ["run", "program"]):
            arguments = [*verb, str(rng.choice(files))]
        for index in rng.choice(len(known), min(2, len(known)), replace=False):
            option, takes = known[index]
            if option not in ("--simulator", "--suite", "--every-signal"):
                value = str(rng.choice(files if option in ("--config", "--svg", "-o", "--output", "--weights") else WORDS))
                arguments = [*arguments, option, *([value] if takes else [])]
        if "--simulator" in dict(known):
            arguments += ["--simulator", "golden"]
        if "--config" in dict(known) and "--config" not in arguments:
            arguments += ["--config", "tiny"]
        if "--memory-mib" in dict(known) and "--memory-mib" not in arguments:
            arguments += ["--memory-mib", "1"]
        try:
            code = main(arguments)
        except Exception as error:
            raise AssertionError(f"heddle {' '.join(arguments)}: {error!r}") from error
        err = capsys.readouterr().err
        assert code in (0, 1, 2) and (not code) == (not err) and err.count("\n") == bool(code), (arguments, code, err)
        wrong += code == 2
    assert COMMANDS // 4 < wrong < COMMANDS
