"""Register slice: bench of every mode on both simulators, parameter errors."""

import pytest
from heddle.lib.register_slice import RegisterSlice, SliceMode
from heddle_sim.toolchain.cocotb_runner import run_bench
from heddle_verif.bench.register_slice import make_unit

# Without registers a slice is wires.
MODES = [(SliceMode.FORWARD, True), (SliceMode.REVERSE, True), (SliceMode.FULL, True),
         *(pytest.param(mode, False, marks=pytest.mark.nightly) for mode in (SliceMode.FORWARD, SliceMode.REVERSE, SliceMode.FULL))]


@pytest.mark.smoke
@pytest.mark.parametrize("mode, clears", MODES)
def test_bench(mode, clears, simulator, seed):
    parameters = {"mode": mode.value, "clears": clears}
    summary = run_bench(make_unit(**parameters), bench="heddle_verif.bench.register_slice", simulator=simulator, seed=seed,
                        parameters=parameters, name=f"slice_{mode.value}")
    assert summary["tests"] == 8


def test_mode_message():
    modes = "SliceMode.NONE, SliceMode.FORWARD, SliceMode.REVERSE, SliceMode.FULL"
    with pytest.raises(ValueError, match=f"^mode must be one of {modes}, not 'x'"):
        RegisterSlice(8, "x")
