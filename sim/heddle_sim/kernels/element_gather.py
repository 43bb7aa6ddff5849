"""Gather of the windows of a convolution by compiled offsets, element by element, as ``heddle bench gather`` measures it [S2.3].

A small image lies in shared memory. Each thread is a pixel of the result. ``gather`` loads the elements of its window in all
channels, some registers at a time. A loop that is timed repeats them; then each is done once more and its registers are stored.

Pixels of 64 bytes one behind the other begin in two of eight banks, so that four threads of eight meet in one. With 16 bytes between
pixels, or with a swizzle, eight neighbouring threads meet eight banks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from heddle.config import Config, ConfigError
from heddle.constants import BANK_BYTES, FIRST_FACTOR_REGISTER, ROW_BYTES
from heddle.interfaces.swizzle import swizzles
from heddle.isa.compiled_offsets import GATHERED_BYTES
from heddle.isa.encoding import Swizzle

from ..compiled.geometry import Geometry
from ..compiled.hardware import base_words, entry_words
from ..compiled.layout import ImageStrides
from ..compiled.representation import Representation, compile_convolution
from ..isa.features import lacking
from .kernel import Kernel
from .parts.fitting import Unfit
from .parts.launch import Launch
from .parts.offset_window import offset_lines
from .parts.text import KernelText
from .parts.tiling import round_up
from .problem import Operands, Problem

__all__ = ["CHANNELS", "FORMS", "PLACES", "REPEATS", "TYPES", "ElementGatherKernel", "ElementGatherProblem"]

CHANNELS = 4
REPEATS = 8                     # of all gathers, in the loop
FORMS = {1: "b8", 4: "b32", 8: "v2", 16: "v4"}
TYPES = {1: np.int8, 4: np.int32, 8: np.int64, 16: np.complex128}       # of elements, by their bytes
PLACES = ("dense", "odd pitch", "swizzled")     # how pixels lie in shared memory
_SWIZZLED_ROWS = 8              # of ``ROW_BYTES``, after which the swizzle begins anew
_GROUPS = 8                     # of four factor registers that the gathers of the loop write in turn


@dataclass(frozen=True)
class ElementGatherProblem(Problem):
    """Windows of an image of elements of ``nbytes`` (1, 4, 8 or 16) in ``layout``, ``NHWC`` or ``NCHW``.

    ``channels``: elements of a pixel. ``side``: rows and columns of a window, an odd number. ``place``: one of ``PLACES``, with
    ``NHWC``: one behind the other, 16 bytes apart, or with a swizzle of 128 bytes.
    """

    layout: str = "NHWC"
    nbytes: int = 1
    channels: int = CHANNELS
    side: int = 3
    place: str = "dense"

    @property
    def name(self) -> str:
        return "gather"


class ElementGatherKernel(Kernel):
    """Gathers of an ``ElementGatherProblem``. ``a`` of the operands are the bytes of ``source``.

    ``c`` becomes ``chunks`` x ``threads`` x 16 bytes, then the cycles of the loop as an int32 for each thread.
    """

    @classmethod
    def fits(cls, cfg: Config, problem: ElementGatherProblem) -> bool:
        """All problems. Raises ``ConfigError`` where the configuration has no gathers."""
        if not cfg.gather_offsets:
            raise ConfigError(f"configuration {cfg.name} must have gather_offsets for gathers by compiled offsets "
                              f"({lacking(cfg, 'gather_offsets')})")
        if problem.place == "swizzled" and Swizzle.B128 not in swizzles(cfg):
            raise ConfigError(f"configuration {cfg.name} must have copy_swizzles for a swizzled image ({lacking(cfg, 'copy_swizzles')})")
        return True

    @classmethod
    def estimate(cls, cfg: Config, problem: ElementGatherProblem) -> int:
        """See ``Kernel``; 0."""
        if cls(cfg, problem).bases_place + 4 * cfg.threads > cfg.shared_bytes:
            raise Unfit("shared_memory_kib")
        return 0

    @cached_property
    def representation(self) -> Representation:
        """Bases and offsets: a pixel for each thread."""
        rows = 1 << (self.cfg.threads.bit_length() - 1) // 2
        side, around = self.problem.side, self.problem.side // 2
        geometry = Geometry(1, (rows, self.cfg.threads // rows), self.problem.channels, 1, (side, side), ((around, around),) * 2, (1, 1),
                            (1, 1))
        return compile_convolution(geometry, self.problem.layout, TYPES[self.problem.nbytes], "natural", threads=self.cfg.threads)

    @property
    def pitch(self) -> int:
        """Bytes from a pixel to the next one in shared memory, with ``NHWC``."""
        return self.problem.channels * self.problem.nbytes + BANK_BYTES * (self.problem.place == "odd pitch")

    @cached_property
    def stored(self) -> Representation:
        """Of the image as it lies in shared memory."""
        made = self.representation
        if self.problem.place != "odd pitch":
            return made
        columns, step = made.geometry.size[1], self.pitch // self.problem.nbytes
        strides = ImageStrides(self.cfg.threads * step, 0, 1, (columns * step, step), self.problem.channels)
        return compile_convolution(made.geometry, made.layout, TYPES[self.problem.nbytes], "natural", strides, self.cfg.threads)

    @property
    def image_bytes(self) -> int:
        """Of the image in shared memory, whole rows of the swizzle where it has one."""
        return round_up(self.cfg.threads * self.pitch, ROW_BYTES * _SWIZZLED_ROWS if self.problem.place == "swizzled" else BANK_BYTES)

    @property
    def padding(self) -> int:
        """Shared address of the padding, behind the image."""
        return self.image_bytes

    @property
    def table(self) -> int:
        """Shared address of the entries."""
        return self.padding + BANK_BYTES

    @property
    def bases_place(self) -> int:
        """Shared address of the bases."""
        return self.table + round_up(4 * len(self.representation.offsets), BANK_BYTES)

    @property
    def together(self) -> int:
        """Elements of an instruction at most."""
        return GATHERED_BYTES // self.problem.nbytes

    @property
    def chunks(self) -> int:
        """Instructions for a window."""
        return -(-len(self.representation.offsets) // self.together)

    def source(self, x: np.ndarray) -> np.ndarray:
        """Image, padding of zeros, entries and bases, uint8; ``x``: an array of the layout."""
        made, data = self.stored, np.zeros(round_up(self.bases_place + 4 * self.cfg.threads, BANK_BYTES), np.uint8)
        image = np.ascontiguousarray(x)
        if self.problem.layout == "NHWC":
            pixels = image.reshape(self.cfg.threads, -1).view(np.uint8)
            image = np.pad(pixels, ((0, 0), (0, self.pitch - pixels.shape[1])))
        for place, values in ((0, image), (self.table, entry_words(made)), (self.bases_place, base_words(made))):
            content = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
            data[place:place + len(content)] = content
        return data

    def expected(self, x: np.ndarray) -> np.ndarray:
        """What the threads get, uint8 (chunks, threads, 16)."""
        rows = np.ascontiguousarray(self.representation.gather(x)).view(np.uint8).reshape(self.cfg.threads, -1)
        padded = np.pad(rows, ((0, 0), (0, self.chunks * GATHERED_BYTES - rows.shape[1])))
        return padded.reshape(self.cfg.threads, self.chunks, GATHERED_BYTES).transpose(1, 0, 2)

    def launches(self, operands: Operands | None = None) -> list[Launch]:
        """One ``Launch``."""
        operands = operands or Operands()
        return [Launch(self.programs[0], {0: operands.a, 1: operands.c})]

    def _gathers(self, registers: list[int]) -> list[str]:
        """All gathers of a window, with ``registers`` in turn as destinations."""
        count, form = len(self.representation.offsets), FORMS[self.problem.nbytes]
        return [f"gather.{form}.k{min(self.together, count - first)} r{registers[number % len(registers)]}, ur3:r4:0, {first}"
                for number, first in enumerate(range(0, count, self.together))]

    def write(self) -> list[KernelText]:
        """See ``Kernel``."""
        cfg, text, nbytes = self.cfg, KernelText(()), round_up(self.bases_place + 4 * self.cfg.threads, BANK_BYTES)
        words = round_up(4 * len(self.representation.offsets), cfg.dot) // cfg.dot
        image, swizzle = self.image_bytes, ".128B" if self.problem.place == "swizzled" else ""
        factors = [FIRST_FACTOR_REGISTER + 4 + 4 * number for number in range(_GROUPS)]
        text(f"barrier.expect b0, {nbytes}", "umov ur2, 0", f"copy_block.shared.global{swizzle} ur2, ur0, {image // BANK_BYTES}, b0",
             f"umov ur4, {image}", f"uadd ur5, ur0, {image}", f"copy_block.shared.global ur4, ur5, {(nbytes - image) // BANK_BYTES}, b0",
             f"umov ur3, {self.padding}", f"segment.shared.b8.d1{swizzle} ur3, 0", "segment.shared.b8.d1 ur2, 0",
             "segment.global.b8.d1 ur7, ur1", "mov r0, %tid", "shl r1, r0, 2", "shl r3, r0, 4", f"mov r{FIRST_FACTOR_REGISTER}, 0",
             "barrier.wait b0", f"ld.b32 r4, ur2:r1:{self.bases_place}")
        text(*offset_lines(cfg, words, f"ur2:rf{FIRST_FACTOR_REGISTER}", self.table))
        text(f"umov ur6, {REPEATS}", "wait", "umov ur4, %cycle", "again:", *self._gathers(factors), "usub ur6, ur6, 1",
             "usetp.gt up0, ur6, 0", "@up0 bra again", "wait.thread", "umov ur5, %cycle", "usub ur5, ur5, ur4")
        size = GATHERED_BYTES * cfg.threads
        for number, line in enumerate(self._gathers([8])):
            text("mov.v4 r8, 0", line, f"st.v4 ur7:r3:{number * size}, r8")
        text("mov r0, ur5", f"st.b32 ur7:r1:{self.chunks * size}, r0", "halt")
        return [text]
