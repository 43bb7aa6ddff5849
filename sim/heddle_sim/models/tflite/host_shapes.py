"""TFLite's operators that move elements, on the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
    value = call.raw(2).ravel()[0] if call.has(2) else _zero(call)
    return [np.pad(call.raw(0), call.pairs(1), constant_values=value)]


def _mirror_pad(call: HostCall) -> list[np.ndarray]:
    return [np.pad(call.raw(0), call.pairs(1), mode="symmetric" if call.get("mode") else "reflect")]


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
    x, places, axis, batch = call.raw(0), call.raw(1), call.get("axis"), call.get("batch_dims")
    shape = x.shape[:batch]
    pairs = zip(x.reshape(-1, *x.shape[batch:]), places.reshape(-1, *places.shape[batch:]))
    taken = np.stack([np.take(one, at, axis=axis - batch if axis >= 0 else axis) for one, at in pairs])
    return [taken.reshape(*shape, *taken.shape[1:])]


def _shape(call: HostCall) -> list[np.ndarray]:
    return [np.array(call.raw(0).shape, call.result().dtype)]


def _argument(call: HostCall, function: Callable[..., np.ndarray]) -> list[np.ndarray]:
    return [function(call.raw(0), axis=call.integers(1)[0]).astype(call.result().dtype)]


def _reverse(call: HostCall) -> list[np.ndarray]:
    return [np.flip(call.raw(0), call.integers(1))]


def _tile(call: HostCall) -> list[np.ndarray]:
    return [np.tile(call.raw(0), call.integers(1))]


def _split_places(array: np.ndarray, block: Sequence[int]) -> np.ndarray:
    """Axes from 1 on, as many as ``block`` has, in two: blocks, and the place within one; the places come in front."""
    count = len(block)
    sizes = [part for length, size in zip(array.shape[1:], block) for part in (length // size, size)]
    split = array.reshape(array.shape[0], *sizes, *array.shape[1 + count:])
    rest = range(1 + 2 * count, split.ndim)
    return split.transpose(*range(2, 2 + 2 * count, 2), 0, *range(1, 1 + 2 * count, 2), *rest)


def _joined_places(array: np.ndarray, count: int) -> np.ndarray:
    """``_split_places`` backwards: ``count`` places in front go back into the axes behind the next one."""
    order = [count, *(axis for number in range(count) for axis in (count + 1 + number, number)), *range(1 + 2 * count, array.ndim)]
    moved = array.transpose(order)
    sizes = [moved.shape[axis] * moved.shape[axis + 1] for axis in range(1, 1 + 2 * count, 2)]
    return moved.reshape(moved.shape[0], *sizes, *moved.shape[1 + 2 * count:])


def _space_to_batch(call: HostCall) -> list[np.ndarray]:
    x, pads = call.raw(0), call.pairs(2)
    padded = np.pad(x, [(0, 0), *pads, *[(0, 0)] * (x.ndim - 1 - len(pads))], constant_values=_zero(call))
    return [_split_places(padded, call.integers(1)).reshape(call.result().shape)]


def _batch_to_space(call: HostCall) -> list[np.ndarray]:
    x, block = call.raw(0), call.integers(1)
    whole = _joined_places(x.reshape(*block, -1, *x.shape[1:]), len(block))
    return [whole[(slice(None), *(slice(before, whole.shape[axis] - behind) for axis, (before, behind) in enumerate(call.pairs(2), 1)))]]


def _space_to_depth(call: HostCall) -> list[np.ndarray]:
    places = _split_places(call.raw(0), (call.get("block_size"),) * 2)      # (row, column, batch, rows, columns, channels)
    return [places.transpose(2, 3, 4, 0, 1, 5).reshape(call.result().shape)]


def _depth_to_space(call: HostCall) -> list[np.ndarray]:
    x, size = call.raw(0), call.get("block_size")
    return [_joined_places(x.reshape(*x.shape[:3], size, size, -1).transpose(3, 4, 0, 1, 2, 5), 2)]


def _greatest(call: HostCall) -> list[np.ndarray]:
    x, count = call.raw(0), call.integers(1)[0]
    order = np.argsort(-call.real(0), axis=-1, kind="stable")[..., :count]
    return [np.take_along_axis(x, order, axis=-1), order.astype(call.result(1).dtype)]


def _one_hot(call: HostCall) -> list[np.ndarray]:
    depth, axis = call.integers(1)[0], call.get("axis")
    hot = np.moveaxis(call.raw(0)[..., None] == np.arange(depth), -1, axis)
    return [np.where(hot, call.raw(2), call.raw(3))]


SHAPES: dict[str, Handler] = {
    "RESHAPE": _reshape, "SQUEEZE": _reshape, "EXPAND_DIMS": _reshape, "TRANSPOSE": _transpose, "PAD": _pad, "PADV2": _pad,
    "MIRROR_PAD": _mirror_pad, "CONCATENATION": _concatenation, "SPLIT": _split, "SPLIT_V": _split_v, "SLICE": _slice,
    "STRIDED_SLICE": _strided_slice, "PACK": _pack, "UNPACK": _unpack, "GATHER": _gather, "SHAPE": _shape, "REVERSE_V2": _reverse,
    "TILE": _tile, "ARG_MAX": lambda call: _argument(call, np.argmax), "ARG_MIN": lambda call: _argument(call, np.argmin),
    "SPACE_TO_BATCH_ND": _space_to_batch, "BATCH_TO_SPACE_ND": _batch_to_space, "SPACE_TO_DEPTH": _space_to_depth,
    "DEPTH_TO_SPACE": _depth_to_space, "TOPK_V2": _greatest, "ONE_HOT": _one_hot,
    "GATHER_ND": lambda call: [call.raw(0)[tuple(np.moveaxis(call.raw(1), -1, 0))]],
    "FILL": lambda call: [np.full(call.integers(0), call.raw(1))],
    "RANGE": lambda call: [np.arange(*(call.raw(index).item() for index in range(3)), dtype=call.result().dtype)],
    "BROADCAST_TO": lambda call: [np.broadcast_to(call.raw(0), call.integers(1))],
    "ZEROS_LIKE": lambda call: [np.zeros_like(call.raw(0))], "RANK": lambda call: [np.array(call.raw(0).ndim, call.result().dtype)]}
