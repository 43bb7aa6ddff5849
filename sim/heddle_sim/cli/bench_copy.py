"""Copies of tensors, and of blocks within global memory: what they reach of the bus, and how soon their first address is there."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from heddle.config import Config

from ..device.execution import execute
from ..golden.tensor_copy import load_tensor, store_tensor
from ..kernels.copies import MOST_STARTS, BlockCopy, RepeatedCopies
from ..kernels.parts.copy_cases import QUICK, CopyCase, copy_sweep
from ..kernels.planner import plan
from .common import CommandFailed, print_rows

if TYPE_CHECKING:
    from ..device.device import Device
    from ..device.stats import Stats
    from ..progress import Progress

__all__ = ["block_rows", "copy_aims", "copy_row", "copy_rows", "print_copy"]

PLACES = 4              # boxes in shared memory, if they fit
PERIOD = 1024           # bytes after which swizzles begin anew
FEW = 4                 # requests of the shorter of two runs
BEATS = 2048            # by how much the longer one is longer, about
MOST_REQUESTS = 200
PROGRAM = 40            # instructions of the program beside the copies
BLOCK_BYTES = 65536     # of a copy within global memory
BLOCK_AIM = 0.4         # least part of the bus that it uses, in each direction


def copy_aims(cfg: Config, case: CopyCase) -> tuple[float | None, int | None]:
    """``(aim, start_aim)`` of ``base`` with its default memory: least beats a cycle of those that the rows need, most cycles from a
    request to its first address. None for other configurations: their bus and bursts under way are others."""
    if cfg.name != "base":
        return None, None
    aim = 0.95 if case.store or case.pixels else 0.9 if case.row == 32 else 0.97
    return aim, 8 if case.rank <= 3 else 10


def copy_rows(device: Device, seed: int, check: bool, quick: bool = False, progress: Progress | None = None) -> list[dict[str, Any]]:
    """A benchmark row for each point of the sweep, or of a small one."""
    cases = QUICK if quick else copy_sweep()
    cases = [case for case in cases if device.cfg.tensor_im2col or not case.pixels]
    progress.stage("copies", len(cases))
    rows = []
    for case in cases:
        rows.append(copy_row(device, case, seed, check))
        progress.step()
    return rows


def block_rows(device: Device, seed: int, check: bool) -> list[dict[str, Any]]:
    """A row for a copy of ``BLOCK_BYTES`` within global memory, or none where the configuration has no such copies.

    ``cycles`` are those of the whole run; ``bus_fraction``: bytes of what one direction of the bus could carry in them. Raises
    ``CommandFailed`` when anything was copied wrong.
    """
    if not device.cfg.copy_within:
        return []
    array = np.random.default_rng(seed).integers(0, 256, BLOCK_BYTES, np.uint8)
    found, stats = device.move_block(array)
    if check and not np.array_equal(found, array):
        raise CommandFailed(f"byte {np.flatnonzero(found != array)[0]} of the copy within global memory must be that of its source")
    row = dict.fromkeys(("beats", "cycles", "beats_per_cycle", "bytes_per_cycle", "bus_fraction", "met", "counters"))
    row |= {"direction": "global_global", "mode": "block", "bytes": BLOCK_BYTES, "seed": seed, "simulator": device.simulator,
            "limit": 1.0, "aim": BLOCK_AIM}
    if stats.cycles is not None:
        fraction = BLOCK_BYTES / stats.cycles / device.cfg.axi_bytes
        row |= {"beats": stats.counters["write_beats"], "cycles": stats.cycles, "counters": stats.counters,
                "beats_per_cycle": stats.counters["write_beats"] / stats.cycles, "bytes_per_cycle": BLOCK_BYTES / stats.cycles,
                "bus_fraction": fraction, "met": fraction >= BLOCK_AIM}
    return [row | {"checked": bool(check)}]


def copy_row(device: Device, case: CopyCase, seed: int, check: bool) -> dict[str, Any]:
    """Copies one box after the other, back to back, and counts. No box has bytes in common with another one, so that a second-level
    cache brings each from memory.

    From the hardware's counters of two runs of which one has more requests: ``beats`` and ``cycles`` of these requests,
    ``beats_per_cycle``, ``bytes_per_cycle``, ``bus_fraction`` (bytes of the rows, of what the bus could carry), ``limit`` (the largest
    such fraction: rows that are shorter than a beat leave the rest of it unused), ``idle_per_request`` (cycles without a beat). From
    those of a run with one request and one with none: ``start_cycles``, from the request to its address on the AXI pins with the
    descriptor cached, and ``request_cycles``, until the program goes on behind it. Raises ``CommandFailed`` when anything was copied wrong.
    """
    cfg = device.cfg
    rows = case.rows(cfg.shared_bytes)
    with _Operands(device, case, rows, seed) as operands:
        more = operands.more
        before, one, few, many = (operands.run(count, check) for count in (0, 1, FEW, FEW + more))
    parameters = {
        "direction": "store" if case.store else "load", "mode": "im2col" if case.pixels else "tile", "rank": case.rank,
        "row_bytes": case.row, "swizzle": case.swizzle.name[1:] + "B" if case.swizzle.value else "none",
        "stride": case.stride, "rows": rows, "requests": more, "seed": seed, "simulator": device.simulator,
    }
    return parameters | _figures(case, cfg, rows, more, before, one, few, many) | {"checked": bool(check)}


def _figures(case: CopyCase, cfg: Config, rows: int, requests: int, before: Stats, one: Stats, few: Stats, many: Stats) -> dict[str, Any]:
    aim, start_aim = copy_aims(cfg, case)
    row = dict.fromkeys(("beats", "cycles", "beats_per_cycle", "bytes_per_cycle", "bus_fraction", "idle_per_request", "start_cycles",
                         "request_cycles", "met", "counters"))
    row |= {"limit": case.limit(cfg.axi_bytes), "aim": aim, "start_aim": start_aim}
    if many.cycles is None:
        return row
    counted = {name: many.counters[name] - few.counters[name] for name in many.counters}
    beats, cycles = counted["write_beats" if case.store else "read_beats"], many.cycles - few.cycles
    nbytes = requests * rows * case.row
    start = one.counters["copy_start_cycles"] - before.counters["copy_start_cycles"]
    return row | {
        "beats": beats, "cycles": cycles, "beats_per_cycle": beats / cycles, "bytes_per_cycle": nbytes / cycles,
        "bus_fraction": nbytes / cycles / cfg.axi_bytes, "idle_per_request": (cycles - beats) / requests, "start_cycles": start,
        "request_cycles": one.cycles - before.cycles, "met": aim and beats / cycles >= aim and start <= start_aim, "counters": counted,
    }


class _Operands:
    """A tensor, its descriptor and boxes of it in shared memory, from ``__enter__`` to ``__exit__``."""

    def __init__(self, device: Device, case: CopyCase, rows: int, seed: int) -> None:
        self.device, self.case, self.rows = device, case, rows
        cfg = device.cfg
        most = MOST_REQUESTS if case.rank > 1 else MOST_STARTS - FEW - 1
        self.more = min(-(-BEATS // (rows * case.beats(cfg.axi_bytes))), most, (cfg.instruction_words - PROGRAM) // 2 - FEW)
        self.generator = np.random.default_rng(seed)

    def __enter__(self) -> Self:
        device = self.device
        self._addresses: list[int] = []
        self.boxes = 1 + FEW + self.more
        size = self.case.fields(self.rows, 0, self.boxes).tensor_bytes
        tensor, descriptor, self.image = (self._reserve(nbytes) for nbytes in (size, 128, device.cfg.shared_bytes))
        self.fields = self.case.fields(self.rows, tensor, self.boxes)
        device.write(descriptor, np.frombuffer(self.fields.encode(), np.uint8))
        pitch = -(-self.fields.room // PERIOD) * PERIOD
        self.places = [number * pitch for number in range(min(PLACES, device.cfg.shared_bytes // pitch))]
        self.request = self.case.request(descriptor)
        return self

    def _reserve(self, nbytes: int) -> int:
        self._addresses.append(self.device.allocate(nbytes))
        return self._addresses[-1]

    def __exit__(self, *exception: object) -> None:
        for address in self._addresses:
            self.device.free(address)

    def run(self, count: int, check: bool) -> Stats:
        """A run with ``count`` copies after the first one; compares memory and shared memory with the golden model."""
        device, fields = self.device, self.fields
        shared = self.generator.integers(0, 256, device.cfg.shared_bytes, np.uint8)
        device.write(self.image, shared)
        device.write(fields.address, self.generator.integers(0, 256, fields.tensor_bytes, np.uint8))
        memory = device.memory.bytes.copy() if check else None
        self._blocks(to_shared=True)
        copies = RepeatedCopies(self.request, fields.bytes, tuple(self.places), count, self.case.step(self.rows))
        stats = execute(device, plan(device.cfg, copies))
        if check:
            self._blocks(to_shared=False)
            self._compare(memory, shared, count)
        return stats

    def _blocks(self, to_shared: bool) -> None:
        cfg = self.device.cfg
        execute(self.device, plan(cfg, BlockCopy(0, self.image, cfg.shared_bytes, to_shared)))

    def _compare(self, memory: np.ndarray, shared: np.ndarray, count: int) -> None:
        numbers = [0, *range(count)]        # places of the copies; later loads replace what earlier ones brought
        for box, number in enumerate(numbers):
            request = self.case.request(self.request.descriptor, start=box * self.case.step(self.rows))
            place = self.places[number % len(self.places)]
            if self.case.store:
                store_tensor(memory, shared, self.fields, request.coordinates, place)
            elif box >= len(numbers) - len(self.places) or not box:
                load_tensor(memory, shared, self.fields, request.coordinates, place, request.offsets)
        memory[self.image:self.image + len(shared)] = shared
        found = self.device.memory.bytes
        if not np.array_equal(found, memory):
            place = np.flatnonzero(found != memory)[0]
            raise CommandFailed(f"byte {place:#x} of memory must be {memory[place]}, not {found[place]} ({self.case.name}, {count} "
                                "copies); please report it")


def print_copy(options: argparse.Namespace, cfg: Config, rows: list[dict[str, Any]]) -> None:
    print_rows(options, "copy", cfg.name, rows, dict.fromkeys(
        ("direction", "mode", "rank", "row_bytes", "swizzle", "stride", "beats_per_cycle", "bytes_per_cycle", "bus_fraction", "limit",
         "idle_per_request", "start_cycles", "request_cycles", "aim", "met", "checked")))
