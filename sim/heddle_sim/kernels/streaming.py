"""Streaming matrix product of few rows, from global memory to global memory: A stays in the factor registers, B streams past it.

For products whose rows all fit one tile (how many those are: ``merges``). Each column of B is used once, and the bus that brings it may be
the limit; so little must be there before ``mm`` begins, and little be left when the last byte of B has come. A tile of C has only as many
columns as hide what a step of the program takes. A comes and is loaded in parts, each into register groups of its own, and ``mm`` of the
first tile begins with the first part. The columns of a tile go to one of several slots in shared memory, its sums to product registers that
belong to the slot. When these can be stored, ``mm`` is done with the columns, and the next ones are copied to their place.

The loop is unrolled over the slots, so that addresses, registers and barriers are constants.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Self

from heddle.config import Config
from heddle.constants import BANK_BYTES, BARRIERS, FIRST_FACTOR_REGISTER

from .kernel import Kernel
from .parts.cost import MERGE_GAIN, loading_cycles, matrix_cycles, storing_cycles
from .parts.launch import Launch
from .parts.merges import write_scaled
from .parts.shares import Share, begin_share
from .parts.stream_start import REQUEST_CYCLES, Event, beginning
from .parts.stream_tiling import MAX_SLOTS, Part, StreamTiling
from .parts.text import KernelText
from .parts.tiling import round_up
from .problem import ORDERS, MatmulProblem, Operands

__all__ = ["StreamingKernel"]

_C_STAGED = (0, 1)          # barriers; behind them one for each slot, then those of the parts of A
# Pairs for copy_rows stand together. The host sets all; those up to ``b_columns_last`` do not change.
_UNIFORM = (*(f"{name}{slot}" for slot in range(MAX_SLOTS) for name in ("b_to_", "b_to_pitch_")),
            *(f"{name}{stage}" for stage in range(2) for name in ("c_from_", "c_from_pitch_")),
            "c_blocks", "c_rows", "c_blocks_last", "c_rows_last", "b_blocks", "b_columns", "b_blocks_last", "b_columns_last",
            "c_bytes", "c_bytes_last", "b_bytes", "b_bytes_last", "columns", "columns_second", "columns_last",
            "a_to", "a_to_pitch", "a_from", "a_pitch", "a_blocks", "a_rows", "a_bytes", "a_bytes_last",
            "b_from", "b_pitch", "c_to", "c_pitch", "b_left", "left", "core")
_ADDRESSES = ("a_from", "b_from", "c_to")       # uniform registers that depend on where the matrices lie

# Cycles of the cost model.
_STREAM_STEP = 65           # instructions of a tile of few rows
_RESULTS = 110              # from the last sum in shared memory to the end


class StreamingKernel(Kernel):
    """Streaming product of a ``MatmulProblem`` in global memory, cut by a ``StreamTiling``.

    Uniform predicates: up1 no tile is left, up2 scratch. Thread predicates: p1 columns of the tile, p2 lanes with a word of the last
    slice, p3 lanes with results, p4 columns of the second tile. Segments: ur0 staged A, ur1 B, ur2 and ur3 staged C.
    """

    gain = MERGE_GAIN

    def __init__(self, cfg: Config, problem: MatmulProblem, tiling: StreamTiling) -> None:
        super().__init__(cfg, problem)
        self.tiling, self.merge = tiling, tiling.merge
        elements = problem.elements
        self.multiplies = f"mm{8 * elements.nbytes}{self.merge.modifiers}{elements.signs}", ORDERS[problem.schedule.order]
        self.text = KernelText(_UNIFORM)
        # The first registers behind the product registers of the slots, and the last register of all.
        self.column, self.offset_a, self.offset_c, self.thread_number, self.scratch = (tiling.places + index for index in range(5))
        self.offset_b = cfg.registers - 1

    # -- planning ---------------------------------------------------------------------------

    @staticmethod
    def _tiling(cfg: Config, problem: MatmulProblem) -> StreamTiling | None:
        return StreamTiling.choose(cfg, problem.m, problem.n, problem.k_bytes, problem.merge(cfg))

    @classmethod
    def fits(cls, cfg: Config, problem: MatmulProblem) -> bool:
        """Products from global memory, B in columns, whose rows of a core fit a tile and whose A fits the factor registers."""
        return not problem.layout.resident and not problem.merge(cfg).b_in_rows and cls._tiling(cfg, problem) is not None

    @classmethod
    def estimate(cls, cfg: Config, problem: MatmulProblem) -> int:
        """Cycles: the bus is busy from the first byte of A to the last of B, or ``mm`` from the first loads on."""
        tiling, passes = cls._tiling(cfg, problem), cfg.passes(problem.elements.nbytes)
        merge, share = tiling.merge, max(tiling.shares, key=lambda part: part.columns)
        tiles = -(-share.columns // tiling.columns)
        mm = matrix_cycles(cfg, merge, -(-share.columns // tiles), tiling.k, passes)
        loads, stores = loading_cycles(cfg, merge, tiling.k), cls.storing(cfg, tiling)
        a, b = (count * tiling.pitch / cfg.axi_bytes for count in (share.rows, share.columns / tiles))
        bus = REQUEST_CYCLES + a + tiles * b + mm
        matrix = REQUEST_CYCLES + max(a + b, a / len(tiling.parts) + loads) + tiles * mm
        threads = REQUEST_CYCLES + a + b + tiles * (stores + _STREAM_STEP)
        return round(max(bus, matrix, threads) + stores + _RESULTS)

    @staticmethod
    def storing(cfg: Config, tiling: StreamTiling) -> int:
        """Cycles of the stores of a tile."""
        return storing_cycles(cfg, tiling.merge, tiling.columns)

    @classmethod
    def cuts(cls, cfg: Config, problem: MatmulProblem) -> Iterator[Self]:
        """One."""
        yield cls(cfg, problem, cls._tiling(cfg, problem))

    # -- arguments --------------------------------------------------------------------------

    def arguments(self, operands: Operands, share: Share) -> dict[str, int]:
        """Names and values of the uniform registers with which a core begins its share, with ``operands`` at these addresses."""
        t = self.tiling
        tiles = -(-share.columns // t.columns)
        first, last = min(t.columns, share.columns), share.columns - (tiles - 1) * t.columns
        values = self.result_arguments(operands, share, last) | {
            "b_blocks": t.pitch // BANK_BYTES, "b_columns": t.columns, "b_blocks_last": t.pitch // BANK_BYTES, "b_columns_last": last,
            "b_bytes": t.columns * t.pitch, "b_bytes_last": last * t.pitch, "columns": first, "columns_last": last,
            "columns_second": max(0, min(t.columns, share.columns - t.columns)),
            "a_to": t.a_stage, "a_to_pitch": t.ab_pitch, "a_from": operands.a + share.row * t.pitch, "a_pitch": t.pitch,
            "a_blocks": t.parts[0].nbytes // BANK_BYTES, "a_rows": share.rows, "a_bytes": share.rows * t.parts[0].nbytes,
            "a_bytes_last": share.rows * t.parts[-1].nbytes,
            "b_from": operands.b + share.column * t.pitch, "b_pitch": t.pitch,
            "b_left": tiles, "left": tiles - 1,
        }
        for slot, place in enumerate(t.slots):
            values |= {f"b_to_{slot}": place, f"b_to_pitch_{slot}": t.ab_pitch}
        for stage, place in enumerate(t.c_stages):
            values |= {f"c_from_{stage}": place, f"c_from_pitch_{stage}": t.c_pitch}
        return values

    def result_arguments(self, operands: Operands, share: Share, last: int) -> dict[str, int]:
        """Of ``arguments`` those of the copies of C; the last tile has ``last`` columns."""
        t = self.tiling
        blocks, blocks_last = (-(-4 * columns // BANK_BYTES) for columns in (t.columns, last))
        c_pitch = round_up(4 * t.n, BANK_BYTES)
        return {
            "c_blocks": blocks, "c_rows": share.rows, "c_blocks_last": blocks_last, "c_rows_last": share.rows,
            "c_bytes": share.rows * blocks * BANK_BYTES, "c_bytes_last": share.rows * blocks_last * BANK_BYTES,
            "c_to": operands.c + share.row * c_pitch + 4 * share.column, "c_pitch": c_pitch,
        }

    def launches(self, operands: Operands = None) -> list[Launch]:
        """One ``Launch``: the values of the uniform registers at the doorbell are those with which core 0 begins."""
        values = self.arguments(operands, self.tiling.shares[0])
        uniform = {_UNIFORM.index(name): value for name, value in values.items()}
        return [Launch(self.programs[0], uniform, self.problem.macs, self.problem.elements.nbytes)]

    # -- program ----------------------------------------------------------------------------

    def write(self) -> list[KernelText]:
        """See ``Kernel``."""
        t = self.tiling
        self.prologue()
        for slot in (*range(1, len(t.slots)), 0):
            self.step(slot)
        self.text("    bra step_1", "finish:", "    halt")
        return [self.text]

    def prologue(self) -> None:
        """What is there before the third tile: places of the lanes, A in its registers, the first two tiles under way."""
        t, text, merge, scratch = self.tiling, self.text, self.merge, self.scratch
        if self.cfg.cores > 1:
            begin_share(text, self.cfg.cores, [self.arguments(Operands(), share) for share in t.shares], _ADDRESSES, "finish")
        # Copies wait for the bus, places for the threads: they are asked for in turn, the first rows of A before anything else.
        places = iter(self.places())
        for copy, number in (*((self.copy_a, part) for part in range(len(t.parts))), (self.copy_b, 0)):
            copy(number)
            text(*itertools.islice(places, 4))
        text(*places, f"    segment.shared.b8.d1 ur0, {t.a_stage}", "    segment.shared.b8.d1 ur1, 0")
        self.first_tiles()
        self.write_result_offset()
        self.some_lanes_store = merge.write_result_lanes(text, 3, self.thread_number, scratch)
        text(*(f"    segment.shared.b8.d1 ur{2 + stage}, {place}" for stage, place in enumerate(t.c_stages)))
        self.next_tile()
        if len(t.slots) > 2:
            # The third tile is under way before the first is stored, or mm would wait for it.
            text("    @up1 bra store_1")
            self.next_tile()
            text("    @up1 bra two")
            self.last_columns("third")
            self.multiply_all(2)
            text("two:", "    usetp.ne up1, {left}, {left}")
            self.copy_c(0)
            text("    usetp.lt up1, {left}, 0")
        text(f"    bra store_{min(2, len(t.slots) - 1)}")

    def places(self) -> list[str]:
        """Instructions that tell each thread its row of A and its column of B."""
        t, merge, scratch = self.tiling, self.merge, self.scratch
        lines: list[str] = []

        def text(*more: str) -> None:
            lines.extend(more)

        text(f"    mov r{self.thread_number}, %tid")
        merge.write_row_offset(text, self.offset_a, self.thread_number, t.ab_pitch, scratch)
        merge.write_column(text, self.column, self.thread_number, scratch)
        write_scaled(text, self.offset_b, self.column, 1, t.ab_pitch, scratch)
        if self.guarded:
            text(f"    setp.lt p1, r{self.column}, {{columns}}")
        text(f"    setp.lt p4, r{self.column}, {{columns_second}}")
        if merge.tail(t.k):
            merge.write_tail_lanes(text, 2, self.thread_number, merge.tail(t.k), scratch)
        return lines

    def first_tiles(self) -> None:
        """Loads of A, the copies of B behind the first, and ``mm`` of the first two tiles, in the order of ``beginning``."""
        t, text, waited = self.tiling, self.text, set()

        def wait(barrier: int) -> None:
            if barrier not in waited:
                text(f"    barrier.wait b{barrier}")
                waited.add(barrier)

        for event, place, number in beginning(self.cfg, t):
            if event is Event.LOAD:
                wait(self.a_barrier(place))
                self.load_a(t.parts[place], number)
            elif event is Event.COPY:
                self.copy_b(place)
            else:
                wait(self.b_barrier(place))
                self.multiply(place, t.parts[number], "@p4 " if place else self.guard)

    def next_tile(self) -> None:
        """up1: there is none."""
        self.text("    usub {left}, {left}, 1", "    usetp.lt up1, {left}, 0")

    def step(self, slot: int) -> None:
        """``mm`` of a tile; the tile before is stored, and the columns that come in its place are asked for."""
        t, text = self.tiling, self.text
        before = (slot - 1) % len(t.slots)
        text(f"step_{slot}:")
        self.next_tile()
        text(f"    @up1 bra store_{slot}")
        self.last_columns(slot)
        self.multiply_all(slot)
        text(f"store_{slot}:")
        self.copy_c(before)
        text("    @up1 bra finish")

    def last_columns(self, name: int | str) -> None:
        """p1 for a tile with fewer columns, the last."""
        if self.tiling.ragged:
            self.text("    usetp.ne up2, {left}, 0", f"    @up2 bra multiply_{name}", f"    setp.lt p1, r{self.column}, {{columns_last}}",
                      f"multiply_{name}:")

    def multiply_all(self, slot: int) -> None:
        """``mm`` over all of k."""
        self.text(f"    barrier.wait b{self.b_barrier(slot)}")
        for part in self.tiling.parts:
            self.multiply(slot, part, self.guard)

    def multiply(self, slot: int, part: Part, guard: str) -> None:
        """``mm`` over a part of k of the columns in a slot."""
        t = self.tiling
        mm, order = self.multiplies
        self.text(f"    {guard}{mm}.k{part.length}{order}{'' if part.first else '.z'} r{slot * t.distance}, "
                  f"ur1:rf{self.offset_b}:{t.slots[slot] + part.first * self.merge.slice_bytes}, r{self.factor(part.word)}")

    def factor(self, word: int) -> int:
        """Number of the register that begins a factor word."""
        return FIRST_FACTOR_REGISTER + word * self.cfg.dot // 4

    @property
    def guarded(self) -> bool:
        """Not all lanes always fetch a column."""
        return self.tiling.ragged or self.tiling.columns < self.cfg.threads

    @property
    def guard(self) -> str:
        return "@p1 " if self.guarded else ""

    # -- copies -----------------------------------------------------------------------------

    def a_barrier(self, part: int) -> int:
        first = len(_C_STAGED) + len(self.tiling.slots)
        return min(first + part, BARRIERS - 1)

    @staticmethod
    def b_barrier(slot: int) -> int:
        return len(_C_STAGED) + slot

    def copy_a(self, part: int) -> None:
        """Rows of a part of A to shared memory."""
        t, text = self.tiling, self.text
        last = part and part == len(t.parts) - 1
        if part:
            text(f"    uadd {{a_to}}, {{a_to}}, {t.parts[0].nbytes}", f"    uadd {{a_from}}, {{a_from}}, {t.parts[0].nbytes}")
        if last:
            text(f"    umov {{a_blocks}}, {t.parts[part].nbytes // BANK_BYTES}")
        text(f"    copy_rows.shared.global {{a_to}}, {{a_from}}, {{a_blocks}}, b{self.a_barrier(part)}",
             f"    barrier.expect b{self.a_barrier(part)}, {{a_bytes{'_last' if last else ''}}}")

    def load_a(self, part: Part, index: int) -> None:
        """A load of a part of A from shared memory to the factor registers; zero where a lane has no word in the last slice."""
        t, merge = self.tiling, self.merge
        number, place, access = t.loads(part)[index]
        register, guard = self.factor(part.word) + number, ""
        if part is t.parts[-1] and index == len(t.loads(part)) - 1 and merge.tail(t.k):
            self.text(*(f"    mov r{register + word}, 0" for word in range(self.cfg.dot // 4)))
            guard = "@p2 "
        self.text(f"    {guard}ld.{access} r{register}, ur0:rf{self.offset_a}:{part.start + place}")

    def copy_b(self, slot: int) -> None:
        """The next columns of B to their slot, unless all have been asked for."""
        t, text, barrier = self.tiling, self.text, self.b_barrier(slot)
        done = text.label("b_copied")
        text("    usub {b_left}, {b_left}, 1", "    usetp.lt up2, {b_left}, 0", f"    @up2 bra {done}")
        if t.ragged:
            text("    usetp.eq up2, {b_left}, 0", f"    @up2 barrier.expect b{barrier}, {{b_bytes_last}}",
                 f"    @up2 copy_rows.shared.global {{b_to_{slot}}}, {{b_from}}, {{b_blocks_last}}, b{barrier}", f"    @up2 bra {done}")
        text(f"    barrier.expect b{barrier}, {{b_bytes}}",
             f"    copy_rows.shared.global {{b_to_{slot}}}, {{b_from}}, {{b_blocks}}, b{barrier}",
             f"    uadd {{b_from}}, {{b_from}}, {t.columns * t.pitch}", f"{done}:")

    def copy_c(self, slot: int) -> None:
        """Store the tile of a slot: registers to a staging area, from there to the rows of C. The first store waits for the ``mm`` of the
        tile: then its slot is free."""
        t, text, stage = self.tiling, self.text, slot % 2
        text(f"    barrier.wait b{_C_STAGED[stage]}")
        guard = "@p3 " if self.some_lanes_store else ""
        for index, (access, place, register) in enumerate(self.result_stores()):
            text(f"    {guard}st.{access} ur{2 + stage}:rf{self.offset_c}:{place}, r{slot * t.distance + register}")
            if index == 0:
                self.copy_b(slot)
        cases = [("@up1 ", "_last"), ("@!up1 ", "")] if t.ragged else [("", "")]
        text(*(f"    {case}barrier.expect b{_C_STAGED[stage]}, {{c_bytes{which}}}" for case, which in cases), "    wait.thread",
             *(f"    {case}copy_rows.global.shared {{c_to}}, {{c_from_{stage}}}, {{c_blocks{which}}}, b{_C_STAGED[stage]}"
               for case, which in cases),
             f"    uadd {{c_to}}, {{c_to}}, {self.result_step}")

    def write_result_offset(self) -> None:
        """Tell each thread its place in a staged tile."""
        self.merge.write_result_offset(self.text, self.offset_c, self.thread_number, self.tiling.c_pitch, self.scratch)

    def result_stores(self) -> list[tuple[str, int, int]]:
        """Access, byte behind the thread's place and first register of each store of a tile."""
        access = {4: "v4", 2: "v2", 1: "b32"}[self.merge.vector]
        return [(access, 4 * column, register) for register, column in self.merge.stores(self.tiling.columns)]

    @property
    def result_step(self) -> int:
        """Bytes from one tile to the next in C."""
        return 4 * self.tiling.columns
