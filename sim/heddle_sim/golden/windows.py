"""Windows of an image, position by position: what convolutions and pooling are made of."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

__all__ = ["window_positions"]


def window_positions(x: np.ndarray, kernel: Sequence[int], padding: Sequence[tuple[int, int]], stride: Sequence[int],
                     dilation: Sequence[int], fill: int = 0) -> Iterator[tuple[tuple[Any, ...], np.ndarray]]:
    """Each position of the window, with what all windows have there, int64 (N, p…, C).

    Parameters
    ----------
    x : integer array (N, [D, [H,]] W, C)
        Image.
    kernel, stride, dilation : sequence of int
        One for each spatial axis, outermost first, in elements.
    padding : sequence of (int, int)
        At begin and end of each spatial axis.
    fill : int
        What padding reads as.
    """
    padded = np.pad(x.astype(np.int64), ((0, 0), *padding, (0, 0)), constant_values=fill)
    counts = [(size - (taps - 1) * gap - 1) // step + 1
              for size, taps, gap, step in zip(padded.shape[1:-1], kernel, dilation, stride, strict=True)]
    for position in np.ndindex(*kernel):
        yield position, padded[:, *(slice(r * gap, r * gap + (count - 1) * step + 1, step)
                                    for r, gap, count, step in zip(position, dilation, counts, stride))]
