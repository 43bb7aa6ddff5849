"""The emitter: stable text, ports, modules elaborated once, variants, lint."""

import dataclasses
import hashlib
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from amaranth.hdl import Module, Signal, signed
from amaranth.lib import data, stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out, Signature
from amaranth.sim import Simulator
from heddle import ConfigError, load_config
from heddle.config import preset_names
from heddle.emit import emit_verilog
from heddle.lib.shared_module import SharedModule
from heddle.lib.stream import Queue, link
from heddle.tmau.request_check import RequestCheck
from heddle.units import CHANGES, FORMER, make_unit, unit_config, unit_names
from heddle.yosys import YosysError, run_yosys
from heddle_sim.backends.verilator_build import device_verilog
from heddle_sim.toolchain.cocotb_runner import run_bench
from heddle_sim.toolchain.lint import lint, lint_verilog

PAYLOAD = data.StructLayout({"value": 8, "tag": 4})
LANES = 4


class Adder(Component):
    """Registered sum of two numbers."""

    def __init__(self, width):
        self.width = width
        super().__init__({"terms": In(signed(width)).array(2), "sum": Out(signed(width + 1))})

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.sum.eq(self.terms[0] + self.terms[1])
        return m


class Lane(Component):
    """A queue and an adder, each elaborated once; ports of every kind."""

    def __init__(self):
        super().__init__({
            "i": In(stream.Signature(PAYLOAD)), "o": Out(stream.Signature(PAYLOAD)), "event": Out(stream.Signature(2, always_ready=True)),
            "port": In(Signature({"address": Out(signed(8)).array(2), "data": In(12)})), "unused": In(3),
        })

    def elaborate(self, platform):
        m = Module()
        queue = SharedModule("lane_queue", Queue, PAYLOAD, 4).instantiate(m, "queue")
        adder = SharedModule("adder", Adder, 8).instantiate(m, "adder")
        link(m, self.i, queue.i)
        link(m, queue.o, self.o)
        m.d.comb += [adder.terms[0].eq(self.port.address[0]), adder.terms[1].eq(self.port.address[1]), self.port.data.eq(adder.sum),
                     self.event.valid.eq(queue.o.valid)]
        return m


class Lanes(Component):
    """Lanes in a chain, and the sums of their numbers."""

    def __init__(self):
        super().__init__({"i": In(stream.Signature(PAYLOAD)), "o": Out(stream.Signature(PAYLOAD)),
                          "numbers": In(signed(8)).array(LANES, 2), "sums": Out(signed(12)).array(LANES)})

    def elaborate(self, platform):
        m = Module()
        source = self.i
        lane_type = SharedModule("lane", Lane)
        for index in range(LANES):
            lane = lane_type.instantiate(m, f"lane_{index}")
            link(m, source, lane.i)
            source = lane.o
            m.d.comb += [lane.port.address[0].eq(self.numbers[index][0]), lane.port.address[1].eq(self.numbers[index][1]),
                         self.sums[index].eq(lane.port.data.as_signed())]
        link(m, source, self.o)
        return m


def of_enumerations():
    return RequestCheck(load_config("tiny"))


@pytest.mark.parametrize("make", [Lanes, of_enumerations])
def test_text_is_stable(make):
    program = f"import test_emit, hashlib; print(hashlib.sha256(test_emit.emit_verilog(test_emit.{make.__name__}()).encode()).hexdigest())"
    path = os.pathsep.join([os.path.dirname(__file__), *filter(None, sys.path)])
    for hash_seed in ("1", "77"):
        said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True,
                              env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": hash_seed}).stdout
        assert said.strip() == hashlib.sha256(emit_verilog(make()).encode()).hexdigest()


DIGEST = ("import hashlib, sys; from heddle import load_config; from heddle.emit import emit_verilog; from heddle.top import Top; "
          "text = emit_verilog(Top(load_config(sys.argv[1])), name='heddle'); print(len(text), hashlib.sha256(text.encode()).hexdigest())")


@pytest.mark.nightly
@pytest.mark.parametrize("config", preset_names())
def test_text_of_a_preset_is_stable(config):
    """The whole device: the text that is simulated, and that of a process whose sets and dictionaries are in another order."""
    said = subprocess.run([sys.executable, "-c", DIGEST, config], capture_output=True, text=True, timeout=900, check=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONHASHSEED": "77"}).stdout
    text = device_verilog(load_config(config))
    assert len(text) > 100_000 and said.split() == [str(len(text)), hashlib.sha256(text.encode()).hexdigest()]


def test_modules_exist_once():
    text = emit_verilog(Lanes())
    modules = re.findall(r"^module (\S+)\(", text, re.MULTILINE)
    assert sorted(modules) == ["adder", "lane", "lane_queue", "top"]
    assert len(re.findall(r"^  lane lane_\d+ \($", text, re.MULTILINE)) == LANES


def test_ports_follow_the_signature():
    ports = set(re.search(r"^module top\(([^)]*)\)", emit_verilog(Lanes()), re.MULTILINE)[1].replace("\n", "").replace(" ", "").split(","))
    expected = {"clk", "rst"} | {f"{side}__{part}" for side in "io" for part in ("payload", "valid", "ready")}
    expected |= {f"numbers__{lane}__{number}" for lane in range(LANES) for number in range(2)} | {f"sums__{lane}" for lane in range(LANES)}
    assert ports == expected


def test_constant_members_are_no_ports():
    text = emit_verilog(Lane())
    assert "event__valid" in text
    assert "event__ready" not in text


@pytest.mark.smoke
def test_instances_work(simulator, seed):
    run_bench(Lanes(), bench="heddle_verif.bench.shared_module", simulator=simulator, seed=seed, parameters={"lanes": LANES})


def test_simulator_of_amaranth_sees_the_same():
    design = Lanes()

    async def testbench(ctx):
        ctx.set(design.numbers[2][0], -100)
        ctx.set(design.numbers[2][1], -28)
        await ctx.tick()
        assert ctx.get(design.sums[2]) == -128
        assert ctx.get(design.sums[1]) == 0

    simulator = Simulator(design)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


class Clash(Component):
    """Two components under one type name."""

    def __init__(self):
        super().__init__({"o": Out(1)})

    def elaborate(self, platform):
        m = Module()
        SharedModule("adder", Adder, 8).instantiate(m, "one")
        SharedModule("adder", Adder, 9).instantiate(m, "other")
        return m


def test_type_names_are_unique():
    with pytest.raises(ValueError, match="^type_name must belong to one class and one set of parameters, not 'adder' twice"):
        emit_verilog(Clash())
    with pytest.raises(ValueError, match="^name must differ from the type names of its instances, not 'lane'"):
        emit_verilog(Lanes(), name="lane")
    with pytest.raises(ValueError, match="^type_name must be an identifier, not 'a b'"):
        SharedModule("a b", Adder, 8)


class Storage(Component):
    """A memory of 2,000 rows with two regions of initial values."""

    def __init__(self):
        super().__init__({"row": In(11), "word": Out(8)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.rows = rows = Memory(shape=8, depth=2000, init=[3] * 10 + [1, 2])
        read = rows.read_port()
        m.d.comb += [read.addr.eq(self.row), self.word.eq(read.data)]
        return m


def test_initial_values_are_folded():
    text = emit_verilog(Storage())
    assert len(text.splitlines()) < 60
    loops = [[int(part) for part in loop] for loop in re.findall(r"_row = (\d+); \w+ < (\d+); .* = 8'h(\d+);", text)]
    assert loops == [[0, 10, 3], [12, 2000, 0]]
    assert "rows[11] = 8'h02;" in text
    assert lint_verilog(text) == []


def test_variant_without_initial_values():
    assert "initial" not in emit_verilog(Lanes(), variant="xprop")
    assert "initial" in emit_verilog(Lanes())
    with pytest.raises(ValueError, match="^variant must be one of rtl, xprop, gates, not 'fast'"):
        emit_verilog(Lanes(), variant="fast")


def test_lint_is_clean():
    assert lint(Lanes()) == []


@pytest.mark.parametrize("config", ["small", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("tiny", "small_all", "base"))])
def test_lint_of_the_device_is_clean(config):
    assert lint_verilog(device_verilog(load_config(config)), "heddle") == []


def test_lint_finds_faults():
    latch = "module top(input a, output reg y);\n  always @* if (a) y = 1'b1;\nendmodule\n"
    assert any("LATCH" in line for line in lint_verilog(latch))
    assert any("MODMISSING" in line for line in lint_verilog("module top(input a);\n  other one(.a(a));\nendmodule\n"))


def test_yosys_errors_are_reported():
    with pytest.raises(YosysError, match="No such command: nonsense"):
        run_yosys([], ["nonsense"])
    with pytest.raises(YosysError, match="must end within 0.01 s"):
        run_yosys([], ["help"], timeout_s=0.01)


def running(*command):
    """Whether a process has this command line."""
    words = [word.encode() for word in command]
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cmdline").read_bytes().split(b"\0")[:len(words)] == words:
                return True
    return False


def test_what_yosys_starts_ends_with_it():
    """A process that was killed may be seen for a moment."""
    seconds = str(600 + os.getpid() / 1e7)
    with pytest.raises(YosysError, match="must end within 3 s"):
        run_yosys([], [f"exec -- sleep {seconds}"], timeout_s=3)
    deadline = time.monotonic() + 5
    while running("sleep", seconds):
        assert time.monotonic() < deadline, "what Yosys started must end with it"
        time.sleep(0.05)


class Unknown(Component):
    """Instance of a module that does not exist."""

    def __init__(self):
        super().__init__({"o": Out(1)})

    def elaborate(self, platform):
        from amaranth.hdl import Instance
        m = Module()
        m.submodules.unknown = Instance("unknown_module", o_o=self.o, i_i=Signal())
        return m


def test_missing_modules_are_reported():
    with pytest.raises(YosysError, match="unknown_module"):
        emit_verilog(Unknown())


# -- names of units -------------------------------------------------------------------------


def test_former_names_of_units():
    assert not FORMER.keys() & set(unit_names()) and set(FORMER.values()) <= set(unit_names())
    cfg = load_config("tiny")
    for former, name in FORMER.items():
        assert type(make_unit(former, cfg)) is type(make_unit(name, cfg)), former


WITHOUT_PARAMETERS = {"alu", "performance_counters", "round_robin_arbiter", "tile_scheduler"}      # their numbers are arguments


@pytest.mark.parametrize("preset", ["small", "quad"])
@pytest.mark.parametrize("name", unit_names())
def test_configuration_of_a_unit_is_that_of_the_component(preset, name):
    """Whatever the component takes of a configuration has there the value that it works with."""
    cfg = load_config(preset)
    if name == "multicast" and preset == "small":
        with pytest.raises(ConfigError, match="^multicast must be true for unit multicast, not False$"):
            make_unit(name, cfg)
        return
    taken = {} if name in WITHOUT_PARAMETERS else dataclasses.asdict(make_unit(name, cfg).cfg)
    assert taken == {parameter: getattr(unit_config(name, cfg), parameter) for parameter in taken}
    assert name in CHANGES or unit_config(name, cfg) == cfg
