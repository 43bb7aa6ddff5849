"""Shared memory, barriers and the way to global memory."""

import pytest
from heddle import load_config
from heddle.memory.axi_master import AxiMaster
from heddle.memory.barriers import Barriers
from heddle.memory.global_arbiter import GlobalArbiter
from heddle.memory.shared_memory import SharedMemory
from heddle_sim.toolchain.cocotb_runner import run_bench


@pytest.mark.parametrize("readers, writers, shared_writes", [
    pytest.param(3, 2, 8, marks=pytest.mark.smoke), pytest.param(1, 1, 8, marks=pytest.mark.variant),
    pytest.param(3, 2, 1, marks=pytest.mark.nightly),
    pytest.param(4, 3, 8, marks=pytest.mark.variant)])
def test_shared_memory(readers, writers, shared_writes, simulator, seed):
    cfg = load_config("tiny").replace(sparse=False, shared_writes=shared_writes, bank_patience=16)
    run_bench(SharedMemory(cfg, readers, writers), bench="heddle_verif.bench.shared_memory", cfg=cfg, simulator=simulator, seed=seed,
              parameters={"readers": readers, "writers": writers})


@pytest.mark.parametrize("ports", [{"readers": 0}, {"writers": 0}, {"readers": 1.5}])
def test_shared_memory_parameters(ports):
    with pytest.raises(ValueError, match="^(readers|writers) must be an integer of at least 1, not "):
        SharedMemory(load_config("tiny"), **ports)


@pytest.mark.parametrize("multicast", [False, pytest.param(True, marks=pytest.mark.variant)])
def test_barriers(multicast, simulator, seed):
    cfg = load_config("tiny").without_level2(multicast=multicast, cores=1 + multicast)
    run_bench(Barriers(cfg), bench="heddle_verif.bench.barriers", cfg=cfg, simulator=simulator, seed=seed)


@pytest.mark.parametrize("name", ["tiny", pytest.param("base", marks=pytest.mark.variant)])
def test_arbiter(name, simulator, seed):
    cfg = load_config(name)
    run_bench(GlobalArbiter(cfg), bench="heddle_verif.bench.arbiter", cfg=cfg, simulator=simulator, seed=seed)


def test_arbiter_with_second_level(simulator, seed):
    cfg = load_config("tiny")
    run_bench(GlobalArbiter(cfg), bench="heddle_verif.bench.arbiter", cfg=cfg, simulator=simulator, seed=seed, test_filter="random_traffic")


@pytest.mark.parametrize("name", ["tiny", pytest.param("large", marks=pytest.mark.variant)])
def test_axi_master(name, simulator, seed):
    cfg = load_config(name)
    run_bench(AxiMaster(cfg), bench="heddle_verif.bench.axi_master", cfg=cfg, simulator=simulator, seed=seed)
