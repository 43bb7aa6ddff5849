"""Which merges and loop order a product takes: estimated cycles of the kernel from global memory to global memory."""

from dataclasses import dataclass

from ...arguments import check_choice
from .fitting import Unfit
from .merges import MERGES, Merge
from .shares import share_out
from .stream_tiling import StreamTiling
from .tiling import Tiling, round_up

__all__ = ["ORDERS", "Choice", "bus_cycles", "candidates", "check_order", "estimate", "preferred"]

ORDERS = {"k-outer": "", "column-outer": ".kin"}    # Fig. 6 and Fig. 7 [S0.4]: modifier of mm
_ACCESS_CYCLES = 6          # of a load or store beyond its passes
_LATENCY = 70               # of global memory and the way there
_FIRST_TILE = 150           # start and the lanes' places
_MERGED = 80                # more instructions for the lanes' places
_STEP = 100                 # a chunk of a tile: control, waiting for its copies
_REQUEST = 85               # from the doorbell to the first bytes of A in shared memory
_STREAM_STEP = 65           # instructions of a tile of few rows
_RESULTS = 110              # from the last sum in shared memory to the end
_GAIN = 0.85                # a merge that is expected to gain less is not worth its risk


@dataclass(frozen=True)
class Choice:
    """Merges and loop order of a product, with the cycles that the cost model expects."""

    ka: int
    kb: int
    order: str
    cycles: int


def bus_cycles(cfg, m, n, k):
    """Cycles that the AXI data bus needs to read A and B once, or to write C, whichever takes longer; the bus is ``axi_bytes`` wide in each
    direction. No kernel is faster."""
    pitch = round_up(k, 16)
    return max(-(-(m + n) * pitch // cfg.axi_bytes), -(-m * round_up(4 * n, 16) // cfg.axi_bytes)) / cfg.cores


def estimate(cfg, m, n, k, merge, order="k-outer", passes=1):
    """Cycles of the busiest core, roughly: for each tile the longest of ``mm``, thread accesses and bus; ``k`` in bytes, ``passes`` as
    ``Config.passes`` tells them."""
    streaming = None if merge.b_in_rows else StreamTiling.choose(cfg, m, n, k, merge)
    if streaming:
        return _estimate_stream(cfg, streaming, passes)
    tiling = Tiling.choose(cfg, k, merge)
    share = max(share_out(cfg.cores, m, n, merge.rows, tiling.columns), key=lambda part: part.rows * part.columns)
    row_blocks, column_blocks = -(-share.rows // merge.rows), -(-share.columns // tiling.columns)
    columns = share.columns / column_blocks
    # A step of Fig. 7 reads the same words; its sums are forwarded: both orders take a cycle a step.
    mm = -(-columns // merge.ka) * merge.slices(k) * passes * merge.step_cycles(cfg.fetch_slots)
    passes = cfg.thread_groups * merge.vector
    stores = len(merge.stores(tiling.columns)) * (passes + _ACCESS_CYCLES)
    loads = len(merge.loads(k)) * (cfg.thread_groups + _ACCESS_CYCLES)
    fresh = 1 if tiling.chunks > 1 else 1 / column_blocks       # blocks of A for each tile
    thread = stores + loads * fresh
    rows = min(share.rows, merge.rows)
    bus = (columns + rows * fresh) * tiling.pitch / cfg.axi_bytes
    # Rows are bursts of their own, so many at a time; a tile that is small for its latency waits for them.
    copies = tiling.chunks * _LATENCY * (columns + rows * fresh) / cfg.axi_reads + _LATENCY * rows / cfg.axi_writes
    each = max(mm, bus, thread + copies + _STEP * tiling.chunks)
    first = _FIRST_TILE + _MERGED * (merge.group > 1) + _LATENCY + columns * tiling.chunk / cfg.axi_bytes + loads / tiling.chunks
    return round(first + row_blocks * column_blocks * each + stores)


def _estimate_stream(cfg, tiling, passes):
    """Of ``StreamingKernel``: the bus is busy from the first byte of A to the last of B, or ``mm`` from the end of the first loads on."""
    merge, share = tiling.merge, max(tiling.shares, key=lambda part: part.columns)
    tiles = -(-share.columns // tiling.columns)
    mm = -(-share.columns // tiles // merge.ka) * merge.slices(tiling.k) * passes * merge.step_cycles(cfg.fetch_slots)
    loads = len(merge.loads(tiling.k)) * (cfg.thread_groups + _ACCESS_CYCLES)
    stores = len(merge.stores(tiling.columns)) * (cfg.thread_groups * merge.vector + _ACCESS_CYCLES)
    a, b = (count * tiling.pitch / cfg.axi_bytes for count in (share.rows, share.columns / tiles))
    bus = _REQUEST + a + tiles * b + mm
    matrix = _REQUEST + max(a + b, a / len(tiling.parts) + loads) + tiles * mm
    threads = _REQUEST + a + b + tiles * (stores + _STREAM_STEP)
    return round(max(bus, matrix, threads) + stores + _RESULTS)


def check_order(order):
    """Raises ``ValueError`` unless it is a loop order, or None."""
    if order is not None:
        check_choice("order", order, ORDERS)


def candidates(cfg, m, n, k, ka=1, kb=1, order=None, passes=1, b_in_rows=False):
    """``Choice``s of merges and loop order for a product that shared memory has room for, those with few merges first; ``k`` in bytes.

    Raises ``ValueError`` for factors that are not 1 to 4, groups with more lanes than a core has, and unknown orders; ``Unfit`` where
    there is no room for any.
    """
    check_order(order)
    pairs = [(a, b) for b in (MERGES if kb is None else (kb,)) for a in (MERGES if ka is None else (ka,))]      # ka first: cheaper to store
    choices, illegal, unfit = [], None, None
    for factors in pairs:
        try:
            merge = Merge(cfg.threads, cfg.dot, *factors, b_in_rows)
            choices += [Choice(*factors, name, estimate(cfg, m, n, k, merge, name, passes))
                        for name in (ORDERS if order is None else (order,))]
        except ValueError as error:
            illegal = error
        except Unfit as problem:
            unfit = problem
    if not choices:
        raise unfit or illegal
    return choices


def preferred(choices):
    """The choice with the fewest cycles; an earlier one where the gain is small."""
    best = choices[0]
    for choice in choices:
        if choice.cycles < _GAIN * best.cycles:
            best = choice
    return best
