"""Loads that go to several cores at once [S1.10]; each core has its own TMAU, and all share memory [S1.14]."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from heddle import Config, ConfigError, load_config
from heddle.constants import LINE_BYTES
from heddle.isa.encoding import Swizzle
from heddle.isa.error_codes import ErrorCode
from heddle.isa.tensor_descriptor import TensorFormat
from heddle_sim import Device, DeviceError
from heddle_sim.golden.tensor_copy import load_tensor
from heddle_sim.golden.tensor_fields import TensorFields
from heddle_sim.isa import assemble
from heddle_verif.differential.programs import differing, random_settings
from heddle_verif.variants.shared_devices import OWN_PORTS, TWO_CORES

MEMORY_BYTES = 1 << 18
DATA_BYTES = 1 << 16            # what is loaded; behind it descriptors and the shared memories as they are stored at the end
DESCRIPTORS, IMAGES = DATA_BYTES, 1 << 17
FOUR = load_config("tiny").replace(name="tiny_multicast4", rnn=False, sparse=False, cores=4, multicast=True, mm16=False, transpose=False,
                                   compiled_offsets=0, gather_offsets=False)
# At night ``quad`` has four cores: test_presets.py.
EACH = [TWO_CORES, pytest.param(OWN_PORTS, marks=pytest.mark.nightly), pytest.param(FOUR, marks=pytest.mark.soak)]
each_device = pytest.mark.parametrize("cfg", EACH, ids=lambda cfg: cfg.name)
SHARED = TWO_CORES.shared_bytes      # of each of them
STORE_IMAGE = f"""
    wait
    umov ur0, %core
    ushl ur0, ur0, {SHARED.bit_length() - 1}
    uadd ur0, ur0, {IMAGES}
    umov ur1, 0
    copy_block.global.shared ur0, ur1, {SHARED // 16}
    halt
"""
CLEAR = f"umov ur0, 0\numov ur1, {DATA_BYTES - SHARED}\ncopy_block.shared.global ur0, ur1, {SHARED // 16}\nwait\nhalt"


def guarded(predicate, condition, *lines):
    """Lines that the cores for which ``condition`` (of the core's number in ur1) holds execute."""
    return [*condition, *(f"@up{predicate} {line}" for line in lines)]


def is_core(core):
    return ["umov ur1, %core", f"usetp.eq up0, ur1, {core}"]


def in_mask(mask):
    return ["umov ur1, %core", "umov ur2, 1", "ushl ur2, ur2, ur1", f"uand ur2, ur2, {mask}", "usetp.ne up1, ur2, 0"]


def box(rng):
    """A box that fits 1 KiB of shared memory, partly outside the tensor more often than not."""
    columns, rows = 16 * int(rng.integers(1, 5)), int(rng.integers(1, 16))
    width = columns + 16 * int(rng.integers(3))
    fields = TensorFields(sizes=(width - int(rng.integers(8)), 20), strides=(width,), box=(columns, rows), element_strides=(1, 1),
                          address=16 * int(rng.integers(2048)), format=TensorFormat.U8, swizzle=Swizzle(int(rng.integers(4))))
    if fields.swizzle.value and columns > 16 << fields.swizzle.value:
        fields = replace(fields, swizzle=Swizzle.NONE)
    fields = replace(fields, box=(columns, min(rows, 1024 // fields.row_pitch)))
    return fields, (16 * int(rng.integers(-1, 3)), int(rng.integers(-2, 18)))


def random_steps(rng, cfg, count):
    """A program of copies by any core for any others, and the bytes that arrive where: (mask, place, bytes, write) in order."""
    lines, steps, descriptors = [], [], []
    for step in range(count):
        source, mask = int(rng.integers(cfg.cores)), int(rng.integers(1, 1 << cfg.cores))
        place = 1024 * step
        if rng.random() < 0.5:
            fields, coordinates = box(rng)
            descriptors.append(fields.encode())
            address, nbytes = DESCRIPTORS + 128 * (len(descriptors) - 1), fields.bytes
            copy = [f"umov ur10, {address}", *(f"umov ur{11 + d}, {value}" for d, value in enumerate(coordinates)),
                    "copy_tensor.tile.2d.shared.global.multicast ur8, ur10, ur11, ur9"]

            def write(memory, shared, fields=fields, coordinates=coordinates, place=place):
                load_tensor(memory, shared, fields, coordinates, place)
        else:
            blocks, start, place = int(rng.integers(1, 60)), 16 * int(rng.integers(DATA_BYTES // 32)), place + 16 * int(rng.integers(4))
            nbytes = 16 * blocks
            copy = [f"umov ur10, {start}", f"copy_block.shared.global.multicast ur8, ur10, {blocks}, ur9"]

            def write(memory, shared, start=start, place=place, nbytes=nbytes):
                shared[place:place + nbytes] = memory[start:start + nbytes]
        copy[-1] += f", b{step}"
        expect = guarded(1, in_mask(mask), f"barrier.expect b{step}, {nbytes}")
        copies = guarded(0, is_core(source), f"umov ur8, {place}", f"umov ur9, {mask}", *copy)
        lines += (copies + expect if rng.random() < 0.5 else expect + copies)
        steps.append((mask, write))
    for step in rng.permutation(count):
        lines += guarded(1, in_mask(steps[step][0]), f"barrier.wait b{step}")
    return "\n".join([f"umov ur3, {DESCRIPTORS}", *(f"umov ur3, {DESCRIPTORS + 128 * n}\ninvalidate_descriptor ur3"
                                                   for n in range(len(descriptors))), *lines, STORE_IMAGE]), steps, descriptors


def check(device, rng, count):
    """A random program: shared memories and barriers are those of the models of the copies."""
    cfg = device.cfg
    device.run(CLEAR)
    text, steps, descriptors = random_steps(rng, cfg, count)
    for number, descriptor in enumerate(descriptors):
        device.write(DESCRIPTORS + 128 * number, np.frombuffer(descriptor, np.uint8))
    device.run(assemble(text, cfg))
    memory = device.memory.bytes
    for core in range(cfg.cores):
        shared = memory[DATA_BYTES - SHARED:DATA_BYTES].copy()
        for mask, write in steps:
            if mask >> core & 1:
                write(memory, shared)
        image = memory[IMAGES + core * SHARED:][:SHARED]
        assert np.array_equal(image, shared), f"core {core}: {differing(image, shared)}\n{text}"


def make(cfg, simulator, rng, **options):
    options = {"memory_settings": random_settings(rng)} | options if simulator == "verilator" else {}
    device = Device(cfg, simulator, memory_bytes=MEMORY_BYTES, timeout_cycles=200_000, **options)
    device.memory.bytes[:] = rng.integers(0, 256, MEMORY_BYTES, np.uint8)
    return device


@pytest.fixture(params=["golden", "verilator"])
def device(request):
    rng = np.random.default_rng(1)
    with make(TWO_CORES, request.param, rng, **({"memory_settings": None} if request.param == "verilator" else {})) as device:
        yield device


@pytest.mark.parametrize("backend", ["golden", "verilator"], ids=["model", "hardware"])
@each_device
def test_random_copies(cfg, backend, seed):
    """Every core sends to any of them at once, under random delays of memory."""
    rng = np.random.default_rng(seed)
    for _ in range(6 if backend == "golden" else 3):
        with make(cfg, backend, rng) as device:
            for _ in range(4):
                check(device, rng, int(rng.integers(1, 16)))


@pytest.mark.soak
@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("cfg", [TWO_CORES, OWN_PORTS, FOUR], ids=lambda cfg: cfg.name)
def test_random_copies_long(cfg, part, seed):
    rng = np.random.default_rng([seed, part])
    for _ in range(20):
        with make(cfg, "verilator", rng) as device:
            for _ in range(20):
                check(device, rng, int(rng.integers(1, 16)))


def load_all(cfg, blocks, multicast):
    """Core 0 loads for all, or each core for itself."""
    expect = f"umov ur8, 0\numov ur10, 0\numov ur9, {(1 << cfg.cores) - 1}\nbarrier.expect b0, {16 * blocks}\n"
    if multicast:
        lines = guarded(0, is_core(0), f"copy_block.shared.global.multicast ur8, ur10, {blocks}, ur9, b0")
    else:
        lines = [f"copy_block.shared.global ur8, ur10, {blocks}, b0"]
    return assemble(expect + "\n".join([*lines, "barrier.wait b0", "halt"]), cfg)


@each_device
def test_memory_is_read_once(cfg):
    """The beats that memory gives are those of one copy, and they come as fast as for one core."""
    rng = np.random.default_rng(2)
    blocks = 512
    with make(cfg, "verilator", rng, memory_settings=None) as device:
        one = device.run(load_all(device.cfg, blocks, multicast=True))
        each = device.run(load_all(device.cfg, blocks, multicast=False))
    beats = 16 * blocks // cfg.axi_bytes
    cached = cfg.l2_kib > 0      # the cache asks line by line, and memory once
    assert one.counters["read_beats"] == beats and one.counters["read_requests"] == 16 * blocks // (LINE_BYTES if cached else 512)
    assert each.counters["read_beats"] == (1 if cached else cfg.cores) * beats
    assert beats < one.cycles <= each.cycles + 40       # a bus word a cycle to all cores


@each_device
def test_all_cores_send_to_all(cfg):
    """As many streams as cores, each to all: a word a cycle into each shared memory."""
    cores, blocks = cfg.cores, 128
    expect = f"umov ur9, {(1 << cores) - 1}\numov ur1, %core\nushl ur8, ur1, 11\numov ur10, 0\nbarrier.expect b0, {cores * 16 * blocks}\n"
    with make(cfg, "verilator", np.random.default_rng(3), memory_settings=None) as device:
        stats = device.run(expect + f"copy_block.shared.global.multicast ur8, ur10, {blocks}, ur9, b0\nbarrier.wait b0\nhalt")
    beats = cores * 16 * blocks // cfg.axi_bytes
    assert beats < stats.cycles < 1.1 * beats + 120


# Two cores hand 64 bytes to and fro through barriers; the round trips are counted in memory by core 0.
PING_PONG = f"""
    umov ur20, 0
    umov ur8, 0
    umov ur10, 0
    umov ur1, %core
    umov ur2, 1
    uxor ur3, ur1, 1
    ushl ur9, ur2, ur3
    umov ur21, 0
    usetp.eq up0, ur1, 0
again:
    @up0 copy_block.shared.global.multicast ur8, ur10, 4, ur9, b1
    barrier.expect b1, 64
    barrier.wait b1
    @!up0 copy_block.shared.global.multicast ur8, ur10, 4, ur9, b1
    uadd ur20, ur20, 1
    usetp.lt up1, ur20, 20
    @up1 bra again
    {STORE_IMAGE}
"""


def test_rounds_between_cores(device):
    before = device.memory.bytes[:64].copy()
    device.run(PING_PONG)
    for core in range(2):
        assert np.array_equal(device.memory.bytes[IMAGES + core * SHARED:][:64], before)


# -- errors ---------------------------------------------------------------------------------

@pytest.mark.parametrize("mask", [0, 4, 7, 0x10001, 0x80000000])
@pytest.mark.parametrize("copy", ["copy_block.shared.global.multicast ur8, ur10, 1, ur9, b0",
                                  "copy_tensor.tile.1d.shared.global.multicast ur8, ur10, ur11, ur9"])
def test_masks(device, mask, copy):
    """No core, or one that does not exist: an error of its own, before anything is moved."""
    with pytest.raises(DeviceError) as caught:
        device.run(f"umov ur9, {mask}\numov ur8, 0\numov ur1, %core\nusetp.eq up0, ur1, 1\n@up0 {copy}\nhalt")
    error = caught.value
    assert (error.code, error.pc, error.operand, error.core) == (ErrorCode.MULTICAST_MASK, 4, mask, 1)
    assert f"not {mask:#x}" in str(error)
    device.run(f"umov ur9, {mask}\n@!up7 {copy}\nhalt")      # its guard is false
    device.run(PING_PONG)


def test_a_read_error_is_reported_once_by_the_core_that_reads(device):
    """The barriers hear of the bytes all the same."""
    program = f"umov ur8, 0\numov ur10, {MEMORY_BYTES - 64}\numov ur9, 3\n" + "\n".join(guarded(
        0, is_core(1), "copy_block.shared.global.multicast ur8, ur10, 8, ur9, b0"))
    with pytest.raises(DeviceError) as caught:
        device.run(program + "\nbarrier.expect b0, 128\nbarrier.wait b0\nhalt")
    assert (caught.value.code, caught.value.pc, caught.value.core) == (ErrorCode.AXI_READ, 5, 1)
    device.run(PING_PONG)


@pytest.mark.parametrize("expected, code", [(80, ErrorCode.BARRIER_UNDERRUN), (48, ErrorCode.BARRIER_OVERRUN)])
@pytest.mark.parametrize("sender", [0, 1])
def test_wrong_numbers_of_bytes(device, sender, expected, code):
    """A core that waits for another one's bytes finds out when none can come any more."""
    other = 1 - sender
    lines = [*guarded(0, is_core(sender), "umov ur8, 0", "umov ur10, 0", f"umov ur9, {1 << other}",
                      "copy_block.shared.global.multicast ur8, ur10, 4, ur9, b2", "wait.copy"),
             *guarded(0, is_core(other), *["nop"] * 1, f"barrier.expect b2, {expected}"),
             *["nop"] * 60 * (code is ErrorCode.BARRIER_OVERRUN), "wait.copy", "barrier.wait b2", *["nop"] * 40, "barrier.wait b2", "halt"]
    with pytest.raises(DeviceError) as caught:
        device.run("\n".join(lines))
    assert (caught.value.code, caught.value.operand, caught.value.core) == (code, 2, other)
    device.run(PING_PONG)


def test_two_cores_that_wait_for_each_other(device):
    with pytest.raises(DeviceError) as caught:
        device.run("barrier.expect b3, 16\nbarrier.wait b3\nhalt")
    assert (caught.value.code, caught.value.operand) == (ErrorCode.BARRIER_UNDERRUN, 3)


def test_a_late_sender_is_waited_for(device):
    """No under-run while another core may still send."""
    lines = [*guarded(0, is_core(1), "umov ur20, 300"), "again: usub ur20, ur20, 1", "usetp.gt up2, ur20, 0", "@up2 bra again",
             *guarded(0, is_core(1), "umov ur8, 0", "umov ur10, 0", "umov ur9, 1",
                      "copy_block.shared.global.multicast ur8, ur10, 4, ur9, b2"),
             *guarded(0, is_core(0), "barrier.expect b2, 64", "barrier.wait b2"), "halt"]
    device.run("umov ur20, 1\n" + "\n".join(lines))


def test_configurations():
    with pytest.raises(ConfigError, match="^multicast must be false with cores = 1, not True$"):
        Config(multicast=True)
    for cfg, copy in itertools.product((TWO_CORES.replace(multicast=False), TWO_CORES), ("shared.global", "global.shared")):
        with Device(cfg, "golden", memory_bytes=4096) as device:
            program = f"umov ur1, 0\numov ur9, 3\ncopy_block.{copy}.multicast ur1, ur1, 1, ur9\nhalt"
            if cfg.multicast and copy == "shared.global":
                device.run(program)
                continue
            with pytest.raises(DeviceError) as caught:
                device.run(program)
            assert caught.value.code is ErrorCode.UNSUPPORTED
