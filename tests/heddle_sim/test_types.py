"""Public names promise types: every parameter and result of what users import is annotated, and the packages say so."""

import ast
import importlib
import inspect
from pathlib import Path

import heddle
import heddle_sim
import pytest

EMPTY = inspect.Signature.empty


def functions_of(name, found):
    """(Name, function) of a function, or of the constructor, the public methods and the properties of a class, inherited ones included."""
    if not inspect.isclass(found):
        return [(name, found)]
    members = {}
    for kind in reversed(found.__mro__):
        if kind.__module__.startswith("heddle"):
            members |= vars(kind)
    functions = []
    for member, value in members.items():
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if inspect.isfunction(function) and (member == "__init__" or not member.startswith("_")):
            functions.append((f"{name}.{member}", function))
    return functions


def public_functions():
    return [pair for name in heddle_sim.__all__ for pair in functions_of(name, getattr(heddle_sim, name))]


@pytest.mark.parametrize("function", [pytest.param(function, id=name) for name, function in public_functions()])
def test_signatures_are_annotated_and_explicit(function):
    signature = inspect.signature(function)
    parameters = [parameter for name, parameter in signature.parameters.items() if name not in ("self", "cls")]
    assert [parameter.name for parameter in parameters if parameter.annotation is EMPTY] == []
    assert [parameter.name for parameter in parameters if parameter.kind is parameter.VAR_KEYWORD] == []
    assert signature.return_annotation is not EMPTY


def test_methods_of_a_device_are_among_them():
    names = {name for name, _ in public_functions()}
    methods = ("__init__", "run", "matmul", "linear", "conv", "copy_tensor", "copy_block", "lstm", "run_tasks")
    assert {f"Device.{name}" for name in methods} <= names
    assert {"TensorMap.build", "Network.of_layer", "Stats.utilization", "plan", "quantise_layer"} <= names


def test_what_has_no_types_is_found():
    class Untyped:
        __module__ = "heddle_sim.untyped"

        def method(self, value, **options) -> None:
            pass

    (_, function), = functions_of("Untyped", Untyped)
    with pytest.raises(AssertionError):
        test_signatures_are_annotated_and_explicit(function)


@pytest.mark.parametrize("package", ["heddle", "heddle_fpga", "heddle_sim"])
def test_packages_are_marked_as_typed(package):
    assert (Path(importlib.import_module(package).__file__).parent / "py.typed").is_file()


@pytest.mark.parametrize("package", [heddle, heddle_sim], ids=lambda package: package.__name__)
def test_type_checkers_see_the_names_of_the_table(package):
    blocks = [node.body for node in ast.parse(Path(package.__file__).read_text()).body if isinstance(node, ast.If)]
    imports = {alias.name: "." * node.level + node.module for block in blocks for node in block for alias in node.names}
    assert imports == package._PLACES
    assert package._PLACES.keys() <= set(package.__all__)


def test_errors_are_imported_from_either_package():
    assert heddle_sim.HeddleError is heddle.HeddleError and heddle_sim.ConfigError is heddle.ConfigError
    assert all(issubclass(error, heddle_sim.HeddleError) for error in (heddle.ConfigError, heddle_sim.DeviceError, heddle_sim.ModelError))
