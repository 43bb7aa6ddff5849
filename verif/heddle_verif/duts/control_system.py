"""The control units wired as in the device, with the core left out."""

from amaranth.hdl import Module
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped
from heddle.control.axi_lite import AxiLite, axi_lite_members
from heddle.control.control_registers import ControlRegisters
from heddle.control.performance_counters import PerformanceCounters
from heddle.control.run_control import RunControl
from heddle.front_end.instruction_fetch import program_write_layout
from heddle.interfaces.layouts import PC_BITS, ErrorStream
from heddle.isa.counter_table import BREAKDOWN, COUNTERS

__all__ = ["ControlSystem", "REASONS"]

REASONS = [name for name in BREAKDOWN if name != "control"]
SOURCES = 2


class ControlSystem(Component):
    """AXI4-Lite, registers, counters and run control; the members are those that a core has or drives."""

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__(axi_lite_members() | {
            "o_program": Out(stream.Signature(program_write_layout(cfg), always_ready=True)),
            "entry": Out(cfg.program_counter_bits), "program_end": Out(cfg.program_counter_bits + 1), "pc": In(PC_BITS),
            "uniform_write": Out(1), "uniform_index": Out(6), "uniform_data": Out(32),
            "start": Out(1), "stop": Out(1), "running": Out(1), "ended": In(1), "idle": In(1), "interrupt": Out(1),
            "i_error": In(ErrorStream()).array(SOURCES),
        } | {f"event_{name}": In(1) for name in COUNTERS} | {f"reason_{name}": In(1) for name in REASONS})

    def elaborate(self, platform):
        m = Module()
        m.submodules.axi_lite = lite = AxiLite()
        m.submodules.registers = registers = ControlRegisters(self.cfg)
        m.submodules.run = run = RunControl(SOURCES)
        m.submodules.counters = counters = PerformanceCounters()
        for name, member in axi_lite_members().items():
            inner, outer = getattr(lite, name), getattr(self, name)
            m.d.comb += outer.eq(inner) if member.flow == Out else inner.eq(outer)
        connect(m, registers.o_program, flipped(self.o_program))
        for source, sink in zip(self.i_error, run.i_error):
            connect(m, flipped(source), sink)
        m.d.comb += [
            registers.write.eq(lite.write), registers.write_address.eq(lite.write_address),
            registers.write_data.eq(lite.write_data), registers.read_address.eq(lite.read_address),
            lite.read_data.eq(registers.read_data), lite.read_wait.eq(registers.read_wait),
            registers.counters_settled.eq(counters.settled), registers.counter_value.eq(counters.value),
            counters.index.eq(registers.counter_index), counters.enable.eq(run.running), counters.clear.eq(run.start),
            run.doorbell.eq(registers.doorbell), run.timeout.eq(registers.timeout), run.ended.eq(self.ended), run.idle.eq(self.idle),
            self.start.eq(run.start), self.stop.eq(run.stop), self.running.eq(run.running),
            self.interrupt.eq(registers.interrupt), self.entry.eq(registers.entry),
            self.program_end.eq(registers.program_end), run.pc[0].eq(self.pc),
        ]
        m.d.comb += [getattr(self, name).eq(getattr(registers, name)) for name in ("uniform_write", "uniform_index", "uniform_data")]
        m.d.comb += [getattr(registers, name).eq(getattr(run, name))
                     for name in ("running", "done", "failed", "stuck", "finished", "error", "error_core")]
        m.d.comb += [getattr(counters, f"event_{name}").eq(getattr(self, f"event_{name}")) for name in COUNTERS]
        m.d.comb += [getattr(counters, f"reason_{name}").eq(getattr(self, f"reason_{name}")) for name in REASONS]
        return m
