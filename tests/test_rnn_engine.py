"""The engine for recurrent networks."""

import pytest
from heddle import load_config
from heddle_sim.harness import run_bench
from heddle_verif.engine_system import EngineSystem

CONFIGS = {
    "tiny": dict(),
    "few": dict(thread_slots=4, rnn_contexts=2, rnn_differences=True),
    "one": dict(thread_slots=1, rnn_contexts=1, dot=8),
    "wide": dict(threads=16, thread_slots=16, dot=4),
}


@pytest.mark.verilator_nightly
@pytest.mark.parametrize("name", ["tiny", "one", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("few", "wide"))])
def test_engine(name, simulator, seed):
    changes = dict(rnn=True, factor_words=512, shared_memory_kib=32, rnn_elements=1024) | CONFIGS[name]
    cfg = load_config("tiny").replace(**changes)
    run_bench(EngineSystem(cfg), bench="heddle_verif.bench.rnn_engine", cfg=cfg, simulator=simulator, seed=seed)
