"""``heddle bench rnn``: DeepBench beside published figures, layers that do not fit, elements that are left out, wrong use."""

import json

import pytest
from heddle import Config, ConfigError
from heddle_sim.cli import bench_rnn_deepbench
from heddle_sim.cli.peers import DEEPBENCH_PEERS
from heddle_verif.command_line import answer, call
from heddle_verif.stimulus.skipping_networks import GAIN, most_cycles

GOLDEN = ["--config", "tiny", "--simulator", "golden"]


def rows(capsys, *arguments):
    return answer(capsys, "bench", "rnn", *arguments)["rows"]


def test_deepbench_of_accepted_configurations(capsys):
    """Only rows of a configuration that ``Config`` accepts say that they are above: of all layers, the LSTM of 256 units fits a core."""
    found = rows(capsys, "--suite", "deepbench")
    layers = len(DEEPBENCH_PEERS) + sum(peer["cell"] == "gru" for peer in DEEPBENCH_PEERS)
    row, *projected = found
    assert (row["layer"], row["projected"], row["above"], row["load_bytes"]) == ("lstm_256x150", False, True, 16)
    cfg = Config(**row["parameters"], rnn=True)
    assert row["peak_macs_per_cycle"] == cfg.threads * cfg.dot == 1024 and row["tail_lanes"] == cfg.tail_lanes
    assert cfg.threads * cfg.dot * cfg.factor_words >= 4 * 256 * 512
    assert row["utilization"] == row["macs"] / (row["cycles"] * 1024) > row["peer_utilization"] == 0.803
    assert all(row["simulator"] == "cycle model" for row in found) and len(projected) == 2 * layers
    for row in projected:
        assert (row["projected"], row["above"], row["parameters"], row["load_bytes"]) == (True, None, None, 16)
    for row in projected[:layers]:
        assert (row["peer"], row["peak_macs_per_cycle"]) == ("Brainwave", 96_000)
        assert row["utilization"] == row["macs"] / (row["cycles"] * 96_000) > row["peer_utilization"]
    for row in projected[layers:]:
        assert row["peer_utilization"] == 0.803 < row["step_utilization"] and row["hidden_cycles"] >= row["latency"]


def test_layers_of_deepbench_that_no_core_holds():
    """The deepest factor registers of the most lanes hold 524,288 weights."""
    held = [(peer["cell"], peer["hidden"]) for peer in DEEPBENCH_PEERS if bench_rnn_deepbench.accepted_row(peer, peer["cell"])]
    assert held == [("lstm", 256)]
    for dot in (4, 8, 16):
        Config(threads=64, dot=dot, factor_words=8192 // dot)
        with pytest.raises(ConfigError, match="factor_words must be at most"):
            Config(threads=64, dot=dot, factor_words=16384 // dot)


@pytest.mark.parametrize("cell, hidden", [("lstm", 256), ("gru", 512), ("gru_linear", 512), ("lstm", 1536)])
def test_any_count_of_multipliers(cell, hidden):
    """Projected: above the best utilization published at every count that one sequence keeps busy, and there are many of them."""
    compared = 0
    for count in bench_rnn_deepbench.COUNTS:
        design = bench_rnn_deepbench.best_design(cell, hidden, count)
        if bench_rnn_deepbench.keeps_busy(design):
            macs = bench_rnn_deepbench.CELLS[cell][1] * 2 * hidden * hidden
            assert macs / (design["pace"] * count) > 0.803, count
            compared += 1
    assert compared >= 7


def test_layers_that_do_not_fit_come_from_the_cycle_model(capsys):
    found = rows(capsys, "--hidden", "4,64", "--threads", "1", *GOLDEN)
    assert [(row["hidden"], row["simulator"], row["checked"]) for row in found] == [(4, "golden", True), (64, "cycle model", False)]
    assert found[1]["cycles_per_step"] == found[1]["tile_cycles"] == 1024 and found[1]["cycles"] is None


def test_plans_of_the_cycle_model(capsys):
    """Published pairs at the bandwidth of the hardware and at twice as much, beside the formula [S3.8]."""
    cycles = {}
    for load in (16, 32):
        found = answer(capsys, "bench", "rnn-plan", "--multipliers", "65536", "--hidden", "512,1024", "--load-bytes", str(load))["rows"]
        assert all(row["load_bytes"] == load for row in found) and found[0]["ep"] >= 32 == found[0]["formula_ep"]
        cycles[load] = [(row["hidden"], row["ep"], row["cycles"], row["formula_cycles"]) for row in found[2:]]
    assert cycles[16] == [(512, 32, 71, 43), (512, 16, 75, 64), (1024, 32, 147, 128), (1024, 16, 147, 128)]
    assert cycles[32] == [(512, 32, 46, 43), (512, 16, 66, 64), (1024, 32, 128, 128), (1024, 16, 130, 128)]


def test_steps(capsys):
    """The length of the run is that asked for, also one step; the functional simulator knows no cycles."""
    for steps in (1, 7):
        row, = rows(capsys, "--hidden", "4", "--threads", "2", "--steps", str(steps), *GOLDEN)
        assert (row["steps"], row["macs"], row["checked"]) == (steps, 2 * steps * 4 * 4 * 8, True)
        assert all(row[name] is None for name in ("cycles", "loading_cycles", "cycles_per_step", "utilization"))


@pytest.mark.parametrize("options", [["--threshold", "0.05"], ["--skip-zeros"], ["--threshold", "0", "--skip-zeros"]])
def test_elements_that_are_left_out(options, capsys):
    row, = rows(capsys, "--hidden", "8", "--threads", "2", "--cell", "gru", *options, *GOLDEN)
    assert row["elements"] == 8 + 8 + 8 + 8 and row["ep"] == 1 and row["checked"]    # x for all gates; h for r and for z; r∘h
    assert 0 < row["multiplied"] < row["elements"]
    assert (row["error"] == 0) == ("0.05" not in options)
    code, out, _ = call(capsys, "bench", "rnn", "--hidden", "8", "--threads", "2", "--cell", "gru", *options, *GOLDEN)
    *about, heading, _ = out.splitlines()
    assert code == 0 and "multiplied_part" in heading and "dense" in heading
    assert about == (["configuration tiny+rnn_differences"] if "--threshold" in options else [])


@pytest.mark.parametrize("arguments, says", [
    (["--weights", "x"], "--weights must not be given without --suite rnnoise"),
    (["--suite", "deepbench", "--hidden", "8"], "--hidden must not be given with --suite deepbench"),
    (["--suite", "skipping", "--threshold", "1"], "--threshold must not be given with --suite skipping"),
    (["--suite", "skipping"], "--config must not be given with --suite skipping, whose engine has 8 multipliers"),
    (["--steps", "4", "--skip-zeros"], "--steps must not be given with --skip-zeros or --threshold"),
    (["--suite", "deepbench", "--steps", "4"], "--steps must not be given with --suite deepbench"),
    (["--steps", "4", "--hidden", "64", "--threads", "1"],
     "--steps must not be given for a layer that does not fit configuration tiny, as one of 64 units and 64 inputs for --threads 1"),
    (["--threads", "9"], "--threads must be at most 8, not 9"),
    (["--hidden", "100", "--threshold", "0.1"], "--hidden must be of layers that fit configuration tiny, not 100 with 100 inputs"),
])
def test_wrong_use(arguments, says, capsys):
    assert call(capsys, "bench", "rnn", *arguments, *GOLDEN) == (2, "", f"heddle bench: error: {says}\n")


@pytest.mark.nightly
def test_skipping_on_the_hardware(capsys):
    """Two layers on eight multipliers: 336 cycles are ideal, at most 345 are taken; the lanes work in proportion to what changed."""
    code, out, err = call(capsys, "bench", "rnn", "--suite", "skipping", "--json")
    assert code == 0 and all(line.startswith("heddle_verif.bench.rnn_stacked on verilator: 1 tests, ") for line in err.splitlines()), err
    found = json.loads(out)["rows"]
    assert found[0]["threshold"] is None and found[0]["ideal_cycles_per_step"] == 336 <= found[0]["cycles_per_step"] <= 345
    for row in found[1:]:
        assert row["dense_cycles_per_step"] == found[0]["cycles_per_step"]
        assert row["multiplied_part"] - 0.01 <= row["lanes_part"] <= row["multiplied_part"] + 0.06
        assert row["cycles_part"] <= most_cycles(1, row["multiplied_part"], GAIN)
    assert min(row["multiplied_part"] for row in found) < 0.25


# Parts of elements and cycles of a step on the hardware (docs/benchmarks.md), one thread and two.
@pytest.mark.parametrize("multiplied, cycles", [(0.59, 0.62), (0.33, 0.43), (0.18, 0.36), (0.49, 0.53), (0.11, 0.24)])
def test_the_bound_of_skipping_notices_lost_gain(multiplied, cycles):
    """The gain passes; half of it does not, nor a quarter less."""
    assert cycles <= most_cycles(1, multiplied, GAIN)
    for kept in (0.0, 0.5, 0.7):
        assert 1 - kept * (1 - cycles) > most_cycles(1, multiplied, GAIN)
