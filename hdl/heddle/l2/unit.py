"""L2 of all cores: a cache with the reduction unit, or a wire."""

from amaranth.hdl import Cat, Module
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..interfaces.layouts import GlobalPort, MemoryPort
from ..lib.round_robin import RoundRobinArbiter
from ..lib.shared_module import SharedModule
from ..lib.stream import link
from ..parameters.l2 import L2Parameters
from .bank import L2Bank
from .layouts import L2Sizes, line_part_layout, line_read_layout
from .port import L2Port

__all__ = ["L2"]


class L2(Component):
    """Second-level cache of all cores, between their global ports and the AXI masters [S1.9, S1.11].

    With ``cfg.l2_kib`` it has ``cfg.cores`` banks; line n lies in bank n mod ``cfg.cores``, and bank n uses AXI master n. Reads fill
    the cache, plain writes drop their line and are sent to memory, reductions update both. Memory always has every acknowledged write.
    Answers are in the order of the requests. Without ``cfg.l2_kib`` every port is a wire without state.

    Parameters
    ----------
    cfg : L2Parameters

    *Ports*:
    i : In(GlobalPort(cfg, cfg.axi_id_bits)).array(cfg.cores)
        Ports of the cores' arbiters.
    o : Out(MemoryPort(cfg, cfg.axi_id_bits)).array(cfg.cores)
        Ports of the AXI masters.
    invalidate : In(1)
        Drop all lines. Only with ``cfg.l2_kib``.
    busy : Out(1)
        A request is outstanding or a prefetch is in flight. Only with ``cfg.l2_kib``.
    event_hit, event_miss, event_eviction : Out(range(cfg.cores + 1))
        Lines that hit, missed or replaced a line in a cycle, summed over all banks; registered per bank. Only with ``cfg.l2_kib``.

    *Latency*: 1 cycle from a read request that misses to ``o``, and from a write request. 2 cycles more for read data than without L2.
    A hit takes 6 cycles from the transfer of its request to its first beat. Without ``cfg.l2_kib`` 0 cycles.

    *Throughput*: one beat per cycle and port in each direction; one line looked up per cycle and bank.

    *Back-pressure*: without ``cfg.l2_kib`` all ``ready`` pass combinationally; otherwise as ``L2Port`` says.

    *Reset*: drops all lines and requests; requests then wait for ``L2Sizes.sets`` cycles.

    *Source*: [S1.9, S1.11], docs/units/l2.md.
    """

    def __init__(self, cfg):
        self.cfg = cfg = L2Parameters.of(cfg)
        members = {
            "i": In(GlobalPort(cfg, cfg.axi_id_bits)).array(cfg.cores),
            "o": Out(MemoryPort(cfg, cfg.axi_id_bits)).array(cfg.cores),
        }
        if cfg.l2_kib:
            members |= {"invalidate": In(1), "busy": Out(1)}
            members |= {f"event_{name}": Out(range(cfg.cores + 1)) for name in ("hit", "miss", "eviction")}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        if not self.cfg.l2_kib:
            for client, memory in zip(self.i, self.o, strict=True):
                connect(m, client=flipped(client), memory=flipped(memory))
            return m
        port_type, bank_type = SharedModule("level2_port", L2Port, self.cfg), SharedModule("level2_bank", L2Bank, self.cfg)
        ports = [port_type.instantiate(m, f"port_{number}") for number in range(self.cfg.cores)]
        banks = [bank_type.instantiate(m, f"bank_{number}") for number in range(L2Sizes(self.cfg).banks)]
        for number, (port, client) in enumerate(zip(ports, self.i, strict=True)):
            connect(m, flipped(client), port.client)
            m.d.comb += port.core.eq(number)
        for number, (bank, memory) in enumerate(zip(banks, self.o, strict=True)):
            connect(m, bank.memory, flipped(memory))
            m.d.comb += [bank.number.eq(number), bank.invalidate.eq(self.invalidate)]
            self._to_bank(m, ports, number, bank)
            self._from_bank(m, ports, number, bank)
        for name in ("hit", "miss", "eviction"):
            m.d.comb += getattr(self, f"event_{name}").eq(sum(getattr(bank, f"event_{name}") for bank in banks))
        m.d.comb += self.busy.eq(Cat(unit.busy for unit in (*ports, *banks)).any())
        return m

    def _to_bank(self, m, ports, number, bank):
        """Beats of a line, and their announcement, are not interleaved with other writes. Port 1, if any, is first after a reset."""
        for name, shape, last in (("read", line_read_layout(self.cfg), None), ("write", line_part_layout(self.cfg), "ends")):
            join = RoundRobinArbiter(shape, len(ports), last=last, first=1 % len(ports))
            m.submodules[f"{name}_join_{number}"] = join
            for port, sink in zip(ports, join.i, strict=True):
                out, mine = getattr(port, f"o_{name}"), getattr(port, f"{name}_bank") == number
                m.d.comb += [sink.valid.eq(out.valid & mine), sink.payload.eq(out.payload)]
                with m.If(mine):
                    m.d.comb += out.ready.eq(sink.ready)
            link(m, join.o, getattr(bank, f"i_{name}"))

    def _from_bank(self, m, ports, number, bank):
        answer, ack = bank.o_answer, bank.o_ack
        for core, port in enumerate(ports):
            sink = port.i_answer[number]
            mine = answer.payload.core == core
            m.d.comb += [
                sink.valid.eq(answer.valid & mine), sink.payload.eq(answer.payload),
                port.i_ack[number].valid.eq(ack.valid & (ack.payload.core == core)), port.i_ack[number].payload.eq(ack.payload),
            ]
            with m.If(mine):
                m.d.comb += answer.ready.eq(sink.ready)
