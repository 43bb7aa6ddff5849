"""Two stacked GRUs on eight multipliers, the engine's RTL with two lanes: cycles of a step with all elements, and without those that hardly
changed."""

import contextlib
import json
import sys
from pathlib import Path

from heddle import load_config
from heddle_sim.toolchain.cocotb_runner import run_bench

from ..duts.engine_system import EngineSystem, with_lanes

__all__ = ["CFG", "ENGINE", "GAIN", "LANES", "measure", "most_cycles"]

LANES = 2
CFG = load_config("tiny").replace(rnn=True, rnn_tap_registers=64, factor_words=512, shared_memory_kib=32, rnn_elements=1024,
                                  dot=4, sparse=False, thread_slots=LANES, gather_offsets=False, rnn_contexts=2, rnn_differences=True)
ENGINE = with_lanes(CFG, LANES)
INPUTS, SIZE, LAYERS = 8, 16, 2
STEPS = 20                  # and twice as many: what a step takes is the difference
CHANGE = 0.02
# Of the cycles of elements that are left out, the share that must be saved. The rest: 16 cycles a step that take sums over, and the waits
# of one thread for its last columns and for the tail: some 100 cycles, the more of the whole the fewer elements are multiplied. The
# least that is measured is 0.7416, of one thread that multiplies 7.6 % of the elements.
GAIN = 0.74
# Threads, and differences up to which elements are left out, in units of the hidden vector's 16 bits; None: all are multiplied.
CASES = ((1, None), (1, 0), (1, 100), (1, 300), (1, 600), (2, 100), (2, 600))


def most_cycles(dense, multiplied_part, gain):
    """Cycles a step at most: of the dense cycles, a share ``gain`` of the part that is left out must be saved."""
    return dense * (1 - gain * (1 - multiplied_part))


def measure(seed=1, cases=CASES, linear=True, steps=STEPS, simulator="verilator"):
    """Benchmark rows; the first case must be dense. Raises ``AssertionError`` when a result differs from the golden model."""
    rows, dense = [], None
    for threads, held in cases:
        found = _run(dict(lanes=LANES, inputs=INPUTS, size=SIZE, linear=linear, cat=4, steps=steps, change=CHANGE, held=held, tasks=threads,
                          most=1 << 20), simulator, seed)
        dense = dense or found
        rows.append({
            "suite": "skipping", "layer": f"{LAYERS}x gru{'_linear' * linear}_{SIZE}", "cell": "gru_linear" if linear else "gru",
            "hidden": SIZE, "inputs": INPUTS, "threads": threads, "multipliers": LANES * CFG.dot, "ep": 1, "vp": LANES * CFG.dot,
            "steps": 2 * steps, "seed": seed, "simulator": simulator, "threshold": None if held is None else held + 1, "skip_zeros": False,
            "elements": found["elements"], "multiplied": found["multiplied"], "multiplied_part": found["multiplied"] / found["elements"],
            "ideal_cycles_per_step": found["ideal"], "dense_cycles_per_step": dense["cycles"], "cycles_per_step": found["cycles"],
            "lanes_part": found["steps"] / dense["steps"], "cycles_part": found["cycles"] / dense["cycles"], "error": None,
            "checked": True})
    return rows


def _run(given, simulator, seed):
    with contextlib.redirect_stdout(sys.stderr):        # what the bench says is no result
        run = run_bench(EngineSystem(ENGINE), bench="heddle_verif.bench.rnn_stacked", cfg=CFG, simulator=simulator,
                        seed=seed, parameters=given)
    return json.loads((Path(run["directory"]) / "figures.json").read_text())
