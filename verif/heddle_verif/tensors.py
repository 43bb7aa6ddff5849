"""Random tensors, boxes and requests for benches, mostly near the borders of the tensor."""

from heddle.isa.layout import Reduction, Swizzle
from heddle.tmau.descriptor import FLOAT_FORMATS, FORMAT_BYTES, SWIZZLE_BYTES, Fill, TensorFormat, TensorMode
from heddle.tmau.rules import COORDINATE_OFFSET_BITS
from heddle_sim.golden.reductions import REDUCTION_FORMATS
from heddle_sim.golden.tensor_checks import TensorRequest
from heddle_sim.golden.tensor_fields import TensorFields

__all__ = ["random_fields", "random_request"]


def _row(rng, nbytes, swizzle):
    """Elements of a row of at most 256 bytes that fits the span of the swizzle."""
    most = 256 if swizzle == Swizzle.NONE else SWIZZLE_BYTES[swizzle.value]
    return 16 * int(rng.choice([1, 2, 4, most // 16, rng.integers(1, most // 16 + 1)])) // nbytes


def random_fields(rng, cfg, mode=None, formats=None, max_rows=300, memory_bytes=1 << 20):
    """A legal descriptor without interleave whose tensor lies in the first ``memory_bytes`` of global memory.

    Few-row boxes and small tensors, so that most boxes reach beyond a border.
    """
    mode = mode or TensorMode(int(rng.integers(2)))
    format = TensorFormat(int(rng.choice([kind.value for kind in formats or TensorFormat])))
    nbytes = FORMAT_BYTES[format]
    swizzle = Swizzle(int(rng.integers(4)))
    fill = Fill(int(rng.integers(2))) if format in FLOAT_FORMATS else Fill.ZERO
    while True:
        rank = int(rng.integers(1 if mode == TensorMode.TILE else 3, 6))
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
            room = (memory_bytes - fields.tensor_bytes) // 16
            return TensorFields(**{**fields.__dict__, "address": 16 * int(rng.integers(0, room + 1))})


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
    first = 16 // nbytes * int(rng.integers(-1, 2 + fields.sizes[0] * nbytes // 16))
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
    reduction = legal[int(rng.integers(len(legal)))] if store and reductions and legal and rng.random() < 0.5 else Reduction.NONE
    room = max(0, cfg.shared_bytes - fields.bytes) // 128
    return TensorRequest(coordinates=tuple(coordinates), shared_address=128 * int(rng.integers(0, room + 1)), mode=fields.mode,
                         offsets=offsets, store=store, reduction=reduction)
