"""``wait_thread``: copies of what some of the last thread instructions have not stored yet."""

import numpy as np
import pytest
from heddle_sim import Device
from heddle_sim.isa import assemble, disassemble

STORES = 6


def program(unfinished, delay):
    """Stores of r0 + n to shared address 64 n; behind each ``wait_thread`` the store that is then over is copied to global memory."""
    lines = ["segment.shared.b8.d1 ur4, 0", "mov r1, %tid", "shl r1, r1, 2", "mov r0, %tid", "wait.thread"]
    for number in range(STORES):
        lines += [f"add r2, r0, {100 * number}", "mul r3, r2, 1"] * delay + [f"add r2, r0, {100 * number}",
                                                                           f"st.b32 ur4:r1:{64 * number}, r2"]
    last = STORES - 1 - unfinished // (2 + 2 * delay)       # each store has instructions before it
    lines += [f"wait_thread {unfinished}"]
    for number in range(last + 1):
        lines += [f"umov ur1, {64 * number}", f"umov ur2, {4096 + 64 * number}", "copy_block.global.shared ur2, ur1, 2"]
    return "\n".join([*lines, "halt"]), last


@pytest.mark.parametrize("model", ["golden", "verilator"])
def test_stores_before_the_last_instructions_are_over(model):
    with Device("tiny", simulator=model, memory_bytes=1 << 16) as device:
        for delay in (0, 1):
            for unfinished in range(9):
                device.memory.write(4096, np.zeros(64 * STORES, np.uint8))
                text, last = program(unfinished, delay)
                device.run(text)
                for number in range(last + 1):
                    stored = device.read(4096 + 64 * number, (8,), np.int32)
                    assert np.array_equal(stored, np.arange(8) + 100 * number), (delay, unfinished, number)


def test_text():
    text = "    wait_thread 31\n    wait.thread\n    wait\n    halt\n"
    words = assemble(text)
    assert disassemble(words).replace("wait.thread.copy.matrix", "wait") == text
    assert assemble("wait_thread 0").words == assemble("wait.thread").words
    with pytest.raises(ValueError, match="amount must be from 0 to 31, not 32"):
        assemble("wait_thread 32")
