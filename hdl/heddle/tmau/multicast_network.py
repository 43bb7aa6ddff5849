"""Multicast network: beats of multicast loads between the cores [S1.10]."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..lib.round_robin import RoundRobinArbiter
from ..lib.stream import link
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
        arbiters = [self._destination(m, core, beats, left) for core in cores]
        for source in cores:
            rest = Signal(self.cfg.cores, name=f"rest_{source}")
            port = self.i[source]
            m.d.comb += [
                rest.eq(left[source] & ~Cat(arbiter.i[source].ready for arbiter in arbiters)), port.ready.eq(~rest.any()),
                self.pending[source].eq(left[source].any()),
            ]
            m.d.sync += left[source].eq(rest)
            with m.If(port.ready):
                m.d.sync += [beats[source].eq(port.payload), left[source].eq(Mux(port.valid, port.payload.mask, 0))]
        return m

    def _destination(self, m, core, beats, left):
        """Arbiter and queue of one destination; the arbiter is returned."""
        arbiter = RoundRobinArbiter(multicast_beat_layout(self.cfg), self.cfg.cores, locked=False, registered=True)
        m.submodules[f"arbiter_{core}"] = arbiter
        for port, beat, rest in zip(arbiter.i, beats, left, strict=True):
            m.d.comb += [port.valid.eq(rest[core]), port.payload.eq(beat)]
        link(m, arbiter.o, self.o[core])
        return arbiter
