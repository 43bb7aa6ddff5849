"""The matrix unit and its parts in simulation, and the golden model against plain loops."""

import numpy as np
import pytest
from heddle import load_config
from heddle.datapath.pe import PE
from heddle.isa.encoding import LoopOrder, Space, Swizzle
from heddle.isa.error_codes import ErrorCode
from heddle.isa.tensor_descriptor import SWIZZLE_BYTES
from heddle.lib.adder_tree import AdderTree
from heddle.matrix.unit import MatrixUnit
from heddle_sim.golden.block_copy import CopyOperation, copy_block
from heddle_sim.golden.matrix import MatrixOperation, matrix_steps, multiply
from heddle_sim.toolchain.cocotb_runner import run_bench
from heddle_verif.variants.bench_cases import bench_cases, half_of

TINY = load_config("tiny")
PLAIN = TINY.replace(rnn=False, sparse=False, gather_offsets=False)
CONFIGS = {
    "tiny": TINY,
    "dot8": PLAIN.replace(dot=8, thread_slots=4, matrix_queue=2, fetch_words=1),
    "dot16": PLAIN.replace(dot=16, thread_slots=1, fetch_words=2, wide_lanes=True),
    "plain": PLAIN.replace(dot=8, thread_slots=1, fetch_words=1, mm16=False, transpose=False),
    "far": PLAIN.replace(dot=8, thread_slots=1, fetch_words=1, mm16=False, transpose=False, far_registers=True, shared_writes=1),
    "far_slots": TINY.replace(far_registers=True),
    "threads16": PLAIN.replace(threads=16, shared_memory_kib=4, factor_words=32, fetch_words=16, mm16=False),
}


PART = ("profile=banks|repeats|first_step|errors|stop_discards|transposed_once/int16=1|transposed_errors|"
        "no_bubbles/order=SLICES_OUTER|writes_between_steps")


@bench_cases(PART, *CONFIGS, rare=("dot8", "dot16", "far_slots", "threads16"))
def test_matrix_unit(name, test_filter, simulator, seed):
    cfg = CONFIGS[name]
    filters = "profile=(banks|operations)|repeats|every_merge|first_step|errors" if name in ("plain", "far") else test_filter
    summary = run_bench(MatrixUnit(cfg), bench="heddle_verif.bench.matrix", cfg=cfg, simulator=simulator, seed=seed, test_filter=filters,
                        parameters=half_of(test_filter) if name == "tiny" else {"fewer": 3})
    assert summary["tests"] == {None: 22, PART: 9}.get(filters, 7)


@bench_cases("stalls=0.3", "tiny", "dot8", "dot16", "far_slots", "threads16")
def test_compiled_offsets(name, test_filter, simulator, seed):
    cfg = CONFIGS[name]
    summary = run_bench(MatrixUnit(cfg), bench="heddle_verif.bench.matrix_offsets", cfg=cfg, simulator=simulator, seed=seed,
                        test_filter=test_filter)
    assert summary["tests"] == (1 if test_filter else 4)


@pytest.mark.nightly
def test_merges_of_sixteen_threads(seed):
    """A group of three or four threads for a row, each with three or four for a dot product, takes more threads than ``tiny`` has."""
    cfg = PLAIN.replace(threads=16, shared_memory_kib=4, factor_words=32, fetch_words=4)
    summary = run_bench(MatrixUnit(cfg), bench="heddle_verif.bench.matrix", cfg=cfg, simulator="icarus", seed=seed,
                        test_filter="every_merge")
    assert summary["tests"] == 1


@pytest.mark.smoke
@pytest.mark.parametrize("config", ["tiny", *(pytest.param(name, marks=pytest.mark.variant) for name in ("dot8", "dot16"))])
def test_pe(config, simulator, seed):
    cfg = CONFIGS[config]
    summary = run_bench(PE(cfg), bench="heddle_verif.bench.pe", cfg=cfg, simulator=simulator, seed=seed)
    assert summary["tests"] == 2


@pytest.mark.parametrize(("width", "depth"), [(18, 3), (1, 1), (8, 4)])
def test_adder_tree(width, depth, simulator, seed):
    run_bench(AdderTree(width, depth), bench="heddle_verif.bench.adder_tree", simulator=simulator, seed=seed,
              parameters={"width": width, "depth": depth})


@pytest.mark.parametrize(("width", "depth", "message"), [
    (0, 1, "width must be at least 1, not 0"), (8, -1, "depth must not be negative, not -1")])
def test_adder_tree_parameters(width, depth, message):
    with pytest.raises(ValueError, match=message):
        AdderTree(width, depth)


def operation(**fields):
    threads = TINY.threads
    return MatrixOperation(**({"columns": np.ones(threads, bool), "lanes": np.ones(threads, bool), "zero": 1} | fields))


def state(seed=0):
    rng = np.random.default_rng(seed)
    products = rng.integers(-(1 << 31), 1 << 31, (TINY.threads, 256), np.int32)
    factors = rng.integers(0, 256, (TINY.threads, TINY.factor_words, TINY.dot), np.uint8)
    shared = rng.integers(0, 256, TINY.shared_bytes, np.uint8)
    numbers = factors.reshape(TINY.threads, -1).view("<u4")
    numbers[:, -1] = np.arange(TINY.threads) * 64       # an offset for each column in the last register
    return products, factors, shared


@pytest.mark.parametrize("order", list(LoopOrder))
@pytest.mark.parametrize("signs", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_golden_is_a_matrix_product(order, signs):
    """With all columns and slices the products are A x B in plain integers [S0.3, S0.4]."""
    products, factors, shared = state()
    result = multiply(products, factors, shared, operation(
        product=8, factor_word=3, k_length=5, order=order, a_signed=signs[0], b_signed=signs[1], offset_register=TINY.factor_registers - 1))
    kinds = [np.int8 if sign else np.uint8 for sign in signs]
    for row in range(TINY.threads):
        a = factors[row, 3:9].reshape(-1).view(kinds[0])
        for column in range(TINY.threads):
            b = shared[64 * column:64 * column + 24].view(kinds[1])
            assert result.products[row, 8 + column] == sum(int(x) * int(y) for x, y in zip(a, b, strict=True))
    assert not result.errors
    assert len(result.addresses) == 6 * TINY.threads


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize(("ka", "kb"), [(ka, kb) for ka in range(1, 5) for kb in range(1, 5) if ka < 3 or kb < 3])
def test_golden_merges(ka, kb, interleaved):
    """A group of lanes gives a row of A x B; each holds its part of that row's k and of its columns [S0.5-S0.7]."""
    products, factors, shared = state()
    lanes_b, size = (1, 2, 4, 4)[kb - 1], (1, 2, 4, 4)[ka - 1] * (1, 2, 4, 4)[kb - 1]
    slices, destination = 3, kb - 1
    result = multiply(products, factors, shared, operation(
        product=8, factor_word=3, k_length=slices - 1, ka=ka - 1, ka_interleaved=interleaved, kb=kb - 1,
        kb_destination=destination, offset_register=TINY.factor_registers - 1))
    expected = products.copy()
    for row in range(TINY.threads // size):
        for column in range(TINY.threads):
            length = -(-TINY.threads // ka)
            place, index = (column % ka, column // ka) if interleaved else (column // length, column % length)
            lanes = [row * size + place * lanes_b + part for part in range(kb)]
            a = [int(factors[lane, 3 + number, element].view(np.int8))
                 for number in range(slices) for lane in lanes for element in range(TINY.dot)]
            b = shared[64 * column:64 * column + len(a)].view(np.int8)
            expected[lanes[destination], 8 + index] = sum(int(x) * int(y) for x, y in zip(a, b, strict=True))
    assert (result.products == expected).all()
    assert not result.errors
    assert len(result.steps) == slices * -(-TINY.threads // ka)


def test_golden_masks_and_wraps():
    """Columns that are not fetched and lanes that do not take part keep their registers; sums wrap [S0.9]."""
    products, factors, shared = state()
    factors[0, 0], shared[64:68] = 127, 127
    products[0, 1] = 0x7FFFFFFF
    columns = np.arange(TINY.threads) == 1
    lanes = np.arange(TINY.threads) < 2
    result = multiply(products, factors, shared, operation(
        columns=columns, lanes=lanes, zero=0, offset_register=TINY.factor_registers - 1))
    changed = result.products != products
    assert not changed[2:].any()
    assert not changed[:, np.arange(256) != 1].any()
    assert result.products[0, 1] == -(1 << 31) + 4 * 127 * 127 - 1


def test_golden_errors():
    products, factors, shared = state()
    last = TINY.factor_registers - 1
    result = multiply(products, factors, shared, operation(product=250, offset_register=last, pc=7))
    assert result.errors == [(ErrorCode.PRODUCT_RANGE, 7, 256)]
    assert result.addresses == [64 * column for column in range(6)]
    result = multiply(products, factors, shared, operation(base=2, offset_register=last))
    assert result.errors == [(ErrorCode.MISALIGNED, 0, 2)] and (result.products == products).all()
    result = multiply(products, factors, shared, operation(base=TINY.shared_bytes - 64, offset_register=last))
    assert result.errors == [(ErrorCode.OUT_OF_RANGE, 0, TINY.shared_bytes)]
    assert len(result.addresses) == 1


@pytest.mark.parametrize("swizzle", [Swizzle.B32, Swizzle.B64, Swizzle.B128])
@pytest.mark.parametrize("merge", [{}, {"ka": 1, "kb": 1}, {"kb": 3, "kb_destination": 2}, {"lane_sum": 1}])
@pytest.mark.parametrize("transpose", [0, 1])
def test_golden_reads_what_a_copy_swizzled(swizzle, merge, transpose):
    """A tile that a copy wrote with a swizzle gives A x B: columns of B in its rows, or with transpose rows of k [S0.8, S1.8]."""
    products, factors, shared = state()
    lanes_b, words = (1, 2, 4, 4)[merge.get("kb", 0)], TINY.threads if merge.get("lane_sum") else merge.get("kb", 0) + 1
    span, slices = SWIZZLE_BYTES[swizzle.value], min(3, SWIZZLE_BYTES[swizzle.value] // (words * TINY.dot))
    k = slices * words * TINY.dot
    tile = np.random.default_rng(span).integers(0, 256, (k if transpose else TINY.threads, span), np.uint8)
    base, blocks = 5 * 128, tile.size // 16
    assert not copy_block(TINY, CopyOperation(Space.SHARED, Space.GLOBAL, base, 0, blocks, swizzle=swizzle), shared, tile.ravel()).errors
    b = (tile[:, :TINY.threads] if transpose else tile[:, :k].T).view(np.int8).astype(int)         # [k, columns]
    factors.reshape(TINY.threads, -1).view("<u4")[:, -1] = np.arange(TINY.threads) * (1 if transpose else span)
    fields = {"product": 8, "factor_word": 3, "k_length": slices - 1, "base": base, "offset_register": TINY.factor_registers - 1,
              "transpose": transpose, "pitch": span, **merge}
    result = multiply(products, factors, shared, operation(**fields, swizzle=swizzle))
    assert not result.errors
    a = factors[:, 3:3 + slices].view(np.int8).astype(int)                                     # [threads, slices, dot]
    if merge.get("lane_sum"):
        expected = a.transpose(1, 0, 2).reshape(-1) @ b
        assert (result.products[0, 8:8 + TINY.threads] == expected).all()
    else:
        ka, size = merge.get("ka", 0) + 1, lanes_b * (1, 2, 4, 4)[merge.get("ka", 0)]
        length = TINY.threads // ka
        for lane in range(0, TINY.threads, lanes_b):
            row = a[lane:lane + words].transpose(1, 0, 2).reshape(-1)
            columns = np.arange(length) + lane % size // lanes_b * length
            assert (result.products[lane + merge.get("kb_destination", 0), 8:8 + length] == row @ b[:, columns]).all()
    assert (multiply(products, factors, shared, operation(**fields)).products != result.products).any()


def test_golden_panels():
    """A column of a swizzled tile ends in its row of shared memory; the error is where it goes on, without swizzle."""
    products, factors, shared = state()
    fields = {"offset_register": TINY.factor_registers - 1, "swizzle": Swizzle.B128, "columns": np.arange(TINY.threads) == 5, "k_length": 3}
    assert not multiply(products, factors, shared, operation(base=48, **fields)).errors
    result = multiply(products, factors, shared, operation(base=56, **fields))        # column 5 begins at 376
    assert result.errors == [(ErrorCode.PANEL_RANGE, 0, 384)]
    assert result.addresses == [376 ^ 2 << 4, 380 ^ 2 << 4] and result.unfinished == {0: 384 ^ 3 << 4}
    assert not multiply(products, factors, shared, operation(base=56, **fields | {"swizzle": Swizzle.NONE})).errors


def test_steps_in_loop_order():
    columns = np.array([0, 1, 0, 1, 0, 0, 0, 0], bool)
    fields = {"columns": columns, "k_length": 1}
    assert matrix_steps(operation(order=LoopOrder.SLICES_OUTER, **fields)) == [(1, 0), (3, 0), (1, 1), (3, 1)]
    assert matrix_steps(operation(order=LoopOrder.COLUMNS_OUTER, **fields)) == [(1, 0), (1, 1), (3, 0), (3, 1)]
