"""The TMAU, and its golden model against a byte-by-byte copy."""

import numpy as np
import pytest
from heddle import load_config
from heddle.isa.encoding import Space, Swizzle
from heddle.isa.error_codes import ErrorCode
from heddle.tmau.transaction_table import TransactionTable
from heddle.tmau.unit import Tmau
from heddle_sim.golden.block_copy import CopyOperation, burst_ranges, check_copy, copy_block
from heddle_sim.toolchain.cocotb_runner import run_bench
from heddle_verif.bench.tmau_system import CopySystem
from heddle_verif.variants.bench_cases import bench_cases, half_of

CONFIGS = {
    "tiny": load_config("tiny").replace(axi_address_bits=17),
    "small": load_config("small").replace(axi_address_bits=17),
    "base": load_config("base").replace(axi_address_bits=17, shared_memory_kib=32, l2_kib=64),
    "large": load_config("large").replace(shared_memory_kib=64),
    "few_slots": load_config("small").replace(axi_address_bits=16, shared_memory_kib=4, axi_reads=3, axi_writes=2, copy_queue=2),
}


PART = "random_copies/profile=all|stopping|rejected|limits|memory_errors/profile=all|throughput/directions=both"


@bench_cases(PART, *CONFIGS, rare=("small", "base", "large"))
def test_unit(name, test_filter, simulator, seed):
    cfg = CONFIGS[name]
    filters = "random_copies|stopping|rejected|memory_errors|limits" if name == "few_slots" else test_filter
    run_bench(Tmau(cfg), bench="heddle_verif.bench.tmau", cfg=cfg, simulator=simulator, seed=seed, test_filter=filters,
              parameters=half_of(test_filter))


FAR = CONFIGS["tiny"].replace(far_registers=True)
WITHIN = {
    "narrow": CONFIGS["tiny"].replace(tensors=False),
    "wide": CONFIGS["base"].without_level2(shared_memory_kib=8),
    "stores": CONFIGS["small"].replace(l2_kib=4, reductions=True),
    "far": FAR.replace(tensors=False),
    "one_bus": CONFIGS["tiny"].replace(tensors=False, sparse=False, shared_writes=1),
    "small": CONFIGS["small"].replace(copy_within=True),
    "far_one_bus": FAR.replace(tensors=False, sparse=False, shared_writes=1),
}


def test_within(simulator, seed):
    """Copies within a memory, reductions."""
    run_bench(Tmau(WITHIN["narrow"]), bench="heddle_verif.bench.local_dma", cfg=WITHIN["narrow"], simulator=simulator, seed=seed,
              parameters={"rounds": 1}, test_filter="random_mix/profile=all|memory_errors|rejected|stopping")


def test_within_on_one_bus(seed):
    """Loads and copies within shared memory share the bus of ``shared_writes`` 1: a request has one bank."""
    run_bench(Tmau(WITHIN["one_bus"]), bench="heddle_verif.bench.local_dma", cfg=WITHIN["one_bus"], simulator="icarus", seed=seed,
              parameters={"rounds": 1}, test_filter="random_mix/profile=banks")


@pytest.mark.soak
@pytest.mark.parametrize("name", WITHIN)
def test_within_long(name, simulator, seed):
    run_bench(Tmau(WITHIN[name]), bench="heddle_verif.bench.local_dma", cfg=WITHIN[name], simulator=simulator, seed=seed,
              parameters={"rounds": 4}, timeout_s=800)


SYSTEMS = {"tiny": CONFIGS["tiny"], "large": CONFIGS["large"], "far": FAR}


@pytest.mark.parametrize("name", ["tiny", *(pytest.param(name, marks=pytest.mark.variant) for name in ("large", "far"))])
def test_system(name, simulator, seed):
    cfg = SYSTEMS[name]
    run_bench(CopySystem(cfg), bench="heddle_verif.bench.tmau_system", cfg=cfg, simulator=simulator, seed=seed)


@pytest.mark.parametrize("slots", [1, 0, 2.0])
def test_slots_message(slots):
    with pytest.raises(ValueError, match="^slots must be an integer of at least 2, not "):
        TransactionTable(slots)


@pytest.mark.parametrize("name", CONFIGS)
def test_golden_copies_bytes(name):
    cfg = CONFIGS[name]
    rng = np.random.default_rng(5)
    for blocks in (0, 1, 2, 31, 33, 64, 97):
        for load in (True, False):
            shared = rng.integers(0, 256, cfg.shared_bytes, np.uint8)
            memory = rng.integers(0, 256, 1 << 16, np.uint8)
            near, far = int(rng.integers(8)) * 16, int(rng.integers(64)) * 16
            expected_shared, expected_memory = shared.tolist(), memory.tolist()
            swizzle = Swizzle.B128 if blocks % 2 else Swizzle.NONE
            for n in range(16 * blocks):
                place = near + n
                if blocks % 2:          # block b of row r of 128 bytes lies at place b XOR r
                    row, block = place // 128, place // 16 % 8
                    place = 128 * row + 16 * (block ^ row % 8) + place % 16
                if load:
                    expected_shared[place] = expected_memory[far + n]
                else:
                    expected_memory[far + n] = expected_shared[place]
            spaces = (Space.SHARED, Space.GLOBAL) if load else (Space.GLOBAL, Space.SHARED)
            operation = CopyOperation(*spaces, near if load else far, far if load else near, blocks, has_barrier=1, swizzle=swizzle)
            result = copy_block(cfg, operation, shared, memory)
            assert (result.errors, result.arrived) == ([], 16 * blocks)
            assert shared.tolist() == expected_shared
            assert memory.tolist() == expected_memory


def test_golden_bursts():
    cfg = CONFIGS["base"]
    assert burst_ranges(cfg, 0, 0) == []
    assert burst_ranges(cfg, 496, 32) == [(496, 512), (512, 528)]
    assert burst_ranges(cfg, 0, 1040) == [(0, 512), (512, 1024), (1024, 1040)]


def test_golden_memory_errors():
    cfg = CONFIGS["base"]       # beats of 32 bytes
    shared, memory = np.zeros(4096, np.uint8), np.arange(4096, dtype=np.uint16).astype(np.uint8)
    operation = CopyOperation(Space.SHARED, Space.GLOBAL, 0, 496, 4, has_barrier=1, pc=9)
    result = copy_block(cfg, operation, shared, memory, fails=lambda address: address == 512)
    assert result.errors == [(ErrorCode.AXI_READ, 9, 512)]
    assert (result.arrived, result.bursts) == (64, 2)
    assert not shared[16:48].any()
    assert shared[48:64].tolist() == memory[544:560].tolist()


@pytest.mark.parametrize("changes, error", [
    ({"kind": 2, "blocks": 0}, (ErrorCode.UNSUPPORTED, 2)),
    ({"source_space": Space.SHARED}, (ErrorCode.UNSUPPORTED, 0)),
    ({"blocks": 0, "source": 1}, None),
    ({"destination": 8, "source": 4}, (ErrorCode.MISALIGNED, 8)),
    ({"source": 4}, (ErrorCode.MISALIGNED, 4)),
    ({"destination": 32 * 1024, "source": 1 << 17}, (ErrorCode.OUT_OF_RANGE, 32 * 1024)),
    ({"destination": 32 * 1024 - 16, "blocks": 2}, (ErrorCode.OUT_OF_RANGE, 32 * 1024)),
    ({"source": 1 << 17}, (ErrorCode.OUT_OF_RANGE, 1 << 17)),
    ({"source": (1 << 17) - 16, "blocks": 2}, (ErrorCode.OUT_OF_RANGE, 1 << 17)),
    ({"source": (1 << 17) - 16}, None),
])
def test_golden_checks(changes, error):
    fields = {"destination_space": Space.SHARED, "source_space": Space.GLOBAL, "destination": 0, "source": 0, "blocks": 1}
    assert check_copy(CONFIGS["base"].replace(copy_within=False), CopyOperation(**(fields | changes))) == error
