"""Lint of emitted Verilog."""

import os
import subprocess
import tempfile
from pathlib import Path

import heddle
from amaranth.lib import wiring
from heddle.emit import emit_verilog

from .programs import verilator_root

__all__ = ["WAIVERS", "lint", "lint_verilog"]

WAIVERS = Path(heddle.__file__).resolve().parents[2] / "constraints" / "verilator.vlt"


def lint(component: wiring.Component, name: str = "top", timeout_s: float = 300) -> list[str]:
    """Warnings of ``verilator --lint-only -Wall`` for a component, less the waivers; an empty list is clean."""
    return lint_verilog(emit_verilog(component, name=name), name, timeout_s)


def lint_verilog(text: str, name: str = "top", timeout_s: float = 300) -> list[str]:
    """Like ``lint``, for Verilog text with top module ``name``."""
    root = verilator_root()
    with tempfile.TemporaryDirectory(prefix="heddle-lint-") as directory:
        source = Path(directory) / f"{name}.v"
        source.write_text(text)
        command = [root / "bin" / "verilator_bin", "--lint-only", "-Wall", "-Wno-fatal", "--top-module", name, WAIVERS, source.name]
        result = subprocess.run([str(part) for part in command], cwd=directory, capture_output=True, text=True,
                                stdin=subprocess.DEVNULL, timeout=timeout_s, env={**os.environ, "VERILATOR_ROOT": str(root)})
    lines = (result.stdout + result.stderr).splitlines()
    found = [line for line in lines if line.startswith(("%Warning", "%Error"))]
    return found or ([f"verilator ended with status {result.returncode}"] if result.returncode else [])
