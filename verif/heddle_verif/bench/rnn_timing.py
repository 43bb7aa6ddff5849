"""Cycles of the engine against the cycle model, on layers of many shapes."""

import cocotb
from heddle_sim.rnn.image import build_image
from heddle_sim.rnn.timing import run_cycles

from ..stimulus.recurrent_networks import random_model, random_task
from .rnn_engine import EngineBench
from .rnn_stacked import slow_task


@cocotb.test(timeout_time=500, timeout_unit="ms")
async def agreement(dut):
    """Runs of the layers among the parameters: (kind, hidden, inputs, steps, tasks, cat), every one within ``tolerance``.

    ``skip_zeros`` and ``held`` as of ``EngineModel``; of the inputs a share ``zeros`` is zero, or with ``held`` they change slowly.
    """
    bench = EngineBench(dut, paced=True)
    await bench.start()
    wrong = []
    for kind, hidden, inputs, steps, tasks, cat in bench.parameters["layers"]:
        given = bench.parameters
        held = given.get("held")
        model = random_model(bench.cfg, bench.rng, kind, inputs, hidden, cat, skip_zeros=given.get("skip_zeros", False), held=held)
        image = build_image(bench.cfg, [slow_task(bench.rng, model, steps, 0.01) if held is not None else
                                        random_task(bench.rng, model, steps, zeros=given.get("zeros", 0)) for _ in range(tasks)])
        cycles, expected = await bench.check(image), run_cycles(bench.cfg, image)
        text = f"{kind} hidden {hidden} inputs {inputs} steps {steps} tasks {tasks} cat {cat}: {cycles} cycles, model {expected}"
        cocotb.log.info(text)
        if abs(expected - cycles) > bench.parameters["tolerance"] * cycles:
            wrong.append(text)
    assert not wrong, "; ".join(wrong)
    bench.finish()
