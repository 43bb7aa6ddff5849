"""The device as a user sees it: memory, programs, errors, matrix products; simulated by function and as hardware."""

import re

import numpy as np
import pytest
from heddle import load_config
from heddle.isa.error_codes import ErrorCode
from heddle_sim import Device, DeviceError, OutOfMemory, Stats
from heddle_sim.device.memory import ALIGNMENT, Allocator, GlobalMemory, row_pitch
from heddle_sim.isa.program import Program
from heddle_sim.kernels.parts.launch import Launch

TINY = load_config("tiny")


@pytest.fixture(params=["golden", "verilator"])
def backend(request):
    return request.param


@pytest.fixture
def device(backend):
    with Device(TINY, backend, memory_bytes=1 << 20) as device:
        yield device


# -- memory ---------------------------------------------------------------------------------


def test_allocations_do_not_overlap_and_are_aligned():
    generator = np.random.default_rng(1)
    allocator, taken = Allocator(1 << 20), {}
    for _ in range(2000):
        if taken and generator.random() < 0.45:
            address = list(taken)[generator.integers(len(taken))]
            allocator.free(address)
            del taken[address]
        else:
            size = int(generator.integers(1, 5000))
            try:
                address = allocator.allocate(size)
            except OutOfMemory:
                continue
            assert address % ALIGNMENT == 0 and address + size <= allocator.size
            assert all(address + size <= other or other + length <= address for other, length in taken.items())
            taken[address] = size
    assert allocator.used == sum(-(-size // ALIGNMENT) * ALIGNMENT for size in taken.values())


def test_freed_memory_is_used_again():
    allocator = Allocator(1024)
    first, second = allocator.allocate(512), allocator.allocate(512)
    with pytest.raises(
        OutOfMemory, match=r"^memory_bytes must leave room for 1 more bytes, not 1024 with 1024 in use$"
    ):
        allocator.allocate(1)
    allocator.free(first)
    assert allocator.allocate(300) == first
    allocator.free(second)
    with pytest.raises(ValueError, match="^address must be one that allocate returned"):
        allocator.free(second)


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "8"])
def test_allocation_sizes_are_checked(bad):
    with pytest.raises(ValueError, match="^nbytes must be an integer from 1, not "):
        Allocator(1024).allocate(bad)


@pytest.mark.parametrize(
    "columns, element_bytes, pitch", [(1, 1, 16), (16, 1, 16), (17, 1, 32), (4, 4, 16), (5, 4, 32)]
)
def test_row_pitch(columns, element_bytes, pitch):
    assert row_pitch(columns, element_bytes) == pitch


def test_matrices_are_padded_with_zeros():
    memory = GlobalMemory(4096)
    memory.bytes[:] = 255
    matrix = np.arange(-6, 9, dtype=np.int8).reshape(3, 5)
    address = memory.place(matrix)
    image = memory.bytes[address : address + 48].reshape(3, 16)
    assert np.array_equal(image[:, :5].view(np.int8), matrix)
    assert not image[:, 5:].any()
    assert np.array_equal(memory.matrix(address, (3, 5), np.int8), matrix)


def test_write_and_read(device):
    data = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    address = device.allocate(data.nbytes)
    device.write(address, data.transpose(2, 0, 1))
    assert np.array_equal(device.read(address, (4, 2, 3), np.int32), data.transpose(2, 0, 1))
    device.free(address)
    with pytest.raises(
        ValueError, match="^address must leave 96 bytes below the 1048576 bytes of memory, not 0xfffff$"
    ):
        device.write((1 << 20) - 1, data)
    with pytest.raises(ValueError, match="^address must leave 4 bytes below"):
        device.read(-4, (1,), np.int32)


# -- parameters -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters, error, message",
    [
        ({"simulator": "fast"}, ValueError, "simulator must be one of verilator, golden, not 'fast'"),
        ({"memory_bytes": 5000}, ValueError, "memory_bytes must be a multiple of 4096, not 5000"),
        ({"memory_bytes": 1 << 33}, ValueError, "memory_bytes must be from 4096 to 4294967296, not 8589934592"),
        ({"memory_bytes": 1e6}, TypeError, "memory_bytes must be an integer, not 1000000.0"),
        ({"timeout_cycles": 0}, ValueError, "timeout_cycles must be from 1 to 4294967295, not 0"),
        ({"latency": 0}, ValueError, "latency must be an integer from 1, not 0"),
        ({"bandwidth": 2.0}, ValueError, "bandwidth must be above 0 and at most 1 (beats per cycle), not 2.0"),
        ({"config": "nope"}, ValueError, "configuration must be one of "),
    ],
)
def test_parameters_of_the_device(parameters, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        Device(**{"config": TINY, "simulator": "golden"} | parameters)


# -- programs -------------------------------------------------------------------------------

STORE = """
    segment.global.b32.d1 ur8, ur0
    mov r0, %tid
    mov r1, ur1
    add r1, r1, r0
    mov r300, %tid
    st.b32 ur8:rf300:0, r1
    halt
"""


def test_a_program_reads_uniform_registers_and_writes_memory(device):
    address = device.allocate(64)
    stats = device.run(STORE, uniform={0: address, 1: -5})
    assert device.read(address, (TINY.threads,), np.int32).tolist() == [index - 5 for index in range(TINY.threads)]
    assert stats.peak_macs_per_cycle == 32
    if device.simulator == "golden":
        assert stats.cycles is None and stats.utilization is None
    else:
        assert stats.cycles == sum(stats.breakdown.values()) > 7
    assert stats.counters["instructions"] == 7


@pytest.mark.parametrize(
    "program, code, pc, operand, source",
    [
        ("nop\ntrap 7\n", ErrorCode.TRAP, 1, 7, "line 2: trap 7"),
        ("\n.word 0\n", ErrorCode.ILLEGAL_INSTRUCTION, 0, 0, "line 2: .word 0"),
        ("bra 511\n", ErrorCode.PROGRAM_COUNTER, 0, 511, "line 1: bra 511"),
        ("nop\nnop\n", ErrorCode.PROGRAM_COUNTER, 2, 2, ""),
        ("nop\nnop\nloop: bra loop\n", ErrorCode.TIMEOUT, 2, 1000, "line 3: loop: bra loop"),
        ("barrier.expect b3, 16\nbarrier.wait b3\n", ErrorCode.BARRIER_UNDERRUN, 1, 3, "line 2: barrier.wait b3"),
        (
            "segment.global.b32.d1 ur8, 2\nmov r300, 0\nld.b32 r0, ur8:rf300:0\nhalt",
            ErrorCode.MISALIGNED,
            2,
            2,
            "line 3: ld.b32 r0, ur8:rf300:0",
        ),
        (
            "segment.global.b32.d1 ur8, 0x200000\nmov r300, 0\nld.b32 r0, ur8:rf300:0\nhalt",
            ErrorCode.AXI_READ,
            2,
            0x200000,
            "line 3: ld.b32 r0, ur8:rf300:0",
        ),
    ],
    ids=lambda value: value.name if isinstance(value, ErrorCode) else None,
)
def test_errors_name_code_place_and_value(backend, program, code, pc, operand, source):
    with Device(TINY, backend, memory_bytes=1 << 20, timeout_cycles=1000) as device:
        with pytest.raises(DeviceError) as caught:
            device.run(program)
        error = caught.value
        assert (error.code, error.pc, error.operand, error.source) == (code, pc, operand, source)
        assert code.name in str(error) and error.message in str(error) and "\n" not in str(error)
        address = device.allocate(64)
        device.run(STORE, uniform={0: address, 1: 1})  # usable afterwards
        assert device.read(address, (1,), np.int32)[0] == 1


def test_nothing_of_a_longer_program_is_left(device):
    """Instructions behind the last one are void, whatever was there before."""
    for program, place in (("nop\nnop\n", (2, 2)), ("nop\nbra 2\n", (1, 2)), ("bra 7\nhalt\n", (0, 7)), ("nop\nnop\nnop\n", (3, 3))):
        device.run("nop\n" * 20 + "halt\n")
        with pytest.raises(DeviceError) as caught:
            device.run(program)
        assert (caught.value.code, caught.value.pc, caught.value.operand) == (ErrorCode.PROGRAM_COUNTER, *place)


@pytest.mark.parametrize(
    "program, places",
    [
        ("nop\nagain: uadd ur1, ur1, 1\nmov r1, ur1\nbra again\nhalt", {1, 2, 3}),
        ("umov ur1, 0\ncopy_block.shared.global ur1, ur1, 4\nwait.copy\nhalt", {2}),
        ("umov ur1, 0\nbarrier.expect b1, 16\ncopy_block.shared.global ur1, ur1, 1, b1\nbarrier.wait b1\nhalt", {3}),
        ("umov ur1, 0\ncopy_block.global.shared ur1, ur1, 4\nnop\nhalt", {3}),
    ],
    ids=["loop", "wait", "barrier", "drain"],
)
def test_the_time_limit_names_the_instruction_that_runs(program, places):
    """A loop, waits that take too long, and stores behind the end of the program: that of ``halt``."""
    with Device(TINY, memory_bytes=1 << 20, timeout_cycles=1500, latency=3000) as device:
        with pytest.raises(DeviceError) as caught:
            device.run(program)
        assert caught.value.code is ErrorCode.TIMEOUT
        assert caught.value.pc in places
        assert program.splitlines()[caught.value.pc] in str(caught.value)



@pytest.mark.parametrize(
    "program, uniform, error, message",
    [
        (7, None, TypeError, "program must be a Program or text, not int"),
        (Program([]), None, ValueError, "program must have 1 to 512 instructions, not 0"),
        (Program([1] * 513), None, ValueError, "program must have 1 to 512 instructions, not 513"),
        ("halt", {64: 0}, ValueError, "uniform register number must be from 0 to 63, not 64"),
        ("halt", {"a": 0}, TypeError, "uniform register number must be an integer, not 'a'"),
        ("halt", {0: 1 << 32}, ValueError, "value of ur0 must be from -2147483648 to 4294967295, not 4294967296"),
        ("halt", {0: 0.5}, TypeError, "value of ur0 must be an integer, not 0.5"),
        ("jump\n", None, ValueError, "line 1: "),
    ],
)
def test_parameters_of_a_run(device, program, uniform, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        device.run(program, uniform)


def test_a_closed_device_says_so(device):
    device.close()
    device.close()
    with pytest.raises(ValueError, match="^device must be open, not closed$"):
        device.run("halt")


# -- matrix products ------------------------------------------------------------------------

SHAPES = [(1, 1, 1), (8, 8, 4), (8, 8, 8), (7, 9, 5), (9, 7, 17), (16, 24, 64), (1, 40, 3), (40, 1, 33), (13, 11, 150)]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
@pytest.mark.parametrize("a_type, b_type", [("int8", "int8"), ("uint8", "int8"), ("int8", "uint8"), ("uint8", "uint8")])
def test_matmul_equals_numpy(device, shape, a_type, b_type):
    """Every signedness and ragged shapes [S0.1, S0.3]."""
    m, n, k = shape
    generator = np.random.default_rng([m, n, k])
    a = generator.integers(np.iinfo(a_type).min, np.iinfo(a_type).max, (m, k), a_type, endpoint=True)
    b = generator.integers(np.iinfo(b_type).min, np.iinfo(b_type).max, (k, n), b_type, endpoint=True)
    c, stats = device.matmul(a, b)
    assert c.dtype == np.int32 and np.array_equal(c, a.astype(np.int32) @ b.astype(np.int32))
    assert stats.macs == m * n * k
    if stats.cycles is not None:
        assert stats.cycles == sum(stats.breakdown.values())
        assert stats.counters["matrix_steps"] == stats.breakdown["matrix"]
        assert 0 < stats.utilization <= 1
    transposed, _ = device.matmul(a, np.ascontiguousarray(b.T), transpose=True)
    assert np.array_equal(transposed, c)
    assert device.memory.allocator.used == 0


A, B = np.zeros((3, 4), np.int8), np.zeros((4, 5), np.int8)


@pytest.mark.parametrize(
    "a, b, transpose, error, message",
    [
        ("abc", B, False, TypeError, "a must be a numpy array, not str"),
        (A.astype(float), B, False, TypeError, "a must have dtype int8, uint8, int16 or uint16, not float64"),
        (A, B.astype(np.int16), False, TypeError, "b must have elements of the size of a's (int8), not int16"),
        (A[0], B, False, ValueError, "a must have 2 dimensions, not 1"),
        (A, B[:, :0], False, ValueError, "b must have at least one row and one column, not shape (4, 0)"),
        (A, B, True, ValueError, "b must have shape (N, 4) to match a of shape (3, 4), not (4, 5)"),
        (A, B.T, False, ValueError, "b must have shape (4, N) to match a of shape (3, 4), not (5, 4)"),
    ],
)
def test_parameters_of_matmul(device, a, b, transpose, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        device.matmul(a, b, transpose)
    assert device.memory.allocator.used == 0


def test_matmul_without_room(device):
    with pytest.raises(OutOfMemory, match="^memory_bytes must leave room for 4194304 more bytes"):
        device.matmul(np.zeros((1024, 4), np.int8), np.zeros((4, 1024), np.int8))
    assert device.memory.allocator.used == 0


def test_results_that_a_kernel_did_not_write_are_not_old_results(device, monkeypatch):
    device.matmul(np.ones((4, 4), np.int8), np.ones((4, 4), np.int8))
    from heddle_sim.isa import assemble

    monkeypatch.setattr("heddle_sim.kernels.streaming.StreamingKernel.launches", lambda *arguments: [Launch(assemble("halt", TINY))])
    c, _ = device.matmul(np.ones((4, 4), np.int8), np.ones((4, 4), np.int8))
    assert not (c == 4).any()


# -- figures --------------------------------------------------------------------------------


def test_stats():
    first = Stats(100, 1600, 32, {"matrix": 60, "control": 40}, {"instructions": 5})
    second = Stats(50, 0, 32, {"matrix": 0, "control": 50}, {"instructions": 7})
    assert first.utilization == 0.5
    total = first + second
    assert (total.cycles, total.macs, total.utilization) == (150, 1600, 1600 / (150 * 32))
    assert total.breakdown == {"matrix": 60, "control": 90} and total.counters == {"instructions": 12}
    assert (first + Stats(None, 0, 32)).cycles is None
    assert set(first.as_row()) == {"cycles", "macs", "peak_macs_per_cycle", "utilization", "breakdown", "counters"}


# -- order ----------------------------------------------------------------------------------

# A (8 rows of 64 bytes at a pitch of 128: all threads meet in one bank) is overwritten right behind the mm that it is loaded for.
OVERWRITE = """
    segment.shared.b8.d1 ur0, 0
    umov ur0, 0
    umov ur1, 4096
    umov ur2, 8192
    copy_block.shared.global ur0, ur8, 64
    copy_block.shared.global ur1, ur9, 64
    copy_block.shared.global ur2, ur10, 64
    mov r20, %tid
    shl r21, r20, 7
    mov r319, r21
    wait.copy
    ld.v4 r256, ur0:rf21:0
    ld.v4 r260, ur0:rf21:16
    ld.v4 r264, ur0:rf21:32
    ld.v4 r268, ur0:rf21:48
    mm8.sa.sb.k16.z r0, ur0:rf319:4096, r256
    copy_block.shared.shared ur0, ur2, 64
    st.v4 ur0:rf21:12288, r0
    st.v4 ur0:rf21:12304, r4
    wait.thread
    umov ur3, 12288
    copy_block.global.shared ur11, ur3, 64
    wait.copy
    halt
"""


def test_a_copy_behind_mm_does_not_overtake_the_loads_of_its_factors(device):
    """Also where ``mm`` was issued ahead of these loads [S0.10]."""
    rng = np.random.default_rng(27)
    a, b, other = (rng.integers(-128, 128, (8, 128), np.int8) for _ in range(3))
    addresses = [device.allocate(1024) for _ in range(4)]
    for address, array in zip(addresses, (a, b, other)):
        device.write(address, array)
    device.run(OVERWRITE, uniform=dict(zip((8, 9, 10, 11), addresses)))
    c = device.read(addresses[3], (8, 128), np.uint8)[:, :32].copy().view("<i4")
    assert np.array_equal(c, a[:, :64].astype(np.int32) @ b[:, :64].T.astype(np.int32))
