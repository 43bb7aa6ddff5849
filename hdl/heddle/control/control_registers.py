"""The register file behind AXI4-Lite."""

from amaranth import *
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..front_end.instruction_fetch import program_write_layout
from ..interfaces.layouts import error_layout
from ..isa.register_map import ADDRESS_BITS, CONTROL, COUNTER_WINDOW, DEVICE_ID, INTERRUPT, REGISTERS, UNIFORM_WINDOW

__all__ = ["ControlRegisters"]


class ControlRegisters(Component):
    """Registers of ``heddle.isa.register_map.REGISTERS``.

    A read answers one cycle after its address. A read of a counter after the end of a run waits (``read_wait``) until the counters have
    settled.

    Unknown addresses read zero and ignore writes. Program, its address and uniform registers are written only while no program runs. The
    program ends where loading has ended: ``program_end`` is the address of the next instruction to load, at most that behind the memory,
    where nothing is loaded. With
    ``cfg.far_registers`` a write takes effect a cycle later, still before a read that begins when it was answered.
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
        """The data of a write, its uniform register, and what it is for."""
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
        """Four words, low word first, make an instruction; the address behind the memory stays."""
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
