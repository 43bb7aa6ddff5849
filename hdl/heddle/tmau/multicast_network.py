"""Multicast network: beats of multicast loads between the cores [S1.10]."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..lib.onehot import any_of
from ..lib.stream import Queue, link
from ..parameters.tmau import TmauParameters
from .layouts import multicast_beat_layout

__all__ = ["MulticastNetwork"]


class MulticastNetwork(Component):
    """Multicast network: delivers the beats of each core's TMAU to the cores in their mask [S1.10].

    A source has a register for one beat, held until every core of the mask has accepted it. A destination grants one source per cycle,
    round robin, into a queue of two beats. Beats of one source reach a destination in their order.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i : In(stream.Signature(multicast_beat_layout(cfg))).array(cfg.cores)
        Beats of each source.
    o : Out(stream.Signature(multicast_beat_layout(cfg))).array(cfg.cores)
        Beats for each destination.
    pending : Out(cfg.cores)
        Bit n: the beat of source n was not yet accepted for all its cores.

    *Latency*: 2 cycles from ``i`` to ``o``.

    *Throughput*: one beat per cycle from each source and to each destination.

    *Back-pressure*: ``i[n].ready`` depends on registers only. A destination that waits for its banks holds the sources with a beat for
    it, and their later beats. There is no deadlock: the bank writes of a core do not wait for the beats that the core sends.

    *Reset*: drops all beats.

    *Source*: [S1.10].
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
        beats = stream.Signature(multicast_beat_layout(cfg))
        super().__init__({"i": In(beats).array(cfg.cores), "o": Out(beats).array(cfg.cores), "pending": Out(cfg.cores)})

    def elaborate(self, platform):
        m = Module()
        layout, cores = multicast_beat_layout(self.cfg), range(self.cfg.cores)
        beats = [Signal(layout, name=f"beat_{source}", reset_less=True) for source in cores]
        left = [Signal(self.cfg.cores, name=f"left_{source}") for source in cores]      # cores without the beat
        granted = [self._destination(m, core, beats, left) for core in cores]
        for source in cores:
            rest = Signal(self.cfg.cores, name=f"rest_{source}")
            port = self.i[source]
            m.d.comb += [
                rest.eq(left[source] & ~Cat(grants[source] for grants in granted)), port.ready.eq(~rest.any()),
                self.pending[source].eq(left[source].any()),
            ]
            m.d.sync += left[source].eq(rest)
            with m.If(port.ready):
                m.d.sync += [beats[source].eq(port.payload), left[source].eq(Mux(port.valid, port.payload.mask, 0))]
        return m

    def _destination(self, m, core, beats, left):
        """Queue and arbiter of one destination; returns the granted source, one-hot."""
        m.submodules[f"queue_{core}"] = queue = Queue(multicast_beat_layout(self.cfg), 2)
        asks, grant, before = (Signal(self.cfg.cores, name=f"{name}_{core}") for name in ("asks", "grant", "before"))
        # ``before``: round-robin pointer, the sources up to the one granted last.
        later = asks & ~before
        pool = Mux(later.any(), later, asks)
        first = pool & (~pool + 1)[:len(pool)]
        m.d.comb += [
            asks.eq(Cat(rest[core] for rest in left)), grant.eq(Mux(queue.i.ready, first, 0)),
            queue.i.valid.eq(asks.any()),
            queue.i.payload.eq(any_of(Mux(first[source], beat.as_value(), 0) for source, beat in enumerate(beats))),
        ]
        with m.If(grant.any()):
            m.d.sync += before.eq(grant | (grant - 1)[:len(grant)])
        link(m, queue.o, self.o[core])
        return grant
