"""Random programs leave the same registers and memories on the hardware and on the functional simulator."""

import numpy as np
from heddle import load_config
from heddle_sim import Device
from heddle_verif.programs import RandomProgram, dump_bytes, dump_program, initial_memory

CFG = load_config("tiny")
MEMORY = 1 << 16
DUMP = 8192         # global address of the dump
SEEDS = range(20)


def results(simulator):
    """Dump after each of the random programs, one device for all of them: state goes on from run to run."""
    dump = dump_program(CFG, DUMP)
    with Device(CFG, simulator, memory_bytes=MEMORY, jitter=5, timeout_cycles=200_000) as device:
        for seed in SEEDS:
            rng = np.random.default_rng(seed)
            if seed % 4 == 0:
                device.write(0, initial_memory(rng))
            program = RandomProgram(CFG, rng, 120)
            device.run(program.text, {number: int(value) for number, value in enumerate(rng.integers(0, 1 << 32, 8))})
            device.run(dump)
            yield seed, program.text, device.read(0, DUMP + dump_bytes(CFG), np.uint8)


def test_random_programs():
    for (seed, text, found), (_, _, expected) in zip(results("verilator"), results("golden"), strict=True):
        wrong = np.flatnonzero(found != expected)
        assert not len(wrong), f"seed {seed}: {len(wrong)} bytes differ, {place(wrong[0])}\n{text}"


def place(address):
    """What a byte of the result is."""
    if address < DUMP + CFG.shared_bytes:
        return f"shared memory {address - DUMP:#x}" if address >= DUMP else f"global memory {address:#x}"
    quad, rest = divmod(address - DUMP - CFG.shared_bytes, 16 * CFG.threads)
    thread, byte = divmod(rest, 16)
    return f"r{4 * quad + byte // 4} of thread {thread}"


def test_random_programs_use_everything():
    """The programs are no empty exercise: every kind of instruction occurs and results vary."""
    names = set()
    dumps = []
    for _, text, dump in results("golden"):
        names |= {word.split(".")[0] for line in text.splitlines() for word in line.split() if not word.startswith("@")}
        dumps.append(dump)
    assert {"mm8", "ld", "st", "copy_block", "lanemask", "setp", "usetp", "bra", "add", "usub", "barrier", "wait"} <= names
    registers = [dump[DUMP + CFG.shared_bytes:] for dump in dumps]
    assert np.count_nonzero(registers[-1]) > len(registers[-1]) // 20
    assert all((one != other).any() for one, other in zip(registers, registers[1:], strict=False))
