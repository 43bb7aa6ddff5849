"""Load engine of the TMAU: read bursts of global memory, written to shared memory."""

from amaranth.hdl import Const, Module, Mux
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..interfaces.layouts import (
    ErrorStream,
    SharedWritePort,
    barrier_arrival_layout,
    error_layout,
    read_data_layout,
    read_request_layout,
)
from ..parameters.tmau import TmauParameters
from .beat_writer import BeatWriter
from .burst_request import request_burst
from .layouts import burst_layout, multicast_beat_layout
from .multicast_port import MulticastPort
from .out_of_bounds_fill import OutOfBoundsFill
from .read_tracker import ReadTracker
from .transaction_table import TransactionTable

__all__ = ["WRITE_CYCLES", "LoadEngine"]

WRITE_CYCLES = 3        # from a beat of read data to its write request: two of the read tracker, one of the beat writer


class LoadEngine(Component):
    """Load engine of the TMAU: reads bursts of global memory into shared memory, with ``cfg.axi_reads`` bursts outstanding at most
    [S1.1].

    Answers may be in any order of the tags, interleaved beat by beat. The tag is the entry of the transaction table.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i_burst : In(stream.Signature(burst_layout(cfg)))
        Bursts to read.
    read_request : Out(stream.Signature(read_request_layout(cfg, cfg.tag_bits)))
        Read requests to global memory.
    read_data : In(stream.Signature(read_data_layout(cfg, cfg.tag_bits)))
        Read data of global memory.
    bank_write : Out(SharedWritePort(cfg))
        Writes of shared memory. Registered.
    o_moved : Out(stream.Signature(barrier_arrival_layout))
        Barrier update: bytes of each beat, with its acknowledgement or later.
    o_failure : Out(ErrorStream())
        AXI_READ for each beat with an error, in the order of the beats.
    completed : Out(1)
        All bytes of a transfer are written.
    prefetched : Out(1)
        All requests of a prefetch were accepted in the cycle before or wait in the request register. Only with ``cfg.prefetches``.
    o_multicast : Out(stream.Signature(multicast_beat_layout(cfg)))
        Beats for the cores in their mask. Only with ``cfg.multicast``.
    i_multicast : In(stream.Signature(multicast_beat_layout(cfg)))
        Beats of multicast loads for this core. Only with ``cfg.multicast``.
    o_multicast_failure : Out(stream.Signature(error_layout))
        AXI_READ for beats of multicast loads of this core. Only with ``cfg.multicast``.
    busy : Out(1)
        A burst, beat, barrier update or error is in flight.

    *Latency*: 1 cycle from ``i_burst`` to ``read_request``, 0 with ``cfg.tensors``. ``WRITE_CYCLES`` (3) cycles from a beat of
    ``read_data`` to its write request. 2 cycles from the acknowledgement of the last beat to ``completed``.

    *Throughput*: one burst request and one beat per cycle, without bubbles between bursts, while both memories are ready.

    *Back-pressure*: ``read_data.ready`` depends combinationally on ``bank_write.request.ready``: a bank conflict holds ``read_data``.
    ``i_burst.ready`` depends on free entries of the transaction table and, without ``cfg.tensors``, combinationally on
    ``read_request.ready``.

    *Reset*: drops all bursts; memory must be reset in the same cycle. The first burst is accepted ``cfg.axi_reads`` cycles later.

    *Errors*: AXI_READ, operand = byte address of the burst, once for each beat with an error; such a beat is not written but counted.

    *Source*: [S1.1], docs/units/tmau.md.
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
        super().__init__({
            "i_burst": In(stream.Signature(burst_layout(cfg))),
            "read_request": Out(stream.Signature(read_request_layout(cfg, cfg.tag_bits))),
            "read_data": In(stream.Signature(read_data_layout(cfg, cfg.tag_bits))),
            "bank_write": Out(SharedWritePort(cfg)),
            "o_moved": Out(stream.Signature(barrier_arrival_layout)),
            "o_failure": Out(ErrorStream()),
            "completed": Out(1),
            "busy": Out(1),
        } | ({"prefetched": Out(1)} if cfg.prefetches else {}) | ({
            "o_multicast": Out(stream.Signature(multicast_beat_layout(cfg))),
            "i_multicast": In(stream.Signature(multicast_beat_layout(cfg))),
            "o_multicast_failure": Out(stream.Signature(error_layout)),
        } if cfg.multicast else {}))

    def elaborate(self, platform):
        m = Module()
        m.submodules.slots = slots = TransactionTable(self.cfg.axi_reads)
        m.submodules.locator = locator = ReadTracker(self.cfg)
        located, requested, accepted = locator.o, 1, 1
        m.submodules.writer = writer = BeatWriter(self.cfg)
        burst = self.i_burst.payload
        prefetches = burst.prefetch if self.cfg.prefetches else Const(0)
        if self.cfg.tensors:
            m.submodules.fill = fill = OutOfBoundsFill(self.cfg)
            connect(m, locator.o, fill.i_beat)
            located, requested, accepted = fill.o, ~burst.outside, fill.i_burst.ready | ~burst.outside
            m.d.comb += [
                fill.i_burst.valid.eq(slots.take & burst.outside),
                fill.i_burst.payload.burst.eq(burst),
                fill.i_burst.payload.slot.eq(slots.index),
            ]
        located, shared_busy = self._share(m, located, slots, writer)
        taken = slots.take
        if self.cfg.prefetches:     # a prefetch has no answer and takes no entry of the transaction table
            taken = self.i_burst.valid & self.i_burst.ready
            m.d.sync += self.prefetched.eq(taken & prefetches & burst.ends_transfer)
        free = request_burst(m, self.cfg, self.read_request, burst, slots.index, taken & requested)
        m.d.comb += [
            self.i_burst.ready.eq(free & slots.free & accepted),
            slots.take.eq(self.i_burst.valid & self.i_burst.ready & ~prefetches),
            slots.ends_transfer.eq(burst.ends_transfer),
            locator.burst.eq(burst),
            locator.slot.eq(slots.index),
            locator.remember.eq(slots.take),
            locator.clearing.eq(slots.clearing),
            self.completed.eq(slots.completed),
            self.busy.eq(slots.busy | (self.read_request.valid | self.prefetched if self.cfg.prefetches else 0) | shared_busy),
        ]
        connect(m, flipped(self.read_data), locator.i)
        connect(m, located, writer.i)
        for name in ("bank_write", "o_moved", "o_failure"):
            connect(m, getattr(writer, name), flipped(getattr(self, name)))
        return m

    def _share(self, m, located, slots, writer):
        """Beats for this core, own and from other cores; returns them and whether beats of other cores are in flight."""
        if not self.cfg.multicast:
            m.d.comb += [slots.finish.eq(writer.finish), slots.finish_index.eq(writer.finish_index)]
            return located, Const(0)
        m.submodules.share = share = MulticastPort(self.cfg)
        connect(m, located, share.i_beat)
        for name, port in (("o_multicast", share.o_multicast), ("i_multicast", share.i_multicast),
                           ("o_multicast_failure", share.o_failure)):
            connect(m, flipped(getattr(self, name)), port)
        m.d.comb += [
            slots.finish.eq(writer.finish | share.finish), share.finish_taken.eq(~writer.finish),
            slots.finish_index.eq(Mux(writer.finish, writer.finish_index, share.finish_index)),
        ]
        return share.o_beat, share.busy | writer.busy
