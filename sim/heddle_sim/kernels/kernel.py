"""Kernel families: the interface between a problem and the program that solves it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Self, cast

import numpy as np
from heddle.config import Config

from ..isa.program import Program
from .parts.fitting import Unfit, assemble_kernel
from .parts.launch import Launch
from .parts.text import KernelText

__all__ = ["Kernel"]


class Kernel(ABC):
    """Kernel generator of one family: an object writes the program of one problem, cut in one way, for one configuration.

    A family says which problems it takes (``fits``), in how many cycles (``estimate``) and how they can be cut (``cuts``). It stands in
    ``FAMILIES``. ``gain``: a variant replaces an earlier one if its cycles are below this part of the other's.
    """

    gain: float = 1

    def __init__(self, cfg: Config, problem: Any) -> None:
        self.cfg, self.problem = cfg, problem

    @classmethod
    def fits(cls, cfg: Config, problem: Any) -> bool:
        """Whether the family takes a problem of this form, all of whose choices are made. Raises ``ValueError`` for what is illegal."""
        return True

    @classmethod
    def estimate(cls, cfg: Config, problem: Any) -> int:
        """Expected cycles from doorbell to done; 0 where no other family or variant competes.

        Raises ``Unfit`` where shared memory has no room, and ``ValueError`` where the configuration lacks a feature.
        """
        return 0

    @classmethod
    def cuts(cls, cfg: Config, problem: Any) -> Iterator[Self]:
        """Kernels for a problem, the fastest first: those further back have shorter programs."""
        yield cls(cfg, problem)

    @classmethod
    def planned(cls, cfg: Config, problem: Any) -> Self:
        """The first of ``cuts`` whose program fits. Raises ``Unfit`` where none does, with the parameter that the last one lacks."""
        unfit = Unfit("instruction_words")
        for kernel in cls.cuts(cfg, problem):
            try:
                kernel.programs     # noqa: B018 - written here, and kept
            except Unfit as error:
                unfit = cast(Unfit, error.with_traceback(None))
                continue
            return kernel
        raise unfit

    @classmethod
    def fitting(cls, cfg: Config, problem: Any) -> Self:
        """``planned`` for an estimate: the texts are counted, not assembled. Raises ``Unfit`` where no program fits."""
        for kernel in cls.cuts(cfg, problem):
            if all(text.instructions <= cfg.instruction_words for text in kernel.write()):
                return kernel
        raise Unfit("instruction_words")

    @cached_property
    def programs(self) -> list[Program]:
        """``Program``s that are launched one after the other. Raises ``Unfit`` where one is longer than the instruction memory."""
        return [assemble_kernel(text, self.cfg) for text in self.write()]

    @abstractmethod
    def write(self) -> list[KernelText]:
        """``KernelText`` of each program; called once."""

    def arranged(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Operands as they are to lie in global memory: ``a``, ``b`` (N x K) and what ``Operands.table`` points at, if anything."""
        return list(arrays)

    @abstractmethod
    def launches(self, operands: Any = None) -> list[Launch]:
        """``Launch``es to run one after the other; ``operands``: where they lie, ``Operands`` unless the family says otherwise."""
