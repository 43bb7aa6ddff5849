"""The site: its generated pages and register files are complete; it builds without a warning, and a browser opens every page of it."""

import contextlib
import fcntl
import functools
import http.server
import re
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from amaranth.sim import Simulator
from heddle import load_config
from heddle.config import GROUPS
from heddle.control.control_registers import ControlRegisters
from heddle.isa.error_codes import ErrorCode
from heddle.isa.register_map import FIELDS, REGISTERS, counter_addresses, reset_value
from heddle.units import make_unit
from heddle_sim.cli.figures import load_figures
from heddle_sim.cli.generate import port_list
from heddle_sim.cli.main import VERBS
from heddle_sim.docgen.c_header import c_header
from heddle_sim.docgen.command_page import command_page
from heddle_sim.docgen.configuration_page import configuration_page
from heddle_sim.docgen.docstrings import sections
from heddle_sim.docgen.result_page import result_page
from heddle_sim.docgen.systemrdl import systemrdl

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build/docs/html"
GUIDE = (ROOT / "docs/guide-soc.md").read_text()
BROWSER = shutil.which("chromium")


def block(language):
    return re.search(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)[1]


def test_reset_values():
    """Every register that can be read has after reset what the table says."""
    cfg = load_config("tiny")
    unit, found = ControlRegisters(cfg), {}

    async def read(ctx):
        for name, (address, access, _) in REGISTERS.items():
            ctx.set(unit.access.read_address, address)
            await ctx.tick()
            if access != "wo":
                found[name] = ctx.get(unit.access.read_data)

    sim = Simulator(unit)
    sim.add_clock(1e-6)
    sim.add_testbench(read)
    sim.run()
    assert found == {name: getattr(cfg, name) if reset_value(name) is None else reset_value(name) for name in found}
    assert len(found) > 15


def test_fields():
    for register, fields in FIELDS.items():
        assert register in REGISTERS
        assert len({bit for bit, *_ in fields.values()}) == len(fields)


def test_c_header(tmp_path):
    """The header and the example of the guide compile; the header has every register, counter and error."""
    (tmp_path / "heddle.h").write_text(c_header())
    (tmp_path / "host.c").write_text(block("c"))
    subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "host.c"], cwd=tmp_path, check=True)
    defined = dict(re.findall(r"#define HEDDLE_(\w+)\s+0x(\w+)u", c_header()))
    assert {name.upper(): f"{address:03x}" for name, (address, *_) in REGISTERS.items()}.items() <= defined.items()
    assert {f"COUNTER_{name.upper()}" for name in counter_addresses()} | {f"ERROR_{code.name}" for code in ErrorCode} <= set(defined)


def test_systemrdl_has_every_register():
    text = systemrdl()
    for name, address in {**{name: row[0] for name, row in REGISTERS.items()},
                          **{f"counter_{name}": address for name, address in counter_addresses().items()}}.items():
        assert f"}} {name} @ {address:#05x};" in text


def test_ports_of_the_instantiation():
    """The example of the guide connects every port of ``small``, each to a wire of its width."""
    text = block("verilog")
    widths = {}
    for width, names in re.findall(r"^    wire\s+(?:\[(\d+):0\])?\s*([\w, ]+);", text, re.MULTILINE):
        widths |= {name.strip(): int(width or 0) + 1 for name in names.split(",")}
    widths |= {"clk": 1, "rst": 1, "interrupt": 1}
    connected = dict(re.findall(r"\.(\w+)\(([^)]*)\)", text))
    ports = {port["name"]: port["width"] for port in port_list(make_unit("heddle", load_config("small")))}
    assert {name: 3 if wire == "3'b000" else widths[wire] for name, wire in connected.items()} == ports


def test_generated_pages():
    commands, parameters, results = command_page(), configuration_page(), result_page()
    assert all(f"\n## heddle {verb}\n" in commands for verb in VERBS)
    assert all(f"\n## `[{table}]`\n" in parameters for table in GROUPS)
    assert all(f"| `{name}` |" in parameters for name in ("threads", "dot", "l2_kib", "sparse", "front_end_slices"))
    shown = {}
    for command in load_figures():
        shown.setdefault(command.command, set()).update(figure.shown for figure in command.figures if figure.shown)
    for command, texts in shown.items():
        assert f"heddle {command}" in results
        assert not texts or any(text in results for text in texts), command


def test_docstrings():
    """Labels begin sections and paragraphs, tables become lists."""
    lines = ["First.", "", "*Ports*:", "i : In(1)", "    In.", "*Latency*: 1.", "*Reset*: none.", "", "| a | b |", "|---|---|", "| 1 | 2 |"]
    sections(lines)
    text = "\n".join(lines)
    assert "Ports\n-----\ni : In(1)" in text and "*Latency*: 1.\n\n*Reset*" in text
    prose = ["Parameters", "----------", "a, b : int", "    Numbers.", "", "Returns nothing."]
    sections(prose)
    assert prose[3:7] == ["    Numbers.", "", "", "Returns nothing."]
    drawing = ["First.", "", " a ─> b", "", "Last."]
    sections(drawing)
    assert drawing[:5] == ["First.", "", "::", "", "     a ─> b"]
    assert ".. list-table::" in text and "   * - 1\n     - 2" in text


def build(*options):
    pytest.importorskip("sphinx", reason="the extra docs is not installed")
    return subprocess.run([sys.executable, "-m", "heddle_sim.docgen.site", *options], capture_output=True, text=True)


@pytest.fixture(scope="module")
def site():
    """The site; another process that wants it waits until the tests of this one are over, and builds it again."""
    lock = ROOT / "build/docs.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = build()
        assert done.returncode == 0, done.stderr
        assert (SITE / "index.html").is_file()
        yield SITE


@pytest.mark.nightly
def test_site_builds_without_a_warning(site):
    pages = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    assert {"index.html", "requirements.html", "api/heddle_sim.html", "units/tmau.html", "results.html", "configuration.html"} <= pages
    assert {path.name for path in (site / "registers").iterdir()} == {"heddle.h", "heddle.rdl", "heddle.xml"}
    page = (site / "registers.html").read_text()
    assert all(f'href="registers/{path.name}"' in page for path in (site / "registers").iterdir())


@contextlib.contextmanager
def served(folder, missing):
    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

        def send_error(self, code, *arguments):
            missing.append(self.path)
            super().send_error(code, *arguments)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.nightly
@pytest.mark.skipif(not BROWSER, reason="chromium is not installed")
def test_browser_opens_every_page(site, tmp_path):
    """No message on the console, nothing that is asked for is missing."""
    missing, said = [], []
    with served(site, missing) as place:
        for page in sorted(site.rglob("*.html")):
            name = page.relative_to(site).as_posix()
            options = [f"--user-data-dir={tmp_path}", "--virtual-time-budget=3000", "--dump-dom", f"{place}/{name}"]
            done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", *options],
                                  capture_output=True, text=True, timeout=120)
            assert "</html>" in done.stdout, name
            said += [f"{name}: {line}" for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not said
    assert not [path for path in missing if path != "/favicon.ico"]


@pytest.mark.nightly
@pytest.mark.soak
@pytest.mark.once
def test_links_that_leave_the_site():
    try:
        socket.getaddrinfo("keepachangelog.com", 443)
    except OSError:
        pytest.skip("no network")
    done = build("--links")
    assert done.returncode == 0, done.stdout + done.stderr
