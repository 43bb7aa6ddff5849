"""Emission: the only path from a component to Verilog."""

import re
from collections.abc import Iterable, Iterator

from amaranth.hdl import Const, Value
from amaranth.lib.wiring import Component, Out

from .errors import UsageError
from .lib.shared_module import convert_with_types
from .yosys import run_yosys

__all__ = ["VARIANTS", "component_ports", "emit_verilog", "emit_rtlil"]

# Combinational logic becomes continuous assignments: an ``always @*`` block would keep its outputs unknown at time 0 in Icarus.
_WRITE = ["memory_collect", "opt_clean", "write_verilog -noattr -norename top.v"]

_TIMEOUT_S = 600        # of Yosys

VARIANTS = {
    "rtl": ["proc"],
    # Registers and memories start unknown: what needs a reset and has none becomes visible.
    "xprop": ["delete t:$meminit_v2", "proc", "setattr -unset init */w:*"],
    # What synthesis makes of it: two-input gates, multiplexers of bits and flip-flops, memories included.
    "gates": ["proc", "synth -flatten"],
}

_FUNCTION = re.compile(r"^ *function (?:\[\d+:0\] )?\\(\$\S+) ;", re.MULTILINE)
_ESCAPED = re.compile(r"\\(\$\S+)")
_INIT_LINE = re.compile(r"^( *)(\S+ ?)\[(\d+)\] = (\d+'[hb]\w+);$")


def component_ports(component: Component) -> Iterator[tuple[str, bool, Value]]:
    """Yields (name, is_output, value) of each port of a component under its Verilog name, without clock and reset.

    Members without bits, and constant ``ready`` or ``valid`` of streams, are no ports.
    """
    for path, member, value in component.signature.flatten(component):
        value = Value.cast(value)
        if len(value) and not isinstance(value, Const):
            yield "__".join(map(str, path)), member.flow == Out, value


def emit_rtlil(component: Component, name: str = "top") -> list[str]:
    """RTLIL texts of a component, to be read together; the first text holds module ``name``."""
    return convert_with_types(component, name)


def emit_verilog(component: Component, name: str = "top", variant: str = "rtl", changes: Iterable[str] = ()) -> str:
    """Verilog text of a component.

    Ports are the members of its signature, flattened (``i__payload``, ``taps__0``), and ``clk`` and ``rst``. The text depends only on
    component, ``name``, ``variant``, ``changes`` and the version of Yosys.

    Parameters
    ----------
    component : wiring.Component
        Component, not elaborated yet.
    name : str
        Name of the top module.
    variant : str
        ``"rtl"``; ``"xprop"``: without initial values, so that registers and memories start unknown; ``"gates"``: synthesised to gates
        and flip-flops, for small units.
    changes : iterable of str
        Yosys commands that change the design before it is written, for example to insert faults.

    Raises
    ------
    ValueError
        When the variant does not exist.
    YosysError
        When Yosys rejects the design.
    """
    if variant not in VARIANTS:
        raise UsageError(f"variant must be one of {', '.join(VARIANTS)}, not {variant!r}")
    commands = ["setattr -mod -unset top", f"hierarchy -check -top {name}", *VARIANTS[variant], *changes, *_WRITE]
    text = run_yosys(emit_rtlil(component, name), commands, outputs=["top.v"], timeout_s=_TIMEOUT_S)["top.v"]
    return _fold_memory_init(_rename_functions(text))


def _rename_functions(text: str) -> str:
    """Renames the functions of multiplexers: Yosys names begin with a dollar, which Icarus reserves for system functions."""
    functions = set(_FUNCTION.findall(text))
    return _ESCAPED.sub(lambda match: f"\\function{match[1]}" if match[1] in functions else match[0], text)


def _fold_memory_init(text: str) -> str:
    """Folds runs of equal initial values of memory rows into loops; large memories would consist mostly of such lines."""
    result = []
    run = None          # [indent, memory, first row, next row, value]

    def flush():
        if run is None:
            return
        indent, memory, first, after, value = run
        if after - first < 4:
            result.extend(f"{indent}{memory}[{row}] = {value};" for row in range(first, after))
            return
        block = f"memory_init_{len(result)}"
        row = f"{block}_row"
        result.extend([
            f"{indent}begin : {block}",
            f"{indent}  integer {row};",
            f"{indent}  for ({row} = {first}; {row} < {after}; {row} = {row} + 1) {memory}[{row}] = {value};",
            f"{indent}end"])

    for line in text.splitlines():
        match = _INIT_LINE.match(line)
        if match and run and [match[1], match[2], int(match[3]), match[4]] == [run[0], run[1], run[3], run[4]]:
            run[3] += 1
            continue
        flush()
        run = [match[1], match[2], int(match[3]), int(match[3]) + 1, match[4]] if match else None
        if not match:
            result.append(line)
    flush()
    return "\n".join(result) + "\n"
