"""Maximum and average of windows of images, as programs of the thread unit: one for every size.

Channels are the last axis. Bands of rows of x come to shared memory, those of results go back from there, while threads work on the
band between them. A thread has four neighbouring channels of a row of results, and walks along this row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Self

import numpy as np
from heddle.config import Config
from heddle.constants import BANK_BYTES, ROW_BYTES
from heddle.errors import UsageError

from ..compiled.geometry import Geometry
from ..golden.pooling import average_factors, window_counts
from ..golden.requantise import MAX_MULTIPLIER, Bounds, Requantise
from .kernel import Kernel
from .parts.fitting import Unfit, check_tensors
from .parts.launch import Launch
from .parts.pool_bands import BAND_NAMES, PADS_FILLED, PoolBands
from .parts.pool_window import FACTORS, PLACE, RESULT, SHARED, WindowOutput, WindowText
from .parts.requantisation import RequantiseSteps, clamps
from .parts.text import KernelText
from .problem import Operands, Problem

__all__ = ["MOST_ELEMENTS", "PoolKernel", "PoolProblem"]

_TABLE_LOADED = 3                           # barrier
_TID, _ITEM, _ROW, _SCRATCH = 0, 1, 2, 6    # registers of a thread
_UNROLLED = (0, 64, 32, 8, 1)               # elements of a window that are written one by one; 0: columns are kept
MOST_ELEMENTS = 1 << 20                     # of a window: sums have 29 bits
_FACTOR_BYTES = 16                          # multipliers of a window: the same for four channels
# Cycles of the cost model, as measured on ``base``.
_START, _BAND, _PASS = 400, 90, 70


@dataclass(frozen=True, eq=False)
class PoolProblem(Problem):
    """Maximum ("max") or average ("average") of windows: y of x, planes of integers of 8 bits, channels last.

    ``geometry``: planes are images; two spatial axes; channels, a multiple of 16, are also outputs and groups; the window is the filter.
    ``signed``: int8, else uint8. ``bounds``: least and greatest result, not of averages with ``requantise``, which has its own. Of
    averages: ``include_pad``, ``zero_point`` and ``requantise`` as ``golden.pooling.average_pool``.
    Raises ``ValueError`` for windows with so many elements that averages would not be exact.
    """

    kind: str
    geometry: Geometry
    signed: bool
    include_pad: bool = False
    zero_point: int = 0
    requantise: Requantise | None = None
    bounds: Bounds = (None, None)

    def __post_init__(self) -> None:
        if self.kind == "average":
            counts, (_, shift) = self.counts, self.factors
            most = int(counts.max())
            if self.requantise is None and 255 * most * most >= 1 << shift - 1 or most > MOST_ELEMENTS:
                raise UsageError(f"kernel must have fewer elements for an exact average, not {most} (the smallest window counts "
                                 f"{int(counts.min())})")

    @property
    def name(self) -> str:
        return "max_pool" if self.kind == "max" else "average_pool"

    @cached_property
    def counts(self) -> np.ndarray:
        """Elements that each window counts, (rows, columns)."""
        shape = self.geometry
        return window_counts(shape.size, shape.filter, shape.padding, shape.stride, self.include_pad)

    @cached_property
    def factors(self) -> tuple[np.ndarray, int]:
        """Multipliers of the sums of windows, and their shift. Without ``requantise`` they are greater than 2**shift / count by less than
        1, and halves go away from zero."""
        if self.requantise is not None:
            return average_factors(self.counts, self.requantise)
        least = int(self.counts.min())
        shift = 30
        while (2 << shift) // least < MAX_MULTIPLIER:
            shift += 1
        return (1 << shift) // self.counts + 1, shift

    @property
    def fill(self) -> int:
        """What padding reads as."""
        if self.kind == "max":
            return -128 if self.signed else 0
        return self.zero_point if self.include_pad or self.requantise is not None else 0

    @property
    def bias(self) -> int:
        """Of the sum of a window."""
        return 0 if self.requantise is None else -self.zero_point * self.geometry.positions

    @property
    def output(self) -> Requantise:
        """Bounds, zero point and type of results."""
        minimum, maximum = self.bounds
        return self.requantise or Requantise(1, 0, minimum=minimum, maximum=maximum, dtype=np.int8 if self.signed else np.uint8)

    @property
    def words(self) -> int:
        """Of the result, of four channels."""
        return self.geometry.pixels * self.geometry.channels // 4


class PoolKernel(Kernel):
    """Pooling of a ``PoolProblem`` on core 0. Operands: ``a`` the planes of x and ``c`` those of the result without gaps, ``b`` the
    ``parameters`` of the kernel.

    ``unrolled``: see ``WindowText``. Uniform predicates: up0 parity of the band that is loaded, up2 and up3 scratch. Raises ``Unfit`` where
    shared memory has no room for the rows of a window with 16 channels.
    """

    def __init__(self, cfg: Config, problem: PoolProblem, unrolled: int = _UNROLLED[1]) -> None:
        super().__init__(cfg, problem)
        check_tensors(cfg, problem.name)
        self.unrolled = unrolled
        self.bands = self._fastest()
        self.text = KernelText([*BAND_NAMES, "first", "parity", "bands", "index", "last", "first_row", "column", "tap_row", "tap_column"])

    @classmethod
    def cuts(cls, cfg: Config, problem: PoolProblem) -> Iterator[Self]:
        """Columns kept from a window to the next where these share some, then shorter programs."""
        shape = problem.geometry
        shares = shape.dilation[1] == 1 and shape.stride[1] < shape.filter[1] <= 48 and shape.result[1] > 1
        for unrolled in _UNROLLED[0 if shares else 1:]:
            yield cls(cfg, problem, unrolled)

    @classmethod
    def estimate(cls, cfg: Config, problem: PoolProblem) -> int:
        """Cycles, roughly, of the first of ``cuts``."""
        kernel = next(cls.cuts(cfg, problem))
        return int(kernel._cycles(kernel.bands))

    def bound(self) -> float:
        """Cycles that no run of this program can beat: those of the thread unit for all results, with every lane at work and nothing
        waiting; or, if more, those of the bytes of x or of the result on the bus."""
        shape = self.problem.geometry
        pixels = shape.images * shape.channels * max(prod(shape.size), prod(shape.result))
        return max(self._window(self.bands).cycles * self.problem.words / self.cfg.threads, pixels / self.cfg.axi_bytes)

    # -- bands ------------------------------------------------------------------------------

    def _fastest(self) -> PoolBands:
        """With all channels where a band of them fits, else with as many of them as possible."""
        shape = self.problem.geometry
        blocks = shape.channels // BANK_BYTES
        for count in sorted((part for part in range(1, blocks + 1) if blocks % part == 0), reverse=True):
            fitting = []
            for rows in range(1, shape.result[0] + 1):
                try:
                    fitting.append(PoolBands(self.cfg, shape, count * BANK_BYTES, rows, len(self.table())))
                except Unfit:
                    continue
            if fitting:
                return min(fitting, key=self._cycles)
        raise Unfit("shared_memory_kib")

    def _cycles(self, bands: PoolBands) -> float:
        """Expected cycles: the start, the first band, threads or copies of the others, the last results."""
        shape, threads = self.problem.geometry, self.cfg.threads
        words, of_row = bands.vector // 4, self._window(bands).cycles * shape.result[1] + _PASS

        def band(rows: int) -> float:
            return -(-rows * words // threads) * of_row + _BAND
        copied = bands.inputs(bands.rows) * shape.size[1] * bands.vector / self.cfg.axi_bytes
        work = (bands.bands - 1) * band(bands.rows) + band(bands.last_rows)
        groups = shape.images * bands.slices
        return _START + copied + groups * max(work, bands.bands * copied) + bands.stage_bytes / self.cfg.axi_bytes

    def _window(self, bands: PoolBands) -> WindowText:
        shape = self.problem.geometry
        return WindowText(self.cfg, shape.filter, shape.dilation, shape.stride[1], bands.pitch, bands.vector, self._output,
                          self.unrolled)

    # -- operands ---------------------------------------------------------------------------

    @cached_property
    def _row_classes(self) -> tuple[np.ndarray, np.ndarray]:
        """First row of results with each number of counted rows of a window, and the number of that class for each row."""
        _, first, classes = np.unique(self.problem.counts[:, 0], return_index=True, return_inverse=True)
        return first, classes.reshape(-1)

    @cached_property
    def _output(self) -> WindowOutput:
        problem, shape = self.problem, self.problem.geometry
        output = problem.output
        if problem.kind == "max":
            return WindowOutput(problem.signed, problem.fill, clamps=clamps(output))
        factors, shift = problem.factors
        alike = bool((factors == factors[0, 0]).all())
        # Sums are shifted left as far as the shift behind the product needs it.
        normal = shift + 31 - int(factors.max()).bit_length()
        room = 31 - (255 * shape.positions).bit_length()
        left = 33 - normal if 0 < 33 - normal <= room else 0
        (minimum, maximum), multiplier = output.bounds, int(factors[0, 0]) if alike else factors.reshape(-1)
        steps = RequantiseSteps.of(Requantise(multiplier, shift + left, output.zero_point, minimum, maximum, dtype=output.dtype))
        return WindowOutput(problem.signed, 0, steps, problem.bias, left, 0 if alike else _FACTOR_BYTES * len(self._row_classes[0]))

    def table(self) -> bytes:
        """What lies at the beginning of shared memory, where windows have different multipliers. These are: those of each column of results
        for each class of rows, four of each; for each row the place of its multipliers in the first column."""
        steps = self._output.steps
        if steps is None or not self._output.factor_step:
            return b""
        first, classes = self._row_classes
        factors = np.asarray(steps.multipliers).reshape(self.problem.counts.shape)[first].T
        places = (_FACTOR_BYTES * classes).astype("<u4").tobytes()
        content = np.repeat(factors.reshape(-1), _FACTOR_BYTES // 4).astype("<i4").tobytes() + places
        return content + bytes(-len(content) % ROW_BYTES)

    def parameters(self) -> bytes:
        """The table, and a row of padding."""
        return self.table() + bytes([self.problem.fill & 0xFF]) * self.bands.fill_bytes

    def launches(self, operands: Operands | None = None) -> list[Launch]:
        """One ``Launch``."""
        operands = operands or Operands()
        values = self.bands.values(operands.a, operands.c, operands.b + len(self.table())) | {
            "first": 1, "parity": 0, "bands": self.bands.total, "to": 0, "from": operands.b}
        return [Launch(self.programs[0], self.text.values(values))]

    # -- program ----------------------------------------------------------------------------

    def write(self) -> list[KernelText]:
        """See ``Kernel``."""
        text, table = self.text, len(self.table())
        text("    umov {index}, %core", "    usetp.ne up2, {index}, 0", "    @up2 bra end")
        if table:
            text(f"    umov {{blocks}}, {table // BANK_BYTES}", f"    barrier.expect b{_TABLE_LOADED}, {table}",
                 f"    copy_block.shared.global {{to}}, {{from}}, {{blocks}}, b{_TABLE_LOADED}")
        self.bands.fill_columns(text)
        text(f"    segment.shared.b8.d1 ur{SHARED}, 0", f"    mov r{_TID}, %tid", "band:", "    usetp.ne up0, {parity}, 0")
        self.bands.load(text)
        text("    uxor {parity}, {parity}, 1", "    usetp.eq up2, {first}, 0", "    @up2 bra work", "    umov {first}, 0")
        if sum(self.problem.geometry.padding[1]):
            text(f"    barrier.wait b{PADS_FILLED}")
        if table:
            text(f"    barrier.wait b{_TABLE_LOADED}")
        text("    bra band", "work:")
        self.bands.begin(text)
        self._passes()
        self.bands.store(text)
        text("    usub {bands}, {bands}, 1", "    usetp.gt up2, {bands}, 0", "    @up2 bra band", "end:", "    halt")
        return [text]

    def _passes(self) -> None:
        """All words of a band, as many at a time as there are threads."""
        text, shape, bands = self.text, self.problem.geometry, self.bands
        words = bands.vector // 4
        text("    umov {index}, 0", "    usub {last}, {items}, 1")
        if self._output.factor_step:
            places = self._output.factor_step * shape.result[1]
            text(f"    umov {{first_row}}, {shape.result[0]}", "    usub {first_row}, {first_row}, {out_left}",
                 "    ushl {first_row}, {first_row}, 2", f"    uadd {{first_row}}, {{first_row}}, {places}")
        text("pass:", f"    add r{_ITEM}, r{_TID}, {{index}}", f"    setp.lt p1, r{_ITEM}, {{items}}",
             f"    min r{_ITEM}, r{_ITEM}, {{last}}",
             f"    mulh.u r{_ROW}, r{_ITEM}, {-(-(1 << 32) // words)}", f"    shl r{PLACE}, r{_ITEM}, 2",
             f"    add r{RESULT}, r{PLACE}, {{stage}}", f"    add r{PLACE}, r{PLACE}, {{slot}}")
        for register, step in ((PLACE, shape.stride[0] * bands.pitch), (RESULT, shape.result[1] * bands.vector)):
            text(f"    mul r{_SCRATCH}, r{_ROW}, {step - bands.vector}", f"    add r{register}, r{register}, r{_SCRATCH}")
        if self._output.factor_step:
            text(f"    shl r{_SCRATCH}, r{_ROW}, 2", f"    add r{_SCRATCH}, r{_SCRATCH}, {{first_row}}",
                 f"    ld.b32 r{FACTORS}, ur{SHARED}:r{_SCRATCH}:0")
        self._window(bands).write(text, shape.result[1])
        text(f"    uadd {{index}}, {{index}}, {self.cfg.threads}", "    usetp.lt up2, {index}, {items}", "    @up2 bra pass")
