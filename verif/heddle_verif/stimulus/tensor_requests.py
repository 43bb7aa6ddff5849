"""Random tensors, boxes and requests for benches, mostly near the borders of the tensor."""

from dataclasses import replace

import numpy as np
from heddle.isa.encoding import Reduction, Swizzle
from heddle.isa.tensor_descriptor import (
    FLOAT_FORMATS,
    FORMAT_BYTES,
    INTERLEAVE_BYTES,
    MAX_RANK,
    MAX_SPATIAL,
    SWIZZLE_BYTES,
    Fill,
    Interleave,
    TensorFormat,
    TensorMode,
)
from heddle.isa.tensor_rules import COORDINATE_OFFSET_BITS, REDUCTION_FORMATS
from heddle.tmau.box_walk import FAR, LOOPS, place_bits
from heddle_sim.golden.tensor_checks import TensorRequest
from heddle_sim.golden.tensor_fields import TensorFields
from heddle_sim.golden.tensor_traversal import traverse

__all__ = ["NEVER", "box_of", "broken", "legal_cases", "random_fields", "random_request", "request_members", "rows_of", "walk_of"]

NEVER = FAR - 1     # rows left in a loop that does not end


def walk_of(cfg, fields, request):
    """The payload that setup makes of a request, without the row's own place."""
    mask = (1 << place_bits(cfg)) - 1
    pixels = fields.mode == TensorMode.IM2COL
    offsets = (0, *request.offsets, 0)
    loops, starts, restarts = [], [], []
    for d in range(LOOPS):
        if d >= fields.rank or (d == 0 and fields.interleave == Interleave.NONE):
            loops.append({"position": 0, "rest": 0, "left": 1, "restart": 0, "restart_rest": 0, "restart_left": 1, "step": 1,
                          "step_blocks": 0})
            starts.append(0)
            restarts.append(0)
            continue
        images, channels = pixels and d == fields.rank - 1, pixels and d == 0
        step, blocks = 1 if channels else fields.steps[d], fields.byte_strides[d] >> 4
        position = restart = request.coordinates[d] + (offsets[d] if pixels else 0)
        left = restart_left = NEVER if images else fields.channels_per_pixel if channels else 0 if pixels else fields.box[d]
        if pixels and not images and not channels:
            lower, upper = fields.lower_corner[d - 1], fields.upper_corner[d - 1]
            restart, end = lower + offsets[d], fields.sizes[d] + upper + offsets[d]
            left, restart_left = end - position, end - restart
        last = fields.sizes[d] - 1
        loops.append({"position": _near(position), "rest": _near(last - position), "left": min(left, NEVER), "restart": _near(restart),
                      "restart_rest": _near(last - restart), "restart_left": min(restart_left, NEVER), "step": step,
                      "step_blocks": step * blocks & mask})
        starts.append(position * blocks)
        restarts.append(restart * blocks)
    base = fields.address >> 4
    for d, loop in enumerate(loops):
        loop["place"] = base + sum(restarts[:d]) + sum(starts[d:]) & mask
    inside = all(loop["position"] >= 0 and loop["rest"] >= 0 for loop in loops)
    return {"loop": loops, "inside": int(inside), "pixels": int(pixels), "pixels_minus_one": fields.pixels_per_column - 1 if pixels else 0}


def _near(distance):
    return min(max(distance, -FAR), FAR - 1)


def rows_of(cfg, fields, request):
    """Rows by the golden traversal: (place, inside)."""
    slices = fields.interleave != Interleave.NONE
    walk = traverse(fields, request.coordinates if slices else (0, *request.coordinates[1:]), request.offsets)
    first = 0 if slices else 1      # dimension that loops
    channels = 1 if slices else fields.counts[0] if fields.mode == TensorMode.TILE else fields.channels_per_pixel
    positions = walk.positions[::channels, first:].astype(object)
    inside = ((positions >= 0) & (positions < np.array(fields.sizes[first:], object))).all(axis=1)
    blocks = np.array([stride >> 4 for stride in fields.byte_strides[first:]], object)
    places = positions @ blocks if fields.rank > first else np.zeros(len(positions))
    mask = (1 << place_bits(cfg)) - 1
    return [((int(place) + (fields.address >> 4)) & mask, bool(ok)) for place, ok in zip(places, inside)]


def box_of(cfg, fields, request):
    """What setup makes of a legal request, without what it only hands on."""
    if fields.interleave == Interleave.NONE:
        start, nbytes, pitch = request.coordinates[0] * fields.unit_bytes, fields.row_bytes, fields.row_pitch
        left = min(max(-start, 0), nbytes)
        end = min(max(fields.sizes[0] * fields.unit_bytes - start, 0), nbytes)
    else:
        start, left = 0, 0
        nbytes = pitch = end = fields.unit_bytes
    walk = walk_of(cfg, fields, request)
    for loop in walk["loop"]:
        loop["place"] = loop["place"] + (start >> 4) & (1 << cfg.axi_address_bits - 4) - 1
    return {"walk": walk, "row_blocks": nbytes // 16, "pitch_blocks": pitch // 16, "left_blocks": left // 16,
            "inside_end": -(-max(end, left) // 16), "missing_bytes": -end % 16,
            "shared_block": request.shared_address // 16, "bytes": fields.bytes, "swizzle": fields.swizzle.value, "format": fields.format,
            "fill": fields.fill, "store": int(request.store), "reduction": request.reduction}


def _row(rng, nbytes, swizzle):
    """Elements of a row of at most 256 bytes that fits the span of the swizzle."""
    most = 256 if swizzle == Swizzle.NONE else SWIZZLE_BYTES[swizzle.value]
    return 16 * int(rng.choice([1, 2, 4, most // 16, rng.integers(1, most // 16 + 1)])) // nbytes


def random_fields(rng, cfg, mode=None, formats=None, max_rows=300, memory_bytes=1 << 20):
    """A legal descriptor whose tensor lies in the first ``memory_bytes`` of global memory.

    Few-row boxes and small tensors, so that most boxes reach beyond a border.
    """
    mode = mode or TensorMode(int(rng.integers(2)))
    format = TensorFormat(int(rng.choice([kind.value for kind in formats or TensorFormat])))
    nbytes = FORMAT_BYTES[format]
    swizzle = Swizzle(int(rng.integers(4)))
    fill = Fill(int(rng.integers(2))) if format in FLOAT_FORMATS else Fill.ZERO
    while True:
        rank = int(rng.integers(1 if mode == TensorMode.TILE else 3, 6))
        if rank > 2 and rng.random() < 0.25:
            fields = _slices(rng, mode, format, fill, rank)
            if fields.rows * fields.row_bytes <= 16 * max_rows and fields.tensor_bytes <= memory_bytes:
                return _somewhere(rng, fields, memory_bytes)
            continue
        row = _row(rng, nbytes, swizzle)
        sizes = (max(1, row + int(rng.integers(-row, row + 3))), *(int(size) for size in rng.integers(1, 12, rank - 1)))
        strides, pitch = [], -(-sizes[0] * nbytes // 16) * 16
        for size in sizes[1:]:
            strides.append(pitch + 16 * int(rng.integers(0, 3)))
            pitch = strides[-1] * size
        steps = (1, *(int(step) if rng.random() < 0.5 else 1 for step in rng.integers(1, 9, rank - 1)))
        common = {"mode": mode, "format": format, "sizes": sizes, "strides": tuple(strides), "element_strides": steps, "swizzle": swizzle,
                  "fill": fill}
        if mode == TensorMode.TILE:
            fields = TensorFields(**common, box=(row, *(int(size) for size in rng.integers(1, 14, rank - 1))))
        else:
            fields = _pixels(rng, common, row)
        if fields is not None and fields.rows <= max_rows and fields.tensor_bytes <= memory_bytes:
            return _somewhere(rng, fields, memory_bytes)


def _somewhere(rng, fields, memory_bytes):
    """The tensor at a random place in the first ``memory_bytes``."""
    return replace(fields, address=32 * int(rng.integers(0, (memory_bytes - fields.tensor_bytes) // 32 + 1))
                   + (16 if fields.interleave != Interleave.B32 and rng.random() < 0.5 and fields.tensor_bytes < memory_bytes - 64 else 0))


def _slices(rng, mode, format, fill, rank):
    """Channels in slices; memory has (images, slices, spatial axes, channels of a slice)."""
    interleave = Interleave(int(rng.integers(1, 3)))
    spatial = [int(size) for size in rng.integers(1, 7, rank - 2)]
    slices, images = (int(size) for size in rng.integers(1, 5, 2))
    pitches = [INTERLEAVE_BYTES[interleave]]
    for size in spatial:
        pitches.append(pitches[-1] * size + 32 * int(rng.integers(0, 2)))
    common = {
        "mode": mode, "format": format, "fill": fill, "interleave": interleave, "sizes": (slices, *spatial, images),
        "strides": (pitches[-1], *pitches[1:-1], pitches[-1] * slices),
        "swizzle": Swizzle.B32 if interleave == Interleave.B32 else Swizzle(int(rng.integers(4))),
        "element_strides": tuple(int(step) for step in rng.integers(1, 3, rank)),
    }
    fields = _pixels(rng, common, int(rng.integers(1, 4))) if mode == TensorMode.IM2COL else None
    if fields is None:
        fields = TensorFields(**{**common, "mode": TensorMode.TILE}, box=tuple(int(size) for size in rng.integers(1, 5, rank)))
    return fields


def _pixels(rng, common, channels):
    spatial = len(common["sizes"]) - 2
    lower, upper = (tuple(int(value) for value in rng.integers(-3, 3, spatial)) for _ in range(2))
    if any(size + high - low < 1 for size, low, high in zip(common["sizes"][1:], lower, upper)):
        return None
    return TensorFields(**common, lower_corner=lower, upper_corner=upper, channels_per_pixel=channels,
                        pixels_per_column=int(rng.integers(1, 100)))


def random_request(rng, cfg, fields, store=False, reductions=True):
    """A legal request for ``fields`` with its box somewhere in shared memory."""
    nbytes = fields.unit_bytes
    first = int(rng.integers(-1, 2 + fields.sizes[0] * nbytes // 16)) * max(1, 16 // nbytes)
    coordinates = [first]
    offsets = ()
    if fields.mode == TensorMode.TILE:
        coordinates += [int(rng.integers(-box, size + 2)) if rng.random() < 0.9 else int(rng.integers(-1 << 31, 1 << 31))
                        for size, box in zip(fields.sizes[1:], fields.box[1:])]
    else:
        spatial = fields.rank - 2
        coordinates += [int(rng.integers(low, size + high))
                        for size, low, high in zip(fields.sizes[1:], fields.lower_corner, fields.upper_corner)]
        coordinates.append(int(rng.integers(-1, fields.sizes[-1] + 1)))
        limit = 1 << COORDINATE_OFFSET_BITS[spatial]
        offsets = tuple(0 if store else int(rng.integers(0, 4 if rng.random() < 0.9 else limit)) for _ in range(spatial))
    if store:
        coordinates = [max(0, value) for value in coordinates]
    legal = [reduction for reduction, kinds in REDUCTION_FORMATS.items() if fields.format in kinds]
    legal += [reduction for reduction in legal if reduction in (Reduction.INC, Reduction.DEC)] * 4      # of one format only
    reduction = legal[int(rng.integers(len(legal)))] if store and reductions and legal and rng.random() < 0.5 else Reduction.NONE
    room = max(0, cfg.shared_bytes - fields.room) // 128
    return TensorRequest(coordinates=tuple(coordinates), shared_address=128 * int(rng.integers(0, room + 1)), mode=fields.mode,
                         offsets=offsets, store=store, reduction=reduction)


def request_members(request, **rest):
    """The members of ``tensor_request_layout`` and ``tensor_operation_layout`` that say what a request wants; ``rest`` has the others."""
    return {
        "coordinates": [*request.coordinates, *[0] * (MAX_RANK - len(request.coordinates))],
        "offsets": [*request.offsets, *[0] * (MAX_SPATIAL - len(request.offsets))],
        "shared_address": request.shared_address, "mode": request.mode, "rank_minus_one": len(request.coordinates) - 1,
        "store": int(request.store), "reduction": request.reduction, **rest,
    }


def legal_cases(rng, cfg, count, store=False, **options):
    """(fields, request) of ``count`` legal requests whose boxes fit shared memory; ``options`` are those of ``random_fields``."""
    cases = []
    while len(cases) < count:
        fields = random_fields(rng, cfg, **options)
        if fields.room <= cfg.shared_bytes:
            cases.append((fields, random_request(rng, cfg, fields, store=store)))
    return cases


def broken(rng, fields, request):
    """The same with one or two values that may break a rule, and a few that hardly do."""
    for _ in range(int(rng.integers(1, 3))):
        fields, request = _change(rng, fields, request)
    return fields, request


def _change(rng, fields, request):
    def one_of(values, index, value):
        return (*values[:index], value, *values[index + 1:])

    nbytes, spatial = min(16, fields.unit_bytes), max(0, fields.rank - 2)
    dimension, place = int(rng.integers(fields.rank)), int(rng.integers(max(1, spatial)))
    wild = int(rng.integers(-40, 40))
    corner = int(rng.choice([wild, -129, 128, -17, 16]))
    pixels = fields.mode == TensorMode.IM2COL
    far = int(rng.choice([-1 << 31, (1 << 31) - 64, int(rng.integers(-1 << 27, 1 << 27)) * 16]))
    steep = 1 << int(rng.integers(20, 40))
    changes = [
        lambda: (replace(fields, fill=Fill.NAN), request),
        lambda: (replace(fields, address=fields.address + int(rng.choice([1, 2, 4, 8, 16, 1 << 32]))), request),
        lambda: (replace(fields, swizzle=Swizzle(int(rng.integers(4)))), request),
        lambda: (replace(fields, format=TensorFormat(int(rng.integers(13)))), request),
        lambda: (replace(fields, interleave=Interleave(int(rng.integers(3)))), request),
        lambda: (replace(fields, address=(1 << 32) - 32 * int(rng.integers(1, 64))), request),
        lambda: (replace(fields, sizes=one_of(fields.sizes, dimension, 1 << int(rng.integers(4, 33)))), request),
        lambda: (replace(fields, strides=one_of(fields.strides, dimension - 1, fields.strides[dimension - 1] | steep))
                 if dimension else fields, request),
        lambda: (fields, replace(request, coordinates=one_of(request.coordinates, dimension % len(request.coordinates), far))),
        lambda: (fields, replace(request, descriptor=int(rng.choice([1, 32, 64, 4096, 1 << 31, (1 << 32) - 64])))),
        lambda: (fields, replace(request, mode=TensorMode(int(rng.integers(2))))),
        lambda: (fields, replace(request, coordinates=(*request.coordinates, 0)[:int(rng.integers(1, 6))])),
        lambda: (fields, replace(request, coordinates=one_of(request.coordinates, dimension % len(request.coordinates), wild))),
        lambda: (fields, replace(request, coordinates=(16 // nbytes * wild, *request.coordinates[1:]), store=True)),
        lambda: (fields, replace(request, store=not request.store)),
        lambda: (fields, replace(request, reduction=Reduction(int(rng.integers(9))))),
        lambda: (fields, replace(request, shared_address=int(rng.choice([16, 64, 1 << 14, (1 << 14) - 128, (1 << 31) + 128])))),
    ]
    if pixels:
        changes += [
            lambda: (replace(fields, channels_per_pixel=int(rng.integers(1, 257))), request),
            lambda: (replace(fields, lower_corner=one_of(fields.lower_corner, place, corner)), request),
            lambda: (replace(fields, upper_corner=one_of(fields.upper_corner, place, corner)), request),
            lambda: (fields, replace(request, offsets=one_of(request.offsets, place, int(rng.choice([0, 31, 32, 255, 256, 65535]))))),
            lambda: (replace(fields, pixels_per_column=int(rng.integers(1, 1025))), request),
        ]
    else:
        changes += [
            lambda: (replace(fields, box=one_of(fields.box, dimension, int(rng.integers(1, 257)))), request),
            lambda: (replace(fields, box=(256, *fields.box[1:])), request),
        ]
    return changes[int(rng.integers(len(changes)))]()
