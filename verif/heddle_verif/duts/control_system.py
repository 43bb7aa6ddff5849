"""The control units wired as in the device, with the core left out."""

from amaranth.hdl import Module
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped
from heddle.control.axi_lite import AxiLite, axi_lite_members
from heddle.control.control_registers import ControlRegisters
from heddle.control.performance_counters import PerformanceCounters
from heddle.control.run_control import RunControl
from heddle.interfaces.control import EventPort, ProgramPort, ReasonPort, RunPort, UniformStream
from heddle.interfaces.layouts import ErrorStream
from heddle.interfaces.program import program_write_layout
from heddle.isa.counter_table import COUNTERS

__all__ = ["ControlSystem"]

SOURCES = 2


class ControlSystem(Component):
    """AXI4-Lite, registers, counters and run control; the members are those that a core has or drives.

    Of several cores all end together, and the errors are those of core 0.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__(axi_lite_members() | {
            "o_program": Out(stream.Signature(program_write_layout(cfg), always_ready=True)), "o_uniform": Out(UniformStream()),
            "program": Out(ProgramPort(cfg)), "run": Out(RunPort()), "running": Out(1), "interrupt": Out(1),
            "i_error": In(ErrorStream()).array(SOURCES), "events": In(EventPort(COUNTERS)), "reasons": In(ReasonPort()),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.axi_lite = lite = AxiLite()
        m.submodules.registers = registers = ControlRegisters(self.cfg)
        m.submodules.run = run = RunControl(SOURCES, self.cfg.cores)
        m.submodules.counters = counters = PerformanceCounters()
        for name, member in axi_lite_members().items():
            inner, outer = getattr(lite, name), getattr(self, name)
            m.d.comb += outer.eq(inner) if member.flow == Out else inner.eq(outer)
        for inner, outer in ((registers.o_program, self.o_program), (registers.o_uniform, self.o_uniform),
                             (registers.program, self.program)):
            connect(m, inner, flipped(outer))
        m.d.comb += [self.run.start.eq(run.cores[0].start), self.run.stop.eq(run.cores[0].stop)]
        for core in run.cores:
            m.d.comb += [getattr(core, name).eq(getattr(self.run, name)) for name in ("ended", "idle", "pc")]
        for outer, inner in ((self.events, counters.events), (self.reasons, counters.reasons), *zip(self.i_error, run.i_error)):
            connect(m, flipped(outer), inner)
        for first, second in ((lite.access, registers.access), (registers.counters, counters.read), (run.status, registers.status)):
            connect(m, first, second)
        m.d.comb += [
            counters.enable.eq(run.status.running), counters.clear.eq(run.start), run.doorbell.eq(registers.doorbell),
            run.timeout.eq(registers.timeout), self.running.eq(run.status.running), self.interrupt.eq(registers.interrupt),
        ]
        return m
