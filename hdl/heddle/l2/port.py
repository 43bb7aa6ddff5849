"""Port of one core to the L2: splits bursts into lines and restores the order of the answers."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..interfaces.layouts import GlobalPort
from ..isa.encoding import Reduction
from ..lib.stream import Queue
from ..parameters.l2 import L2Parameters
from .layouts import L2Sizes, line_ack_layout, line_answer_layout, line_part_layout, line_read_layout

__all__ = ["L2Port"]

WRITES_WAITING = 9      # write requests queued before their data, which follow some cycles later; enough for short bursts


class L2Port(Component):
    """Port of one core to the L2: splits bursts at line boundaries, routes each part to its bank, and restores the order of the
    answers.

    Reads and writes are split independently. A plain write whose first beat is not yet valid is announced to the bank of its line.
    Answers of reads and responses of writes are each in the order of their requests.

    Parameters
    ----------
    cfg : L2Parameters

    *Ports*:
    core : In(cfg.core_bits)
        Number of the core; constant.
    client : In(GlobalPort(cfg, cfg.axi_id_bits))
        Global port of the core.
    o_read : Out(stream of line_read_layout(cfg))
        Reads and prefetches, one line each.
    read_bank : Out(bank)
        Bank of ``o_read``.
    o_write : Out(stream of line_part_layout(cfg))
        Announcements and beats of writes.
    write_bank : Out(bank)
        Bank of ``o_write``.
    i_answer : In(stream of line_answer_layout(cfg)).array(banks)
        Read data of each bank.
    i_ack : In(stream of line_ack_layout(cfg), always ready).array(banks)
        Acknowledgements of each bank.
    busy : Out(1)
        A request is not split completely, or its last answer is outstanding.

    *Latency*: 0 cycles from ``client.read_request`` to ``o_read`` for the first line; 1 cycle from ``client.write_request`` to
    ``o_write``. 0 cycles from ``i_answer`` to ``client.read_data``; acknowledgements pass a queue of 2 or 3 cycles.

    *Throughput*: one line of reads, one beat of writes, one beat of read data and one response per cycle.

    *Back-pressure*: ``client.read_request.ready`` depends on registers only. ``client.write_data.ready`` depends combinationally on
    ``o_write.ready``. ``client.read_data.valid`` depends on ``i_answer.valid`` of the oldest part, whose ``ready`` depends on
    ``client.read_data.ready``. ``WRITES_WAITING`` (9) write requests may be queued before their data. At most 2 * ``L2Sizes.reads``
    (``writes``) parts are outstanding. ``i_ack`` is always ready, so a write of one bank never waits for another bank.

    *Reset*: drops all requests and outstanding answers.

    *Source*: [S1.9], docs/units/l2.md.
    """

    def __init__(self, cfg):
        cfg = L2Parameters.of(cfg)
        self.cfg, self.sizes = cfg, L2Sizes(cfg)
        banks = self.sizes.banks
        super().__init__({
            "core": In(cfg.core_bits),
            "client": In(GlobalPort(cfg, cfg.axi_id_bits)),
            "o_read": Out(stream.Signature(line_read_layout(cfg))), "read_bank": Out(max(self.sizes.bank_bits, 1)),
            "o_write": Out(stream.Signature(line_part_layout(cfg))), "write_bank": Out(max(self.sizes.bank_bits, 1)),
            "i_answer": In(stream.Signature(line_answer_layout(cfg))).array(banks),
            "i_ack": In(stream.Signature(line_ack_layout(cfg), always_ready=True)).array(banks),
            "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        order = data.StructLayout({"bank": self.sizes.bank_bits, "tag": self.cfg.axi_id_bits, "last": 1})
        reading, writing = (Signal(name=name) for name in ("reading", "writing"))
        m.submodules.read_order = read_order = Queue(order, 2 * self.sizes.reads)
        m.submodules.write_order = write_order = Queue(order, 2 * self.sizes.writes)
        self._reads(m, read_order, reading)
        self._writes(m, write_order, writing)
        self._answers(m, read_order)
        self._acks(m, write_order)
        queues = m.submodules.waiting, read_order, write_order
        m.d.comb += self.busy.eq(reading | writing | Cat(queue.level != 0 for queue in queues).any())
        return m

    def _split(self, place):
        """Line number within its bank, bank, and beat number within the line, of the beat address ``place``."""
        beat_bits, bank_bits = self.sizes.beat_bits, self.sizes.bank_bits
        line = place[beat_bits:]
        return line[bank_bits:], line[:bank_bits] if bank_bits else Const(0, 0), place[:beat_bits]

    def _reads(self, m, order, valid):
        """Split the request at the port, or the rest of an earlier one."""
        out, requests, low = self.o_read, self.client.read_request, exact_log2(self.cfg.axi_bytes)
        ends, taken = (Signal(name=f"read_{name}") for name in ("ends", "taken"))
        request, rest = (Signal(requests.payload.shape(), name=f"read_{name}", reset_less=True) for name in ("request", "rest"))
        line, bank, first = self._split(request.address[low:])
        room = Signal(self.sizes.beat_bits, name="read_room")       # beats of the line after the first one
        m.d.comb += [
            requests.ready.eq(~valid), request.eq(Mux(valid, rest, requests.payload)),
            room.eq(~first), ends.eq(request.beats_minus_one <= room),
            out.valid.eq((valid | requests.valid) & order.i.ready),
            out.payload.line.eq(line), self.read_bank.eq(bank), out.payload.core.eq(self.core), out.payload.first.eq(first),
            out.payload.last.eq(Mux(ends, first + request.beats_minus_one, ~Const(0, self.sizes.beat_bits))),
            out.payload.prefetch.eq(request.prefetch),
            taken.eq(out.valid & out.ready),
            order.i.valid.eq(taken & ~request.prefetch),
            order.i.payload.bank.eq(bank), order.i.payload.tag.eq(request.tag), order.i.payload.last.eq(ends),
        ]
        m.d.sync += [valid.eq((valid | requests.valid) & ~(taken & ends)), rest.eq(request)]
        with m.If(taken):
            m.d.sync += [rest.address[low:].eq(request.address[low:] + room + 1),
                         rest.beats_minus_one.eq(request.beats_minus_one - room - 1)]

    def _writes(self, m, order, valid):
        out, requests, beats = self.o_write, self.client.write_request, self.client.write_data
        ends, taken, last = (Signal(name=f"write_{name}") for name in ("ends", "taken", "last"))
        begins = Signal(init=1)
        request = Signal(requests.payload.shape(), name="write_request", reset_less=True)
        place = request.address[exact_log2(self.cfg.axi_bytes):]
        line, bank, beat = self._split(place)
        announces = self._announces(m, request, begins, valid & order.i.ready)
        m.d.comb += [
            last.eq(request.beats_minus_one == 0), ends.eq(last | beat.all()),
            out.valid.eq(valid & (beats.valid | announces) & order.i.ready), out.payload.announces.eq(announces),
            out.payload.last.eq(Mux(request.beats_minus_one <= ~beat, beat + request.beats_minus_one, ~Const(0, self.sizes.beat_bits))),
            beats.ready.eq(valid & out.ready & order.i.ready & ~announces), taken.eq(beats.valid & beats.ready),
            out.payload.line.eq(line), self.write_bank.eq(bank), out.payload.core.eq(self.core), out.payload.beat.eq(beat),
            out.payload.begins.eq(begins), out.payload.ends.eq(ends & ~announces),
            out.payload.data.eq(beats.payload.data), out.payload.strobe.eq(beats.payload.strobe),
            order.i.valid.eq(taken & ends),
            order.i.payload.bank.eq(bank), order.i.payload.tag.eq(request.tag), order.i.payload.last.eq(last),
        ]
        if self.cfg.reductions:
            m.d.comb += [out.payload.reduction.eq(request.reduction), out.payload.format.eq(request.format)]
        with m.If(taken):
            m.d.sync += [begins.eq(ends), place.eq(place + 1), request.beats_minus_one.eq(request.beats_minus_one - 1)]
        self._next_write(m, requests, valid, request, ~valid | (taken & last))

    def _next_write(self, m, requests, valid, request, free):
        """Load the request register: the oldest queued request, or the request at the port."""
        m.submodules.waiting = waiting = Queue(requests.payload.shape(), WRITES_WAITING)
        direct = Signal(name="write_direct")
        m.d.comb += [
            direct.eq(free & (waiting.level == 0)), requests.ready.eq(waiting.i.ready),
            waiting.i.valid.eq(requests.valid & ~direct), waiting.i.payload.eq(requests.payload), waiting.o.ready.eq(free),
        ]
        with m.If(free):
            m.d.sync += [valid.eq(waiting.o.valid | (direct & requests.valid)),
                         request.eq(Mux(waiting.o.valid, waiting.o.payload, requests.payload))]

    def _announces(self, m, request, begins, allowed):
        """Whether ``o_write`` is an announcement: the line of a plain write, once, while its first beat is not valid.

        An announcement that was offered stays valid until accepted.
        """
        announces, announced, offered = Signal(), Signal(), Signal()
        plain = request.reduction == Reduction.NONE if self.cfg.reductions else 1
        m.d.comb += announces.eq(offered | (allowed & plain & begins & ~announced & ~self.client.write_data.valid))
        m.d.sync += offered.eq(announces & ~self.o_write.ready)
        with m.If(announces & self.o_write.ready):
            m.d.sync += announced.eq(1)
        with m.If(~announces & self.client.write_data.valid & self.client.write_data.ready):
            m.d.sync += announced.eq(0)
        return announces

    def _chosen(self, m, name, streams, bank, shape):
        """``valid`` and payload of the stream with number ``bank``."""
        valid, payload = Signal(name=f"{name}_valid"), Signal(shape, name=f"{name}_chosen")
        with m.Switch(bank):
            for number, port in enumerate(streams):
                with m.Case(number):
                    m.d.comb += [valid.eq(port.valid), payload.eq(port.payload)]
        return valid, payload

    def _answers(self, m, order):
        out, oldest = self.client.read_data, order.o.payload
        valid, beat = self._chosen(m, "answer", self.i_answer, oldest.bank, line_answer_layout(self.cfg))
        m.d.comb += [
            out.valid.eq(order.o.valid & valid), order.o.ready.eq(out.valid & out.ready & beat.ends),
            out.payload.data.eq(beat.data), out.payload.error.eq(beat.error), out.payload.tag.eq(oldest.tag),
            out.payload.last.eq(beat.ends & oldest.last),
        ]
        for number, port in enumerate(self.i_answer):
            m.d.comb += port.ready.eq(out.ready & order.o.valid & (oldest.bank == number))

    def _acks(self, m, order):
        """Responses of bursts, each after the last of its lines. The queues hold the acknowledgements of all outstanding writes."""
        out, oldest = self.client.write_response, order.o.payload
        queues = []
        for number, port in enumerate(self.i_ack):
            m.submodules[f"acks_{number}"] = queue = Queue(1, 2 * self.sizes.writes)
            m.d.comb += [queue.i.valid.eq(port.valid), queue.i.payload.eq(port.payload.error)]
            queues.append(queue)
        valid, error = self._chosen(m, "ack", [queue.o for queue in queues], oldest.bank, 1)
        taken, failed = Signal(name="ack_taken"), Signal()
        m.d.comb += [
            out.valid.eq(order.o.valid & valid & oldest.last), out.payload.tag.eq(oldest.tag), out.payload.error.eq(error | failed),
            taken.eq(order.o.valid & valid & (~oldest.last | out.ready)), order.o.ready.eq(taken),
        ]
        for number, queue in enumerate(queues):
            m.d.comb += queue.o.ready.eq(taken & (oldest.bank == number))
        with m.If(taken):
            m.d.sync += failed.eq((failed | error) & ~oldest.last)
