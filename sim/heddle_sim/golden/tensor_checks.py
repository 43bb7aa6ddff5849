"""Golden model of the checks of tensor copies: every rule of ``heddle.isa.tensor_rules`` that a descriptor or a request violates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from heddle.config import Config
from heddle.isa.encoding import Reduction, Swizzle
from heddle.isa.error_codes import ErrorCode
from heddle.isa.tensor_descriptor import (
    DESCRIPTOR_ALIGNMENT,
    DESCRIPTOR_BYTES,
    FLOAT_FORMATS,
    MAX_RANK,
    SWIZZLE_BYTES,
    Fill,
    Interleave,
    TensorFormat,
    TensorMode,
)
from heddle.isa.tensor_rules import COORDINATE_OFFSET_BITS, CORNER_LIMITS, REDUCTION_FORMATS, RULES, SHARED_ALIGNMENT
from heddle.tmau.float_conversion import CONVERTED_FORMATS

if TYPE_CHECKING:
    from .tensor_fields import TensorFields

__all__ = ["TensorRequest", "Violation", "all_violations", "descriptor_violations", "first_violation", "request_violations",
           "understood", "unsupported_value"]

ROW_BYTES = 16
MAX_BYTES = (1 << 20) - 1


@dataclass(frozen=True)
class Violation:
    """Violated rule: error code, value, dimension (0 is the innermost; ``None`` for rules without dimension) and an explanatory note."""

    error: ErrorCode
    value: int | Enum
    dimension: int | None = None
    note: str = field(default="", compare=False)

    def __str__(self) -> str:
        """Message in the words of the hardware."""
        return self._text("" if self.dimension is None else f" of dimension {self.dimension}")

    def text(self, rank: int | None = None) -> str:
        """Message with the note; for a tensor of ``rank`` dimensions also the numpy axis of the dimension."""
        place = "" if self.dimension is None else f" of dimension {self.dimension}"
        if self.dimension is not None and rank is not None:
            place += f" (axis {rank - 1 - self.dimension})"
        return self._text(place) + (f" ({self.note})" if self.note else "")

    def _text(self, place: str) -> str:
        rule, value = RULES[self.error], getattr(self.value, "name", self.value)
        return f"{self.error.name.removeprefix('TENSOR_')}: {rule.field}{place} must {rule.text}, not {value}"


@dataclass(frozen=True, kw_only=True)
class TensorRequest:
    """Request of a tensor copy: the fields that an instruction adds to a descriptor; tuples begin with dimension 0."""

    coordinates: tuple[int, ...]
    shared_address: int = 0
    mode: TensorMode = TensorMode.TILE
    offsets: tuple[int, ...] = ()
    store: bool = False
    prefetch: bool = False
    reduction: Reduction = Reduction.NONE
    descriptor: int = 0


def _order(violation: Violation) -> tuple[int, int]:
    return violation.error.value, violation.dimension or 0


def first_violation(fields: TensorFields, request: TensorRequest, shared_bytes: int, address_bits: int) -> Violation | None:
    """Violation that the hardware reports, or ``None``: the first in the order of table and dimensions. TENSOR_BYTES does not apply to
    a prefetch, which has no barrier.
    """
    return next((violation for violation in all_violations(fields, request, shared_bytes, address_bits)
                 if violation.error != ErrorCode.TENSOR_BYTES or not request.prefetch), None)


def all_violations(fields: TensorFields, request: TensorRequest, shared_bytes: int, address_bits: int = 64) -> list[Violation]:
    """All rules that a request and its descriptor violate, in the order of the table, dimensions ascending.

    After a wrong rank or code only rules that do not depend on rank or code are checked.
    """
    found = descriptor_violations(fields, address_bits)
    if any(_codes(fields)):
        found += _descriptor_address(request, address_bits)
    else:
        found += request_violations(fields, request, shared_bytes, address_bits)
    return sorted(found, key=_order)


def unsupported_value(cfg: Config, fields: TensorFields, request: TensorRequest) -> int | None:
    """Value of the field that requires a feature which the configuration lacks (UNSUPPORTED), or ``None``; for requests without
    violation.
    """
    if request.reduction != Reduction.NONE and not (cfg.reductions and (cfg.reduction_floats or fields.format not in FLOAT_FORMATS)):
        return request.reduction.value
    if not (request.store or request.prefetch or cfg.tensor_floats) and fields.format in CONVERTED_FORMATS:
        return fields.format.value
    if not cfg.copy_swizzles and fields.swizzle != Swizzle.NONE:
        return fields.swizzle.value
    if not cfg.tensor_nan and fields.fill != Fill.ZERO:
        return fields.fill.value
    return next((step for step in fields.steps if not cfg.tensor_strides and step != 1), None)


def understood(cfg: Config, fields: TensorFields) -> TensorFields:
    """``fields`` as the configuration decodes the descriptor.

    Without im2col or interleave, codes of these features are plain numbers, thus invalid. Other missing features (strides, NaN fill,
    swizzle) are absent from the result.
    """
    changes: dict[str, Any] = {}
    if not cfg.tensor_im2col and fields.mode == TensorMode.IM2COL:
        changes["mode"] = TensorMode.IM2COL.value
    if not cfg.tensor_interleave and fields.interleave in (Interleave.B16, Interleave.B32):
        changes["interleave"] = fields.interleave.value
    if not cfg.tensor_strides:
        changes["element_strides"] = (1,) * len(fields.element_strides)
    if not cfg.tensor_nan:
        changes["fill"] = Fill.ZERO
    if not cfg.copy_swizzles:
        changes["swizzle"] = Swizzle.NONE
    return replace(fields, **changes)


def descriptor_violations(fields: TensorFields, address_bits: int = 64) -> list[Violation]:
    """All rules that ``fields`` violate, in the order of the table, dimensions ascending.

    After a wrong rank or code only rules that do not depend on rank or code are checked.
    """
    found = sorted(_codes(fields), key=_order)
    if found:
        return found
    found += _swizzle_and_fill(fields)
    found += _place(fields, address_bits)
    found += _extent(fields, address_bits)
    found += _tile(fields) if fields.mode == TensorMode.TILE else _im2col(fields)
    return sorted(found, key=_order)


def _codes(fields: TensorFields) -> Iterator[Violation]:
    lowest = 3 if fields.mode == TensorMode.IM2COL or fields.interleave != Interleave.NONE else 1
    for error, value, kind in ((ErrorCode.TENSOR_MODE, fields.mode, TensorMode), (ErrorCode.TENSOR_FORMAT, fields.format, TensorFormat),
                               (ErrorCode.TENSOR_INTERLEAVE, fields.interleave, Interleave)):
        if not isinstance(value, kind):
            yield Violation(error, value)
    if not lowest <= fields.rank <= MAX_RANK:
        yield Violation(ErrorCode.TENSOR_RANK, fields.rank)


def _swizzle_and_fill(fields: TensorFields) -> Iterator[Violation]:
    if fields.interleave == Interleave.B32 and fields.swizzle != Swizzle.B32:
        yield Violation(ErrorCode.TENSOR_SWIZZLE, fields.swizzle)
    if fields.fill == Fill.NAN and fields.format not in FLOAT_FORMATS:
        yield Violation(ErrorCode.TENSOR_FILL, fields.fill)


def _place(fields: TensorFields, address_bits: int) -> Iterator[Violation]:
    alignment = 32 if fields.interleave == Interleave.B32 else ROW_BYTES
    if fields.address % alignment or not 0 <= fields.address < 1 << address_bits:
        yield Violation(ErrorCode.TENSOR_ADDRESS, fields.address)
    for dimension, size in enumerate(fields.sizes):
        if not 1 <= size <= 1 << 32:
            yield Violation(ErrorCode.TENSOR_SIZE, size, dimension)
    for number, stride in enumerate(fields.strides):
        dimension = number + (fields.interleave == Interleave.NONE or number > 0)
        if stride % alignment:
            yield Violation(ErrorCode.TENSOR_STRIDE_ALIGNMENT, stride, dimension)
        if not 0 <= stride < 1 << 40:
            yield Violation(ErrorCode.TENSOR_STRIDE_RANGE, stride, dimension)
    for dimension, step in enumerate(fields.element_strides):
        if not 1 <= step <= 8 and (dimension or fields.interleave != Interleave.NONE):
            yield Violation(ErrorCode.TENSOR_ELEMENT_STRIDE, step, dimension)


def _extent(fields: TensorFields, address_bits: int) -> Iterator[Violation]:
    """The lowest dimension whose last element, at the last position of all lower dimensions, ends beyond the address space [our
    choice].
    """
    end, limit = fields.address + fields.unit_bytes, 1 << address_bits
    if not 0 <= fields.address < limit or min(fields.sizes) < 1 or min((0, *fields.strides)) < 0:
        return          # rules of their own
    for dimension, (size, stride) in enumerate(zip(fields.sizes, fields.byte_strides)):
        end += (size - 1) * stride
        if end > limit:
            yield Violation(ErrorCode.TENSOR_EXTENT, size - 1, dimension, note=f"it ends at {end:#x}, global memory at {limit:#x}")
            return


def _tile(fields: TensorFields) -> Iterator[Violation]:
    for dimension, size in enumerate(fields.box):
        if not 1 <= size <= 256:
            yield Violation(ErrorCode.TENSOR_BOX, size, dimension)
    if fields.interleave == Interleave.NONE:
        if fields.row_bytes % ROW_BYTES:
            yield Violation(ErrorCode.TENSOR_BOX_ROW, fields.row_bytes, 0)
        if fields.swizzle != Swizzle.NONE and fields.row_bytes > SWIZZLE_BYTES[fields.swizzle.value]:
            yield Violation(ErrorCode.TENSOR_BOX_SPAN, fields.row_bytes, 0)
    if fields.bytes > MAX_BYTES:
        yield Violation(ErrorCode.TENSOR_BYTES, fields.bytes)


def _im2col(fields: TensorFields) -> Iterator[Violation]:
    low, high = CORNER_LIMITS[fields.rank - 2]
    for error, corner in ((ErrorCode.TENSOR_LOWER_CORNER, fields.lower_corner), (ErrorCode.TENSOR_UPPER_CORNER, fields.upper_corner)):
        for number, value in enumerate(corner):
            if not low <= value <= high:
                yield Violation(error, value, 1 + number)
    for number, (size, lower, upper) in enumerate(zip(fields.sizes[1:], fields.lower_corner, fields.upper_corner)):
        if size + upper - lower < 1:
            yield Violation(ErrorCode.TENSOR_PIXEL_BOX, size + upper - lower, 1 + number)
    if not 1 <= fields.pixels_per_column <= 1024:
        yield Violation(ErrorCode.TENSOR_PIXELS_PER_COLUMN, fields.pixels_per_column)
    if not 1 <= fields.channels_per_pixel <= 256:
        yield Violation(ErrorCode.TENSOR_CHANNELS_PER_PIXEL, fields.channels_per_pixel)
    if fields.interleave == Interleave.NONE:
        if fields.row_bytes % ROW_BYTES:
            yield Violation(ErrorCode.TENSOR_CHANNEL_ROW, fields.row_bytes)
        if fields.swizzle != Swizzle.NONE and fields.row_bytes > SWIZZLE_BYTES[fields.swizzle.value]:
            yield Violation(ErrorCode.TENSOR_CHANNEL_SPAN, fields.row_bytes)
    if fields.bytes > MAX_BYTES:
        yield Violation(ErrorCode.TENSOR_BYTES, fields.bytes)


def request_violations(fields: TensorFields, request: TensorRequest, shared_bytes: int, address_bits: int = 64) -> list[Violation]:
    """All rules that ``request`` violates for a descriptor without violation, in the order of the table, dimensions ascending."""
    found = _descriptor_address(request, address_bits)
    if request.mode != fields.mode:
        found.append(Violation(ErrorCode.TENSOR_REQUEST_MODE, request.mode))
    if len(request.coordinates) != fields.rank:
        found.append(Violation(ErrorCode.TENSOR_REQUEST_RANK, len(request.coordinates)))
    if request.mode == fields.mode and len(request.coordinates) == fields.rank:
        found += _coordinates(fields, request)
    if request.reduction != Reduction.NONE and fields.format not in REDUCTION_FORMATS[request.reduction]:
        formats = sorted(REDUCTION_FORMATS[request.reduction], key=lambda format: format.value)
        found.append(Violation(ErrorCode.TENSOR_REDUCTION, request.reduction, note=f"of {', '.join(format.name for format in formats)}, "
                               f"not of {fields.format.name}"))
    if request.prefetch:        # nothing comes to shared memory
        return sorted(found, key=_order)
    if request.shared_address % SHARED_ALIGNMENT:
        found.append(Violation(ErrorCode.TENSOR_SHARED_ADDRESS, request.shared_address))
    elif not 0 <= request.shared_address <= shared_bytes - fields.room:
        found.append(Violation(ErrorCode.TENSOR_SHARED_RANGE, request.shared_address,
                               note=f"the box takes {fields.room} bytes, shared memory has {shared_bytes}"))
    return sorted(found, key=_order)


def _descriptor_address(request: TensorRequest, address_bits: int) -> list[Violation]:
    if request.descriptor % DESCRIPTOR_ALIGNMENT or not 0 <= request.descriptor <= (1 << address_bits) - DESCRIPTOR_BYTES:
        return [Violation(ErrorCode.TENSOR_DESCRIPTOR_ADDRESS, request.descriptor)]
    return []


def _coordinates(fields: TensorFields, request: TensorRequest) -> Iterator[Violation]:
    spatial = fields.rank - 2
    if fields.interleave == Interleave.NONE and request.coordinates[0] * fields.unit_bytes % ROW_BYTES:
        yield Violation(ErrorCode.TENSOR_COORDINATE_ALIGNMENT, request.coordinates[0], 0)
    if request.store:
        for dimension, value in enumerate(request.coordinates):
            if value < 0:
                yield Violation(ErrorCode.TENSOR_COORDINATE_NEGATIVE, value, dimension)
    if fields.mode != TensorMode.IM2COL:
        return
    for dimension in range(1, 1 + spatial):
        lower, upper = fields.lower_corner[dimension - 1], fields.upper_corner[dimension - 1]
        value = request.coordinates[dimension]
        if not lower <= value < fields.sizes[dimension] + upper:
            yield Violation(ErrorCode.TENSOR_COORDINATE_BOX, value, dimension,
                            note=f"it goes from {lower} to {fields.sizes[dimension] + upper - 1}")
        offset = request.offsets[dimension - 1] if request.offsets else 0
        if not 0 <= offset < 1 << COORDINATE_OFFSET_BITS[spatial] or (request.store and offset):
            yield Violation(ErrorCode.TENSOR_OFFSET, offset, dimension)
        if request.store:
            if lower < 0:
                yield Violation(ErrorCode.TENSOR_STORE_CORNER, lower, dimension)
            elif upper > 0:
                yield Violation(ErrorCode.TENSOR_STORE_CORNER, upper, dimension)
