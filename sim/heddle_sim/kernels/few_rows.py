"""Layer of few rows: a chain of one layer (``layer_chain``), whose lanes hold outputs instead of rows [S0.17]."""

from __future__ import annotations

import numpy as np
from heddle.config import Config, ConfigError

from ..golden.requantise import Requantise
from .layer import LayerProblem
from .layer_chain import ChainLayer, LayerChainKernel, LayerChainProblem
from .parts.fitting import Unfit

__all__ = ["FewRowsKernel", "has_few_rows"]

_MOST_ROWS = 8          # up to which a layer alone is faster so than in tiles


def has_few_rows(rows: int, requantise: Requantise | None) -> bool:
    """Whether a layer that gives bytes has so few rows that it may stand in a chain, also alone."""
    return rows <= _MOST_ROWS and requantise is not None


class FewRowsKernel(LayerChainKernel):
    """Chain of the one layer of a ``LayerProblem``. Operands as of the chain."""

    def __init__(self, cfg: Config, problem: LayerProblem, slots: int) -> None:
        product, requantise = problem.product, problem.requantise
        assert requantise is not None
        layer = ChainLayer(product.k, product.n, product.elements, requantise)
        super().__init__(cfg, LayerChainProblem(product.m, (layer,)), slots)
        self.problem = problem

    @classmethod
    def fits(cls, cfg: Config, problem: LayerProblem) -> bool:
        """Layers of few rows on one core with an output stage, whose tiles fit the memories."""
        if not has_few_rows(problem.product.m, problem.requantise) or not cfg.output_stage or cfg.cores > 1:
            return False
        try:
            cls.fitting(cfg, problem)
        except (Unfit, ConfigError):
            return False
        return True

    def arranged(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """x, and the ``stream`` of w (N x K) as a row."""
        x, w = arrays
        return [x, np.frombuffer(self.stream([(w, self.problem.bias)]), np.uint8)[np.newaxis]]
