"""Rows of ``heddle bench conv``: the layers of every suite on the hardware, compared with numpy, each night of soak with other operands."""

import pytest
from heddle_sim import Device
from heddle_sim.cli.bench_conv import conv_row
from heddle_sim.cli.convolution_suites import SUITES


@pytest.mark.soak
@pytest.mark.parametrize("suite", SUITES)
def test_suites_equal_numpy(suite, seed):
    """To int8 by the method that is expected to be fastest; ``conv_row`` raises where a result is wrong."""
    with Device("base", memory_bytes=1 << 26, latency=64) as device:
        for layer in SUITES[suite]:
            row = conv_row(device, layer, seed or 0, True, "auto", True)
            assert row["checked"] and row["cycles"] > 0 and 0 < row["utilization"] <= row["bound"], row
            # The cycle model is right to 18 %.
            assert abs(row["expected_cycles"] - row["cycles"]) < 0.18 * row["cycles"], row
