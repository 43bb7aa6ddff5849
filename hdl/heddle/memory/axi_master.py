"""AXI4 master: queues and protocol signals between a port to global memory and an AXI4 slave."""

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..interfaces.control import EventPort
from ..interfaces.layouts import MemoryPort
from ..lib.stream import Queue, link
from ..parameters.memory import MemoryParameters

__all__ = ["ITEMS", "MASTER_EVENTS", "AxiMaster", "axi_members"]

MASTER_EVENTS = ("read_requests", "read_beats", "write_requests", "write_beats")
BURST_INCREMENT = 1
CACHE_ATTRIBUTES = 0b0011       # normal memory, not cacheable, bufferable
PENDING_BITS = 16
ITEMS = 3             # depth of a channel's queue: 2 cycles, distributed RAM
SOON = 2              # depth of the request queues behind the L2: 1 cycle, registers; the L2 itself takes the other cycle


def axi_members(cfg, prefix="m_axi_"):
    """Members of an AXI4 master port as plain signals.

    Parameters
    ----------
    cfg : MemoryParameters
        Widths: ``axi_id_bits`` of ID, ``axi_address_bits`` of byte address, ``axi_data_bits`` of data.
    prefix : str
        First part of every name.

    Returns
    -------
    dict
        Name to ``Out(width)`` or ``In(width)``, seen from the master.
    """
    address = {"id": cfg.axi_id_bits, "addr": cfg.axi_address_bits, "len": 8, "size": 3, "burst": 2, "lock": 1, "cache": 4,
               "prot": 3}
    outputs = {f"{channel}{name}": width for channel in ("aw", "ar") for name, width in (address | {"valid": 1}).items()}
    outputs |= {"wdata": cfg.axi_data_bits, "wstrb": cfg.axi_bytes, "wlast": 1, "wvalid": 1, "bready": 1, "rready": 1}
    inputs = {"awready": 1, "wready": 1, "bid": cfg.axi_id_bits, "bresp": 2, "bvalid": 1, "arready": 1,
              "rid": cfg.axi_id_bits, "rdata": cfg.axi_data_bits, "rresp": 2, "rlast": 1, "rvalid": 1}
    return ({f"{prefix}{name}": Out(width) for name, width in outputs.items()}
            | {f"{prefix}{name}": In(width) for name, width in inputs.items()})


class AxiMaster(Component):
    """AXI4 master: connects a port to global memory to the five AXI4 channels through a queue in each channel.

    Requests become incrementing bursts of full beats of ``cfg.axi_data_bits``; the tag is the AXI ID. Addresses are in bytes. ``len``
    is ``beats_minus_one``; the cache attributes are "normal, not cacheable, bufferable"; ``prot`` and ``lock`` are 0. Queues in
    distributed RAM take fewer LUTs than register stages.

    Parameters
    ----------
    cfg : MemoryParameters

    *Ports*:
    i : In(MemoryPort(cfg, cfg.axi_id_bits))
        Requests, write data, read data and write responses of the requesters.
    pending : Out(1)
        Some request was accepted at ``i`` and its last answer was not yet transferred at ``i``.
    events : Out(EventPort(MASTER_EVENTS))
        ``read_requests``, ``read_beats``, ``write_requests`` and ``write_beats``: one cycle after each transfer on AR, R, AW and W.
    m_axi_* : In or Out, as ``axi_members`` lists
        AXI4 signals ``m_axi_awid`` to ``m_axi_rready``.

    *Latency*: 2 cycles from ``valid`` at one side to ``valid`` at the other in each channel. With ``cfg.l2_kib`` AR and AW take 1
    cycle. ``pending`` rises 1 cycle after a request is accepted, and falls 1 cycle after the last answer.

    *Throughput*: one read request, one write request and one beat in each direction per cycle.

    *Back-pressure*: all outputs come from registers; no ``ready`` depends combinationally on an input. A queue holds 3 items, with
    ``cfg.l2_kib`` the queues of AR and AW hold 2. ``valid`` and payload of AXI outputs stay until accepted.

    *Order*: write data may be valid on W before their address is on AW; AXI4 allows this order. Bursts are not split: the requesters
    keep every burst within a page of 4 KiB and within the length that the slave accepts.

    *Reset*: empties the queues and the counters of outstanding requests. The slave must be reset in the same cycle.

    *Errors*: ``resp[1]`` of R or B (slave or decode error) is the bit ``error`` of the beat or response.

    *Source*: docs/units/axi.md.
    """

    def __init__(self, cfg):
        self.cfg = cfg = MemoryParameters.of(cfg)
        super().__init__({
            "i": In(MemoryPort(cfg, cfg.axi_id_bits)),
            "pending": Out(1),
            "events": Out(EventPort(MASTER_EVENTS)),
        } | axi_members(cfg))

    def elaborate(self, platform):
        m = Module()
        self._address(m, "ar", self.i.read_request)
        self._address(m, "aw", self.i.write_request)
        self._write_data(m)
        self._read_data(m)
        self._write_response(m)
        m.d.sync += [
            self.events.read_requests.eq(self.m_axi_arvalid & self.m_axi_arready),
            self.events.read_beats.eq(self.m_axi_rvalid & self.m_axi_rready),
            self.events.write_requests.eq(self.m_axi_awvalid & self.m_axi_awready),
            self.events.write_beats.eq(self.m_axi_wvalid & self.m_axi_wready),
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
        """Whether some request has not received its last answer.

        The counter of ``PENDING_BITS`` bits exceeds the number of requests that can be outstanding.
        """
        count = Signal(PENDING_BITS, name=f"{name}_outstanding")
        begun, ended = requests.valid & requests.ready, answers.valid & answers.ready & last
        with m.If(begun & ~ended):
            m.d.sync += count.eq(count + 1)
        with m.If(ended & ~begun):
            m.d.sync += count.eq(count - 1)
        return count != 0
