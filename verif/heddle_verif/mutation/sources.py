"""Texts of modules and of all that they import, to tell whether a test is still the same."""

import ast
import importlib.util
from functools import cache
from pathlib import Path

__all__ = ["source_texts"]

PACKAGES = ("heddle", "heddle_sim", "heddle_verif")


def source_texts(modules):
    """Texts of modules of this project by name, with those that they import, and so on; sorted."""
    found, waiting = {}, list(modules)
    while waiting:
        name = waiting.pop()
        if name not in found and (text := _text(name)) is not None:
            found[name] = text
            waiting += _imports(name)
    return sorted(found.items())


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
    return path.read_text() if path else None


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
