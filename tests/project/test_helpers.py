"""Helpers of the hardware: few arguments each."""

import ast
from pathlib import Path

import heddle
import pytest

MOST = 4        # signals, units or groups of them
NOT_COUNTED = {"self", "m", "cfg"}
HARDWARE = Path(heddle.__file__).parent


def arguments(function):
    """Names of the arguments of a function of the syntax tree. All of ``*args`` are one; ``**options`` of a signal are none."""
    listed = function.args
    every = [*listed.posonlyargs, *listed.args, *listed.kwonlyargs, *([listed.vararg] if listed.vararg else [])]
    return [argument.arg for argument in every if argument.arg not in NOT_COUNTED]


def long_lists(text):
    """(name, arguments) of each function with more than ``MOST`` arguments; constructors have one a parameter."""
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))
    found = ((getattr(function, "name", "lambda"), arguments(function)) for function in functions)
    return [(name, listed) for name, listed in found if len(listed) > MOST and name != "__init__"]


def test_no_helper_takes_more_than_four_signals():
    files = sorted(HARDWARE.rglob("*.py"))
    found = {str(path.relative_to(HARDWARE)): long_lists(path.read_text()) for path in files}
    assert len(files) > 100
    assert not {path: lists for path, lists in found.items() if lists}


def test_pairs_of_signals_have_equal_lengths():
    found = [path.name for path in sorted(HARDWARE.rglob("*.py")) if "strict=False" in path.read_text()]     # ruff wants ``strict``
    assert not found


def test_parts_of_the_library_take_no_configuration():
    files = sorted((HARDWARE / "lib").glob("*.py"))
    assert len(files) > 10
    taken = {path.name: [node.arg for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.arg) and node.arg == "cfg"]
             for path in files}
    assert not {name: listed for name, listed in taken.items() if listed}


@pytest.mark.parametrize("text, found", [
    ("def f(self, m, cfg, a, b, c, d): pass", []),
    ("def f(self, m, a, b, c, d, *, e): pass", ["f"]),
    ("class A:\n  def __init__(self, a, b, c, d, e): pass\n  def g(self, a, b, c, d, *e): pass", ["g"]),
    ("def f(a):\n  return lambda b, c, d, *e, f, **rest: a", ["lambda"]),
])
def test_arguments_are_counted(text, found):
    assert [name for name, _ in long_lists(text)] == found
