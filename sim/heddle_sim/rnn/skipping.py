"""Which columns the engine leaves out, for the cycle model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from heddle.config import Config

from ..golden.recurrent_engine import EngineState, engine_run

if TYPE_CHECKING:
    from .task import EngineImage

__all__ = ["LookAhead", "zero_columns"]

_AHEAD = 3                  # columns that are looked at
_KNOWN = 2                  # cycles from the read of a word to what is known of it


def zero_columns(cfg: Config, image: EngineImage) -> list[list[list[np.ndarray]]]:
    """For each task of an ``EngineImage``, each step and each sweep a bool array [columns]: all of its elements are zero.

    With ``rnn_differences`` and a model with ``held`` these are the elements of the differences. The golden engine runs the image.
    """
    state, shared = EngineState.for_config(cfg), np.zeros(cfg.shared_bytes, np.uint8)
    state.factors[:, :image.words.shape[1]] = image.words
    shared[:len(image.shared)] = image.shared
    if image.bias_registers is not None:
        count = len(image.bias_registers) * cfg.threads
        table = shared[image.bias_address:image.bias_address + 4 * count].view("<i4").reshape(-1, cfg.threads)
        state.products[:, list(image.bias_registers)] = table.T
    elif image.bias_address is not None:
        engine_run(cfg, state, shared, image.bias_address)
    state.zeros = []
    engine_run(cfg, state, shared, image.address)
    found = iter(state.zeros)
    return [[[next(found) for _ in task.model.step.sweeps] for _ in range(task.steps)] for task in image.tasks]


class LookAhead:
    """Columns of zeros of one sweep that are left out with one before them (docs/units/rnn.md, Columns that are left out).

    Parameters
    ----------
    zeros : bool array
        Of each column.
    in_word : int
        Columns of a word of vector memory.
    final : int
        Cycle from which words that are read do not change any more.
    """

    def __init__(self, zeros: np.ndarray, in_word: int, final: int) -> None:
        self._zeros, self._in_word, self._final = zeros, in_word, final
        self._known: int | None = None

    def left_out(self, column: int, read: int) -> int:
        """How many are left out behind a column that is read in cycle ``read``; columns in their order."""
        if column % self._in_word == 0:
            self._known = None
        known = self._known
        if known is None and read >= self._final:
            self._known = read + _KNOWN
        if known is None or read < known:
            return 0
        next_word = (column // self._in_word + 1) * self._in_word
        behind = self._zeros[column + 1:min(len(self._zeros) - 1, next_word)]       # the last is always read
        return _AHEAD if len(behind) >= _AHEAD and behind[:_AHEAD].all() else int(behind[:1].any())
