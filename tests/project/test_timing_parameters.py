"""Timing is placed, not branched on: few conditions on parameters that only change cycles; in the front end none outside its wiring."""

import ast
from dataclasses import fields
from pathlib import Path

import heddle
import pytest
from heddle.parameters.slices import SlicesGroup

MOST = 10       # conditions in all of the hardware
HARDWARE = Path(heddle.__file__).parent
FRONT_END_WIRING = {"front_end/unit.py"}


def names_in(node):
    """Names and attributes in a part of the syntax tree."""
    return {part.id if isinstance(part, ast.Name) else part.attr for part in ast.walk(node) if isinstance(part, (ast.Name, ast.Attribute))}


def timing_parameters():
    """``far_registers``, the table ``slices``, and the derived parameters that read one of them."""
    trees = [ast.parse(path.read_text()) for path in sorted((HARDWARE / "parameters").glob("*.py"))]
    derived = {node.name: names_in(ast.Module(node.body, [])) for tree in trees for node in ast.walk(tree)
               if isinstance(node, ast.FunctionDef) and node.decorator_list}
    found = {"far_registers", *(parameter.name for parameter in fields(SlicesGroup))}
    while more := {name for name, reads in derived.items() if reads & found} - found:
        found |= more
    return found


def _tests(node):
    """What a node of the syntax tree decides by, in Python or as a constant of the hardware."""
    match node:
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) | ast.Assert(test=test):
            return [test]
        case ast.comprehension(ifs=tests) | ast.BoolOp(values=tests):
            return tests
        case ast.Match(subject=test) | ast.Call(func=ast.Name(id="Mux"), args=[test, *_]):
            return [test]
        case ast.BinOp(left=ast.List() | ast.Tuple(), op=ast.Mult(), right=test):
            return [test]
        case _:
            return []


def conditions(text, parameters):
    """Lines with a condition on ``parameters`` or on a name that was given their value."""
    nodes = list(ast.walk(ast.parse(text)))
    names = set(parameters)
    for node in nodes:
        if isinstance(node, ast.Assign) and names_in(node.value) & names and not isinstance(node.value, ast.IfExp):
            names |= {name for target in node.targets for name in (names_in(target) - {"self"})}
    return sorted({test.lineno for node in nodes for test in _tests(node) if names_in(test) & names})


def all_conditions():
    """(file, line) of each condition on a timing parameter in the hardware."""
    parameters = timing_parameters()
    return [(path.relative_to(HARDWARE).as_posix(), line) for path in sorted(HARDWARE.rglob("*.py"))
            for line in conditions(path.read_text(), parameters)]


def test_few_conditions_on_timing(record_property):
    found = all_conditions()
    record_property("ran", f"{len(found)} conditions on timing parameters, in {', '.join(sorted({name for name, _ in found}))}")
    assert len(found) <= MOST, found


def test_front_end_has_them_in_its_wiring_only():
    assert {name for name, _ in all_conditions() if name.startswith("front_end/")} <= FRONT_END_WIRING


def test_derived_parameters_are_found():
    assert timing_parameters() >= {"far_registers", "front_end_slices", "lane_slices", "register_read_latency", "tmau_slices"}
    assert not timing_parameters() & {"threads", "thread_slots", "shared_writes"}


@pytest.mark.parametrize("text, lines", [
    ("if cfg.far_registers:\n    pass", [1]),
    ("far = bool(self.cfg.far_registers)\nmode = A if far else B\nx = 1 if mode else 0", [2]),
    ("a = 1\nb = [x for x in y if cfg.far_registers]", [2]),
    ("a = [*['c'] * cfg.far_registers]\nb = a and cfg.far_registers", [1, 2]),
    ("m.d.comb += a.eq(Mux(cfg.far_registers, b, c))", [1]),
    ("for number in range(cfg.far_registers):\n    pass\nlatency = 2 + cfg.far_registers", []),
    ("if self.far:\n    pass", []),
])
def test_conditions_are_counted(text, lines):
    assert conditions(text, {"far_registers"}) == lines
