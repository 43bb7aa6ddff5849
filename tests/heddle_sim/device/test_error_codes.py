"""Errors that no other test of a device ends with: the same code and operand on the hardware and the functional simulator."""

import numpy as np
import pytest
from heddle.isa.error_codes import ErrorCode
from heddle.isa.tensor_descriptor import Interleave, TensorFormat, TensorMode, descriptor_layout
from heddle_sim.device import Device, DeviceError
from heddle_sim.golden.tensor_fields import TensorFields
from heddle_sim.isa import assemble

DESCRIPTOR = 1 << 12
ROWS = TensorFields(sizes=(32, 8, 2), strides=(64, 512), box=(32, 2, 1), element_strides=(1, 1, 1))


@pytest.fixture(scope="module")
def devices():
    with (Device("tiny", memory_bytes=1 << 13, timeout_cycles=60_000) as hardware,
          Device("tiny", "golden", memory_bytes=1 << 13) as golden):
        yield hardware, golden


def check(devices, text, code, pc, operand):
    for device in devices:
        with pytest.raises(DeviceError) as caught:
            device.run(assemble(text, device.cfg))
        assert (caught.value.code, caught.value.pc, caught.value.operand) == (code, pc, operand), device.simulator
        device.run(assemble("halt", device.cfg))        # the device stays usable


def test_a_trap_that_is_not_taken(devices):
    for device in devices:
        device.run(assemble("usetp.eq up0, ur0, 1\n@up0 trap 7\nhalt", device.cfg), {0: 0})


@pytest.mark.parametrize("text, operand", [
    ("segment.shared.b8.128B ur1, 0x380\nmov r256, 120\nmm8.k3 r0, ur1:rf256:0, r256\nhalt", 0x400),
    ("segment.shared.b8.64B ur1, 0x380\nmov r256, 120\nmm8.kb3 r0, ur1:rf256:0, r256\nhalt", 0x400)])
def test_columns_behind_their_panel(text, operand, devices):
    check(devices, text, ErrorCode.PANEL_RANGE, 2, operand)


@pytest.mark.parametrize("code, fields, value", [
    (ErrorCode.TENSOR_MODE, {"mode": len(TensorMode)}, len(TensorMode)),
    (ErrorCode.TENSOR_FORMAT, {"format": len(TensorFormat)}, len(TensorFormat)),
    (ErrorCode.TENSOR_INTERLEAVE, {"interleave": len(Interleave)}, len(Interleave)),
    (ErrorCode.TENSOR_STRIDE_ALIGNMENT, {"interleave": Interleave.B32.value, "swizzle": 1, "stride_low": 5}, 80)])
def test_descriptors(code, fields, value, devices):
    """Values that ``TensorMap`` refuses, written into the descriptor in memory."""
    record = int.from_bytes(ROWS.encode(), "little")
    for name, number in fields.items():
        field = descriptor_layout[name]
        mask = (1 << field.width) - 1
        record = record & ~(mask << field.offset) | number << field.offset
    for device in devices:
        device.write(DESCRIPTOR, np.frombuffer(record.to_bytes(128, "little"), np.uint8))
    text = f"umov ur3, {DESCRIPTOR}\numov ur4, 0\numov ur5, 0\numov ur6, 0\numov ur7, 0\ninvalidate_descriptor ur3\n" \
           "copy_tensor.tile.3d.shared.global ur7, ur3, ur4, b0\nwait.copy\nhalt"
    check(devices, text, code, 6, value)
