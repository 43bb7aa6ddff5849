"""Convolution of images in planes by gathered windows [S2.3]: for layouts where neighbouring threads read neighbouring bytes.

Lanes are pixels. Each thread gathers the bytes of its window into its factor registers, by its base and the list of offsets that all
threads share. ``mm`` multiplies them by the filters, which are columns of B in shared memory. Sums go plane by plane through one of two
staging areas to the result.

Lane j of group g has pixel q j + g of the tile, q being the number of groups, up to four: neighbouring lanes then store to different banks.

Loops, from outside: tiles of ``threads`` pixels, tiles of as many filters. While ``mm`` works on a tile, the threads store the sums of an
earlier tile of filters: the last one, or with four sets of product registers the one before. They also gather the next pixels into the
other half of the factor registers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np
from heddle.config import Config
from heddle.constants import BANK_BYTES, FIRST_FACTOR_REGISTER, PRODUCT_REGISTERS, ROW_BYTES
from heddle.errors import UsageError
from heddle.isa.compiled_offsets import GATHERED_BYTES

from ..compiled.geometry import Geometry
from ..compiled.hardware import base_words, check_masks, entry_words
from ..compiled.layout import ImageLayout, ImageStrides
from ..compiled.representation import Representation, compile_convolution
from .measured_kernel import REGISTER_BYTES, Footprint, MeasuredKernel
from .parts.fitting import Unfit
from .parts.launch import Launch
from .parts.offset_window import ENTRY_BYTES, offset_lines
from .parts.register_groups import GROUP_REGISTERS, half_words, words_per_group
from .parts.text import KernelText
from .parts.tiling import MAX_SLICES, full_part, round_up
from .problem import Elements, Operands, Problem

__all__ = ["GatheredConvolutionKernel", "GatheredConvolutionProblem"]

_IMAGE, _FILTERS = 0, 1                     # barriers
_LOCAL, _B, _ELEMENTS = 0, 1, 2             # segments: shared memory, a tile of filters, the image
_SET = GROUP_REGISTERS  # product registers from one set of sums to the next, at least
_WORK = 8                                   # product registers for other uses
_FIRST_STORES = 4                           # of a tile, in front of the copy of the tile before: the thread unit does not run dry
_BANK_WORDS = BANK_BYTES // 4
# Cycles of the cycle model: to the first ``mm``, and of an entry of the list; between two ``mm``; between the stores of two tiles; least of
# a tile.
_START, _ENTRY, _STEPS, _STORES, _ISSUE = 1300, 4, 45, 12, 100


@dataclass(frozen=True)
class GatheredConvolutionProblem(Problem):
    """Convolution of one image of ``layout``, of one group: y int32 of x and w, integers of 8 bits."""

    geometry: Geometry
    layout: ImageLayout
    elements: Elements = Elements()

    @property
    def name(self) -> str:
        return "a gathered convolution"


class GatheredConvolutionKernel(MeasuredKernel):
    """Gathers and ``mm`` for a ``GatheredConvolutionProblem``.

    Operands: ``a`` the ``image_data``, ``b`` the ``filter_data``, ``c`` the planes of the result, ``plane_pitch`` bytes apart, one for each
    of ``filter_tiles`` x ``threads`` filters. Uniform predicates: up0, up3 number of the set of product registers, up1 half of the factor
    registers, up2 scratch, up4 the last sums are stored.
    """

    def __init__(self, cfg: Config, problem: GatheredConvolutionProblem) -> None:
        super().__init__(cfg, problem)
        self._check(cfg, problem)
        shape, threads = problem.geometry, cfg.threads
        self.elements = shape.group_channels * shape.positions
        self.steps = -(-self.elements // cfg.dot)
        self.row_bytes = self.steps * cfg.dot                       # of a filter
        self.pixels = prod(shape.result)
        self.tiles, self.filter_tiles = -(-self.pixels // threads), -(-shape.outputs // threads)
        self.plane_pitch = 4 * threads * self.tiles
        whole = BANK_BYTES // cfg.dot       # words of four registers: a half begins where a gather may write
        self.half_words = half_words(cfg) // whole * whole
        if self.steps > self.half_words:
            raise UsageError(f"factor_words must be at least {2 * self.steps + 2 * words_per_group(cfg)} for {self.elements} elements of a "
                             f"filter with method \"gather\", not {cfg.factor_words}")
        self.places = FIRST_FACTOR_REGISTER + cfg.factor_words * cfg.numbers_per_word - 1       # register of the places of the columns
        self.set = max(_SET, threads)
        self.sets = 4 if 4 * self.set + _WORK <= PRODUCT_REGISTERS else 2
        self.behind = self.sets // 2        # tiles of filters from ``mm`` to the stores
        self.slots = threads // cfg.thread_groups
        self.near = next(count for count in (4, 2, 1) if cfg.thread_groups % count == 0)        # q: words of a bank between two lanes
        self._place()

    @staticmethod
    def _check(cfg: Config, problem: GatheredConvolutionProblem) -> None:
        """Raises ``ValueError`` for what the method cannot do."""
        shape, layout = problem.geometry, problem.layout
        rules = ((cfg.gather_offsets, f"configuration {cfg.name} must have gather_offsets"),
                 (cfg.tensors, f"configuration {cfg.name} must have tensors"),
                 (cfg.cores == 1, f"cores must be 1, not {cfg.cores},"), (shape.group == 1, f"group must be 1, not {shape.group},"),
                 (layout.vector == 1 and layout.name.startswith("NC"), f"layout must be one of planes, as NCHW, not {layout.name},"),
                 (shape.group_channels * shape.positions <= cfg.compiled_offsets,
                  f"compiled_offsets must be at least {shape.group_channels * shape.positions}, not {cfg.compiled_offsets},"))
        for holds, rule in rules:
            if not holds:
                raise UsageError(f"{rule} for method \"gather\"")
        check_masks(shape)

    def _place(self) -> None:
        """Shared memory: padding, entries, bases and the image, as they lie in global memory; filters; two staging areas."""
        cfg, shape = self.cfg, self.problem.geometry
        self.fills = -(-4 * self.elements // cfg.dot)
        self.table = ROW_BYTES                                                  # behind the padding
        self.bases = self.table + round_up(self.fills * cfg.dot, BANK_BYTES)
        self.x = self.bases + 4 * cfg.threads * self.tiles
        self.x_pitch = round_up(prod(shape.size), BANK_BYTES)
        self.image_bytes = self.x + self.x_pitch * shape.channels
        self.b = round_up(self.image_bytes, ROW_BYTES)
        self.filter_bytes = self.row_bytes * cfg.threads * self.filter_tiles
        self.stages = tuple(round_up(self.b + self.filter_bytes, ROW_BYTES) + number * 4 * cfg.threads ** 2 for number in range(2))
        self.shared_end = self.stages[1] + 4 * cfg.threads ** 2
        if self.shared_end > cfg.shared_bytes:
            raise Unfit("shared_memory_kib")

    @classmethod
    def estimate(cls, cfg: Config, problem: GatheredConvolutionProblem) -> int:
        """Cycles, roughly: the longest of ``mm``, the threads, and the stores on the bus."""
        kernel = cls(cfg, problem)
        groups, threads = cfg.thread_groups, cfg.threads
        gathers = kernel.elements * groups + 2 * -(-kernel.elements // GATHERED_BYTES) + groups + 2
        stores = threads * max(2 * groups, groups * _BANK_WORDS // kernel.near, 3)
        tile = max(kernel.filter_tiles * max(kernel.steps * threads + _STEPS, _ISSUE),
                   kernel.filter_tiles * (stores + _STORES) + gathers, kernel.filter_tiles * 4 * threads ** 2 // cfg.axi_bytes)
        start = (kernel.image_bytes + kernel.row_bytes * threads) // cfg.axi_bytes + gathers + _START + _ENTRY * kernel.elements
        return start + kernel.tiles * tile + kernel.behind * stores

    @property
    def footprint(self) -> Footprint:
        """See ``MeasuredKernel``."""
        return Footprint(self.shared_end, self.cfg.threads * (2 * self.row_bytes + REGISTER_BYTES), ENTRY_BYTES * self.elements)

    @property
    def lane_bound(self) -> float:
        """See ``MeasuredKernel``; lanes are pixels."""
        threads, outputs = self.cfg.threads, self.problem.geometry.outputs
        return full_part(self.pixels, threads) * full_part(self.elements, self.cfg.dot) * full_part(outputs, threads)

    @cached_property
    def representation(self) -> Representation:
        """Addresses relative to the image in shared memory."""
        shape = self.problem.geometry
        axes = tuple(prod(shape.size[axis + 1:]) for axis in range(shape.spatial))
        return compile_convolution(replace(shape, images=1), self.problem.layout, np.int8, "natural",
                                   ImageStrides(0, self.x_pitch, 0, axes, 1), self.cfg.threads)

    # -- operands ---------------------------------------------------------------------------

    def image_data(self, x: np.ndarray) -> np.ndarray:
        """Padding, entries, bases and the planes of an image (channels, size…), uint8."""
        data = np.zeros(self.image_bytes, np.uint8)
        planes = data[self.x:].reshape(-1, self.x_pitch)
        content = np.ascontiguousarray(x).view(np.uint8).reshape(len(x), -1)
        planes[:, :content.shape[1]] = content
        for place, words in ((self.table, entry_words(self.representation)), (self.bases, base_words(self.representation))):
            data[place:place + 4 * len(words)] = words.astype("<u4").view(np.uint8)
        return data

    def filter_data(self, w: np.ndarray) -> np.ndarray:
        """Filters (outputs, channels, positions…) as rows in the order of the offsets, uint8."""
        rows = np.zeros((self.cfg.threads * self.filter_tiles, self.row_bytes), np.uint8)
        rows[:len(w), :self.elements] = self.representation.arranged(w).view(np.uint8)
        return rows

    # -- program ----------------------------------------------------------------------------

    def _names(self) -> list[str]:
        """The first three have the numbers of the segments; pairs of ``copy_rows`` stand together."""
        return ["x", "w", "padding", "count", "to", "to_pitch", "from", "from_pitch", "blocks", "rows", "y_now", "y_1", "y_2", "y_3",
                "tile_y", "tiles", "filters", "b", "ahead", "half", "number", "size", "drain"]

    def launches(self, operands: Operands | None = None) -> list[Launch]:
        """One ``Launch``."""
        operands, names, shape = operands or Operands(), self._names(), self.problem.geometry
        values = {"x": operands.a, "w": operands.b, "tile_y": operands.c, "padding": 0, "count": 0, "to_pitch": self.plane_pitch,
                  "from_pitch": 4 * self.cfg.threads, "blocks": 4 * self.cfg.threads // BANK_BYTES, "rows": self.cfg.threads,
                  "tiles": self.tiles, "half": 0, "number": 0}
        return [Launch(self.programs[0], {names.index(name): value for name, value in values.items()}, shape.macs // shape.images)]

    def write(self) -> list[KernelText]:
        """See ``Kernel``."""
        self.text = text = KernelText(self._names())
        self._prologue()
        text("tile:", f"    umov {{filters}}, {self.filter_tiles}", f"    umov {{b}}, {self.b}", "    umov {y_now}, {tile_y}",
             "    umov {ahead}, 1", "filter:", f"    segment.shared.b8.d1 ur{_B}, {{b}}")
        text.select(("up1", *self._of_set), lambda half, *number: self._multiply(half, self._set(number)))
        text("    usetp.eq up2, {ahead}, 0", "    @up2 bra gathered", "    umov {ahead}, 0", "    usetp.le up2, {tiles}, 1",
             "    @up2 bra gathered", f"    add r{self.base_place}, r{self.base_place}, {4 * self.cfg.threads}")
        text.select(("up1",), lambda half: self._gather(not half))
        text("gathered:", f"    uadd {{b}}, {{b}}, {self.cfg.threads * self.row_bytes}", "store:",
             f"    usetp.lt up2, {{count}}, {self.behind}", "    @up2 bra stored")
        text.select(self._of_set, lambda *number: self._store(self._set(number) - self.behind))
        # A group waits until its rows have been handed to the TMAU, for which the stores leave time.
        text("stored:", "    commit_group", *(f"    umov {{y_{later + 1}}}, {{y_{later}}}" for later in range(self.behind, 0, -1)),
             "    umov {y_1}, {y_now}", "    uadd {count}, {count}, 1", "    uadd {number}, {number}, 1",
             *(line for bit, predicate in enumerate(self._of_set)
               for line in (f"    uand {{size}}, {{number}}, {1 << bit}", f"    usetp.ne {predicate}, {{size}}, 0")),
             f"    uadd {{y_now}}, {{y_now}}, {self.cfg.threads * self.plane_pitch}", "    @up4 bra drain",
             "    usub {filters}, {filters}, 1", "    usetp.gt up2, {filters}, 0", "    @up2 bra filter",
             "    uxor {half}, {half}, 1", "    usetp.ne up1, {half}, 0", f"    uadd {{tile_y}}, {{tile_y}}, {4 * self.cfg.threads}",
             "    usub {tiles}, {tiles}, 1", "    usetp.gt up2, {tiles}, 0", "    @up2 bra tile",
             f"    umov {{drain}}, {self.behind}", "    usetp.eq up4, {count}, {count}", "    bra store",
             "drain:", "    usub {drain}, {drain}, 1", "    usetp.gt up2, {drain}, 0", "    @up2 bra store", "    wait.thread")
        text.select(("up0",), lambda odd: self._send(odd - self.behind - 1))
        text("    halt")
        return [text]

    @property
    def _of_set(self) -> tuple[str, ...]:
        """Uniform predicates that are bits of the number of the set of product registers, the lowest first."""
        return ("up0", "up3")[:self.sets.bit_length() - 1]

    @staticmethod
    def _set(bits: tuple[bool, ...]) -> int:
        return sum(value << bit for bit, value in enumerate(bits))

    def _prologue(self) -> None:
        text = self.text
        first = self.sets * self.set        # registers behind the sums
        self.tid, self.lane, self.base_place, self.base = range(first, first + 4)
        for barrier, source, place, nbytes in ((_IMAGE, "x", 0, self.image_bytes), (_FILTERS, "w", self.b, self.filter_bytes)):
            text(f"    barrier.expect b{barrier}, {nbytes}", f"    umov {{size}}, {nbytes // BANK_BYTES}", f"    umov {{to}}, {place}",
                 f"    copy_block.shared.global {{to}}, {{{source}}}, {{size}}, b{barrier}")
        text(f"    segment.shared.b8.d1 ur{_LOCAL}, 0", f"    segment.shared.b8.d1 ur{_ELEMENTS}, {self.x}", f"    mov r{self.tid}, %tid",
             f"    mov r{self.places}, 0",
             *(f"    usetp.ne {name}, {{count}}, {{count}}" for name in ("up0", "up1", "up3", "up4")),
             f"    barrier.wait b{_IMAGE}")
        self._lanes()
        text(*offset_lines(self.cfg, self.fills, f"ur{_LOCAL}:rf{self.places}", self.table))
        self._gather(False)
        text(f"    mul r{self.tid}, r{self.tid}, {self.row_bytes}", "    wait.matrix", f"    mov r{self.places}, r{self.tid}",
             f"    barrier.wait b{_FILTERS}")

    def _lanes(self) -> None:
        """Bytes from the first pixel of a tile to that of each thread, and where its base is."""
        slots, near, part = self.slots.bit_length() - 1, self.near.bit_length() - 1, self.base
        self.text(f"    and r{self.lane}, r{self.tid}, {self.slots - 1}", f"    shl r{self.lane}, r{self.lane}, {near}",
                  f"    shr r{part}, r{self.tid}, {slots}", f"    and r{part}, r{part}, {self.near - 1}",
                  f"    or r{self.lane}, r{self.lane}, r{part}", f"    shr r{part}, r{self.tid}, {slots + near}",
                  f"    shl r{part}, r{part}, {slots + near}", f"    or r{self.lane}, r{self.lane}, r{part}",
                  f"    shl r{self.lane}, r{self.lane}, 2", f"    add r{self.base_place}, r{self.lane}, {self.bases}")

    def _factors(self, half: bool) -> int:
        return FIRST_FACTOR_REGISTER + half * self.half_words * self.cfg.numbers_per_word

    def _gather(self, half: bool) -> None:
        """The windows of the pixels at ``base_place``."""
        self.text(f"    ld.b32 r{self.base}, ur{_LOCAL}:r{self.base_place}:0",
                  *(f"    gather.b8.k{min(GATHERED_BYTES, self.elements - first)} r{self._factors(half) + first // 4}, "
                    f"ur{_ELEMENTS}:r{self.base}:0, {first}" for first in range(0, self.elements, GATHERED_BYTES)))

    def _multiply(self, half: bool, number: int) -> None:
        """A tile of sums to set ``number``, which is free when the stores of its last sums have been acknowledged."""
        cfg = self.cfg
        for first in range(0, self.steps, MAX_SLICES):
            words = min(MAX_SLICES, self.steps - first)
            self.text(f"    mm8{self.problem.elements.signs}.k{words}.kin{'' if first else '.z'} r{number * self.set}, "
                      f"ur{_B}:rf{self.places}:{first * cfg.dot}, r{self._factors(half) + first * cfg.numbers_per_word}")

    def _store(self, number: int) -> None:
        """Set ``number`` to its staging area, a row for each filter, when the copy from there, in the last group, has read it. When the
        first stores wait in the thread unit, those of the set before are over: that one is sent."""
        first, unsent = number % self.sets * self.set, self.text.label("unsent")
        lines = [f"    st.b32 ur{_LOCAL}:r{self.lane}:{self.stages[number % 2] + 4 * self.cfg.threads * filters}, r{first + filters}"
                 for filters in range(self.cfg.threads)]
        self.text("    wait_group.read 0", *lines[:_FIRST_STORES], f"    usetp.le up2, {{count}}, {self.behind}", f"    @up2 bra {unsent}",
                  f"    wait_thread {_FIRST_STORES}")
        self._send(number - 1)
        self.text(f"{unsent}:", *lines[_FIRST_STORES:])

    def _send(self, number: int) -> None:
        """The staging area of set ``number``, whose stores are acknowledged, to its planes."""
        self.text(f"    umov {{from}}, {self.stages[number % 2]}", f"    umov {{to}}, {{y_{self.behind + 1}}}",
                  "    copy_rows.global.shared {to}, {from}, {blocks}")
