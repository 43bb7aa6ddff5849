"""Check the installation: what is there, what is missing, what to do about it."""

import argparse
import importlib.metadata
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from ..toolchain.build_cache import build_directory
from ..toolchain.programs import ToolError, find, verilator_root
from .common import CommandFailed, add_json, print_json

__all__ = ["add_arguments", "execute", "examine"]

PROGRAMS = ("g++", "make", "perl", "iverilog", "vvp")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json(parser)


def examine() -> list[dict[str, Any]]:
    """Rows with ``name``, ``ok``, ``found`` and ``remedy``."""
    version = sys.version.split()[0]
    rows = [_row("python", sys.version_info >= (3, 11), version, "install Python 3.11 or newer")]
    for tool in map(find, PROGRAMS):
        rows.append(_row(tool.name, tool.ok, tool.version or "missing", f"{tool.remedy} ({tool.purpose})"))
    for name, wanted in _pins():
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found = "missing"
        rows.append(_row(name, found == wanted, found, f"needs {wanted}; run make setup"))
    rows += [_verilator(), _folder()]
    return rows


def _row(name: str, ok: bool, found: str, remedy: str) -> dict[str, Any]:
    return {"name": name, "ok": bool(ok), "found": found, "remedy": "" if ok else remedy}


def _pins() -> Iterator[tuple[str, str]]:
    """Packages that the device and the tests need, as the installed project names them; those of proofs, demo and site are extras."""
    for text in importlib.metadata.requires("heddle-hdl") or ():
        match = re.match(r"([\w.-]+)==([\w.]+)(?:\s*;\s*(.*))?$", text)
        if match and not re.search("formal|demo|docs", match[3] or ""):
            yield match[1], match[2]


def _verilator() -> dict[str, Any]:
    try:
        root = verilator_root()
        said = subprocess.run(
            [root / "bin" / "verilator_bin", "--version"],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "VERILATOR_ROOT": str(root)},
            check=True,
        ).stdout.split()
        return _row("verilator runs", True, " ".join(said[:2]), "")
    except (ToolError, OSError, subprocess.SubprocessError) as error:
        return _row("verilator runs", False, str(error), "run make setup")


def _folder() -> dict[str, Any]:
    folder = build_directory()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    return _row("build folder", writable, str(folder), "make the folder writable, or name another one in HEDDLE_BUILD")


def execute(options: argparse.Namespace) -> None:
    rows = examine()
    missing = [row for row in rows if not row["ok"]]
    if options.json:
        print_json("doctor", None, rows)
    else:
        for row in rows:
            print(
                f"{'ok  ' if row['ok'] else 'FAIL'}  {row['name']:<20} {row['found']}"
                + (f"  -> {row['remedy']}" if row["remedy"] else "")
            )
    if missing:
        raise CommandFailed("; ".join(f"{row['name']}: {row['remedy']}" for row in missing))
