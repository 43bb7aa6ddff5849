"""What the parts of a device need of the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from heddle.config import Config
from numpy.typing import ArrayLike, DTypeLike

from ..isa.program import Program
from .memory import GlobalMemory
from .stats import Stats

if TYPE_CHECKING:
    from .results import MatrixResult

__all__ = ["Host", "Pads"]

Pads = int | Sequence[int] | Sequence[tuple[int, int]]      # of a convolution


class Host(Protocol):
    """A device with its memory, as ``Device`` has them."""

    cfg: Config
    memory: GlobalMemory
    runs: int           # programs that it has run

    def matmul(self, a: ArrayLike, b: ArrayLike) -> MatrixResult: ...

    def free(self, address: int) -> None: ...

    def read(self, address: int, shape: int | Sequence[int], dtype: DTypeLike) -> np.ndarray: ...

    def run(self, program: Program | str, uniform: Mapping[int, int] | None = None, macs: int = 0, element_bytes: int = 1) -> Stats: ...
