"""Random legal configurations: every kernel is right on each of them, or refused by the name of a parameter."""

import re
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
from heddle.config import Config, load_config
from heddle_sim import Device, Requantise
from heddle_sim.golden.convolution import convolution
from heddle_sim.kernels.families import FAMILIES
from heddle_verif.stimulus import kernel_cases
from heddle_verif.stimulus.configurations import pairs_of, possible_pairs, random_configurations
from heddle_verif.stimulus.kernel_cases import command, refusal_of, run_cases

NIGHT = 40              # configurations of a seed on the functional simulator
ON_HARDWARE = 6
NEVER = {"FactorKernel", "RepeatedCopiesKernel", "ElementGatherKernel",     # of benchmarks, which have tests of their own
         "ScheduledProductKernel", "ScheduledSamplesKernel"}        # of several cores: test_spmm_cores, test_sddmm_cores
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


def test_every_family_occurs(monkeypatch):
    """All kernels that the planner knows are among the cases, each on a configuration that has what it needs."""
    known, ran = {kernel for kernels in FAMILIES.values() for kernel in kernels}, set()

    def noted(kernel, launches):
        return lambda self, *arguments: ran.add(kernel) or launches(self, *arguments)

    for kernel in known:
        monkeypatch.setattr(kernel, "launches", noted(kernel, kernel.launches))
    for name, chosen in (("tiny", None), ("base", ("chain", "rows_left"))):
        with Device(name, "golden", memory_bytes=kernel_cases.MEMORY_BYTES) as device:
            for index, case in enumerate(kernel_cases.kernel_cases(load_config(name))):
                if chosen is None or kernel_cases.name_of(case) in chosen:
                    with suppress(ValueError):
                        case(device, np.random.default_rng([0, index]))
    assert {kernel.__name__ for kernel in known - ran} == NEVER


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


# -- configurations that were wrong ---------------------------------------------------------


def small(**changes):
    return Config(**{"name": "small_halves", "threads": 16, "dot": 4, "factor_words": 32, "thread_slots": 4, "thread_multipliers": 4,
                     "shared_memory_kib": 32, "instruction_words": 1024, "fetch_words": 4, "compiled_offsets": 64, "tensors": True,
                     "output_stage": True, "gather_offsets": True, **changes})


def test_gathers_begin_at_multiples_of_four_registers():
    """Half of the factor registers are 14 here."""
    rng = np.random.default_rng(1)
    x, w = rng.integers(-128, 128, (1, 3, 9, 9), np.int8), rng.integers(-128, 128, (5, 3, 2, 2), np.int8)
    with Device(small(), "golden", memory_bytes=1 << 19) as device:
        y, _ = device.conv(x, w, method="gather")
    expected = convolution(np.moveaxis(x, 1, -1), np.moveaxis(w, 1, -1), ((0, 0),) * 2, (1, 1), (1, 1))
    assert np.array_equal(np.moveaxis(y, 1, -1), expected)


def test_inputs_that_blocks_make_too_many():
    """50 inputs fit 14 words of 4, filled to blocks of 16 they do not: ``linear`` takes another kernel, ``linear_chain`` says so."""
    rng, spec = np.random.default_rng(2), Requantise(1 << 30, 40)
    x, w = rng.integers(-128, 128, (2, 50), np.int8), rng.integers(-128, 128, (50, 30), np.int8)
    with Device(small(), "golden", memory_bytes=1 << 19) as device:
        assert np.array_equal(device.linear(x, w, None, spec)[0], spec.apply(x.astype(np.int32) @ w))
        with pytest.raises(ValueError, match="inputs of a layer must be at most 48 for a chain of layers with factor_words = 32 and dot"):
            device.linear_chain(x, [(w, None, spec)])


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_lanes_of_a_filter_in_two_groups(slots):
    """A filter a channel: four lanes have one, of two and four groups where these are small."""
    rng = np.random.default_rng(3)
    x, w = rng.integers(-128, 128, (1, 8, 9, 16), np.int8), rng.integers(-128, 128, (16, 1, 3, 3), np.int8)
    cfg = small(thread_slots=slots, thread_multipliers=slots, output_stage=False, gather_offsets=False, dot=8, fetch_words=8,
                factor_words=128)
    with Device(cfg, "golden", memory_bytes=1 << 19) as device:
        y, _ = device.conv(x, w, group=16, pads=1, layout="NHWC", method="compiled")
    assert np.array_equal(y, convolution(x, np.moveaxis(w, 1, -1), ((1, 1),) * 2, (1, 1), (1, 1), 16))
