"""The engine for recurrent networks."""

import pytest
from heddle import load_config
from heddle_sim.toolchain.cocotb_runner import run_bench
from heddle_verif.duts.engine_system import EngineSystem
from heddle_verif.variants.bench_cases import bench_cases

ALONE = dict(sparse=False, gather_offsets=False)         # they ask for slots of threads
LARGER = ALONE | dict(factor_words=512, shared_memory_kib=32, rnn_elements=1024)
CONFIGS = {
    "tiny": dict(),
    "few": dict(thread_slots=4, rnn_contexts=2, rnn_differences=True),
    "one": dict(thread_slots=1, rnn_contexts=1, dot=8, rnn_tap_registers=32),
    "wide": dict(threads=16, thread_slots=16, dot=4),
    "bus": dict(threads=16, thread_slots=16, dot=4, shared_writes=1, rnn_differences=True),     # results of two banks, one bus
}
# Every width of the tail with one bus and with eight; lanes near and far, with differences and without, in turn.
VARIANTS = {
    f"slots{slots}_writes{writes}": dict(
        threads=16, thread_slots=slots, shared_writes=writes, far_registers=bool((index + writes) % 2),
        dot=(4, 8, 16)[(index + writes) % 3],
        rnn_contexts=(1, 2, 4, 8)[(index + writes) % 4], rnn_differences=bool((index // 2 + writes) % 2), rnn_tap_registers=32)
    for index, slots in enumerate((1, 2, 4, 8, 16)) for writes in (1, 8)
}
AT_NIGHT = ("slots2_writes1", "slots16_writes1", "slots16_writes8")


@bench_cases("one_layer|several_contexts|several_layers|faults|results", "tiny", "one", "few", "wide", "bus")
def test_engine(name, test_filter, simulator, seed):
    changes = LARGER | CONFIGS[name]
    cfg = load_config("tiny").replace(**changes)
    run_bench(EngineSystem(cfg), bench="heddle_verif.bench.rnn_engine", cfg=cfg, simulator=simulator, seed=seed, test_filter=test_filter)


def few_words(name, test, seed):
    """One test of the bench on a small engine."""
    cfg = load_config("tiny").replace(**ALONE, factor_words=64, shared_memory_kib=16, rnn_elements=512, **CONFIGS[name])
    summary = run_bench(EngineSystem(cfg), bench="heddle_verif.bench.rnn_engine", cfg=cfg, simulator="icarus", seed=seed, test_filter=test)
    assert summary["tests"] == 1


@pytest.mark.nightly
def test_results_of_two_banks_on_one_bus(seed):
    """With sixteen lanes of the tail a result has 32 bytes: two banks, one after the other where there is one bus for writes."""
    few_words("bus", "results", seed)


@pytest.mark.nightly
def test_differences_of_sixteen_bits_are_exact(seed):
    """A difference of two elements has 17 bits: a threshold of zero changes no result of the engine."""
    few_words("bus", "jumps", seed)


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.nightly if name in AT_NIGHT else [pytest.mark.soak, pytest.mark.once]) for name in VARIANTS])
def test_variants(name, seed):
    cfg = load_config("tiny").replace(**LARGER | VARIANTS[name])
    run_bench(EngineSystem(cfg), bench="heddle_verif.bench.rnn_engine", cfg=cfg, simulator="verilator", seed=seed,
              test_filter="several_contexts|results" + "|jumps" * cfg.rnn_differences)


@pytest.mark.nightly
@pytest.mark.parametrize("multipliers, inputs, hidden, tasks, steps, ideal, part", [
    ((16, 4), 16, 16, 2, 6, 32, 0.95), ((16, 4), 64, 64, 1, 2, 512, 0.95), ((32, 8), 16, 16, 4, 8, 8, 0.9)])
def test_pace(multipliers, inputs, hidden, tasks, steps, ideal, part):
    """A step of an LSTM takes few cycles more than its shape allows: G·h·(Lx + h) over the multipliers [S3.1, S3.6]."""
    threads, dot = multipliers
    cfg = load_config("tiny").replace(**ALONE, threads=threads, dot=dot, factor_words=1024, shared_memory_kib=64, rnn_elements=2048)
    assert 4 * hidden * (inputs + hidden) == ideal * threads * dot
    run_bench(EngineSystem(cfg), bench="heddle_verif.bench.rnn_engine", cfg=cfg, simulator="icarus", seed=1, test_filter="pace",
              parameters=dict(kind="lstm", inputs=inputs, hidden=hidden, tasks=tasks, steps=steps, most=ideal / part))
