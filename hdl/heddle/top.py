"""Device: cores, control and AXI ports."""

from typing import NamedTuple

from amaranth import *
from amaranth.lib.wiring import Component, Out, connect

from .control.axi_lite import AxiLite, axi_lite_members
from .control.control_registers import ControlRegisters
from .control.performance_counters import PerformanceCounters
from .control.run_control import RunControl
from .control.tile_scheduler import TileScheduler
from .core import CORE_EVENTS, Core, error_sources
from .interfaces.control import REASONS
from .isa.counter_table import LEVEL2_EVENTS, absent_counters
from .l2.unit import L2
from .lib.shared_module import SharedModule
from .memory.axi_master import MASTER_EVENTS, AxiMaster, axi_members
from .tmau.multicast_network import MulticastNetwork

__all__ = ["Top", "axi_prefixes"]

EVENTS_OF_LEVEL2 = {"level2_hits": "event_hit", "level2_misses": "event_miss", "level2_evictions": "event_eviction"}


def axi_prefixes(cfg):
    """Prefixes of the AXI signal names of each core: ``m_axi_`` with one core, ``m_axi_<core>_`` with several."""
    return ["m_axi_"] if cfg.cores == 1 else [f"m_axi_{core}_" for core in range(cfg.cores)]


class _Cores(NamedTuple):
    """The cores and their way to global memory."""

    cores: list[Component]
    masters: list[AxiMaster]
    level2: L2


class Top(Component):
    """Complete device: cores, L2, AXI masters, control registers and performance counters; module ``heddle`` in Verilog [S0.14].

    All cores run one program from one doorbell; the host writes the uniform registers of all cores at once, and ``%core`` distinguishes
    the cores. A run ends when the programs of all cores have ended and no access is outstanding. A stopping error of one core stops all
    cores. Event counters are summed over the cores; the cycle breakdown is that of core 0.

    Parameters
    ----------
    cfg : Config

    *Ports*:
    s_axil_* : In or Out, as ``axi_lite_members`` lists
        AXI4-Lite control port (``heddle.isa.register_map``).
    m_axi_* or m_axi_<core>_* : In or Out, as ``axi_members`` lists
        AXI4 port of each core to global memory: ``cfg.axi_data_bits`` of data, ``cfg.axi_id_bits`` of ID. With the L2, port n is that
        of bank n.
    interrupt : Out(1)
        High while enabled and pending: a run has ended.

    *Latency*: with ``cfg.far_registers`` the counters receive events, enable and clear one cycle later, all together.

    *Reset*: synchronous; no program runs. Memory must be reset in the same cycle.

    *Errors*: the first error of a run, with the number of its core, in the control registers.

    *Source*: [S0.14], docs/architecture.md.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        members = axi_lite_members() | {"interrupt": Out(1)}
        for prefix in axi_prefixes(cfg):
            members |= axi_members(cfg, prefix)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        cfg = self.cfg
        m.submodules.axi_lite = lite = AxiLite()
        m.submodules.registers = registers = ControlRegisters(cfg)
        m.submodules.run = run = RunControl(len(error_sources(cfg)), cfg.cores)
        m.submodules.counters = counters = PerformanceCounters(cfg.cores, absent_counters(cfg))
        m.submodules.l2 = level2 = L2(cfg)
        cores, masters = self._cores(m)
        units = _Cores(cores, masters, level2)

        self._through(m, lite, axi_lite_members())
        for core, master, client, memory in zip(cores, masters, level2.i, level2.o, strict=True):
            connect(m, core.global_port, client)
            connect(m, memory, master.i)
        connect(m, lite.access, registers.access)
        connect(m, registers.counters, counters.read)
        connect(m, run.status, registers.status)
        m.d.comb += [run.doorbell.eq(registers.doorbell), run.timeout.eq(registers.timeout), self.interrupt.eq(registers.interrupt)]
        self._run(m, registers, run, units)
        self._count(m, counters, run, units)
        if cfg.multicast:
            self._multicast(m, cores)
        if cfg.tile_scheduler:
            m.submodules.tiles = tiles = TileScheduler(cfg.cores)
            m.d.comb += tiles.clear.eq(run.start)
            for core, port in zip(cores, tiles.cores, strict=True):
                connect(m, core.tiles, port)
        if cfg.l2_kib:
            # The host may change memory between runs: drop all lines at the start and the end of a run.
            m.d.comb += level2.invalidate.eq(run.start | run.status.finished)
        return m

    def _cores(self, m):
        """Cores (elaborated once) and their AXI masters."""
        core_type, cores, masters = SharedModule("core", Core, self.cfg), [], []
        for number, prefix in enumerate(axi_prefixes(self.cfg)):
            core = core_type.instantiate(m, f"core_{number}")
            m.submodules[f"axi_master_{number}"] = master = AxiMaster(self.cfg)
            m.d.comb += [core.core.eq(number), core.addressed.eq(master.m_axi_arvalid | master.m_axi_awvalid)]
            self._through(m, master, axi_members(self.cfg), prefix)
            cores.append(core)
            masters.append(master)
        return cores, masters

    def _multicast(self, m, cores):
        """Multicast network. Each core receives, registered, whether all other cores are settled."""
        m.submodules.multicast = network = MulticastNetwork(self.cfg)
        for number, core in enumerate(cores):
            connect(m, core.o_multicast, network.i[number])
            connect(m, network.o[number], core.i_multicast)
            m.d.comb += core.multicast_pending.eq(network.pending[number])
            m.d.sync += core.peers_settled.eq(Cat(other.settled for other in cores if other is not core).all())

    def _run(self, m, registers, run, units):
        """Distribute program, uniform registers, start and stop to all cores; collect errors and ends of runs."""
        level2_busy = units.level2.busy if self.cfg.l2_kib else 0
        for number, (core, master) in enumerate(zip(units.cores, units.masters, strict=True)):
            of_core = run.cores[number]
            m.d.comb += [
                core.i_program.payload.eq(registers.o_program.payload), core.i_program.valid.eq(registers.o_program.valid),
                core.i_uniform.payload.eq(registers.o_uniform.payload), core.i_uniform.valid.eq(registers.o_uniform.valid),
                core.program.entry.eq(registers.program.entry), core.program.end.eq(registers.program.end),
                core.run.start.eq(of_core.start), core.run.stop.eq(of_core.stop), of_core.pc.eq(core.run.pc),
                of_core.ended.eq(core.run.ended), of_core.idle.eq(core.run.idle & ~master.pending & ~level2_busy),
            ]
            if self.cfg.wait_timeout:
                m.d.comb += core.wait_timeout.eq(registers.wait_timeout)
            for source, error in enumerate(core.o_error):
                connect(m, error, run.i_error[number * len(core.o_error) + source])

    def _count(self, m, counters, run, units):
        """Events of all cores, and the cycle breakdown of core 0."""
        cores, masters, level2 = units
        domain = m.d.sync if self.cfg.far_registers else m.d.comb       # registered or not, but all inputs alike
        domain += [counters.enable.eq(run.status.running), counters.clear.eq(run.start)]
        for sources, names in ((cores, CORE_EVENTS), (masters, MASTER_EVENTS)):
            for name in (each for each in names if each not in absent_counters(self.cfg)):
                domain += getattr(counters.events, name).eq(sum(getattr(source.events, name) for source in sources))
        domain += [getattr(counters.reasons, name).eq(getattr(cores[0].reasons, name)) for name in REASONS]
        if self.cfg.l2_kib:
            domain += [getattr(counters.events, name).eq(getattr(level2, EVENTS_OF_LEVEL2[name])) for name in LEVEL2_EVENTS]

    def _through(self, m, unit, members, prefix="m_axi_"):
        """Connect ports of the device to the ports of a unit; ports to memory have their own prefix."""
        for name, member in members.items():
            inner, outer = getattr(unit, name), getattr(self, name.replace("m_axi_", prefix))
            m.d.comb += outer.eq(inner) if member.flow == Out else inner.eq(outer)
