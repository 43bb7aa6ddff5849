"""Blocks of tutorials and guides run as they stand: Python in one session a page, shell commands in one folder a page, in order.

Files of the repository are there by the names that they have from its root. Blocks behind the line ``<!-- night -->`` build hardware or
take long; they run at night. Blocks behind ``<!-- not run: REASON -->`` are never run.

At night the pages are also followed literally: the page of the installation makes a fresh clone with an environment of its own, and every
block of a page is typed there, in one shell and one session of Python. Outputs that a page shows are compared. Pages that build hardware
take half an hour together, as the clone begins without a build; ``make soak`` follows these.
"""

import contextlib
import io
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(path.name for kind in ("tutorial", "guide") for path in (ROOT / "docs").glob(f"{kind}-*.md"))
BLOCK = re.compile(r"^(?:<!-- (night|not run: [^\n]+) -->\n)?```(python|bash|)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NIGHT = [page for page in PAGES if "<!-- night -->" in (ROOT / "docs" / page).read_text()]
SOAK = (pytest.mark.soak, pytest.mark.once)
ADDRESS = "URL-OF-THE-REPOSITORY"
SHELL = ["bash", "--norc"]
ENDED = "the block ended with"
SESSION = f"""
import doctest, pathlib, sys, traceback
names = {{"__name__": "page"}}
for path in sys.stdin:
    text, status = pathlib.Path(path.strip()).read_text(), 0
    try:
        if ">>> " in text:
            test = doctest.DocTestParser().get_doctest(text, names, path, path, 0)
            status = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, clear_globs=False).failed
            names.update(test.globs)
        else:
            exec(compile(text, path, "exec"), names)
    except BaseException:
        traceback.print_exc()
        status = 1
    print("\\n{ENDED}", status, flush=True)
"""


def blocks(page):
    """Mark, kind and text of the blocks that a reader types; those of no kind show a command behind a prompt, and its output."""
    return [block for block in BLOCK.findall((ROOT / "docs" / page).read_text()) if block[1] or block[2].startswith("$ ")]


def run_page(page, folder, monkeypatch, night):
    for name in ("configs", "examples", "hdl", "sim", "verif", "tests", "docs", "Makefile", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    monkeypatch.chdir(folder)
    search = os.pathsep.join(str(ROOT / package) for package in ("hdl", "sim", "verif"))
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": search}
    names = {"__name__": "page"}
    for mark, kind, text in blocks(page):
        if mark.startswith("not run") or (mark and not night) or ">>> " in text or not kind:      # prompts: test_pages.py
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


class Typed:
    """A shell or a session of Python, to which blocks are given one after the other, as files."""

    def __init__(self, command, folder, environment, notes):
        self.notes = notes
        notes.mkdir()
        self.said = (notes / "stderr").open("w+")
        self.process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.said, text=True)

    def type(self, text, line):
        """Standard output of a block; fails unless its exit status is 0. ``line`` makes the line that is sent of the path of the file."""
        path = self.notes / "block"
        path.write_text(text)
        self.process.stdin.write(line(path) + "\n")
        self.process.stdin.flush()
        output, status = "", None
        for said in self.process.stdout:
            if said.startswith(ENDED):
                status = int(said.split()[-1])
                break
            output += said
        assert status == 0, f"exit status {status or self.process.wait()}:\n{text}\n{output[-4000:]}\n{self.errors()[-4000:]}"
        return output.removesuffix("\n")

    def errors(self):
        self.said.seek(0)
        return self.said.read()

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(60)
        self.said.close()


def in_shell(path):
    return f"source {path} </dev/null; echo; echo {ENDED} $?"


def outside():
    """The environment of a reader: nothing of this process's environment, its tests or its make."""
    foreign = ("HEDDLE", "PYTEST", "PYTHON", "COCOTB", "MAKE", "MFLAGS", "VIRTUAL_ENV")
    paths = [path for path in os.environ["PATH"].split(os.pathsep) if Path(path) != Path(sys.prefix) / "bin"]
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)} | {"PATH": os.pathsep.join(paths)}


def connected():
    with contextlib.suppress(OSError):
        return bool(socket.getaddrinfo("pypi.org", 443))
    return False


@pytest.fixture(scope="module")
def fresh_clone(tmp_path_factory):
    """A clone and its environment, made by the blocks of the page of the installation."""
    if not (ROOT / ".git").exists() or not connected():
        pytest.skip("the checkout is no clone, or there is no network for the packages")
    folder = tmp_path_factory.mktemp("fresh")
    steps = [text for _, kind, text in blocks("install.md") if kind == "bash"]
    assert ADDRESS in steps[0] and "make setup" in steps[0]
    with Typed(SHELL, folder, outside(), folder / "notes") as shell:
        for text in steps:
            shell.type("set -eo pipefail\n" + text.replace(ADDRESS, str(ROOT)), in_shell)
        assert shell.type("command -v heddle", in_shell).strip() == str(folder / "heddle/.venv/bin/heddle")
    return folder / "heddle"


def test_reasons():
    marks = [mark for page in PAGES for mark, _, _ in blocks(page) if mark]
    assert all(mark == "night" or len(mark.split()) >= 5 for mark in marks)
    assert any(mark != "night" for mark in marks)


def test_what_is_typed_fails(tmp_path):
    """Shell and session keep what earlier blocks set; an exit status other than 0 and an unequal output fail."""
    with Typed(SHELL, tmp_path, outside(), tmp_path / "shell") as shell:
        shell.type("set -eo pipefail\nvalue=3", in_shell)
        assert shell.type("echo $value", in_shell) == "3\n"
        with pytest.raises(AssertionError, match="exit status 1"):
            shell.type("echo first\nfalse\necho second", in_shell)
    with Typed([sys.executable, "-c", SESSION], tmp_path, outside(), tmp_path / "session") as session:
        session.type("value = 4", str)
        assert session.type("print(value)", str) == "4\n"
        session.type(">>> value + 1\n5\n", str)
        for wrong in ("assert value == 5", ">>> value\n5\n", "raise SystemExit(1)"):
            with pytest.raises(AssertionError, match="exit status 1"):
                session.type(wrong, str)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("page", [pytest.param(page, marks=SOAK if page in NIGHT else ()) for page in PAGES])
def test_followed_literally(page, fresh_clone, tmp_path):
    """Every block of a page in order, but for those that are marked with a reason why not."""
    environment = outside() | {"PATH": f"{fresh_clone}/.venv/bin{os.pathsep}{outside()['PATH']}"}
    with (Typed(SHELL, fresh_clone, outside(), tmp_path / "shell") as shell,
          Typed([str(fresh_clone / ".venv/bin/python"), "-c", SESSION], fresh_clone, environment, tmp_path / "session") as session):
        shell.type("set -eo pipefail\nsource .venv/bin/activate", in_shell)
        for mark, kind, text in blocks(page):
            if mark.startswith("not run"):
                continue
            if kind == "python":
                session.type(text, str)
            elif kind == "bash":
                shell.type(text, in_shell)
            else:
                command, output = text.removeprefix("$ ").split("\n", 1)
                assert shell.type(command, in_shell) == output, f"{page}: $ {command}"
