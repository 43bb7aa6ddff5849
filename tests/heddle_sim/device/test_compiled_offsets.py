"""Products with compiled offsets in programs: hardware and functional simulator, and numpy [S2.2, S2.3]."""

import numpy as np
import pytest
from heddle import load_config
from heddle.isa.error_codes import ErrorCode
from heddle_sim.device import Device, DeviceError

MEMORY = 1 << 16
X, TABLE, BASES, WEIGHTS = 0, 4096, 5120, 6144       # in shared memory; in global memory from the same addresses on
RESULT = 1 << 15
ALWAYS = 0xFFF << 20


@pytest.fixture(scope="module", params=["verilator", "golden"])
def device(request):
    with Device(load_config("tiny"), request.param, memory_bytes=MEMORY, timeout_cycles=100_000) as device:
        yield device


def program(cfg, kind, slices, padding, entry):
    words = min(16, cfg.offset_words)
    weights, fills, stores = map("\n".join, (
        (f"ld.b32 r{260 + k}, ur0:r258:{WEIGHTS + 4 * k}" for k in range(slices)),
        (f"offsets.k{words} {word}, ur0:rf256:{TABLE + word * cfg.dot}" for word in range(0, cfg.offset_words, words)),
        (f"st.v4 ur3:r257:{4 * n}, r{64 + n}" for n in range(0, cfg.threads, 4))))
    return f"""
        umov ur0, {X}
        umov ur1, {MEMORY // 4}
        umov ur2, {entry << 20 | padding}
        barrier.expect b0, 8192
        copy_block.shared.global ur0, ur1, 512, b0
        barrier.wait b0
        segment.shared.b8.d1 ur0, 0
        segment.shared.b8.d1 ur2, 0
        mov r1, %tid
        mov r256, 0
        shl r0, r1, 2
        mov r257, r0
        shl r0, r1, 6
        mov r258, r0
        ld.b32 r259, ur0:r257:{BASES}
        {weights}
        {fills}
        mm8.sa.sb.k{slices}.{kind}.z r64, ur2:rf259:0, r260
        wait.matrix
        segment.global.b8.d1 ur3, {RESULT}
        shl r0, r1, 5
        mov r257, r0
        {stores}
        halt
    """


def prepare(device, rng, kind, slices, padding):
    """Random operands; the product by numpy: rows are the weights of the threads, columns what their bases and masks reach."""
    cfg = device.cfg
    memory = rng.integers(0, 256, 8192, np.uint8)
    count = cfg.compiled_offsets
    offsets = rng.integers(0, 1024, count) & (-1 if kind == "ob" else -cfg.dot)
    positions = np.where(rng.random((count, 3)) < 0.6, 15, rng.integers(0, 12, (count, 3)))
    table = offsets | positions[:, 0] << 20 | positions[:, 1] << 24 | positions[:, 2] << 28
    masks = rng.integers(0, 1 << 12, cfg.threads) | rng.integers(0, 1 << 12, cfg.threads)
    bases = rng.integers(0, 1024, cfg.threads) & -cfg.dot
    memory[TABLE:TABLE + 4 * count] = table.astype("<u4").view(np.uint8)
    memory[BASES:BASES + 4 * cfg.threads] = (bases | masks << 20).astype("<u4").view(np.uint8)
    device.memory.bytes[MEMORY // 4:MEMORY // 4 + 8192] = memory
    weights = memory[WEIGHTS:WEIGHTS + 64 * cfg.threads].reshape(cfg.threads, 64)[:, :4 * slices].view(np.int8).astype(int)
    steps = slices * cfg.dot if kind == "ob" else slices
    inside = (masks[:, None, None] >> positions[None, :steps] & 1 | (positions[None, :steps] == 15)).all(axis=-1)
    places = np.where(inside, bases[:, None] + offsets[None, :steps], padding)
    if kind == "ow":
        places = (places[:, :, None] + np.arange(cfg.dot)).reshape(cfg.threads, -1)
    return weights @ memory[places].view(np.int8).astype(int).T


@pytest.mark.parametrize("kind", ["ow", "ob"])
def test_products(kind, device):
    """Of words and of bytes, of threads that lack some filter positions."""
    cfg, rng = device.cfg, np.random.default_rng(4)
    for slices in (1, 5, 16):
        padding = int(rng.integers(0, 2000)) & (-1 if kind == "ob" else -cfg.dot)
        expected = prepare(device, rng, kind, slices, padding)
        device.run(program(cfg, kind, slices, padding, 0))
        found = device.read(RESULT, (cfg.threads, cfg.threads), np.int32)
        assert np.array_equal(found, expected), (kind, slices)


@pytest.mark.parametrize("kind, entry, padding, error", [
    ("ow", 60, 0, (ErrorCode.OFFSET_RANGE, 64)), ("ob", 2, 0, (ErrorCode.OFFSET_RANGE, 64)), ("ob", 64, 0, (ErrorCode.OFFSET_RANGE, 64)),
    ("ow", 0, 1 << 14, (ErrorCode.OUT_OF_RANGE, 1 << 14)), ("ob", 0, (1 << 20) - 1, (ErrorCode.OUT_OF_RANGE, (1 << 20) - 1)),
    ("ow", 0, 2, (ErrorCode.MISALIGNED, 2)),
])
def test_errors(kind, entry, padding, error, device):
    """Entries that do not exist, and elements outside of memory: an error with its operand; the device works afterwards."""
    rng = np.random.default_rng(5)
    prepare(device, rng, kind, 16, 0)
    with pytest.raises(DeviceError) as found:
        device.run(program(device.cfg, kind, 16, padding, entry))
    assert (found.value.code, found.value.operand) == error
    expected = prepare(device, rng, kind, 3, 0)
    device.run(program(device.cfg, kind, 3, 0, 0))
    assert np.array_equal(device.read(RESULT, expected.shape, np.int32), expected)


def test_a_configuration_without_the_memory_says_so():
    with Device(load_config("small"), "golden", memory_bytes=MEMORY) as device, pytest.raises(DeviceError, match="compiled_offsets"):
        device.run("segment.shared.b8.d1 ur0, 0\noffsets 0, ur0:rf256:0\nhalt")
