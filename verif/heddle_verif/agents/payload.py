"""Amaranth shapes as Python values: dictionaries, lists, enumeration members and integers to bits and back."""

import numpy as np
from amaranth.hdl import Shape, ShapeCastable
from amaranth.lib import data

__all__ = ["pack", "payload_width", "unpack"]


def _layout(shape):
    """The layout of a structured shape, or None."""
    if isinstance(shape, data.Layout):
        return shape
    if isinstance(shape, type) and issubclass(shape, (data.Struct, data.Union)):
        return data.Layout.cast(shape)
    return None


def payload_width(shape):
    """Bits of a shape."""
    return Shape.cast(shape).width


def pack(shape, value):
    """Bits of ``value`` as an unsigned integer.

    Structures take a dictionary (fields left out are 0) or their bits as an integer, arrays a sequence, enumerations a member
    or number. Raises ``ValueError`` when a number does not fit and ``KeyError`` for an unknown field.
    """
    layout = _layout(shape)
    if isinstance(value, data.Const):
        return value.as_bits()
    if layout is None or isinstance(value, (int, np.integer)):
        number = int(getattr(value, "value", value))
        form = Shape.cast(shape)
        low, high = (-(1 << form.width - 1), 1 << form.width - 1) if form.signed and form.width else (0, 1 << form.width)
        if not low <= number < high:
            raise ValueError(f"value must be from {low} to {high - 1}, not {number}")
        return number & ((1 << form.width) - 1)
    bits = 0
    for key, item in (value.items() if isinstance(value, dict) else enumerate(value)):
        field = layout[key]
        bits |= pack(field.shape, item) << field.offset
    return bits


def unpack(shape, bits):
    """The value of an unsigned integer: dictionary, list, enumeration member or integer; the reverse of ``pack``."""
    layout = _layout(shape)
    if layout is None:
        form = Shape.cast(shape)
        bits &= (1 << form.width) - 1
        if form.signed and bits >> form.width - 1:
            bits -= 1 << form.width
        if isinstance(shape, ShapeCastable) and not isinstance(shape, Shape):
            try:
                return shape(bits)
            except (ValueError, TypeError):
                return bits         # no member has this number
        return bits
    fields = {key: unpack(field.shape, (bits >> field.offset) & ((1 << field.width) - 1)) for key, field in layout}
    return list(fields.values()) if isinstance(layout, data.ArrayLayout) else fields
