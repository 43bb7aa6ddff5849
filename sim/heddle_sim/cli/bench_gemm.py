"""Matrix products of random integers on a device, compared with numpy."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from heddle.config import Config
from heddle.errors import UsageError

from ..kernels.parts.cost import bus_cycles
from ..kernels.parts.merges import MERGES
from ..kernels.planner import plan
from ..kernels.problem import ORDERS, Elements, Layout, MatmulProblem, Schedule
from .common import check_result, print_rows

if TYPE_CHECKING:
    from ..device.device import Device

__all__ = ["SUITES", "Suite", "add_choice", "gemm_row", "merge_rows", "print_gemm"]


@dataclass(frozen=True)
class Suite:
    """Shapes (M, N, K) that are measured together."""

    shapes: tuple[tuple[int, int, int], ...]
    resident: bool = False


SUITES = {
    "list": Suite((
        (1, 1, 1),
        (32, 32, 32),
        (64, 64, 64),
        (128, 128, 128),
        (256, 256, 256),
        (64, 64, 1024),
        (32, 512, 512),
        (100, 75, 50),
    )),
    "edges": Suite((                    # ragged tiles, few products for each result, few columns
        (100, 100, 100),
        (256, 256, 48),
        (256, 256, 32),
        (256, 256, 16),
        (130, 256, 256),
        (512, 8, 512),
        (1024, 1, 256),
    )),
    "resident": Suite(((96, 96, 96), (48, 48, 48), (128, 128, 128), (64, 64, 64), (31, 31, 32), (1, 64, 256)), resident=True),
}
FEW_ROWS = (8, 128, 512)                # shape of the gain of merges, operands and result in shared memory
FEW_ROWS_FROM_GLOBAL = (8, 256, 512)    # limited by the bus


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Options of the choice of a kernel."""
    for name, meaning in (("ka", "a row"), ("kb", "a dot product")):
        parser.add_argument(f"--{name}", type=int, choices=MERGES, help=f"lanes that share {meaning} (default: by a cost model)")
    parser.add_argument("--order", choices=tuple(ORDERS), help="loop order of mm (default: by a cost model)")
    parser.add_argument("--resident", action="store_true", help="A, B and C in shared memory, doorbell to done")


def _operands(m: int, n: int, k: int, dtype: str, seed: int) -> Iterator[np.ndarray]:
    generator = np.random.default_rng(seed)
    limits = np.iinfo(dtype)
    return (generator.integers(limits.min, limits.max, shape, dtype, endpoint=True) for shape in ((m, k), (k, n)))


def gemm_row(device: Device, m: int, n: int, k: int, dtype: str, seed: int, check: bool, b_layout: str = "nk", *, ka: int | None = None,
             kb: int | None = None, order: str | None = None, resident: bool = False) -> dict[str, Any]:
    """Runs one product; a benchmark row with the merges and loop order that were used. ``bound``: cycles that multipliers or bus need at
    least, whichever takes longer (``bound_by``), of those it took. Raises ``CommandFailed`` when the result differs from numpy's."""
    size = np.dtype(dtype).itemsize
    needed, there = size * k * (m + n) + 4 * m * n, device.memory.bytes.size
    if needed > there:          # said before they are drawn
        raise UsageError(f"memory_bytes must leave room for {needed} bytes of operands and result (m={m}, n={n}, k={k}), not {there}")
    a, b = _operands(m, n, k, dtype, seed)
    try:
        problem = MatmulProblem(m, n, k, Elements.of(a, b), schedule=Schedule(ka, kb, order), layout=Layout(b_layout, resident))
        schedule = plan(device.cfg, problem).problem.schedule
    except ValueError as error:
        raise UsageError(str(error)) from None
    ka, kb, order = schedule.ka, schedule.kb, schedule.order
    start = time.perf_counter()
    c, stats = device.matmul(a, b, b_layout=b_layout, ka=ka, kb=kb, order=order, resident=resident)
    seconds = time.perf_counter() - start
    if check:
        check_result("C", c, a.astype(np.int32) @ b.astype(np.int32), "numpy", f"m={m} n={n} k={k} ka={ka} kb={kb} seed={seed}")
    parameters = {
        "m": m,
        "n": n,
        "k": k,
        "ka": ka,
        "kb": kb,
        "order": order,
        "dtype": dtype,
        "b_layout": b_layout,
        "resident": resident,
        "seed": seed,
        "simulator": device.simulator,
    }
    row = parameters | stats.as_row() | {"seconds": seconds, "checked": bool(check)}
    least = {"multipliers": stats.macs / stats.peak_macs_per_cycle, "bus": 0 if resident else bus_cycles(device.cfg, m, n, k * size)}
    limit = max(least, key=least.__getitem__)
    return row | {"bound": least[limit] / stats.cycles if stats.cycles else None, "bound_by": limit}


def merge_rows(device: Device, seed: int, check: bool) -> list[dict[str, Any]]:
    """Few rows in shared memory with the merges that gain most, ``speedup`` over none, and a product that the bus limits."""
    rows = [gemm_row(device, *FEW_ROWS, "int8", seed, check, ka=ka, kb=kb, resident=True) for ka, kb in ((1, 1), (4, 1), (1, 4))]
    for row in rows:
        row["speedup"] = rows[0]["cycles"] / row["cycles"] if row["cycles"] else None
    return [*rows, gemm_row(device, *FEW_ROWS_FROM_GLOBAL, "int8", seed, check)]


def print_gemm(options: argparse.Namespace, bench: str, cfg: Config, rows: list[dict[str, Any]], more: Sequence[str] = ()) -> None:
    """Print rows as a table with the columns ``more`` besides the usual ones, or as JSON."""
    print_rows(
        options,
        bench,
        cfg.name,
        rows,
        dict.fromkeys(("m", "n", "k", "ka", "kb", "resident", "dtype", "cycles", "macs", "utilization", *more, "checked")),
    )
    if not options.json and len(rows) == 1 and rows[0]["cycles"]:
        for name, cycles in rows[0]["breakdown"].items():
            print(f"  {name:<12} {cycles:>12,} cycles  {100 * cycles / rows[0]['cycles']:5.1f} %")
