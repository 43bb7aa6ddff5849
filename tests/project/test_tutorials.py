"""Blocks of tutorials and guides run as they stand: Python in one session a page, shell commands in one folder a page, in order.

Files of the repository are there by the names that they have from its root. Blocks behind the line ``<!-- night -->`` build hardware or
take long; they run at night.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(path.name for kind in ("tutorial", "guide") for path in (ROOT / "docs").glob(f"{kind}-*.md"))
BLOCK = re.compile(r"^(<!-- night -->\n)?```(python|bash)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NIGHT = [page for page in PAGES if "<!-- night -->" in (ROOT / "docs" / page).read_text()]


def blocks(page):
    return [(bool(night), kind, text) for night, kind, text in BLOCK.findall((ROOT / "docs" / page).read_text()) if ">>> " not in text]


def run_page(page, folder, monkeypatch, night):
    for name in ("configs", "examples", "hdl", "sim", "verif", "tests", "docs", "Makefile", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    monkeypatch.chdir(folder)
    search = os.pathsep.join(str(ROOT / package) for package in ("hdl", "sim", "verif"))
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": search}
    names = {"__name__": "page"}
    for late, kind, text in blocks(page):
        if late and not night:
            continue
        if kind == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(text, page, "exec"), names)
        else:
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=folder, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, f"{page}:\n{text}\n{done.stderr}"


def test_there_are_pages():
    assert len(PAGES) >= 10 and NIGHT


@pytest.mark.parametrize("page", PAGES)
def test_blocks_run(page, tmp_path, monkeypatch):
    run_page(page, tmp_path, monkeypatch, night=False)


@pytest.mark.nightly
@pytest.mark.parametrize("page", NIGHT)
def test_all_blocks_run(page, tmp_path, monkeypatch):
    run_page(page, tmp_path, monkeypatch, night=True)
