"""Ports between the front end and the units of its core."""

from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, Signature

from ..constants import BARRIERS, PREDICATES, SEGMENTS, STORE_GROUPS, UNIFORM_REGISTERS
from ..isa.encoding import Space
from ..isa.error_codes import ErrorCode
from .control import UniformStream
from .layouts import PC_BITS
from .swizzle import swizzle_bits

__all__ = ["TILE_BITS", "BarrierOpenPort", "BarrierPort", "BarrierQueryPort", "RecurrentPort", "SegmentReadPort", "SegmentStream",
           "SparsePort", "StoreGroupPort", "ThreadMaskPort", "TilePort", "UniformReadPort", "UniformWritePort",
           "UnitStatusPort", "WaitPort", "recurrent_error_layout", "segment_layout", "segment_write_layout",
           "sparse_start_layout"]

SPARSE_JOBS = 4         # jobs of the sparse engine that are started and not done, at most
TILE_BITS = 32          # of the number of a tile
EXPECTED_BITS = 32      # of the bytes of a ``barrier.expect``


def segment_layout(cfg):
    """Entry of the segment table; ``swizzle`` is a ``swizzle_field``."""
    return data.StructLayout({"base": 32, "space": Space, "element_shift": 3, "swizzle": swizzle_bits(cfg)})


def segment_write_layout(cfg):
    return data.StructLayout({"index": range(SEGMENTS), "segment": segment_layout(cfg)})


# Error of a run of the engine. ``of_image``: the operand is the address of the image.
recurrent_error_layout = data.StructLayout({"failed": 1, "of_image": 1, "code": ErrorCode, "operand": 20})


def UniformReadPort():
    """Asynchronous read port of the uniform registers, seen from the reader.

    *Ports*:
    index : Out(range(UNIFORM_REGISTERS))
        Number of the register to read.
    value : In(32)
        The register, in the same cycle.
    """
    return Signature({"index": Out(range(UNIFORM_REGISTERS)), "value": In(32)})


def SegmentReadPort(cfg):
    """Asynchronous read port of the segment table, seen from the reader.

    *Ports*:
    index : Out(range(SEGMENTS))
        Number of the segment to read.
    value : In(segment_layout(cfg))
        The entry, in the same cycle: base address in bytes, space, and log2 of the bytes of an element.
    """
    return Signature({"index": Out(range(SEGMENTS)), "value": In(segment_layout(cfg))})


def SegmentStream(cfg):
    """Writes of the segment table; always ready."""
    return stream.Signature(segment_write_layout(cfg), always_ready=True)


def UniformWritePort(cfg):
    """Write-back of instructions that write uniform registers or segments, seen from the issue stage.

    A register between issue and the reader must take all three, as their distance in cycles is fixed.

    *Ports*:
    retires : Out(1)
        Such an instruction leaves issue, whether it writes or not.
    segment : Out(SegmentStream(cfg))
        Its write of a segment, in the same cycle.
    register : Out(UniformStream())
        Its write of a uniform register, one cycle later.
    """
    return Signature({"retires": Out(1), "segment": Out(SegmentStream(cfg)), "register": Out(UniformStream())})


def ThreadMaskPort(threads):
    """Masks of the threads, seen from the thread unit.

    *Ports*:
    predicates : Out(threads).array(PREDICATES)
        Bit t of ``predicates[p]`` is predicate p of thread t.
    lanes : Out(threads)
        Lane mask: bit t says whether thread t takes part.
    """
    return Signature({"predicates": Out(threads).array(PREDICATES), "lanes": Out(threads)})


def UnitStatusPort():
    """Work in flight of the units of a core, seen from the units.

    *Ports*:
    thread_done, matrix_done : Out(1)
        The oldest operation in flight of the unit has completed.
    thread_busy, matrix_busy, copy_busy : Out(1)
        The unit has operations in flight; ``wait`` and ``barrier.wait`` read them.
    writes_pending : Out(1)
        Stores of the thread unit to global memory are not acknowledged.
    """
    return Signature(dict.fromkeys(("thread_done", "matrix_done", "thread_busy", "matrix_busy", "copy_busy", "writes_pending"), Out(1)))


def BarrierOpenPort():
    """Copies that report to a barrier, seen from the issue stage.

    *Ports*:
    valid : Out(1)
        A copy that reports to ``barrier`` is dispatched in this cycle; not for a multicast. At most 15 copies of a barrier may be open.
    barrier : Out(4)
        Barrier of the copy.
    """
    return Signature({"valid": Out(1), "barrier": Out(range(BARRIERS))})


def BarrierQueryPort():
    """State of one barrier, seen from the reader.

    *Ports*:
    index : Out(4)
        Barrier that the other members refer to.
    asks : Out(1)
        A ``barrier.wait`` waits for the answers. Low for a cycle between two instructions.
    answered : In(1)
        With ``asks``: the answers are about this ``index``. They contain what was expected, opened and passed before ``asks`` rose.
    passed : Out(1)
        A ``barrier.wait`` leaves without an error: the round of barrier ``index`` ends. Only while ``complete``.
    complete : In(1)
        No copy of this core is in flight, the pending bytes are zero and neither ``excess`` nor its counterpart of announced bytes
        holds.
    overrun : In(1)
        More bytes arrived than were expected, or more than ``MOST_EXPECTED`` bytes were announced in this round.
    excess : In(1)
        More than ``MOST_EXPECTED`` bytes were expected in this round.
    """
    return Signature({
        "index": Out(range(BARRIERS)), "asks": Out(1), "answered": In(1), "passed": Out(1),
        "complete": In(1), "overrun": In(1), "excess": In(1),
    })


def BarrierPort():
    """Barriers of a core, seen from the issue stage.

    *Ports*:
    expect : Out(Signature({"valid": 1, "barrier": 4, "bytes": 32}))
        ``valid``: barrier ``barrier`` shall expect ``bytes`` more bytes.
    opened : Out(BarrierOpenPort())
        Copies that report to a barrier.
    index, asks, answered, passed, complete, overrun, excess
        Those of ``BarrierQueryPort``.
    """
    return Signature({
        "expect": Out(Signature({"valid": Out(1), "barrier": Out(range(BARRIERS)), "bytes": Out(EXPECTED_BITS)})),
        "opened": Out(BarrierOpenPort()), **BarrierQueryPort().members,
    })


def StoreGroupPort():
    """Groups of stores, seen from the issue stage.

    *Ports*:
    commit : Out(1)
        The stores since the last ``commit_group`` become a group.
    rows_busy : In(1)
        Rows of a copy are not yet at the TMAU.
    pending, unread : In(range(STORE_GROUPS + 1))
        Groups of stores that are not complete; that have not read all their data.
    """
    count = range(STORE_GROUPS + 1)
    return Signature({"commit": Out(1), "rows_busy": In(1), "pending": In(count), "unread": In(count)})


def RecurrentPort():
    """Runs of the recurrent engine, seen from the issue stage.

    *Ports*:
    start : Out(1)
        Starts the engine; high for one cycle.
    address : Out(32)
        Address of the image; read in the cycle with ``start``.
    busy : In(1)
        The engine runs; valid from the cycle after ``start``.
    error : In(recurrent_error_layout)
        Error of the run, one cycle after its end.
    """
    return Signature({"start": Out(1), "address": Out(32), "busy": In(1), "error": In(recurrent_error_layout)})


# Start of a job of the sparse engine: its address in shared memory, and the instruction that starts it, for errors.
sparse_start_layout = data.StructLayout({"address": 32, "pc": PC_BITS})


def SparsePort():
    """Jobs of the sparse engine, seen from the issue stage.

    *Ports*:
    job : Out(stream.Signature(sparse_start_layout))
        Jobs to do, in order. ``ready`` does not depend on ``valid``.
    left : In(range(SPARSE_JOBS + 1))
        Jobs that were taken and are not done; a job counts from the cycle after its transfer. A job is done when its results are in shared
        memory or in the factor register files.
    """
    return Signature({"job": Out(stream.Signature(sparse_start_layout)), "left": In(range(SPARSE_JOBS + 1))})


def TilePort():
    """Numbers of tiles, seen from the core that takes them.

    *Ports*:
    asks : Out(1)
        The core is done with its tile and asks for a number; high for one cycle. It asks again only after the answer.
    number : In(stream.Signature(TILE_BITS, always_ready=True))
        The answer.
    """
    return Signature({"asks": Out(1), "number": In(stream.Signature(TILE_BITS, always_ready=True))})


def WaitPort():
    """What a program waits for in this cycle, seen from the issue stage.

    *Ports*:
    copy, thread : Out(1)
        Issue or the issue queue waits for copies; for the thread unit.
    """
    return Signature({"copy": Out(1), "thread": Out(1)})
