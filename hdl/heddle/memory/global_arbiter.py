"""Arbiter of the port to global memory: two clients, round robin."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.layouts import GlobalPort
from ..lib.round_robin import RoundRobinArbiter
from ..lib.stream import Queue
from ..parameters.memory import MemoryParameters

__all__ = ["GlobalArbiter"]

CLIENTS = 2
WRITES_AHEAD = 16       # write requests accepted before the last beat of their data


class GlobalArbiter(Component):
    """Round-robin arbiter that joins the global ports of two clients [S1.14].

    The tag at ``o`` is {client number, tag of the client}; the client number is the top bit. Read requests and write requests have
    separate round-robin pointers. Write data follow the order of the write requests.

    Parameters
    ----------
    cfg : MemoryParameters
    tag_bits : int, optional
        Width of a client's tag; ``cfg.tag_bits`` by default.

    *Ports*:
    i_client : In(GlobalPort(cfg, tag_bits)).array(2)
        Ports of the clients.
    o : Out(GlobalPort(cfg, tag_bits + 1))
        Port towards global memory.

    *Latency*: 0 cycles for requests, beats and answers. The first beat of a burst passes 2 cycles after its write request at the
    earliest.

    *Throughput*: one read request, one write request, one write beat, one read beat and one write response per cycle.

    *Back-pressure*: all paths are combinational. ``ready`` of a client's request depends on ``valid`` of both clients and ``ready`` at
    ``o``. ``ready`` of an answer at ``o`` depends on its tag and on ``ready`` of that client. A request that waits at ``o`` is not
    replaced. At most ``WRITES_AHEAD`` (16) write requests are accepted before their last beat. A client that delays its write data
    delays the later write data of the other client.

    *Reset*: both round-robin pointers are 0; the order of outstanding write data is lost.

    *Source*: [S1.14], docs/units/axi.md.
    """

    def __init__(self, cfg, tag_bits=None):
        self.cfg = cfg = MemoryParameters.of(cfg)
        tag_bits = cfg.tag_bits if tag_bits is None else tag_bits
        super().__init__({
            "i_client": In(GlobalPort(cfg, tag_bits)).array(CLIENTS),
            "o": Out(GlobalPort(cfg, tag_bits + 1)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.order = order = Queue(1, WRITES_AHEAD)
        self._requests(m, "read", [client.read_request for client in self.i_client], self.o.read_request)
        chosen = self._requests(m, "write", [client.write_request for client in self.i_client], self.o.write_request,
                                order.i.ready)
        m.d.comb += [
            order.i.valid.eq(self.o.write_request.valid & self.o.write_request.ready),
            order.i.payload.eq(chosen),
        ]
        self._write_data(m, order.o)
        self._answers(m, [client.read_data for client in self.i_client], self.o.read_data)
        self._answers(m, [client.write_response for client in self.i_client], self.o.write_response)
        return m

    def _requests(self, m, name, clients, output, allowed=1):
        """Joins two request streams while ``allowed``; returns the number of the granted client."""
        m.submodules[f"{name}_arbiter"] = arbiter = RoundRobinArbiter(clients[0].payload.shape(), CLIENTS)
        for client, port in zip(clients, arbiter.i, strict=True):
            m.d.comb += [port.payload.eq(client.payload), port.valid.eq(client.valid & allowed), client.ready.eq(port.ready & allowed)]
        request = arbiter.o.payload
        m.d.comb += [
            output.valid.eq(arbiter.o.valid), arbiter.o.ready.eq(output.ready),
            *(output.payload[field].eq(Cat(request.tag, arbiter.grant) if field == "tag" else request[field])
              for field, _ in output.payload.shape()),
        ]
        return arbiter.grant

    def _write_data(self, m, order):
        """Beats of the client that owns the oldest write request without its last beat."""
        clients = [client.write_data for client in self.i_client]
        last = Signal()
        m.d.comb += [
            self.o.write_data.payload.eq(Mux(order.payload, clients[1].payload, clients[0].payload)),
            self.o.write_data.valid.eq(order.valid & Mux(order.payload, clients[1].valid, clients[0].valid)),
            last.eq(self.o.write_data.payload.last),
            order.ready.eq(self.o.write_data.valid & self.o.write_data.ready & last),
        ]
        for number, client in enumerate(clients):
            m.d.comb += client.ready.eq(self.o.write_data.ready & order.valid & (order.payload == number))

    def _answers(self, m, clients, answers):
        """Route each answer to the client in the top tag bit."""
        client_number = answers.payload.tag[-1]
        for number, client in enumerate(clients):
            for field, _ in client.payload.shape():
                m.d.comb += client.payload[field].eq(answers.payload[field])     # truncates the top bit of the tag
            m.d.comb += client.valid.eq(answers.valid & (client_number == number))
        m.d.comb += answers.ready.eq(Mux(client_number, clients[1].ready, clients[0].ready))
