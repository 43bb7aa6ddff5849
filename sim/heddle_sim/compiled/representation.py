"""Compiled representation: base address of each thread, and one list of offsets that all threads share [S2.1-S2.5]."""

from __future__ import annotations

import hashlib
import itertools
import json
from dataclasses import asdict, dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Self

import numpy as np
from heddle.errors import UsageError, UsageTypeError
from numpy.typing import DTypeLike

from .geometry import Geometry
from .layout import ImageLayout, ImageStrides
from .order import LINE_BYTES, LINES, line_fetches

__all__ = ["ORDERS", "Representation", "compile_convolution"]

ORDERS = ("auto", "natural", "position", "memory")
MAGIC = b"HEDDLE-CONVOLUTION-1\n"
_DIGEST = hashlib.sha256().digest_size
ALWAYS = -1                     # number of a mask bit that does not exist: no pixel meets the padding at this position


@dataclass(frozen=True, eq=False)
class Representation:
    """Addresses of the elements of x that a convolution multiplies: element k of pixel p lies at ``bases[p] + offsets[k]``.

    Attributes
    ----------
    geometry, layout, itemsize
        What it was made for: sizes, layout of x in memory, bytes of an element.
    strides : ImageStrides
        Distances in memory, in elements.
    bases : int64 (pixels,)
        Byte address of each pixel of the result (a thread each), relative to x; below 0 where the window begins in the padding.
    offsets : int64 (k,)
        Bytes, shared by all threads; those of the first group of channels (``group_offsets``).
    elements : int64 (k,)
        What each offset stands for: number of the element of a filter (channel, position…) in C order, for the other operand.
    masks : int64 (pixels,)
        Bit b is set where the pixel meets x and not the padding at the filter position of mask bit b.
    mask_bits : int64 (k, spatial)
        Mask bits that must be set for offset k, one for each axis; ``ALWAYS`` where no pixel meets the padding.
    """

    geometry: Geometry
    layout: ImageLayout
    itemsize: int
    strides: ImageStrides
    bases: np.ndarray = field(repr=False)
    offsets: np.ndarray = field(repr=False)
    elements: np.ndarray = field(repr=False)
    masks: np.ndarray = field(repr=False)
    mask_bits: np.ndarray = field(repr=False)

    @property
    def steps(self) -> np.ndarray:
        """The offsets as the distances by which a running address advances [S2.3]."""
        return np.diff(self.offsets, prepend=0)

    def group_offsets(self, group: int) -> np.ndarray:
        """The offsets of a group of channels. A group that begins within a block of channels has other distances than the first."""
        channels = self.elements // self.geometry.positions
        moved = self.strides.channels(channels + group * self.geometry.group_channels) - self.strides.channels(channels)
        return self.offsets + moved * self.itemsize

    def valid(self) -> np.ndarray:
        """bool (pixels, k): elements that lie in x and not in the padding."""
        bits = self.mask_bits[None]
        return ((bits == ALWAYS) | (self.masks[:, None, None] >> np.maximum(bits, 0) & 1 != 0)).all(axis=-1)

    def gather(self, x: np.ndarray, group: int = 0, fill: int = 0) -> np.ndarray:
        """Rows of the matrix product, (pixels, k), by the addresses alone; what lies in the padding is ``fill``.

        ``x``: an array of the layout that the representation was made for.
        """
        self.check(x)
        memory = np.ascontiguousarray(x).reshape(-1)
        places = (self.bases[:, None] + self.group_offsets(group)[None]) // self.itemsize
        valid = self.valid()
        return np.where(valid, memory[np.where(valid, places, 0)], np.array(fill, memory.dtype))

    def arranged(self, w: np.ndarray) -> np.ndarray:
        """Filters (outputs, channels / group, positions…) as rows (outputs, k) in the order of the offsets."""
        return w.reshape(len(w), -1)[:, self.elements]

    def lines(self, threads: int, lines: int = LINES, line_bytes: int = LINE_BYTES) -> int:
        """Line fetches of the first ``threads`` threads (``line_fetches``)."""
        return line_fetches(self.bases[:threads], self.offsets, lines, line_bytes)

    def check(self, x: np.ndarray) -> None:
        """Raises ``ValueError`` where ``x`` is not the tensor that the representation was made for: another shape or type."""
        if x.dtype.itemsize != self.itemsize:
            raise UsageError(f"x must have elements of {self.itemsize} bytes as the representation was made for, not {x.dtype}")
        shape = self.layout.shape(self.geometry.images, self.geometry.channels, self.geometry.size)
        if x.shape != shape:
            raise UsageError(f"x must have shape {shape} as the representation was made for ({self.layout.name}), not {x.shape}")

    # -- file -------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write one file: a line that names the format, parameters, arrays, and a checksum of all that."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        head = {"geometry": asdict(self.geometry), "layout": self.layout.name, "itemsize": self.itemsize, "strides": asdict(self.strides),
                "arrays": {name: list(array.shape) for name, array in arrays.items()}}
        text = json.dumps(head).encode()
        content = MAGIC + len(text).to_bytes(8, "little") + text + b"".join(
            np.ascontiguousarray(array, "<i8").tobytes() for array in arrays.values())
        Path(path).write_bytes(content + hashlib.sha256(content).digest())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what ``save`` wrote. Raises ``ValueError`` for a file that is damaged or of another kind."""
        content = Path(path).read_bytes()
        if not content.startswith(MAGIC):
            raise UsageError(f"{path} must be a file of a compiled representation, not another file")
        content, digest = content[:-_DIGEST], content[-_DIGEST:]
        if hashlib.sha256(content).digest() != digest:
            raise UsageError(f"{path} must have the checksum of its content: it is damaged or cut")
        start = len(MAGIC) + 8
        end = start + int.from_bytes(content[len(MAGIC):start], "little")
        head = json.loads(content[start:end])
        arrays, place = {}, end
        for name, shape in head["arrays"].items():
            count = prod(shape)
            arrays[name] = np.frombuffer(content, "<i8", count, place).reshape(shape).astype(np.int64)
            place += 8 * count
        shape, strides = _tuples(head["geometry"]), _tuples(head["strides"])
        return cls(Geometry(**shape), ImageLayout(head["layout"]), head["itemsize"], ImageStrides(**strides), **arrays)


_ARRAYS = ("bases", "offsets", "elements", "masks", "mask_bits")


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    """Lists of JSON as tuples, as the dataclasses have them."""
    def plain(value: Any) -> Any:
        return tuple(map(plain, value)) if isinstance(value, list) else value
    return {name: plain(value) for name, value in values.items()}


def compile_convolution(geometry: Geometry, layout: str | ImageLayout = "NCHW", dtype: DTypeLike = np.int8, order: str = "auto",
                        strides: ImageStrides | None = None, threads: int = 32) -> Representation:
    """The compiled representation of a convolution [S2.1].

    Parameters
    ----------
    geometry : Geometry
        Sizes, strides, dilations, padding, groups.
    layout : str
        Of x: a name of ``LAYOUTS``; ``"NCHW"`` also stands for its forms with one and three spatial axes.
    dtype : type
        Of the elements, for their size.
    order : str
        Of the offsets: "natural" (channel, then filter position), "position" (filter position, then channel), "memory" (ascending
        addresses), or "auto": of these the one with the fewest line fetches of ``threads`` neighbouring threads [S2.4].
    strides : ImageStrides, optional
        Distances in memory, where x does not lie without gaps.
    threads : int
        That take the offsets together.
    """
    if order not in ORDERS:
        raise UsageError(f"order must be one of {', '.join(ORDERS)}, not {order!r}")
    if not isinstance(geometry, Geometry):
        raise UsageTypeError(f"geometry must be a Geometry, not {type(geometry).__name__}")
    layout, itemsize = ImageLayout.of(layout, geometry.spatial), np.dtype(dtype).itemsize
    strides = strides or layout.strides(geometry.images, geometry.channels, geometry.size)
    bases = _pixels(geometry, strides) * itemsize
    bits, masks = _masks(geometry)
    # Element (channel, position…) in C order, with its offset and its mask bits.
    channels = strides.channels(np.arange(geometry.group_channels))
    offsets, needed = channels, np.empty((geometry.group_channels, 0), np.int64)
    for axis, count in enumerate(geometry.filter):
        along = np.arange(count) * geometry.dilation[axis] * strides.axes[axis]
        offsets = (offsets[..., None] + along)
        axis_bits = np.broadcast_to(bits[axis].reshape(1, -1, 1), (len(needed), count, 1))
        needed = np.concatenate([np.repeat(needed[:, None], count, axis=1), axis_bits], axis=-1).reshape(-1, axis + 1)
    offsets = offsets.reshape(-1) * itemsize
    candidates = _orders(geometry, offsets)
    if order == "auto":
        order, fewest = "", None
        for name, permutation in candidates.items():
            fetches = line_fetches(bases[:threads], offsets[permutation], at_most=fewest)
            if fewest is None or fetches < fewest:
                order, fewest = name, fetches
    chosen = candidates[order]
    return Representation(geometry, layout, itemsize, strides, bases, offsets[chosen], chosen, masks, needed[chosen])


def _pixels(geometry: Geometry, strides: ImageStrides) -> np.ndarray:
    """Address of the first element of the window of each pixel, in elements."""
    places = np.arange(geometry.images) * strides.image
    for axis in range(geometry.spatial):
        places = places[..., None] + geometry.axis_place(axis, 0) * strides.axes[axis]
    return places.reshape(-1).astype(np.int64)


def _masks(geometry: Geometry) -> tuple[list[np.ndarray], np.ndarray]:
    """Number of the mask bit of each filter position along each axis, and the mask of each pixel."""
    numbers, next_bit = [], itertools.count()
    masks = np.zeros((geometry.images, *geometry.result), np.int64)
    for axis, count in enumerate(geometry.filter):
        along = np.full(count, ALWAYS, np.int64)
        for position in range(count):
            valid = geometry.axis_valid(axis, position)
            if not valid.all():
                along[position] = next(next_bit)
                shape = [1] * masks.ndim
                shape[1 + axis] = -1
                masks |= (valid.astype(np.int64) << along[position]).reshape(shape)
        numbers.append(along)
    return numbers, masks.reshape(-1)


def _orders(geometry: Geometry, offsets: np.ndarray) -> dict[str, np.ndarray]:
    """Orders by name, those that are best most often first: permutations of the elements."""
    natural = np.arange(len(offsets))
    by_position = natural.reshape(geometry.group_channels, -1).T.reshape(-1)
    return {"memory": np.argsort(offsets, kind="stable"), "position": by_position, "natural": natural}
