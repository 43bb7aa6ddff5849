"""Windows of pooling as thread instructions: maxima or sums of the bytes of a word, and the word of a result.

A thread has four neighbouring channels. It walks along a row of results; each byte of an element is loaded by itself, with its sign, and
joins a register. Two temporary sets of registers take turns, so that loads do not wait for their use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import gcd

from heddle.config import Config

from .requantisation import RequantiseSteps
from .text import KernelText
from .thread_cycles import thread_cycles

__all__ = ["FACTORS", "PLACE", "RESULT", "SHARED", "WindowOutput", "WindowText"]

PLACE, RESULT, FACTORS = 3, 4, 5          # registers of a thread: addresses of x, of the result and of multipliers
_TAPS, _PACKED = 6, 8                       # address within a window, word of the result
_SUMS, _LOADED, _MULTIPLIERS, _RING = (12, 28), (16, 20), 24, 32      # sets of four registers
_MOST_COLUMNS = 8                           # of results in a round of the loop, where no columns of x are kept
SHARED = 1                                  # segment: all of shared memory


@dataclass(frozen=True)
class WindowOutput:
    """What becomes of the four numbers of a window. ``steps`` None: they are maxima, and after ``clamps`` (names and operands of
    instructions) the result. Else they are sums: ``bias`` is added, they are shifted left by ``left``, and scaled. ``factor_step``: bytes
    from the multipliers of a column of results to the next, 0 where there is one multiplier for all."""

    signed: bool
    neutral: int
    steps: RequantiseSteps | None = None
    bias: int = 0
    left: int = 0
    factor_step: int = 0
    clamps: tuple[tuple[str, int], ...] = ()

    def lines(self, sums: int, column: int) -> Iterator[str]:
        """From four registers to ``_PACKED``, for the column with this number from the addresses on."""
        if self.steps is None:
            yield from (f"    {name}.v4 r{sums}, r{sums}, {value}" for name, value in self.clamps)
            yield f"    narrow.{'s8' if self.signed else 'u8'} r{_PACKED}, r{sums}, 0"
            return
        if self.bias:
            yield f"    add.v4 r{sums}, r{sums}, {self.bias}"
        if self.left:
            yield f"    shl.v4 r{sums}, r{sums}, {self.left}"
        load = f"    ld.v4 r{_MULTIPLIERS}, ur{SHARED}:r{FACTORS}:{column * self.factor_step}"
        yield from self.steps.instructions(sums, 4, _PACKED, (lambda quad: (load, _MULTIPLIERS)) if self.factor_step else None)


class WindowText:
    """Instructions of a row of windows.

    Parameters
    ----------
    cfg : Config
    kernel, dilation : (int, int)
        Rows and columns of a window, and their distances, in elements.
    stride : int
        Columns from a window to the next.
    pitch, vector : int
        Bytes of a row of x, and of a pixel of x and of the result, in shared memory.
    output : WindowOutput
    unrolled : int
        Elements of a window, at most, that are written one by one; 0: maxima or sums of columns are kept for the next windows.

    Raises ``ValueError`` where columns cannot be kept.
    """

    def __init__(self, cfg: Config, kernel: tuple[int, int], dilation: tuple[int, int], stride: int, pitch: int, vector: int,
                 output: WindowOutput, unrolled: int) -> None:
        self.cfg, self.kernel, self.stride, self.vector, self.output = cfg, kernel, stride, vector, output
        self.row_step, self.column_step = dilation[0] * pitch, dilation[1] * vector
        self.unrolled, self.keeps = unrolled, not unrolled
        self.load = "ld.s8" if output.signed else "ld.u8"
        self.join = "max" if output.steps is None else "add"
        if self.keeps and not (dilation[1] == 1 and stride < kernel[1] <= 48):
            raise ValueError("columns of a window must be those of the next one")
        self.positions = kernel[0] * kernel[1]
        # Results of a round of the loop: more than one, so that the end of one is done beside the next.
        self.columns = (kernel[1] // gcd(kernel[1], stride) if self.keeps
                        else min(_MOST_COLUMNS, max(1, unrolled // 2 // self.positions)))

    def _loads(self, target: int, address: int, place: int) -> list[str]:
        return [f"    {self.load} r{target + byte}, ur{SHARED}:r{address}:{place + byte}" for byte in range(4)]

    def _joins(self, target: int, first: int, second: int) -> list[str]:
        return [f"    {self.join} r{target + byte}, r{first + byte}, r{second + byte}" for byte in range(4)]

    def _elements(self, target: int, address: int, places: Iterable[int], begin: bool) -> list[str]:
        """Elements of a window to the registers from ``target`` on; with ``begin`` the first one replaces what they hold."""
        lines: list[str] = []
        waiting: list[str] = []
        for number, place in enumerate(places):
            if begin and not number:
                lines += self._loads(target, address, place)
                continue
            loaded = _LOADED[number % 2]
            lines += self._loads(loaded, address, place) + waiting
            waiting = self._joins(target, target, loaded)
        return lines + waiting

    def write(self, text: KernelText, count: int) -> None:
        """A row of ``count`` results. ``PLACE``, ``RESULT`` and ``FACTORS`` are the addresses of the first one, predicate p1 says
        whether the thread has one; uniform ``column``, ``tap_row`` and ``tap_column``, and predicate up2, are used."""
        if self.keeps:
            text(*self._columns(range(self.kernel[1] - self.stride)))
        row, end = text.label("column"), text.label("row_end")
        exits = [text.label("last") for _ in range(self.columns)]
        text(f"    umov {{column}}, {count}", f"{row}:")
        waiting: list[str] = []
        for column, label in enumerate(exits):
            self._window(text, column, waiting)
            text("    usub {column}, {column}, 1", "    usetp.le up2, {column}, 0", f"    @up2 bra {label}")
            waiting = self._result(column)
        text(*waiting, *self._advance(), f"    bra {row}")
        for column, label in enumerate(exits):
            text(f"{label}:", *self._result(column), f"    bra {end}")
        text(f"{end}:")

    def _result(self, column: int) -> list[str]:
        """From the sums of a column to its word in shared memory."""
        return [*self.output.lines(self._sums(column), column), self._store(column)]

    @staticmethod
    def _sums(column: int) -> int:
        """Registers of a column: its result is made among the instructions of the next one."""
        return _SUMS[column % 2]

    def _store(self, column: int) -> str:
        return f"    @p1 st.b32 ur{SHARED}:r{RESULT}:{column * self.vector}, r{_PACKED}"

    def _advance(self) -> list[str]:
        lines = [f"    add r{PLACE}, r{PLACE}, {self.columns * self.stride * self.vector}",
                 f"    add r{RESULT}, r{RESULT}, {self.columns * self.vector}"]
        if self.output.factor_step:
            lines.append(f"    add r{FACTORS}, r{FACTORS}, {self.columns * self.output.factor_step}")
        return lines

    @property
    def cycles(self) -> float:
        """Of the thread unit for one result of each thread, when nothing stalls."""
        columns = range(self.columns)
        lines = [line for column in columns for line in self._result(column)]
        windows = sum(map(self._window_cycles, columns))
        return (windows + thread_cycles(self.cfg, [*lines, *self._advance()])) / self.columns

    # -- windows ----------------------------------------------------------------------------

    def _columns(self, columns: Iterable[int]) -> list[str]:
        """Maxima or sums of columns, by their numbers, to their registers."""
        rows = [row * self.row_step for row in range(self.kernel[0])]
        return [line for column in columns for line in self._elements(
            self._kept(column), PLACE, [place + column * self.vector for place in rows], True)]

    def _kept(self, column: int) -> int:
        return _RING + 4 * (column % self.kernel[1])

    def _window(self, text: KernelText, column: int, waiting: list[str]) -> None:
        """The window of a column to its registers, with the lines of the result before between its own."""
        if self.keeps or self.positions <= self.unrolled:
            text(*_mixed(self._lines(column), waiting))
        else:
            self._loop(text)

    def _lines(self, column: int) -> list[str]:
        """The window of a column, element by element."""
        sums = self._sums(column)
        if self.keeps:
            end = column * self.stride + self.kernel[1]
            lines = self._columns(range(end - self.stride, end))
            lines += self._joins(sums, self._kept(column * self.stride), self._kept(column * self.stride + 1))
            others = range(column * self.stride + 2, end)
            return lines + [line for other in others for line in self._joins(sums, sums, self._kept(other))]
        first = column * self.stride * self.vector
        places = [first + row * self.row_step + tap * self.column_step for row in range(self.kernel[0]) for tap in range(self.kernel[1])]
        return self._elements(sums, PLACE, places, True)

    def _pieces(self) -> tuple[int, list[str], list[str]]:
        """Of a row of a window: how often a piece of ``unrolled`` columns is repeated, its lines, and those of the rest."""
        repeats, rest = divmod(self.kernel[1], self.unrolled)

        def piece(count: int) -> list[str]:
            return self._elements(_SUMS[0], _TAPS, [column * self.column_step for column in range(count)], False)
        step = f"    add r{_TAPS}, r{_TAPS}, {self.unrolled * self.column_step}"
        return repeats, [*piece(self.unrolled), step] if repeats else [], piece(rest)

    def _loop(self, text: KernelText) -> None:
        repeats, piece, rest = self._pieces()
        text(f"    mov.v4 r{_SUMS[0]}, {self.output.neutral}", f"    mov r{_TAPS}, r{PLACE}")
        back = self.row_step - repeats * self.unrolled * self.column_step

        def row() -> None:
            self._repeat(text, "tap_column", repeats, lambda: text(*piece))
            text(*rest, f"    add r{_TAPS}, r{_TAPS}, {back}")
        self._repeat(text, "tap_row", self.kernel[0], row)

    @staticmethod
    def _repeat(text: KernelText, counter: str, count: int, emit: Callable[[], object]) -> None:
        """``emit`` in a loop of ``count`` rounds."""
        if not count:
            return
        label = text.label(counter)
        text(f"    umov {{{counter}}}, {count}", f"{label}:")
        emit()
        text(f"    usub {{{counter}}}, {{{counter}}}, 1", f"    usetp.gt up3, {{{counter}}}, 0", f"    @up3 bra {label}")

    def _window_cycles(self, column: int) -> int:
        if self.keeps or self.positions <= self.unrolled:
            return thread_cycles(self.cfg, self._lines(column))
        repeats, piece, rest = self._pieces()
        begin = thread_cycles(self.cfg, [f"    mov.v4 r{_SUMS[0]}, 0", f"    mov r{_TAPS}, r{PLACE}"])
        row = repeats * thread_cycles(self.cfg, piece) + thread_cycles(self.cfg, [*rest, f"    add r{_TAPS}, r{_TAPS}, 0"])
        return begin + self.kernel[0] * row


def _mixed(lines: list[str], others: list[str]) -> list[str]:
    """``others`` one by one between ``lines``, from the first loads on, so that none waits for the one before."""
    mixed, left = [], list(others)
    for number, line in enumerate(lines):
        mixed.append(line)
        if left and number > 6 and number % 3 == 0:
            mixed.append(left.pop(0))
    return mixed + left
