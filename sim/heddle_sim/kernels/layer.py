"""Layer of a network: matrix product, bias and requantisation, y = requantise(x W + bias) [S0.17].

The kernel of ``tiled`` with two changes. Biases (and multipliers, where each column has its own) lie in a table at the end of shared
memory; the product registers of a tile begin with the biases instead of zero, which all threads load from there, and ``mm`` adds to
them. When a tile is complete it is requantised (``requantisation``), four columns to a register of bytes.
These are stored through the staging area in rows of 16 bytes, or, where a tile is narrower than that, from the registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from heddle.config import Config
from heddle.constants import BANK_BYTES
from heddle.errors import UsageError

from ..golden.requantise import Requantise
from .parts.fitting import Region
from .parts.register_groups import GROUP_REGISTERS
from .parts.requantisation import RequantiseSteps
from .parts.shares import Share
from .parts.tiling import Tiling, round_up
from .parts.transfers import A_STAGED, B_COPIED, RowBytes, Rows
from .problem import MatmulProblem, Operands, Problem, Schedule
from .tiled import B_SEGMENT, TiledKernel

__all__ = ["LayerKernel", "LayerProblem"]

_TABLE_COPIED, _A_STAGED = 4, (A_STAGED, 5)             # barriers
_BIASES, _RESULT_SEGMENT, _MULTIPLIERS = 4, 5, 6        # segments
_NO_COLUMN = 1 << 16
_QUEUED = 2             # lines for the thread unit to work on while other instructions are issued


@dataclass(frozen=True, eq=False)
class LayerProblem(Problem):
    """Layer y (m x n) = requantise(x (m x k) W (k x n) + bias) of 8-bit integers.

    ``product``: shapes and element types of x W. ``bias``: int32 (n,), added modulo 2**32, or None. ``requantise``: a ``Requantise``, or
    None where y is int32.
    """

    product: MatmulProblem
    bias: np.ndarray | None = None
    requantise: Requantise | None = None

    @property
    def name(self) -> str:
        return "linear"

    @property
    def result(self) -> np.dtype:
        """Element type of y."""
        return np.dtype(np.int32 if self.requantise is None else self.requantise.dtype)

    @property
    def macs(self) -> int:
        """Multiply-accumulates, without padding."""
        return self.product.macs

    @property
    def own_multipliers(self) -> bool:
        """Each column has a multiplier of its own."""
        return self.requantise is not None and self.requantise.per_column

    def table_shape(self, cfg: Config) -> tuple[int, int]:
        """Rows and columns of ``table``; columns are padded to a multiple of the threads."""
        return (self.bias is not None) + self.own_multipliers, round_up(self.product.n, cfg.threads)

    def table_bytes(self, cfg: Config) -> int:
        """Bytes of ``table``, 0 without one."""
        rows, columns = self.table_shape(cfg)
        return 4 * rows * columns

    def check_table(self, cfg: Config) -> None:
        """Raises ``ValueError`` when ``table`` takes more than a quarter of shared memory."""
        rows, nbytes = self.table_shape(cfg)[0], self.table_bytes(cfg)
        if 4 * nbytes > cfg.shared_bytes:
            limit = cfg.shared_bytes // 16 // rows // cfg.threads * cfg.threads
            held = "bias" if rows == 1 else "bias and multipliers"
            raise UsageError(f"columns of w must be at most {limit} on {cfg.name} with {held} of their own "
                             f"(shared_memory_kib = {cfg.shared_memory_kib}), not {self.product.n}")

    def table(self, cfg: Config) -> np.ndarray | None:
        """Constants of the columns as they are to lie in global memory: int32 (rows, columns padded with zeros), or None."""
        rows: list[Any] = [] if self.bias is None else [self.bias]
        if self.requantise is not None and self.requantise.per_column:
            rows.append(RequantiseSteps.of(self.requantise).multipliers)
        if not rows:
            return None
        table = np.zeros(self.table_shape(cfg), np.int32)
        table[:, :self.product.n] = rows
        return table


class LayerKernel(TiledKernel):
    """Layer of a ``LayerProblem``, cut by a ``Tiling``.

    Thread predicates p2: rows of the tile that is stored; p4, p5: columns of its halves.

    While ``mm`` works on a tile, the thread unit finishes the one before, four columns at a time. Requantised, they go to other registers,
    and theirs begin with the biases of the next tile. Each half of a tile has an ``mm`` and register groups of its own.
    So the thread unit begins when half of the tile is complete. What it has staged is sent behind the next ``mm``: then it is there.
    """

    def __init__(self, cfg: Config, problem: LayerProblem, tiling: Tiling) -> None:
        self.result_bytes = problem.result.itemsize
        self.table_bytes = problem.table_bytes(cfg)
        # An mm holds as many registers as there are threads: those of a half, and as many behind them that nobody uses.
        self.halves = cfg.threads == tiling.columns == 2 * GROUP_REGISTERS and tiling.stages == 2 and problem.product.n > GROUP_REGISTERS
        # A sum that the next step replaces is not written: the thread unit writes biases meanwhile.
        super().__init__(cfg, replace(problem.product, schedule=Schedule(1, 1, "column-outer")), tiling)
        self.problem = problem
        self.steps = None if problem.requantise is None else RequantiseSteps.of(problem.requantise)
        self.has_bias, self.own_multipliers = problem.bias is not None, problem.own_multipliers
        self.row_bytes = 4 * problem.table_shape(cfg)[1]
        self.table = cfg.shared_bytes - self.table_bytes
        self.narrow_tile = self.result_bytes * tiling.columns < BANK_BYTES         # narrower than a block of a copy
        # Four registers for multipliers, then one that is zero, one with the offset of a row of C, the columns of halves, and bytes.
        self.factors = self.tile_registers() + 4
        self.zero, self.offset_rows = self.factors + 4, self.factors + 5
        self.bytes = self.tile_registers() + GROUP_REGISTERS
        kept = self.tiling.with_all_columns(self.column_blocks, self.table)
        self.keeps_b = kept is not None
        self.tiling = kept or self.tiling
        # While the rows of A in one staging area wait for their registers, the next ones come to another.
        end = self.tiling.end
        self.a_stages = (self.tiling.a_stage, end)
        self.stages_two = self.tiling.chunks == 1 and end + self.tiling.rows * self.tiling.ab_pitch <= self.table
        if self.halves:
            self.column_parts = [(4, self.factors + 6, 0), (5, self.factors + 7, GROUP_REGISTERS)]
        more = [Region("second stage of A", end, self.tiling.rows * self.tiling.ab_pitch)] if self.stages_two else []
        more += [Region("table", self.table, self.table_bytes)] if self.table_bytes else []
        self.tiling.check(cfg, self.merge, self.tiling.columns * self.tiling.ab_pitch, more)

    @classmethod
    def fits(cls, cfg: Config, problem: LayerProblem) -> bool:        # type: ignore[override]    # a layer is no product
        """All layers. Raises ``ValueError`` where their table is too large."""
        problem.check_table(cfg)
        return True

    @classmethod
    def estimate(cls, cfg: Config, problem: LayerProblem) -> int:        # type: ignore[override]    # a layer is no product
        """Cycles of the product, roughly; the thread unit finishes a tile beside the next."""
        product = replace(problem.product, schedule=Schedule(1, 1, "column-outer"))
        return cls._cycles(cfg, product, next(cls._tilings(cfg, problem)))

    @classmethod
    def cuts(cls, cfg: Config, problem: LayerProblem) -> Iterator[Self]:        # type: ignore[override]    # a layer is no product
        """One for each of ``Tiling.candidates`` beside the table."""
        for tiling in cls._tilings(cfg, problem):
            yield cls(cfg, problem, tiling)

    @staticmethod
    def _tilings(cfg: Config, problem: LayerProblem) -> Iterator[Tiling]:
        fewest = 4 if problem.requantise is None else 8         # columns of a tile
        return Tiling.candidates(cfg, problem.product.k_bytes, reserved=problem.table_bytes(cfg), fewest=fewest)

    def arranged(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """x, w (N x K), and the table of the problem if it has one."""
        table = self.problem.table(self.cfg)
        return list(arrays) if table is None else [*arrays, table]

    def tile_registers(self) -> int:
        return 4 * self.cfg.threads if self.halves else super().tile_registers()

    def register_of(self, tile: int, column: int) -> int:
        if not self.halves:
            return super().register_of(tile, column)
        return (2 * tile + column // GROUP_REGISTERS) * self.cfg.threads + column % GROUP_REGISTERS

    def arguments(self, operands: Operands, share: Share) -> dict[str, int]:
        own = {"table_from": operands.table, "table_end": self.table + 4 * (share.column + share.columns)}
        if self.keeps_b:
            blocks = -(-share.columns // self.tiling.columns)
            own |= {"b_left": blocks, "b_end": blocks * self.tiling.slots[-1] // max(len(self.tiling.slots) - 1, 1)}
        return super().arguments(operands, share) | own

    # -- B, all of whose columns stay in shared memory where there is room ------------------

    def wait_for_b(self) -> None:
        if not self.keeps_b:
            super().wait_for_b()
        else:
            self.text(f"    barrier.wait b{B_COPIED[0]}")

    def issue_b(self, kind: str) -> None:
        if not self.keeps_b:
            super().issue_b(kind)
            return
        self.text(f"    barrier.expect b{B_COPIED[0]}, {{bytes}}",
                  f"    copy_{kind}.shared.global {{b_to}}, {{b_from}}, {{b_blocks}}, b{B_COPIED[0]}")
        self.next_slot("{b_to}")

    def next_slot(self, register: str) -> None:
        if not self.keeps_b:
            super().next_slot(register)
        elif self.column_blocks > 1:
            self.text(f"    uadd {register}, {register}, {self.tiling.slots[1]}", f"    usetp.ge up2, {register}, {{b_end}}",
                      f"    @up2 umov {register}, {self.tiling.slots[0]}")

    # -- A, in two staging areas where there is room ------------------------------------------

    def issue_a(self, rows: Rows, row_bytes: RowBytes) -> None:
        if not self.stages_two:
            super().issue_a(rows, row_bytes)
            return
        first, second = self.a_stages
        self.expect(None, rows, row_bytes)
        self.text(f"    usetp.eq up2, {{a_to}}, {first}")
        for guard, barrier in zip(("@up2", "@!up2"), _A_STAGED):
            self.text(f"    {guard} barrier.expect b{barrier}, {{bytes}}",
                      f"    {guard} copy_rows.shared.global {{a_to}}, {{a_from}}, {{a_blocks}}, b{barrier}")
        self.text(f"    uxor {{a_to}}, {{a_to}}, {first ^ second}")

    def segment_of_a(self, half: int) -> int:
        return int(half) if self.stages_two else super().segment_of_a(half)

    def load_a(self, half: int, last: bool) -> None:
        if self.stages_two:
            self.text(f"    barrier.wait b{_A_STAGED[half]}")
        super().load_a(half, last)

    def next_a(self) -> None:
        if not self.stages_two:
            super().next_a()
            return
        self.text("    uxor {half}, {half}, 1", "    usetp.ne up1, {half}, 0")
        self.load_next_a()

    # -- program ----------------------------------------------------------------------------

    def copy_first(self) -> None:
        if self.table_bytes:
            self.text(f"    umov {{table}}, {self.table}", f"    barrier.expect b{_TABLE_COPIED}, {self.table_bytes}",
                      f"    copy_block.shared.global {{table}}, {{table_from}}, {self.table_bytes // BANK_BYTES}, b{_TABLE_COPIED}")

    def lanes(self) -> None:
        if self.stages_two:
            self.copy_a()
            self.text(f"    segment.shared.b8.d1 ur1, {self.a_stages[1]}")
        super().lanes()
        if self.halves:
            (predicate, low, _), (_, high, _) = self.column_parts
            self.text(f"    setp.lt p{predicate}, r{self.column}, {GROUP_REGISTERS}",
                      f"    mov r{low}, {_NO_COLUMN}", f"    mov r{high}, {_NO_COLUMN}",
                      f"    @p{predicate} mov r{low}, r{self.column}", f"    @p{predicate} add r{high}, r{self.column}, {GROUP_REGISTERS}")

    def begin(self) -> None:
        """The table is there; the first two tiles begin with their biases."""
        text = self.text
        if self.table_bytes:
            text(f"    mov r{self.zero}, 0", f"    barrier.wait b{_TABLE_COPIED}")
        if self.narrow_tile:
            self.scale_thread_number(self.offset_rows, self.c_pitch)
        if self.has_bias:
            self.point_at_table(_BIASES, 0, "{n}")
            self.load_biases(0)
            self.point_at_next_biases("{n}")
            self.load_biases(1)

    def point_at_next_biases(self, columns: str) -> None:
        """The segment of the biases begins with those of the tile behind the one where ``columns`` are left."""
        self.text(f"    usub {{bytes}}, {columns}, {self.tiling.columns}", "    usetp.le up2, {bytes}, 0", "    @up2 umov {bytes}, {n}")
        self.point_at_table(_BIASES, 0, "{bytes}")

    def point_at_table(self, segment: int, row: int, columns: str) -> None:
        """A segment begins at the first of the columns of which ``columns`` are left, in a row of the table."""
        self.text(f"    ushl {{bytes}}, {columns}, 2", "    usub {table}, {table_end}, {bytes}")
        if row:
            self.text(f"    uadd {{table}}, {{table}}, {row * self.row_bytes}")
        self.text(f"    segment.shared.b8.d1 ur{segment}, {{table}}")

    def point_at_multipliers(self) -> None:
        """The segment of the multipliers begins with those of the tile that is finished next."""
        if self.own_multipliers:
            self.point_at_table(_MULTIPLIERS, int(self.has_bias), "{prev_cols}")

    def load_biases(self, tile: int) -> None:
        self.text(*(self.load_quad(tile, quad) for quad in range(self.used_columns // 4)))

    def load_quad(self, tile: int, quad: int) -> str:
        """Four registers of a tile become the biases of their columns."""
        return f"    ld.v4 r{self.register_of(tile, 4 * quad)}, ur{_BIASES}:r{self.zero}:{16 * quad}"

    def multiply(self, tile: int, half: int, first: bool = True, last: bool = False, parts: slice = slice(None)) -> None:
        super().multiply(tile, half, first and not self.has_bias, last, parts)

    def step(self) -> None:
        """The thread unit finishes half a tile, then gets the other half; between them comes the mm of a half whose biases it has loaded
        before: so it has always something to do."""
        t, text = self.tiling, self.text
        if t.chunks > 1 or not self.halves:
            super().step()
            return
        text("step:")
        self.wait_for_b()
        text(f"    segment.shared.b8.d1 ur{B_SEGMENT}, {self.slot_of_b()}")
        self.next_slot("{slot}")
        text.select(("up0", "up1"), self.begin_halves)
        self.copy_next_a()
        text("    @up3 bra both")
        text.select(("up0", "up1"), lambda tile, half: self.multiply(tile, half, parts=slice(1, 2)))
        if len(t.slots) == 3:
            self.copy_b()
        text("    bra stored", "store:")
        text.select(("up0",), lambda tile: self.copy_c(not tile))
        text("    bra finish", "both:")
        text.select(("up0", "up1"), lambda tile, half: self.copy_c(
            not tile, lambda: self.multiply(tile, half, parts=slice(1, 2))))
        text("stored:")

    def begin_halves(self, tile: int, half: int) -> None:
        """The first mm of a tile, and the first lines that finish the one before."""
        self.multiply(tile, half, parts=slice(0, 1))
        first = self.text.label("first")
        self.text(f"    @!up3 bra {first}")
        self.point_at_multipliers()
        self.text(*self.finish_tile(not tile)[:_QUEUED], f"{first}:")

    def same_rows_begin(self) -> str:
        """Where all tiles have the same columns nothing else is to be done."""
        plain = self.halves and self.tiling.chunks == 1 and self.last_columns == self.cfg.threads
        return "step" if plain else super().same_rows_begin()

    def copy_c(self, tile: int, between: Callable[[], None] | None = None) -> None:
        """Send the tile that is staged, finish and stage this one, and let its registers begin with the next one's biases.

        ``between`` its two halves comes another mm; the first lines have been issued then.
        """
        text, lines = self.text, self.finish_tile(tile)
        if not between:
            self.point_at_multipliers()
        if self.has_bias:
            self.point_at_next_biases("{cols}")
        if self.keeps_b:
            self.copy_b()
        half = self.lines_of_first_half if between else 0
        if between:
            text(*lines[_QUEUED:half])
            between()
        self.send_and_announce(tile, "wait.thread" if between is None else "")
        # The first lines of the last half wait for the mm of the tile; then its slot of B is free.
        begins = self.lines_of_first_half + _QUEUED
        text(*lines[half:begins])
        if self.tiling.chunks == 1 and not self.keeps_b:
            self.copy_b()
        text(*lines[begins:])
        if self.narrow_tile:
            text(f"    segment.global.b8.d1 ur{_RESULT_SEGMENT}, {{prev_c}}", f"    setp.lt p2, r{self.thread_number}, {{prev_rows}}",
                 f"    @p2 st.v2 ur{_RESULT_SEGMENT}:r{self.offset_rows}:0, r{self.bytes}")

    def send_and_announce(self, tile: int, wait: str) -> None:
        """Before a tile is staged. The mm between two halves has waited for the last line of ``finish_tile``, thus for the stores."""
        if self.sends_late:
            self.send_staged(1 - tile, wait)
            self.text(f"    barrier.wait b{self.c_staged(tile)}", "    umov {staged}, 1")
            self.announce_rows(tile)

    def finish_tile(self, tile: int) -> list[str]:
        """Lines that requantise and store a tile; those of the first half stand first. The last one writes the last registers, behind
        all stores. What a line has written is read by one that does not follow at once."""
        lines: list[str] = []
        quads = self.used_columns // 4
        self.lines_of_first_half = 0
        stores: list[str] = []
        loads: list[str] = []
        for quad in range(quads):
            ends_part = quad == quads - 1 or self.halves and 4 * quad + 4 == GROUP_REGISTERS
            lines += self.finish_quad(tile, quad) + stores
            stores = []
            if self.has_bias:
                lines += loads
                loads = [self.load_quad(tile, quad)]
            if self.steps is not None and not self.narrow_tile and (quad % 4 == 3 or quad == quads - 1):
                stores = [f"    st.v4 {self.place_of_c(tile)}:{BANK_BYTES * (quad // 4)}, r{self.bytes + 4 * (quad // 4)}"]
            if ends_part and quad < quads - 1:
                lines, loads, self.lines_of_first_half = lines + loads, [], len(lines + loads)
        return lines + stores + (loads if self.has_bias else [f"    mov r{self.register_of(tile, 4 * quads - 1)}, 0"])

    def place_of_c(self, tile: int) -> str:
        """Address of a thread's row of the staging area."""
        return f"ur{2 + tile}:rf{self.offset_c}"

    def finish_quad(self, tile: int, quad: int) -> list[str]:
        """Four columns to bytes; 32-bit results are stored as they are."""
        register = self.register_of(tile, 4 * quad)
        if self.steps is None:
            return [f"    st.v4 {self.place_of_c(tile)}:{16 * quad}, r{register}"]
        return list(self.steps.instructions(register, 4, self.bytes + quad, self.load_multipliers(quad) if self.own_multipliers else None))

    def load_multipliers(self, quad: int) -> Callable[[int], tuple[str, int]]:
        """For ``RequantiseSteps.instructions``."""
        return lambda _: (f"    ld.v4 r{self.factors}, ur{_MULTIPLIERS}:r{self.zero}:{16 * quad}", self.factors)

    @property
    def sends_late(self) -> bool:
        return not self.narrow_tile
