"""Records that units read from memory, as bytes."""

from enum import Enum

from amaranth.lib import data
from heddle.errors import UsageError

__all__ = ["record_bytes"]


def record_bytes(layout: data.Layout, **values: int | Enum) -> bytes:
    """Bytes of a record; fields that are not given are 0. Raises ``UsageError`` for a value that its field does not hold."""
    for name, value in values.items():
        width = layout[name].width
        if not -(1 << width - 1) <= int(value.value if isinstance(value, Enum) else value) < 1 << width:
            raise UsageError(f"{name} must fit {width} bits of a record, not be {value}")
    return int(layout.const(values).as_value().value).to_bytes(layout.size // 8, "little")
