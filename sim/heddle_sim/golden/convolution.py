"""Golden model of convolutions: sums of 8-bit products in numpy."""

from collections.abc import Sequence

import numpy as np

from .windows import window_positions

__all__ = ["convolution"]


def convolution(x: np.ndarray, w: np.ndarray, padding: Sequence[tuple[int, int]], stride: Sequence[int],
                dilation: Sequence[int], group: int = 1) -> np.ndarray:
    """Convolution of integers modulo 2**32.

    y[n, p…, k] = sum over filter positions r… and channels c of x[n, p·stride + r·dilation - padding…, c] · w[k, r…, c]; c: the channels of
    the group of output k.

    Parameters
    ----------
    x : integer array (N, [D, [H,]] W, C)
        Input.
    w : integer array (K, [T, [R,]] S, C / group)
        Filters.
    padding : sequence of (int, int)
        Zeros at begin and end of each spatial axis, outermost first.
    stride, dilation : sequence of int
        One for each spatial axis, outermost first.
    group : int
        Output k sees the channels of group k div (K / group).

    Returns
    -------
    int32 array (N, …, K)
        Sums modulo 2**32.
    """
    if group > 1:
        parts = zip(np.split(x, group, axis=-1), np.split(w, group))
        return np.concatenate([convolution(*part, padding, stride, dilation) for part in parts], axis=-1)
    positions = window_positions(x, w.shape[1:-1], padding, stride, dilation)
    sums = sum(values @ w[:, *position].T.astype(np.int64) for position, values in positions)
    return np.asarray(sums).astype(np.int32)
