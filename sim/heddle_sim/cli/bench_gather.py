"""Gathers of a tile from a plain and from a swizzled layout of shared memory."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np
from heddle.config import Config
from heddle.constants import ROW_BYTES

from ..device.execution import execute
from ..kernels.gather import SLICES, GatherProblem
from ..kernels.planner import plan
from ..kernels.problem import Operands
from .common import check_result, print_rows

if TYPE_CHECKING:
    from ..device.device import Device

__all__ = ["gather_rows", "print_gather"]


def gather_rows(device: Device, seed: int, check: bool) -> list[dict[str, Any]]:
    """A benchmark row for each layout. Raises ``CommandFailed`` when a thread got other bytes than its own.

    ``gather_cycles`` are cycles in which the threads asked for banks, for one slice (16 bytes of each thread); ``bank_conflicts`` those of
    them in which a thread had to wait.
    """
    rows: list[dict[str, Any]] = []
    shape = (device.cfg.threads, ROW_BYTES)
    tile = np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
    for layout in ("plain", "swizzled"):
        source, result = (device.allocate(tile.nbytes) for _ in range(2))
        try:
            device.write(source, tile)
            device.write(result, ~tile)
            stats = execute(device, plan(device.cfg, GatherProblem(layout == "swizzled")), Operands(a=source, c=result))
            found = device.read(result, shape, np.uint8)
        finally:
            device.free(source)
            device.free(result)
        if check:       # a row for each thread
            check_result("rows", found, tile, "numpy", f"{layout} seed={seed}")
        row = {"layout": layout, "threads": device.cfg.threads, "slices": SLICES, "seed": seed, "simulator": device.simulator}
        cycles = conflicts = speedup = None
        if stats.cycles is not None:
            cycles, conflicts = (stats.counters[name] / SLICES for name in ("thread_shared_cycles", "thread_bank_conflicts"))
            speedup = (rows[0]["gather_cycles"] if rows else cycles) / cycles
        rows.append(row | {"gather_cycles": cycles, "bank_conflicts": conflicts, "speedup": speedup, "cycles": stats.cycles,
                           "counters": dict(stats.counters), "checked": bool(check)})
    return rows


def print_gather(options: argparse.Namespace, cfg: Config, rows: list[dict[str, Any]]) -> None:
    columns = ("layout", "threads", "slices", "gather_cycles", "bank_conflicts", "speedup", "cycles", "checked")
    print_rows(options, "gather", cfg.name, rows, dict.fromkeys(columns))
