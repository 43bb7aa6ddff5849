"""Sparse products and sparse layers of a device."""

from __future__ import annotations

from typing import Any

from heddle.errors import UsageTypeError

from ..sparse.doubly import DCSR
from ..sparse.formats import compress, compress_transposed, is_sparse
from .host import Host
from .results import MatrixResult, SampledResult, SparseGradients
from .sparse import sddmm, spmm

__all__ = ["SparseAccess"]


class SparseAccess(Host):
    """Mixin of ``Device``: products on the sparse engine [S4]."""

    def spmm(self, a: Any, b: Any, *, tile: int | None = None, order: str = "auto", dynamic: bool = True,
             resident: bool = False, sub_warps: bool = True, collect: bool = False) -> MatrixResult:
        """Product of two matrices of which one or both are sparse, exact modulo 2**32 [S4.1].

        Parameters
        ----------
        a : (M, K), sparse, or integer array
            Sparse: array of scipy.sparse (csr, csc, coo), ``DCSR`` or ``DCSC``. Elements are int8, uint8, int16 or uint16.
        b : (K, N), sparse, or integer array
            Right operand, of the same types. Where only b is sparse, the transposed product is computed; where both are, b as an array.
        tile : int, optional
            Columns of the result that are made together, a multiple of 16, at most four times ``threads``, which is what it is without.
        order : str
            In which blocks of rows are handed out: "natural", "sorted", "snake" or "grouped"; "auto": "sorted" with several cores.
        dynamic : bool
            A core that is done takes the next block from the tile scheduler; else the cores take turns, dealt before the start [S4.7].
        resident : bool
            ``stats`` are those of a second run, with b in factor registers at its start, that leaves the sums in shared memory.
        sub_warps : bool
            Columns that fill at most half of the PEs are made by two or four parts of them, each with rows of its own [S4.5].
        collect : bool
            One core writes the result: the others, which compute, send it their sums. Blocks are dealt before the start. Needs
            ``multicast`` where there are several cores. Otherwise every core writes its own rows [S4.8].

        Returns ``MatrixResult``: ``c`` int32 (M, N); ``stats`` counts from operands in global memory to the result there. Elements of b and
        unsigned ones of a that have 16 bits take a run for each of their bytes, whose sums the host adds.
        Raises ``ValueError`` or ``TypeError`` for operands that are damaged or do not fit together.
        """
        return MatrixResult(*spmm(self, a, b, tile=tile, order=order, dynamic=dynamic, resident=resident,
                                  sub_warps=sub_warps, collect=collect))

    def sddmm(self, a: Any, b: Any, mask: Any, transpose: bool = False, pattern: bool = False, *, order: str = "auto",
              dynamic: bool = True, collect: bool = False) -> SampledResult:
        """Product of two arrays at the elements of a sparse one, by which it is multiplied, exact modulo 2**32 [S4.2].

        d[i, j] = mask[i, j] · sum over k of a[i, k] · b[k, j], for the elements that the mask has.

        Parameters
        ----------
        a : integer array (M, K)
            Left operand: int8, uint8, int16 or uint16.
        b : integer array (K, N), or (N, K) with ``transpose``
            Right operand, of the same types. Without ``transpose`` the host transposes it only where shared memory has no room for 16 of
            its columns.
        mask : (M, N), sparse
            Array of scipy.sparse (csr, csc, coo), ``DCSR`` or ``DCSC``, of the same types.
        transpose : bool
            b is stored transposed.
        pattern : bool
            The values of the mask count as 1 and may have any type.
        order : str
            In which blocks of rows are dealt to the cores: as of ``spmm``.
        dynamic : bool
            Each next block goes to the core that is expected to be done first, dealt before the start; else the cores take turns.
        collect : bool
            One core writes the sums of all: as of ``spmm``.

        Returns ``SampledResult``: ``d`` of the class and the pattern of the mask, int32; ``stats`` counts from operands in global memory to
        the sums there. Operands of 16 bits, and unsigned masks of 16 bits, take a run for each of their bytes, whose sums the host adds.
        Raises ``ValueError`` or ``TypeError`` for operands that are damaged or do not fit together.
        """
        return SampledResult(*sddmm(self, a, b, mask, transpose=transpose, pattern=pattern, order=order, dynamic=dynamic,
                                    collect=collect))

    def sparse_linear_forward(self, w: Any, x: Any) -> MatrixResult:
        """Result of a layer, y = w · x, exact modulo 2**32 [S4.9].

        Parameters
        ----------
        w : (M, K), sparse
            Weights: as ``a`` of ``spmm``.
        x : (K, N), sparse, or integer array
            Inputs, a column for each sample.
        """
        return self.spmm(_weights(w), x)

    def sparse_linear_backward(self, w: Any, x: Any, dy: Any) -> SparseGradients:
        """Gradients of a layer: dx = wᵀ · dy, and dw = (dy · xᵀ) at the elements of w, exact modulo 2**32 [S4.9].

        Parameters
        ----------
        w : (M, K), sparse
            Weights.
        x : (K, N), sparse, or integer array
            Inputs.
        dy : integer array (M, N)
            Gradient of the result: int8, uint8, int16 or uint16.

        Returns ``SparseGradients``: ``dx`` int32 (K, N); ``dw`` int32 of the class and the pattern of w; ``stats`` of both products.
        """
        inputs = compress("x", x).dense() if is_sparse(x) else x
        dw, of_weights = self.sddmm(dy, inputs, _weights(w), transpose=True, pattern=True)
        dx, of_inputs = self.spmm(DCSR.of(compress_transposed("w", w)), dy)
        return SparseGradients(dx, dw, of_inputs + of_weights)


def _weights(w: Any) -> Any:
    if not is_sparse(w):
        raise UsageTypeError(f"w must be sparse (scipy.sparse, DCSR, DCSC), not {type(w).__name__}")
    return w
