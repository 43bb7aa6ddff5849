"""Sparse products and sparse layers of a device."""

from __future__ import annotations

from typing import Any

from ..sparse.doubly import DCSR
from ..sparse.formats import check_dense, check_layer, compress, compress_transposed, is_sparse
from .host import Host
from .results import MatrixResult, SampledResult, SparseGradients
from .sparse import check_room, sddmm, spmm

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
            Columns of the result in a tile, 1 or more; the last tile may have fewer, and without it a row is one tile [S4.3]. Tiles are
            made one after the other, those of more than four times ``threads`` columns in parts. The host lays them out at multiples of
            16 columns.
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
            In which blocks of rows are handed out: as of ``spmm``.
        dynamic : bool
            A core that is done takes the next block from the tile scheduler: as of ``spmm``.
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
        w : (M, K), sparse, or integer array
            Weights: as ``a`` of ``spmm``.
        x : (K, N), sparse, or integer array
            Inputs, a column for each sample.

        Runs ``spmm``, or ``matmul`` where both are arrays.
        """
        check_layer(w, x)
        check_room(self, w, x)
        for name, operand in (("w", w), ("x", x)):
            if is_sparse(operand):
                compress(name, operand)
        return self._layer_product(w, x)

    def sparse_linear_backward(self, w: Any, x: Any, dy: Any) -> SparseGradients:
        """Gradients of a layer: dx = wᵀ · dy, and dw = dy · xᵀ, of sparse weights at their elements, exact modulo 2**32 [S4.9].

        Parameters
        ----------
        w : (M, K), sparse, or integer array
            Weights. Of an array all elements are there, also those that are zero.
        x : (K, N), sparse, or integer array
            Inputs.
        dy : integer array (M, N)
            Gradient of the result: int8, uint8, int16 or uint16.

        Returns ``SparseGradients``: ``dx`` int32 (K, N); ``dw`` int32 of the class and the pattern of w; ``stats`` of both products:
        ``sddmm`` and ``spmm`` of sparse weights, else ``matmul`` for dx and ``spmm``, or ``matmul``, for dw.
        """
        gradient = check_dense("dy", dy)
        check_layer(w, x, gradient)
        check_room(self, w, x)
        if is_sparse(w):
            turned, inputs = DCSR.of(compress_transposed("w", w)), compress("x", x).dense() if is_sparse(x) else x
            dw, of_weights = self.sddmm(gradient, inputs, w, transpose=True, pattern=True)
            dx, of_inputs = self.spmm(turned, gradient)
        else:
            inputs = DCSR.of(compress_transposed("x", x)) if is_sparse(x) else check_dense("x", x).T
            dw, of_weights = self._layer_product(gradient, inputs)
            dx, of_inputs = self._layer_product(check_dense("w", w).T, gradient)
        return SparseGradients(dx, dw, of_inputs + of_weights)

    def _layer_product(self, a: Any, b: Any) -> MatrixResult:
        """Product of two checked operands of any kind: arrays whose elements ``mm`` does not take together go to the sparse engine."""
        if is_sparse(a) or is_sparse(b):
            return self.spmm(a, b)
        left, right = check_dense("a", a), check_dense("b", b)
        if left.dtype.itemsize == right.dtype.itemsize and (left.dtype.itemsize == 1 or self.cfg.mm16):
            return self.matmul(left, right)
        return self.spmm(DCSR.of(compress("a", left)), right)
