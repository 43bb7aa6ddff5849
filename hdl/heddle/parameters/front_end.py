"""Group ``front_end``: instruction memory and issue."""

from dataclasses import dataclass

from amaranth.utils import exact_log2

from .core import CoreGroup

__all__ = ["FrontEndGroup", "FrontEndParameters"]


@dataclass(frozen=True, kw_only=True)
class FrontEndGroup(CoreGroup):
    """Table ``front_end``: instruction memory and issue.

    Parameters
    ----------
    instruction_words : int
        Depth of the instruction memory in 128-bit instructions, a power of two from 64 to 4096.
    wait_timeout : bool
        Waits of a program may have a limit of cycles (register ``wait_timeout``).
    """

    instruction_words: int = 1024
    wait_timeout: bool = True

    def _check(self) -> None:
        """Raises ``ConfigError`` where a value violates a rule."""
        self._power("instruction_words", 64, 4096)

    @property
    def program_counter_bits(self) -> int:
        return exact_log2(self.instruction_words)


@dataclass(frozen=True, kw_only=True)
class FrontEndParameters(FrontEndGroup):
    """What the front end takes: its group, its register slices, and which instructions exist."""

    front_end_slices: int
    thread_queue: int
    output_stage: bool
    packs_groups: bool
    mm16: bool
    transpose: bool
    compiled_offsets: int
    byte_entries: bool
    offset_words: int
    gather_offsets: bool
    multicast: bool
    tensors: bool
    copy_swizzles: bool
    prefetches: bool
    reductions: bool
    rnn: bool
    sparse: bool
