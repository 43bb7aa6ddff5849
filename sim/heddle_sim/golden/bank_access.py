"""Golden model of bank conflicts: cycles that reads of threads take in the banks of shared memory."""

import numpy as np
from heddle.constants import BANK_BYTES, BANKS, ROW_BYTES
from numpy.typing import ArrayLike

__all__ = ["banks_of", "gather_cycles"]


def banks_of(addresses: ArrayLike) -> np.ndarray:
    """Bank of each byte address of shared memory."""
    return np.asarray(addresses) // BANK_BYTES % BANKS


def gather_cycles(addresses: ArrayLike, slots: int) -> int:
    """Cycles in which threads request banks; thread t reads the 16-byte word at byte address ``addresses[t]``.

    ``slots`` neighbouring threads request together. In a cycle a bank reads one word, for all threads that request this word.
    """
    words = np.asarray(addresses) // BANK_BYTES
    cycles = 0
    for first in range(0, len(words), slots):
        wanted = np.unique(words[first:first + slots])
        cycles += int(np.bincount(wanted % BANKS, minlength=BANKS).max())
    return cycles


assert BANK_BYTES * BANKS == ROW_BYTES
