"""Whether a mutant leaves the module that it lies in as it is: a proof that is small also where the unit is large."""

import re
import tempfile
from pathlib import Path

from heddle.yosys import YosysError

from ..formal.prove import decide_design
from .mutants import SELECT

__all__ = ["equal_module"]

# A cell is divided into what is read of it and what is not, and the latter goes.
_PREPARE = ["flatten", "opt_dff", "splitcells", "opt_clean -purge", "memory_map", "dffunmap", "opt_clean -purge",
            "expose -evert-dff -dff -sep @"]


def equal_module(texts, command, limit_s=20):
    """Whether the module that a mutant breaks, with its submodules, was found equal to that of the unit in every cycle by itself.

    Its outputs, and what registers that are read take next, are equal. Registers and inputs may hold anything, also what the rest of the
    unit never gives.
    """
    module = re.search(r" -module (\S+)", command)[1]
    start = [f"hierarchy -check -top {module}", "proc", "opt_clean"]
    command = re.sub(rf"-ctrl {SELECT} \d+ \d+", "", command)
    designs = [[*start, *change, *_PREPARE, f"rename -top {name}", f"design -stash {name}", "design -load unit"]
               for name, change in (("gold", []), ("gate", [command]))]
    commands = ["setattr -mod -unset top", "design -save unit", *designs[0], *designs[1], "design -copy-from gold -as gold gold",
                "design -copy-from gate -as gate gate", "miter -equiv -make_assert -flatten gold gate top", "hierarchy -check -top top"]
    with tempfile.TemporaryDirectory(prefix="heddle-mutant-") as directory:
        try:
            return bool(decide_design(texts, commands, Path(directory), limit_s)[0])
        except YosysError:      # a register has another name
            return False
