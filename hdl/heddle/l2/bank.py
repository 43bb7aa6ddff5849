"""Bank of the L2, between the cores and one AXI master."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import LINE_BYTES
from ..interfaces.layouts import MemoryPort
from ..lib.stream import Queue, link
from ..parameters.l2 import L2Parameters
from .access import L2Access
from .layouts import L2Sizes, line_ack_layout, line_answer_layout, line_part_layout, line_read_layout
from .lookup import L2Lookup, line_access_layout
from .write_path import L2WritePath

__all__ = ["L2Bank"]


class L2Bank(Component):
    """Bank of the L2: look-up stage, access stage and write path for the lines of one bank.

    ``L2Lookup`` decides, ``L2Access`` performs the accesses in the same order, and ``L2WritePath`` holds the written beats. Requests to
    memory have tag 0, so memory answers in the order of the requests. At most ``L2Sizes.reads`` reads and ``L2Sizes.writes`` writes of
    lines are outstanding.

    Parameters
    ----------
    cfg : L2Parameters

    *Ports*:
    number : In(bank)
        Number of the bank; constant.
    i_read : In(stream of line_read_layout(cfg))
        Reads and prefetches of the cores.
    i_write : In(stream of line_part_layout(cfg))
        Announcements and beats of writes; items of one line are contiguous.
    o_answer : Out(stream of line_answer_layout(cfg))
        Read data, in the order of ``i_read``.
    o_ack : Out(stream of line_ack_layout(cfg), always ready)
        One acknowledgement per written line, in the order of ``i_write``.
    memory : Out(MemoryPort(cfg, cfg.axi_id_bits))
        Port to the AXI master.
    invalidate : In(1)
        Drop all lines; later requests miss.
    busy : Out(1)
        A look-up, an access or a write is in flight.
    event_hit, event_miss, event_eviction : Out(1)
        Events of the look-up stage, registered.

    *Latency*: 1 cycle from a read that misses to ``memory.read_request``. An announced plain write that finds the write path empty
    reaches ``memory.write_request`` in the same cycle. 2 cycles from a beat of ``memory.read_data`` to ``o_answer``.

    *Throughput*: one line looked up, one beat read and one beat written per cycle.

    *Back-pressure*: as ``L2Lookup`` for ``i_read`` and ``L2WritePath`` for ``i_write``. ``memory.read_data`` waits for its access, and
    thereby for ``o_answer.ready``.

    *Reset*: drops all requests in flight; the tags are invalidated in ``L2Sizes.sets`` cycles.

    *Errors*: any error of memory, of a read or of a write, drops all lines of the bank. So no beat remains that memory does not have.

    *Source*: docs/units/l2.md.
    """

    def __init__(self, cfg):
        cfg = L2Parameters.of(cfg)
        self.cfg, self.sizes = cfg, L2Sizes(cfg)
        super().__init__({
            "number": In(max(self.sizes.bank_bits, 1)),
            "i_read": In(stream.Signature(line_read_layout(cfg))), "i_write": In(stream.Signature(line_part_layout(cfg))),
            "o_answer": Out(stream.Signature(line_answer_layout(cfg))),
            "o_ack": Out(stream.Signature(line_ack_layout(cfg), always_ready=True)),
            "memory": Out(MemoryPort(cfg, cfg.axi_id_bits)),
            "invalidate": In(1), "busy": Out(1), "event_hit": Out(1), "event_miss": Out(1), "event_eviction": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        cfg, memory = self.cfg, self.memory
        m.submodules.lookup = lookup = L2Lookup(cfg)
        m.submodules.access = access = L2Access(cfg)
        m.submodules.writer = writer = L2WritePath(cfg)
        m.submodules.accesses = accesses = Queue(line_access_layout(cfg), self.sizes.reads)
        for source, sink in ((self.i_read, lookup.i_read), (self.i_write, writer.i), (writer.o_lookup, lookup.i_write),
                             (lookup.o_write, writer.i_line), (lookup.o_access, accesses.i), (accesses.o, access.i_access),
                             (memory.read_data, access.i_fill), (access.o_answer, self.o_answer),
                             (writer.o_data, memory.write_data), (memory.write_response, writer.i_response), (writer.o_ack, self.o_ack)):
            link(m, source, sink)
        if cfg.reductions:
            link(m, writer.o_beat, access.i_beat)
            link(m, access.o_reduced, writer.i_reduced)
            m.d.comb += writer.reducing.eq(access.reducing)
        for request, burst in ((memory.read_request, lookup.o_fill), (memory.write_request, writer.o_burst)):
            self._request(m, request, burst)

        refused = Signal()
        m.d.sync += refused.eq(writer.o_ack.valid & writer.o_ack.payload.error)
        m.d.comb += [
            lookup.answered.eq(writer.o_ack.valid), lookup.clear.eq(self.invalidate | access.failed | refused),
            self.busy.eq(lookup.busy | writer.busy | (accesses.level != 0)),
        ]
        for name in ("hit", "miss", "eviction"):
            m.d.comb += getattr(self, f"event_{name}").eq(getattr(lookup, f"event_{name}"))
        return m

    def _request(self, m, request, burst):
        """Convert a burst within a line to a request with a byte address."""
        part = burst.payload
        m.d.comb += [
            request.valid.eq(burst.valid), burst.ready.eq(request.ready),
            request.payload.address.eq(self._address(part.line) | (part.first << exact_log2(self.cfg.axi_bytes))),
            request.payload.beats_minus_one.eq(part.beats_minus_one),
        ]

    def _address(self, line):
        return Cat(Const(0, exact_log2(LINE_BYTES)), self.number[:self.sizes.bank_bits], line)
