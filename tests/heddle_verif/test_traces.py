"""Comparison of two devices by all their pins."""

import pytest
from heddle import load_config
from heddle.emit import emit_verilog
from heddle.top import Top
from heddle_sim.backends.verilator_build import device_verilog, simulated_device
from heddle_verif import traces

TINY = load_config("tiny")


def test_equal_text_is_not_built(monkeypatch):
    monkeypatch.setattr(traces, "device_verilog", lambda cfg: "text")
    monkeypatch.setattr(traces, "other_verilog", lambda tree, name: "text")
    assert traces.compare("tree", "tiny", 5, 1) == {"config": "tiny", "verilog": "equal", "programs": 0, "cycles": 0, "equal": True}


@pytest.mark.nightly
def test_another_device_is_found(monkeypatch):
    """A register slice more: the same results, later."""
    monkeypatch.setattr(traces, "other_verilog", lambda tree, name: emit_verilog(Top(TINY.replace(front_end_slices=1)), "heddle"))
    row = traces.compare("tree", "tiny", 3, 1)
    assert (row["verilog"], row["programs"], row["equal"]) == ("differs", 3, False) and row["cycles"] > 0


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["tiny", "small"])
def test_simulators_get_the_same_device(name):
    """The emitted text, and the one for simulations that look at the ports only."""
    cfg = load_config(name)
    assert traces.pins(cfg, device_verilog(cfg), 40, 7) == traces.pins(cfg, simulated_device(cfg), 40, 7)
