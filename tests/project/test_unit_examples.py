"""Units usable alone: what ``heddle`` gives, and an example of each unit that simulates it with nothing else."""

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import heddle
import pytest
from amaranth.sim import Simulator
from heddle.emit import emit_verilog

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "units"
EXAMPLES = sorted(path.stem for path in FOLDER.glob("*.py"))
PROBE = """
import sys, heddle
print(*sorted(name for name in sys.modules if name.startswith("heddle.") or name.startswith("amaranth.lib.")))
"""


@pytest.fixture
def example(request):
    spec = importlib.util.spec_from_file_location(f"example_{request.param}", FOLDER / f"{request.param}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_examples():
    assert EXAMPLES == ["l2", "pe", "queue", "reduction_tree", "swizzle", "tmau"]


@pytest.mark.parametrize("example", EXAMPLES, indirect=True)
def test_example_runs(example, monkeypatch, capsys):
    """It asserts what it shows by itself; its unit is emitted as Verilog, too."""
    units = []
    monkeypatch.setattr(example, "Simulator", lambda unit: units.append(unit) or Simulator(unit))
    example.main()
    assert 1 <= len(capsys.readouterr().out.splitlines()) <= 9
    assert emit_verilog(units[0], "unit").count("module unit(") == 1


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_is_short(name):
    text = (FOLDER / f"{name}.py").read_text()
    assert len(text.splitlines()) <= 45
    tree = ast.parse(text)
    assert ast.get_docstring(tree)
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert {module.split(".")[0] for module in modules} <= {"amaranth", "heddle", "numpy"}
    assert not any(module.startswith("heddle.") for module in modules), "what an example needs of heddle is public"


@pytest.mark.parametrize("name", heddle.__all__)
def test_public_name(name):
    assert getattr(heddle, name).__name__ == name
    assert name in dir(heddle)


def test_names_are_imported_when_used():
    """``import heddle`` alone is that of a configuration; it loads no hardware."""
    path = os.environ | {"PYTHONPATH": str(Path(heddle.__file__).parents[1])}
    loaded = subprocess.run([sys.executable, "-c", PROBE], check=True, capture_output=True, text=True, env=path).stdout.split()
    groups = ("core", "derived", "front_end", "group", "l2", "matrix", "memory", "rnn", "slices", "sparse", "thread", "tmau")
    assert loaded == ["amaranth.lib.meta", "amaranth.lib.wiring", "heddle.config", "heddle.constants", "heddle.errors", "heddle.parameters",
                      *(f"heddle.parameters.{group}" for group in groups)]


def test_other_names():
    with pytest.raises(AttributeError, match="module 'heddle' has no attribute 'Lane'"):
        heddle.Lane  # noqa: B018
