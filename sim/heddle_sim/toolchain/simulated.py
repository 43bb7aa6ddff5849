"""Verilog of a design for simulators: the design as it is emitted, where only its ports are looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component

__all__ = ["YOSYS_COMMANDS", "simulated_verilog"]

# Constants are folded, equal cells become one, signals that are other names of a port or a register go. Verilator takes half the time
# for such a text, and Icarus runs twice as fast.
YOSYS_COMMANDS = ("opt_expr", "opt_merge", "opt_clean -purge")


def simulated_verilog(component: Component, name: str, *, every_signal: bool = False, variant: str = "rtl") -> str:
    """Verilog text of a component for a simulation; with ``every_signal``, and of other variants than ``"rtl"``, the one that is emitted.

    Parameters are those of ``emit_verilog``.
    """
    from heddle.emit import emit_verilog

    return emit_verilog(component, name, variant, () if every_signal or variant != "rtl" else YOSYS_COMMANDS)
