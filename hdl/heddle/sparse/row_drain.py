"""Row drain: sums of rows, from the PEs to the result writer."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, Signature
from amaranth.utils import exact_log2

from ..lib.delay import Stages
from ..lib.stream import Queue
from ..parameters.sparse import SparseParameters
from .layouts import ROWS_INSIDE, SUMS_BITS, drain_entry_layout, result_layout

__all__ = ["RowDrain", "SumsPort"]

PANELS_INSIDE = 16      # ends of panels beside the rows, far more than jobs


def SumsPort(cfg):
    """Reads of the sums of a group of eight PEs, seen from the reader.

    *Ports*:
    read : Out(1)
        Reads the accumulators ``number`` of all taps, of the PEs of ``group``.
    number : Out(4)
        Accumulator.
    group : Out(range(thread_groups))
        Group of PEs.
    sums : In(32).array(thread_slots, 4)
        Sums of each PE, ``register_read_latency`` cycles after ``read``.
    """
    return Signature({
        "read": Out(1), "number": Out(SUMS_BITS), "group": Out(range(cfg.thread_groups)), "sums": In(32).array(cfg.thread_slots, 4),
    })


class RowDrain(Component):
    """Row drain: reads the sums of each row when they are in the register files, eight PEs a cycle, and queues them for shared memory.

    Parameters
    ----------
    cfg : SparseParameters

    *Ports*:
    i : In(stream.Signature(drain_entry_layout(cfg), always_ready=True))
        Rows in the cycle of their last step; at most ``ROWS_INSIDE`` (16) of them are outstanding.
    sums : Out(SumsPort(cfg))
        Reads of the sums.
    drained : Out(1)
        The last sums of the oldest row are read.
    o : Out(stream.Signature(result_layout(cfg)))
        Sums of eight PEs, for one row of shared memory.
    busy : Out(1)
        A row is outstanding, or sums have not left.

    *Latency*: ``engine_sum_latency`` cycles from ``i`` to the first ``sums.read``; from there ``register_read_latency`` and 2 cycles to
    ``o``.

    *Throughput*: eight PEs a cycle.

    *Back-pressure*: sums are read while the queue has room for them.

    *Reset*: no row is outstanding.
    """

    def __init__(self, cfg):
        self.cfg = cfg = SparseParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(drain_entry_layout(cfg), always_ready=True)), "sums": Out(SumsPort(cfg)), "drained": Out(1),
            "o": Out(stream.Signature(result_layout(cfg))), "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        cfg, sums = self.cfg, self.sums
        latency, groups = cfg.register_read_latency, cfg.thread_groups
        depth = latency + 6         # the loop of a place: read, queue, writer
        m.submodules.rows = rows = Queue(drain_entry_layout(cfg), ROWS_INSIDE + PANELS_INSIDE, registered=False)
        m.submodules.results = results = Queue(result_layout(cfg), depth)
        ripe, waiting, used = Signal(range(rows.depth + 1)), Signal(), Signal(range(depth + 1))
        group, issues, ends = Signal(range(groups)), Signal(), Signal()
        bits = exact_log2(groups)
        strip, within = Signal.like(rows.o.payload.output), Signal(bits)    # distance from the first strip; mask of a strip's groups
        entry, arrives = rows.o.payload, Stages(m, self.i.valid, "arrives", reset=True)[cfg.engine_sum_latency - 1]
        m.d.comb += [
            rows.i.valid.eq(self.i.valid), rows.i.payload.eq(self.i.payload),
            waiting.eq(ripe != 0), issues.eq(waiting & (used != depth)), ends.eq(issues & (entry.empty | (group == groups - 1))),
            rows.o.ready.eq(ends), sums.read.eq(issues & ~entry.empty), sums.number.eq(entry.sums), sums.group.eq(group),
            self.drained.eq(ends & ~entry.empty),
        ]
        m.d.sync += [
            ripe.eq(ripe + arrives - ends), used.eq(used + issues - (self.o.valid & self.o.ready)),
        ]
        with m.If(issues):
            m.d.sync += group.eq(group + 1)
            with m.If((group & within) == within):
                m.d.sync += strip.eq(strip + entry.stride)
        with m.If(ends):
            m.d.sync += [group.eq(0), strip.eq(0)]
        given = Signal(result_layout(cfg), name="given")
        m.d.comb += [
            given.empty.eq(entry.empty), given.ends.eq(entry.ends & ends), given.scaled.eq(entry.scaled), given.group.eq(group),
            within.eq(groups - 1 >> entry.strips), given.output.eq(entry.output + strip + (group & within)),
        ]
        head = {name: Stages(m, given[name], name)[latency] for name in ("empty", "ends", "scaled", "group", "output")}
        m.d.comb += [
            results.i.valid.eq(Stages(m, issues, "issues", reset=True)[latency]),
            *(results.i.payload[name].eq(value) for name, value in head.items()),
            *(results.i.payload.data[slot].word_select(tap, 32).eq(value)
              for slot, taps in enumerate(sums.sums) for tap, value in enumerate(taps)),
            self.o.valid.eq(results.o.valid), self.o.payload.eq(results.o.payload), results.o.ready.eq(self.o.ready),
            self.busy.eq((rows.level != 0) | (used != 0) | self.i.valid),
        ]
        return m
