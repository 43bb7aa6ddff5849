"""Convolution as an implicit matrix product [S1.16]: the TMAU makes the matrix while it loads.

Rows of the product are pixels of the result, columns its channels; the sum runs over channels of the input and positions of the filter. A
tile is ``threads`` rows by ``threads`` columns in product registers. One step of it is one position of the filter and a piece of the
channels. A copy in im2col mode brings the input pixels that the tile's pixels meet at that position, a copy in tile mode the weights.
Thread t loads its row of the former into factor registers, and ``mm`` multiplies them with the latter. Padding, the last
pixels, channels and outputs need no code. What lies outside a tensor is filled with zeros on its way in and left out on its way out.

With fewer pixels than threads and outputs, thread t has a filter instead, and ``mm`` takes the pixels, which are fewer steps. The result
is then the transpose: rows are outputs, columns pixels.

With ``requantise`` lanes have filters as well, each with its bias and multiplier in the output stage. Four pixels of each lane become the
bytes of a word, which are stored as rows of pixels. So the result is not transposed. Which filter a lane has, and where it stores, is in a
table, with the biases and multipliers behind it.

Four slots of shared memory hold the operands of a step each. While ``mm`` works on step i, the threads load the rows of step i + 1 into
the other half of the factor registers. The copies of the next two steps are under way. That load waits for ``mm`` of step i - 1,
whose slot is then free for the copies of step i + 3. A finished tile goes to one of two staging areas. From there it goes to
the result, while ``mm`` works on the next one. Rows of slots and staging areas that would meet in a bank are swizzled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import numpy as np
from heddle.config import Config
from heddle.constants import BANK_BYTES, FIRST_FACTOR_REGISTER, PRODUCT_REGISTERS
from heddle.errors import UsageError

from ..compiled.layout import ImageLayout
from ..isa.features import lacking
from .measured_kernel import REGISTER_BYTES, Footprint, MeasuredKernel
from .parts.fitting import Region, Unfit, check_factors, check_regions
from .parts.launch import Launch
from .parts.merges import write_scaled
from .parts.output_tile import OutputTile
from .parts.register_groups import half_words
from .parts.shares import Share, begin_share, share_out
from .parts.text import KernelText
from .parts.tiling import MAX_SLICES, full_part, round_up
from .problem import ConvolutionProblem, Operands

__all__ = ["ConvolutionKernel"]

_SLOTS = 4
_COPIED, _STAGED, _TABLE = (0, 1, 2, 3), (4, 5), 6      # barriers of the slots, of the staging areas, of the table
_MAX_BOX = 256                              # elements of a box along an axis
_SWIZZLES = {16: "none", 32: "32B", 64: "64B", 128: "128B"}
_ROW_BYTES = 128                            # of a box with a swizzle, at most

# Cycles of the cost model, as measured on ``base``.
_STEP = 75                  # instructions of a step
_STORE, _QUAD = 60, 27      # of a tile's stores, as far as its steps do not hide them, and of each four of its columns
_TILE = 10                  # between two tiles
_WORD, _BYTES_TILE, _BUS = 36, 60, 1.35     # with requantise: of each four pixels, between two tiles, of each beat
_BEGIN = 500                # until the first step has its operands, and after the last one


class ConvolutionKernel(MeasuredKernel):
    """Implicit matrix product (im2col) of a ``ConvolutionProblem``.

    The program is a ring of four blocks, one for each slot. What happens once a tile or once a row of the filter stands behind them. It
    returns to the block that uniform register ``block`` or ``back`` names. Uniform predicates: up0 tile parity; up2 scratch; up3 a tile
    waits to be stored; up4 nothing is left but that; up5 first step of a tile; up6 last piece of the channels. Thread predicates: p1
    columns of the tile, p2 none. Segments: ur0 slots, ur1 staging areas, with their swizzles.

    ``output``: tile of bytes, None without ``requantise``. ``lanes_are_filters``: thread t has a filter, not a pixel. ``result``: rows and
    columns of the result in memory, pixels and outputs; outputs and pixels where ``transposed``. ``stage_count``: staging areas, 2 or 1.
    ``most_blocks``: 16-byte blocks of channels in a row of a slot, at most.
    Raises ``ValueError`` where the configuration lacks a feature, ``Unfit`` where the slots do not fit shared memory.
    """

    def __init__(self, cfg: Config, problem: ConvolutionProblem, stage_count: int = 2, most_blocks: int = _MAX_BOX) -> None:
        super().__init__(cfg, problem)
        shape = problem.shape
        strided = ["tensor_strides"] if any(stride > 1 for stride in shape.stride) else []
        for parameter in ("tensors", "tensor_im2col", *strided, "copy_swizzles"):
            if not getattr(cfg, parameter):
                raise UsageError(f"configuration {cfg.name} must have {parameter} for a convolution ({lacking(cfg, parameter)})")
        if problem.elements.nbytes == 2 and not cfg.mm16:
            raise UsageError(f"configuration {cfg.name} must have mm16 for a convolution of 16 bits ({lacking(cfg, 'mm16')})")
        self.shape, threads = shape, cfg.threads
        self.output = None if problem.requantise is None else OutputTile(
            cfg, shape, ImageLayout.of("NHWC", shape.spatial), shape.outputs, True, problem.requantise)
        self.transposed = self.output is None and shape.pixels < min(threads, shape.outputs)
        self.lanes_are_filters = self.transposed or self.output is not None
        self.result = (shape.outputs, shape.pixels) if self.transposed else (shape.pixels, shape.outputs)
        elements = problem.elements.exchanged if self.lanes_are_filters else problem.elements
        self.mm = f"mm{8 * elements.nbytes}{elements.signs}"
        # Bytes of a row of a staged part of a tile.
        self.result_row = min(4 * threads, _ROW_BYTES) if self.output is None else self.output.stage_pitch
        self.parts = 1 if self.output else 4 * threads // self.result_row
        self.stage_bytes = round_up(threads * self.result_row, 1024) * self.parts
        # Two words of each lane, then bias and multiplier of each lane for each tile of filters.
        self.table_bytes = 8 * (threads + round_up(shape.outputs, threads)) if self.output else 0
        in_factors = half_words(cfg) * cfg.dot
        in_shared = (cfg.shared_bytes - stage_count * self.stage_bytes - self.table_bytes - 2048) // (2 * _SLOTS * threads)
        limit = min(_MAX_BOX, in_factors, in_shared) // BANK_BYTES
        if limit < 1:
            raise Unfit("shared_memory_kib")
        blocks, used = shape.row_blocks(min(limit, most_blocks))
        self.row_bytes, self.used_bytes = blocks * BANK_BYTES, used * BANK_BYTES
        self.pieces = -(-shape.channels // self.used_bytes)
        self.half_bytes = round_up(threads * self.row_bytes, 128)       # of one operand in a slot
        stage = round_up(_SLOTS * 2 * self.half_bytes, 1024)        # where the swizzle begins anew
        self.stage_count = stage_count
        self.stages = tuple(stage + index % stage_count * self.stage_bytes for index in range(2))
        self.table = stage + stage_count * self.stage_bytes
        check_factors(cfg, self.used_bytes // cfg.dot)
        check_regions(cfg, [*(Region(f"{name} of slot {slot}", place(slot), self.half_bytes) for slot in range(_SLOTS)
                              for name, place in (("rows", self.a_place), ("columns", self.b_place))),
                            *(Region(f"stage {index}", self.stages[index], self.stage_bytes) for index in range(stage_count)),
                            *[Region("table", self.table, self.table_bytes)] * (self.output is not None)])
        self.swizzle = _SWIZZLES.get(self.row_bytes, "none")
        self.result_swizzle = _SWIZZLES.get(self.result_row, "none") if self.output is None else "none"
        self.tile_pixels = min(threads, shape.pixels) if self.lanes_are_filters else threads
        self.dtype = np.dtype(np.int32) if self.output is None else self.output.dtype
        self.result_columns = self.result_row // self.dtype.itemsize        # of a staged part
        self.maps = shape.maps(self.tile_pixels, self.row_bytes, threads, (self.result, self.dtype), (threads, self.result_columns),
                               (self.swizzle, self.result_swizzle))
        self.shares = share_out(cfg.cores, shape.pixels, shape.outputs, threads)
        self.column_blocks = max(-(-share.columns // threads) for share in self.shares)
        self.ragged = shape.pixels < threads if self.lanes_are_filters else shape.outputs % threads != 0
        self.steps = self.pieces * shape.positions
        self.tid, self.offset_a, self.result_place, self.scratch = (2 * threads + index for index in range(4))
        self.offset_b = cfg.registers - 1
        # With ``output``: a register that is 0, places of the lanes in the table, a pair of bias and multiplier, words of four bytes.
        self.zero, self.word_place = 2 * threads + 4, 2 * threads + 5
        self.pair, self.packed = 2 * threads + 6, 2 * threads + 8
        self.text = KernelText(self._names())

    def _names(self) -> list[str]:
        spatial = self.shape.spatial
        return ["x", "w", "y", *(f"x{d}" for d in range(spatial + 2)), *(f"o{d}" for d in range(spatial)),
                *(f"w{d}" for d in range(spatial + 2)), *(f"a_{slot}" for slot in range(_SLOTS)), *(f"b_{slot}" for slot in range(_SLOTS)),
                "y0", "y1", "prev0", "prev1", "left", "tiles", "steps", "tile", "first_column", "end_column", "columns", "from", "core",
                "block", "back", *["table"] * (self.output is not None)]

    @classmethod
    def estimate(cls, cfg: Config, problem: ConvolutionProblem) -> int:
        """Cycles of the busiest core, roughly: for each tile the longest of ``mm``, copies on the bus and instructions."""
        kernel, threads = next(cls.cuts(cfg, problem)), cfg.threads
        tiles = max(-(-share.rows // threads) * -(-share.columns // threads) for share in kernel.shares)
        quad, between = (_QUAD, _TILE) if kernel.output is None else (_WORD, _BYTES_TILE)
        store = _STORE + quad * kernel.stored_quads
        mm = problem.elements.nbytes * kernel.tile_pixels * -(-kernel.used_bytes // cfg.dot)
        bus = int((kernel.tile_pixels + threads) * kernel.row_bytes // cfg.axi_bytes * (1 if kernel.output is None else _BUS))
        return _BEGIN + tiles * (max(kernel.steps * max(mm, bus), kernel.steps * _STEP + store) + between)

    @classmethod
    def cuts(cls, cfg: Config, problem: ConvolutionProblem) -> Iterator[Self]:
        """Those with two staging areas, if there is room; of them those with shorter and shorter rows."""
        try:
            kernel = cls(cfg, problem)
        except Unfit:
            kernel = cls(cfg, problem, 1)
        while True:
            yield kernel
            blocks = kernel.row_bytes // BANK_BYTES
            if blocks == 1:
                return
            kernel = cls(cfg, problem, kernel.stage_count, blocks // 2)

    @property
    def footprint(self) -> Footprint:
        """See ``MeasuredKernel``."""
        factors = self.cfg.threads * (2 * self.used_bytes + REGISTER_BYTES)
        return Footprint(self.table + self.table_bytes, factors, 0)

    @property
    def lane_bound(self) -> float:
        """See ``MeasuredKernel``."""
        lanes = self.shape.outputs if self.lanes_are_filters else self.shape.pixels
        return full_part(lanes, self.cfg.threads) * full_part(self.shape.channels, self.cfg.dot)

    @property
    def stored_quads(self) -> int:
        """Product registers of a tile that are stored, in fours."""
        return -(-min(self.cfg.threads, self.shape.pixels if self.lanes_are_filters else self.shape.outputs) // 4)

    def a_place(self, slot: int) -> int:
        """Shared address of what the lanes load from a slot; what ``mm`` multiplies it with lies behind it."""
        return 2 * self.half_bytes * slot

    def b_place(self, slot: int) -> int:
        return self.a_place(slot) + self.half_bytes

    # -- copies -----------------------------------------------------------------------------

    def copy_operands(self, slot: int, number: int) -> None:
        """Bring the operands of the next step, if there is one, into a slot; ``number`` of this place in the program."""
        text, rank, count = self.text, self.shape.spatial + 2, self.shape.filter[-1]
        pixels, weights = "ba" if self.lanes_are_filters else "ab"
        text("    usetp.le up2, {left}, 0", f"    @up2 bra copied_{number}", "    usub {left}, {left}, 1",
             f"    barrier.expect b{_COPIED[slot]}, {self.maps[0].bytes + self.maps[1].bytes}",
             f"    copy_tensor.im2col.{rank}d.shared.global {{{pixels}_{slot}}}, {{x}}, {{x0}}, {{o0}}, b{_COPIED[slot]}",
             f"    copy_tensor.tile.{rank}d.shared.global {{{weights}_{slot}}}, {{w}}, {{w0}}, b{_COPIED[slot]}",
             f"    umov {{back}}, {number}")
        if count > 1:
            text(f"    uadd {{o0}}, {{o0}}, {self.shape.dilation[-1]}", "    uadd {w1}, {w1}, 1", f"    usetp.ge up2, {{w1}}, {count}",
                 "    @up2 bra next_row")
        else:
            text("    bra next_row")
        text(f"copied_{number}:")

    def next_row(self) -> None:
        """The copies move on: over the filter, then the pieces of the channels, the columns, and the pixels."""
        text, shape, done = self.text, self.shape, "row_begun"
        text("next_row:", "    umov {o0}, 0", "    umov {w1}, 0")
        for d, (count, dilation) in enumerate(zip(reversed(shape.filter[:-1]), reversed(shape.dilation[:-1])), 1):
            if count > 1:
                text(f"    uadd {{o{d}}}, {{o{d}}}, {dilation}", f"    uadd {{w{1 + d}}}, {{w{1 + d}}}, 1",
                     f"    usetp.lt up2, {{w{1 + d}}}, {count}", f"    @up2 bra {done}",
                     f"    umov {{o{d}}}, 0", f"    umov {{w{1 + d}}}, 0")
        if self.pieces > 1:
            text(f"    uadd {{x0}}, {{x0}}, {self.used_bytes}", "    umov {w0}, {x0}", f"    usetp.lt up2, {{x0}}, {shape.channels}",
                 f"    @up2 bra {done}", "    umov {x0}, 0", "    umov {w0}, 0")
        if self.column_blocks > 1:
            outputs = f"{{w{shape.spatial + 1}}}"
            text(f"    uadd {outputs}, {outputs}, {self.cfg.threads}", f"    usetp.lt up2, {outputs}, {{end_column}}",
                 f"    @up2 bra {done}", f"    umov {outputs}, {{first_column}}")
        self._next_pixels()
        text(f"{done}:")
        self._return("back", "copied", 2 * _SLOTS - 1)

    def _next_pixels(self) -> None:
        """``threads`` pixels of the result further: a number whose digits count columns, rows, planes and images."""
        text, shape, rest = self.text, self.shape, self.cfg.threads
        axes = zip(reversed(shape.result), reversed(shape.stride), reversed(shape.lower_corner))
        for d, (count, stride, lower) in enumerate(axes, 1):
            rest, digit = divmod(rest, count)
            if digit:
                text(f"    uadd {{x{d}}}, {{x{d}}}, {digit * stride}")
            text(f"    usetp.ge up2, {{x{d}}}, {lower + count * stride}", f"    @up2 usub {{x{d}}}, {{x{d}}}, {count * stride}",
                 f"    @up2 uadd {{x{d + 1}}}, {{x{d + 1}}}, {shape.stride[-1 - d] if d < shape.spatial else 1}")
        if rest:
            text(f"    uadd {{x{shape.spatial + 1}}}, {{x{shape.spatial + 1}}}, {rest}")

    def _return(self, register: str, label: str, count: int) -> None:
        """Go on at the label whose number a uniform register holds."""
        for number in range(count - 1):
            self.text(f"    usetp.eq up2, {{{register}}}, {number}", f"    @up2 bra {label}_{number}")
        self.text(f"    bra {label}_{count - 1}")

    # -- registers --------------------------------------------------------------------------

    def _factors(self, slot: int) -> int:
        """First factor register of the half that a slot uses."""
        return FIRST_FACTOR_REGISTER + slot % 2 * self.cfg.factor_registers // 2

    def load_rows(self, slot: int) -> None:
        """Thread t loads its row of a slot, when that has come."""
        self.text(f"    barrier.wait b{_COPIED[slot]}",
                  *(f"    ld.v4 r{self._factors(slot) + 4 * block}, ur0:r{self.offset_a}:{self.a_place(slot) + BANK_BYTES * block}"
                    for block in range(self.used_bytes // BANK_BYTES)))

    def multiply(self, slot: int, tile: bool, first: bool, last: bool = True) -> None:
        """mm over the channels of a piece; ``last`` may have fewer.

        Consecutive ``mm`` on the same product registers share an entry of the scoreboard until the last of them is done. One without
        columns on other registers stands between two steps. So the half of the first is free for loads while the second is under way.
        """
        channels = self.shape.channels - (self.pieces - 1) * self.used_bytes if last else self.used_bytes
        slices, dot = -(-channels // self.cfg.dot), self.cfg.dot
        for index in range(0, slices, MAX_SLICES):
            zero = ".z" if first and index == 0 else ""
            self.text(f"    {'@p1 ' if self.ragged else ''}{self.mm}.k{min(MAX_SLICES, slices - index)}{zero} "
                      f"r{tile * self.cfg.threads}, ur0:rf{self.offset_b}:{self.b_place(slot) + index * dot}, "
                      f"r{self._factors(slot) + index * dot // 4}")
        self.text(f"    @p2 {self.mm}.k1 r{PRODUCT_REGISTERS - self.cfg.threads}, ur0:rf{self.offset_b}:0, r{self._factors(slot)}")

    def store(self, tile: bool) -> None:
        """A finished tile: registers to its staging area, from there to the result."""
        text, blocks, part_bytes = self.text, self.result_row // BANK_BYTES, self.cfg.threads * self.result_row
        staged, parts = _STAGED[tile % self.stage_count], 1
        text(f"    barrier.wait b{staged}")
        if self.output is None:
            for quad in range(self.stored_quads):
                part, block = divmod(quad, blocks)
                text(f"    st.v4 ur1:r{self.result_place}:{self.stages[tile] + part * part_bytes + BANK_BYTES * block}, "
                     f"r{tile * self.cfg.threads + 4 * quad}")
            parts = -(-self.stored_quads // blocks)
        else:
            text("    ushl {from}, {prev0}, 3", f"    add r{self.scratch}, r{self.word_place}, {{from}}",
                 f"    ld.v2 r{self.pair}, ur1:r{self.scratch}:{self.table + 8 * self.cfg.threads}",
                 *self.output.set_channels(self.pair, self.zero),
                 *self.output.stores(4 * self.stored_quads, tile * self.cfg.threads, f"ur1:r{self.result_place}", self.stages[tile],
                                     self.pair, self.packed))
        text("    wait.thread", f"    umov {{from}}, {self.stages[tile]}")
        for part in range(parts):
            if part:
                text(f"    uadd {{from}}, {{from}}, {part_bytes}", f"    uadd {{prev0}}, {{prev0}}, {self.result_columns}")
            text(f"    barrier.expect b{staged}, {self.maps[2].bytes}",
                 f"    copy_tensor.tile.2d.global.shared {{from}}, {{y}}, {{prev0}}, b{staged}")

    # -- program ----------------------------------------------------------------------------

    def arguments(self, share: Share) -> dict[str, int]:
        """Names and values of the uniform registers with which a core begins its share."""
        shape, threads = self.shape, self.cfg.threads
        tiles = -(-share.rows // threads) * -(-share.columns // threads)
        values = {"x0": 0, "w0": 0, "left": tiles * self.steps, "tiles": tiles, "steps": self.steps, "tile": 0,
                  "y0": share.column, "y1": share.row, "first_column": share.column, "end_column": share.column + share.columns,
                  f"w{shape.spatial + 1}": share.column}
        values |= {f"a_{slot}": self.a_place(slot) for slot in range(_SLOTS)} | {f"b_{slot}": self.b_place(slot) for slot in range(_SLOTS)}
        pixel = share.row
        for d, (count, stride, lower) in enumerate(zip(reversed(shape.result), reversed(shape.stride), reversed(shape.lower_corner))):
            pixel, place = divmod(pixel, count)
            values |= {f"x{1 + d}": (lower + place * stride) & 0xFFFF_FFFF, f"o{d}": 0, f"w{1 + d}": 0}
        return values | {f"x{shape.spatial + 1}": pixel}

    def launches(self, operands: Operands = None) -> list[Launch]:
        """One ``Launch``; ``operands``: addresses of the descriptors of x, w and y, and of the ``parameters``."""
        values = self.arguments(self.shares[0]) | {"x": operands.a, "w": operands.b, "y": operands.c}
        if self.output is not None:
            values["table"] = operands.table
        names = self._names()
        return [Launch(self.programs[0], {names.index(name): value for name, value in values.items()},
                       self.problem.macs, self.problem.elements.nbytes)]

    def parameters(self, bias: np.ndarray) -> bytes:
        """Of a kernel with ``output``: the table. ``bias``: int64 (outputs,)."""
        assert self.output is not None, "only results of 8 bits have parameters"
        lanes = np.stack([self.output.places(), self.output.filter_of_lane * self.row_bytes], axis=1)
        return lanes.astype("<u4").tobytes() + self.output.channels(bias).astype("<i4").tobytes()

    def prologue(self) -> None:
        text = self.text
        if self.cfg.cores > 1:
            begin_share(text, self.cfg.cores, [self.arguments(share) for share in self.shares], (), "finish")
        text(*(f"    invalidate_descriptor {{{name}}}" for name in "xwy"))        # the program before may have used these addresses
        if self.output is not None:
            text(f"    umov {{from}}, {self.table}", f"    barrier.expect b{_TABLE}, {self.table_bytes}",
                 f"    copy_block.shared.global {{from}}, {{table}}, {self.table_bytes // BANK_BYTES}, b{_TABLE}")
        for slot in range(_SLOTS - 1):
            self.copy_operands(slot, _SLOTS + slot)
        text(f"    mov r{self.tid}, %tid")
        write_scaled(text, self.offset_a, self.tid, 1, self.row_bytes, self.scratch)
        text(f"    mov r{self.offset_b}, r{self.offset_a}")
        if self.output is None:
            text(f"    shl r{self.result_place}, r{self.tid}, {self.result_row.bit_length() - 1}")
        for number, swizzle in enumerate((self.swizzle, self.result_swizzle)):
            text(f"    segment.shared.b8.d1{'' if swizzle == 'none' else f'.{swizzle}'} ur{number}, 0")
        if self.output is not None:
            text(f"    mov r{self.zero}, 0", f"    shl r{self.word_place}, r{self.tid}, 3", f"    barrier.wait b{_TABLE}",
                 f"    ld.v2 r{self.pair}, ur1:r{self.word_place}:{self.table}", f"    mov r{self.result_place}, r{self.pair}",
                 f"    mov r{self.offset_a}, r{self.pair + 1}")
        self._choose_columns()
        text("    usetp.eq up5, {tile}, {tile}")
        self._choose_piece()
        self.load_rows(0)

    def _choose_columns(self) -> None:
        if self.lanes_are_filters and self.ragged:
            self.text(f"    setp.lt p1, r{self.tid}, {self.shape.pixels}")
        elif self.ragged:
            self.text("    usub {columns}, {end_column}, {y0}", f"    setp.lt p1, r{self.tid}, {{columns}}")

    def _choose_piece(self) -> None:
        if self.pieces > 1:
            self.text(f"    usetp.le up6, {{steps}}, {self.shape.positions}")

    def block(self, slot: int) -> None:
        """A step with the operands of a slot: one position of the filter and one piece of the channels. Behind the first step of a tile the
        tile before is stored."""
        text, last = self.text, _SLOTS - 1
        text(f"step_{slot}:")
        text.select(("up0", "up5") + (("up6",) if self.pieces > 1 else ()), lambda *chosen: self.multiply(slot, *chosen))
        text(f"    umov {{block}}, {slot}", "    @up3 bra store", f"stored_{slot}:", "    usetp.ne up5, {tile}, {tile}",
             "    usub {steps}, {steps}, 1", "    usetp.le up2, {steps}, 0", "    @up2 bra next_tile", f"moved_{slot}:")
        self._choose_piece()
        self.load_rows((slot + 1) % _SLOTS)
        self.copy_operands((slot + last) % _SLOTS, slot)
        if slot == last:
            text("    bra step_0")

    def next_tile(self) -> None:
        text, threads = self.text, self.cfg.threads
        column, row = ("y1", "y0") if self.transposed else ("y0", "y1")
        text("next_tile:", f"    umov {{steps}}, {self.steps}", f"    umov {{prev0}}, {{{column}}}", f"    umov {{prev1}}, {{{row}}}",
             "    usetp.eq up3, {tile}, {tile}", "    usetp.eq up5, {tile}, {tile}", "    uxor {tile}, {tile}, 1",
             "    usetp.ne up0, {tile}, 0", "    usub {tiles}, {tiles}, 1", "    usetp.le up4, {tiles}, 0", "    @up4 bra store")
        if self.column_blocks > 1:
            text(f"    uadd {{y0}}, {{y0}}, {threads}", "    usetp.lt up2, {y0}, {end_column}", "    @up2 bra same_pixels")
        text("    umov {y0}, {first_column}", f"    uadd {{y1}}, {{y1}}, {threads}", "same_pixels:")
        if not self.lanes_are_filters:
            self._choose_columns()
        self._return("block", "moved", _SLOTS)
        text("store:")
        text.select(("up0",), lambda tile: self.store(not tile))
        text("    usetp.ne up3, {tile}, {tile}", "    @up4 bra finish")
        self._return("block", "stored", _SLOTS)

    def write(self) -> list[KernelText]:
        """See ``Kernel``."""
        self.prologue()
        for slot in range(_SLOTS):
            self.block(slot)
        self.next_row()
        self.next_tile()
        self.text("finish:", "    halt")
        return [self.text]
