"""Reads of descriptors beside those of copies, on one port to global memory [S1.3]."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.layouts import read_data_layout, read_request_layout

__all__ = ["DESCRIPTOR_TAG_BITS", "DescriptorReadPort"]

DESCRIPTOR_TAG_BITS = 1


class DescriptorReadPort(Component):
    """Gives descriptors the tags behind those of the copies, ``cfg.axi_reads`` and up, and sends their answers back by them.

    Combinational. Requests are taken in turns; one that waits at ``o_request`` is not replaced.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i_copy : In(stream.Signature(read_request_layout(cfg, cfg.tag_bits)))
    o_copy : Out(stream.Signature(read_data_layout(cfg, cfg.tag_bits)))
    i_descriptor : In(stream.Signature(read_request_layout(cfg, DESCRIPTOR_TAG_BITS)))
    o_descriptor : Out(stream.Signature(read_data_layout(cfg, DESCRIPTOR_TAG_BITS)))
    o_request, i_data : as ``read_request``, ``read_data`` in GlobalPort(cfg, cfg.tag_bits)
    """

    def __init__(self, cfg):
        self.cfg = cfg
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
        turn, chosen = Signal(), Signal()       # 1: a descriptor
        copy, descriptor = self.i_copy, self.i_descriptor
        request, answer = self.o_request, self.i_data
        m.d.comb += [
            chosen.eq(Mux(turn, descriptor.valid, ~copy.valid)),
            request.valid.eq(copy.valid | descriptor.valid),
            *(request.payload[name].eq(Mux(chosen, descriptor.payload[name], copy.payload[name]))
              for name, _ in request.payload.shape() if name != "tag"),
            request.payload.tag.eq(Mux(chosen, self.cfg.axi_reads + descriptor.payload.tag, copy.payload.tag)),
            copy.ready.eq(request.ready & ~chosen), descriptor.ready.eq(request.ready & chosen),
        ]
        with m.If(request.valid):
            m.d.sync += turn.eq(Mux(request.ready, ~chosen, chosen))
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
