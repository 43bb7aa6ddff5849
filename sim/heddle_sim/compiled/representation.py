"""Compiled representation: base address of each thread, and one list of offsets that all threads share [S2.1-S2.5]."""

from __future__ import annotations

import hashlib
import itertools
import json
from dataclasses import asdict, dataclass, field, fields
from math import prod
from pathlib import Path
from typing import Any, Self

import numpy as np
from heddle.errors import UsageError, UsageTypeError
from numpy.typing import DTypeLike

from ..arguments import check_dtype, check_integer, plain_array
from .geometry import Geometry
from .layout import ImageLayout, ImageStrides
from .order import LINE_BYTES, LINES, line_fetches

__all__ = ["ORDERS", "Representation", "compile_convolution"]

ORDERS = ("auto", "natural", "position", "memory")
MAGIC = b"HEDDLE-CONVOLUTION-1\n"
_DIGEST = hashlib.sha256().digest_size
_MOST_THREADS = 1 << 16
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
        check_integer("group", group, 0, self.geometry.group - 1)
        channels = self.elements // self.geometry.positions
        moved = self.strides.channels(channels + group * self.geometry.group_channels) - self.strides.channels(channels)
        return self.offsets + moved * self.itemsize

    def valid(self) -> np.ndarray:
        """bool (pixels, k): elements that lie in x and not in the padding."""
        bits = self.mask_bits[None]
        return ((bits == ALWAYS) | (self.masks[:, None, None] >> np.maximum(bits, 0) & 1 != 0)).all(axis=-1)

    def gather(self, x: np.ndarray, group: int = 0, fill: int = 0) -> np.ndarray:
        """Rows of the matrix product, (pixels, k), by the addresses alone; what lies in the padding is ``fill``.

        ``x``: an array of the layout that the representation was made for, without gaps, as ``strides`` must be.
        """
        self.check(x)
        if self.strides != _dense(self.geometry, self.layout):
            raise UsageError(f"strides must be those of an array without gaps to gather from x, not {self.strides}")
        memory = np.ascontiguousarray(x).reshape(-1)
        places = (self.bases[:, None] + self.group_offsets(group)[None]) // self.itemsize
        valid = self.valid()
        return np.where(valid, memory[np.where(valid, places, 0)], np.array(fill, memory.dtype))

    def arranged(self, w: np.ndarray) -> np.ndarray:
        """Filters (outputs, channels / group, positions…), all or some, as rows (outputs, k) in the order of the offsets."""
        w, shape = plain_array("w", w), (self.geometry.group_channels, *self.geometry.filter)
        if w.shape[1:] != shape:
            raise UsageError(f"w must have shape (outputs, {', '.join(map(str, shape))}) as the representation was made for, not {w.shape}")
        return w.reshape(len(w), -1)[:, self.elements]

    def lines(self, threads: int, lines: int = LINES, line_bytes: int = LINE_BYTES) -> int:
        """Line fetches of the first ``threads`` threads (``line_fetches``)."""
        return line_fetches(self.bases[:threads], self.offsets, lines, line_bytes)

    def natural_lines(self, threads: int, lines: int = LINES, line_bytes: int = LINE_BYTES) -> int:
        """The same with the offsets in natural order: channel, then filter position."""
        return line_fetches(self.bases[:threads], self.offsets[np.argsort(self.elements)], lines, line_bytes)

    def check(self, x: np.ndarray) -> None:
        """Raises where ``x`` is not the tensor that the representation was made for: ``ValueError`` for another shape or size of
        elements, ``TypeError`` for what is no array of numbers."""
        x = plain_array("x", x)
        if x.dtype.kind not in "iufc":
            raise UsageTypeError(f"x must be an array of numbers, not {x.dtype}")
        if x.dtype.itemsize != self.itemsize:
            raise UsageError(f"x must have elements of {self.itemsize} bytes as the representation was made for, not {x.dtype}")
        shape = self.layout.shape(self.geometry.images, self.geometry.channels, self.geometry.size)
        if x.shape != shape:
            raise UsageError(f"x must have shape {shape} as the representation was made for ({self.layout.name}), not {x.shape}")

    def check_layer(self, geometry: Geometry, layout: ImageLayout) -> None:
        """Raises ``ValueError`` unless this is the representation of a convolution of ``geometry``, with x of ``layout`` without gaps."""
        sizes = ((item.name, getattr(self.geometry, item.name), getattr(geometry, item.name)) for item in fields(Geometry))
        for name, mine, others in (("layout", self.layout.name, layout.name), *sizes, ("strides", self.strides, _dense(geometry, layout))):
            if mine != others:
                raise UsageError(f"representation must be made for {name} {others} as the convolution has, not {mine}")

    # -- file -------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write one file: a line that names the format, parameters, arrays, and a checksum of all that."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        head = {"geometry": asdict(self.geometry), "layout": self.layout.name, "itemsize": self.itemsize, "strides": asdict(self.strides),
                "arrays": {name: list(array.shape) for name, array in arrays.items()}}
        text = json.dumps(head, default=int).encode()      # integers of numpy
        content = MAGIC + len(text).to_bytes(8, "little") + text + b"".join(
            np.ascontiguousarray(array, "<i8").tobytes() for array in arrays.values())
        Path(path).write_bytes(content + hashlib.sha256(content).digest())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what ``save`` wrote. Raises ``ValueError`` for a file that is damaged or of another kind, and for one whose addresses are
        not those of its parameters."""
        content = Path(path).read_bytes()
        if not content.startswith(MAGIC):
            raise UsageError(f"{path} must be a file of a compiled representation, not another file")
        content, digest = content[:-_DIGEST], content[-_DIGEST:]
        if hashlib.sha256(content).digest() != digest:
            raise UsageError(f"{path} must have the checksum of its content: it is damaged or cut")
        start = len(MAGIC) + 8
        end = start + int.from_bytes(content[len(MAGIC):start], "little")
        try:
            return cls._of_file(json.loads(content[start:end]), content[end:])
        except (ValueError, TypeError) as error:
            raise UsageError(f"{path} must have the parameters and arrays of a compiled representation: {error}") from None

    @classmethod
    def _of_file(cls, head: Any, content: bytes) -> Self:
        """From the parameters and the bytes of the arrays. Raises ``ValueError`` or ``TypeError`` for what is no representation."""
        _check_names("parameters", head, ("geometry", "layout", "itemsize", "strides", "arrays"))
        for name, kind in (("geometry", Geometry), ("strides", ImageStrides)):
            _check_names(name, head[name], tuple(item.name for item in fields(kind)))
        geometry = Geometry(**_tuples(head["geometry"]))
        layout, itemsize = ImageLayout.of(head["layout"], geometry.spatial), check_integer("itemsize", head["itemsize"], 1, _MOST_BYTES)
        strides = _check_strides(ImageStrides(**_tuples(head["strides"])), geometry)
        count = geometry.group_channels * geometry.positions
        shapes = dict(zip(_ARRAYS, ([geometry.pixels], [count], [count], [geometry.pixels], [count, geometry.spatial])))
        if head["arrays"] != shapes:
            raise UsageError(f"shapes of arrays must be {shapes}, not {head['arrays']}")
        if len(content) != 8 * sum(map(prod, shapes.values())):
            raise UsageError(f"arrays must have {8 * sum(map(prod, shapes.values()))} bytes, not {len(content)}")
        arrays, place = {}, 0
        for name, shape in shapes.items():
            arrays[name] = np.frombuffer(content, "<i8", prod(shape), place).reshape(shape).astype(np.int64)
            place += 8 * prod(shape)
        elements = arrays["elements"]
        if not np.array_equal(np.sort(elements), np.arange(count)):
            raise UsageError(f"elements must be the numbers 0 to {count - 1}, each once")
        made = cls(geometry, layout, itemsize, strides, *_addresses(geometry, strides, itemsize, elements))
        for name, array in arrays.items():
            if not np.array_equal(array, getattr(made, name)):
                raise UsageError(f"{name} must be those of the geometry, not others")
        return made


_ARRAYS = ("bases", "offsets", "elements", "masks", "mask_bits")
_MOST_BYTES = 16                # of an element
_MOST_STRIDE = 1 << 40


def _check_names(what: str, values: object, names: tuple[str, ...]) -> None:
    """Raises ``ValueError`` unless ``values`` has just these names."""
    if not isinstance(values, dict) or set(values) != set(names):
        found = ", ".join(map(str, values)) if isinstance(values, dict) else repr(values)
        raise UsageError(f"{what} must have the names {', '.join(names)}, not {found}")


def _check_strides(strides: ImageStrides, geometry: Geometry) -> ImageStrides:
    """Raises unless these are distances of the axes of the geometry."""
    if not isinstance(strides, ImageStrides):
        raise UsageTypeError(f"strides must be an ImageStrides, not {type(strides).__name__}")
    if not isinstance(strides.axes, tuple) or len(strides.axes) != geometry.spatial:
        raise UsageError(f"axes of strides must be a tuple of {geometry.spatial} integers, not {strides.axes!r}")
    for name in ("image", "block", "channel"):
        check_integer(f"{name} of strides", getattr(strides, name), 0, _MOST_STRIDE)
    for value in strides.axes:
        check_integer("an axis of strides", value, 0, _MOST_STRIDE)
    check_integer("vector of strides", strides.vector, 1, _MOST_STRIDE)
    return strides


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    """Lists of JSON as tuples, as the dataclasses have them."""
    def plain(value: Any) -> Any:
        return tuple(map(plain, value)) if isinstance(value, list) else value
    return {name: plain(value) for name, value in values.items()}


def _dense(geometry: Geometry, layout: ImageLayout) -> ImageStrides:
    """Distances in an array without gaps."""
    return layout.strides(geometry.images, geometry.channels, geometry.size)


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
    layout, itemsize = ImageLayout.of(layout, geometry.spatial), check_dtype("dtype", dtype).itemsize
    check_integer("threads", threads, 1, _MOST_THREADS)
    strides = _dense(geometry, layout) if strides is None else _check_strides(strides, geometry)
    offsets = _offsets(geometry, strides) * itemsize
    candidates = _orders(geometry, offsets)
    if order == "auto":
        bases, fewest = _pixels(geometry, strides)[:threads] * itemsize, None
        for name, permutation in candidates.items():
            fetches = line_fetches(bases, offsets[permutation], at_most=fewest)
            if fewest is None or fetches < fewest:
                order, fewest = name, fetches
    return Representation(geometry, layout, itemsize, strides, *_addresses(geometry, strides, itemsize, candidates[order]))


def _addresses(geometry: Geometry, strides: ImageStrides, itemsize: int, elements: np.ndarray) -> tuple[np.ndarray, ...]:
    """Bases, offsets, elements, masks and mask bits of a representation whose offsets stand for ``elements`` in this order."""
    bits, masks = _masks(geometry)
    positions = np.unravel_index(elements % geometry.positions, geometry.filter)
    needed = np.stack([along[position] for along, position in zip(bits, positions)], axis=-1)
    return _pixels(geometry, strides) * itemsize, (_offsets(geometry, strides) * itemsize)[elements], elements, masks, needed


def _offsets(geometry: Geometry, strides: ImageStrides) -> np.ndarray:
    """Of the elements (channel, position…) in C order, in elements."""
    offsets = strides.channels(np.arange(geometry.group_channels))
    for axis, count in enumerate(geometry.filter):
        offsets = offsets[..., None] + np.arange(count) * geometry.dilation[axis] * strides.axes[axis]
    return offsets.reshape(-1)


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
