"""Errors that no other test of a device ends with: the same code and operand on the hardware and the functional simulator."""

import numpy as np
import pytest
from heddle.isa.error_codes import ErrorCode
from heddle_sim.device import Device, DeviceError
from heddle_sim.isa import assemble
from heddle_verif.stimulus.tensor_rule_cases import DESCRIPTORS, bytes_of

DESCRIPTOR = 1 << 12


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


@pytest.mark.parametrize("name", ["MODE", "FORMAT", "INTERLEAVE", "STRIDE_ALIGNMENT"])
def test_descriptors(name, devices):
    """Values that ``TensorMap`` refuses, written into the descriptor in memory."""
    fields, value, _ = DESCRIPTORS[name]
    for device in devices:
        device.write(DESCRIPTOR, np.frombuffer(bytes_of(fields), np.uint8))
    text = f"umov ur3, {DESCRIPTOR}\numov ur4, 0\numov ur5, 0\numov ur6, 0\numov ur7, 0\ninvalidate_descriptor ur3\n" \
           "copy_tensor.tile.3d.shared.global ur7, ur3, ur4, b0\nwait.copy\nhalt"
    check(devices, text, ErrorCode[f"TENSOR_{name}"], 6, value)
