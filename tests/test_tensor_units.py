"""Units of tensor copies."""

from heddle import load_config
from heddle.tmau.box_walk import BoxWalk
from heddle.tmau.setup import TensorSetup
from heddle_sim.harness import run_bench


def test_box_walk(simulator, seed):
    cfg = load_config("tiny")
    run_bench(BoxWalk(cfg), bench="heddle_verif.bench.box_walk", cfg=cfg, simulator=simulator, seed=seed)


def test_setup(simulator, seed):
    cfg = load_config("tiny")
    run_bench(TensorSetup(cfg), bench="heddle_verif.bench.tensor_setup", cfg=cfg, simulator=simulator, seed=seed)
