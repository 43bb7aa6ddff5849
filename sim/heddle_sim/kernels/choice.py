"""Which kernel multiplies two matrices."""

from .cost import choose
from .resident import choose_resident

__all__ = ["choose_kernel"]


def choose_kernel(cfg, m, n, k, signed, element_bytes=1, b_layout="nk", ka=None, kb=None, order=None, resident=False):
    """``Choice``, or with ``resident`` a ``ResidentPlan``: both have ``ka``, ``kb`` and ``order``; what is None is chosen by a cost model.

    ``signed``: whether A and B are; the others are those of ``Device.matmul``. Raises ``ValueError`` for what does not go together, is no
    factor or order, or does not fit.
    """
    if resident:
        return choose_resident(cfg, m, n, k, *signed, ka, kb, order, element_bytes, b_layout)
    return choose(cfg, m, n, k * element_bytes, ka, kb, order, cfg.passes(element_bytes), b_layout == "kn")
