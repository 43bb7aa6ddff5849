"""Which kernel multiplies two matrices."""

from numbers import Integral

from ..arguments import check_choice, check_flag
from .cost import ORDERS, choose
from .merges import MERGES
from .resident import choose_resident

__all__ = ["choose_kernel"]


def choose_kernel(cfg, m, n, k, signed, element_bytes=1, b_layout="nk", ka=None, kb=None, order=None, resident=False):
    """``Choice``, or with ``resident`` a ``ResidentPlan``: both have ``ka``, ``kb`` and ``order``; what is None is chosen by a cost model.

    ``signed``: whether A and B are; the others are those of ``Device.matmul``. Raises ``ValueError`` for what does not go together, is no
    factor or order, or does not fit.
    """
    merges = []
    for name, value in (("ka", ka), ("kb", kb)):
        if value is not None and (not isinstance(value, Integral) or isinstance(value, bool) or value not in MERGES):
            raise ValueError(f"{name} must be one of {', '.join(map(str, MERGES))}, not {value!r}")
        merges.append(None if value is None else int(value))
    ka, kb = merges
    if order is not None:
        check_choice("order", order, ORDERS)
    if check_flag("resident", resident):
        return choose_resident(cfg, m, n, k, *signed, ka, kb, order, element_bytes, b_layout)
    return choose(cfg, m, n, k * element_bytes, ka, kb, order, cfg.passes(element_bytes), b_layout == "kn")
