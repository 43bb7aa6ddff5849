"""Cycles of the engine against the cycle model, on layers of many shapes."""

import json
from pathlib import Path

import cocotb
from heddle_sim.rnn.image import build_image
from heddle_sim.rnn.timing import run_cycles

from ..rnn_networks import random_model, random_task
from .rnn_engine import EngineBench


@cocotb.test(timeout_time=500, timeout_unit="ms")
async def agreement(dut):
    """Runs of the layers among the parameters; rows with ``model`` and ``cycles`` go to the file ``rows`` of the parameters."""
    bench = EngineBench(dut, grant_chance=1.0)
    await bench.start()
    rows = []
    for row in bench.parameters["layers"]:
        model = random_model(bench.cfg, bench.rng, row["kind"], row["inputs"], row["hidden"], row.get("cat", 1))
        tasks = [random_task(bench.rng, model, row["steps"]) for _ in range(row.get("tasks", 1))]
        image = build_image(bench.cfg, tasks)
        cycles = await bench.check(image)
        rows.append(row | {"model": run_cycles(bench.cfg, image), "cycles": cycles, "contexts": image.contexts})
    Path(bench.parameters["rows"]).write_text(json.dumps(rows))
    bench.finish()
