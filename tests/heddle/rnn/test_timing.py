"""The cycle model of the engine for recurrent networks against the hardware [S3.3, S3.8]."""

import numpy as np
import pytest
from heddle import load_config
from heddle_sim.rnn.image import build_image
from heddle_sim.rnn.model import EngineModel
from heddle_sim.rnn.model_plan import best_pairs, pair_cycles
from heddle_sim.rnn.plan import best_plans, evaluate, plan, step_cycles, sweep_cycles
from heddle_sim.rnn.shapes import shaped_step
from heddle_sim.rnn.skipping import zero_columns
from heddle_sim.rnn.task import Task
from heddle_sim.rnn.timing import task_cycles
from heddle_sim.toolchain.cocotb_runner import run_bench
from heddle_verif.duts.engine_system import EngineSystem

CFG = load_config("tiny").replace(sparse=False, factor_words=512, shared_memory_kib=32, rnn_elements=1024, threads=16, thread_slots=16)
DIFFERENCES = CFG.replace(rnn_differences=True)
KINDS = ("lstm", "gru", "linear_gru", "rnn", "peepholes")
# Hidden, inputs, steps, tasks, dot products of a lane.
SHAPES = [(4, 4, 12, 1, 1), (8, 8, 12, 1, 2), (16, 16, 12, 1, 1), (24, 8, 12, 1, 1), (8, 1, 12, 1, 2), (20, 20, 8, 1, 2), (13, 5, 12, 1, 1),
          (16, 16, 12, 3, 1)]
LAYERS = [(kind, *shape) for kind in KINDS for shape in SHAPES]
LAYERS += [("dense", 16, 8, 20, 1, 1), ("lstm", 32, 32, 4, 1, 1), ("lstm", 16, 30, 10, 2, 4), ("gru", 16, 3, 12, 1, 4)]
# Small layers in several contexts: a cycle decides whose turn it is.
SMALL = [(kind, *shape) for kind in KINDS for shape in ((8, 8, 12, 4, 2), (13, 5, 12, 3, 1))] + [("dense", 9, 5, 20, 2, 1)]

# On lanes and registers of presets: sizes that fill their factor registers, and small ones.
PRESETS = {
    "base": [("lstm", 64, 64, 4, 1, 1), ("lstm", 64, 64, 4, 2, 2), ("lstm", 128, 128, 3, 1, 1), ("lstm", 160, 200, 2, 1, 1),
             ("gru", 128, 64, 3, 2, 1), ("linear_gru", 160, 160, 2, 1, 1), ("rnn", 256, 256, 3, 1, 1), ("rnn", 256, 256, 3, 3, 1),
             ("peepholes", 48, 40, 4, 1, 4), ("lstm", 16, 16, 8, 1, 1)],
    "large": [("lstm", 64, 64, 6, 1, 2), ("lstm", 256, 240, 3, 1, 1), ("rnn", 256, 256, 4, 3, 1),
              *(("rnn", *shape, 3, 3, 1) for shape in ((128, 128), (128, 64), (64, 64))),     # what is loaded waits for results
              ("rnn", 128, 128, 2, 2, 1), ("gru", 128, 128, 3, 3, 1)],
}
MORE = {"large": [("lstm", 128, 128, 4, 2, 1), ("gru", 256, 200, 3, 1, 1), ("linear_gru", 192, 192, 3, 2, 1)]}      # in soak


def agree(layers, tolerance, simulator, seed, cfg=CFG, **options):
    run_bench(EngineSystem(cfg), bench="heddle_verif.bench.rnn_timing", cfg=cfg, simulator=simulator, seed=seed, timeout_s=800,
              parameters=dict(layers=layers, tolerance=tolerance) | options)


def test_some_layers(seed):
    agree([LAYERS[2], ("gru", 8, 8, 4, 1, 2), ("rnn", 16, 16, 6, 2, 1)], 0.02, "icarus", seed)


@pytest.mark.nightly
def test_layers(seed):
    assert len(LAYERS) >= 40
    agree(LAYERS, 0.01, "verilator", seed)
    agree(SMALL, 0.03, "verilator", seed)


@pytest.mark.nightly
@pytest.mark.parametrize("preset", PRESETS)
def test_layers_of_presets(preset, seed):
    """Layers up to 256 units on the lanes of presets as they are shipped."""
    cfg = load_config(preset).without_level2()
    assert max(layer[1] for layer in PRESETS[preset]) == 256
    agree(PRESETS[preset], 0.01, "verilator", seed, cfg)


@pytest.mark.soak
@pytest.mark.once
@pytest.mark.parametrize("preset", MORE)
def test_more_layers_of_presets(preset, seed):
    agree(MORE[preset], 0.01, "verilator", seed, load_config(preset).without_level2())


@pytest.mark.nightly
def test_layers_with_skipping(seed):
    """Columns of zeros, and elements that hardly changed: the model is told which."""
    skipping = [layer for layer in LAYERS if layer[-1] > 1 or layer[0] in ("lstm", "linear_gru")] + [("rnn", 16, 30, 10, 1, 4)]
    agree(skipping, 0.02, "verilator", seed, skip_zeros=True, zeros=0.8)
    for held in (0, 600):
        agree(skipping, 0.02, "verilator", seed, DIFFERENCES, held=held)


def test_zero_columns():
    """An LSTM of 16 elements and 32 inputs, one element a column: a column of zeros is a cycle of the reader instead of one of each block;
    the first column of a step's sums is never left out."""
    cfg = CFG.replace(rnn_differences=True)
    model = EngineModel(cfg, shaped_step("lstm", 16, 32), 4, skip_zeros=True)
    (blocks,) = model.blocks.values()

    def cycles(steps, zeros):
        return task_cycles(cfg, [(model, steps, [[np.full(32, zeros), np.zeros(16, bool)]] * steps)], 1)

    assert blocks == 1 and cycles(4, False) == task_cycles(cfg, [(model, 4)], 1)
    assert cycles(8, True) - cycles(4, True) <= cycles(8, False) - cycles(4, False)
    tasks = [Task(model, {"x": np.zeros((3, 32), np.int16)})]
    flags = zero_columns(cfg, build_image(cfg, tasks))
    assert [[len(sweep) for sweep in step] for step in flags[0]] == [[32, 16]] * 3
    assert all(step[0].all() for step in flags[0]) and flags[0][0][1].all()
    with pytest.raises(ValueError, match="columns of zeros of sweep 0 must be 32 flags, not .3,."):
        task_cycles(cfg, [(model, 1, [[np.zeros(3), np.zeros(16)]])], 1)


def test_step_of_a_layer():
    """The formulae, with numbers worked out by hand."""
    assert sweep_cycles(4, 512, 512, 32, 2048) == (16, 16)
    assert sweep_cycles(4, 512, 100, 16, 4096) == (7, 32)
    assert step_cycles(16, 16, 27) == 43 and step_cycles(16, 16, 27, order="rows") == 59
    assert step_cycles(16, 16, 27, threads=2) == 32 and step_cycles(16, 16, 27, products=2) == 70
    assert evaluate(4, 512, 512, 65536, 16, 4096).tile_efficiency == 0.5
    with pytest.raises(ValueError, match="ep \\* vp must be at most 64 multipliers, not 128"):
        evaluate(4, 16, 16, 64, 8, 16)
    for wrong, says in ((dict(multipliers=100), "multipliers must be a power of two, not 100"),
                        (dict(hidden=0), "hidden must be a positive integer, not 0")):
        with pytest.raises(ValueError, match=says):
            plan(**dict(gates=4, hidden=8, inputs=8, multipliers=64) | wrong)


def test_published_parallelism():
    """What docs/recurrent.md says of each published claim, by the cycle model at the bandwidth of the hardware [S3.8]."""
    def ends(multipliers, hidden):
        cycles, pairs = best_pairs("lstm", hidden, multipliers)
        return cycles, pairs[0][0], pairs[-1][0]

    assert [ends(16384, hidden)[1] for hidden in (512, 1024, 1536, 2048)] == [16, 8, 8, 4]
    assert ends(16384, 256) == (41, 128, 128) and pair_cycles("lstm", 256, 16, 1024) == 45
    assert [ends(65536, hidden)[1] for hidden in (512, 1536, 2048)] == [32, 32, 16]
    assert ends(65536, 256) == (36, 256, 256) and pair_cycles("lstm", 256, 64, 1024) == 37
    assert ends(65536, 1024) == (145, 512, 512)
    assert [ends(count, 128)[1] for count in (16384, 65536)] == [128, 128]
    cycles = {(hidden, ep, load): pair_cycles("lstm", hidden, ep, 65536 // ep, load)
              for hidden in (512, 1024) for ep in (16, 32) for load in (16, 32)}
    assert (cycles[512, 32, 16], cycles[512, 16, 16]) == (71, 75)       # a row of input, 512 * 2 // 16 + 3, and results meanwhile
    assert cycles[1024, 32, 16] == cycles[1024, 16, 16] == 147
    assert cycles[512, 32, 32] < cycles[512, 16, 32] and cycles[1024, 32, 32] < cycles[1024, 16, 32]


def test_published_parallelism_by_formula():
    """The same by the formula, in which input takes no time."""
    def best(multipliers, hidden):
        found = best_plans(4, hidden, hidden, multipliers)
        return found[0].ep, found[-1].ep

    assert all(4 <= best(16384, hidden)[0] <= 16 for hidden in (256, 512, 1024, 1536))
    assert all(16 <= best(65536, hidden)[0] <= 64 for hidden in (256, 512, 1024, 1536))
    assert best(16384, 2048)[0] < 4 <= 16 <= best(16384, 2048)[1] and best(65536, 2048)[0] < 16 <= 64 <= best(65536, 2048)[1]
    cycles = {(hidden, ep, order): evaluate(4, hidden, hidden, 65536, ep, 65536 // ep, order=order).cycles
              for hidden in (512, 1024) for ep in (16, 32) for order in ("columns", "rows")}
    assert cycles[512, 32, "columns"] < cycles[512, 16, "columns"]
    assert cycles[1024, 16, "columns"] == cycles[1024, 32, "columns"]
    assert cycles[1024, 16, "rows"] == cycles[1024, 32, "rows"] - 1
