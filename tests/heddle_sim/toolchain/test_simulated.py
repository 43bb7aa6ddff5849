"""Verilog for simulators: the same ports, fewer names inside."""

import re

import pytest
from heddle import load_config
from heddle.emit import emit_verilog
from heddle.lib.stream import Queue
from heddle.memory.barriers import Barriers
from heddle_sim.toolchain.simulated import simulated_verilog


def signals(text):
    """Ports and wires of the modules of a text, as their declarations say."""
    return [set(re.findall(rf"^ +{kind} (?:signed )?(?:\[\d+:\d+\] )?(\S+) ?;", text, re.MULTILINE))
            for kind in ("(?:input|output)", "wire")]


@pytest.mark.parametrize("make", [lambda: Queue(8, 9), lambda: Barriers(load_config("tiny"))])
def test_ports_stay(make):
    (ports, wires), (all_ports, all_wires) = map(signals, (simulated_verilog(make(), "unit"), emit_verilog(make(), "unit")))
    assert ports and ports <= all_ports and len(wires) < len(all_wires)


@pytest.mark.parametrize("options", [{"every_signal": True}, {"variant": "xprop"}, {"variant": "gates"}])
def test_what_is_emitted(options):
    assert simulated_verilog(Queue(8, 9), "unit", **options) == emit_verilog(Queue(8, 9), "unit", options.get("variant", "rtl"))
