"""Local DMA: copies of blocks within shared memory and within global memory [S1.12]."""

from amaranth.hdl import Module, Mux, Value
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..constants import BANKS
from ..interfaces.layouts import BankReadPort, BankWritePort, GlobalPort, barrier_arrival_layout, error_layout
from ..lib.stream import Queue, link
from ..memory.global_arbiter import GlobalArbiter
from ..parameters.tmau import TmauParameters
from .layouts import move_layout
from .local_dma_global import GlobalDma
from .local_dma_shared import SharedDma

__all__ = ["LocalDma"]

MOVES_AHEAD = 2


class LocalDma(Component):
    """Local DMA: one channel within shared memory, one within global memory, and the arbiters of the memory ports [S1.12].

    Loads and stores have priority at the banks and share global memory round robin with the channel. Each channel has one copy in
    flight, in the order of issue. ``MOVES_AHEAD`` (2) copies wait for both channels together.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i : In(stream.Signature(move_layout(cfg)))
        Copies within a memory.
    bank_read : In(BankReadPort(cfg))
        Read port of the store engine.
    o_bank_read : Out(BankReadPort(cfg))
        Read port of the TMAU.
    bank_write : In(BankWritePort(cfg))
        Write port of the load engine.
    o_bank_write : Out(BankWritePort(cfg))
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
    event_conflict : Out(1)
        A bank was requested by a channel alone and not granted.

    *Latency*: 1 cycle from ``i`` to a channel. Ports of the engines pass combinationally.

    *Throughput*: as ``SharedDma`` and ``GlobalDma``; the channels work concurrently.

    *Back-pressure*: a grant of the channel depends combinationally on the requests of the engines.

    *Reset*: drops all copies.

    *Source*: [S1.12].
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(move_layout(cfg))),
            "bank_read": In(BankReadPort(cfg)), "o_bank_read": Out(BankReadPort(cfg)),
            "bank_write": In(BankWritePort(cfg)), "o_bank_write": Out(BankWritePort(cfg)),
            "global_port": In(GlobalPort(cfg, cfg.tag_bits)), "o_global_port": Out(GlobalPort(cfg, cfg.tag_bits)),
            "o_moved": Out(stream.Signature(barrier_arrival_layout)), "o_failure": Out(stream.Signature(error_layout)),
            "stop": In(1), "completed": Out(2), "busy": Out(1), "event_conflict": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.waiting = waiting = Queue(move_layout(self.cfg), MOVES_AHEAD)
        m.submodules.shared = shared = SharedDma(self.cfg)
        m.submodules.global_ = global_ = GlobalDma(self.cfg)
        link(m, self.i, waiting.i)
        in_shared = waiting.o.payload.in_shared
        for mover, chosen in ((shared, in_shared), (global_, ~in_shared)):
            m.d.comb += [mover.i.valid.eq(waiting.o.valid & chosen), mover.i.payload.eq(waiting.o.payload), mover.stop.eq(self.stop)]
        m.d.comb += [
            waiting.o.ready.eq(Mux(in_shared, shared.i.ready, global_.i.ready)),
            self.completed[0].eq(shared.completed), self.completed[1].eq(global_.completed),
            self.busy.eq((waiting.level != 0) | shared.busy | global_.busy),
            self.o_moved.valid.eq(shared.o_moved.valid | global_.o_moved.valid),
            self.o_moved.payload.eq(Mux(shared.o_moved.valid, shared.o_moved.payload, global_.o_moved.payload)),
            shared.o_moved.ready.eq(self.o_moved.ready), global_.o_moved.ready.eq(self.o_moved.ready & ~shared.o_moved.valid),
        ]
        link(m, global_.o_failure, self.o_failure)
        reads = self.bank_read, shared.bank_read, self.o_bank_read, self.cfg.banks_known_ahead
        writes = self.bank_write, shared.bank_write, self.o_bank_write, self.cfg.shared_writes == 1
        m.d.comb += self.event_conflict.eq(self._banks(m, *reads) | self._banks(m, *writes))
        self._global(m, global_)
        return m

    def _banks(self, m, port, mine, out, shared_lines):
        """Connect a bank port: an engine has priority at each bank that it requests.

        With ``shared_lines`` a port requests one bank at a time on the lines of bank 0, and any request of an engine excludes the
        channel. Returns whether the channel requested a bank alone and was not granted.
        """
        first_banks = port.request.any().replicate(BANKS) if shared_lines else port.request
        m.d.comb += out.request.eq(port.request | (mine.request & ~first_banks))
        for bank in range(BANKS):
            first = first_banks[bank]
            m.d.comb += [port.grant[bank].eq(out.grant[bank] & first), mine.grant[bank].eq(out.grant[bank] & ~first)]
            for name in ("row", "data", "mask"):
                if hasattr(port, name):
                    inner, outer = getattr(port, name), getattr(out, name)
                    if name == "data" and out is self.o_bank_read:
                        m.d.comb += [inner[bank].eq(outer[bank]), mine.data[bank].eq(outer[bank])]
                    else:
                        m.d.comb += outer[bank].eq(Mux(first, inner[bank], getattr(mine, name)[bank]))
        return (mine.request & ~first_banks & ~out.grant).any()

    def _global(self, m, mover):
        """Arbiter of global memory: load and store engine are client 0, with a zero top bit of the tag."""
        m.submodules.arbiter = arbiter = GlobalArbiter(self.cfg, self.cfg.tag_bits - 1)
        client = arbiter.i_client[0]
        for name in ("read_request", "write_request", "write_data"):
            self._narrow(m, getattr(self.global_port, name), getattr(client, name))
        for name in ("read_data", "write_response"):
            self._narrow(m, getattr(client, name), getattr(self.global_port, name))
        connect(m, mover.port, arbiter.i_client[1])
        connect(m, arbiter.o, flipped(self.o_global_port))

    @staticmethod
    def _narrow(m, source, sink):
        """Connect two streams whose tags differ in width."""
        m.d.comb += [sink.valid.eq(source.valid), source.ready.eq(sink.ready)]
        m.d.comb += [Value.cast(sink.payload[name]).eq(Value.cast(source.payload[name])) for name, _ in sink.payload.shape()]
