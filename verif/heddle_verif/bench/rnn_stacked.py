"""Stacked GRUs on the engine: cycles of a step, beside those of the multipliers and the elements that are not zero."""

import cocotb
from heddle_sim.rnn.image import build_image

from ..rnn_networks import random_task, stacked_gru
from .rnn_engine import EngineBench


@cocotb.test(timeout_time=50, timeout_unit="ms")
async def pace(dut):
    """``inputs``, ``size``, ``linear``, ``cat``, ``steps`` are parameters; ``most`` and ``least`` bound the cycles of a step."""
    bench = EngineBench(dut, grant_chance=1.0)
    await bench.start()
    given, cfg = bench.parameters, bench.cfg
    model = stacked_gru(cfg, bench.rng, given["inputs"], given["size"], linear=given["linear"], cat=given["cat"])
    counts = [await bench.check(build_image(cfg, [random_task(bench.rng, model, steps)], 1)) for steps in (given["steps"], 2 * given["steps"])]
    pace = (counts[1] - counts[0]) / given["steps"]
    ideal = model.step.macs() / (cfg.threads * cfg.dot)
    cocotb.log.info(f"PACE {given} {counts} {pace:.2f} ideal {ideal:.0f} {ideal / pace:.3f}")
    assert pace <= given["most"]
    bench.finish()
