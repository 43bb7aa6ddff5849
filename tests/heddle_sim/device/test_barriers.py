"""Barriers and waits in whole programs: several in flight, rounds, too many and too few bytes, limits of waits."""

import numpy as np
import pytest
from heddle import load_config
from heddle.isa.error_codes import ErrorCode
from heddle.isa.tensor_descriptor import TensorFormat
from heddle_sim.device import Device, DeviceError
from heddle_sim.golden.tensor_fields import TensorFields
from heddle_verif.variants.shared_devices import OWN_PORTS, TWO_CORES

CFG = load_config("tiny")
MEMORY_BYTES = 1 << 17
DESCRIPTOR, TARGET, BOX = 0x1_0000, 0x8000, 1024
FIELDS = TensorFields(sizes=(64, 64), strides=(64,), box=(64, 16), element_strides=(1, 1), address=0, format=TensorFormat.U8)
START = f"umov ur3, {DESCRIPTOR}\numov ur5, 0\numov ur6, 0\numov ur1, 0\numov ur2, 0\ninvalidate_descriptor ur3\n"
LOAD = "copy_tensor.tile.2d.shared.global ur1, ur3, ur5, b4\n"
USES = "umov ur1, 0\numov ur2, 0\nbarrier.expect b9, 16\ncopy_block.shared.global ur1, ur2, 1, b9\nbarrier.wait b9\nhalt"


def make(simulator, cfg=CFG, **options):
    device = Device(cfg, simulator, memory_bytes=MEMORY_BYTES, timeout_cycles=100_000, **options)
    device.memory.bytes[:] = np.random.default_rng(4).integers(0, 256, MEMORY_BYTES, np.uint8)
    device.write(DESCRIPTOR, np.frombuffer(FIELDS.encode(), np.uint8))
    return device


@pytest.fixture(params=["golden", "verilator"])
def device(request):
    with make(request.param) as device:
        yield device


def failure_of(device, program):
    """The ``DeviceError`` of a program; afterwards the device works."""
    with pytest.raises(DeviceError) as caught:
        device.run(program)
    device.run(USES)
    return caught.value


def error_of(device, program):
    """Code, operand and dimension of the error."""
    error = failure_of(device, program)
    return error.code, error.operand, error.dimension


def test_barriers_in_flight(device):
    """All 16 at once, three rounds, expected before and after the copies, waited for in another order."""
    lines = [START]
    for turn in range(3):
        for barrier in range(16):
            copy = [f"umov ur1, {512 * barrier}", f"umov ur2, {0x1000 * turn + 64 * barrier}",
                    f"copy_block.shared.global ur1, ur2, {1 + barrier}, b{barrier}"]
            expect = [f"barrier.expect b{barrier}, {16 * (1 + barrier)}"]
            lines += expect + copy if barrier % 2 else copy + expect
        for barrier in range(15, -1, -1):
            lines += [f"barrier.wait b{barrier}", f"umov ur1, {512 * barrier}", f"umov ur2, {TARGET + 0x2000 * turn + 512 * barrier}",
                      f"copy_block.global.shared ur2, ur1, {1 + barrier}, b{barrier}",
                      f"barrier.expect b{barrier}, {16 * (1 + barrier)}", f"barrier.wait b{barrier}"]
        lines += ["wait.copy"]
    memory = device.memory.bytes.copy()
    device.run("\n".join([*lines, "halt"]))
    for turn in range(3):
        for barrier in range(16):
            size, place = 16 * (1 + barrier), TARGET + 0x2000 * turn + 512 * barrier
            start = 0x1000 * turn + 64 * barrier
            assert np.array_equal(device.memory.bytes[place:place + size], memory[start:start + size]), (turn, barrier)


def test_rounds_of_one_barrier(device):
    """One barrier for boxes and blocks, round after round; a round may have several copies."""
    one = f"barrier.expect b4, {BOX}\n{LOAD}barrier.wait b4\n"
    more = f"copy_block.shared.global ur1, ur2, 3, b4\n{LOAD}barrier.expect b4, {BOX + 48}\n"
    two = f"{LOAD}barrier.expect b4, {BOX}\n{more}barrier.wait b4\n"
    device.run(START + (one + two) * 3 + "barrier.wait b4\nhalt")


@pytest.mark.parametrize("expected, code", [(BOX + 16, ErrorCode.BARRIER_UNDERRUN), (BOX - 16, ErrorCode.BARRIER_OVERRUN),
                                            (0, ErrorCode.BARRIER_OVERRUN)])
def test_wrong_numbers_of_bytes(device, expected, code):
    """Copies of tensors: the wait ends with an error, also in a later round. Bytes too many that come after a wait belong to the next."""
    wrong = f"barrier.expect b4, {expected}\n{LOAD}barrier.wait b4\nwait.copy\nbarrier.wait b4\nhalt"
    assert error_of(device, START + wrong) == (code, 4, 0)
    assert error_of(device, START + f"barrier.expect b4, {BOX}\n{LOAD}barrier.wait b4\n" + wrong) == (code, 4, 0)


def test_a_copy_that_is_dropped_is_the_first_error(device):
    """The barrier hears nothing of a box that breaks a rule: the rule is reported, and the wait does not hang."""
    device.write(DESCRIPTOR, np.frombuffer(FIELDS.encode(), np.uint8))
    wait = f"barrier.expect b4, {BOX}\n{LOAD}barrier.wait b4\nhalt"
    assert error_of(device, START + "umov ur1, 64\n" + wait) == (ErrorCode.TENSOR_SHARED_ADDRESS, 64, 0)
    assert error_of(device, START + "umov ur5, 3\n" + wait) == (ErrorCode.TENSOR_COORDINATE_ALIGNMENT, 3, 0)
    assert error_of(device, START + f"umov ur3, {DESCRIPTOR + 16}\n" + wait) == (ErrorCode.TENSOR_DESCRIPTOR_ADDRESS, DESCRIPTOR + 16, 0)
    device.run(START + wait)


def test_under_run_without_any_copy(device):
    assert error_of(device, "barrier.expect b7, 16\nbarrier.wait b7\nhalt") == (ErrorCode.BARRIER_UNDERRUN, 7, 0)


# -- the same in all memories ---------------------------------------------------------------

MEMORIES = [{"latency": 2}, {"latency": 700, "bandwidth": 0.05}, {"latency": 40, "jitter": 300, "seed": 5}]
BLOCKS = "copy_block.shared.global ur1, ur2, {}, b4\n"
WAIT = "barrier.wait b4\n"
ROWS = "umov ur20, 0\numov ur21, 64\numov ur22, 0\numov ur23, 256\numov ur24, 4\numov ur25, 7\n"


def expect(count):
    return f"barrier.expect b4, {count}\n"


# Programs with too many bytes, or too few, for a wait; what comes behind it would hide that.
LATE = {
    "blocks": expect(48) + BLOCKS.format(4) + WAIT,
    "one of two copies": BLOCKS.format(4) + BLOCKS.format(1) + expect(64) + WAIT,
    "first of two copies": expect(16) + BLOCKS.format(1) + BLOCKS.format(4) + WAIT,
    "many blocks": expect(16) + BLOCKS.format(300) + WAIT,
    "rows": ROWS + expect(16 * 24) + "copy_rows.shared.global ur20, ur22, ur24, b4\n" + WAIT,
    "store": expect(256) + "copy_block.global.shared ur8, ur1, 17, b4\n" + WAIT,
    "box": expect(BOX - 512) + LOAD + WAIT,
    "box behind blocks": expect(64) + BLOCKS.format(4) + LOAD + WAIT,
    "blocks behind boxes": expect(2 * BOX) + LOAD + LOAD + BLOCKS.format(1) + WAIT,
    "second round": expect(64) + BLOCKS.format(4) + WAIT + expect(64) + BLOCKS.format(8) + WAIT,
    "made up for by the next round": expect(48) + BLOCKS.format(4) + WAIT + BLOCKS.format(2) + expect(48) + WAIT,
    "too few, made up for by the next round": expect(80) + BLOCKS.format(4) + WAIT + BLOCKS.format(2) + expect(16) + WAIT,
    "too many expected": expect(1 << 31) + expect(1 << 31) + WAIT,
    "too many expected of a copy": expect(1 << 31) + BLOCKS.format(4) + expect(64) + expect(1 << 31) + WAIT,
}
USE = START + "umov ur8, 0x10800\n"


def place_of(device, program):
    """Code, program counter and operand of the error."""
    error = failure_of(device, program)
    return error.code, error.pc, error.operand


def assert_the_same_in_all_memories(cfg):
    with make("golden", cfg) as device:
        found = {name: place_of(device, USE + program + "wait.copy\nhalt") for name, program in LATE.items()}
    assert {code for code, _, _ in found.values()} == {ErrorCode.BARRIER_OVERRUN, ErrorCode.BARRIER_UNDERRUN, ErrorCode.BARRIER_EXPECT}
    for memory in MEMORIES:
        with make("verilator", cfg, **memory) as device:
            for name, program in LATE.items():
                for behind in ("halt", "wait.copy\nhalt"):
                    assert place_of(device, USE + program + behind) == found[name], (memory, name)


def test_wrong_numbers_of_bytes_in_all_memories():
    """Where a wait fails does not depend on when bytes arrive."""
    assert_the_same_in_all_memories(CFG)


@pytest.mark.nightly
@pytest.mark.parametrize("cfg", [
    load_config("base"), OWN_PORTS, pytest.param(CFG.replace(name="tiny_far", far_registers=True), marks=pytest.mark.soak)],
    ids=lambda cfg: cfg.name)
def test_wrong_numbers_of_bytes_in_other_configurations(cfg):
    assert_the_same_in_all_memories(cfg)


# -- limits of waits ------------------------------------------------------------------------

SLOW = {
    "barrier": (f"barrier.expect b4, {BOX}\n{LOAD}barrier.wait b4\n", 4),
    "copy": (f"{LOAD}wait.copy\n", 2),
    "thread": ("segment.global.b32.d1 ur9, 0\nmov r300, 0\nld.b32 r0, ur9:rf300:0\nwait.thread\n", 1),
    "group": ("copy_block.global.shared ur3, ur1, 1\ncopy_block.global.shared ur3, ur1, 1\ncommit_group\nwait_group 0\n", 0),
    "full": ("copy_block.global.shared ur3, ur1, 1\n" + "commit_group\n" * 9, 0),
}


@pytest.mark.parametrize("wait", SLOW)
def test_a_wait_that_takes_too_long(wait):
    program, operand = SLOW[wait]
    with make("verilator", TWO_CORES, latency=600, wait_timeout_cycles=150) as device:
        with pytest.raises(DeviceError) as caught:
            device.run(START + program + "trap 1\n")
        assert (caught.value.code, caught.value.operand) == (ErrorCode.WAIT_TIMEOUT, operand)
        assert "longer than the limit of waits" in str(caught.value)
        device.wait_timeout_cycles = 1500       # each wait has its own time
        device.write(DESCRIPTOR, np.frombuffer(FIELDS.encode(), np.uint8))
        assert device.run(START + program * 12 + USES).cycles > 1500
        device.wait_timeout_cycles = 0
        device.run(START + program + USES)


def test_no_limit_in_configurations_without():
    rule = r"^wait_timeout_cycles must be 0 in configuration small \(wait_timeout is false; true in base, .*\), not 7$"
    with pytest.raises(ValueError, match=rule):
        Device("small", "golden", memory_bytes=4096, wait_timeout_cycles=7)
    with pytest.raises(ValueError, match="^wait_timeout_cycles must be from 0 to 4294967295, not -1$"):
        Device("tiny", "golden", memory_bytes=4096, wait_timeout_cycles=-1)
