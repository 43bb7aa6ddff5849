"""Store engine of the TMAU: reads shared memory and writes bursts to global memory."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out, connect, flipped
from amaranth.utils import exact_log2

from ..interfaces.layouts import (
    PC_BITS,
    SharedReadPort,
    barrier_arrival_layout,
    error_layout,
    write_data_layout,
    write_request_layout,
    write_response_layout,
)
from ..isa.error_codes import ErrorCode
from ..lib.stream import Queue, link
from ..parameters.tmau import TmauParameters
from .beat_reader import BeatReader
from .beat_requester import BeatRequester
from .burst_request import request_burst
from .layouts import burst_layout
from .transaction_table import TransactionTable

__all__ = ["READ_CYCLES", "StoreEngine"]

READ_CYCLES = 3     # from a burst to its first read request: two of the queue of bursts, one of the beat generator
BURSTS_AHEAD = 3    # bursts with a request whose beats are not yet read


class StoreEngine(Component):
    """Store engine of the TMAU: writes bursts of shared memory to global memory, with ``cfg.axi_writes`` bursts outstanding at most
    [S1.9].

    The tag is the entry of the transaction table. Bytes of the first and last beat that do not belong to the transfer have no strobe. A
    burst outside the tensor has neither request nor beats.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i_burst : In(stream.Signature(burst_layout(cfg)))
        Bursts to write.
    write_request : Out(stream.Signature(write_request_layout(cfg, cfg.tag_bits)))
        Write requests to global memory.
    write_data : Out(stream.Signature(write_data_layout(cfg)))
        Write data, in the order of the requests. Registered.
    write_response : In(stream.Signature(write_response_layout(cfg.tag_bits)))
        Write responses of global memory, in any order of the tags.
    bank_read : Out(SharedReadPort(cfg))
        Reads of shared memory.
    o_moved : Out(stream.Signature(barrier_arrival_layout))
        Barrier update: bytes of each burst that was read from shared memory. Registered.
    o_failure : Out(stream.Signature(error_layout))
        AXI_WRITE; held until accepted.
    completed : Out(1), with ``cfg.tensors`` Out(2)
        All responses of a transfer were received; bit 0 for blocks, bit 1 for a tensor.
    read : Out(2)
        All words of a transfer came from shared memory; bits as ``completed``. Only with ``cfg.tensors``.
    busy : Out(1)
        A burst or a barrier update is in flight.

    *Latency*: 1 cycle from ``i_burst`` to ``write_request``, 0 with ``cfg.tensors``. ``READ_CYCLES`` (3) cycles from ``i_burst`` to its
    first read request. 4 cycles from the last answer of a beat to ``write_data``. 3 cycles from a response to ``completed``.

    *Throughput*: one burst request and one beat per cycle, without bubbles between bursts, while both memories are ready.

    *Back-pressure*: ``i_burst.ready`` depends on free entries of the transaction table and of a queue of ``BURSTS_AHEAD`` (3) bursts.
    Without ``cfg.tensors`` it also depends combinationally on ``write_request.ready``. ``write_response.ready`` depends on
    ``o_failure.ready``.

    *Reset*: drops all bursts; memory must be reset in the same cycle. The first burst is accepted ``cfg.axi_writes`` cycles later.

    *Errors*: AXI_WRITE, operand = byte address of the burst, once for each burst.

    *Source*: [S1.9], docs/units/tmau.md.
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
        super().__init__({
            "i_burst": In(stream.Signature(burst_layout(cfg))),
            "write_request": Out(stream.Signature(write_request_layout(cfg, cfg.tag_bits))),
            "write_data": Out(stream.Signature(write_data_layout(cfg))),
            "write_response": In(stream.Signature(write_response_layout(cfg.tag_bits))),
            "bank_read": Out(SharedReadPort(cfg)),
            "o_moved": Out(stream.Signature(barrier_arrival_layout)),
            "o_failure": Out(stream.Signature(error_layout)),
            "completed": Out(1 + cfg.tensors),
            "busy": Out(1),
        } | ({"read": Out(2)} if cfg.tensors else {}))

    def elaborate(self, platform):
        m = Module()
        m.submodules.slots = slots = TransactionTable(self.cfg.axi_writes, 1 + self.cfg.tensors)
        m.submodules.bursts = bursts = Queue(burst_layout(self.cfg), BURSTS_AHEAD)
        m.submodules.requester = requester = BeatRequester(self.cfg)
        m.submodules.reader = reader = BeatReader(self.cfg)
        burst = self.i_burst.payload
        outside = burst.outside if self.cfg.tensors else 0
        free = request_burst(m, self.cfg, self.write_request, burst, slots.index, slots.take & ~outside)
        m.d.comb += [
            self.i_burst.ready.eq(free & slots.free & bursts.i.ready),
            slots.take.eq(self.i_burst.valid & self.i_burst.ready),
            slots.ends_transfer.eq(burst.ends_transfer << burst.of_tensor if self.cfg.tensors else burst.ends_transfer),
            bursts.i.valid.eq(slots.take),
            bursts.i.payload.eq(burst),
            self.completed.eq(slots.completed),
            # A burst outside the tensor leaves the table before its beat updates the barrier.
            self.busy.eq(slots.busy | (bursts.level != 0) | requester.o.valid | self.o_moved.valid),
        ]
        if self.cfg.tensors:
            m.d.comb += self.read.eq(reader.read)
        link(m, bursts.o, requester.i)
        link(m, requester.o, reader.i)
        link(m, reader.o, self.write_data)
        link(m, reader.o_moved, self.o_moved)
        connect(m, reader.bank_read, flipped(self.bank_read))
        self._responses(m, slots, slots.take & outside)
        return m

    def _responses(self, m, slots, outside):
        """Release the transaction of each response after its error was reported, and that of a burst outside the tensor."""
        layout = data.StructLayout({"beat_address": burst_layout(self.cfg)["beat_address"].shape, "pc": PC_BITS})
        sources = Memory(shape=layout, depth=self.cfg.axi_writes, init=[], attrs={"no_rw_check": 1})
        m.submodules.sources = sources
        write = sources.write_port()
        read = sources.read_port(domain="comb")
        source = Signal(layout, reset_less=True)
        valid = Signal()
        response = Signal(write_response_layout(self.cfg.tag_bits), reset_less=True)
        leaves = Signal()
        skipped, skipped_index = Signal(), Signal.like(slots.index)
        burst = self.i_burst.payload
        if self.cfg.tensors:
            m.d.sync += [skipped.eq(outside), skipped_index.eq(slots.index)]
        m.d.comb += [
            write.addr.eq(slots.index),
            write.en.eq(slots.take),
            write.data.beat_address.eq(burst.beat_address),
            write.data.pc.eq(burst.pc),
            read.addr.eq(self.write_response.payload.tag),
            leaves.eq(valid & ~skipped & (~response.error | self.o_failure.ready)),
            self.write_response.ready.eq(~valid | leaves),
            self.o_failure.valid.eq(valid & ~skipped & response.error),
            self.o_failure.payload.code.eq(ErrorCode.AXI_WRITE),
            self.o_failure.payload.pc.eq(source.pc),
            self.o_failure.payload.operand.eq(source.beat_address << exact_log2(self.cfg.axi_bytes)),
            slots.finish.eq(leaves | skipped),
            slots.finish_index.eq(Mux(skipped, skipped_index, response.tag)),
        ]
        with m.If(self.write_response.ready):
            m.d.sync += [valid.eq(self.write_response.valid), response.eq(self.write_response.payload), source.eq(read.data)]
