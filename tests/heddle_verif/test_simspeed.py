"""The complete device between foreign AXI models, and the speed of the C++ device compared with it."""

import pytest
from heddle import load_config
from heddle.top import Top
from heddle_sim.toolchain.cocotb_runner import run_bench
from heddle_verif.simspeed import measure

TINY = load_config("tiny")
SHAPE = {"m": 11, "n": 9, "k": 21}


@pytest.mark.soak
@pytest.mark.variant
def test_device_between_foreign_axi_models(simulator, seed):
    run_bench(Top(TINY), bench="heddle_verif.bench.device", cfg=TINY, simulator=simulator, seed=seed,
              parameters=SHAPE | {"seed": 1}, name="device", timeout_s=800)


@pytest.mark.soak
@pytest.mark.once
def test_the_device_is_twenty_times_faster_than_cocotb():
    """Than cocotb as it builds by itself, and at least four times as fast as cocotb with the ports only, which is the build of the row."""
    rows = measure(TINY, every_signal=True)
    ports, benches, device, cocotb = rows
    assert all(row["checked"] for row in rows) and benches["speedup"] < 1
    assert device["cycles_per_second"] >= 20 * cocotb["cycles_per_second"]
    assert ports["speedup"] == 1 and device["speedup"] >= 4 and device["compared_with"] == ports["simulator"] == "cocotb, ports only"
