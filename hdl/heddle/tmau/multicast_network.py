"""The network of multicast beats between the cores [S1.10]."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..lib.onehot import any_of
from ..lib.stream import Queue, link
from .layouts import multicast_beat_layout

__all__ = ["MulticastNetwork"]


class MulticastNetwork(Component):
    """Takes beats of the cores' TMAUs to the cores in their masks, one a cycle of each source and to each destination.

    A source has a register for one beat, which stays until every core of its mask has taken it; each destination takes one beat a cycle
    of the sources that offer it one, in turn, into a queue of two. Beats of one source reach a destination in their order. Latency 2
    cycles. A destination that waits (for the banks of its shared memory) holds the sources with beats for it, and these all that follows
    in their order; nothing waits in a circle, as the writes of a core do not wait for what it sends. Reset drops all beats.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i, o : arrays of ``cfg.cores`` streams of ``multicast_beat_layout(cfg)``
    pending : Out(cfg.cores)
        The beat of this source is not yet with all its cores.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        beats = stream.Signature(multicast_beat_layout(cfg))
        super().__init__({"i": In(beats).array(cfg.cores), "o": Out(beats).array(cfg.cores), "pending": Out(cfg.cores)})

    def elaborate(self, platform):
        m = Module()
        layout, cores = multicast_beat_layout(self.cfg), range(self.cfg.cores)
        beats = [Signal(layout, name=f"beat_{source}", reset_less=True) for source in cores]
        left = [Signal(self.cfg.cores, name=f"left_{source}") for source in cores]      # cores that have not taken it
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
        """The queue of one core; returns which source it takes a beat of."""
        m.submodules[f"queue_{core}"] = queue = Queue(multicast_beat_layout(self.cfg), 2)
        asks, grant, before = (Signal(self.cfg.cores, name=f"{name}_{core}") for name in ("asks", "grant", "before"))
        # ``before``: the sources up to the one that was taken last.
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
