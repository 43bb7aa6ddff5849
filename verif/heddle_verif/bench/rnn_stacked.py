"""Stacked GRUs on the engine: cycles of a step, beside those of the multipliers and the elements that changed."""

import json
from pathlib import Path

import cocotb
import numpy as np
from heddle_sim.rnn.image import build_image
from heddle_sim.rnn.task import Task

from ..stimulus.recurrent_networks import stacked_gru
from ..stimulus.skipping_networks import most_cycles
from .rnn_engine import EngineBench


def slow_task(rng, model, steps, change):
    """A task whose input is a random walk within half of its range, with steps of a share ``change`` of that."""
    vector = model.step.vectors["x"]
    range_ = vector.limit // 2
    walk = rng.uniform(-range_, range_, vector.size) + np.cumsum(rng.normal(0, change * range_, (steps, vector.size)), axis=0)
    folded = np.abs((walk + range_) % (4 * range_) - 2 * range_) - range_
    return Task(model, {"x": np.rint(folded).astype(np.int16)})


@cocotb.test(timeout_time=50, timeout_unit="ms")
async def pace(dut):
    """Cycles of a step, of two runs with ``steps`` and twice as many steps.

    Parameters: ``inputs``, ``size``, ``linear``, ``cat``, ``change``, ``held``, ``steps``, ``tasks`` that take turns; at most ``most``
    cycles a step of one of them, with
    ``gain`` at most what ``most_cycles`` allows for that gain. What was found is written to ``figures.json`` in the folder of the run.
    """
    bench = EngineBench(dut, paced=True)
    await bench.start()
    given, cfg = bench.parameters, bench.cfg
    model = stacked_gru(cfg, bench.rng, given["inputs"], given["size"], linear=given["linear"], cat=given["cat"], held=given["held"])
    whole = [slow_task(bench.rng, model, 2 * given["steps"], given["change"]).inputs["x"] for _ in range(given["tasks"])]
    found = await bench.each_step(given["steps"], given["tasks"], lambda steps: build_image(
        cfg, [Task(model, {"x": rows[:steps]}) for rows in whole], given["tasks"]))
    ideal = model.step.macs() / (cfg.threads * cfg.dot)
    cocotb.log.info(f"PACE {given} {found}, {ideal:.0f} cycles are ideal")
    Path("figures.json").write_text(json.dumps(found | {"ideal": ideal}))
    assert found["cycles"] <= given["most"], f"a step must take at most {given['most']} cycles, not {found['cycles']}"
    if "gain" in given:
        part = found["multiplied"] / found["elements"]
        most = most_cycles(ideal, part, given["gain"])
        assert part < 0.5 and found["cycles"] <= most, f"a step must take at most {most:.1f} cycles with {part:.1%} of the elements, " \
                                                       f"not {found['cycles']}"
    bench.finish()
