"""Random legal programs, as assembly text."""

import random

from .executable import ExecutableGenerator
from .generator import ProgramGenerator

__all__ = ["random_program"]


def random_program(rng, cfg, length, *, executable=True, memory_bytes=1 << 16):
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
    """
    source = random.Random(int(rng.integers(1 << 62)))
    generator = ExecutableGenerator(source, cfg, memory_bytes) if executable else ProgramGenerator(source, cfg)
    return generator.program(length)
