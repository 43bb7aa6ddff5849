"""Problems that kernels solve: shapes, element types, layouts, schedules, and where operands lie at launch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from heddle.config import Config

from ..arguments import check_choice, check_flag
from ..golden.requantise import Requantise
from .parts.convolution_shape import ConvolutionShape
from .parts.merges import MERGES, Merge, check_factor

__all__ = ["ORDERS", "ConvolutionProblem", "Elements", "Layout", "MatmulProblem", "Operands", "Problem", "Schedule"]

ORDERS = {"k-outer": "", "column-outer": ".kin"}    # Fig. 6 and Fig. 7 [S0.4]: modifier of mm


@dataclass(frozen=True)
class Operands:
    """Addresses of operands in global memory, in bytes, known when a kernel is launched.

    ``a`` and ``b``: the two factors; of a convolution the descriptors of x and w. ``c``: the result; of a convolution its descriptor.
    ``table``: constants of the columns of a layer, or the lanes' places of a resident product. Fields that a kernel does not need stay 0.
    ``pitch``: of a compiled convolution the distance of the planes of x, 0 where they lie side by side.
    """

    a: int = 0
    b: int = 0
    c: int = 0
    table: int = 0
    pitch: int = 0


@dataclass(frozen=True)
class Elements:
    """Element type of both factors: ``nbytes`` bytes (1 or 2), and whether those of A and of B are signed."""

    nbytes: int = 1
    a_signed: bool = True
    b_signed: bool = True

    @classmethod
    def of(cls, a: np.ndarray, b: np.ndarray) -> Self:
        """Element types of two arrays of integers of the same size."""
        return cls(a.dtype.itemsize, *(bool(array.dtype.kind == "i") for array in (a, b)))

    @property
    def exchanged(self) -> Self:
        """Of the product whose A is B."""
        return replace(self, a_signed=self.b_signed, b_signed=self.a_signed)

    @property
    def signs(self) -> str:
        """Modifiers of ``mm``."""
        return f".{'s' if self.a_signed else 'u'}a.{'s' if self.b_signed else 'u'}b"


@dataclass(frozen=True)
class Schedule:
    """Loop schedule of a matrix product: merges ``ka`` and ``kb`` (1 to 4), loop ``order`` of ``ORDERS``; None is left to the cost model.

    Raises ``ValueError`` for what is no order or factor.
    """

    ka: int | None = None
    kb: int | None = None
    order: str | None = None

    def __post_init__(self) -> None:
        if self.order is not None:
            check_choice("order", self.order, ORDERS)
        for name in ("ka", "kb"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, check_factor(name, getattr(self, name)))

    @property
    def merges(self) -> dict[str, int]:
        """Name to value of the merges that are not None."""
        return {name: value for name, value in (("ka", self.ka), ("kb", self.kb)) if value is not None}


@dataclass(frozen=True)
class Layout:
    """Layout of the operands of a matrix product.

    ``b_layout``: B as n rows of k elements ("nk") or k rows of n ("kn"). ``resident``: A, B and C lie in shared memory. Else they lie in
    global memory, row-major, rows at multiples of 16 bytes with zeros between. Raises ``TypeError`` where ``resident`` is no flag.
    """

    b_layout: str = "nk"
    resident: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "resident", check_flag("resident", self.resident))

    @property
    def b_in_rows(self) -> bool:
        return self.b_layout == "kn"


class Problem:
    """Base of all problems. ``name`` and ``settings`` (name to value) tell a refusal what was asked for."""

    @property
    def name(self) -> str:
        return "a program"

    @property
    def settings(self) -> dict[str, int]:
        return {}

    def variants(self) -> Sequence[Self]:
        """The problem with each choice that it leaves open made in each possible way, those that are preferred first."""
        return [self]


@dataclass(frozen=True)
class MatmulProblem(Problem):
    """Matrix product C (m x n, int32) = A (m x k) x B (k x n); sums wrap modulo 2**32. ``m``, ``n`` and ``k`` are elements."""

    m: int
    n: int
    k: int
    elements: Elements = Elements()
    layout: Layout = Layout()
    schedule: Schedule = Schedule()

    @property
    def name(self) -> str:
        return "a resident product" if self.layout.resident else "matmul"

    @property
    def settings(self) -> dict[str, int]:
        shape = {"m": self.m, "n": self.n, "k": self.k} if self.layout.resident else {}
        return shape | self.schedule.merges

    @property
    def k_bytes(self) -> int:
        """Bytes of a row of A."""
        return self.k * self.elements.nbytes

    @property
    def macs(self) -> int:
        """Multiply-accumulates, without padding."""
        return self.m * self.n * self.k

    def merge(self, cfg: Config) -> Merge:
        """``Merge`` of the schedule, whose merges are chosen, on a core of ``cfg``. Raises ``ValueError`` for groups that are too large."""
        assert self.schedule.ka is not None and self.schedule.kb is not None
        return Merge(cfg.threads, cfg.dot, self.schedule.ka, self.schedule.kb, self.layout.b_in_rows)

    def variants(self) -> Sequence[Self]:
        """See ``Problem``. From global memory ``ka`` comes first, which is cheaper to store."""
        asked = self.schedule
        orders: Iterable[str]
        all_ka, all_kb = (MERGES if factor is None else (factor,) for factor in (asked.ka, asked.kb))
        if self.layout.resident:
            pairs, orders = [(ka, kb) for ka in all_ka for kb in all_kb], (asked.order or "k-outer",)
        else:
            pairs, orders = [(ka, kb) for kb in all_kb for ka in all_ka], ORDERS if asked.order is None else (asked.order,)
        return [replace(self, schedule=Schedule(*pair, order)) for pair in pairs for order in orders]


@dataclass(frozen=True, eq=False)
class ConvolutionProblem(Problem):
    """Convolution of the ``shape``, whose channels are bytes: y of x and w, integers of ``elements``, channels last.

    y is int32, modulo 2**32; with ``requantise`` it is what becomes of the sums and a bias of each filter.
    """

    shape: ConvolutionShape
    elements: Elements = Elements()
    requantise: Requantise | None = None

    @property
    def name(self) -> str:
        return "a convolution"

    @property
    def macs(self) -> int:
        """Multiply-accumulates, without padding."""
        return self.shape.macs // self.elements.nbytes
