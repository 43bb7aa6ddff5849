"""Group ``thread``: SIMD lanes of the thread unit."""

from dataclasses import dataclass

from .core import CoreGroup
from .group import ConfigError
from .memory import MemoryGroup

__all__ = ["ThreadGroup", "ThreadParameters"]


@dataclass(frozen=True, kw_only=True)
class ThreadGroup(CoreGroup):
    """Table ``thread``: SIMD lanes of the thread unit.

    Parameters
    ----------
    thread_slots : int
        Threads that execute, load or store in the same cycle (1, 2, 4, 8 or 16). At most ``threads`` slots exist. More slots than the
        banks of shared memory (8) do not shorten memory accesses.
    thread_multipliers : int
        32-bit multipliers, four of 18 x 18 bits each, that the slots of a core share (1, 2, 4 or 8). At most one for each slot exists.
    thread_queue : int
        Depth of the instruction queue of the thread unit (2 to 16).
    output_stage : bool
        The thread unit requantises sums to bytes with a bias and a multiplier of each thread (``requant``). Requires 4 slots and more, each
        with a multiplier.
    """

    thread_slots: int = 8
    thread_multipliers: int = 8
    thread_queue: int = 4
    output_stage: bool = False

    def _check(self) -> None:
        """Raises ``ConfigError`` where a value violates a rule."""
        self._one_of("thread_slots", (1, 2, 4, 8, 16))
        self._one_of("thread_multipliers", (1, 2, 4, 8))
        self._between("thread_queue", 2, 16)
        slots = min(self.thread_slots, self.threads)
        if self.output_stage and not 4 <= slots <= self.thread_multipliers:
            raise ConfigError(f"output_stage must be false with thread_slots = {self.thread_slots} and thread_multipliers = "
                              f"{self.thread_multipliers} (at least 4 slots, each with a multiplier), not true")

    @property
    def thread_groups(self) -> int:
        """Groups of ``thread_slots`` threads that the thread unit processes one after the other."""
        return self.threads // min(self.thread_slots, self.threads)

    @property
    def slot_multipliers(self) -> int:
        """Multipliers that the slots share: at most one for each slot."""
        return min(self.thread_multipliers, self.thread_slots, self.threads)

    @property
    def packs_groups(self) -> bool:
        """Whether the output stage packs the numbers of four groups of threads."""
        return self.output_stage and self.thread_groups == 4

    @property
    def shared_requests(self) -> int:
        """Requests of the thread unit to shared memory in flight at most: as many as one a cycle needs at the least latency."""
        return 3

    @property
    def lane_slices(self) -> int:
        """Register slices between the units and the PEs, in each direction."""
        return int(self.far_registers)

    @property
    def register_read_latency(self) -> int:
        """Cycles from the grant of a register read to its data."""
        return 2 + 2 * self.lane_slices

    @property
    def thread_overlap(self) -> bool:
        """Whether the thread unit overlaps operations: register reads of the next one and writes of the previous one with execution.

        The overlap is worth its area only for large groups, whose operations take few cycles.
        """
        return min(self.thread_slots, self.threads) >= 4

    @property
    def register_pairs(self) -> bool:
        """Whether the thread unit reads two product registers at a time, for stores of vectors.

        The PEs then have two outputs for them; as for ``thread_overlap``, only large groups are worth that.
        """
        return self.thread_overlap


@dataclass(frozen=True, kw_only=True)
class ThreadParameters(ThreadGroup, MemoryGroup):
    """What the thread unit takes: core, memory and its group, what its ports to lanes and memory depend on, and the compiled-offset
    memory.
    """

    copy_swizzles: bool
    tensors: bool
    tag_bits: int
    l2_kib: int
    reductions: bool
    rnn: bool
    sparse: bool
    compiled_offsets: int
    offset_words: int
    gather_offsets: bool
