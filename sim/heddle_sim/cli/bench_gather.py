"""Gathers from shared memory: of a tile in a plain and a swizzled layout, and of windows by compiled offsets [S2.3]."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from heddle.config import Config
from heddle.constants import ROW_BYTES

from ..device.execution import execute
from ..kernels.element_gather import FORMS, PLACES, REPEATS, TYPES, ElementGatherKernel, ElementGatherProblem
from ..kernels.gather import SLICES, GatherProblem
from ..kernels.planner import plan
from ..kernels.problem import Operands
from .common import check_result, print_rows

if TYPE_CHECKING:
    from ..device.device import Device

__all__ = ["element_rows", "gather_rows", "print_gather"]

PIXEL_BYTES = 64                # of the images whose place counts


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


def element_rows(device: Device, seed: int, check: bool) -> list[dict[str, Any]]:
    """A benchmark row for each form of ``gather`` and layout of the image, none where the configuration lacks them.

    Threads gather the elements of their windows, ``entry_bytes`` each: 3 x 3 pixels of four elements, or a pixel of 64 bytes. The latter
    lies in shared memory as ``place`` says. ``gather_cycles``, ``bank_conflicts``: cycles in which requests were
    at the banks, and those of them in which a thread had to wait, for all windows once. ``elements_a_cycle``: elements of all threads,
    padding included, by the cycles from the first gather to the end of the last one.
    """
    if not device.cfg.gather_offsets:
        return []
    problems = [ElementGatherProblem(layout, nbytes) for layout in ("NHWC", "NCHW") for nbytes in FORMS]
    problems += [ElementGatherProblem("NHWC", nbytes, PIXEL_BYTES // nbytes, 1, place) for place in PLACES for nbytes in FORMS]
    return [_element_row(device, problem, seed, check) for problem in problems]


def _element_row(device: Device, problem: ElementGatherProblem, seed: int, check: bool) -> dict[str, Any]:
    kernel = cast(ElementGatherKernel, plan(device.cfg, problem))
    made, threads = kernel.representation, device.cfg.threads
    x = np.random.default_rng(seed).integers(-128, 128, made.layout.shape(1, made.geometry.channels, made.geometry.size))
    x = x.astype(TYPES[problem.nbytes])
    source, expected = kernel.source(x), kernel.expected(x)
    places = device.allocate(source.nbytes), device.allocate(expected.nbytes + 4 * threads)
    try:
        device.write(places[0], source)
        device.write(places[1], ~expected)
        stats = execute(device, kernel, Operands(a=places[0], c=places[1]))
        found = device.read(places[1], expected.shape, np.uint8)
        cycles = int(device.read(places[1] + expected.nbytes, (threads,), np.int32)[0])
    finally:
        for place in places:
            device.free(place)
    if check:       # for each gather and thread the bytes
        check_result("bytes", found, expected, "numpy", f"{problem} seed={seed}")
    elements = len(made.offsets) * threads
    figures: dict[str, Any] = dict.fromkeys(("gather_cycles", "bank_conflicts", "elements_a_cycle"))
    if stats.cycles is not None:
        at_banks, conflicts = (stats.counters[name] / (REPEATS + 1) for name in ("thread_shared_cycles", "thread_bank_conflicts"))
        figures = {"gather_cycles": round(at_banks, 1), "bank_conflicts": round(conflicts, 1),
                   "elements_a_cycle": REPEATS * elements / cycles}
    return {"layout": problem.layout, "window": f"{problem.side}x{problem.side}x{problem.channels}", "place": problem.place,
            "entry_bytes": problem.nbytes, "threads": threads, "elements": elements, "seed": seed,
            "simulator": device.simulator, **figures, "cycles": stats.cycles, "counters": dict(stats.counters), "checked": bool(check)}


def print_gather(options: argparse.Namespace, cfg: Config, rows: list[dict[str, Any]]) -> None:
    columns = ("layout", "threads", "slices", "window", "place", "entry_bytes", "elements", "gather_cycles", "bank_conflicts", "speedup",
               "elements_a_cycle", "cycles", "checked")
    print_rows(options, "gather", cfg.name, rows, dict.fromkeys(columns))
