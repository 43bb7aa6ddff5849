"""Devices of tests that name none of their own: ``tiny`` on the hardware, ``base`` on the functional simulator."""

import pytest
from heddle_sim.device import Device

MEMORY = 1 << 21


@pytest.fixture(scope="module")
def device():
    with Device("tiny", memory_bytes=MEMORY) as device:
        yield device


@pytest.fixture(scope="module")
def golden():
    with Device("base", "golden", memory_bytes=MEMORY) as device:
        yield device
