"""Control and status registers behind the AXI4-Lite subordinate."""

from amaranth import *
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..front_end.instruction_fetch import program_write_layout
from ..interfaces.layouts import error_layout
from ..isa.register_map import ADDRESS_BITS, CONTROL, COUNTER_WINDOW, DEVICE_ID, INTERRUPT, REGISTERS, UNIFORM_WINDOW

__all__ = ["ControlRegisters"]


class ControlRegisters(Component):
    """Control and status registers of the device (``heddle.isa.register_map.REGISTERS``), with program loading and interrupt.

    Unknown addresses read zero and ignore writes. Program, program address and uniform registers are written only while no program
    runs.

    Four writes of ``program_data``, low word first, load one instruction. ``program_end`` is the address of the next instruction to
    load and the end of the program. At the end of the instruction memory nothing more is loaded, and the address remains there.

    *Ports*:
    write : In(1)
        A register is written.
    write_address : In(ADDRESS_BITS)
        Byte address of the write.
    write_data : In(32)
        Data of the write.
    read_address : In(ADDRESS_BITS)
        Byte address of a read.
    read_data : Out(32)
        Register at ``read_address`` of the previous cycle.
    read_wait : Out(1)
        The read of a counter must wait: the counters have not settled after the end of a run.
    o_program : Out(stream.Signature(program_write_layout(cfg), always_ready=True))
        Instructions for the instruction memory.
    uniform_write : Out(1)
        A uniform register of all cores is written.
    uniform_index : Out(6)
        Number of the uniform register.
    uniform_data : Out(32)
        Value of the uniform register.
    counter_index : Out(6)
        Counter to read; combinational from ``read_address``.
    counter_value : In(32)
        Counter at ``counter_index`` of the previous cycle.
    counters_settled : In(1)
        Counter values are exact.
    doorbell : Out(1)
        Starts a run; high for one cycle per write of 1 to bit 0 of ``control``.
    entry : Out(program_counter_bits)
        First instruction of the program.
    program_end : Out(program_counter_bits + 1)
        Number of the first instruction behind the program.
    timeout : Out(32)
        Time limit of a run in cycles; 0: none.
    wait_timeout : Out(32)
        Time limit of one wait in cycles; 0: none. Constant 0 without ``cfg.wait_timeout``.
    running : In(1)
        A run is in progress.
    done : In(1)
        The last run has ended.
    failed : In(1)
        The last run had an error.
    stuck : In(1)
        Memory did not answer; the device needs a reset.
    finished : In(1)
        A run ends in this cycle: the interrupt becomes pending.
    error : In(error_layout)
        Error of the last run.
    error_core : In(core_bits)
        Core of the error.
    interrupt : Out(1)
        Enabled and pending interrupt; registered.

    *Latency*: 1 cycle from ``read_address`` to ``read_data``. A write is visible in the registers one cycle after ``write``; with
    ``cfg.far_registers`` two cycles after, still before a read that begins at the write response. ``doorbell``, ``o_program`` and
    ``uniform_write`` occur in the cycle of ``write``, with ``cfg.far_registers`` one cycle later.

    *Back-pressure*: a read of a counter waits with ``read_wait``.

    *Reset*: all registers are 0.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "write": In(1), "write_address": In(ADDRESS_BITS), "write_data": In(32),
            "read_address": In(ADDRESS_BITS), "read_data": Out(32), "read_wait": Out(1),
            "o_program": Out(stream.Signature(program_write_layout(cfg), always_ready=True)),
            "uniform_write": Out(1), "uniform_index": Out(6), "uniform_data": Out(32),
            "counter_index": Out(6), "counter_value": In(32), "counters_settled": In(1),
            "doorbell": Out(1), "entry": Out(cfg.program_counter_bits),
            "program_end": Out(cfg.program_counter_bits + 1), "timeout": Out(32), "wait_timeout": Out(32),
            "running": In(1), "done": In(1), "failed": In(1), "stuck": In(1), "finished": In(1), "error": In(error_layout),
            "error_core": In(cfg.core_bits),
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
        addresses = {name: self.write_address == address for name, (address, access, _) in REGISTERS.items() if access != "ro"}
        addresses["uniform"] = self.write_address[8:] == UNIFORM_WINDOW >> 8
        self._selected = {name: Signal(name=f"selects_{name}") for name in addresses}
        self._data, self._index = Signal(32, name="written_data", reset_less=True), Signal(6, name="written_index", reset_less=True)
        domain = m.d.sync if self.cfg.far_registers else m.d.comb
        domain += [self._data.eq(self.write_data), self._index.eq(self.write_address[2:])]
        domain += [self._selected[name].eq(self.write & meant) for name, meant in addresses.items()]

    def _writes(self, m):
        enable, pending = Signal(), Signal()
        self._interrupt_enable, self._interrupt_pending = enable, pending
        with m.If(self._selected["entry"]):
            m.d.sync += self.entry.eq(self._data)
        with m.If(self._selected["timeout"]):
            m.d.sync += self.timeout.eq(self._data)
        if self.cfg.wait_timeout:
            with m.If(self._selected["wait_timeout"]):
                m.d.sync += self.wait_timeout.eq(self._data)
        with m.If(self._selected["interrupt"]):
            m.d.sync += enable.eq(self._data[INTERRUPT["enable"]])
            with m.If(self._data[INTERRUPT["pending"]]):
                m.d.sync += pending.eq(0)
        with m.If(self.finished):
            m.d.sync += pending.eq(1)
        m.d.sync += self.interrupt.eq(enable & pending)
        m.d.comb += [
            self.doorbell.eq(self._selected["control"] & self._data[CONTROL["start"]]),
            self.uniform_write.eq(self._selected["uniform"] & ~self.running),
            self.uniform_index.eq(self._index),
            self.uniform_data.eq(self._data),
        ]

    def _program(self, m):
        """Program loading: four words, low word first, make an instruction. The address saturates at the end of the memory."""
        bits = self.cfg.program_counter_bits
        address, words, count = self.program_end, Signal(96), Signal(2)
        beyond = self._data[bits:].any()
        with m.If(self._selected["program_address"] & ~self.running):
            m.d.sync += [address.eq(Mux(beyond, 1 << bits, self._data[:bits])), count.eq(0)]
        with m.If(self._selected["program_data"] & ~self.running):
            m.d.sync += [words.eq(Cat(words[32:], self._data)), count.eq(count + 1)]
            with m.If((count == 3) & ~address[bits]):
                m.d.sync += address.eq(address + 1)
        m.d.comb += [
            self.o_program.valid.eq(self._selected["program_data"] & (count == 3) & ~address[bits] & ~self.running),
            self.o_program.payload.address.eq(address),
            self.o_program.payload.word.eq(Cat(words, self._data)),
        ]

    def _reads(self, m):
        cfg = self.cfg
        values = {
            "id": Const(DEVICE_ID, 32), "threads": cfg.threads, "dot": cfg.dot, "cores": cfg.cores,
            "shared_bytes": cfg.shared_bytes, "factor_words": cfg.factor_words, "instruction_words": cfg.instruction_words,
            "status": Cat(self.running, self.done, self.failed, self.stuck),
            "interrupt": Cat(self._interrupt_enable, self._interrupt_pending),
            "entry": self.entry, "program_address": self.program_end,
            "timeout": self.timeout, "error_code": self.error.code, "error_pc": self.error.pc,
            "error_operand": self.error.operand, "error_core": self.error_core, "error_dimension": self.error.dimension,
            "wait_timeout": self.wait_timeout,
        }
        m.d.comb += self.counter_index.eq(self.read_address[2:])
        value = Signal(32)
        in_counters = Signal()
        m.d.sync += in_counters.eq(self.read_address[8:] == COUNTER_WINDOW >> 8)
        m.d.sync += value.eq(0)
        with m.Switch(self.read_address):
            for name, source in values.items():
                with m.Case(REGISTERS[name][0]):
                    m.d.sync += value.eq(source)
        m.d.comb += self.read_wait.eq(in_counters & ~self.counters_settled & ~self.running)
        m.d.comb += self.read_data.eq(Mux(in_counters, self.counter_value, value))
