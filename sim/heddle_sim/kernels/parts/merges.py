"""How the lanes of a core share the rows, columns and dot products of a tile when ``mm`` merges [S0.5-S0.7]."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral

from heddle.constants import BANK_BYTES
from heddle.errors import UsageError

__all__ = ["MERGES", "Merge", "check_factor"]

MERGES = (1, 2, 3, 4)
_LANES = {1: 1, 2: 2, 3: 4, 4: 4}       # neighbouring lanes; with three the fourth does nothing


def check_factor(name: str, value: int) -> int:
    """``value`` as ``int``; ``ValueError`` unless it is one of ``MERGES``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value not in MERGES:
        raise UsageError(f"{name} must be one of {', '.join(map(str, MERGES))}, not {value!r}")
    return int(value)


@dataclass(frozen=True)
class Merge:
    """Factors of a merge on a core of ``threads`` lanes of ``dot`` multipliers.

    A group of ``lanes_a * lanes_b`` lanes holds a row of a tile of ``rows`` x ``threads``. Lane t is position p = t mod group,
    a = p div lanes_b, b = p mod lanes_b. Columns are split interleaved: step i multiplies the columns of threads i * ka … i * ka + ka - 1.
    Thread c need not fetch column c of the tile: ``column`` deals them out so that a lane's results are runs of ``vector`` columns,
    which one vector store writes. The columns of a step are still ``vector`` apart, in different banks.

    With ``b_in_rows`` (``.t1``) columns are split contiguously and thread c fetches column c. ``mm`` takes columns and words one by
    one: neighbours lie in the same 16 bytes, which are read once.
    """

    threads: int
    dot: int
    ka: int = 1
    kb: int = 1
    b_in_rows: bool = False

    def __post_init__(self) -> None:
        for name in ("ka", "kb"):
            check_factor(name, getattr(self, name))
        if self.group > self.threads:
            raise UsageError(f"ka and kb must give groups of at most {self.threads} lanes, not {self.group} (ka {self.ka}, kb {self.kb})")

    @property
    def lanes_a(self) -> int:
        return _LANES[self.ka]

    @property
    def lanes_b(self) -> int:
        return _LANES[self.kb]

    @property
    def group(self) -> int:
        """Lanes that hold a row of the tile."""
        return self.lanes_a * self.lanes_b

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return self.threads // self.group

    @property
    def registers(self) -> int:
        """Product registers of a tile: steps of a slice."""
        return -(-self.threads // self.ka)

    @property
    def slice_bytes(self) -> int:
        """Bytes of k of one slice of ``mm``."""
        return self.dot * self.kb

    @property
    def vector(self) -> int:
        """Neighbouring columns that a lane holds in neighbouring registers."""
        return next(width for width in (4, 2, 1) if width == 1 or (
            self.registers % width == 0 and (
                self.b_in_rows or (_LANES[self.ka] == self.ka and self.ka * width <= BANK_BYTES // 2))))

    def result_pitch(self, columns: int) -> int:
        """Bytes between rows of ``columns`` results in shared memory: the rows that a store writes at a time meet different banks."""
        unit = max(BANK_BYTES, 4 * self.lanes_a * self.vector)
        return (-(-4 * columns // unit) | 1) * unit

    @property
    def position_bytes(self) -> int:
        """Distance of the results of neighbouring positions along the columns."""
        return 4 * (self.registers if self.b_in_rows else self.vector)

    @property
    def modifiers(self) -> str:
        """Of ``mm``, with the dot in front."""
        interleaved = "" if self.b_in_rows else "i"
        return (f".ka{self.ka}{interleaved}" if self.ka > 1 else "") + (f".kb{self.kb}" if self.kb > 1 else "")

    def step_cycles(self, fetch_slots: int) -> int:
        """Cycles that ``mm`` takes for a register of the tile and a slice."""
        return self.ka * self.kb if self.b_in_rows else max(1, -(-self.ka * self.kb // fetch_slots))

    def slices(self, nbytes: int) -> int:
        """Slices that ``nbytes`` of k take."""
        return -(-nbytes // self.slice_bytes)

    def tail(self, nbytes: int) -> int:
        """Words of k in the last slice, where they are fewer than kb; else 0."""
        return -(-nbytes // self.dot) % self.kb

    def column(self, thread: int) -> int:
        """Column of the tile that a thread fetches."""
        if self.b_in_rows:
            return thread
        step, a = divmod(thread, self.ka)
        return step // self.vector * self.vector * self.ka + a * self.vector + step % self.vector

    def stores(self, columns: int | None = None) -> list[tuple[int, int]]:
        """(register of the tile, first column for position a = 0) of each vector store of a tile of so many columns (all)."""
        registers = self.registers if columns is None else self.registers_of(columns)
        apart = 1 if self.b_in_rows else self.ka
        return [(register, register * apart) for register in range(0, registers, self.vector)]

    def stored_columns(self, columns: int) -> int:
        """Columns that the lanes of a row write when they store the first ``columns`` of a tile, those behind them included."""
        return len(self.stores(columns)) * self.vector * self.ka

    def registers_of(self, columns: int) -> int:
        """Product registers that the first ``columns`` columns of a tile reach, in units of what a store writes."""
        return min(columns, self.registers) if self.b_in_rows else -(-columns // self.ka)

    def loads(self, nbytes: int) -> list[tuple[int, int, str]]:
        """Of each load of ``nbytes`` of a row of A: (32-bit number behind the first factor register, byte of k for b = 0, load
        modifier)."""
        if self.kb == 1:
            return [(4 * block, BANK_BYTES * block, "v4") for block in range(-(-nbytes // BANK_BYTES))]
        access = {4: "b32", 8: "v2", 16: "v4"}[self.dot]
        return [(index * self.dot // 4, index * self.slice_bytes, access) for index in range(self.slices(nbytes))]

    # -- programs ---------------------------------------------------------------------------

    def write_row_offset(self, text: Callable[..., None], destination: int, thread: int, pitch: int, scratch: int) -> None:
        """r``destination`` = byte of the lane's first word in a matrix of rows of A ``pitch`` bytes apart."""
        write_scaled(text, destination, thread, self.group, pitch, scratch)
        if self.kb > 1:
            text(f"    and r{scratch}, r{thread}, {self.lanes_b - 1}", f"    shl r{scratch}, r{scratch}, {self.dot.bit_length() - 1}",
                 f"    add r{destination}, r{destination}, r{scratch}")

    def write_result_offset(self, text: Callable[..., None], destination: int, thread: int, pitch: int, scratch: int,
                            apart: int = 4) -> None:
        """r``destination`` = byte of the lane's first result in a tile of C: rows are ``pitch`` bytes apart, columns ``apart``."""
        write_scaled(text, destination, thread, self.group, pitch, scratch)
        if self.ka > 1:
            self._write_position_a(text, scratch, thread)
            write_scaled(text, scratch, scratch, 1, self.position_bytes // 4 * apart, scratch)
            text(f"    add r{destination}, r{destination}, r{scratch}")

    def write_column(self, text: Callable[..., None], destination: int, thread: int, scratch: int) -> None:
        """r``destination`` = column of the tile that the thread fetches."""
        if self.vector == 1 or self.ka == 1 or self.b_in_rows:
            text(f"    mov r{destination}, r{thread}")
            return
        ka, vector = self.ka.bit_length() - 1, self.vector.bit_length() - 1
        text(f"    and r{destination}, r{thread}, {-(self.ka * self.vector)}",
             f"    and r{scratch}, r{thread}, {self.ka - 1}", f"    shl r{scratch}, r{scratch}, {vector}",
             f"    or r{destination}, r{destination}, r{scratch}",
             f"    shr r{scratch}, r{thread}, {ka}", f"    and r{scratch}, r{scratch}, {self.vector - 1}",
             f"    or r{destination}, r{destination}, r{scratch}")

    def write_result_lanes(self, text: Callable[..., None], predicate: int, thread: int, scratch: int) -> bool:
        """p``predicate`` = the lane holds results; nothing is written, and False returned, where all do."""
        if self.group == 1 or (self.kb == 1 and self.ka != 3):
            return False
        text(f"    and r{scratch}, r{thread}, {self.lanes_b - 1}")
        if self.ka == 3:
            self._write_position_a(text, scratch + 1, thread)
            text(f"    max r{scratch + 1}, r{scratch + 1}, 2", f"    sub r{scratch + 1}, r{scratch + 1}, 2",
                 f"    or r{scratch}, r{scratch}, r{scratch + 1}")
        text(f"    setp.eq p{predicate}, r{scratch}, 0")
        return True

    def write_tail_lanes(self, text: Callable[..., None], predicate: int, thread: int, words: int, scratch: int) -> None:
        """p``predicate`` = the lane has a word of A in a slice of ``words`` words."""
        text(f"    and r{scratch}, r{thread}, {self.lanes_b - 1}", f"    setp.lt p{predicate}, r{scratch}, {words}")

    def _write_position_a(self, text: Callable[..., None], destination: int, thread: int) -> None:
        shift = self.lanes_b.bit_length() - 1
        text(f"    shr r{destination}, r{thread}, {shift}", f"    and r{destination}, r{destination}, {self.lanes_a - 1}")


def write_scaled(text: Callable[..., None], destination: int, source: int, divisor: int, factor: int, scratch: int) -> None:
    """r``destination`` (any register) = (r``source`` div ``divisor``) x ``factor``; ``divisor`` is a power of two."""
    if divisor > 1:
        text(f"    shr r{scratch + 1}, r{source}, {divisor.bit_length() - 1}")
        source = scratch + 1
    if factor & (factor - 1):
        text(f"    mul r{destination}, r{source}, {factor}")
    else:
        text(f"    shl r{destination}, r{source}, {factor.bit_length() - 1}")
