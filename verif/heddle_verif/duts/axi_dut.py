"""A small stand-in for the device: same ports, the registers that a run needs, and a "program" that copies a buffer."""

from amaranth.hdl import Array, Const, Module, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out
from heddle.isa.error_codes import ErrorCode
from heddle.isa.register_map import ADDRESS_BITS, COUNTER_WINDOW, DEVICE_ID, REGISTERS, UNIFORM_WINDOW

__all__ = ["CopyTop"]

TAGS = 4  # bursts under way, one ID each
BEATS = 4  # beats of a burst
OPERANDS = ("source", "destination", "groups")  # ur0, ur1, ur2


def _ports(cfg):
    address, data, ids = cfg.axi_address_bits, cfg.axi_data_bits, cfg.axi_id_bits
    ports = {"interrupt": Out(1)}
    for channel in ("aw", "ar"):
        ports |= {
            f"s_axil_{channel}addr": In(ADDRESS_BITS),
            f"s_axil_{channel}valid": In(1),
            f"s_axil_{channel}ready": Out(1),
        }
        for name, width in {
            "id": ids,
            "addr": address,
            "len": 8,
            "size": 3,
            "burst": 2,
            "cache": 4,
            "prot": 3,
            "valid": 1,
        }.items():
            ports[f"m_axi_{channel}{name}"] = Out(width)
        ports[f"m_axi_{channel}ready"] = In(1)
    ports |= {
        "s_axil_wdata": In(32),
        "s_axil_wstrb": In(4),
        "s_axil_wvalid": In(1),
        "s_axil_wready": Out(1),
        "s_axil_bresp": Out(2),
        "s_axil_bvalid": Out(1),
        "s_axil_bready": In(1),
        "s_axil_rdata": Out(32),
        "s_axil_rresp": Out(2),
        "s_axil_rvalid": Out(1),
        "s_axil_rready": In(1),
        "m_axi_wdata": Out(data),
        "m_axi_wstrb": Out(data // 8),
        "m_axi_wlast": Out(1),
        "m_axi_wvalid": Out(1),
        "m_axi_wready": In(1),
        "m_axi_bid": In(ids),
        "m_axi_bresp": In(2),
        "m_axi_bvalid": In(1),
        "m_axi_bready": Out(1),
        "m_axi_rid": In(ids),
        "m_axi_rdata": In(data),
        "m_axi_rresp": In(2),
        "m_axi_rlast": In(1),
        "m_axi_rvalid": In(1),
        "m_axi_rready": Out(1),
    }
    return ports


class CopyTop(Component):
    """Copies ``ur2`` groups of 16 beats from address ``ur0`` to ``ur1``, in four bursts of four beats with an ID each.

    ``faults`` break a rule on purpose: ``"size"`` of a burst, ``"drop"`` (an address is withdrawn), ``"silent"`` (no
    interrupt).
    """

    def __init__(self, cfg, faults=()):
        self.cfg, self.faults = cfg, faults
        super().__init__(_ports(cfg))

    def elaborate(self, platform):
        m = Module()
        self.operands = Array(Signal(32, name=name) for name in OPERANDS)
        self.start, self.enable, self.pending, self.done = Signal(), Signal(), Signal(), Signal()
        self.failed = Signal(ErrorCode)
        self.cycles = Signal(32)
        self._lite_write(m)
        self._lite_read(m)
        self._copy(m)
        m.d.comb += self.interrupt.eq(self.pending & self.enable)
        return m

    def _lite_write(self, m):
        take = Signal()
        address, data = self.s_axil_awaddr, self.s_axil_wdata
        m.d.comb += [
            take.eq(self.s_axil_awvalid & self.s_axil_wvalid & ~self.s_axil_bvalid),
            self.s_axil_awready.eq(take),
            self.s_axil_wready.eq(take),
        ]
        m.d.sync += self.start.eq(0)
        with m.If(self.s_axil_bready):
            m.d.sync += self.s_axil_bvalid.eq(0)
        with m.If(take):
            m.d.sync += self.s_axil_bvalid.eq(1)
            with m.Switch(address):
                with m.Case(REGISTERS["control"][0]):
                    m.d.sync += self.start.eq(data[0])
                with m.Case(REGISTERS["interrupt"][0]):
                    m.d.sync += self.enable.eq(data[0])
                    with m.If(data[1]):
                        m.d.sync += self.pending.eq(0)
                for index in range(len(OPERANDS)):
                    with m.Case(UNIFORM_WINDOW + 4 * index):
                        m.d.sync += self.operands[index].eq(data)

    def _lite_read(self, m):
        running = ~self.done
        values = {
            REGISTERS["id"][0]: Const(DEVICE_ID, 32),
            REGISTERS["threads"][0]: self.cfg.threads,
            REGISTERS["dot"][0]: self.cfg.dot,
            REGISTERS["status"][0]: running | self.done << 1 | (self.failed != ErrorCode.NONE) << 2,
            REGISTERS["error_code"][0]: self.failed,
            COUNTER_WINDOW: self.cycles,
        }
        m.d.comb += self.s_axil_arready.eq(~self.s_axil_rvalid)
        with m.If(self.s_axil_rready):
            m.d.sync += self.s_axil_rvalid.eq(0)
        with m.If(self.s_axil_arvalid & self.s_axil_arready):
            m.d.sync += [self.s_axil_rvalid.eq(1), self.s_axil_rdata.eq(0)]
            with m.Switch(self.s_axil_araddr):
                for address, value in values.items():
                    with m.Case(address):
                        m.d.sync += self.s_axil_rdata.eq(value)

    def _copy(self, m):
        cfg = self.cfg
        burst_bytes = BEATS * cfg.axi_bytes
        group, tag, beat, answers = (
            Signal(32),
            Signal(range(TAGS)),
            Signal(range(BEATS)),
            Signal(range(TAGS * BEATS + 1)),
        )
        counts = Array(Signal(range(BEATS), name=f"count_{index}") for index in range(TAGS))
        m.submodules.rows = rows = Memory(shape=cfg.axi_data_bits, depth=TAGS * BEATS, init=[])
        write, read = rows.write_port(), rows.read_port(domain="comb")
        offset = (group * TAGS + tag) * burst_bytes
        bad = "size" in self.faults
        for channel in ("ar", "aw"):
            m.d.comb += [
                getattr(self, f"m_axi_{channel}len").eq(BEATS - 1),
                getattr(self, f"m_axi_{channel}burst").eq(1),
                getattr(self, f"m_axi_{channel}size").eq((cfg.axi_bytes // (2 if bad else 1)).bit_length() - 1),
                getattr(self, f"m_axi_{channel}id").eq(tag),
            ]
        m.d.comb += [
            self.m_axi_araddr.eq(self.operands[0] + offset),
            self.m_axi_awaddr.eq(self.operands[1] + offset),
            write.addr.eq(self.m_axi_rid * BEATS + counts[self.m_axi_rid]),
            write.data.eq(self.m_axi_rdata),
            read.addr.eq(tag * BEATS + beat),
            self.m_axi_wdata.eq(read.data),
            self.m_axi_wstrb.eq(-1),
            self.m_axi_wlast.eq(beat == BEATS - 1),
        ]
        m.d.sync += self.cycles.eq(self.cycles + 1)
        with m.If(self.m_axi_bvalid & self.m_axi_bready):
            m.d.sync += answers.eq(answers + 1)
            with m.If(self.m_axi_bresp.any()):
                m.d.sync += self.failed.eq(ErrorCode.AXI_WRITE)
        with m.FSM(name="copy"):
            with m.State("IDLE"), m.If(self.start):
                m.d.sync += [
                    self.done.eq(0),
                    self.failed.eq(0),
                    self.cycles.eq(0),
                    group.eq(0),
                    tag.eq(0),
                    answers.eq(0),
                ]
                m.next = "READ"
            with m.State("READ"):
                m.d.comb += self.m_axi_arvalid.eq(1 if "drop" not in self.faults else self.cycles[0])
                with m.If(self.m_axi_arready & self.m_axi_arvalid):
                    m.d.sync += tag.eq(tag + 1)
                    with m.If(tag == TAGS - 1):
                        m.next = "COLLECT"
            with m.State("COLLECT"):
                m.d.comb += [self.m_axi_rready.eq(1), write.en.eq(self.m_axi_rvalid)]
                with m.If(self.m_axi_rvalid):
                    m.d.sync += [counts[self.m_axi_rid].eq(counts[self.m_axi_rid] + 1), answers.eq(answers + 1)]
                    with m.If(self.m_axi_rresp.any()):
                        m.d.sync += self.failed.eq(ErrorCode.AXI_READ)
                    with m.If(answers == TAGS * BEATS - 1):
                        m.d.sync += answers.eq(0)
                        m.next = "WRITE"
            self._write_states(m, group, tag, beat, answers)

    def _write_states(self, m, group, tag, beat, answers):
        address_done = Signal()
        with m.State("WRITE"):
            last = Signal()
            m.d.comb += [
                self.m_axi_awvalid.eq(~address_done),
                self.m_axi_wvalid.eq(1),
                self.m_axi_bready.eq(1),
                last.eq((self.m_axi_awready | address_done) & self.m_axi_wready & (beat == BEATS - 1)),
            ]
            with m.If(self.m_axi_awready):
                m.d.sync += address_done.eq(1)
            # The last beat of a burst is offered only together with, or after, its address.
            with m.If((beat == BEATS - 1) & ~address_done):
                m.d.comb += self.m_axi_wvalid.eq(self.m_axi_awready)
            with m.If(self.m_axi_wready & self.m_axi_wvalid):
                m.d.sync += beat.eq(beat + 1)
            with m.If(last):
                m.d.sync += [tag.eq(tag + 1), address_done.eq(0)]
                with m.If(tag == TAGS - 1):
                    m.next = "ANSWER"
        with m.State("ANSWER"):
            m.d.comb += self.m_axi_bready.eq(1)
            with m.If(answers == TAGS):
                m.d.sync += [answers.eq(0), group.eq(group + 1)]
                with m.If(group + 1 == self.operands[2]):
                    if "silent" not in self.faults:
                        m.d.sync += [self.done.eq(1), self.pending.eq(1)]
                    m.next = "IDLE"
                with m.Else():
                    m.next = "READ"
