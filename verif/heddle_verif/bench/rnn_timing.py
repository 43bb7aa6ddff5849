"""Cycles of the engine against the cycle model, on layers of many shapes."""

import cocotb
from heddle_sim.rnn.image import build_image
from heddle_sim.rnn.timing import run_cycles

from ..rnn_networks import random_model, random_task
from .rnn_engine import EngineBench


@cocotb.test(timeout_time=500, timeout_unit="ms")
async def agreement(dut):
    """Runs of the layers among the parameters: (kind, hidden, inputs, steps, tasks, cat), every one within ``tolerance``."""
    bench = EngineBench(dut, grant_chance=1.0)
    await bench.start()
    wrong = []
    for kind, hidden, inputs, steps, tasks, cat in bench.parameters["layers"]:
        model = random_model(bench.cfg, bench.rng, kind, inputs, hidden, cat)
        image = build_image(bench.cfg, [random_task(bench.rng, model, steps) for _ in range(tasks)])
        cycles, expected = await bench.check(image), run_cycles(bench.cfg, image)
        text = f"{kind} hidden {hidden} inputs {inputs} steps {steps} tasks {tasks} cat {cat}: {cycles} cycles, model {expected}"
        cocotb.log.info(text)
        if abs(expected - cycles) > bench.parameters["tolerance"] * cycles:
            wrong.append(text)
    assert not wrong, "; ".join(wrong)
    bench.finish()
