"""Loop of a core over tiles that it takes from the tile scheduler: the same program on every core [S4.7]."""

from __future__ import annotations

from typing import NamedTuple

from heddle.constants import BANK_BYTES
from heddle.isa.sparse_job import JOB_BYTES
from heddle.isa.tensor_descriptor import DESCRIPTOR_BYTES

from .sparse_schedule import FROM, PACKAGE_BARRIERS, PACKAGES, STORE_FROM, STORE_TO, TO, Schedule

__all__ = ["TileOperand", "TileTable", "first_lines", "loop_lines", "tile_load"]

_NUMBER, _PART, _ENTRIES, _COORDINATES = 24, 25, 26, 5      # uniform registers; of each slot the address of its entry; three zeros
_RANK = 3               # of operands
_STORES = (5, 4)        # uniform predicates: there is a tile before, and one before that; 0 to 3: the slot has a tile


class TileTable(NamedTuple):
    """Table in memory with an entry for each tile, in the order in which tiles are handed out.

    An entry has the job of the tile for each slot and the descriptor of its place in the result. That of an operand follows, if it has one.
    Behind them, from ``head`` on, are ``body`` bytes that the engine reads. ``pitch``: bytes from one entry to the next.
    """

    tiles: int
    head: int
    body: int
    pitch: int

    @classmethod
    def of(cls, tiles: int, body: int, slots: int, descriptors: int = 1) -> TileTable:
        """Entries whose pitch is a sum of two powers of two: a core multiplies with it."""
        head = slots * JOB_BYTES + descriptors * DESCRIPTOR_BYTES
        least = head + body
        high = 1 << least.bit_length() - 1
        low = 1 << (least - high - 1).bit_length() if least > high else 0
        return cls(tiles, head, body, high + max(low, DESCRIPTOR_BYTES) if low else high)


class TileOperand(NamedTuple):
    """Box of three dimensions that every tile loads by the second descriptor of its entry: its bytes, and where it lies in a slot."""

    nbytes: int
    offset: int


def _times(target: int, number: int, factor: int) -> list[str]:
    """Instructions that set uniform register ``target`` to ``number`` times a sum of two powers of two."""
    first, *others = [bit for bit in range(factor.bit_length()) if factor >> bit & 1]
    lines = [f"ushl ur{target}, ur{number}, {first}"]
    for bit in others:
        lines += [f"ushl ur{_PART}, ur{number}, {bit}", f"uadd ur{target}, ur{target}, ur{_PART}"]
    return lines


def tile_load(table: TileTable, slot: int, slots: int, address: int, operand: TileOperand | None = None) -> list[str]:
    """Instructions that take the next tile and copy its job, its body and its operand to a slot at ``address``, if there is one. The
    descriptor of its result goes to the L2 cache, as the store waits for it."""
    entry, barrier, there = _ENTRIES + slot, PACKAGE_BARRIERS + slot, f"@up{slot} "
    nbytes, box = JOB_BYTES + table.body, list[str]()
    if operand is not None:
        nbytes += operand.nbytes
        box = [f"umov ur{TO}, {address + operand.offset}", f"uadd ur{FROM}, ur{entry}, {slots * JOB_BYTES + DESCRIPTOR_BYTES}",
               f"{there}invalidate_descriptor ur{FROM}",
               f"{there}copy_tensor.tile.{_RANK}d.shared.global ur{TO}, ur{FROM}, ur{_COORDINATES}, b{barrier}"]
    return [
        f"take_tile ur{_NUMBER}", f"usetp.lt up{slot}, ur{_NUMBER}, {table.tiles}", *_times(entry, _NUMBER, table.pitch),
        f"uadd ur{entry}, ur{entry}, ur{PACKAGES}", f"{there}barrier.expect b{barrier}, {nbytes}",
        f"umov ur{TO}, {address}", f"uadd ur{FROM}, ur{entry}, {slot * JOB_BYTES}",
        f"{there}copy_block.shared.global ur{TO}, ur{FROM}, {JOB_BYTES // BANK_BYTES}, b{barrier}",
        f"umov ur{TO}, {address + JOB_BYTES}", f"uadd ur{FROM}, ur{entry}, {table.head}",
        f"{there}copy_block.shared.global ur{TO}, ur{FROM}, {table.body // BANK_BYTES}, b{barrier}", *box,
        f"uadd ur{FROM}, ur{entry}, {slots * JOB_BYTES}", f"{there}prefetch_block ur{FROM}, {DESCRIPTOR_BYTES // BANK_BYTES}"]


def first_lines() -> list[str]:
    """Instructions in front of all others: coordinates that the loads and stores use."""
    return [f"umov ur{_COORDINATES + dimension}, 0" for dimension in range(_RANK)]


def loop_lines(schedule: Schedule, loads: list[list[str]], places: list[tuple[int, int]], ahead: int, adds: bool) -> list[str]:
    """Instructions of a core, with a ``halt``: what ``schedule`` has, then the loop.

    Parameters
    ----------
    schedule : Schedule
        With the loads of the first ``ahead`` tiles as its last loads; all its jobs are started.
    loads : list of list of str
        ``tile_load`` of each slot.
    places : list of (int, int)
        Shared addresses of the job and of the sums of each slot.
    ahead : int
        Tiles that a core loads beside the one that it starts.
    adds : bool
        The sums are added to the result.
    """
    slots = len(loads)
    while schedule.issued < len(schedule.loads):
        schedule.wait(schedule.loads[schedule.issued].after + 1)
        schedule.load_ahead()

    def store(slot: int, before: int) -> list[str]:
        of = (slot - before) % slots
        return _store(slots, of, places[of][1], adds, before)

    lines = list(schedule.lines)
    for slot, (package, _) in enumerate(places):
        lines += [f"tile_{slot}:", f"@!up{slot} bra last_{slot}", f"wait_group.read {slots - 3}",
                  f"barrier.wait b{PACKAGE_BARRIERS + slot}", f"umov ur{TO}, {package}", f"sparse ur{TO}", "wait_sparse 2",
                  *store(slot, 2), *loads[(slot + ahead) % slots],
                  f"@up{_STORES[0]} usetp.eq up{_STORES[1]}, ur{TO}, ur{TO}", f"usetp.eq up{_STORES[0]}, ur{TO}, ur{TO}"]
    lines.append("bra tile_0")
    for slot in range(slots):
        lines += [f"last_{slot}:", "wait_sparse 1", *store(slot, 2), "wait_sparse 0", *store(slot, 1), "halt"]
    return lines


def _store(slots: int, slot: int, sums: int, adds: bool, before: int) -> list[str]:
    """Instructions that store the sums of the tile ``before`` this one, which was in a slot, as one group."""
    there = f"@up{_STORES[before - 1]} "
    return [f"umov ur{STORE_FROM}, {sums}", f"uadd ur{STORE_TO}, ur{_ENTRIES + slot}, {slots * JOB_BYTES}",
            f"{there}invalidate_descriptor ur{STORE_TO}",
            f"{there}copy_tensor.tile.2d.global.shared{'.add' * adds} ur{STORE_FROM}, ur{STORE_TO}, ur{_COORDINATES}",
            f"{there}commit_group"]
