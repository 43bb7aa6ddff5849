"""Bounds of a product of a sparse and a dense matrix on a device: share of its multipliers that its memory leaves to work [S4.1]."""

from __future__ import annotations

from dataclasses import dataclass, field

from heddle import Config
from heddle.constants import ROW_BYTES

from ..arguments import check_integer
from .checks import LARGEST
from .compressed import Compressed

__all__ = ["INDEX_BYTES", "POINTER_BYTES", "RESULT_BYTES", "START_CYCLES", "ProductBound", "product_bound",
           "resident_bound", "sampled_bound"]

START_CYCLES = 128      # two latencies of global memory: of the pointers of A, and of the first rows of B
INDEX_BYTES, POINTER_BYTES, RESULT_BYTES = 2, 4, 4


@dataclass(frozen=True)
class ProductBound:
    """Least cycles of a product.

    Attributes
    ----------
    compute : float
        Cycles in which all multipliers work on non-zeros.
    first : float
        Cycles before the first product.
    beside : dict
        Cycles of each transfer that runs beside the products, by its name.
    """

    compute: float
    first: float = 0.0
    beside: dict[str, float] = field(default_factory=dict)

    @property
    def cycles(self) -> float:
        return self.first + max([self.compute, *self.beside.values()])

    @property
    def share(self) -> float:
        """Utilization that nothing exceeds; 0 without products."""
        return self.compute / self.cycles if self.compute else 0.0

    @property
    def bound_by(self) -> str:
        """The transfer that takes longest, or ``multipliers``."""
        times = {"multipliers": self.compute, **self.beside}
        return max(times, key=lambda name: times[name])


def product_bound(cfg: Config, a: Compressed, columns: int, b_bytes: int | None = None, start: int = START_CYCLES) -> ProductBound:
    """Bound of A · B from operands in global memory to a result in global memory.

    B is read before the first product, only its rows that meet a non-zero [S4.4]. A is read and C written beside the products; both have
    ways of their own.

    Parameters
    ----------
    cfg : Config
        Multipliers (``cores``, ``threads``, ``dot``, ``wide_lanes``) and the data bus (``axi_data_bits``, one for each core).
    a : Compressed
        Sparse operand: a value, an index of 16 bits for each non-zero, and a pointer of 32 bits for each row.
    columns : int
        Of B.
    b_bytes : int
        Bytes of an element of B; those of A without it.
    start : int
        Cycles from the start to the first beat of B.
    """
    width, bus = check_integer("columns", columns, 0, LARGEST), cfg.cores * cfg.axi_bytes
    of_a = a.data.itemsize
    of_b = of_a if b_bytes is None else check_integer("b_bytes", b_bytes, 1, 2)
    elements = a.elements * (of_a + INDEX_BYTES) + len(a.indptr) * POINTER_BYTES
    fetched = len(a.columns_met) * width * of_b
    return ProductBound(_compute(cfg, a, width, of_b), check_integer("start", start, 0, LARGEST) + fetched / bus,
                        {"C": a.shape[0] * width * RESULT_BYTES / bus, "A": elements / bus})


def resident_bound(cfg: Config, a: Compressed, columns: int, b_bytes: int | None = None, start: int = 0) -> ProductBound:
    """Bound of A · B with A and B on the chip and C left in shared memory. Parameters as of ``product_bound``; nothing is waited for at
    the start unless ``start`` says so.

    A row of C leaves the lanes at a row of shared memory (32 sums) a cycle.
    """
    width = check_integer("columns", columns, 0, LARGEST)
    of_b = a.data.itemsize if b_bytes is None else check_integer("b_bytes", b_bytes, 1, 2)
    drain = a.shape[0] * -(-width * RESULT_BYTES // ROW_BYTES) / cfg.cores
    return ProductBound(_compute(cfg, a, width, of_b), check_integer("start", start, 0, LARGEST), {"C": drain})


def sampled_bound(cfg: Config, mask: Compressed, inner: int, pattern: bool = False, start: int = START_CYCLES) -> ProductBound:
    """Bound of a sampled product of 8-bit operands: A · B at the elements of a mask. It counts from operands in global memory to the sums
    there.

    Columns of B that meet an element are read before the first product. Rows of A and the mask are read, and sums written, beside the
    products.

    Parameters
    ----------
    cfg : Config
        As of ``product_bound``.
    mask : Compressed
        An index of 16 bits and, unless ``pattern``, a value for each element, and a pointer of 32 bits for each row.
    inner : int
        Columns of A, rows of B.
    pattern : bool
        The mask has no values.
    start : int
        Cycles from the start to the first beat of B.
    """
    length, bus = check_integer("inner", inner, 0, LARGEST), cfg.cores * cfg.axi_bytes
    elements = mask.elements * (INDEX_BYTES + (0 if pattern else mask.data.itemsize)) + len(mask.indptr) * POINTER_BYTES
    rows = int((mask.lengths > 0).sum())
    first = check_integer("start", start, 0, LARGEST) + len(mask.columns_met) * length / bus
    return ProductBound(mask.elements * length / cfg.peak_macs(1), first,
                        {"sums": mask.elements * RESULT_BYTES / bus, "A and mask": (rows * length + elements) / bus})


def _compute(cfg: Config, a: Compressed, columns: int, b_bytes: int) -> float:
    return a.elements * columns / cfg.peak_macs(max(a.data.itemsize, b_bytes))
