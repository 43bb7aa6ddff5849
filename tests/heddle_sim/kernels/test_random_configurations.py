"""Random legal configurations: every kernel is right on each of them, or refused by the name of a parameter."""

import re
import subprocess
import sys

import pytest
from heddle_verif.stimulus import kernel_cases
from heddle_verif.stimulus.configurations import pairs_of, possible_pairs, random_configurations
from heddle_verif.stimulus.kernel_cases import command, refusal_of, run_cases

NIGHT = 40              # configurations of a seed on the functional simulator
ON_HARDWARE = 6
AT_ONCE = 2             # of them in make test


@pytest.fixture
def drawn(seed):
    return 0 if seed is None else seed


def run(seed, number, **options):
    """What refuses a case is not the size of a memory where there is enough of both."""
    cfg, refusals = run_cases(seed, number, **options)
    named = {refusal_of(error) for error in refusals.values()}
    if cfg.instruction_words >= 1024 and cfg.shared_memory_kib >= 64:
        assert not named & {"instruction_words", "shared_memory_kib"}, refusals
    return cfg, refusals


@pytest.mark.parametrize("seed", range(3))
def test_every_pair_of_booleans_occurs_in_a_night(seed):
    found = random_configurations(seed, NIGHT)
    assert not possible_pairs() - set().union(*map(pairs_of, found))
    assert found[:7] == random_configurations(seed, 7)
    for name, values in (("threads", {8, 16, 32, 64}), ("dot", {4, 8, 16}), ("thread_slots", {1, 2, 4, 8, 16}),
                         ("fetch_words", {1, 2, 4, 8, 16}), ("axi_data_bits", {64, 128, 256, 512}), ("shared_memory_kib", {4, 8, 16, 32})):
        assert values <= {getattr(cfg, name) for cfg in found}


def test_impossible_pairs_are_those_of_the_rules():
    pairs = possible_pairs()
    assert (("mm16", False), ("wide_lanes", True)) not in pairs and (("mm16", True), ("wide_lanes", True)) in pairs
    assert (("reductions", False), ("reduction_floats", True)) not in pairs


@pytest.mark.parametrize("number", range(AT_ONCE))
def test_kernels(number, drawn):
    run(drawn, number)


@pytest.mark.nightly
@pytest.mark.parametrize("number", range(NIGHT))
def test_kernels_of_a_night(number, drawn):
    run(drawn + 1, number)


@pytest.mark.nightly
@pytest.mark.parametrize("number", range(ON_HARDWARE))
def test_kernels_on_hardware(number, drawn):
    run(drawn + 1, number, small=True, simulator="verilator")


def _small_memory(device, rng):
    raise ValueError("line 3: program must have at most 64 instructions, not 100")


def _too_little(device, rng):
    raise ValueError("instruction_words must be at least 128 for this, not 64")


def _wrong(device, rng):
    raise AssertionError("3 of 4 elements are wrong")


@pytest.mark.parametrize("case, message", [
    (_small_memory, "_small_memory on .*: ValueError: line 3: "), (_wrong, "_wrong on .*: 3 of 4 elements are wrong"),
    (_too_little, "with instruction_words = 128 too: instruction_words must be at least 128")])
def test_wrong_results_and_refusals_without_a_parameter_are_seen(monkeypatch, case, message):
    monkeypatch.setattr(kernel_cases, "kernel_cases", lambda cfg: [case])
    with pytest.raises(AssertionError, match=f"(?s){message}.*repeat: {re.escape(command(0, 1, case=0))}$"):
        run_cases(0, 1)


def test_the_line_that_repeats_a_case_runs():
    line = command(0, 3, case=90).split()
    assert line[0] == "python"
    result = subprocess.run([sys.executable, *line[1:]], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and result.stdout.startswith(" 90 "), result.stderr
