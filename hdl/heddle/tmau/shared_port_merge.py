"""Merges of two requesters into one port of shared memory."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import Component, In, Out

from ..constants import BANKS
from ..interfaces.layouts import SharedReadPort, SharedWritePort
from ..lib.stream import Queue
from ..parameters.tmau import TmauParameters
from .layouts import WRITES_IN_FLIGHT, reads_in_flight

__all__ = ["ReadPortMerge", "WritePortMerge"]


def _join(m, ports, out, room):
    """Join the requests of two ``ports`` into ``out``; returns which of them have a part in the request at ``out``.

    The first port is always part of a new request. The second one is too unless they meet at a bank; with one line for all banks they
    always do. A request that waits at ``out`` keeps its parts. ``room``: a request may begin.
    """
    first, second = (port.request for port in ports)
    meets, parts, kept, waits = Signal(name="meets"), Signal(2, name="parts"), Signal(2, name="kept_parts"), Signal(name="waits")
    one_line = len(out.payload.row) == 1
    m.d.comb += [
        meets.eq(1 if one_line else (first.payload.bank & second.payload.bank).any()),
        parts.eq(Mux(waits, kept, Cat(first.valid, second.valid & ~(first.valid & meets)))),
        out.valid.eq(parts.any() & room),
        out.payload.bank.eq(Mux(parts[0], first.payload.bank, 0) | Mux(parts[1], second.payload.bank, 0)),
        *(port.request.ready.eq(part & room & out.ready) for port, part in zip(ports, parts, strict=True)),
    ]
    m.d.sync += [waits.eq(out.valid & ~out.ready), kept.eq(parts)]
    for name in ("row", "data", "mask"):
        for line in range(len(out.payload.row)) if name in out.payload.shape().members else ():
            of_first = parts[0] & (1 if one_line else ~(parts[1] & second.payload.bank[line]))
            m.d.comb += out.payload[name][line].eq(Mux(of_first, first.payload[name][line], second.payload[name][line]))
    return parts


class ReadPortMerge(Component):
    """Merge of two readers into one read port of shared memory: requests at different banks become one request.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i : In(SharedReadPort(cfg)).array(2)
        Readers; the first one goes before the second one at each bank.
    o : Out(SharedReadPort(cfg))
        Read port of shared memory.

    *Latency*: 0 cycles in both directions.

    *Throughput*: one request of each reader per cycle while their banks differ, else one of the first reader. A reader has its last
    answer when its own banks have come; the next request follows when all banks of both have granted.

    *Back-pressure*: ``i[n].request.ready`` depends combinationally on ``o.request.ready`` and on ``i[0].request``. At most
    ``reads_in_flight(cfg)`` requests wait for answers.

    *Reset*: drops the requests; shared memory must be reset in the same cycle.
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
        super().__init__({"i": In(SharedReadPort(cfg)).array(2), "o": Out(SharedReadPort(cfg))})

    def elaborate(self, platform):
        m = Module()
        layout, depth = data.ArrayLayout(BANKS, 2), reads_in_flight(self.cfg)       # banks of each reader
        m.submodules.requests = requests = Queue(layout, depth, registered=depth == 2)       # latency 1: the least of an answer
        parts = _join(m, self.i, self.o.request, requests.i.ready)
        answer, arrived = self.o.answer, Signal(BANKS)     # banks of the oldest request that earlier answers had
        m.d.comb += [
            requests.i.valid.eq(self.o.request.valid & self.o.request.ready), requests.o.ready.eq(answer.valid & answer.payload.last),
            *(banks.eq(Mux(part, port.request.payload.bank, 0))
              for banks, part, port in zip(requests.i.payload, parts, self.i, strict=True)),
        ]
        with m.If(answer.valid):
            m.d.sync += arrived.eq(Mux(answer.payload.last, 0, arrived | answer.payload.bank))
        for port, banks in zip(self.i, requests.o.payload, strict=True):
            own = answer.payload.bank & banks
            m.d.comb += [
                port.answer.valid.eq(answer.valid & own.any()), port.answer.payload.bank.eq(own),
                port.answer.payload.last.eq((banks & ~(arrived | answer.payload.bank)) == 0),
                port.answer.payload.data.eq(answer.payload.data),
            ]
        return m


class WritePortMerge(Component):
    """Merge of two writers into one write port of shared memory: requests at different banks become one request.

    With ``cfg.shared_writes`` 1 a request has one bank and belongs to one writer.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i : In(SharedWritePort(cfg)).array(2)
        Writers; the first one goes before the second one at each bank, with ``cfg.shared_writes`` 1 in each cycle.
    o : Out(SharedWritePort(cfg))
        Write port of shared memory.

    *Latency*: 0 cycles in both directions.

    *Throughput*: one request of each writer per cycle while their banks differ, else one of the first writer. Requests that became one
    are acknowledged together.

    *Back-pressure*: ``i[n].request.ready`` depends combinationally on ``o.request.ready`` and on ``i[0].request``. At most
    ``WRITES_IN_FLIGHT`` (2) requests wait for their acknowledgement.

    *Reset*: drops the requests; shared memory must be reset in the same cycle.
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
        super().__init__({"i": In(SharedWritePort(cfg)).array(2), "o": Out(SharedWritePort(cfg))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.requests = requests = Queue(2, WRITES_IN_FLIGHT)       # writers of each request
        parts = _join(m, self.i, self.o.request, requests.i.ready)
        m.d.comb += [
            requests.i.valid.eq(self.o.request.valid & self.o.request.ready), requests.i.payload.eq(parts),
            requests.o.ready.eq(self.o.written),
            *(port.written.eq(self.o.written & part) for port, part in zip(self.i, requests.o.payload, strict=True)),
        ]
        return m
