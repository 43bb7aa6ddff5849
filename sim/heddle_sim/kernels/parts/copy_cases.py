"""Boxes whose copies are measured: rows of a tensor that is larger than its boxes, so that rows are not neighbours in memory."""

from dataclasses import dataclass, replace
from typing import Any

from heddle.isa.encoding import Swizzle
from heddle.isa.tensor_descriptor import SWIZZLE_BYTES, TensorMode

from ...golden.tensor_checks import TensorRequest
from ...golden.tensor_fields import TensorFields

__all__ = ["CHANNELS", "QUICK", "ROWS_OF_BOX", "ROW_BYTES_SWEPT", "CopyCase", "copy_sweep"]

ROW_BYTES_SWEPT = (16, 32, 64, 128, 256)
CHANNELS = 64           # of pixels of 8-bit elements
ROWS_OF_BOX = 64
MAX_BOX = 256           # elements of a box in a dimension, left out ones included


@dataclass(frozen=True, kw_only=True)
class CopyCase:
    """A point of a sweep.

    Parameters
    ----------
    row : int
        Bytes of a row of the box; rows begin at multiples of it, at least of 16 bytes.
    rank : int
    pixels : bool
        In im2col mode.
    swizzle : Swizzle
    stride : int
        Traversal stride of all dimensions but the innermost.
    store : bool
    """

    row: int
    rank: int = 2
    pixels: bool = False
    swizzle: Swizzle = Swizzle.NONE
    stride: int = 1
    store: bool = False

    @property
    def name(self) -> str:
        parts = ["store" if self.store else "load", "im2col" if self.pixels else "tile", f"{self.rank}d", f"{self.row}B",
                 self.swizzle.name.lower()]
        return "_".join([*parts, f"stride{self.stride}"] if self.stride > 1 else parts)

    def rows(self, shared_bytes: int) -> int:
        """Rows of a box, two of which fit shared memory."""
        return min(ROWS_OF_BOX, MAX_BOX // self.stride, shared_bytes // 2 // self.row) if self.rank > 1 else 1

    def beats(self, axi_bytes: int) -> int:
        """Beats of the bus that a row takes: those that it touches."""
        return -(-self.row // axi_bytes)

    def limit(self, axi_bytes: int) -> float:
        """Largest part of the bus that the bytes of the rows can be: what a beat brings beside its row is lost."""
        return self.row / (self.beats(axi_bytes) * axi_bytes)

    def _counts(self, rows: int) -> list[int]:
        """Rows of a box in each dimension but the innermost."""
        spatial = self.rank - 1
        return ([rows, 1, 1, 1] if spatial < 2 else [rows // 4, 4, 1, 1] if spatial < 3 else [rows // 4, 2, 2, 1])[:spatial]

    def step(self, rows: int) -> int:
        """From a box to the next one, in the outermost dimension: they have no sector of memory in common."""
        return self._counts(rows)[-1] * self.stride if self.rank > 1 else 2 * self.row

    def fields(self, rows: int, address: int, boxes: int = 1) -> TensorFields:
        """A descriptor with boxes of ``rows`` rows; ``boxes`` of them, side by side, are inside the tensor, which begins at ``address``."""
        spatial, counts = self.rank - 1, self._counts(rows)
        sizes = [2 * self.row, *(count * self.stride + 2 for count in counts)]
        sizes[-1] += (boxes - 1) * self.step(rows)
        strides, pitch = [], 2 * self.row
        for size in sizes[1:]:
            strides.append(pitch)
            pitch *= size
        common: dict[str, Any] = {"sizes": tuple(sizes), "strides": tuple(strides), "swizzle": self.swizzle, "address": address,
                  "element_strides": (1, *[self.stride] * spatial)}
        if not self.pixels:
            return TensorFields(**common, box=(self.row, *(count * self.stride for count in counts)))
        # With a stride the pixel box ends before the last ones, so that each of its lines has as many as without.
        upper = tuple(count * self.stride - size for size, count in zip(sizes[1:-1], counts))
        return TensorFields(**common, mode=TensorMode.IM2COL, lower_corner=(0,) * (self.rank - 2), upper_corner=upper,
                            pixels_per_column=rows, channels_per_pixel=self.row)

    def request(self, descriptor: int, shared_address: int = 0, start: int = 0) -> TensorRequest:
        """The request for the box at ``start`` of the outermost dimension."""
        coordinates, offsets = (*(0,) * (self.rank - 1), start), (0,) * (self.rank - 2) if self.pixels else ()
        return TensorRequest(coordinates=coordinates, offsets=offsets, descriptor=descriptor, shared_address=shared_address,
                             mode=TensorMode.IM2COL if self.pixels else TensorMode.TILE, store=self.store)


def copy_sweep() -> list[CopyCase]:
    """All points, loads first."""
    tiles = [CopyCase(row=row, rank=rank) for rank in range(1, 6) for row in ROW_BYTES_SWEPT]
    swizzled = [CopyCase(row=row, swizzle=swizzle) for swizzle in list(Swizzle)[1:] for row in ROW_BYTES_SWEPT
                if row <= SWIZZLE_BYTES[swizzle.value]]
    strided = [CopyCase(row=row, rank=rank, stride=stride) for row, rank, stride in ((16, 2, 2), (64, 2, 2), (64, 2, 8), (64, 3, 3),
                                                                                  (256, 2, 2))]
    pixels = [CopyCase(row=CHANNELS, rank=rank, pixels=True) for rank in (3, 4, 5)]
    pixels += [CopyCase(row=CHANNELS, rank=4, pixels=True, swizzle=Swizzle.B64), CopyCase(row=CHANNELS, rank=4, pixels=True, stride=2)]
    loads = [*tiles, *swizzled, *strided, *pixels]
    return [*loads, *(replace(case, store=True) for case in loads)]


QUICK = tuple(
    CopyCase(**options, store=store) for store in (False, True) for options in (
        {"row": 16}, {"row": 32}, {"row": 64}, {"row": 64, "swizzle": Swizzle.B64}, {"row": 128, "swizzle": Swizzle.B128}, {"row": 256},
        {"row": 64, "rank": 5}, {"row": 64, "stride": 2}, {"row": CHANNELS, "rank": 4, "pixels": True}))
