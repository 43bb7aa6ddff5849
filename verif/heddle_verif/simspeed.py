"""Speed of simulation: the C++ device and cocotb with Verilator on the same program."""

import json
import time
from pathlib import Path

import numpy as np
from heddle.top import Top
from heddle_sim import Device
from heddle_sim.toolchain.cocotb_runner import run_bench

__all__ = ["measure"]

PORTS_ONLY, BENCH_BUILD = "cocotb, ports only", "cocotb, as benches are built"
REPEAT_SECONDS = 2.0


def measure(cfg, *, seed=0, shape=(64, 64, 64), timeout_s=1200, every_signal=False):
    """Rows of ways to simulate a matrix product: cocotb with the ports only, compiled for speed, and as benches are built, which is soon;
    the device; with ``every_signal`` cocotb as it builds for Verilator unless told otherwise, with every signal at hand.

    ``cycles``, ``seconds``, ``cycles_per_second``; ``speedup`` over the way that ``compared_with`` names. All results are compared with
    numpy. The device repeats its run for two seconds.
    """
    m, n, k = shape
    parameters = {"m": m, "n": n, "k": k, "dtype": "int8", "b_layout": "nk", "resident": False, "seed": seed}
    found = {PORTS_ONLY: _cocotb(cfg, parameters, timeout_s), BENCH_BUILD: _cocotb(cfg, parameters, timeout_s, optimised=False),
             "device": _device(cfg, m, n, k, seed)}
    if every_signal:
        found["cocotb, every signal"] = _cocotb(cfg, parameters, timeout_s, every_signal=True)
    base = found[PORTS_ONLY]["cycles_per_second"]
    return [parameters | {"simulator": name} | figures | {"speedup": figures["cycles_per_second"] / base, "compared_with": PORTS_ONLY,
                                                          "checked": True} for name, figures in found.items()]


def _figures(cycles, seconds):
    return {"cycles": cycles, "seconds": seconds, "cycles_per_second": cycles / seconds}


def _cocotb(cfg, parameters, timeout_s, *, every_signal=False, optimised=True):
    run = run_bench(Top(cfg), bench="heddle_verif.bench.device", cfg=cfg, simulator="verilator", seed=parameters["seed"],
                    parameters=parameters | {"checked": False}, timeout_s=timeout_s, name="device", every_signal=every_signal,
                    optimised=optimised)
    figures = json.loads((Path(run["directory"]) / "figures.json").read_text())
    return _figures(figures["cycles"], figures["seconds"])


def _device(cfg, m, n, k, seed):
    generator = np.random.default_rng(seed)
    a, b = generator.integers(-128, 128, (m, k), np.int8), generator.integers(0, 256, (n, k), np.uint8)
    cycles, seconds = 0, 0.0
    with Device(cfg) as device:
        while seconds < REPEAT_SECONDS:
            begun = time.perf_counter()
            c, stats = device.matmul(a, b, transpose=True)
            seconds += time.perf_counter() - begun
            cycles += stats.cycles
            if not np.array_equal(c, a.astype(np.int32) @ b.T.astype(np.int32)):
                raise AssertionError("result must equal numpy's")
    return _figures(cycles, seconds)
