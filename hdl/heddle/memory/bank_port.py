"""Port of shared memory: holds a request until all its banks have granted."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..constants import BANKS

__all__ = ["BankPort"]


class BankPort(Component):
    """Port of shared memory: presents a request to the bank arbiters until each of its banks has granted.

    A request that is accepted reaches the arbiters in the same cycle. What is not granted then is kept, with a mask of the banks that
    remain, and the next request waits. So ``i.ready`` does not depend on a grant of its cycle.

    Parameters
    ----------
    shape : data.StructLayout
        Payload of the requests; has a member ``bank`` of 8 bits.

    *Ports*:
    i : In(stream.Signature(shape))
        Requests of at least one bank.
    request : Out(8)
        Banks that are requested.
    held : Out(shape)
        The request that they belong to.
    grant : In(8)
        Banks that grant; combinational from ``request``.
    granted : Out(8)
        Banks that granted in the cycle before; registered.
    last : Out(1)
        With ``granted``: the request has no further bank; registered.

    *Latency*: 0 cycles from ``i`` to ``request``.

    *Throughput*: one request a cycle while all its banks grant at once; a refusal costs its cycles.

    *Back-pressure*: ``i.ready`` comes from a register: no request is kept.

    *Reset*: drops the request that is kept.
    """

    def __init__(self, shape):
        self.shape = shape
        super().__init__({
            "i": In(stream.Signature(shape)), "request": Out(BANKS), "held": Out(shape), "grant": In(BANKS),
            "granted": Out(BANKS), "last": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        kept = Signal(self.shape, reset_less=True)
        remaining, refused = Signal(BANKS), Signal(BANKS)       # banks of the request that is kept
        waits = Signal()
        m.d.comb += [
            self.i.ready.eq(~waits),
            self.held.eq(Mux(waits, kept.as_value(), self.i.payload.as_value())),
            self.request.eq(Mux(waits, remaining, Mux(self.i.valid, self.i.payload.bank, 0))),
            refused.eq(self.request & ~self.grant),
        ]
        m.d.sync += [
            remaining.eq(refused), waits.eq(refused.any()),
            self.granted.eq(self.request & self.grant), self.last.eq(self.request.any() & ~refused.any()),
        ]
        with m.If(~waits):
            m.d.sync += kept.eq(self.i.payload)
        return m
