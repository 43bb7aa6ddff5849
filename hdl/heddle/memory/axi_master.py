"""AXI4 master: the last step on the way to global memory."""

from amaranth.hdl import Const, Module, Signal
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..interfaces.layouts import MemoryPort
from ..lib.stream import Queue, link

__all__ = ["ITEMS", "AxiMaster", "axi_members"]

BURST_INCREMENT = 1
CACHE_ATTRIBUTES = 0b0011       # normal memory, not cacheable, bufferable
PENDING_BITS = 16
ITEMS = 3             # of a channel that may wait here
SOON = 2              # requests, where a second level has taken a cycle: in registers, a cycle faster


def axi_members(cfg, prefix="m_axi_"):
    """Members of an AXI4 master port as plain signals whose names begin with ``prefix``: name to direction and width."""
    address = {"id": cfg.axi_id_bits, "addr": cfg.axi_address_bits, "len": 8, "size": 3, "burst": 2, "lock": 1, "cache": 4,
               "prot": 3}
    outputs = {f"{channel}{name}": width for channel in ("aw", "ar") for name, width in (address | {"valid": 1}).items()}
    outputs |= {"wdata": cfg.axi_data_bits, "wstrb": cfg.axi_bytes, "wlast": 1, "wvalid": 1, "bready": 1, "rready": 1}
    inputs = {"awready": 1, "wready": 1, "bid": cfg.axi_id_bits, "bresp": 2, "bvalid": 1, "arready": 1,
              "rid": cfg.axi_id_bits, "rdata": cfg.axi_data_bits, "rresp": 2, "rlast": 1, "rvalid": 1}
    return ({f"{prefix}{name}": Out(width) for name, width in outputs.items()}
            | {f"{prefix}{name}": In(width) for name, width in inputs.items()})


class AxiMaster(Component):
    """Turns a global port into an AXI4 master with the signals ``m_axi_awid`` … ``m_axi_rready``.

    Requests become incrementing bursts of full beats, the tag is the ID. A queue stands in each of the five channels: latency 2 cycles
    each way (1 for requests where there is a second level), throughput one request and one beat a cycle in each direction; all outputs
    depend on registers only and stand until they are accepted (queues in distributed RAM take fewer LUTs than register stages). Write data
    may be offered before their address, as AXI4 allows. An answer with ``resp[1]`` (slave or decode error) has its ``error`` bit set.
    Bursts longer than what the slave accepts are not split: requests keep to 4 KiB pages themselves. Reset must come together with the
    reset of the slave [docs/units/axi.md].

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i : In(MemoryPort(cfg, cfg.axi_id_bits))
    pending : Out(1)
        A request was taken whose last answer has not been delivered.
    event_read_requests, event_read_beats, event_write_requests, event_write_beats : Out(1)
        A transfer took place on AR, R, AW or W in the cycle before.
    m_axi_* : plain signals
        See ``axi_members``.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "i": In(MemoryPort(cfg, cfg.axi_id_bits)),
            "pending": Out(1),
            "event_read_requests": Out(1),
            "event_read_beats": Out(1),
            "event_write_requests": Out(1),
            "event_write_beats": Out(1),
        } | axi_members(cfg))

    def elaborate(self, platform):
        m = Module()
        self._address(m, "ar", self.i.read_request)
        self._address(m, "aw", self.i.write_request)
        self._write_data(m)
        self._read_data(m)
        self._write_response(m)
        m.d.sync += [
            self.event_read_requests.eq(self.m_axi_arvalid & self.m_axi_arready),
            self.event_read_beats.eq(self.m_axi_rvalid & self.m_axi_rready),
            self.event_write_requests.eq(self.m_axi_awvalid & self.m_axi_awready),
            self.event_write_beats.eq(self.m_axi_wvalid & self.m_axi_wready),
        ]
        reading = self._outstanding(m, "reads", self.i.read_request, self.i.read_data, self.i.read_data.payload.last)
        writing = self._outstanding(m, "writes", self.i.write_request, self.i.write_response, 1)
        m.d.comb += self.pending.eq(reading | writing)
        return m

    def _axi(self, name):
        return getattr(self, f"m_axi_{name}")

    def _address(self, m, channel, requests):
        m.submodules[f"{channel}_buffer"] = buffer = Queue(requests.payload.shape(), SOON if self.cfg.l2_kib else ITEMS)
        link(m, requests, buffer.i)
        constants = {"size": exact_log2(self.cfg.axi_bytes), "burst": BURST_INCREMENT, "lock": 0, "cache": CACHE_ATTRIBUTES,
                     "prot": 0}
        m.d.comb += [self._axi(f"{channel}{name}").eq(value) for name, value in constants.items()]
        m.d.comb += [
            self._axi(f"{channel}id").eq(buffer.o.payload.tag),
            self._axi(f"{channel}addr").eq(buffer.o.payload.address),
            self._axi(f"{channel}len").eq(buffer.o.payload.beats_minus_one),
            self._axi(f"{channel}valid").eq(buffer.o.valid),
            buffer.o.ready.eq(self._axi(f"{channel}ready")),
        ]

    def _write_data(self, m):
        m.submodules.w_buffer = buffer = Queue(self.i.write_data.payload.shape(), ITEMS)
        link(m, self.i.write_data, buffer.i)
        m.d.comb += [
            self.m_axi_wdata.eq(buffer.o.payload.data),
            self.m_axi_wstrb.eq(buffer.o.payload.strobe),
            self.m_axi_wlast.eq(buffer.o.payload.last),
            self.m_axi_wvalid.eq(buffer.o.valid),
            buffer.o.ready.eq(self.m_axi_wready),
        ]

    def _read_data(self, m):
        m.submodules.r_buffer = buffer = Queue(self.i.read_data.payload.shape(), ITEMS)
        m.d.comb += [
            buffer.i.payload.data.eq(self.m_axi_rdata),
            buffer.i.payload.tag.eq(self.m_axi_rid),
            buffer.i.payload.last.eq(self.m_axi_rlast),
            buffer.i.payload.error.eq(self.m_axi_rresp[1]),
            buffer.i.valid.eq(self.m_axi_rvalid),
            self.m_axi_rready.eq(buffer.i.ready),
        ]
        link(m, buffer.o, self.i.read_data)

    def _write_response(self, m):
        m.submodules.b_buffer = buffer = Queue(self.i.write_response.payload.shape(), ITEMS)
        m.d.comb += [
            buffer.i.payload.tag.eq(self.m_axi_bid),
            buffer.i.payload.error.eq(self.m_axi_bresp[1]),
            buffer.i.valid.eq(self.m_axi_bvalid),
            self.m_axi_bready.eq(buffer.i.ready),
        ]
        link(m, buffer.o, self.i.write_response)

    def _outstanding(self, m, name, requests, answers, last):
        """Whether requests are without their last answer; more than fit the counter are never under way. With ``far_registers`` they are
        counted a cycle later, and that cycle counts too."""
        count = Signal(PENDING_BITS, name=f"{name}_outstanding")
        begun, ended, before = requests.valid & requests.ready, answers.valid & answers.ready & last, Const(0)
        if self.cfg.far_registers:
            before, after = (Signal(name=f"{name}_{what}") for what in ("begun", "ended"))
            m.d.sync += [before.eq(begun), after.eq(ended)]
            begun, ended = before, after
        with m.If(begun & ~ended):
            m.d.sync += count.eq(count + 1)
        with m.If(ended & ~begun):
            m.d.sync += count.eq(count - 1)
        return (count != 0) | before
