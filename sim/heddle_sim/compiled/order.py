"""Order of the offsets, by how often neighbouring threads fetch lines [S2.4]."""

from collections import OrderedDict

import numpy as np

__all__ = ["LINE_BYTES", "LINES", "line_fetches"]

LINE_BYTES, LINES = 128, 16      # of the cache that ``line_fetches`` counts for by default: 2 KiB in rows of shared memory


def line_fetches(bases: np.ndarray, offsets: np.ndarray, lines: int = LINES, line_bytes: int = LINE_BYTES,
                 at_most: int | None = None) -> int:
    """Lines that are fetched when all threads take one offset after the other: counter of a cache of ``lines`` lines, the one that was not
    used for longest is evicted.

    ``bases``: byte addresses of the threads. ``offsets``: bytes, in their order. ``at_most``: it ends where more are fetched. Lines of the
    padding count as those of memory do.
    """
    cache: OrderedDict[int, None] = OrderedDict()
    fetches = 0
    rows = (bases[None] + offsets[:, None]) // line_bytes
    changed = np.ones(len(rows), bool)          # the same lines as before leave the cache as it is
    changed[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    for touched in rows[changed].tolist():
        if at_most is not None and fetches > at_most:
            break
        for line in dict.fromkeys(touched):
            if line in cache:
                cache.move_to_end(line)
                continue
            fetches += 1
            cache[line] = None
            if len(cache) > lines:
                cache.popitem(last=False)
    return fetches
