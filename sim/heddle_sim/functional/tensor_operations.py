"""Tensor copies of the functional simulator: descriptors in global memory, checks of the hardware, golden models."""

from __future__ import annotations

from enum import Enum
from types import SimpleNamespace
from typing import TYPE_CHECKING

from heddle.isa.error_codes import ErrorCode
from heddle.isa.tensor_descriptor import DESCRIPTOR_ALIGNMENT, DESCRIPTOR_BYTES

from ..golden.tensor_checks import TensorRequest, first_violation, understood, unsupported_value
from ..golden.tensor_copy import load_tensor, store_tensor
from ..golden.tensor_fields import TensorFields
from ..golden.tensor_traversal import traverse

if TYPE_CHECKING:
    from ..golden.thread import ThreadState

__all__ = ["copy_tensor"]


def copy_tensor(state: ThreadState, operation: SimpleNamespace) -> tuple[int, tuple[ErrorCode, int, int] | None]:
    """Execute one ``copy_tensor`` (fields of a tensor operation as attributes) on a ``ThreadState``.

    Returns the bytes that arrive at a barrier, and the first error as (code, operand, dimension) or ``None``.

    The descriptor is read from memory each time; unlike the hardware the model has no descriptor cache. A box that reaches beyond the
    end of memory is not copied at all. The error of such a box has the address of the first missing beat; the hardware copies the other
    beats and reports the burst.
    """
    address, limit = operation.address, len(state.memory)
    legal = address % DESCRIPTOR_ALIGNMENT == 0 and address + DESCRIPTOR_BYTES <= 1 << state.cfg.axi_address_bits
    if legal and address + DESCRIPTOR_BYTES > limit:
        return 0, (ErrorCode.AXI_READ, address, 0)
    fields = TensorFields.decode(state.memory[address:address + DESCRIPTOR_BYTES].tobytes() if legal else bytes(DESCRIPTOR_BYTES))
    request = TensorRequest(
        coordinates=operation.coordinates, shared_address=operation.shared_address, mode=operation.mode, offsets=operation.offsets,
        store=bool(operation.store), reduction=operation.reduction, descriptor=address,
        prefetch=bool(operation.prefetch))
    if violation := first_violation(understood(state.cfg, fields), request, state.cfg.shared_bytes, state.cfg.axi_address_bits):
        value = violation.value.value if isinstance(violation.value, Enum) else violation.value
        return 0, (violation.error, value & 0xFFFFFFFF, violation.dimension or 0)
    if (lacking := unsupported_value(state.cfg, fields, request)) is not None:
        return 0, (ErrorCode.UNSUPPORTED, lacking, 0)
    if operation.prefetch:
        return fields.bytes, None
    offsets = operation.offsets if operation.offsets else (0,) * (fields.rank - 2)
    walk = traverse(fields, operation.coordinates, offsets)
    places = fields.address + walk.offsets[walk.inside]
    beyond = places[places + fields.unit_bytes > limit]
    if len(beyond):
        beat = int(beyond[0]) & 0xFFFFFFFF & -state.cfg.axi_bytes
        return 0, (ErrorCode.AXI_WRITE if operation.store else ErrorCode.AXI_READ, beat, 0)
    if operation.store:
        store_tensor(state.memory, state.shared, fields, operation.coordinates, operation.shared_address, operation.reduction)
    else:
        load_tensor(state.memory, state.shared, fields, operation.coordinates, operation.shared_address, offsets)
    return fields.bytes, None
