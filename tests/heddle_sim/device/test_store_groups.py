"""Groups of stores in whole programs: what has passed is in memory, what was read may be overwritten."""

import numpy as np
import pytest
from heddle import load_config
from heddle.isa.error_codes import ErrorCode
from heddle.isa.tensor_descriptor import TensorFormat
from heddle_sim.device import Device, DeviceError
from heddle_sim.golden.tensor_fields import TensorFields

CFG = load_config("tiny")
MEMORY_BYTES = 1 << 17
DESCRIPTOR, SOURCE, TARGET, TIMES, SIZE = 0x1_0000, 0, 0x8000, 0x1_8000, 2048
FIELDS = TensorFields(sizes=(64, 64), strides=(64,), box=(64, 32), element_strides=(1, 1), address=TARGET, format=TensorFormat.U8)

# ur0 …: times, shared memory, global memory, the descriptor, coordinates (ur5, ur6).
START = f"""
    umov ur1, 0
    umov ur2, {SOURCE}
    umov ur3, {DESCRIPTOR}
    umov ur5, 0
    umov ur6, 0
    umov ur7, {TARGET + SIZE}
    umov ur8, {SIZE}
    segment.global.b32.d1 ur9, {TIMES}
    invalidate_descriptor ur3
    barrier.expect b0, {2 * SIZE}
    copy_block.shared.global ur1, ur2, {SIZE // 8}, b0
    barrier.wait b0
"""
# The first group stores a tensor, the second one blocks; their sources take new bytes as soon as they have been read.
GROUPS = START + f"""
    umov ur10, %cycle
    copy_tensor.tile.2d.global.shared ur1, ur3, ur5
    commit_group
    copy_block.global.shared ur7, ur8, {SIZE // 16}
    commit_group
    wait_group.read 1
    umov ur11, %cycle
    copy_block.shared.global ur1, ur7, {SIZE // 16}
    wait_group.read 0
    umov ur12, %cycle
    wait_group 1
    umov ur13, %cycle
    wait_group 0
    umov ur14, %cycle
    copy_block.shared.global ur8, ur7, {SIZE // 16}
    wait
    mov r0, ur10
    mov r1, ur11
    mov r2, ur12
    mov r3, ur13
    mov r4, ur14
    mov r300, 0
    st.v4 ur9:rf300:0, r0
    st.b32 ur9:rf300:4, r4
    umov ur2, {SOURCE}
    umov ur7, {TARGET + 2 * SIZE}
    copy_block.global.shared ur7, ur1, {SIZE // 8}
    halt
"""


@pytest.fixture(params=["golden", "verilator"])
def device(request):
    with Device(CFG, request.param, memory_bytes=MEMORY_BYTES, timeout_cycles=100_000) as device:
        yield device


def prepare(device):
    values = np.random.default_rng(3).integers(0, 256, MEMORY_BYTES, np.uint8)
    device.memory.bytes[:] = values
    device.write(DESCRIPTOR, np.frombuffer(FIELDS.encode(), np.uint8))
    return device.memory.bytes.copy()


def test_groups(device):
    before = prepare(device)
    device.run(GROUPS)
    after = device.memory.bytes
    assert np.array_equal(after[TARGET:TARGET + 2 * SIZE], before[SOURCE:SOURCE + 2 * SIZE])
    assert np.array_equal(after[TARGET + 3 * SIZE:TARGET + 4 * SIZE], before[SOURCE + SIZE:SOURCE + 2 * SIZE])  # stored before it is loaded
    if device.simulator == "verilator":
        start, read_first, read_all, first, both = (int(value) for value in device.read(TIMES, 5, np.uint32))
        beats = SIZE // CFG.axi_bytes
        assert beats <= read_first - start < read_all - start
        assert read_first + 32 < first, "a source is free before the answers of memory, 64 cycles away"
        assert first < both


def test_a_group_of_no_store_passes(device):
    device.run("commit_group\nwait_group 0\n" + "commit_group\n" * 20 + "wait_group.read 3\nwait_group 0\nhalt")


def test_zero_blocks_belong_to_no_group(device):
    device.run(START + "copy_block.global.shared ur7, ur8, 0\ncommit_group\nwait_group 0\n"
               "umov ur20, 0\numov ur21, 0\ncopy_rows.global.shared ur1, ur8, ur20\ncommit_group\nwait_group.read 0\nhalt")


def test_rows_are_one_store_or_many(device):
    """All rows of a copy belong to the group behind them."""
    before = prepare(device)
    program = START + f"""
    umov ur16, {TARGET}
    umov ur17, 128
    umov ur18, 0
    umov ur19, 64
    umov ur20, 4
    umov ur21, 20
    copy_rows.global.shared ur16, ur18, ur20
    commit_group
    wait_group 0
    umov ur16, {TARGET + 0x4000}
    umov ur18, {TARGET}
    umov ur1, 0
    copy_block.shared.global ur1, ur18, 160
    wait.copy
    copy_block.global.shared ur16, ur1, 160
    halt
    """
    device.run(program)
    copied = device.memory.bytes[TARGET + 0x4000:].reshape(-1, 128)[:20, :64]
    assert np.array_equal(copied, before[:20 * 64].reshape(20, 64))


def test_a_store_that_fails_ends_the_program(device):
    prepare(device)
    for _ in range(2):
        with pytest.raises(DeviceError) as caught:
            device.run(START + "copy_block.global.shared ur7, ur8, 100\ncommit_group\nuadd ur7, ur7, 4\n"
                       "copy_block.global.shared ur7, ur8, 1\ncommit_group\nwait_group 0\nbra 0\n")
        assert caught.value.code is ErrorCode.MISALIGNED
    device.run(GROUPS)


def test_without_tensors():
    with Device(load_config("tiny").replace(tensors=False), "golden", memory_bytes=4096) as device:
        for text in ("commit_group", "wait_group.read 2"):
            with pytest.raises(DeviceError) as caught:
                device.run(text + "\nhalt")
            assert caught.value.code is ErrorCode.UNSUPPORTED
