"""Units of tensor copies."""

from heddle import load_config
from heddle.tmau.box_walk import BoxWalk
from heddle_sim.harness import run_bench


def test_box_walk(simulator, seed):
    cfg = load_config("tiny")
    run_bench(BoxWalk(cfg), bench="heddle_verif.bench.box_walk", cfg=cfg, simulator=simulator, seed=seed)
