"""Collection of the sums of a sparse product by one core, which alone writes the result [S4.8]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from heddle.config import Config
from heddle.constants import BANK_BYTES, BARRIERS

from .fitting import Unfit
from .sparse_schedule import FROM, STORE_FROM, STORE_TO, TO

__all__ = ["WORKSPACE", "Collection", "Sums"]

WORKSPACE = 4           # uniform register of an argument: address of ``Collection.workspace_bytes``
_MASK = 24              # uniform register: cores that a load goes to
_RETURN_BARRIERS = 12   # of a worker, the first one: a place is free again
_MOST_PLACES = BARRIERS - _RETURN_BARRIERS


@dataclass(frozen=True)
class Sums:
    """Sums of a block that ``worker`` makes as its block ``number``: their size in bytes, and ``store(address)``: instructions that store
    them from a shared address to the result, as one group. ``returned``: the worker waits until their place is free."""

    worker: int
    number: int
    nbytes: int
    returned: bool
    store: Callable[[int], list[str]]


class Collection:
    """Core 0 collects, the others are workers, from 0 on. Each worker has some ``places`` in core 0, of ``room`` bytes.

    A worker stores the sums of a block to a workspace in global memory. When they are there, it sends them to core 0 with a multicast
    load, which counts their bytes at a barrier of core 0. Core 0 stores them to the result. When they have been read, it returns the place
    with a load of 16 bytes that a barrier of the worker counts.
    """

    def __init__(self, cfg: Config, room: int) -> None:
        self.workers, self.room = cfg.cores - 1, room
        self.places = min(_MOST_PLACES, BARRIERS // self.workers, cfg.shared_bytes // (room * self.workers))
        if not self.places:
            raise Unfit("shared_memory_kib")

    @property
    def workspace_bytes(self) -> int:
        """Bytes of the workspace."""
        return self.workers * self.places * self.room

    def _place(self, worker: int, number: int) -> int:
        """Of the sums of a block: number of its place, and of the barrier of core 0."""
        return worker * self.places + number % self.places

    def worker_store(self, worker: int, number: int, source: int, nbytes: int) -> list[str]:
        """Instructions that store the sums of a block to the workspace, when its place is free, as one group."""
        returned = f"b{_RETURN_BARRIERS + number % self.places}"
        wait = [f"barrier.expect {returned}, {BANK_BYTES}", f"barrier.wait {returned}"] if number >= self.places else []
        return [*wait, f"uadd ur{STORE_TO}, ur{WORKSPACE}, {self._place(worker, number) * self.room}", f"umov ur{STORE_FROM}, {source}",
                f"copy_block.global.shared ur{STORE_TO}, ur{STORE_FROM}, {nbytes // BANK_BYTES}", "commit_group"]

    def worker_send(self, worker: int, number: int, nbytes: int) -> list[str]:
        """Instructions that send the sums of a block, the last group, from the workspace to core 0."""
        place = self._place(worker, number)
        return ["wait_group 0", *self._load(place * self.room, place * self.room, nbytes, 0, place)]

    def core_0_lines(self, blocks: list[Sums]) -> list[str]:
        """Instructions of core 0 that store the sums of all blocks in this order. A place is returned when the next block has been stored
        too, or at once where the worker needs it for that block."""
        lines: list[str] = []
        late: Sums | None = None        # its place is still to be returned
        for sums in blocks:
            place = self._place(sums.worker, sums.number)
            if late and (late.worker, late.number + self.places) == (sums.worker, sums.number):
                lines += self._return(late, 0)
                late = None
            lines += [f"barrier.expect b{place}, {sums.nbytes}", f"barrier.wait b{place}", *sums.store(place * self.room)]
            if late:
                lines += self._return(late, 1)
            late = sums if sums.returned else None
        return lines

    def _return(self, sums: Sums, stores: int) -> list[str]:
        """Instructions that return a place of which all but the last ``stores`` groups have been read."""
        barrier = _RETURN_BARRIERS + sums.number % self.places
        return [f"wait_group.read {stores}", *self._load(0, 0, BANK_BYTES, sums.worker + 1, barrier)]

    def _load(self, to: int, offset: int, nbytes: int, core: int, barrier: int) -> list[str]:
        """Load of a part of the workspace into the shared memory of a core."""
        return [f"umov ur{TO}, {to}", f"uadd ur{FROM}, ur{WORKSPACE}, {offset}", f"umov ur{_MASK}, {1 << core}",
                f"copy_block.shared.global.multicast ur{TO}, ur{FROM}, {nbytes // BANK_BYTES}, ur{_MASK}, b{barrier}"]
