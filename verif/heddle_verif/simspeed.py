"""Speed of simulation: the C++ device and cocotb with Verilator on the same program."""

import json
import time
from pathlib import Path

import numpy as np
from heddle.top import Top
from heddle_sim import Device
from heddle_sim.harness import run_bench

__all__ = ["measure"]

REPEAT_SECONDS = 2.0


def measure(cfg, *, seed=0, shape=(64, 64, 64), timeout_s=1200):
    """Rows of both ways to simulate: ``cycles``, ``seconds``, ``cycles_per_second``; ``speedup`` of the device over cocotb.

    Both results are compared with numpy. The device repeats its run for two seconds.
    """
    m, n, k = shape
    parameters = {"m": m, "n": n, "k": k, "dtype": "int8", "b_layout": "nk", "resident": False, "seed": seed}
    slow = _cocotb(cfg, parameters, timeout_s)
    fast = _device(cfg, m, n, k, seed)
    speedup = fast["cycles_per_second"] / slow["cycles_per_second"]
    return [parameters | {"simulator": "cocotb"} | slow | {"speedup": 1.0, "checked": True},
            parameters | {"simulator": "device"} | fast | {"speedup": speedup, "checked": True}]


def _figures(cycles, seconds):
    return {"cycles": cycles, "seconds": seconds, "cycles_per_second": cycles / seconds}


def _cocotb(cfg, parameters, timeout_s):
    run = run_bench(Top(cfg), bench="heddle_verif.bench.device", cfg=cfg, simulator="verilator", seed=parameters["seed"],
                    parameters=parameters, timeout_s=timeout_s, name="device")
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
