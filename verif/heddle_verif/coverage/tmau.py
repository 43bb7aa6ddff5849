"""Coverage of the TMAU: copies of blocks and of tensors, with their modes, swizzles, bounds and strides."""

import numpy as np
from heddle.interfaces.layouts import CopyKind
from heddle.isa.encoding import Reduction, Space, Swizzle
from heddle.isa.tensor_descriptor import FLOAT_FORMATS, Fill, Interleave, TensorFormat, TensorMode
from heddle.isa.tensor_rules import REDUCTION_FORMATS
from heddle_sim.golden.tensor_traversal import traverse

from .model import Exclusion, Group

__all__ = ["BLOCKS", "TENSORS", "bounds_of", "sample_block", "sample_tensor"]

DIRECTIONS = ("load", "store", "within shared memory", "within global memory", "prefetch")
SWIZZLES = [swizzle.name for swizzle in Swizzle]
REDUCTIONS = [reduction.name for reduction in Reduction]
FORMATS = [format.name for format in TensorFormat]
SPAN, BURST = 128, 512      # bytes: the longest pattern of a swizzle, a burst
_INTEGERS = [format.name for format in TensorFormat if format not in FLOAT_FORMATS]
_NEVER_REDUCED = [format.name for format in TensorFormat if not any(format in kinds for kinds in REDUCTION_FORMATS.values())]
_REDUCING = [reduction for reduction in REDUCTIONS if reduction != "NONE"]

BLOCKS = Group(
    "tmau.blocks", "A copy of blocks that the unit has taken, in its bench.",
    {"direction": DIRECTIONS, "swizzle": SWIZZLES, "size": ("0", "1", "2 to 32", "more than a burst"),
     "shared_place": ("at a span", "inside a span"), "global_place": ("at a burst", "inside a burst", "crosses bursts"),
     "barrier": ("with", "without"), "reduction": REDUCTIONS, "format": FORMATS,
     "end": ("done", "UNSUPPORTED", "MISALIGNED", "OUT_OF_RANGE", "TENSOR_REDUCTION")},
    crosses=[("direction", "swizzle", "shared_place"), ("direction", "size", "barrier"), ("direction", "size", "global_place"),
             ("direction", "end"), ("direction", "reduction"), ("reduction", "format")],
    exclude=[
        Exclusion("copies within a memory and prefetches have no swizzle", direction=DIRECTIONS[2:], swizzle=SWIZZLES[1:]),
        Exclusion("it has no place in shared memory", direction=DIRECTIONS[3:], shared_place=("at a span", "inside a span")),
        Exclusion("it has no place in global memory", direction="within shared memory",
                  global_place=("at a burst", "inside a burst", "crosses bursts")),
        Exclusion("no blocks, or one, cross nothing", size=("0", "1"), global_place="crosses bursts"),
        Exclusion("what is longer than a burst crosses one", size="more than a burst", global_place=("at a burst", "inside a burst")),
        Exclusion("a prefetch tells no barrier", direction="prefetch", barrier="with"),
        Exclusion("neither loads nor prefetches reduce", direction=("load", "prefetch"), reduction=_REDUCING),
        Exclusion("a prefetch has no field for it", direction="prefetch", reduction="NONE"),
        Exclusion("only a reduction can be a pair that does not exist", direction=("load", "prefetch"), end="TENSOR_REDUCTION"),
        Exclusion("without a reduction the format does not count", reduction="NONE", format=FORMATS),
        Exclusion("nothing reduces elements of this format", format=_NEVER_REDUCED),
        *(Exclusion("the pair is none of the published ones", reduction=reduction.name,
                    format=[format.name for format in TensorFormat if format not in formats])
          for reduction, formats in REDUCTION_FORMATS.items())])

TENSORS = Group(
    "tmau.tensors", "A copy of a tensor that breaks no rule, in the bench of the TMAU or on devices.",
    {"direction": ("load", "store", "reduction"), "mode": [mode.name.lower() for mode in TensorMode], "rank": [str(n) for n in range(1, 6)],
     "swizzle": SWIZZLES, "interleave": [kind.name for kind in Interleave], "bounds": (
         "inside", "below", "above", "both ends", "outside"),
     "stride": ("every element", "some left out"), "fill": [fill.name.lower() for fill in Fill],
     "format": [kind.name for kind in TensorFormat], "reduction": REDUCTIONS, "offsets": ("none", "some")},
    crosses=[("mode", "rank", "direction"), ("mode", "rank", "swizzle"), ("mode", "rank", "bounds"), ("mode", "rank", "stride"),
             ("mode", "swizzle", "bounds"), ("mode", "stride", "bounds"), ("mode", "interleave", "direction"),
             ("interleave", "swizzle"), ("interleave", "bounds"), ("fill", "bounds"), ("fill", "format"), ("format", "direction"),
             ("mode", "reduction"), ("mode", "offsets"), ("direction", "bounds"), ("direction", "swizzle")],
    exclude=[
        Exclusion("im2col has at least three dimensions", mode="im2col", rank=("1", "2")),
        Exclusion("interleave 32B goes with swizzle 32B", interleave="B32", swizzle=("NONE", "B64", "B128")),
        Exclusion("integers have no NaN", fill="nan", format=_INTEGERS),
        Exclusion("a coordinate of a store is at least 0", direction=("store", "reduction"), bounds=("below", "both ends")),
        Exclusion("the innermost dimension has no stride, and there is no other", rank="1", stride="some left out"),
        Exclusion("tiles have no offsets", mode="tile", offsets=("none", "some")),
        Exclusion("nothing reduces elements of this format", direction="reduction", format=_NEVER_REDUCED)])


def _number(field):
    return getattr(field, "value", field)


def _direction(operation):
    if _number(operation.kind) == CopyKind.PREFETCH_BLOCK.value:
        return "prefetch"
    if operation.source_space == operation.destination_space:
        return "within shared memory" if operation.source_space == Space.SHARED else "within global memory"
    return "load" if operation.destination_space == Space.SHARED else "store"


def sample_block(operation, error):
    """Count a copy of blocks; ``error`` is the name of the error code that its checks give, or None."""
    direction, size = _direction(operation), 16 * operation.blocks
    shared, memory = {"load": (operation.destination, operation.source), "store": (operation.source, operation.destination),
                      "within shared memory": (operation.destination, None), "within global memory": (None, operation.destination),
                      "prefetch": (None, operation.source)}[direction]
    prefetch, reduction = direction == "prefetch", "NONE" if error else Reduction(_number(operation.reduction)).name
    crosses = memory is not None and operation.blocks > 1 and memory // BURST != (memory + size - 1) // BURST
    BLOCKS.sample(
        direction=direction, swizzle=None if error or prefetch else Swizzle(_number(operation.swizzle)).name,
        size=None if error else str(operation.blocks) if operation.blocks < 2 else "2 to 32" if size <= BURST else "more than a burst",
        shared_place=None if error or shared is None else "inside a span" if shared % SPAN else "at a span",
        global_place=None if error or memory is None else "crosses bursts" if crosses else "inside a burst" if memory % BURST
        else "at a burst",
        barrier=None if error else "with" if operation.has_barrier and not prefetch else "without",
        reduction=None if error or prefetch else reduction,
        format=None if reduction == "NONE" else TensorFormat(_number(operation.format)).name, end=error or "done")


def bounds_of(fields, request):
    """Where a box lies: inside of its tensor, beyond an end of some dimension or beyond both ends, or with no element inside."""
    walk = traverse(fields, request.coordinates, request.offsets)
    if walk.inside.all():
        return "inside"
    if not walk.inside.any():
        return "outside"
    below, above = (walk.positions < 0).any(), (walk.positions >= np.array(fields.sizes, np.int64)).any()
    return "both ends" if below and above else "below" if below else "above"


def sample_tensor(fields, request):
    """Count a request that breaks no rule, with the fields of its descriptor."""
    pixels, reduction = fields.mode == TensorMode.IM2COL, Reduction(request.reduction).name
    TENSORS.sample(
        direction="load" if not request.store else "store" if reduction == "NONE" else "reduction",
        mode=TensorMode(fields.mode).name.lower(), rank=str(fields.rank), swizzle=Swizzle(fields.swizzle).name,
        interleave=Interleave(fields.interleave).name,
        bounds=bounds_of(fields, request),
        stride="some left out" if any(step > 1 for step in fields.element_strides[1:]) else "every element",
        fill=Fill(fields.fill).name.lower(), format=TensorFormat(fields.format).name, reduction=reduction,
        offsets=None if not pixels else "some" if any(request.offsets) else "none")
