"""Arbiter of global memory: stream rules and the order of write data."""

from unittest import mock

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Cover, Module, Signal, Value
from amaranth.lib.wiring import Component
from heddle import load_config
from heddle.memory import global_arbiter as arbiter

from .contract import any_stream, require, tracked_item

__all__ = ["GlobalArbiterSpec"]


class _Arbiter(arbiter.GlobalArbiter):
    """The arbiter with another bound on the writes that go ahead of their data."""

    def __init__(self, cfg, writes_ahead):
        self._writes_ahead = writes_ahead
        super().__init__(cfg)

    def elaborate(self, platform):
        with mock.patch.object(arbiter, "WRITES_AHEAD", self._writes_ahead):
            return super().elaborate(platform)


class GlobalArbiterSpec(Component):
    """The requests that leave keep to the rules of streams; bursts of write data leave whole and in the order of their requests.

    Write data are marked with the number of their client: whichever request is tracked, the burst that follows for it is of the client
    that the request's tag names. Requests, data and answers are
    unchanged; answers reach the client of their tag and no other. Environment: streams keep to the rules.
    """

    def __init__(self, writes_ahead=arbiter.WRITES_AHEAD):
        self._writes_ahead = writes_ahead
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        cfg = load_config("tiny").replace(axi_address_bits=16, axi_reads=2, axi_writes=2)
        m.submodules.dut = dut = _Arbiter(cfg, self._writes_ahead)
        for number, client in enumerate(dut.i_client):
            for name in ("read_request", "write_request", "write_data"):
                any_stream(m, getattr(client, name), f"{name}_{number}")
            m.d.comb += [
                Assume(client.write_data.payload.data[0] == number),
                client.read_data.ready.eq(AnySeq(1)), client.write_response.ready.eq(AnySeq(1)),
            ]
        for name in ("read_request", "write_request", "write_data"):
            m.d.comb += getattr(dut.o, name).ready.eq(AnySeq(1))
            require(m, getattr(dut.o, name), name)
        request, beats = dut.o.write_request, dut.o.write_data
        ends = beats.valid & beats.ready & beats.payload.last
        inside = tracked_item(m, request.valid & request.ready, ends, request.payload.tag[-1:], beats.payload.data[:1],
                              self._writes_ahead)
        within, client = Signal(), Signal()     # a burst has begun; its client
        with m.If(beats.valid):
            m.d.comb += [Assert(inside != 0), Assert(~within | (beats.payload.data[0] == client)), Cover(within & client)]
            with m.If(beats.ready):
                m.d.sync += [within.eq(~beats.payload.last), client.eq(beats.payload.data[0])]
        self._contents(m, dut, inside)
        for name in ("read_data", "write_response"):
            answers = getattr(dut.o, name)
            any_stream(m, answers, name)
            for number in range(arbiter.CLIENTS):
                port = getattr(dut.i_client[number], name)
                mine = answers.payload.tag[-1] == number
                with m.If(port.valid):
                    m.d.comb += [Assert(port.payload[field] == answers.payload[field][:len(port.payload[field])])
                                 for field, _ in port.payload.shape()]
                m.d.comb += [Assert(port.valid == (answers.valid & mine)), Assert(~mine | (answers.ready == port.ready)),
                             Cover(port.valid & port.ready)]
        return m

    def _contents(self, m, dut, inside):
        """Requests and write data are those of the client in front, which alone sees that they are taken; none waits without a reason."""
        for name, free in (("read_request", 1), ("write_request", inside != self._writes_ahead), ("write_data", None)):
            out, ports = getattr(dut.o, name), [getattr(client, name) for client in dut.i_client]
            if free is not None:
                m.d.comb += Assert(out.valid == ((ports[0].valid | ports[1].valid) & free))
            for number, port in enumerate(ports):
                mine = (out.payload.data[0] if name == "write_data" else out.payload.tag[-1]) == number
                m.d.comb += Assert((port.valid & port.ready) == (out.valid & out.ready & mine))
                with m.If(out.valid & mine):
                    fields = [(Value.cast(port.payload[field]), Value.cast(out.payload[field])) for field, _ in port.payload.shape()]
                    m.d.comb += [Assert(port.valid), *(Assert(mine == given[:len(mine)]) for mine, given in fields)]
