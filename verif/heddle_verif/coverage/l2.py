"""Coverage of the L2: requests of each kind and length, reductions of each format, and what its banks do with lines."""

from heddle.constants import LINE_BYTES
from heddle.isa.encoding import Reduction
from heddle.isa.tensor_descriptor import TensorFormat
from heddle.isa.tensor_rules import REDUCTION_FORMATS

from .model import Exclusion, Group

__all__ = ["EVENT", "REQUEST", "sample_events", "sample_request"]

REDUCTIONS = tuple(reduction.name for reduction in REDUCTION_FORMATS)
FORMATS = tuple(format.name for format in TensorFormat)
REDUCED = {format.name for formats in REDUCTION_FORMATS.values() for format in formats}
ENABLED = ("all", "some", "none")

REQUEST = Group(
    "l2.request", "A request that the L2 has answered, or a prefetch that it was given, in its bench.",
    {"kind": ("read", "prefetch", "write", "reduction"), "lines": ("part of a line", "a line", "several lines"), "enabled": ENABLED,
     "reduction": REDUCTIONS, "format": FORMATS, "end": ("done", "error")},
    crosses=[("kind", "lines"), ("kind", "enabled"), ("kind", "end"), ("kind", "lines", "end"), ("reduction", "format"),
             ("reduction", "enabled"), ("reduction", "lines")],
    exclude=[
        Exclusion("it has no data", kind=("read", "prefetch"), enabled=ENABLED),
        Exclusion("it has no answer", kind="prefetch", end=("done", "error")),
        Exclusion("no reduction of this format", format=[name for name in FORMATS if name not in REDUCED]),
        *(Exclusion("no such reduction of this format", reduction=reduction.name,
                    format=[format.name for format in TensorFormat if format not in formats])
          for reduction, formats in REDUCTION_FORMATS.items() if len(formats) < len(TensorFormat))])

EVENT = Group(
    "l2.event", "A cycle in which banks of the L2 find a line, miss one, or put one out, in its bench.",
    {"event": ("hit", "miss", "eviction"), "banks": ("one", "several")}, crosses=[("event", "banks")])


def sample_request(kind, address, nbytes, *, enabled=None, reduction=Reduction.NONE, format=None, error=None):
    """Count a request: ``kind`` as in the group; ``enabled``: bool [nbytes] of a write; ``error``: whether its answer had one, or None."""
    reduces = reduction is not Reduction.NONE
    lines = (address + nbytes - 1) // LINE_BYTES - address // LINE_BYTES + 1
    REQUEST.sample(
        kind="reduction" if reduces else kind,
        lines="several lines" if lines > 1 else "a line" if nbytes == LINE_BYTES else "part of a line",
        enabled=None if enabled is None else "all" if enabled.all() else "some" if enabled.any() else "none",
        reduction=reduction.name if reduces else None, format=format.name if reduces else None,
        end=None if error is None else "error" if error else "done")


def sample_events(counts):
    """Count the events of a cycle: number of banks by event."""
    for event, banks in counts.items():
        if banks:
            EVENT.sample(event=event, banks="one" if banks == 1 else "several")
