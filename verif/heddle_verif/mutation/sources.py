"""Code of modules and of all that they import, to tell whether a test is still the same."""

import ast
import importlib.util
from functools import cache
from pathlib import Path

__all__ = ["source_texts"]

PACKAGES = ("heddle", "heddle_sim", "heddle_verif")
# Packages of units, and definitions that units and benches share: what a unit has of them is in its Verilog. ``heddle`` itself only has
# names of them.
HARDWARE = ("control", "core", "datapath", "front_end", "l2", "lib", "matrix", "memory", "rnn", "sparse", "thread", "tmau", "top", "units",
            "config", "constants", "interfaces", "isa", "parameters")


def source_texts(modules):
    """Code of modules of this project by name, with those that they import, and so on; sorted.

    Without comments and docstrings, and without what is in the Verilog of units.
    """
    found, waiting = {}, list(modules)
    while waiting:
        name = waiting.pop()
        if name not in found and not _of_hardware(name) and (text := _text(name)) is not None:
            found[name] = text
            waiting += _imports(name)
    return sorted(found.items())


def _of_hardware(name):
    package, *rest = name.split(".")
    return package == "heddle" and (not rest or rest[0] in HARDWARE)


@cache
def _path(name):
    """Path of a module, or None where there is none of that name, or none of this project."""
    if name.split(".")[0] not in PACKAGES:
        return None
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:     # a name in a module, not in a package
        return None
    return Path(spec.origin) if spec and spec.origin else None


def _text(name):
    path = _path(name)
    if path is None:
        return None
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node) is not None:
            node.body[0].value.value = ""
    return ast.unparse(tree)


@cache
def _imports(name):
    """Modules that a module's text imports, without the packages that they lie in; names that are no modules are among them."""
    path, names = _path(name), set()
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return names
