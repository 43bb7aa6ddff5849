"""Resident matrix product, with A, B and C in shared memory: a program that loads, the product, a program that stores C.

Only the product is counted. Loading puts the operands into shared memory and each lane's places in them into registers, as a host writes
the job registers of an accelerator; registers keep their values between programs.

The product is straight-line code: for each tile its ``mm``s and the stores of the tile before. When a new block of rows comes next, its
loads into the other half of the factor registers follow. Instructions issue in order, so a store waits for the last ``mm`` of its tile:
it stands behind the ``mm``s of the next. How the start and the end overlap: ``parts.overlap``.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from heddle.config import Config, ConfigError
from heddle.constants import BANK_BYTES, FIRST_FACTOR_REGISTER

from .kernel import Kernel
from .parts.columns import ResidentB
from .parts.fitting import Region, Unfit, check_factors, check_regions
from .parts.launch import Launch
from .parts.overlap import aligned_groups, first_groups, last_parts, store_accesses
from .parts.register_groups import GROUP_REGISTERS, half_words, words_per_group
from .parts.text import KernelText
from .parts.tiling import MAX_SLICES, odd_pitch, round_up
from .problem import ORDERS, MatmulProblem, Operands

__all__ = ["ResidentKernel"]

_START = 60                     # cycles of start and end, of the cost model


@dataclass(frozen=True)
class _Piece:
    """Slices of A that one ``mm`` takes: ``first`` slice, ``length``, and factor ``word`` in the half of the register file."""

    first: int
    length: int
    word: int


@dataclass(frozen=True)
class _Step:
    """One chunk of k of a tile."""

    row_block: int
    column_block: int
    chunk: int


class ResidentKernel(Kernel):
    """Resident product of a ``MatmulProblem``: layout of shared memory, and three programs.

    Attributes
    ----------
    k_bytes : int
        Row pitch at which A is to lie in global memory for loading, the rest of each row zero.
    b : ResidentB
        How B lies there, and in shared memory.
    lanes : int32 [2 * threads, 4]
        Table for loading: places of each lane.

    Raises ``Unfit`` when the operands do not fit shared memory, ``ConfigError`` for several cores.
    """

    def __init__(self, cfg: Config, problem: MatmulProblem) -> None:
        super().__init__(cfg, problem)
        if cfg.cores > 1:
            raise ConfigError(f"cores must be 1 for a resident product, not {cfg.cores}")
        self.m, self.n = m, n = problem.m, problem.n
        self.element_bytes = element_bytes = problem.elements.nbytes
        self.passes = cfg.passes(element_bytes)
        self.merge = merge = problem.merge(cfg)
        self.mm = (f"mm{8 * element_bytes}{'.t1' * merge.b_in_rows}{merge.modifiers}{problem.elements.signs}"
                   f"{ORDERS[problem.schedule.order]}")
        unit = math.lcm(BANK_BYTES, merge.slice_bytes)
        self.k_bytes = round_up(problem.k_bytes, unit)
        self.ab_pitch = odd_pitch(self.k_bytes)
        self.row_blocks, self.column_blocks = -(-m // merge.rows), -(-n // cfg.threads)
        # What lanes store beyond a row's end must not reach the next: three that share it up to two columns, and of a contiguous split
        # they all store their part of the tile.
        stored = self.column_blocks * cfg.threads if merge.b_in_rows and merge.ka > 1 else n
        self.c_pitch = merge.result_pitch(stored + (2 if merge.ka == 3 else 0))
        self.b_address = m * self.ab_pitch
        self.b = ResidentB(n, self.k_bytes, element_bytes, merge.b_in_rows)
        self.c_address = self.b_address + self.b.rows * self.b.pitch
        # Lanes behind the last row of A load as if there were more rows: these must be in shared memory too.
        self.lane_rows = merge.rows if self.row_blocks > 1 else m
        loaded = ((self.row_blocks - 1) * merge.rows + self.lane_rows) * self.ab_pitch
        stored = self.row_blocks * merge.rows * self.c_pitch
        if max(loaded, self.c_address + stored) > cfg.shared_bytes:
            raise Unfit("shared_memory_kib")
        check_regions(cfg, [Region("A", 0, m * self.ab_pitch), Region("B", self.b_address, self.b.rows * self.b.pitch),
                            Region("C", self.c_address, stored)])
        self.last_columns = n - (self.column_blocks - 1) * cfg.threads
        self.words_per_group = words_per_group(cfg)
        self.chunk = min(self.k_bytes, half_words(cfg) * merge.slice_bytes // unit * unit)
        self.chunks = -(-self.k_bytes // self.chunk)
        # Product registers: two tiles take turns, the parts of the last tile have places of their own. Lanes' places are the last
        # registers.
        self.distance = round_up(cfg.threads, GROUP_REGISTERS)
        self.offset_a, self.offset_c, self.column, self.part = (256 - 8 + index for index in range(4))
        self.offset_b = cfg.registers - 1

    @classmethod
    def fits(cls, cfg: Config, problem: MatmulProblem) -> bool:
        """Products with operands and result in shared memory."""
        return problem.layout.resident

    @classmethod
    def estimate(cls, cfg: Config, problem: MatmulProblem) -> int:
        """Cycles, roughly: steps of ``mm``, or accesses of the threads where they take longer, with start and end."""
        return cls(cfg, problem).cycles

    @cached_property
    def parts(self) -> list[tuple[int, int]]:
        """(first register, registers) of the parts of the last tile of all."""
        cfg, merge, registers = self.cfg, self.merge, self._registers(self.last_columns)
        if self.chunks > 1 or merge.b_in_rows:              # parts would read the same rows of B again
            return [(0, registers)]
        multiplies = sum(map(len, self._pieces(_Step(self.row_blocks - 1, self.column_blocks - 1, 0))))
        slices = self.passes * merge.slices(self.k_bytes)
        return last_parts(cfg, merge, registers, slices, multiplies, (256 - 16) // self.distance - 2)

    def _registers(self, columns: int) -> int:
        """Product registers of a lane that ``columns`` columns of a tile reach."""
        if self.merge.b_in_rows:
            return self.merge.registers_of(columns)
        block = self.merge.ka * self.merge.vector
        full, rest = divmod(columns, block)
        return full * self.merge.vector + min(rest, self.merge.vector)

    @cached_property
    def lanes(self) -> np.ndarray:
        """See the class."""
        merge, threads = self.merge, self.cfg.threads
        table = np.zeros((2, threads, 4), np.int32)
        for thread in range(threads):
            row, position = divmod(thread, merge.group)
            a, b = divmod(position, merge.lanes_b)
            column, register = merge.column(thread), thread if merge.b_in_rows else thread // merge.ka
            part = next((index for index, (first, count) in enumerate(self.parts) if first <= register < first + count), 7)
            if column >= self.last_columns:
                part = 7
            stores = b == 0 and a < merge.ka
            table[0, thread] = (min(row, self.lane_rows - 1) * self.ab_pitch + b * self.cfg.dot,
                                row * self.c_pitch + a * merge.position_bytes, column, part + 8 * stores)
            table[1, thread, 3] = self.b.place(column, 0)
        return table.reshape(2 * threads, 4)

    @property
    def cycles(self) -> int:
        """See ``estimate``."""
        merge, slices = self.merge, self.merge.slices(self.k_bytes)
        step = self.passes * merge.step_cycles(self.cfg.fetch_slots)
        columns = (self.column_blocks - 1) * merge.registers + -(-self.last_columns // merge.ka)
        loads = len(merge.loads(self.k_bytes)) * (self.cfg.thread_groups + 6)
        stores = len(merge.stores()) * (self.cfg.thread_groups * merge.vector + 6)
        mm = columns * slices * step
        each = max(mm, self.column_blocks * stores + loads * (1 if self.chunks == 1 else self.column_blocks))
        return _START + self.row_blocks * each + (0 if merge.kb == 1 else loads)

    # -- programs ---------------------------------------------------------------------------

    def launches(self, operands: Operands = None) -> list[Launch]:
        """Loading, the product, which alone is counted, and storing. ``operands.table``: ``lanes``."""
        load, multiply, store = self.programs
        moves = self._moves(operands)
        places = {20: operands.table} | {21 + index: count * size for index, (_, _, _, size, _, count) in enumerate(moves)}
        for index, move in enumerate(moves):
            places |= dict(enumerate(move, 6 * index))
        pitch = round_up(4 * self.n, BANK_BYTES)
        results = dict(enumerate((operands.c, pitch, self.c_address, self.c_pitch, pitch // BANK_BYTES, self.m)))
        # mm.t1 finds the distance of the rows in the uniform register with the number of the segment.
        rows = {0: self.b.pitch} if self.b.in_rows else {}
        return [Launch(load, places, 0, self.element_bytes, counted=False), Launch(multiply, rows, self.problem.macs, self.element_bytes),
                Launch(store, results, 0, self.element_bytes, counted=False)]

    def _moves(self, operands: Operands) -> list[tuple[int, ...]]:
        """Operands of ``copy_rows`` for A and B: place and pitch in shared memory, address, pitch and blocks of a row, rows."""
        return [(place, pitch, address, size, size // BANK_BYTES, count) for place, pitch, address, size, count in (
            (0, self.ab_pitch, operands.a, self.k_bytes, self.m),
            (self.b_address, self.b.pitch, operands.b, self.b.row_bytes, self.b.rows))]

    def arranged(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """A (M x K), B (N x K) and the lanes' places as they are to lie in global memory."""
        a, b = arrays
        padded = np.zeros((self.m, self.k_bytes // self.element_bytes), a.dtype)
        padded[:, :self.problem.k] = a
        return [padded, self.b.padded(b), self.lanes]

    def write(self) -> list[KernelText]:
        """See ``Kernel``: loading, the product, storing."""
        return [KernelText.of(lines) for lines in (self._loading(), self.product(), [
            "    copy_rows.global.shared ur0, ur2, ur4", "    wait.copy", "    halt"])]

    def _loading(self) -> list[str]:
        """Lines that fill shared memory and the lanes' places."""
        return ["    barrier.expect b1, ur22", "    barrier.expect b0, ur21",
                "    segment.shared.b8.d1 ur0, 0", "    segment.global.b128.d1 ur1, ur20", f"    mov r{self.part + 1}, %tid",
                f"    ld.v4 r{self.offset_a}, ur1:rf{self.part + 1}:0",
                f"    ld.v4 r{self.offset_b - 3}, ur1:rf{self.part + 1}:{self.cfg.threads}",
                "    copy_rows.shared.global ur0, ur2, ur4, b0", "    copy_rows.shared.global ur6, ur8, ur10, b1",
                "    barrier.wait b0", "    barrier.wait b1", "    wait.thread", "    halt"]

    def product(self) -> list[str]:
        """Lines of the program that multiplies."""
        steps = [_Step(row, column, chunk) for row in range(self.row_blocks) for column in range(self.column_blocks)
                 for chunk in range(self.chunks)]
        lines: list[str] = []
        stores: list[str] = []
        half, key = 0, self._key(steps[0])
        predicates = self._predicates()
        if self._guard(steps[0]) or len(steps) == 1:
            lines, predicates = lines + predicates, []
        for index, step in enumerate(steps):
            fresh = index == 0 or self._key(step) != key
            if index and fresh:
                half, key = 1 - half, self._key(step)
            tile = (index // self.chunks) % 2
            multiplies, results = self._tile(step, tile, half, index == len(steps) - 1)
            lines += multiplies[0] if index else self._start(step, multiplies[0])
            lines += predicates + stores
            predicates = []
            following = next((later for later in steps[index:] if self._key(later) != key), None)
            if fresh and following:
                lines += sum(self._loads(following, 1 - half), [])
            stores = []
            if step.chunk == self.chunks - 1:
                # mm of all parts first: from its issue to its first step it takes longer than a short part.
                lines += sum(multiplies[1:] + results[:-1], [])
                stores = results[-1]
        return [*lines, *stores, "    halt"]

    def _start(self, step: _Step, multiplies: list[str]) -> list[str]:
        """The first loads, each group ahead of the ``mm``s of the group before."""
        groups, loads = self._pieces(step), self._loads(step, 0)
        pieces: list[_Piece]
        following: list[str]
        lines, left = loads[0], iter(multiplies)
        for pieces, following in itertools.zip_longest(groups, loads[1:], fillvalue=[]):
            lines = lines + following + list(itertools.islice(left, len(pieces)))
        return lines

    @staticmethod
    def _key(step: _Step) -> tuple[int, int]:
        """What must be in the factor registers."""
        return step.row_block, step.chunk

    def _guard(self, step: _Step) -> bool:
        return step.column_block == self.column_blocks - 1 and self.last_columns != self.cfg.threads

    def _predicates(self) -> list[str]:
        """p0: lanes with results; p1: columns of the last tile of a row; from p2 on: those of the parts of the last tile of all."""
        lines, scratch = [], self.part + 1
        if self.last_columns != self.cfg.threads:
            lines.append(f"    setp.lt p1, r{self.column}, {self.last_columns}")
        if len(self.parts) > 1:
            lines.append(f"    and r{scratch}, r{self.part}, 7")
            lines += [f"    setp.eq p{2 + index}, r{scratch}, {index}" for index in range(len(self.parts))]
        if self._some_lanes_store:
            lines.append(f"    setp.ge p0, r{self.part}, 8")
        return lines

    @property
    def _some_lanes_store(self) -> bool:
        return self.merge.kb > 1 or self.merge.ka == 3

    def _pieces(self, step: _Step) -> list[list[_Piece]]:
        """Slices of a step, in groups that are loaded together: one, or those of ``first_groups`` for the first block of A."""
        slices = self.merge.slices(self._chunk_bytes(step))
        sizes = first_groups(self.cfg, self.merge, slices, self.passes) if step.row_block == step.chunk == 0 else None
        block = 1 if self.merge.kb > 1 else BANK_BYTES // self.cfg.dot
        groups, first, register_group = [], 0, 0
        for size in sizes or [slices]:
            word = register_group * self.words_per_group + first % block
            check_factors(self.cfg, word + size)
            groups.append([_Piece(first + part, min(MAX_SLICES, size - part), word + part) for part in range(0, size, MAX_SLICES)])
            first, register_group = first + size, round_up(-(-(word + size) // self.words_per_group), aligned_groups(self.cfg, block))
        return groups

    def _chunk_bytes(self, step: _Step) -> int:
        return min(self.chunk, self.k_bytes - step.chunk * self.chunk)

    def _loads(self, step: _Step, half: int) -> list[list[str]]:
        """Loads of the rows of A of a step, by group."""
        merge = self.merge
        base = step.row_block * merge.rows * self.ab_pitch + step.chunk * self.chunk
        groups = []
        for pieces in self._pieces(step):
            first, word, length = pieces[0].first, pieces[0].word, sum(piece.length for piece in pieces)
            access = {4: "b32", 8: "v2", 16: "v4"}.get(length * self.cfg.dot)
            if merge.kb == 1 and access and first % length == 0:
                groups.append([f"    ld.{access} r{self._factor(half, word)}, ur0:rf{self.offset_a}:{base + first * self.cfg.dot}"])
                continue
            # A vector load begins at a block: words before the piece come with it.
            before = first % (BANK_BYTES // self.cfg.dot) if merge.kb == 1 else 0
            register = self._factor(half, word - before)
            start = base + (first - before) * merge.slice_bytes
            groups.append([f"    ld.{access} r{register + number}, ur0:rf{self.offset_a}:{start + place}"
                           for number, place, access in merge.loads((before + length) * merge.slice_bytes)])
        return groups

    def _factor(self, half: int, word: int) -> int:
        return FIRST_FACTOR_REGISTER + (half * self.cfg.factor_words // 2 + word) * self.cfg.dot // 4

    def _tile(self, step: _Step, tile: int, half: int, last: bool) -> tuple[list[list[str]], list[list[str]]]:
        """``mm``s and stores of a step, in one part or, the last of all, in several."""
        if last and len(self.parts) > 1:
            places = [tile, *range(2, 1 + len(self.parts))]
            parts = [(f"@p{2 + index} ", self.distance * place) for index, place in enumerate(places)]
        else:
            parts = [("@p1 " if self._guard(step) else "", tile * self.distance)]
        column, base = step.column_block * self.cfg.threads, step.chunk * self.chunk
        multiplies = [[
            f"    {guard}{self.mm}.k{piece.length}{'' if piece.first or step.chunk else '.z'} r{register}, "
            f"ur0:rf{self.offset_b}:{self.b_address + self.b.place(column, base + piece.first * self.merge.slice_bytes)}, "
            f"r{self._factor(half, piece.word)}"
            for pieces in self._pieces(step) for piece in pieces] for guard, register in parts]
        ranges = self.parts if len(parts) > 1 else [(0, self._registers(
            self.last_columns if step.column_block == self.column_blocks - 1 else self.cfg.threads))]
        return multiplies, [self._stores(step, product, *span) for (_, product), span in zip(parts, ranges)]

    def _stores(self, step: _Step, product: int, first: int, count: int) -> list[str]:
        """Stores of some registers of a tile whose first register would be ``product``."""
        merge = self.merge
        guard = "@p0 " if self._some_lanes_store else ""
        base = self.c_address + step.row_block * merge.rows * self.c_pitch + 4 * step.column_block * self.cfg.threads
        lines = []
        for register, width in store_accesses(merge, first, first + count):
            apart = 1 if merge.b_in_rows else merge.ka
            column = register // merge.vector * merge.vector * apart + register % merge.vector
            access = {4: "v4", 2: "v2", 1: "b32"}[width]
            lines.append(f"    {guard}st.{access} ur0:rf{self.offset_c}:{base + 4 * column}, r{product + register}")
        return lines
