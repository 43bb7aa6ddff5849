"""Imports between the units: what several of them use is defined in ``interfaces`` or ``lib``."""

import ast
from importlib import import_module
from pathlib import Path

import heddle
import pytest
from amaranth.lib.wiring import Component

HARDWARE = Path(heddle.__file__).parent
UNITS = ("control", "datapath", "front_end", "l2", "matrix", "memory", "rnn", "sparse", "thread", "tmau")


def imports_of_units(text, package):
    """(module of ``heddle``, name) of each import of a module of ``package`` from the package of another unit."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.level == 2 or (node.module or "").startswith("heddle.")):
            module = (node.module or "").removeprefix("heddle.")
            found += [(module, alias.name) for alias in node.names if (module or alias.name).split(".")[0] in set(UNITS) - {package}]
        elif isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names if alias.name.startswith(tuple(f"heddle.{unit}" for unit in UNITS))]
    return found


def is_component(module, name):
    value = getattr(import_module(f"heddle.{module}"), name, None) if module and name else None
    return isinstance(value, type) and issubclass(value, Component)


def test_a_unit_takes_only_components_of_other_units():
    files = {path: imports_of_units(path.read_text(), unit) for unit in UNITS for path in sorted((HARDWARE / unit).glob("*.py"))}
    assert len(files) > 100
    assert any(files.values())      # the matrix unit has a PE array
    assert not {str(path.relative_to(HARDWARE)): listed for path, found in files.items()
                if (listed := [each for each in found if not is_component(*each)])}


def test_every_package_of_hardware_is_listed():
    shared = {"interfaces", "isa", "lib", "parameters"}
    assert {path.parent.name for path in HARDWARE.glob("*/__init__.py")} == {*UNITS, *shared}


@pytest.mark.parametrize("text, found", [
    ("from ..rnn.layouts import Start, stored", [("rnn.layouts", "Start"), ("rnn.layouts", "stored")]),
    ("from ..interfaces.layouts import PC_BITS\nfrom .layouts import a\nfrom ..l2.tags import b", []),
    ("from heddle.tmau import layouts\nfrom .. import rnn", [("tmau", "layouts"), ("", "rnn")]),
    ("import heddle.rnn.layouts", [("heddle.rnn.layouts", "")]),
])
def test_imports_are_found(text, found):
    assert imports_of_units(text, "l2") == found
    assert not any(is_component(*each) for each in found)
