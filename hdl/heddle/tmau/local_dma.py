"""Local DMA: copies of blocks within shared memory and within global memory [S1.12]."""

from amaranth.hdl import Module, Mux, Value
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..interfaces.layouts import GlobalPort, SharedReadPort, SharedWritePort, barrier_arrival_layout, error_layout
from ..lib.stream import Queue, link
from ..memory.global_arbiter import GlobalArbiter
from ..parameters.tmau import TmauParameters
from .layouts import move_layout
from .local_dma_global import GlobalDma
from .local_dma_shared import SharedDma
from .shared_port_merge import ReadPortMerge, WritePortMerge

__all__ = ["LocalDma"]

MOVES_AHEAD = 2


class LocalDma(Component):
    """Local DMA: one channel within shared memory, one within global memory, and the merges of the memory ports [S1.12].

    Loads and stores have priority at each bank and share global memory round robin with the channel. Each channel has one copy in
    flight, in the order of issue. ``MOVES_AHEAD`` (2) copies wait for both channels together.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i : In(stream.Signature(move_layout(cfg)))
        Copies within a memory.
    bank_read : In(SharedReadPort(cfg))
        Read port of the store engine.
    o_bank_read : Out(SharedReadPort(cfg))
        Read port of the TMAU.
    bank_write : In(SharedWritePort(cfg))
        Write port of the load engine.
    o_bank_write : Out(SharedWritePort(cfg))
        Write port of the TMAU.
    global_port : In(GlobalPort(cfg, cfg.tag_bits))
        Global port of load and store engine; its tags leave the top bit zero.
    o_global_port : Out(GlobalPort(cfg, cfg.tag_bits))
        Global port of the TMAU.
    o_moved : Out(stream.Signature(barrier_arrival_layout))
        Barrier updates of both channels; the channel of shared memory has priority.
    o_failure : Out(stream.Signature(error_layout))
        AXI_READ and AXI_WRITE of the channel of global memory.
    stop : In(1)
        No further block or part is read; copies in flight and waiting copies end early.
    completed : Out(2)
        A copy ended within shared memory (bit 0), within global memory (bit 1).
    busy : Out(1)
        A copy is waiting or in flight.

    *Latency*: 1 cycle from ``i`` to a channel. Ports of the engines pass combinationally.

    *Throughput*: as ``SharedDma`` and ``GlobalDma``; the channels work concurrently.

    *Back-pressure*: ``ready`` of the channel depends combinationally on the requests of the engines.

    *Reset*: drops all copies.

    *Source*: [S1.12].
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(move_layout(cfg))),
            "bank_read": In(SharedReadPort(cfg)), "o_bank_read": Out(SharedReadPort(cfg)),
            "bank_write": In(SharedWritePort(cfg)), "o_bank_write": Out(SharedWritePort(cfg)),
            "global_port": In(GlobalPort(cfg, cfg.tag_bits)), "o_global_port": Out(GlobalPort(cfg, cfg.tag_bits)),
            "o_moved": Out(stream.Signature(barrier_arrival_layout)), "o_failure": Out(stream.Signature(error_layout)),
            "stop": In(1), "completed": Out(2), "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.waiting = waiting = Queue(move_layout(self.cfg), MOVES_AHEAD)
        m.submodules.shared = shared = SharedDma(self.cfg)
        m.submodules.global_ = global_ = GlobalDma(self.cfg)
        link(m, self.i, waiting.i)
        in_shared = waiting.o.payload.in_shared
        for dma, chosen in ((shared, in_shared), (global_, ~in_shared)):
            m.d.comb += [dma.i.valid.eq(waiting.o.valid & chosen), dma.i.payload.eq(waiting.o.payload), dma.stop.eq(self.stop)]
        m.d.comb += [
            waiting.o.ready.eq(Mux(in_shared, shared.i.ready, global_.i.ready)),
            self.completed[0].eq(shared.completed), self.completed[1].eq(global_.completed),
            self.busy.eq((waiting.level != 0) | shared.busy | global_.busy),
            self.o_moved.valid.eq(shared.o_moved.valid | global_.o_moved.valid),
            self.o_moved.payload.eq(Mux(shared.o_moved.valid, shared.o_moved.payload, global_.o_moved.payload)),
            shared.o_moved.ready.eq(self.o_moved.ready), global_.o_moved.ready.eq(self.o_moved.ready & ~shared.o_moved.valid),
        ]
        link(m, global_.o_failure, self.o_failure)
        for name, merge in (("bank_read", ReadPortMerge(self.cfg)), ("bank_write", WritePortMerge(self.cfg))):
            m.submodules[name] = merge
            connect(m, flipped(getattr(self, name)), merge.i[0])
            connect(m, getattr(shared, name), merge.i[1])
            connect(m, merge.o, flipped(getattr(self, f"o_{name}")))
        self._global(m, global_)
        return m

    def _global(self, m, dma):
        """Arbiter of global memory: load and store engine are client 0, with a zero top bit of the tag."""
        m.submodules.arbiter = arbiter = GlobalArbiter(self.cfg, self.cfg.tag_bits - 1)
        client = arbiter.i_client[0]
        for name in ("read_request", "write_request", "write_data"):
            self._narrow(m, getattr(self.global_port, name), getattr(client, name))
        for name in ("read_data", "write_response"):
            self._narrow(m, getattr(client, name), getattr(self.global_port, name))
        connect(m, dma.port, arbiter.i_client[1])
        connect(m, arbiter.o, flipped(self.o_global_port))

    @staticmethod
    def _narrow(m, source, sink):
        """Connect two streams whose tags differ in width."""
        m.d.comb += [sink.valid.eq(source.valid), source.ready.eq(sink.ready)]
        m.d.comb += [Value.cast(sink.payload[name]).eq(Value.cast(source.payload[name])) for name, _ in sink.payload.shape()]
