"""The device of tests that name none of their own: ``base`` on the functional simulator."""

import pytest
from heddle_sim import Device


@pytest.fixture(scope="module")
def device():
    with Device("base", "golden", memory_bytes=1 << 20) as device:
        yield device
