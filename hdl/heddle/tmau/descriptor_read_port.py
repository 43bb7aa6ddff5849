"""Arbiter of the read port of global memory between copies and descriptors [S1.3]."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.layouts import read_data_layout, read_request_layout
from ..lib.round_robin import RoundRobinArbiter
from ..lib.stream import link
from ..parameters.tmau import TmauParameters

__all__ = ["DESCRIPTOR_TAG_BITS", "DescriptorReadPort"]

DESCRIPTOR_TAG_BITS = 1


class DescriptorReadPort(Component):
    """Round-robin arbiter of the read port to global memory between the load engine and the descriptor cache [S1.3].

    Reads of descriptors have the tags from ``cfg.axi_reads`` on, above the tags of the transaction table. Answers are routed by tag.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i_copy : In(stream.Signature(read_request_layout(cfg, cfg.tag_bits)))
        Read requests of the load engine.
    o_copy : Out(stream.Signature(read_data_layout(cfg, cfg.tag_bits)))
        Read data of the load engine.
    i_descriptor : In(stream.Signature(read_request_layout(cfg, DESCRIPTOR_TAG_BITS)))
        Read requests of the descriptor cache.
    o_descriptor : Out(stream.Signature(read_data_layout(cfg, DESCRIPTOR_TAG_BITS)))
        Read data of the descriptor cache.
    o_request : Out(stream.Signature(read_request_layout(cfg, cfg.tag_bits)))
        Read requests to global memory.
    i_data : In(stream.Signature(read_data_layout(cfg, cfg.tag_bits)))
        Read data of global memory.

    *Latency*: 0 cycles, combinational.

    *Throughput*: one request and one beat per cycle.

    *Back-pressure*: ``ready`` of a request depends combinationally on both ``valid`` inputs and ``o_request.ready``. A request that
    waits at ``o_request`` is not replaced. ``i_data.ready`` depends on the tag and on ``ready`` of the addressed output.

    *Reset*: the round-robin pointer returns to the copies.

    *Source*: [S1.3].
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
        wide, narrow = cfg.tag_bits, DESCRIPTOR_TAG_BITS
        super().__init__({
            "i_copy": In(stream.Signature(read_request_layout(cfg, wide))),
            "o_copy": Out(stream.Signature(read_data_layout(cfg, wide))),
            "i_descriptor": In(stream.Signature(read_request_layout(cfg, narrow))),
            "o_descriptor": Out(stream.Signature(read_data_layout(cfg, narrow))),
            "o_request": Out(stream.Signature(read_request_layout(cfg, wide))),
            "i_data": In(stream.Signature(read_data_layout(cfg, wide))),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.arbiter = arbiter = RoundRobinArbiter(self.o_request.payload.shape(), 2)
        descriptor, sink, answer = self.i_descriptor, arbiter.i[1], self.i_data
        m.d.comb += [
            sink.valid.eq(descriptor.valid), descriptor.ready.eq(sink.ready),
            *(sink.payload[name].eq(descriptor.payload[name]) for name, _ in sink.payload.shape() if name != "tag"),
            sink.payload.tag.eq(self.cfg.axi_reads + descriptor.payload.tag),
        ]
        link(m, self.i_copy, arbiter.i[0])
        link(m, arbiter.o, self.o_request)
        of_descriptor = Signal()
        m.d.comb += [
            of_descriptor.eq(answer.payload.tag >= self.cfg.axi_reads),
            answer.ready.eq(Mux(of_descriptor, self.o_descriptor.ready, self.o_copy.ready)),
            self.o_copy.valid.eq(answer.valid & ~of_descriptor), self.o_descriptor.valid.eq(answer.valid & of_descriptor),
            *(output.payload[name].eq(answer.payload[name])
              for output in (self.o_copy, self.o_descriptor) for name in ("data", "last", "error")),
            self.o_copy.payload.tag.eq(answer.payload.tag),
            self.o_descriptor.payload.tag.eq(answer.payload.tag - self.cfg.axi_reads),
        ]
        return m
