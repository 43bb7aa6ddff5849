"""Random programs on the generated hardware and on the functional simulator: all of global memory must be equal."""

import numpy as np
from heddle.constants import UNIFORM_REGISTERS
from heddle.isa.error_codes import ErrorCode
from heddle_sim.backends.verilator_device import MemorySettings
from heddle_sim.device import Device, DeviceError

from ..stimulus.barrier_programs import BarrierPrograms
from ..stimulus.program_texts import broken_program, fill_program, random_program, state_program

__all__ = [
    "PRECISE",
    "PROGRAMS_OF_A_DEVICE",
    "compare_barrier_programs",
    "compare_broken_programs",
    "compare_programs",
    "differing",
    "random_settings",
]

MEMORY_BYTES = 1 << 17
PROGRAMS_OF_A_DEVICE = 10       # programs one after the other: what registers and shared memory keep is compared too
LENGTH = 110
# Found when the instruction is issued: nothing after it has an effect. Units find the others later, in their own time.
PRECISE = {ErrorCode.ILLEGAL_INSTRUCTION, ErrorCode.ILLEGAL_OPERAND, ErrorCode.UNSUPPORTED, ErrorCode.PROGRAM_COUNTER, ErrorCode.TRAP}


def random_settings(rng):
    """A memory that is fast, slow or disorderly."""
    return MemorySettings(latency=int(rng.integers(1, 80)), jitter=int(rng.choice([0, 7, 100])), stall=float(rng.choice([0, 0.2, 0.6])),
                          bandwidth=float(rng.choice([1.0, 0.4])), outstanding=int(rng.choice([2, 8, 256])),
                          interleave=bool(rng.integers(2)), seed=int(rng.integers(1 << 30)))


def differing(found, expected):
    """Text about the first bytes that differ."""
    places = np.flatnonzero(found != expected)
    return f"{len(places)} bytes differ, first at " + ", ".join(f"{place:#x}" for place in places[:8])


def compare_programs(cfg, seed, count, memory_bytes=MEMORY_BYTES, states=1):
    """``count`` programs after each other; all of memory is compared after each, which every ``states``-th stores its state to."""
    rng = np.random.default_rng(seed)
    with (Device(cfg, "verilator", memory_bytes=memory_bytes, memory_settings=random_settings(rng), timeout_cycles=4_000_000) as device,
          Device(cfg, "golden", memory_bytes=memory_bytes) as golden):
        device.memory.bytes[:] = golden.memory.bytes[:] = rng.integers(0, 256, memory_bytes, np.uint8)
        for number in range(count):
            text = random_program(rng, cfg, LENGTH, memory_bytes=memory_bytes, stores_state=(number + 1) % states == 0)
            device.run(text)
            golden.run(text)
            found, expected = device.memory.bytes, golden.memory.bytes
            assert np.array_equal(found, expected), f"seed {seed}, program {number}: {differing(found, expected)}\n{text}"


def outcome(device, program):
    """Code, program counter and operand of the error of a run, or None."""
    try:
        device.run(program)
    except DeviceError as error:
        return error.code, error.pc, error.operand
    return None


def compare_broken_programs(cfg, seed, count):
    """Programs with one broken instruction: the same error, and where it is precise the same state; returns the codes seen."""
    rng, seen = np.random.default_rng(seed), []
    with (Device(cfg, "verilator", memory_bytes=MEMORY_BYTES, memory_settings=random_settings(rng), timeout_cycles=100_000) as device,
          Device(cfg, "golden", memory_bytes=MEMORY_BYTES, timeout_cycles=2_000) as golden):
        for number in range(count):
            # What a broken instruction does besides may depend on time: both begin with the same state again.
            device.memory.bytes[:] = golden.memory.bytes[:] = rng.integers(0, 256, MEMORY_BYTES, np.uint8)
            for either in (device, golden):
                either.run(fill_program(cfg, 0), uniform=dict.fromkeys(range(UNIFORM_REGISTERS), 0))
            program, place = broken_program(rng, cfg, LENGTH, memory_bytes=MEMORY_BYTES)
            context = f"seed {seed}, program {number}, instruction {place}: {program.words[place]:#034x}\n{program.source}"
            expected, found = outcome(golden, program), outcome(device, program)
            if expected is None or expected[0] is ErrorCode.TIMEOUT or expected[1] != place:
                continue
            assert found == expected, context
            seen.append(expected[0])
            if expected[0] in PRECISE:
                device.run(state_program(cfg, MEMORY_BYTES))
                golden.run(state_program(cfg, MEMORY_BYTES))
                assert np.array_equal(device.memory.bytes, golden.memory.bytes), (
                    f"{differing(device.memory.bytes, golden.memory.bytes)}, {context}")
    return seen


def compare_barrier_programs(cfg, seed, count, *, wrong):
    """Programs of copies and barriers: the same error, or the same memory; returns the codes seen. See ``BarrierPrograms``."""
    rng, seen = np.random.default_rng(seed), []
    memory_bytes = max(MEMORY_BYTES, 4 * cfg.shared_bytes)
    with (Device(cfg, "verilator", memory_bytes=memory_bytes, memory_settings=random_settings(rng), timeout_cycles=1_000_000) as device,
          Device(cfg, "golden", memory_bytes=memory_bytes) as golden):
        programs = BarrierPrograms(rng, cfg, memory_bytes, wrong=wrong)
        for number in range(count):
            # An error leaves copies under way: both begin with the same memories again.
            device.memory.bytes[:] = golden.memory.bytes[:] = rng.integers(0, 256, memory_bytes, np.uint8)
            for either in (device, golden):
                either.run(fill_program(cfg, 0))
            text = programs.program(LENGTH)
            expected, found = outcome(golden, text), outcome(device, text)
            assert found == expected, f"seed {seed}, program {number}: {found}, not {expected}\n{text}"
            if expected is None:
                assert np.array_equal(device.memory.bytes, golden.memory.bytes), (
                    f"seed {seed}, program {number}: {differing(device.memory.bytes, golden.memory.bytes)}\n{text}")
            seen.append(expected and expected[0])
    return seen
