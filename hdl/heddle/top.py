"""The device: cores, control and the AXI ports."""

from amaranth import *
from amaranth.lib.wiring import Component, Out, connect

from .config import ConfigError
from .control.axi_lite import AxiLite, axi_lite_members
from .control.counters import PerformanceCounters
from .control.registers import ControlRegisters
from .control.run import RunControl
from .core import ERROR_SOURCES, Core
from .memory.axi_master import AxiMaster, axi_members
from .memory.l2 import Level2

__all__ = ["Top"]


class Top(Component):
    """A complete device; the module's name in Verilog is ``heddle``.

    Members
    -------
    s_axil_*
        AXI4-Lite control (``heddle.registers``).
    m_axi_*
        AXI4 to global memory: ``cfg.axi_data_bits`` wide, ``cfg.axi_id_bits`` of ID.
    interrupt
        High while enabled and pending: a run has ended.

    Raises ``ConfigError`` for more than one core, which is not available yet.
    """

    def __init__(self, cfg):
        if cfg.cores != 1:
            raise ConfigError(f"cores must be 1 (several cores are not available yet), not {cfg.cores}")
        self.cfg = cfg
        super().__init__(axi_lite_members() | axi_members(cfg) | {"interrupt": Out(1)})

    def elaborate(self, platform):
        m = Module()
        cfg = self.cfg
        m.submodules.core = core = Core(cfg)
        m.submodules.axi_lite = lite = AxiLite()
        m.submodules.registers = registers = ControlRegisters(cfg)
        m.submodules.run = run = RunControl(len(ERROR_SOURCES))
        m.submodules.counters = counters = PerformanceCounters()
        m.submodules.level2 = level2 = Level2(cfg)
        m.submodules.axi_master = master = AxiMaster(cfg)

        self._through(m, lite, axi_lite_members())
        self._through(m, master, axi_members(cfg))
        connect(m, core.global_port, level2.i)
        connect(m, level2.o, master.i)
        connect(m, registers.o_program, core.i_program)
        for source, sink in zip(core.o_error, run.i_error):
            connect(m, source, sink)
        m.d.comb += [
            registers.write.eq(lite.write), registers.write_address.eq(lite.write_address),
            registers.write_data.eq(lite.write_data), registers.read_address.eq(lite.read_address),
            lite.read_data.eq(registers.read_data), lite.read_wait.eq(registers.read_wait),
            registers.counters_settled.eq(counters.settled),
            core.host_write.eq(registers.uniform_write), core.host_index.eq(registers.uniform_index),
            core.host_data.eq(registers.uniform_data), core.entry.eq(registers.entry),
            run.doorbell.eq(registers.doorbell), run.timeout.eq(registers.timeout),
            core.start.eq(run.start), core.stop.eq(run.stop), run.ended.eq(core.ended),
            run.idle.eq(core.idle & ~master.pending),
            counters.enable.eq(run.running), counters.clear.eq(run.start),
            counters.index.eq(registers.counter_index), registers.counter_value.eq(counters.value),
            self.interrupt.eq(registers.interrupt),
        ]
        m.d.comb += [getattr(registers, name).eq(getattr(run, name))
                     for name in ("running", "done", "failed", "stuck", "finished", "error")]
        for unit, names in ((core, core.events), (master, ("read_requests", "read_beats", "write_requests", "write_beats"))):
            m.d.comb += [getattr(counters, f"event_{name}").eq(getattr(unit, f"event_{name}")) for name in names]
        m.d.comb += [getattr(counters, f"reason_{name}").eq(getattr(core, f"reason_{name}")) for name in core.reasons]
        return m

    def _through(self, m, unit, members):
        """Ports of the device that are ports of a unit."""
        for name, member in members.items():
            inner, outer = getattr(unit, name), getattr(self, name)
            m.d.comb += outer.eq(inner) if member.flow == Out else inner.eq(outer)
