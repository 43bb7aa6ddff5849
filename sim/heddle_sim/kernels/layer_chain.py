"""Chain of fully connected layers of few rows, in one program: weights of the next layers are fetched during those before [S0.17].

Lanes hold outputs. Weights lie in global memory as one stream of tiles, of ``threads`` outputs each: biases, multipliers where each output
has one, then weights in blocks of 16 inputs, each block with all outputs of the tile side by side. So neighbouring threads load from
different banks. Four slots of shared memory take tiles in turn, or two where there is no room for more. While the threads load one to a
half of the factor registers, those behind it arrive. ``mm`` multiplies a tile with the inputs of the layer, a column for each row. The
output stage makes bytes of its sums while the next ``mm`` is under way. The threads store them as inputs of the next layer. Only the first
``mm`` of a layer waits for these stores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Self

import numpy as np
from heddle.config import Config, ConfigError
from heddle.constants import BANK_BYTES, FIRST_FACTOR_REGISTER, ROW_BYTES
from heddle.errors import UsageError

from ..golden.requantise import Requantise
from ..isa.features import lacking
from .kernel import Kernel
from .parts.fitting import Region, Unfit, check_factors, check_regions
from .parts.launch import Launch
from .parts.output_stage import OutputStage
from .parts.register_groups import half_words
from .parts.text import KernelText
from .parts.tiling import MAX_SLICES, round_up
from .problem import Elements, Operands, Problem

__all__ = ["ChainLayer", "LayerChainKernel", "LayerChainProblem"]

_INPUTS = 15                        # barrier; those from 0 on are of the slots
_SHARED, _RESULTS = 0, 1            # segments: all of shared memory, results of the next tile that is finished
_UNIFORM = ["from", "x", "x_pitch", "place", "place_pitch", "blocks", "rows", "y", "y_pitch", "left",
            "slot_0", "slot_1", "slot_2", "slot_3"]
_SLOTS = (4, 2)                     # of shared memory, what is tried
_MOST_LEFT = 31                     # instructions of the thread unit, what ``wait_thread`` has bits for


@dataclass(frozen=True)
class ChainLayer:
    """Layer y (rows x n) = requantise(x (rows x k) W^T + bias), W (n x k), of 8-bit integers; ``elements``: x is a, W is b."""

    k: int
    n: int
    elements: Elements
    requantise: Requantise


@dataclass(frozen=True)
class LayerChainProblem(Problem):
    """Layers of ``rows`` rows one behind the other: inputs of each are the results of the one before."""

    rows: int
    layers: tuple[ChainLayer, ...]

    @property
    def name(self) -> str:
        return "a chain of layers"

    @property
    def macs(self) -> int:
        """Multiply-accumulates, without padding."""
        return self.rows * sum(layer.k * layer.n for layer in self.layers)


@dataclass(frozen=True)
class _Tile:
    """Outputs from ``first`` on of a layer: ``outputs`` of them, and where it lies in the stream."""

    layer: int
    first: int
    outputs: int
    nbytes: int


class LayerChainKernel(Kernel):
    """Chain of layers of a ``LayerChainProblem``. Operands: ``a`` the inputs, ``b`` the ``stream``, ``c`` the results.

    Thread predicates: p1 the columns of ``mm``, p2 threads that store the last of them. Uniform predicate up2: scratch. ``slots``: how
    many tiles have a place in shared memory. Raises ``ValueError`` where the configuration lacks a feature, ``Unfit`` where tiles do not
    fit.
    """

    def __init__(self, cfg: Config, problem: LayerChainProblem, slots: int = _SLOTS[0]) -> None:
        super().__init__(cfg, problem)
        self.slots = slots
        if not cfg.output_stage:
            raise UsageError(f"configuration {cfg.name} must have output_stage for a chain of layers ({lacking(cfg, 'output_stage')})")
        if cfg.cores > 1:
            raise UsageError(f"cores must be 1 for a chain of layers, not {cfg.cores}")
        if problem.rows > cfg.threads:
            raise UsageError(f"rows must be at most {cfg.threads} for a chain of layers (threads), not {problem.rows}")
        self.layers, self.rows, threads = problem.layers, problem.rows, cfg.threads
        self.quads = -(-self.rows // 4)         # columns that are made bytes at once
        self.outputs = [OutputStage(layer.requantise) for layer in self.layers]
        self.head = round_up(4 * threads, ROW_BYTES)            # bytes of biases of a tile, and of multipliers
        self.tiles = [_Tile(number, first, min(threads, layer.n - first), self._tile_bytes(layer, min(threads, layer.n - first)))
                      for number, layer in enumerate(self.layers) for first in range(0, layer.n, threads)]
        most = max(tile.nbytes for tile in self.tiles)
        longest, held = max(layer.k for layer in self.layers), self.half_words * cfg.dot
        if longest > held:
            raise ConfigError(f"inputs of a layer must be at most {held} for a chain of layers with factor_words = {cfg.factor_words} and "
                              f"dot = {cfg.dot}, not {longest}")
        # A thread behind the last output of a tile loads what lies behind it.
        self.slot_bytes = round_up(most + BANK_BYTES * threads, ROW_BYTES)
        widths = [self.layers[0].k, *(round_up(layer.n, threads) for layer in self.layers)]
        self.pitch = round_up(max(widths), BANK_BYTES)          # of rows of inputs
        self.vector_bytes = round_up(self.rows * self.pitch, ROW_BYTES)
        regions = [Region(f"slot {slot}", slot * self.slot_bytes, self.slot_bytes) for slot in range(slots)]
        regions += [Region(f"inputs {parity}", self._vector(parity), self.vector_bytes) for parity in range(2)]
        if regions[-1].start + regions[-1].nbytes > cfg.shared_bytes:
            raise Unfit("shared_memory_kib")
        check_regions(cfg, regions)
        check_factors(cfg, self._words(longest))
        first = 2 * threads         # behind the product registers of two tiles
        self.tid, self.block_place, self.word_place, self.result_place, self.zero, *self.packed, self.scratch = range(first, first + 8)
        self.constants = first + 8                              # pairs of bias and multiplier, one for each parity of tiles
        self.columns = first + 12                               # of a quad, that the words of a thread are of
        self.offset_b = cfg.registers - 1
        self.text = KernelText(_UNIFORM)

    @classmethod
    def estimate(cls, cfg: Config, problem: LayerChainProblem) -> int:
        """Cycles of the bus, roughly."""
        return next(cls.cuts(cfg, problem)).stream_bytes // cfg.axi_bytes

    @classmethod
    def cuts(cls, cfg: Config, problem: LayerChainProblem) -> Iterator[Self]:
        """Those with the most slots for which shared memory has room."""
        for slots in _SLOTS:
            try:
                yield cls(cfg, problem, slots)
            except Unfit as error:
                if slots == _SLOTS[-1] or error.parameter != "shared_memory_kib":
                    raise

    @property
    def half_words(self) -> int:
        """Factor words that half of the registers have for a tile: those of whole blocks of inputs."""
        block = BANK_BYTES // self.cfg.dot
        return half_words(self.cfg) // block * block

    def _words(self, k: int) -> int:
        """Factor words of ``k`` inputs, filled to blocks."""
        return round_up(k, BANK_BYTES) // self.cfg.dot

    def _tile_bytes(self, layer: ChainLayer, outputs: int) -> int:
        heads = 1 + layer.requantise.per_column
        return heads * self.head + outputs * round_up(layer.k, BANK_BYTES)

    def _vector(self, layer: int) -> int:
        """Shared address of the inputs of a layer; behind the last one, of the results."""
        return self.slots * self.slot_bytes + layer % 2 * self.vector_bytes

    @property
    def stream_bytes(self) -> int:
        """Of ``stream``."""
        return sum(tile.nbytes for tile in self.tiles)

    def stream(self, operands: Sequence[tuple[np.ndarray, np.ndarray | None]]) -> bytes:
        """Weights (n, k) and int32 biases (n,) or None of each layer, as they are to lie in global memory."""
        parts = []
        for tile in self.tiles:
            w, bias = operands[tile.layer]
            layer, mine = self.layers[tile.layer], slice(tile.first, tile.first + tile.outputs)
            heads = [np.zeros(w.shape[0], np.int32) if bias is None else bias]
            if layer.requantise.per_column:
                heads.append(np.asarray(self.outputs[tile.layer].multipliers, np.int32))
            for head in heads:
                words = np.zeros(self.head // 4, np.int32)
                words[:tile.outputs] = head[mine]
                parts.append(words.tobytes())
            rows = np.zeros((tile.outputs, round_up(layer.k, BANK_BYTES)), np.uint8)
            rows[:, :layer.k] = np.ascontiguousarray(w[mine]).view(np.uint8)
            parts.append(np.ascontiguousarray(rows.reshape(tile.outputs, -1, BANK_BYTES).transpose(1, 0, 2)).tobytes())
        return b"".join(parts)

    def launches(self, operands: Operands | None = None) -> list[Launch]:
        """One ``Launch``."""
        operands = operands or Operands()
        values = {f"slot_{slot}": slot * self.slot_bytes for slot in range(self.slots)}
        x_pitch, y_pitch = (round_up(count, BANK_BYTES) for count in (self.layers[0].k, self.layers[-1].n))
        values |= {"from": operands.b, "x": operands.a, "x_pitch": x_pitch, "blocks": x_pitch // BANK_BYTES, "rows": self.rows,
                   "place": self._vector(0), "place_pitch": self.pitch, "y": operands.c, "y_pitch": y_pitch}
        return [Launch(self.programs[0], {_UNIFORM.index(name): value for name, value in values.items()}, self.problem.macs)]

    # -- program ----------------------------------------------------------------------------

    def write(self) -> list[KernelText]:
        """See ``Kernel``."""
        self._prologue()
        number = 0
        while number < len(self.tiles):
            number += self._loop(number) or self._tile(number)
        self._finish(len(self.tiles) - 1)
        end, blocks = self._vector(len(self.layers)), round_up(self.layers[-1].n, BANK_BYTES) // BANK_BYTES
        self.text("    wait.thread", f"    umov {{place}}, {end}", f"    umov {{blocks}}, {blocks}",
                  "    copy_rows.global.shared {y}, {place}, {blocks}", "    halt")
        return [self.text]

    def _prologue(self) -> None:
        text = self.text
        text(f"    barrier.expect b{_INPUTS}, {self.rows * round_up(self.layers[0].k, BANK_BYTES)}",
             f"    copy_rows.shared.global {{place}}, {{x}}, {{blocks}}, b{_INPUTS}")
        for number in range(self.slots - 1):
            self._copy(number)
        text(f"    segment.shared.b8.d1 ur{_SHARED}, 0", f"    mov r{self.tid}, %tid", f"    shl r{self.block_place}, r{self.tid}, 4",
             f"    shl r{self.word_place}, r{self.tid}, 2", f"    mov r{self.zero}, 0",
             f"    mul r{self.scratch}, r{self.tid}, {self.pitch}", f"    mov r{self.offset_b}, r{self.scratch}",
             f"    setp.lt p1, r{self.tid}, {self.rows}")
        # Thread s of a group gets a word of column s div T, the bytes of outputs 4 (s mod T) and behind; T: a quarter of the group.
        slots = self.cfg.threads // self.cfg.thread_groups
        quarter = slots // 4
        text(f"    and r{self.scratch}, r{self.tid}, {slots - 1}", f"    shr r{self.columns}, r{self.scratch}, {quarter.bit_length() - 1}",
             f"    setp.lt p2, r{self.columns}, {self.rows - 4 * (self.quads - 1)}",
             f"    sub r{self.result_place}, r{self.tid}, r{self.scratch}",
             f"    and r{self.scratch}, r{self.scratch}, {quarter - 1}", f"    shl r{self.scratch}, r{self.scratch}, 2",
             f"    add r{self.result_place}, r{self.result_place}, r{self.scratch}",
             f"    mul r{self.scratch}, r{self.columns}, {self.pitch}",
             f"    add r{self.result_place}, r{self.result_place}, r{self.scratch}")

    def _copy(self, number: int) -> None:
        """Copy of a tile to its slot, if there is one."""
        if number < len(self.tiles):
            slot, nbytes = number % self.slots, self.tiles[number].nbytes
            self.text(f"    barrier.expect b{slot}, {nbytes}",
                      f"    copy_block.shared.global {{slot_{slot}}}, {{from}}, {nbytes // BANK_BYTES}, b{slot}",
                      f"    uadd {{from}}, {{from}}, {nbytes}")

    def _loop(self, number: int) -> int:
        """A loop over the slots, for tiles from ``number`` on that are alike, as are those that are copied meanwhile; returns how many
        tiles, 0 where there are too few."""
        alike = takewhile(lambda step: self.tiles[number + step] == self._follower(number, step), range(len(self.tiles) - number))
        turns = (len(list(alike)) - self.slots + 1) // self.slots
        if self.tiles[number].first < 2 * self.cfg.threads or turns < 2:
            return 0
        label = self.text.label("tiles")
        place = self._vector(self.tiles[number].layer + 1) + self.tiles[number - 1].first
        self.text(f"    umov {{left}}, {turns}", f"    umov {{place}}, {place}", f"{label}:")
        for step in range(self.slots):
            self._tile(number + step, looped=True)
        self.text("    usub {left}, {left}, 1", "    usetp.gt up2, {left}, 0", f"    @up2 bra {label}")
        return self.slots * turns

    def _follower(self, number: int, step: int) -> _Tile:
        """What tile ``number`` + ``step`` is where it has the shape of tile ``number``."""
        tile = self.tiles[number]
        return _Tile(tile.layer, tile.first + step * self.cfg.threads, tile.outputs, tile.nbytes)

    def _tile(self, number: int, looped: bool = False) -> int:
        """Loads and ``mm`` of a tile; the tile before is finished, and one further on copied, where the tile before has been loaded from.
        Returns 1."""
        tile, text, loads = self.tiles[number], self.text, self._loads(number)
        first = min(len(loads), _MOST_LEFT)
        text(f"    barrier.wait b{number % self.slots}", *loads[:first])
        if number + self.slots - 1 < len(self.tiles):
            text(f"    wait_thread {first}")
            self._copy(number + self.slots - 1)
        text(*loads[first:])
        if tile.first:
            self._multiply(number)
            self._finish(number - 1, looped)
            return 1
        if number:          # its inputs are those that the tile before finishes
            self._finish(number - 1)
            text("    wait.thread")
        else:
            text(f"    barrier.wait b{_INPUTS}")
        self._multiply(number)
        return 1

    def _loads(self, number: int) -> list[str]:
        """Constants and weights of a tile to the registers of each thread."""
        tile, start = self.tiles[number], number % self.slots * self.slot_bytes
        layer, pair = self.layers[tile.layer], self._pair(number)
        lines = [f"    ld.b32 r{pair}, ur{_SHARED}:r{self.word_place}:{start}"]
        if layer.requantise.per_column:
            lines.append(f"    ld.b32 r{pair + 1}, ur{_SHARED}:r{self.word_place}:{start + self.head}")
        elif tile.first < 2 * self.cfg.threads:
            lines.append(f"    mov r{pair + 1}, {self.outputs[tile.layer].multipliers}")
        place, first = start + tile.nbytes - tile.outputs * round_up(layer.k, BANK_BYTES), self._factors(number)
        return lines + [f"    ld.v4 r{first + 4 * block}, ur{_SHARED}:r{self.block_place}:{place + block * tile.outputs * BANK_BYTES}"
                        for block in range(round_up(layer.k, BANK_BYTES) // BANK_BYTES)]

    def _pair(self, number: int) -> int:
        """Register of the biases of a tile; that of the multipliers follows."""
        return self.constants + number % 2 * 2

    def _factors(self, number: int) -> int:
        """First factor register of a tile."""
        return FIRST_FACTOR_REGISTER + number % 2 * self.cfg.factor_registers // 2

    def _multiply(self, number: int) -> None:
        layer = self.layers[self.tiles[number].layer]
        dot, words = self.cfg.dot, self._words(layer.k)
        signs = f".{'s' if layer.elements.b_signed else 'u'}a.{'s' if layer.elements.a_signed else 'u'}b"
        for word in range(0, words, MAX_SLICES):
            self.text(f"    @p1 mm8{signs}.k{min(MAX_SLICES, words - word)}{'' if word else '.z'} r{number % 2 * self.cfg.threads}, "
                      f"ur{_SHARED}:rf{self.offset_b}:{self._vector(self.tiles[number].layer) + word * dot}, "
                      f"r{self._factors(number) + word * dot // 4}")

    def _finish(self, number: int, looped: bool = False) -> None:
        """Sums of a tile to bytes, and to the inputs of the next layer: where ``place`` says, in a loop."""
        tile, pair = self.tiles[number], self._pair(number)
        stage, segment, first = self.outputs[tile.layer], _SHARED, self._vector(tile.layer + 1) + tile.first
        if looped:
            segment, first = _RESULTS, 0
            self.text(f"    segment.shared.b8.d1 ur{_RESULTS}, {{place}}", f"    uadd {{place}}, {{place}}, {self.cfg.threads}")
        self.text(stage.channel(pair, pair + 1, self.zero))
        for quad in range(self.quads):
            packed, guard = self.packed[quad % 2], "@p2 " * (quad == self.quads - 1)
            self.text(*stage.word(number % 2 * self.cfg.threads + 4 * quad, packed, pair, ".t"),
                      f"    {guard}st.b32 ur{segment}:r{self.result_place}:{first + 4 * quad * self.pitch}, r{packed}")
