"""Gathers by compiled offsets in programs: hardware and functional simulator, and numpy [S2.1-S2.5]."""

import numpy as np
import pytest
from heddle import load_config
from heddle.isa.error_codes import ErrorCode
from heddle_sim.compiled.geometry import Geometry
from heddle_sim.compiled.hardware import base_words, entry_words
from heddle_sim.compiled.representation import compile_convolution
from heddle_sim.device import Device, DeviceError

MEMORY = 1 << 16
X, PADDING, TABLE, BASES, FILTER = 0, 2048, 4096, 5120, 6144       # in shared memory; in global memory behind SOURCE
SOURCE, RESULT = 1 << 14, 1 << 15
ALWAYS = 0xFFF << 20


@pytest.fixture(scope="module", params=["verilator", "golden"])
def device(request):
    with Device(load_config("tiny"), request.param, memory_bytes=MEMORY, timeout_cycles=100_000) as device:
        yield device


def program(cfg, body, padding=PADDING, entry=0, segment="segment.shared.b8.d1 ur2, 0"):
    """Operands come to shared memory, the entries to their memory, the bases to r4; then ``body``."""
    words = min(16, cfg.offset_words)
    fills = "\n".join(f"offsets.k{words} {word}, ur0:rf256:{TABLE + word * cfg.dot}" for word in range(0, cfg.offset_words, words))
    return f"""
        umov ur0, 0
        umov ur1, {SOURCE}
        umov ur2, {entry << 20 | padding}
        barrier.expect b0, 8192
        copy_block.shared.global ur0, ur1, 512, b0
        barrier.wait b0
        segment.shared.b8.d1 ur0, 0
        segment.global.b8.d1 ur3, {RESULT}
        {segment}
        mov r0, %tid
        shl r1, r0, 2
        mov r256, 0
        ld.b32 r4, ur0:r1:{BASES}
        {fills}
        {body}
        halt
    """


def place(device, parts):
    """Arrays to global memory, by their shared addresses."""
    for address, values in parts.items():
        content = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        device.memory.bytes[SOURCE + address:SOURCE + address + len(content)] = content


def convolve(device, x, bases, entries, filters):
    """Sums of the windows of the threads, whose bytes are gathered into factor registers, with one filter: int32 (threads,)."""
    cfg, count = device.cfg, len(entries)
    slices = -(-count // cfg.dot)
    padded = np.zeros(slices * cfg.dot, np.int8)
    padded[:count] = filters
    place(device, {X: x, PADDING: np.zeros(16, np.int8), TABLE: entries, BASES: bases, FILTER: padded})
    device.run(program(cfg, f"""
        gather.b8.k{count} r260, ur2:r4:0, 0
        setp.eq p0, r0, 0
        @p0 mm8.sa.sb.k{slices}.z r64, ur0:rf256:{FILTER}, r260
        wait.matrix
        st.b32 ur3:r1:0, r64
    """))
    return device.read(RESULT, (cfg.threads,), np.int32)


def test_worked_example(device):
    """Figs. 13 and 14 of [S2.5]: 4 x 4 input, 3 x 3 filter; bases 0 1 4 5 and offsets 0 1 2 4 5 6 8 9 10."""
    made = compile_convolution(Geometry(1, (4, 4), 1, 1, (3, 3), ((0, 0), (0, 0)), (1, 1), (1, 1)), "NCHW", np.int8)
    assert made.bases.tolist() == [0, 1, 4, 5] and made.offsets.tolist() == [0, 1, 2, 4, 5, 6, 8, 9, 10]
    rng = np.random.default_rng(3)
    x, w = rng.integers(-128, 128, (4, 4), np.int8), rng.integers(-128, 128, (3, 3), np.int8)
    bases = np.resize(base_words(made), device.cfg.threads)
    found = convolve(device, x, bases, entry_words(made), w.reshape(-1))
    expected = [int((x[h:h + 3, c:c + 3].astype(int) * w).sum()) for h in range(2) for c in range(2)]
    assert found[:4].tolist() == expected


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "CNHW"])
def test_global_addresses(layout, device):
    """Fig. 15 of [S2.5]: the address of an element is base(n, h, w) + offset(c, r, s), here of two images with two channels."""
    images, channels, size, filters = 2, 2, (3, 3), (2, 2)
    made = compile_convolution(Geometry(images, size, channels, 1, filters, ((0, 0), (0, 0)), (1, 1), (1, 1)), layout, np.int8, "natural")
    lengths = dict(zip("NCHW", (images, channels, *size)))
    step = {axis: int(np.prod([lengths[inner] for inner in layout[layout.index(axis) + 1:]])) for axis in layout}
    assert made.bases.tolist() == [n * step["N"] + h * step["H"] + w * step["W"] for n, h, w in np.ndindex(images, 2, 2)]
    assert made.offsets.tolist() == [c * step["C"] + r * step["H"] + s * step["W"] for c, r, s in np.ndindex(channels, *filters)]
    rng = np.random.default_rng(4)
    x, w = rng.integers(-128, 128, tuple(lengths[axis] for axis in layout), np.int8), rng.integers(-128, 128, 8, np.int8)
    found = convolve(device, x, base_words(made), entry_words(made), w)
    planes = x.transpose([layout.index(axis) for axis in "NCHW"]).astype(int)
    expected = [int((planes[n, :, h:h + 2, c:c + 2] * w.reshape(2, 2, 2)).sum()) for n, h, c in np.ndindex(images, 2, 2)]
    assert found.tolist() == expected


@pytest.mark.parametrize("name, size", [("b8", 1), ("b32", 4), ("v2", 8), ("v4", 16)])
def test_elements(name, size, device):
    """Of every size and number, with masks and padding, from a swizzled tile too; and entries that were loaded again behind a gather."""
    cfg, rng, count = device.cfg, np.random.default_rng(size), device.cfg.compiled_offsets
    for entries in sorted({1, 16 // size, max(1, 12 // size)}):
        positions = np.where(rng.random((count, 3)) < 0.5, 15, rng.integers(0, 12, (count, 3)))
        offsets = rng.integers(0, 512, count) // size * size
        table = (offsets | (positions << 20 + 4 * np.arange(3)).sum(axis=1)).astype(np.uint32)
        masks = rng.integers(0, 1 << 12, cfg.threads) | rng.integers(0, 1 << 12, cfg.threads)
        starts = rng.integers(0, 1024, cfg.threads) // size * size
        x, first = rng.integers(0, 256, 4096, np.uint8), int(rng.integers(1, count - 16))
        padding = int(rng.integers(0, 2048)) // size * size
        place(device, {X: x, TABLE: table, BASES: (starts | masks << 20).astype(np.uint32)})
        words = -(-entries * size // 4)
        device.run(program(cfg, f"""
            mov.v4 r8, 0
            gather.{name}.k{entries} r8, ur2:r4:0, {first - 1}
            offsets 0, ur0:rf256:0
            shl r1, r0, 4
            st.v4 ur3:r1:0, r8
        """, padding, entry=1))
        found = device.read(RESULT, (cfg.threads, 16), np.uint8)
        chosen = slice(first, first + entries)
        inside = (masks[:, None, None] >> positions[None, chosen] & 1 | (positions[None, chosen] == 15)).all(axis=-1)
        places = np.where(inside, starts[:, None] + offsets[None, chosen], padding)
        expected = np.zeros((cfg.threads, 16), np.uint8)
        expected[:, :entries * size] = x[places[:, :, None] + np.arange(size)].reshape(cfg.threads, -1)
        assert np.array_equal(found, expected), (name, entries, words)


@pytest.mark.parametrize("text, padding, error", [
    ("gather.b8.k16 r8, ur2:r4:0, 49", PADDING, (ErrorCode.OFFSET_RANGE, 64)),
    ("gather.b32 r8, ur2:r4:0, 4095", 2, (ErrorCode.OFFSET_RANGE, 64)),
    ("gather.b32.k4 r8, ur2:r4:2, 0", PADDING, (ErrorCode.MISALIGNED, 2)),
    ("gather.v4 r8, ur2:r4:0x3ff0, 1", PADDING, (ErrorCode.OUT_OF_RANGE, 0x4000)),
    ("gather.v2 r8, ur2:r5:0, 1", 1 << 14, (ErrorCode.OUT_OF_RANGE, 1 << 14)),
])
def test_errors(text, padding, error, device):
    """Entries that do not exist, and elements outside of memory or at the wrong place: an error with its operand; the device works on."""
    table = np.arange(device.cfg.compiled_offsets) * 16 | 0x0FF << 20
    place(device, {TABLE: table.astype(np.uint32), BASES: np.full(device.cfg.threads, ALWAYS, np.uint32)})
    with pytest.raises(DeviceError) as found:
        device.run(program(device.cfg, f"mov r5, 0\n{text}", padding))
    assert (found.value.code, found.value.operand) == error
    device.run(program(device.cfg, "gather.b8.k16 r8, ur2:r4:0, 48"))


def test_a_configuration_without_gathers_says_so():
    cfg = load_config("base").replace(gather_offsets=False)
    with Device(cfg, "golden", memory_bytes=MEMORY) as device, pytest.raises(DeviceError, match="gather_offsets must be true"):
        device.run("segment.shared.b8.d1 ur0, 0\ngather.b8 r256, ur0:r5:0, 0\nhalt")
