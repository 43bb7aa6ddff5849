"""The second level in the device: reductions of stores, prefetches, copies within a memory; hardware against functional simulator."""

from dataclasses import replace

import numpy as np
import pytest
from heddle import load_config
from heddle.isa.encoding import Reduction
from heddle.isa.error_codes import ErrorCode
from heddle.isa.tensor_descriptor import FLOAT_FORMATS, TensorFormat
from heddle.isa.tensor_rules import REDUCTION_FORMATS
from heddle_sim.device import Device, DeviceError
from heddle_sim.device.execution import execute
from heddle_sim.kernels.copies import BlockCopy, BlockMove
from heddle_sim.kernels.planner import plan
from heddle_sim.tensor.tensor_map import TensorMap
from heddle_verif.differential.programs import compare_programs
from heddle_verif.differential.tensor_copies import DESCRIPTOR, MEMORY_BYTES, TENSOR_BYTES, compare_tensor_copies, pair
from heddle_verif.stimulus.tensor_requests import legal_cases

CFG = load_config("tiny")
INTEGERS = CFG.replace(name="integers", rnn=False, sparse=False, reduction_floats=False)
PAIRS = [(reduction, format) for reduction, formats in REDUCTION_FORMATS.items() for format in sorted(formats, key=lambda kind: kind.value)]


def hit_and_miss(stats):
    return stats.counters["level2_hits"], stats.counters["level2_misses"]


@pytest.mark.parametrize("cfg, count", [(CFG, 30), pytest.param(CFG, 150, marks=pytest.mark.nightly),
                                        pytest.param(CFG, 500, marks=pytest.mark.soak),
                                        pytest.param(INTEGERS, 50, marks=pytest.mark.nightly)], ids=["tiny", "long", "soak", "integers"])
def test_reductions_of_tensors(cfg, count, seed):
    rng = np.random.default_rng(seed)
    cases = []
    for fields, request in legal_cases(rng, cfg, count, store=True, memory_bytes=TENSOR_BYTES):
        legal = [reduction for reduction, formats in REDUCTION_FORMATS.items() if fields.format in formats]
        reduction = legal[int(rng.integers(len(legal)))] if legal else Reduction.NONE
        cases.append((fields, replace(request, descriptor=DESCRIPTOR, reduction=reduction)))
    codes = compare_tensor_copies(cases, rng, cfg)
    assert codes.count(None) > count // 3
    assert cfg.reduction_floats or ErrorCode.UNSUPPORTED in codes


@pytest.mark.parametrize("cfg, rounds", [(CFG, 1), pytest.param(CFG, 6, marks=pytest.mark.nightly),
                                         pytest.param(CFG, 20, marks=pytest.mark.soak),
                                         pytest.param(INTEGERS, 2, marks=pytest.mark.nightly)], ids=["tiny", "long", "soak", "integers"])
def test_reductions_of_blocks(cfg, rounds, seed):
    """Every pair that is defined, and some that are not; from shared memory and within global memory."""
    rng = np.random.default_rng(seed)
    pairs = PAIRS * rounds + [(Reduction.INC, TensorFormat.S32), (Reduction.XOR, TensorFormat.BF16), (Reduction.MAX, TensorFormat.F32)]
    device, golden = pair(rng, cfg)
    with device, golden:
        for reduction, format in pairs:
            blocks, places = int(rng.choice([1, 2, 7, 33, 70])), rng.integers(0, 900, 2) * 16
            copies = [BlockCopy(int(places[0]), int(places[1]), 16 * blocks, to_shared=False, reduction=(reduction, format)),
                      BlockMove("global", int(places[0]), 1 << 15 | int(places[1]), 16 * blocks, (reduction, format))]
            for copy in copies:
                found, expected = (error_of(each, plan(cfg, copy)) for each in (device, golden))
                assert found == expected
                wrong = format not in REDUCTION_FORMATS[reduction]
                lacks = format in FLOAT_FORMATS and not cfg.reduction_floats
                assert (found and found[0]) == (ErrorCode.TENSOR_REDUCTION if wrong else ErrorCode.UNSUPPORTED if lacks else None)
                assert np.array_equal(device.memory.bytes, golden.memory.bytes), (reduction, format, blocks, places)


def error_of(device, kernel):
    try:
        execute(device, kernel)
    except DeviceError as error:
        return error.code, error.pc, error.operand
    return None


@pytest.mark.parametrize("count", [12, pytest.param(100, marks=pytest.mark.nightly), pytest.param(300, marks=pytest.mark.soak)])
def test_copies_within(count, seed):
    """Chains of copies: each source lies behind its destination or before it."""
    rng = np.random.default_rng(seed)
    device, golden = pair(rng, CFG)
    with device, golden:
        for number in range(count):
            space, limit = (("global", TENSOR_BYTES), ("shared", CFG.shared_bytes))[number % 2]
            blocks = int(rng.choice([0, 1, 2, 31, 33, 100]))
            destination, source = int(rng.integers(limit // 32 - blocks)) * 16, limit // 2 + int(rng.integers(limit // 32 - blocks)) * 16
            if rng.integers(2):
                destination, source = source, destination
            for each in (device, golden):
                execute(each, plan(CFG, BlockMove(space, destination, source, 16 * blocks)))
                execute(each, plan(CFG, BlockCopy(0, MEMORY_BYTES - CFG.shared_bytes, CFG.shared_bytes, to_shared=False)))
            assert np.array_equal(device.memory.bytes, golden.memory.bytes), (space, destination, source, blocks)


@pytest.fixture(scope="module")
def hardware():
    with Device(CFG, "verilator", memory_bytes=MEMORY_BYTES, timeout_cycles=100_000) as device:
        yield device


PREFETCHES = {
    "block": "prefetch_block ur1, 40",
    "tensor": "prefetch_tensor.tile.2d ur4, ur5",
    "nothing": "nop",
}


@pytest.mark.parametrize("hint", PREFETCHES)
def test_prefetched_lines_are_hit(hardware, hint):
    """40 blocks are loaded, with or without a hint long before: where there was one, no line misses."""
    array = np.random.default_rng(3).integers(0, 256, (20, 32), np.uint8)
    start = hardware.memory.place(array)
    fields = TensorMap.build(array.shape, array.dtype, box=array.shape, address=start).fields
    descriptor = hardware.memory.allocator.allocate(128)
    hardware.write(descriptor, np.frombuffer(fields.encode(), np.uint8))
    program = f"""
        invalidate_descriptor ur4
        {PREFETCHES[hint]}
        umov ur0, 100
    again:
        usub ur0, ur0, 1
        usetp.ne up0, ur0, 0
        @up0 bra again
        copy_block.shared.global ur2, ur1, 40
        wait.copy
        halt
    """
    stats = hardware.run(program, {1: start, 2: 0, 4: descriptor, 5: 0, 6: 0})
    hits, misses = hit_and_miss(stats)
    tensor = hint == "tensor"       # which brings row by row, and the halves of its descriptor
    assert misses == (20 + 2 if tensor else 640 // 128)
    assert stats.counters["read_beats"] == 640 // CFG.axi_bytes + tensor * CFG.line_beats
    assert hits >= (0 if hint == "nothing" else 640 // 128)
    hardware.free(start)
    hardware.free(descriptor)


def test_blocks_of_arrays(hardware):
    """``Device.store_block`` and ``move_block`` on the hardware and on the functional simulator, against numpy."""
    rng = np.random.default_rng(7)
    array, other = (rng.integers(-1000, 1000, (3, 40), np.int32) for _ in range(2))
    image = rng.integers(0, 256, 480, np.uint8)
    values = image.view(np.int32).reshape(3, 40)
    with Device(CFG, "golden", memory_bytes=MEMORY_BYTES) as golden:
        for device in (hardware, golden):
            assert np.array_equal(device.store_block(image, array)[0], values)
            assert np.array_equal(device.store_block(image, array, reduce="max", smem_address=48)[0], np.maximum(array, values))
            loaded, _ = device.copy_block(array, swizzle="128B")
            assert np.array_equal(device.store_block(loaded, other, swizzle="128B", reduce="xor")[0], array ^ other)
            assert np.array_equal(device.move_block(array, other, reduce="add")[0], array + other)
            assert np.array_equal(device.move_block(array)[0], array)
            assert np.array_equal(device.move_block(array, space="shared", smem_address=16, smem_destination=1008)[0], array)
            for reduce, function in (("add", np.add), ("max", np.maximum), ("xor", np.bitwise_xor)):
                found, _ = device.move_block(array, other, space="shared", reduce=reduce, smem_address=2000, smem_destination=96)
                assert np.array_equal(found, function(other, array))
            hints = device.prefetch_tensor(array, box=(3, 8), coords=(1, -4)), device.prefetch_block(0, 4096)
            if device is hardware:      # two rows and the descriptor, in halves; 32 lines
                assert [hit_and_miss(stats)[1] for stats in hints] == [4, 32]
    assert hardware.memory.allocator.used == 0


@pytest.mark.parametrize("call, error", [
    (lambda device: device.store_block(np.zeros(32, np.uint8), np.zeros(16, np.uint8)), "image must be a uint8 array of 16 bytes"),
    (lambda device: device.store_block(np.zeros(16, np.uint8), np.zeros(16, np.uint8), reduce="add"), "reduce must be defined for U8"),
    (lambda device: device.store_block(np.zeros(16, np.uint8), np.zeros(4, np.uint32), reduce="mean"), "reduce must be None or one of"),
    (lambda device: device.move_block(np.zeros(16, np.uint8), np.zeros(32, np.uint8)), "into must have 16 bytes, not 32"),
    (lambda device: device.move_block(np.zeros(16, np.uint8), space="core"), "space must be one of global, shared"),
    (lambda device: device.move_block(np.zeros(32, np.uint8), space="shared", smem_destination=16), "smem_destination must be at least 32"),
    (lambda device: device.move_block(np.zeros(4, np.float32), space="shared", reduce="add"), "reduce must be of integers with space"),
])
def test_wrong_arguments(call, error):
    with Device(CFG, "golden", memory_bytes=MEMORY_BYTES) as device, pytest.raises(ValueError, match=error):
        call(device)


@pytest.mark.parametrize("lacks, call", [
    ({"copy_within": False}, lambda device: device.move_block(np.zeros(16, np.uint8))),
    ({"reduction_floats": False}, lambda device: device.store_block(np.zeros(16, np.uint8), np.zeros(4, np.float32), reduce="add")),
])
def test_calls_need_the_configuration(lacks, call):
    with (Device(CFG.replace(name="less", **lacks), "golden", memory_bytes=MEMORY_BYTES) as device,
          pytest.raises(ValueError, match=f"{next(iter(lacks))} is false; true in ")):
        call(device)


def test_wrong_prefetches(hardware):
    """The rules of addresses; there is no shared address that could be wrong."""
    with Device(CFG, "golden", memory_bytes=MEMORY_BYTES) as golden:
        for text, code in (("prefetch_block ur1, 1", ErrorCode.MISALIGNED), ("prefetch_block ur2, 1", None),
                           ("prefetch_block ur3, 4096", ErrorCode.OUT_OF_RANGE),
                           ("prefetch_tensor.tile.2d ur1, ur5", ErrorCode.TENSOR_DESCRIPTOR_ADDRESS)):
            errors = []
            for each in (hardware, golden):
                try:
                    each.run(f"{text}\nwait\nhalt", {0: 0x12345677, 1: 8, 2: 64, 3: (1 << 32) - 16, 5: 0, 6: 0})
                    errors.append(None)
                except DeviceError as error:
                    errors.append((error.code, error.pc, error.operand))
            assert errors[0] == errors[1], text
            assert (errors[0] and errors[0][0]) == code, text


def test_the_host_changes_memory_between_runs(hardware):
    """Lines are dropped at the end of a run: what the host writes then is what the next one reads."""
    rng = np.random.default_rng(5)
    for _ in range(3):
        array = rng.integers(0, 256, 512, np.uint8)
        image, stats = hardware.copy_block(array)
        assert np.array_equal(image, array)
        assert hit_and_miss(stats) == (0, 4)


@pytest.mark.parametrize("count", [3, pytest.param(30, marks=pytest.mark.nightly), pytest.param(100, marks=pytest.mark.soak)])
def test_random_programs(count, seed):
    compare_programs(CFG, seed, count)
