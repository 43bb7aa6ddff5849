"""B in rows of k: ``mm`` with ``.t1`` in the models, and products of matrices that lie so in memory [S0.8]."""

import json

import numpy as np
import pytest
from heddle import load_config
from heddle.constants import BANK_BYTES, FIRST_FACTOR_REGISTER
from heddle.isa.encoding import LoopOrder, Swizzle
from heddle.isa.error_codes import ErrorCode
from heddle_sim import Device
from heddle_sim.cli.main import main
from heddle_sim.device.errors import DeviceError
from heddle_sim.functional.simulator import FunctionalSimulator
from heddle_sim.functional.unit_operations import multiply
from heddle_sim.golden.matrix import MatrixOperation
from heddle_sim.golden.matrix import multiply as golden_multiply
from heddle_sim.kernels.parts.merges import Merge

TINY = load_config("tiny")


@pytest.mark.parametrize("int16", [0, 1])
def test_golden_columns_of_rows(int16):
    """Column n is the elements ``pitch`` bytes apart from its address on; neighbouring columns share pieces."""
    rng = np.random.default_rng(1)
    kind, threads, slices, pitch = ("<i2" if int16 else "i1"), TINY.threads, 3, 48
    rows = slices * TINY.dot >> int16
    shared = rng.integers(0, 256, TINY.shared_bytes, np.uint8)
    factors = rng.integers(0, 256, (threads, TINY.factor_words, TINY.dot), np.uint8)
    factors.reshape(threads, -1).view("<u4")[:, -1] = np.arange(threads)
    everything = np.ones(threads, bool)
    result = golden_multiply(np.zeros((threads, 256), np.int32), factors, shared, MatrixOperation(
        columns=everything, lanes=everything, k_length=slices - 1, base=20, element_shift=int16, int16=int16, transpose=1, pitch=pitch,
        offset_register=TINY.factor_registers - 1))
    b = np.stack([shared[20 + row * pitch:][:threads * (1 + int16)].view(kind) for row in range(rows)])
    a = factors[:, :slices].reshape(threads, -1).view(kind)
    assert not result.errors
    assert (result.products[:, :threads] == (a.astype(np.int64) @ b).astype(np.uint32).view(np.int32)).all()
    blocks = [block for piece in result.pieces for block in piece]
    assert len(blocks) == len(set(blocks)) == rows * -(-(20 % BANK_BYTES + threads * (1 + int16)) // BANK_BYTES)


MERGES = [{"ka": ka, "ka_interleaved": interleaved, "kb": kb, "kb_destination": kb} for ka in range(4) for interleaved in (0, 1)
          for kb in range(4) if ka < 2 or kb < 2] + [{"lane_sum": 1}]


@pytest.mark.parametrize("merge", MERGES, ids=lambda merge: "-".join(map(str, merge.values())))
def test_golden_merges_of_rows(merge):
    """The same as with columns, which hold the same elements; each block of B is fetched once."""
    rng = np.random.default_rng(6)
    threads, slices, pitch = TINY.threads, 2, 32
    words = threads if "lane_sum" in merge else merge["kb"] + 1
    b = rng.integers(0, 256, (slices * words * TINY.dot, threads), np.uint8)
    in_rows, in_columns = np.zeros(TINY.shared_bytes, np.uint8), np.zeros(TINY.shared_bytes, np.uint8)
    for number, row in enumerate(b):
        in_rows[16 + number * pitch:][:threads] = row
    for number, column in enumerate(b.T):
        in_columns[512 * number:][:len(b)] = column
    factors = rng.integers(0, 256, (threads, TINY.factor_words, TINY.dot), np.uint8)
    offsets = factors.reshape(threads, -1).view("<u4")
    offsets[:, -1], offsets[:, -2] = np.arange(threads), 512 * np.arange(threads)
    products = rng.integers(-(1 << 31), 1 << 31, (threads, 256), np.int32)
    mask = rng.integers(0, 4, (2, threads)) > 0
    fields = {"columns": mask[0], "lanes": mask[1], "k_length": slices - 1, "product": 5, "zero": 1} | merge
    rows = golden_multiply(products, factors, in_rows, MatrixOperation(
        **fields, base=16, transpose=1, pitch=pitch, offset_register=TINY.factor_registers - 1))
    columns = golden_multiply(products, factors, in_columns, MatrixOperation(**fields, offset_register=TINY.factor_registers - 2))
    assert not rows.errors and not columns.errors
    assert (rows.products == columns.products).all()
    assert [len(piece) for piece in rows.pieces] == [TINY.dot] * (slices * words)


def test_fast_model_is_the_golden_model():
    """Random operations of the functional simulator, wrong distances and addresses included."""
    rng = np.random.default_rng(2)
    codes = set()
    merges = [{}, {}, *MERGES]
    for count in range(300):
        cfg = (TINY, load_config("base"))[count % 2]
        sim = FunctionalSimulator(cfg)
        registers = sim.state.registers
        registers[:] = rng.integers(0, 1 << 32, registers.shape, dtype=np.uint32)
        sim.state.shared[:] = rng.integers(0, 256, cfg.shared_bytes)
        registers[:, -1] = np.arange(cfg.threads) * rng.choice([1, 2])
        operation = MatrixOperation(
            columns=rng.integers(0, 2, cfg.threads) > 0, lanes=rng.integers(0, 2, cfg.threads) > 0, product=int(rng.choice([0, 250])),
            factor_word=int(rng.integers(cfg.factor_words - 16)), offset_register=cfg.registers - 1 - FIRST_FACTOR_REGISTER,
            base=int(rng.choice([0, 3, 16, cfg.shared_bytes // 2, cfg.shared_bytes - 1])), element_shift=int(rng.integers(2)),
            a_signed=count & 1, b_signed=count >> 1 & 1, zero=count >> 2 & 1, int16=count >> 3 & 1, order=LoopOrder(count >> 4 & 1),
            k_length=int(rng.integers(16)), transpose=1, swizzle=Swizzle(int(rng.integers(4))), **merges[int(rng.integers(len(merges)))],
            pitch=int(rng.choice([0, 16, 48, 8, cfg.shared_bytes // 4, cfg.shared_bytes, 0xFFFFFFF0])))
        factors = registers.view(np.uint8)[:, 4 * FIRST_FACTOR_REGISTER:].reshape(cfg.threads, cfg.factor_words, cfg.dot)
        expected = golden_multiply(registers[:, :256].view(np.int32), factors, sim.state.shared, operation)
        errors, steps = multiply(sim.state, operation)
        assert (registers[:, :256].view(np.int32) == expected.products).all()
        assert errors == [(code, operand) for code, _, operand in expected.errors]
        assert steps == len(expected.steps) * cfg.passes(1 + operation.int16)
        codes |= {code for code, _ in errors} or {ErrorCode.NONE}
    assert codes == {ErrorCode.NONE, ErrorCode.PRODUCT_RANGE, ErrorCode.MISALIGNED, ErrorCode.OUT_OF_RANGE}


@pytest.mark.parametrize(("text", "code", "operand"), [
    ("umov ur4, 24\nmm8.t1 r0, ur4:rf256:0, r257", ErrorCode.MISALIGNED, 24),
    ("umov ur4, 0x4000\nmm8.t1 r0, ur4:rf256:0, r257", ErrorCode.OUT_OF_RANGE, 0x4000),
    ("umov ur4, 16\nmm8.t1 r0, ur4:rf256:0x3fd0, r257", ErrorCode.OUT_OF_RANGE, 0x4000),
    ("umov ur4, 16\nmm16.t1 r0, ur4:rf256:1, r257", ErrorCode.MISALIGNED, 1),
])
def test_errors_of_rows(text, code, operand):
    with Device(TINY, "golden") as golden, pytest.raises(DeviceError, match=code.name) as caught:
        golden.run(f"segment.shared.b8.d1 ur4, 0\nmov r256, 0\n{text}\nhalt")
    assert (caught.value.code, caught.value.operand) == (code, operand)


def test_configuration_without_transpose():
    cfg = TINY.replace(transpose=False)
    with Device(cfg, "golden") as device:
        with pytest.raises(DeviceError, match="UNSUPPORTED"):
            device.run("mm8.t1 r0, ur4:rf256:0, r256\nhalt")
        with pytest.raises(ValueError, match="b_layout must be nk in configuration"):
            device.matmul(np.ones((2, 2), np.int8), np.ones((2, 2), np.int8), b_layout="kn")


def operands(rng, m, n, k, kind):
    limits = np.iinfo(kind)
    return (rng.integers(limits.min, limits.max + 1, shape).astype(kind) for shape in ((m, k), (k, n)))


@pytest.mark.parametrize("kind", [np.int8, np.uint16])
@pytest.mark.parametrize("name", ["tiny", "base", "quad", "cores"])
def test_products_in_the_model(name, kind):
    cfg = TINY.without_level2(cores=3) if name == "cores" else load_config(name)
    rng = np.random.default_rng(4)
    with Device(cfg, "golden") as device:
        for m, n, k in ((1, 1, 1), (9, 17, 33), (33, 65, 70), (8, 40, 1000)):
            a, b = operands(rng, m, n, k, kind)
            for transpose in (False, True):
                c, _ = device.matmul(a, b.T if transpose else b, transpose=transpose, b_layout="kn")
                assert np.array_equal(c, a.astype(np.int32) @ b.astype(np.int32)), (m, n, k)


@pytest.mark.parametrize("kind", [np.int8, np.int16])
def test_each_byte_is_read_once(kind):
    """Per block of rows of A: the hardware's counter of what the fetch of B read."""
    size = np.dtype(kind).itemsize
    m, n, k = 16, 32, 64
    a, b = operands(np.random.default_rng(5), m, n, k, kind)
    with Device(TINY) as device:
        c, stats = device.matmul(a, b, b_layout="kn")
    assert np.array_equal(c, a.astype(np.int32) @ b.astype(np.int32))
    tiles = (m // TINY.threads) * (n // TINY.threads)
    assert BANK_BYTES * stats.counters["matrix_blocks"] == tiles * k * max(BANK_BYTES, TINY.threads * size)
    assert stats.peak_macs_per_cycle == TINY.peak_macs(size) == TINY.threads * TINY.dot // (4 if size == 2 else 1)


def test_bench(capsys):
    assert main(["bench", "transpose", "--config", "tiny", "--m", "8", "--n", "16", "--k", "32", "--dtype", "int16", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["b_layout"], row["dtype"], row["checked"]) for row in rows] == [("nk", "int16", True), ("kn", "int16", True)]
    assert rows[1]["reads_per_byte"] == 1 < rows[0]["reads_per_byte"]


@pytest.mark.parametrize(("ka", "kb"), [(4, 1), (1, 4), (2, 3)])
def test_each_byte_is_read_once_with_merges(ka, kb):
    """Each row of k of a tile is a block of 16 bytes, read once for each block of rows of A."""
    blocks, n, k = 2, 32, 96
    a, b = operands(np.random.default_rng(7), blocks * Merge(TINY.threads, TINY.dot, ka, kb).rows, n, k, np.int8)
    with Device(TINY) as device:
        c, stats = device.matmul(a, b, b_layout="kn", ka=ka, kb=kb, resident=True)
    assert np.array_equal(c, a.astype(np.int32) @ b.astype(np.int32))
    assert stats.counters["matrix_blocks"] == blocks * (n // TINY.threads) * k
