"""Tail of the engine for recurrent networks."""

import numpy as np
import pytest
from heddle import load_config
from heddle.rnn.activation import interval_table
from heddle.rnn.layouts import Cell, Function, Pre, operation_layout
from heddle.rnn.tail import Tail
from heddle_sim.golden.rnn_tail import activation, dequantise, tail
from heddle_sim.harness import run_bench

ALL = np.arange(-1 << 17, 1 << 17)


@pytest.mark.parametrize("function, reference, bound", [
    (Function.SIGMOID, lambda x: 1 / (1 + np.exp(-x)), 3.81),
    (Function.TANH, np.tanh, 6.61),
])
def test_every_argument(function, reference, bound):
    """Accuracy and monotonicity of the activations over all arguments, against double precision [S3.5]."""
    f = activation(function, ALL)
    error = np.abs(f - 65536 * reference(ALL / 8192)).max()
    assert bound - 0.01 < error < bound         # the page states it
    assert (np.diff(f) >= 0).all()
    assert abs(f).max() <= 65536


def test_rnn_tail(simulator, seed):
    cfg = load_config("tiny").replace(rnn=True, rnn_elements=1024, rnn_records=64, thread_slots=2)
    run_bench(Tail(cfg), bench="heddle_verif.bench.rnn_tail", cfg=cfg, simulator=simulator, seed=seed, parameters={"tables": 4, "jobs": 20})
