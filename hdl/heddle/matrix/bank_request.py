"""Bank request: asks shared memory for the words of a round."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.layouts import shared_read_layout
from ..parameters.matrix import MatrixParameters
from .layouts import word_request_layout

__all__ = ["BankRequest"]


class BankRequest(Component):
    """Bank request: asks shared memory for the words of one round after the other; a round leaves when its banks are asked for.

    Parameters
    ----------
    cfg : MatrixParameters

    *Ports*:
    i : In(stream.Signature(word_request_layout(cfg)))
        Rounds.
    o : Out(stream.Signature(word_request_layout(cfg)))
        The same rounds; a round with banks in the cycle in which ``request`` is taken.
    request : Out(stream.Signature(shared_read_layout(cfg)))
        Requests to shared memory.
    pause : In(1)
        In this cycle nothing is requested: a step is left out. Not where a request was offered in the cycle before and not taken, which is
        a step left out too.
    hold : In(1)
        From the next cycle on no bank is requested.

    *Latency*: combinational.

    *Throughput*: one round a cycle.

    *Back-pressure*: ``i.ready`` is combinational from ``o.ready``, ``request.ready``, ``pause`` and ``i.payload.bank``.

    *Reset*: no request was offered.
    """

    def __init__(self, cfg):
        self.cfg = cfg = MatrixParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(word_request_layout(cfg))),
            "o": Out(stream.Signature(word_request_layout(cfg))),
            "request": Out(stream.Signature(shared_read_layout(cfg))),
            "pause": In(1),
            "hold": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        asks, goes, leaves = Signal(), Signal(), Signal()
        held = Signal()
        stands = Signal()       # the request was offered before and not taken
        round_, request = self.i.payload, self.request
        m.d.sync += [held.eq(self.hold), stands.eq(request.valid & ~request.ready)]
        m.d.comb += [
            asks.eq(round_.bank.any()),
            goes.eq(self.o.ready & (stands | (~self.pause & ~(held & asks)))),
            request.valid.eq(asks & goes), request.payload.bank.eq(round_.bank),
            leaves.eq(goes & (request.ready | ~asks)),
            self.o.valid.eq(self.i.valid & leaves), self.o.payload.eq(round_), self.i.ready.eq(leaves),
        ]
        m.d.comb += [row.eq(round_.rows[bank % len(round_.rows)]) for bank, row in enumerate(request.payload.row)]
        return m
