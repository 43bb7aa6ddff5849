"""TFLite's operators that move elements, on the host."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .host_call import HostCall

__all__ = ["SHAPES"]

Handler = Callable[[HostCall], list[np.ndarray]]


def _reshape(call: HostCall) -> list[np.ndarray]:
    return [call.raw(0).reshape(call.result().shape)]


def _transpose(call: HostCall) -> list[np.ndarray]:
    return [call.raw(0).transpose(call.integers(1))]


def _zero(call: HostCall) -> int:
    """What a real zero is stored as."""
    quantisation = call.tensor(0).quantisation
    return 0 if quantisation is None else int(quantisation.zero_point[0])


def _pad(call: HostCall) -> list[np.ndarray]:
    pads = [(int(before), int(after)) for before, after in call.raw(1)]
    value = call.raw(2).ravel()[0] if call.has(2) else _zero(call)
    return [np.pad(call.raw(0), pads, constant_values=value)]


def _mirror_pad(call: HostCall) -> list[np.ndarray]:
    pads = [(int(before), int(after)) for before, after in call.raw(1)]
    return [np.pad(call.raw(0), pads, mode="symmetric" if call.get("mode") else "reflect")]


def _concatenation(call: HostCall) -> list[np.ndarray]:
    result = call.result()
    parts = []
    for index in range(len(call)):
        own, wanted = call.tensor(index).quantisation, result.quantisation
        same = own is None or wanted is None or (own.scale[0] == wanted.scale[0] and own.zero_point[0] == wanted.zero_point[0])
        parts.append(call.raw(index) if same else call.quantise(call.real(index)))
    return [np.concatenate(parts, axis=call.get("axis"))]


def _split(call: HostCall) -> list[np.ndarray]:
    return list(np.split(call.raw(1), len(call.node.outputs), axis=call.integers(0)[0]))


def _split_v(call: HostCall) -> list[np.ndarray]:
    x, axis = call.raw(0), call.integers(2)[0]
    sizes = list(call.integers(1))
    if -1 in sizes:
        sizes[sizes.index(-1)] = x.shape[axis] - sum(size for size in sizes if size >= 0)
    return list(np.split(x, np.cumsum(sizes)[:-1], axis=axis))


def _slice(call: HostCall) -> list[np.ndarray]:
    sizes = zip(call.integers(1), call.integers(2))
    return [call.raw(0)[tuple(slice(begin, None if size < 0 else begin + size) for begin, size in sizes)]]


def _strided_slice(call: HostCall) -> list[np.ndarray]:
    parts: list[slice | int] = []
    for axis, (begin, end, step) in enumerate(zip(*(call.integers(index) for index in (1, 2, 3)))):
        if call.get("shrink_axis_mask") >> axis & 1:
            parts.append(begin)
            continue
        last = None if call.get("end_mask") >> axis & 1 else begin + end if call.get("offset") else end
        parts.append(slice(None if call.get("begin_mask") >> axis & 1 else begin, last, step))
    return [call.raw(0)[tuple(parts)].reshape(call.result().shape)]


def _pack(call: HostCall) -> list[np.ndarray]:
    return [np.stack([call.raw(index) for index in range(len(call))], axis=call.get("axis"))]


def _unpack(call: HostCall) -> list[np.ndarray]:
    return [np.take(call.raw(0), index, axis=call.get("axis")) for index in range(len(call.node.outputs))]


def _gather(call: HostCall) -> list[np.ndarray]:
    return [np.take(call.raw(0), call.raw(1), axis=call.get("axis"))]


def _shape(call: HostCall) -> list[np.ndarray]:
    return [np.array(call.raw(0).shape, call.result().dtype)]


def _argument(call: HostCall, function: Callable[..., np.ndarray]) -> list[np.ndarray]:
    return [function(call.raw(0), axis=call.integers(1)[0]).astype(call.result().dtype)]


def _reverse(call: HostCall) -> list[np.ndarray]:
    return [np.flip(call.raw(0), call.integers(1))]


def _tile(call: HostCall) -> list[np.ndarray]:
    return [np.tile(call.raw(0), call.integers(1))]


SHAPES: dict[str, Handler] = {
    "RESHAPE": _reshape, "SQUEEZE": _reshape, "EXPAND_DIMS": _reshape, "TRANSPOSE": _transpose, "PAD": _pad, "PADV2": _pad,
    "MIRROR_PAD": _mirror_pad, "CONCATENATION": _concatenation, "SPLIT": _split, "SPLIT_V": _split_v, "SLICE": _slice,
    "STRIDED_SLICE": _strided_slice, "PACK": _pack, "UNPACK": _unpack, "GATHER": _gather, "SHAPE": _shape, "REVERSE_V2": _reverse,
    "TILE": _tile, "ARG_MAX": lambda call: _argument(call, np.argmax), "ARG_MIN": lambda call: _argument(call, np.argmin)}
