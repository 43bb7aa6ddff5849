"""AXI4-Lite subordinate: transactions to single register accesses."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.control import RegisterAccessPort
from ..isa.register_map import ADDRESS_BITS

__all__ = ["AxiLite", "axi_lite_members"]


def axi_lite_members():
    """AXI4-Lite subordinate signals under the names that simulators and vendor tools expect."""
    return {
        "s_axil_awaddr": In(ADDRESS_BITS), "s_axil_awprot": In(3), "s_axil_awvalid": In(1), "s_axil_awready": Out(1),
        "s_axil_wdata": In(32), "s_axil_wstrb": In(4), "s_axil_wvalid": In(1), "s_axil_wready": Out(1),
        "s_axil_bresp": Out(2), "s_axil_bvalid": Out(1), "s_axil_bready": In(1),
        "s_axil_araddr": In(ADDRESS_BITS), "s_axil_arprot": In(3), "s_axil_arvalid": In(1), "s_axil_arready": Out(1),
        "s_axil_rdata": Out(32), "s_axil_rresp": Out(2), "s_axil_rvalid": Out(1), "s_axil_rready": In(1),
    }


class AxiLite(Component):
    """AXI4-Lite subordinate: one read and one write in flight; every access answers OKAY.

    A write transfers a whole word of 32 bits. Write strobes are ignored, because registers have no separate bytes. Reads and writes are
    independent.

    *Ports*:
    s_axil_* : In or Out, as ``axi_lite_members`` lists
        AXI4-Lite signals.
    access : Out(RegisterAccessPort())
        Accesses to registers.

    *Latency*: write: 1 cycle from address and data on the bus to ``access.write`` and the ready signals, 2 cycles to ``bvalid``. Read:
    1 cycle from ``arvalid`` to ``access.read_address`` and ``arready``, 3 cycles to ``rvalid`` without ``access.read_wait``.

    *Throughput*: a write every 3 cycles, a read every 4 cycles.

    *Back-pressure*: all outputs to the bus are registered. A write waits until address and data are both valid. Responses wait for
    ``bready`` and ``rready``.

    *Reset*: no transaction in flight.

    *Errors*: none; ``bresp`` and ``rresp`` are always OKAY.
    """

    def __init__(self):
        super().__init__(axi_lite_members() | {"access": Out(RegisterAccessPort())})

    def elaborate(self, platform):
        m = Module()
        access = self.access
        with m.FSM(name="write_channel"):
            with m.State("IDLE"):
                take = Signal()
                m.d.comb += take.eq(self.s_axil_awvalid & self.s_axil_wvalid)
                m.d.sync += [
                    access.write_address.eq(self.s_axil_awaddr), access.write_data.eq(self.s_axil_wdata),
                    self.s_axil_awready.eq(take), self.s_axil_wready.eq(take), access.write.eq(take),
                ]
                with m.If(take):
                    m.next = "TAKEN"
            with m.State("TAKEN"):
                m.d.sync += [self.s_axil_awready.eq(0), self.s_axil_wready.eq(0), access.write.eq(0), self.s_axil_bvalid.eq(1)]
                m.next = "RESPOND"
            with m.State("RESPOND"):
                with m.If(self.s_axil_bready):
                    m.d.sync += self.s_axil_bvalid.eq(0)
                    m.next = "IDLE"
        with m.FSM(name="read_channel"):
            with m.State("IDLE"):
                m.d.sync += [access.read_address.eq(self.s_axil_araddr), self.s_axil_arready.eq(self.s_axil_arvalid)]
                with m.If(self.s_axil_arvalid):
                    m.next = "TAKEN"
            with m.State("TAKEN"):
                m.d.sync += self.s_axil_arready.eq(0)
                m.next = "READ"
            with m.State("READ"):
                m.d.sync += [self.s_axil_rdata.eq(access.read_data), self.s_axil_rvalid.eq(~access.read_wait)]
                with m.If(~access.read_wait):
                    m.next = "RESPOND"
            with m.State("RESPOND"):
                with m.If(self.s_axil_rready):
                    m.d.sync += self.s_axil_rvalid.eq(0)
                    m.next = "IDLE"
        return m
