"""What the engine for recurrent networks takes on an FPGA: a further context, and its control."""

import pytest
from heddle import load_config
from heddle.datapath.pe_array import PEArray
from heddle.units import make_unit
from heddle_fpga import count_cells, count_parts

CFG = load_config("small_all")
CONTROL = ("scheduler", "progress", "jobs", "loader")       # and what is in no part: the run, and how parts are joined


def engines():
    return (make_unit("rnn", CFG.replace(rnn_contexts=contexts)) for contexts in (1, 2))


@pytest.mark.soak
@pytest.mark.once
def test_second_context():
    """At most 5 % of the engine's LUTs and flip-flops, even without what it has in the lanes [S3.6]."""
    one, two = (count_cells(engine, "ecp5") for engine in engines())
    assert all(two[kind] <= 1.05 * one[kind] for kind in ("lut", "ff")), (one, two)


@pytest.mark.soak
@pytest.mark.once
def test_second_context_by_parts():
    """The same where parts keep their borders, so that the mapping of one does not change that of others."""
    one, two = (count_parts(engine, "ecp5")[""] for engine in engines())
    assert all(two[kind] <= 1.05 * one[kind] for kind in ("lut", "ff")), (one, two)


@pytest.mark.soak
@pytest.mark.once
def test_second_context_with_the_lanes():
    """The same with what the engine has in the lanes."""
    without, lanes = (count_cells(PEArray(CFG.replace(rnn=rnn)), "ecp5") for rnn in (False, True))
    one, two = ({kind: count + lanes[kind] - without[kind] for kind, count in count_cells(engine, "ecp5").items()} for engine in engines())
    assert all(two[kind] <= 1.05 * one[kind] for kind in ("lut", "ff")), (one, two)


@pytest.mark.soak
@pytest.mark.once
@pytest.mark.parametrize("tap_registers", [16, 64])
def test_control(tap_registers):
    """Less than 10 % of the LUTs of the engine with what it adds to the lanes."""
    cfg = CFG.replace(rnn_tap_registers=tap_registers)
    parts = {path: counts["lut"] for path, counts in count_parts(make_unit("rnn", cfg), "ecp5").items()}
    without, lanes = (count_cells(PEArray(cfg.replace(rnn=rnn)), "ecp5")["lut"] for rnn in (False, True))
    own = parts[""] - sum(count for path, count in parts.items() if path and "." not in path)
    control = own + sum(parts[name] for name in CONTROL) - parts["loader.transfer.choice"]      # a multiplexer of words
    assert control < 0.1 * (parts[""] + lanes - without), (control, parts, lanes - without)
