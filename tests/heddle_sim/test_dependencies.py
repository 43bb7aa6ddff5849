"""What the core needs: scipy, scikit-learn and onnx are none of it."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# Of the tests and of the demo; None in sys.modules makes an import fail as that of a package that is not installed.
BLOCKED = ("scipy", "sklearn", "onnx", "onnxruntime", "tflite", "ai_edge_litert", "pytest", "cocotb", "matplotlib")
BLOCK = f"import sys; sys.modules.update(dict.fromkeys({BLOCKED})); "
CORE = """
import importlib, pkgutil
import numpy as np
import heddle, heddle_fpga, heddle_sim
from heddle_sim import Device
from heddle_sim.cli import main

for package in (heddle, heddle_fpga, heddle_sim):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):
        # Benches run in cocotb; the backend is a class of onnx.
        if not module.name.startswith(('heddle_sim.toolchain.cocotb', 'heddle_sim.onnx.backend')):
            importlib.import_module(module.name)
from heddle_sim.golden.sparse import spmm
from heddle_sim.sparse import DCSC
spmm(np.ones((3, 4), np.int8), DCSC([0, 1], [2], [0], [1], (4, 5)))
rng = np.random.default_rng(0)
with Device('tiny', simulator='golden') as device:
    device.matmul(np.ones((3, 5), np.int8), np.ones((5, 2), np.int8))
    device.conv(np.ones((1, 16, 5, 5), np.int8), np.ones((4, 16, 3, 3), np.int8))
    device.lstm(*(rng.standard_normal(shape).astype(np.float32) for shape in ((2, 1, 4), (1, 16, 4), (1, 16, 4))))
for words in ('run matmul --m 3 --n 4 --k 5', 'bench conv --quick', 'bench gather', 'bench rnn --hidden 4 --threads 1'):
    assert main([*words.split(), '--config', 'tiny', '--simulator', 'golden', '--quiet']) == 0, words
for words in ('show units', 'show rnn --hidden 4', 'bench rnn-plan --hidden 64'):
    assert main(words.split()) == 0, words
"""


def run(text, *arguments):
    return subprocess.run([sys.executable, "-c", BLOCK + text, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)


def test_the_core_needs_no_packages_of_tests_and_demo():
    done = run(CORE)
    assert done.returncode == 0, done.stderr


def test_the_command_line_imports_nothing_that_only_verbs_need():
    done = run("import heddle_sim.cli; print(sorted({'numpy', 'amaranth', 'pyosys', 'ml_dtypes'} & set(sys.modules)))")
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


@pytest.mark.parametrize("example", ["digits", "lstm_digits"])
def test_the_demo_says_what_to_install(example):
    arguments = ["--config", "tiny", "--simulator", "golden"]
    done = run(f"import runpy; runpy.run_path({str(EXAMPLES / f'{example}.py')!r}, run_name='__main__')", *arguments)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    says = "the demo needs scikit-learn: run make demo, or install the extra: pip install -e '.[demo]'"
    assert done.stderr == f"{example}: error: {says}\n"
