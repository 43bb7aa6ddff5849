"""Two clients share one port to global memory."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.layouts import GlobalPort
from ..lib.stream import Queue

__all__ = ["GlobalArbiter"]

CLIENTS = 2
WRITES_AHEAD = 16       # write requests whose data are still to come


class GlobalArbiter(Component):
    """Joins the global ports of two clients: tag at ``o`` = {client number, tag of the client}.

    Read and write requests are taken round robin, independently of each other, one of each a cycle. Write data are taken in the
    order of the write requests, one beat a cycle; up to ``WRITES_AHEAD`` (16) write requests go ahead of their data, and a client
    that delays its data delays the data of later requests of the other. Answers go to the client that the top tag bit names,
    one a cycle. Requests, data and answers pass combinationally (the registers stand in the AXI master): latency 0, write data
    earliest 2 cycles after their request. A request that waits at ``o`` is not replaced by another. Reset forgets the
    order of the writes [S1.14, docs/units/axi.md].

    Parameters
    ----------
    cfg : Config
    tag_bits : int, optional
        Of the clients; ``cfg.tag_bits`` unless given.

    Members
    -------
    i_client : In(GlobalPort(cfg, tag_bits)).array(2)
    o : Out(GlobalPort(cfg, tag_bits + 1))
    """

    def __init__(self, cfg, tag_bits=None):
        self.cfg = cfg
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
        """Round robin between two request streams; returns the number of the chosen client."""
        turn = Signal(name=f"{name}_turn")      # the client that goes first; a request that waits keeps its turn
        chosen = Signal(name=f"{name}_chosen")
        m.d.comb += chosen.eq(Mux(Mux(turn, clients[1].valid, clients[0].valid), turn, ~turn))
        selected = [client.payload for client in clients]
        m.d.comb += output.valid.eq(Mux(chosen, clients[1].valid, clients[0].valid) & allowed)
        for field, _ in output.payload.shape():
            value = Mux(chosen, *(Value.cast(payload[field]) for payload in reversed(selected)))
            m.d.comb += output.payload[field].eq(Cat(value, chosen) if field == "tag" else value)
        for number, client in enumerate(clients):
            m.d.comb += client.ready.eq(output.ready & allowed & (chosen == number))
        with m.If(output.valid):
            m.d.sync += turn.eq(Mux(output.ready, ~chosen, chosen))
        return chosen

    def _write_data(self, m, order):
        """The beats of the client whose write request is the oldest without its data."""
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
        """Send each answer to the client of its top tag bit."""
        client_number = answers.payload.tag[-1]
        for number, client in enumerate(clients):
            for field, _ in client.payload.shape():
                m.d.comb += client.payload[field].eq(answers.payload[field])     # cuts the top bit off the tag
            m.d.comb += client.valid.eq(answers.valid & (client_number == number))
        m.d.comb += answers.ready.eq(Mux(client_number, clients[1].ready, clients[0].ready))
