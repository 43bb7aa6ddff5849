"""Broken versions of a unit in one Verilog text, selected when the simulation starts; and whether one is really different."""

import re
import tempfile
import threading
from functools import cache
from pathlib import Path
from unittest import mock

from amaranth.back import rtlil
from heddle.emit import emit_rtlil, emit_verilog
from heddle.yosys import YosysError, run_yosys

from ..formal.prove import decide_design

__all__ = ["SELECT", "describe", "differs", "equal_registers", "make_mutants", "unit_texts"]

_TOP = "mutated"
_ONE_AT_A_TIME = threading.Lock()       # to patch what writes RTLIL
SELECT = "mut_sel"      # 0 selects the unit as it is
_START = ["setattr -mod -unset top", f"hierarchy -check -top {_TOP}", "proc", "opt_clean"]


def unit_texts(component):
    """RTLIL of a unit with the place in the source of each cell, which the mutants inherit."""
    with _ONE_AT_A_TIME, _sources():
        return tuple(emit_rtlil(component, _TOP))


def _sources():
    convert = rtlil.convert
    return mock.patch("heddle.lib.shared_module.rtlil.convert",
                      lambda *arguments, **options: convert(*arguments, **options | {"emit_src": True}))


def make_mutants(make, count, seed=1, modules="*"):
    """Mutants of the component that ``make()`` returns.

    ``modules`` are patterns of the names of the modules that are broken, with spaces between. Returns the Yosys command of each mutant
    (number 1 on), a Verilog text with module ``dut``, whose plusarg ``mut_sel=<number>`` breaks one cell, and the ``unit_texts``.
    """
    texts = unit_texts(make())
    width = count.bit_length()
    listed = run_yosys(texts, [*_START, f"mutate -list {count} -seed {seed} -ctrl {SELECT} {width} 1 -o mutants.txt "
                                      f"{modules} t:$meminit_v2 %d"],
                       outputs=["mutants.txt"])["mutants.txt"]
    commands = [line for line in listed.splitlines() if line.startswith("mutate ") and SELECT in line]
    # What is broken at the output of a register takes its first value away, which nothing else sets without a reset.
    with _ONE_AT_A_TIME, _sources():
        text = emit_verilog(make(), _TOP, changes=["opt_clean", *commands, "zinit -all"])
    return commands, text + _wrapper(text, width), texts


def _wrapper(text, width):
    """Module ``dut``: the ports of the unit, the selection from the command line."""
    start = re.search(r"^module mutated\(", text, re.MULTILINE).start()
    body = text[start:text.index("\nendmodule", start)]
    ports = [match for match in re.findall(r"^  (input|output) (?:signed )?(\[\d+:\d+\] )?(\\\S+ |\w+) *;", body, re.MULTILINE)
             if match[2] != SELECT]
    names = ", ".join(name for _, _, name in ports)
    declarations = "\n".join(f"  {direction} {size}{name};" for direction, size, name in ports)
    links = ", ".join(f".{name}({name})" for _, _, name in ports)
    return f"""
module dut({names});
{declarations}
  reg [{width - 1}:0] selected;
  initial if (!$value$plusargs("{SELECT}=%d", selected)) selected = 0;
  mutated unit({links}, .{SELECT}(selected));
endmodule
"""


def equal_registers(texts, command, limit_s=20):
    """Whether a mutant was found equal to the unit without following it through time.

    It breaks what nothing reads, or outputs and what registers take next are equal with whatever the registers hold. Inputs are free, also
    where the protocol of the unit forbids them.
    """
    command = _plain(command)
    return _unit_parts(texts) == _parts(texts, [command]) or bool(
        _equal(texts, command, ["memory_map", "dffunmap", "opt_clean", "expose -evert-dff -sep @"], limit_s))


def differs(texts, command, limit_s=60):
    """Whether a mutant differs from the unit at an output for some sequence of inputs; None when that was not decided."""
    equal = _equal(texts, _plain(command), [], limit_s)
    return None if equal is None else not equal


def _plain(command):
    """A mutant that is always there."""
    return re.sub(rf"-ctrl {SELECT} \d+ \d+", "", command)


def _equal(texts, command, prepare, limit_s):
    """Whether the flat unit and the mutant, both prepared by commands, have equal outputs; None when not decided."""
    prepare = ["flatten", *prepare]
    commands = [*_START, "design -save start", *prepare, f"rename {_TOP} gold", "design -stash gold", "design -load start", command,
                *prepare, f"rename {_TOP} gate", "design -stash gate", "design -copy-from gold -as gold gold",
                "design -copy-from gate -as gate gate", "miter -equiv -make_assert -flatten gold gate top", "hierarchy -check -top top"]
    with tempfile.TemporaryDirectory(prefix="heddle-mutant-") as directory:
        try:
            return decide_design(texts, commands, Path(directory), limit_s)[0]
        except YosysError:      # a register has another name
            return None


@cache
def _unit_parts(texts):
    return _parts(texts, [])


def _parts(texts, commands):
    """Cells and wires of the flat unit that lead to an output, in an order of their own."""
    text = run_yosys(texts, [*_START, *commands, "flatten", "opt_clean -purge", "write_rtlil flat.il"], outputs=["flat.il"])["flat.il"]
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("attribute ", "autoidx ", "#"))]
    return sorted(re.findall(r"^  (?:cell .*?^  end$|\S.*?$)", "\n".join(lines), re.MULTILINE | re.DOTALL))


def describe(command):
    """What a mutant breaks: place in the source, module in the unit, cell port."""
    def option(name):
        match = re.search(rf" -{name} (\S+)", command)
        return match[1] if match else ""
    sources = [source for source in re.findall(r"-src (\S+)", command) if "/hdl/heddle/" in source]
    module = option("module").removeprefix("mutated").lstrip(".")
    source = re.sub(r".*/(hdl/heddle/)", r"\1", sources[-1]) if sources else f"cell {option('cell')}"
    place = " in ".join(part for part in (source, module) if part)
    wire = f" wire {option('wire')}[{option('wirebit')}]" if option("wire") else ""
    return f"{place}: {option('mode')} port {option('port')}[{option('portbit')}]{wire}"
