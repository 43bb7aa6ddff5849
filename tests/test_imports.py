"""House rules that a program can check: import direction, size of files, public names."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# Package: the packages of this project that it may import.
ALLOWED = {
    "heddle": {"heddle"},
    "heddle_fpga": {"heddle", "heddle_fpga"},
    "heddle_sim": {"heddle", "heddle_fpga", "heddle_sim"},
    "heddle_verif": {"heddle", "heddle_sim", "heddle_verif"},
}
FOLDERS = {"heddle": "hdl", "heddle_fpga": "hdl", "heddle_sim": "sim", "heddle_verif": "verif"}
FILES = [path for package, folder in FOLDERS.items() for path in sorted((ROOT / folder / package).rglob("*.py"))]
FILE_LINES = 350


def imported(tree):
    """Top-level names of absolute imports, wherever they stand in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path):
    package = path.relative_to(ROOT).parts[1]
    ours = {name for name in imported(ast.parse(path.read_text())) if name in ALLOWED}
    assert ours <= ALLOWED[package], f"{package} must not import {', '.join(sorted(ours - ALLOWED[package]))}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_are_short_and_say_what_is_public(path):
    text = path.read_text()
    tree = ast.parse(text)
    assert len(text.splitlines()) <= FILE_LINES
    names = [
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
    defines = any(
        isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_") for node in tree.body
    )
    if defines and path.parent.name != "bench":  # cocotb collects benches by their decorators, nobody imports them
        assert "__all__" in names
    assert not text.strip() or ast.get_docstring(tree)


def test_the_check_finds_a_wrong_import():
    assert set(imported(ast.parse("def f():\n    from heddle_verif.agents.stream import Source\n"))) == {"heddle_verif"}
    assert set(imported(ast.parse("import heddle_sim.device as d, os"))) == {"heddle_sim", "os"}
    assert not set(imported(ast.parse("from .device import Device")))
    assert len(FILES) > 20
