"""Arbiter of the barrier updates of loads and stores."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.layouts import barrier_arrival_layout
from ..parameters.tmau import TmauParameters

__all__ = ["BarrierUpdates"]


class BarrierUpdates(Component):
    """Round-robin arbiter that joins the barrier updates of loads and stores and merges updates of loads that wait.

    An update is a barrier number and a number of bytes. A load's update waits while a store has its turn; the bytes of later loads to the
    same barrier are added to it. Stores therefore take no cycle from loads that update one barrier every cycle.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i_load : In(stream.Signature(barrier_arrival_layout))
        Updates of loads.
    i_store : In(stream.Signature(barrier_arrival_layout))
        Updates of stores and of the local DMA channels.
    o : Out(stream.Signature(barrier_arrival_layout, always_ready=True))
        Updates for the barriers. Registered.
    busy : Out(1)
        An update is in flight; the last cycle is that of ``o``.

    *Latency*: 1 cycle to ``o``; one more for a load's update that meets one of a store.

    *Throughput*: one update per cycle.

    *Back-pressure*: ``i_load.ready`` depends combinationally on ``i_store.valid`` and on the barrier at ``i_load``. ``i_store.ready``
    is a function of registers.

    *Reset*: drops all updates.
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
        super().__init__({
            "i_load": In(stream.Signature(barrier_arrival_layout)),
            "i_store": In(stream.Signature(barrier_arrival_layout)),
            "o": Out(stream.Signature(barrier_arrival_layout, always_ready=True)),
            "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        waiting = Signal()
        load = Signal(barrier_arrival_layout, reset_less=True)
        store_next = Signal()
        take_store = Signal()
        take_load = Signal()
        same = Signal()
        m.d.comb += [
            take_store.eq(self.i_store.valid & (store_next | ~waiting)),
            take_load.eq((waiting | self.i_load.valid) & ~take_store),
            self.i_store.ready.eq(store_next | ~waiting),
            same.eq((self.i_load.payload.barrier == load.barrier) & (self.i_load.payload.remote == load.remote)),
            self.i_load.ready.eq(~waiting | ~take_store | same),
            self.busy.eq(waiting | self.o.valid),
        ]
        m.d.sync += [self.o.valid.eq(take_store | take_load), self.o.payload.eq(Mux(waiting, load, self.i_load.payload))]
        with m.If(take_store):
            m.d.sync += [self.o.payload.eq(self.i_store.payload), store_next.eq(0)]
        with m.Elif(take_load):
            m.d.sync += store_next.eq(1)

        with m.If(~waiting | ~take_store):
            m.d.sync += [waiting.eq(self.i_load.valid & (waiting | take_store)), load.eq(self.i_load.payload)]
        with m.Elif(self.i_load.valid & same):
            m.d.sync += load.bytes.eq(load.bytes + self.i_load.payload.bytes)
        return m
