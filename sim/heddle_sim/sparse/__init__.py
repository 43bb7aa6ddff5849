"""Sparse matrices without hardware: formats, tiles and their orders, packed loads, test suites and bounds [S4]."""

from .compressed import Compressed
from .doubly import DCSC, DCSR
from .formats import compress, compress_transposed, is_sparse, restore

__all__ = ["DCSC", "DCSR", "Compressed", "compress", "compress_transposed", "is_sparse", "restore"]
