"""Units of the TMAU at the ports of shared memory, with shared memory of any latency."""

import pytest
from heddle import load_config
from heddle.tmau.beat_reader import BeatReader
from heddle.tmau.beat_writer import BeatWriter
from heddle.tmau.local_dma_shared import SharedDma
from heddle_sim.toolchain.cocotb_runner import run_bench
from heddle_verif.bench.shared_port_merge import make_unit

CONFIGS = {
    "tiny": load_config("tiny").replace(axi_address_bits=17),                                               # half a bank a beat
    "small": load_config("small").replace(axi_address_bits=17),                                             # one bus, slices
    "base": load_config("base").replace(axi_address_bits=17, shared_memory_kib=32, l2_kib=64),              # two banks a beat
    "large": load_config("large").replace(shared_memory_kib=64),                                            # four banks a beat
    "multicast": load_config("tiny").without_level2(axi_address_bits=17, cores=2, multicast=True),
}
VARIANTS = ["base", pytest.param("tiny", marks=pytest.mark.nightly),
            *(pytest.param(name, marks=pytest.mark.variant) for name in ("small", "large"))]


@pytest.mark.parametrize("name", [*VARIANTS, pytest.param("multicast", marks=pytest.mark.variant)])
def test_beat_writer(name, simulator, seed):
    cfg = CONFIGS[name]
    run_bench(BeatWriter(cfg), bench="heddle_verif.bench.beat_writer", cfg=cfg, simulator=simulator, seed=seed)


@pytest.mark.parametrize("name", VARIANTS)
def test_beat_reader(name, simulator, seed):
    cfg = CONFIGS[name]
    run_bench(BeatReader(cfg), bench="heddle_verif.bench.beat_reader", cfg=cfg, simulator=simulator, seed=seed)


@pytest.mark.parametrize("kind, name", [
    ("read", "base"), ("write", "base"), pytest.param("write", "small", marks=pytest.mark.nightly)])
def test_merge(kind, name, simulator, seed):
    cfg = CONFIGS[name]
    run_bench(make_unit(cfg, kind), bench="heddle_verif.bench.shared_port_merge", cfg=cfg, simulator=simulator, seed=seed,
              parameters={"kind": kind})


@pytest.mark.parametrize("name", ["base", pytest.param("small", marks=pytest.mark.variant)])
def test_local_dma_within_shared_memory(name, simulator, seed):
    cfg = CONFIGS[name].replace(copy_within=True, shared_memory_kib=128)
    run_bench(SharedDma(cfg), bench="heddle_verif.bench.local_dma_shared", cfg=cfg, simulator=simulator, seed=seed)
