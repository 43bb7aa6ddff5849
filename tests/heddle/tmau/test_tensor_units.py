"""Units of tensor copies."""

import pytest
from heddle import load_config
from heddle.tmau.box_walk import BoxWalk
from heddle.tmau.descriptor_cache import DescriptorCache
from heddle.tmau.load_engine import LoadEngine
from heddle.tmau.multicast_network import MulticastNetwork
from heddle.tmau.request_generator import RequestGenerator
from heddle.tmau.row_bursts import RowBursts
from heddle.tmau.setup import TensorSetup
from heddle.tmau.unit import Tmau
from heddle_sim.toolchain.cocotb_runner import run_bench
from heddle_verif.bench.tmau_system import CopySystem
from heddle_verif.duts.multicast_loop import LoopedLoad


def test_box_walk(simulator, seed):
    cfg = load_config("tiny")
    run_bench(BoxWalk(cfg), bench="heddle_verif.bench.box_walk", cfg=cfg, simulator=simulator, seed=seed)


def test_setup(simulator, seed):
    cfg = load_config("tiny")
    run_bench(TensorSetup(cfg), bench="heddle_verif.bench.tensor_setup", cfg=cfg, simulator=simulator, seed=seed)


def test_row_bursts(simulator, seed):
    cfg = load_config("tiny")
    run_bench(RowBursts(cfg), bench="heddle_verif.bench.row_bursts", cfg=cfg, simulator=simulator, seed=seed)


@pytest.mark.parametrize("name, entries", [("tiny", 2), pytest.param("large", 8, marks=pytest.mark.variant)])
def test_descriptor_cache(name, entries, simulator, seed):
    cfg = load_config(name)
    run_bench(DescriptorCache(cfg, 16, entries), bench="heddle_verif.bench.descriptor_cache", cfg=cfg, simulator=simulator, seed=seed,
              parameters={"entries": entries})


@pytest.mark.parametrize("entries", [1, 3, True, "8"])
def test_descriptor_cache_parameters(entries):
    with pytest.raises(ValueError, match="^entries must be a power of two of at least 2, not "):
        DescriptorCache(load_config("tiny"), 16, entries)


def test_request_generator(simulator, seed):
    cfg = load_config("tiny")
    run_bench(RequestGenerator(cfg), bench="heddle_verif.bench.request_generator", cfg=cfg, simulator=simulator, seed=seed)


@pytest.mark.parametrize("name", ["tiny", pytest.param("base", marks=pytest.mark.variant)])
def test_load(name, simulator, seed):
    cfg = load_config(name).replace(tensors=True)
    run_bench(LoadEngine(cfg), bench="heddle_verif.bench.tensor_load", cfg=cfg, simulator=simulator, seed=seed)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["tiny", "base"])
def test_multicast_load(name, seed):
    """Beats that the network brings back do what beats of plain loads do."""
    cfg = load_config(name).replace(tensors=True, cores=2, multicast=True)
    run_bench(LoopedLoad(cfg), bench="heddle_verif.bench.tensor_load", cfg=cfg, simulator="icarus", seed=seed,
              test_filter="bursts_inside_and_outside")


@pytest.mark.parametrize("cores", [5, pytest.param(2, marks=pytest.mark.nightly)])
def test_multicast_network(cores, simulator, seed):
    cfg = load_config("tiny").without_level2(tensors=True, cores=cores, multicast=True)
    run_bench(MulticastNetwork(cfg), bench="heddle_verif.bench.multicast", cfg=cfg, simulator=simulator, seed=seed)


def _tmau(cfg, bench, simulator, seed, **options):
    run_bench(Tmau(cfg), bench=f"heddle_verif.bench.{bench}", cfg=cfg, simulator=simulator, seed=seed, **options)


def test_tmau(seed):
    cfg = load_config("tiny").replace(tensors=True, axi_address_bits=17)
    _tmau(cfg, "tensor_copies", "icarus", seed, parameters={"legal": 35, "illegal": 15})


@pytest.mark.parametrize("kind, batches", [("icarus", 1), pytest.param("verilator", 8, marks=pytest.mark.nightly),
                                           pytest.param("verilator", 30, marks=pytest.mark.soak)])
def test_store_groups(kind, batches, seed):
    cfg = load_config("tiny").replace(tensors=True, axi_address_bits=17)
    _tmau(cfg, "store_groups", kind, seed, parameters={"batches": batches})


@pytest.mark.nightly
def test_tmau_without_features(seed):
    """What the configuration lacks is refused, and the rest works."""
    cfg = load_config("tiny").replace(tensors=True, axi_address_bits=17, tensor_im2col=False, tensor_floats=False, tensor_interleave=False,
                                      tensor_strides=False, tensor_nan=False, copy_swizzles=False)
    _tmau(cfg, "tensor_copies", "icarus", seed, parameters={"legal": 40, "illegal": 20})


@pytest.mark.soak
@pytest.mark.parametrize("name", ["tiny", "base", "large"])
def test_tmau_many(name, seed):
    cfg = load_config(name)
    cfg = cfg.replace(axi_address_bits=17, shared_memory_kib=32, l2_kib=min(cfg.l2_kib, 64))
    _tmau(cfg, "tensor_copies", "verilator", seed, parameters={"legal": 2000, "illegal": 300}, timeout_s=3000)


@pytest.mark.parametrize("cases", [
    pytest.param("number=(1|17|25)$", marks=pytest.mark.nightly), pytest.param(None, marks=[pytest.mark.soak, pytest.mark.once])])
def test_copy_speed(cases, seed):
    cfg = load_config("base").replace(axi_address_bits=17, shared_memory_kib=32, l2_kib=64)
    _tmau(cfg, "tensor_speed", "icarus", seed, test_filter=cases, timeout_s=900)


@pytest.mark.nightly
def test_blocks_beside_tensors(seed):
    cfg = load_config("tiny").replace(tensors=True, axi_address_bits=17)
    _tmau(cfg, "tmau", "verilator", seed)


def test_first_address(seed):
    cfg = load_config("tiny").replace(tensors=True, axi_address_bits=17)
    run_bench(CopySystem(cfg), bench="heddle_verif.bench.tensor_system", cfg=cfg, simulator="icarus", seed=seed)
