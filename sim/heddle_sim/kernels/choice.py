"""Which kernel multiplies two matrices, with which merges."""

from dataclasses import dataclass

from ..arguments import check_flag
from ..isa.program import Program
from .parts.cost import Choice, candidates, check_order, preferred
from .parts.fitting import Unfit, first_fitting, fitted
from .parts.launch import Launch
from .parts.merges import Merge, check_factor
from .parts.stream_tiling import StreamTiling
from .resident import choose_resident
from .streaming import StreamingKernel
from .tiled import MatmulKernel

__all__ = ["Product", "choose_kernel", "plan"]


@dataclass(frozen=True)
class Product(Choice):
    """A choice with its kernel and program, for a number of multiply-accumulates."""

    kernel: object
    program: Program
    macs: int

    def launch(self, a, b, c):
        """``Launch`` for matrices at these addresses, as ``plan`` has them."""
        return Launch(self.program, self.kernel.uniform(a, b, c), self.macs)


def choose_kernel(cfg, m, n, k, signed, element_bytes=1, b_layout="nk", ka=None, kb=None, order=None, resident=False):
    """``Product``, or with ``resident`` a ``ResidentPlan``: both have ``ka``, ``kb`` and ``order``; what is None is chosen by a cost model
    among those that fit.

    ``signed``: whether A and B are; the others are those of ``Device.matmul``. Raises ``ValueError`` for what does not go together, is no
    factor or order, and ``ConfigError`` for what does not fit.
    """
    check_order(order)
    merges = {name: check_factor(name, value) for name, value in (("ka", ka), ("kb", kb)) if value is not None}
    ka, kb = merges.get("ka"), merges.get("kb")
    if check_flag("resident", resident):
        return fitted(cfg, "a resident product", lambda cfg: choose_resident(
            cfg, m, n, k, *signed, ka, kb, order, element_bytes, b_layout), m=m, n=n, k=k, **merges)
    return fitted(cfg, "matmul", lambda cfg: _best(cfg, m, n, k, signed, element_bytes, b_layout, ka, kb, order), **merges)


def _best(cfg, m, n, k, signed, element_bytes, b_layout, ka, kb, order):
    """``Product`` with the choice that is expected to be the fastest of those that fit; raises ``Unfit``."""
    choices = candidates(cfg, m, n, k * element_bytes, ka, kb, order, cfg.passes(element_bytes), b_layout == "kn")
    while choices:
        choice = preferred(choices)
        try:
            kernel, program = _fitting(cfg, m, n, k, *signed, element_bytes, b_layout, choice.ka, choice.kb, choice.order)
        except Unfit:
            choices = [other for other in choices if (other.ka, other.kb) != (choice.ka, choice.kb)]
            continue
        return Product(**vars(choice), kernel=kernel, program=program, macs=m * n * k)
    raise Unfit("instruction_words")


def _fitting(cfg, m, n, k, a_signed, b_signed, element_bytes=1, b_layout="nk", ka=1, kb=1, order="k-outer"):
    """(kernel, program) for a product, as for ``plan``; raises ``Unfit``."""
    tiling = None if b_layout == "kn" else StreamTiling.choose(cfg, m, n, k * element_bytes, Merge(cfg.threads, cfg.dot, ka, kb))
    if tiling:
        kernel = StreamingKernel(cfg, tiling, a_signed, b_signed, element_bytes, order)
        return kernel, kernel.program()
    return first_fitting(MatmulKernel(cfg, m, n, k, a_signed, b_signed, element_bytes, b_layout, ka, kb, order, tiling)
                         for tiling in MatmulKernel.tilings(cfg, n, k, element_bytes, b_layout, ka, kb))


def plan(cfg, m, n, k, a_address, b_address, c_address, a_signed, b_signed, element_bytes=1, b_layout="nk", ka=1, kb=1, order="k-outer"):
    """Program and arguments for C (m x n, int32) = A (m x k) x B (k x n) of integers of one or two bytes.

    A lies row-major at ``a_address``, B as n rows of k (``b_layout`` "nk") or k rows of n ("kn") at ``b_address``, C row-major at
    ``c_address``; rows start at multiples of 16 bytes, and the bytes between the end of a row of A or B and the next multiple of 16 are
    zero. ``ka``, ``kb``: merges; ``order``: loop order of ``mm``, of ``ORDERS``. Where one tile has all rows of a core the program is
    that of ``StreamingKernel``. Returns ``Launch``. Raises ``ConfigError`` where nothing fits the configuration.
    """
    kernel, program = fitted(cfg, "matmul", lambda cfg: _fitting(
        cfg, m, n, k, a_signed, b_signed, element_bytes, b_layout, ka, kb, order), ka=ka, kb=kb)
    return Launch(program, kernel.uniform(a_address, b_address, c_address), m * n * k)
