"""Golden model of reads by threads: how many cycles the banks of shared memory take."""

import numpy as np
from heddle.constants import BANK_BYTES, BANKS, ROW_BYTES
from numpy.typing import ArrayLike

__all__ = ["banks_of", "gather_cycles"]


def banks_of(addresses: ArrayLike) -> np.ndarray:
    """Bank of each byte address of shared memory."""
    return np.asarray(addresses) // BANK_BYTES % BANKS


def gather_cycles(addresses: ArrayLike, slots: int) -> int:
    """Cycles in which threads ask for banks, thread t for the 16-byte word at ``addresses[t]``.

    ``slots`` neighbouring threads ask at a time. In a cycle a bank gives one word, to all of them that want it.
    """
    words = np.asarray(addresses) // BANK_BYTES
    cycles = 0
    for first in range(0, len(words), slots):
        wanted = np.unique(words[first:first + slots])
        cycles += int(np.bincount(wanted % BANKS, minlength=BANKS).max())
    return cycles


assert BANK_BYTES * BANKS == ROW_BYTES
