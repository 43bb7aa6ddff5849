"""In which order a product of few rows begins."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from heddle.config import Config

if TYPE_CHECKING:
    from .stream_tiling import StreamTiling

__all__ = ["REQUEST_CYCLES", "Event", "beginning"]

REQUEST_CYCLES = 85         # from the doorbell to the first bytes of A in shared memory
_PLACES = 130               # until the threads have their places
_ACCESS_CYCLES = 8          # of a load beyond its groups, with what it waits for banks that mm reads
_AHEAD = 110                # of a copy, before the bus is done with the one before


class Event(Enum):
    """``LOAD`` of a part of A (its number, and that of the load in the part); ``COPY`` of columns of B to a slot; ``MULTIPLY`` a tile by a
    part."""

    LOAD = 0
    COPY = 1
    MULTIPLY = 2


def beginning(cfg: Config, tiling: StreamTiling) -> list[list[Any]]:
    """Events as (event, first number, second number): loads of A; copies to the second slot and those behind it; ``mm`` of the first two
    tiles.

    Instructions issue in order. So each stands where it waits for nothing: loads follow each other as fast as the thread unit takes them.
    ``mm`` comes when its columns of B and its part of A are expected in their places.
    """
    share, groups = max(tiling.shares, key=lambda part: part.columns), cfg.thread_groups
    events: list[tuple[float, Event, int, int]] = []

    def arrival(rows: int, nbytes: int) -> float:
        return REQUEST_CYCLES + (rows * nbytes) / cfg.axi_bytes

    cycles, loaded = groups + _ACCESS_CYCLES, []
    now: float = _PLACES
    for number, part in enumerate(tiling.parts):
        now = max(now, arrival(share.rows, part.start + part.nbytes))
        for index in range(len(tiling.loads(part))):
            events.append((now, Event.LOAD, number, index))
            now += cycles
        loaded.append(now)
    columns = [arrival(share.rows + slot * tiling.columns, tiling.pitch) for slot in range(1 + len(tiling.slots))]
    events += [(columns[slot] - _AHEAD, Event.COPY, slot, 0) for slot in range(1, len(tiling.slots))]
    events += [(max(columns[1 + tile], loaded[number]) + cycles, Event.MULTIPLY, tile, number)
               for tile in range(2) for number in range(len(tiling.parts))]
    return [event for _, *event in sorted(events, key=lambda event: event[0])]
