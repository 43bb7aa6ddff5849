"""Random programs, legal as assembly text, and with one broken instruction."""

import random

from heddle.constants import BANK_BYTES, SEGMENTS
from heddle.isa.encoding import INSTRUCTION_BITS
from heddle_sim.isa.assembler import assemble
from heddle_sim.isa.program import Program

from .front_end_programs import ProgramGenerator
from .random_programs import ExecutableGenerator

__all__ = ["broken_program", "fill_program", "random_program", "state_program"]


def random_program(rng, cfg, length, *, executable=True, memory_bytes=1 << 16, stores_state=True):
    """Text of a program of about ``length`` random instructions and an end with ``halt``.

    Parameters
    ----------
    rng : numpy.random.Generator
    cfg : heddle.Config
    length : int
        Instructions before the end; less where the program would not fit the instruction memory.
    executable : bool
        False: operands are arbitrary, which is enough for the front end. True: addresses lie in their memories and are aligned,
        no result depends on time, and the end stores all registers, uniform registers, predicates and shared memory.
    memory_bytes : int
        Global memory, of executable programs: their results take the last part of it.
    stores_state : bool
        False: the end of an executable program stores nothing. The next one shows what it left in registers and shared memory.
    """
    source = random.Random(int(rng.integers(1 << 62)))
    generator = ExecutableGenerator(source, cfg, memory_bytes, stores_state) if executable else ProgramGenerator(source, cfg)
    return generator.program(length)


def broken_program(rng, cfg, length, *, memory_bytes):
    """An executable program in which one instruction word is broken, and the number of that instruction.

    One bit of the word is inverted, or all bits are random. Everything before has ended when the instruction is issued. So an error which
    the front end finds leaves a state that does not depend on time.
    """
    source = random.Random(int(rng.integers(1 << 62)))
    text, place = ExecutableGenerator(source, cfg, memory_bytes).interrupted(length)
    words = assemble(text, cfg).words
    words[place] = words[place] ^ 1 << source.randrange(INSTRUCTION_BITS) if source.random() < 0.7 else source.getrandbits(INSTRUCTION_BITS)
    return Program(words, source=text), place


def state_program(cfg, memory_bytes):
    """Text of a program that stores all registers and shared memory, like the end of a random program."""
    generator = ExecutableGenerator(random.Random(0), cfg, memory_bytes)
    generator.epilogue()
    return str(generator.text)


def fill_program(cfg, address):
    """Text of a program that gives every thread register, segment and byte of shared memory a value that does not depend on what was there.

    Registers and shared memory take bytes of global memory from ``address``; uniform registers belong to the host.
    """
    last, size = cfg.registers - 1, cfg.shared_bytes
    lines = [f"segment.shared.b8.d1 ur{segment}, 0" for segment in range(SEGMENTS)]
    lines += [f"umov ur0, {address}", "umov ur1, 0", f"copy_block.shared.global ur1, ur0, {size // BANK_BYTES}", "wait",
              f"mov r{last}, %tid", f"shl r{last}, r{last}, 4"]
    lines += [f"ld.v4 r{register}, ur0:rf{last}:{4 * register % (size - BANK_BYTES * cfg.threads)}"
              for register in range(0, cfg.registers, 4)]
    return "\n".join([*lines, "halt"]) + "\n"
