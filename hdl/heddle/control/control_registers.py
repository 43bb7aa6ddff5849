"""Control and status registers behind the AXI4-Lite subordinate."""

from amaranth import *
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.control import CounterPort, ProgramPort, RegisterAccessPort, StatusPort, UniformStream
from ..interfaces.program import program_write_layout
from ..isa.register_map import CONTROL, COUNTER_WINDOW, DEVICE_ID, INTERRUPT, REGISTERS, UNIFORM_WINDOW, counter_addresses
from ..parameters.control import ControlParameters

__all__ = ["ControlRegisters"]


class ControlRegisters(Component):
    """Control and status registers of the device (``heddle.isa.register_map.REGISTERS``), with program loading and interrupt.

    Unknown addresses read zero and ignore writes. Program, program address and uniform registers are written only while no program
    runs.

    Four writes of ``program_data``, low word first, load one instruction. ``program_end`` is the address of the next instruction to
    load and the end of the program. At the end of the instruction memory nothing more is loaded, and the address remains there.

    *Ports*:
    access : In(RegisterAccessPort())
        Accesses of the host to registers. ``read_wait`` holds the read of a counter that has not settled after the end of a run.
    o_program : Out(stream.Signature(program_write_layout(cfg), always_ready=True))
        Instructions for the instruction memory.
    o_uniform : Out(UniformStream())
        Writes of a uniform register of all cores.
    program : Out(ProgramPort(cfg))
        First instruction and end of the program.
    counters : Out(CounterPort(len(counter_addresses())))
        Performance counters; ``counters.index`` is combinational from ``access.read_address``.
    status : In(StatusPort(cfg.cores))
        State of the last run. The interrupt becomes pending with ``status.finished``.
    doorbell : Out(1)
        Starts a run; high for one cycle per write of 1 to bit 0 of ``control``.
    timeout : Out(32)
        Time limit of a run in cycles; 0: none.
    wait_timeout : Out(32)
        Time limit of one wait in cycles; 0: none. Constant 0 without ``cfg.wait_timeout``.
    interrupt : Out(1)
        Enabled and pending interrupt; registered.

    *Latency*: 1 cycle from ``access.read_address`` to ``access.read_data``. A write is visible in the registers one cycle after
    ``access.write``; with ``cfg.far_registers`` two cycles after, still before a read that begins at the write response. ``doorbell``,
    ``o_program`` and ``o_uniform`` occur in the cycle of ``access.write``, with ``cfg.far_registers`` one cycle later.

    *Throughput*: one read and one write a cycle.

    *Back-pressure*: a read of a counter waits with ``access.read_wait``.

    *Reset*: all registers are 0.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ControlParameters.of(cfg)
        super().__init__({
            "access": In(RegisterAccessPort()),
            "o_program": Out(stream.Signature(program_write_layout(cfg), always_ready=True)), "o_uniform": Out(UniformStream()),
            "program": Out(ProgramPort(cfg)), "counters": Out(CounterPort(len(counter_addresses()))), "status": In(StatusPort(cfg.cores)),
            "doorbell": Out(1), "timeout": Out(32), "wait_timeout": Out(32),
            "interrupt": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        self._accept(m)
        self._writes(m)
        self._program(m)
        self._reads(m)
        return m

    def _accept(self, m):
        """Data of a write, number of its uniform register, and one select bit for each writable register."""
        addresses = {name: self.access.write_address == address for name, (address, access, _) in REGISTERS.items() if access != "ro"}
        addresses["uniform"] = self.access.write_address[8:] == UNIFORM_WINDOW >> 8
        self._selected = {name: Signal(name=f"selects_{name}") for name in addresses}
        self._data, self._index = Signal(32, name="written_data", reset_less=True), Signal(6, name="written_index", reset_less=True)
        domain = m.d.sync if self.cfg.far_registers else m.d.comb
        domain += [self._data.eq(self.access.write_data), self._index.eq(self.access.write_address[2:])]
        domain += [self._selected[name].eq(self.access.write & meant) for name, meant in addresses.items()]

    def _writes(self, m):
        enable, pending = Signal(), Signal()
        self._interrupt_enable, self._interrupt_pending = enable, pending
        with m.If(self._selected["entry"]):
            m.d.sync += self.program.entry.eq(self._data)
        with m.If(self._selected["timeout"]):
            m.d.sync += self.timeout.eq(self._data)
        if self.cfg.wait_timeout:
            with m.If(self._selected["wait_timeout"]):
                m.d.sync += self.wait_timeout.eq(self._data)
        with m.If(self._selected["interrupt"]):
            m.d.sync += enable.eq(self._data[INTERRUPT["enable"]])
            with m.If(self._data[INTERRUPT["pending"]]):
                m.d.sync += pending.eq(0)
        with m.If(self.status.finished):
            m.d.sync += pending.eq(1)
        m.d.sync += self.interrupt.eq(enable & pending)
        m.d.comb += [
            self.doorbell.eq(self._selected["control"] & self._data[CONTROL["start"]]),
            self.o_uniform.valid.eq(self._selected["uniform"] & ~self.status.running),
            self.o_uniform.payload.index.eq(self._index),
            self.o_uniform.payload.value.eq(self._data),
        ]

    def _program(self, m):
        """Program loading: four words, low word first, make an instruction. The address saturates at the end of the memory."""
        bits = self.cfg.program_counter_bits
        address, words, count = self.program.end, Signal(96), Signal(2)
        beyond = self._data[bits:].any()
        with m.If(self._selected["program_address"] & ~self.status.running):
            m.d.sync += [address.eq(Mux(beyond, 1 << bits, self._data[:bits])), count.eq(0)]
        with m.If(self._selected["program_data"] & ~self.status.running):
            m.d.sync += [words.eq(Cat(words[32:], self._data)), count.eq(count + 1)]
            with m.If((count == 3) & ~address[bits]):
                m.d.sync += address.eq(address + 1)
        m.d.comb += [
            self.o_program.valid.eq(self._selected["program_data"] & (count == 3) & ~address[bits] & ~self.status.running),
            self.o_program.payload.address.eq(address),
            self.o_program.payload.word.eq(Cat(words, self._data)),
        ]

    def _reads(self, m):
        cfg = self.cfg
        values = {
            "id": Const(DEVICE_ID, 32), "threads": cfg.threads, "dot": cfg.dot, "cores": cfg.cores,
            "shared_bytes": cfg.shared_bytes, "factor_words": cfg.factor_words, "instruction_words": cfg.instruction_words,
            "status": Cat(self.status.running, self.status.done, self.status.failed, self.status.stuck),
            "interrupt": Cat(self._interrupt_enable, self._interrupt_pending),
            "entry": self.program.entry, "program_address": self.program.end,
            "timeout": self.timeout, "error_code": self.status.error.code, "error_pc": self.status.error.pc,
            "error_operand": self.status.error.operand, "error_core": self.status.error_core,
            "error_dimension": self.status.error.dimension,
            "wait_timeout": self.wait_timeout,
        }
        m.d.comb += self.counters.index.eq(self.access.read_address[2:])
        value = Signal(32)
        in_counters = Signal()
        m.d.sync += in_counters.eq(self.access.read_address[8:] == COUNTER_WINDOW >> 8)
        m.d.sync += value.eq(0)
        with m.Switch(self.access.read_address):
            for name, source in values.items():
                with m.Case(REGISTERS[name][0]):
                    m.d.sync += value.eq(source)
        m.d.comb += self.access.read_wait.eq(in_counters & ~self.counters.settled & ~self.status.running)
        m.d.comb += self.access.read_data.eq(Mux(in_counters, self.counters.value, value))
