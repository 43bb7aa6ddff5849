"""AXI4 master: rules of the channels that it drives."""

from types import SimpleNamespace

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Signal
from amaranth.lib.wiring import Component
from heddle import load_config
from heddle.memory.axi_master import ITEMS, AxiMaster

from .contract import any_stream, data_of, obey, require, tracked_item

__all__ = ["AxiMasterSpec"]

PAGE = 4096


def _channel(dut, name, fields):
    """An AXI channel as a stream of its fields."""
    def signal(field):
        return getattr(dut, f"m_axi_{name}{field}")
    return SimpleNamespace(valid=signal("valid"), ready=signal("ready"), payload=Cat(signal(field) for field in fields))


class AxiMasterSpec(Component):
    """On AW, W and AR ``valid`` holds and the payload stays until it is accepted; bursts are INCR of full beats inside a page of 4 KiB.

    All write bursts of an execution have one symbolic length of up to 4 beats: W has ``wlast`` on exactly the last beat of each.
    What enters a channel leaves it in order and unchanged. Answers are taken at once while the client takes them at once.
    Environment: requests of the client keep to pages and are aligned, its streams keep to the rules.
    """

    def __init__(self):
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        cfg = load_config("tiny").without_level2(axi_address_bits=16, axi_reads=2, axi_writes=2)
        m.submodules.dut = dut = AxiMaster(cfg)
        beats_minus_one, prompt = Signal(8), Signal()
        m.d.comb += [beats_minus_one.eq(AnyConst(2)), prompt.eq(AnyConst(1))]
        for name in ("read_request", "write_request"):
            port = getattr(dut.i, name)
            any_stream(m, port, name)
            first = port.payload.address
            m.d.comb += Assume((first % cfg.axi_bytes == 0)
                               & ((first % PAGE) + (port.payload.beats_minus_one + 1) * cfg.axi_bytes <= PAGE))
        m.d.comb += Assume(dut.i.write_request.payload.beats_minus_one == beats_minus_one)
        any_stream(m, dut.i.write_data, "write_data")
        self._count(m, "client", dut.i.write_data, dut.i.write_data.payload.last, beats_minus_one, Assume)
        self._answers(m, dut, prompt)

        address = ("id", "addr", "len", "size", "burst", "lock", "cache", "prot")
        channels = {name: _channel(dut, name, fields)
                    for name, fields in (("aw", address), ("ar", address), ("w", ("data", "strb", "last")))}
        for name, channel in channels.items():
            require(m, channel, name)
        for name in ("aw", "ar"):
            first, length = getattr(dut, f"m_axi_{name}addr"), getattr(dut, f"m_axi_{name}len")
            with m.If(channels[name].valid):
                m.d.comb += [
                    Assert((first % PAGE) + (length + 1) * cfg.axi_bytes <= PAGE),
                    Assert((1 << getattr(dut, f"m_axi_{name}size")) == cfg.axi_bytes), Assert(getattr(dut, f"m_axi_{name}burst") == 1),
                    Cover((first % PAGE) + (length + 1) * cfg.axi_bytes == PAGE),
                ]
        self._contents(m, dut)
        self._count(m, "bus", channels["w"], dut.m_axi_wlast, beats_minus_one, Assert)
        with m.If(dut.m_axi_awvalid):
            m.d.comb += Assert(dut.m_axi_awlen == beats_minus_one)
        return m

    def _contents(self, m, dut):
        """What enters a channel leaves it, in order and unchanged."""
        for name, client, names in (("ar", "read_request", "tag address beats_minus_one"), ("w", "write_data", "data strobe last"),
                                    ("aw", "write_request", "tag address beats_minus_one"), ("r", "read_data", "tag data last error"),
                                    ("b", "write_response", "tag error")):
            port = getattr(dut.i, client)
            fields = {"ar": "id addr len", "aw": "id addr len", "w": "data strb last", "r": "id data last", "b": "id"}[name].split()
            channel = _channel(dut, name, fields)
            inner = Cat(port.payload[field] for field in names.split())
            outer = Cat(channel.payload, getattr(dut, f"m_axi_{name}resp")[1]) if name in "rb" else channel.payload
            into_unit, out_of_unit = (port, channel) if name not in "rb" else (channel, port)
            value, result = (inner, outer) if name not in "rb" else (outer, inner)
            inside = tracked_item(m, into_unit.valid & into_unit.ready, out_of_unit.valid & out_of_unit.ready, value, result, ITEMS, name)
            m.d.comb += [Assert(~out_of_unit.valid | (inside != 0)), Assert(into_unit.ready == (inside != ITEMS))]

    def _count(self, m, name, stream, last, beats_minus_one, check):
        """``last`` is on the last beat of each burst and on no other."""
        beat = Signal(8, name=f"{name}_beat")
        with m.If(stream.valid):
            m.d.comb += check(last == (beat == beats_minus_one))
            with m.If(stream.ready):
                m.d.sync += beat.eq(beat + 1)
                with m.If(last):
                    m.d.sync += beat.eq(0)
                    m.d.comb += Cover(beat == 2)

    def _answers(self, m, dut, prompt):
        for name, fields in (("r", ("id", "data", "resp", "last")), ("b", ("id", "resp"))):
            channel = _channel(dut, name, fields)
            m.d.comb += [channel.valid.eq(AnySeq(1)), *(getattr(dut, f"m_axi_{name}{field}").eq(
                AnySeq(len(getattr(dut, f"m_axi_{name}{field}")))) for field in fields)]
            obey(m, channel, name)
            m.d.comb += [Assert(~prompt | channel.ready), Cover(prompt & channel.valid & channel.ready)]
        for channel in ("ar", "aw", "w"):
            m.d.comb += getattr(dut, f"m_axi_{channel}ready").eq(AnySeq(1))
        for name in ("read_data", "write_response"):
            client = getattr(dut.i, name)
            m.d.comb += client.ready.eq(prompt | AnySeq(1))
            require(m, SimpleNamespace(valid=client.valid, ready=client.ready, payload=data_of(client)), name)
