"""Random programs of copies and barriers: bytes are expected in parts and in any order, some barriers are told wrong numbers."""

import random
from dataclasses import dataclass, field

from heddle.constants import BANK_BYTES, BARRIERS, UNIFORM_REGISTERS

from .text import Text

__all__ = ["BarrierPrograms"]

BLOCKS = (1, 2, 3, 8, 17, 32)           # of a copy
PLACE_BYTES = BANK_BYTES * max(BLOCKS)  # of shared memory and of global memory that one copy has for itself
REGISTERS = range(8, UNIFORM_REGISTERS)  # of operands


@dataclass
class _Round:
    """What a barrier was told since its last wait: parts still to be expected, and places that its copies hold."""

    parts: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)


class BarrierPrograms:
    """Program generator: each copy has its own places in both memories until a wait says that it is over.

    Every byte of memory is then the same whenever copies end. Global memory: data in the first half, results in the second.

    Parameters
    ----------
    rng : numpy.random.Generator
    cfg : heddle.Config
    memory_bytes : int
        Global memory; at least four times the shared memory.
    wrong : float
        Probability that a wait comes with too few or too many bytes. The program then ends there with an error.
    """

    def __init__(self, rng, cfg, memory_bytes, *, wrong):
        if memory_bytes < 4 * cfg.shared_bytes:
            raise ValueError(f"memory_bytes must be at least {4 * cfg.shared_bytes}, four times the shared memory, not {memory_bytes}")
        self._random = random.Random(int(rng.integers(1 << 62)))
        self._cfg, self._wrong = cfg, wrong
        self._results = memory_bytes // 2

    def program(self, length):
        """Text of a program of about ``length`` copies, parts of expected bytes, and waits; it ends with shared memory in global memory."""
        self._text = Text()
        self._free = list(range(self._cfg.shared_bytes // PLACE_BYTES))
        self._rounds = {barrier: _Round() for barrier in self._random.sample(range(BARRIERS), self._random.choice((1, 2, 4, 16)))}
        self._without = []          # places of copies that tell no barrier
        while self._text.count < length:
            self._random.choices((self._copy, self._expect, self._wait, self._wait_for_copies), (6, 5, 3, 1))[0]()
        self._text("wait")
        size = self._cfg.shared_bytes
        self._block("global.shared", self._results, 0, size // BANK_BYTES, "")
        self._text("halt")
        return str(self._text)

    def _block(self, spaces, target, source, blocks, barrier):
        registers = self._random.sample(REGISTERS, 2)
        self._text(f"umov ur{registers[0]}, {target}", f"umov ur{registers[1]}, {source}",
                   f"copy_block.{spaces} ur{registers[0]}, ur{registers[1]}, {blocks}{barrier}")

    def _copy(self):
        """From global data to a place, or from a place to its own results. Both keep the place to themselves."""
        if not self._free:
            self._wait_for_copies()
        place = self._free.pop(self._random.randrange(len(self._free)))
        blocks = self._random.choice(BLOCKS)
        barrier = self._random.choice((None, *self._rounds, *self._rounds))
        name = "" if barrier is None else f", b{barrier}"
        if self._random.random() < 0.6:
            start = self._random.randrange(0, self._results - PLACE_BYTES, BANK_BYTES)
            self._block("shared.global", place * PLACE_BYTES, start, blocks, name)
        else:
            self._block("global.shared", self._results + self._cfg.shared_bytes + place * PLACE_BYTES, place * PLACE_BYTES, blocks, name)
        if barrier is None:
            self._without.append(place)
            return
        state = self._rounds[barrier]
        state.places.append(place)
        cut = self._random.randrange(BANK_BYTES * blocks + 1)
        state.parts += [part for part in (cut, BANK_BYTES * blocks - cut) if part]

    def _expect(self, barrier=None):
        """One part, or two parts at once."""
        barrier = self._random.choice(list(self._rounds)) if barrier is None else barrier
        parts = self._rounds[barrier].parts
        count = min(len(parts), self._random.choice((1, 2)))
        self._tell(barrier, sum(parts.pop(self._random.randrange(len(parts))) for _ in range(count)))

    def _tell(self, barrier, size):
        if self._random.random() < 0.5:
            self._text(f"barrier.expect b{barrier}, {size}")
        else:
            register = self._random.choice(REGISTERS)
            self._text(f"umov ur{register}, {size}", f"barrier.expect b{barrier}, ur{register}")

    def _wait(self):
        barrier = self._random.choice(list(self._rounds))
        state = self._rounds[barrier]
        short = self._random.random() < self._wrong and state.parts
        while state.parts and not short:
            self._expect(barrier)
        if not short and self._random.random() < self._wrong:
            self._tell(barrier, self._random.choice((1, BANK_BYTES, 4096)))
        self._text(f"barrier.wait b{barrier}")
        self._free += state.places
        self._rounds[barrier] = _Round()

    def _wait_for_copies(self):
        """All copies are over; barriers keep what they were told."""
        self._text(self._random.choice(("wait", "wait.copy")))
        for places in (self._without, *(state.places for state in self._rounds.values())):
            self._free += places
            places.clear()
