"""The sparse engine with the PEs that it uses."""

from heddle import load_config
from heddle_sim.toolchain.cocotb_runner import run_bench
from heddle_verif.duts.sparse_system import SparseSystem
from heddle_verif.variants.bench_cases import bench_cases, half_of

CONFIGS = {
    "eight": dict(dot=8, shared_memory_kib=32),
    "tiny": dict(),
    "pairs": dict(dot=8, threads=32, shared_memory_kib=64),
    "sixteen": dict(dot=16, threads=16, rnn_tap_registers=32, shared_memory_kib=32),
    "far": dict(dot=8, threads=16, far_registers=True, rnn_differences=True, shared_memory_kib=32),
    "wide": dict(dot=8, threads=64, wide_lanes=True, shared_memory_kib=128),
}
PARTED = {name: values for name, values in CONFIGS.items() if values.get("threads", 8) > 8} | {
    "single": dict(threads=32, shared_memory_kib=64)}       # of its lanes each takes one non-zero a step
PART = "products|several_jobs|first_error|panel_errors"


@bench_cases(PART, *CONFIGS, rare=("wide",))
def test_engine(name, test_filter, simulator, seed):
    cfg = load_config("tiny").replace(sparse=True, **CONFIGS[name])
    run_bench(SparseSystem(cfg), bench="heddle_verif.bench.sparse_engine", cfg=cfg, simulator=simulator, seed=seed, test_filter=test_filter,
              timeout_s=580)


@bench_cases(r"\.samples/shape=(mixed|empty)|several_samples|first_sample_error", *CONFIGS, rare=("wide",))
def test_samples(name, test_filter, simulator, seed):
    cfg = load_config("tiny").replace(sparse=True, **CONFIGS[name])
    run_bench(SparseSystem(cfg), bench="heddle_verif.bench.sparse_samples", cfg=cfg, simulator=simulator, seed=seed,
              test_filter=test_filter, timeout_s=580)


@bench_cases("depthwise/shape=(mixed|empty|large)|several_depthwise", *CONFIGS, rare=("wide",))
def test_depthwise(name, test_filter, simulator, seed):
    cfg = load_config("tiny").replace(sparse=True, **CONFIGS[name])
    run_bench(SparseSystem(cfg), bench="heddle_verif.bench.sparse_depthwise", cfg=cfg, simulator=simulator, seed=seed,
              test_filter=test_filter, parameters=half_of(test_filter), timeout_s=580)


@bench_cases("sub_warps/shape=(mixed|empty)", *PARTED, rare=("wide",))
def test_sub_warps(name, test_filter, simulator, seed):
    cfg = load_config("tiny").replace(sparse=True, **PARTED[name])
    run_bench(SparseSystem(cfg), bench="heddle_verif.bench.sparse_sub_warps", cfg=cfg, simulator=simulator, seed=seed,
              test_filter=test_filter, timeout_s=580)
