"""A host and a memory on the AXI ports of the device: models of AXI that nobody here wrote, with stalls and faults."""

import numpy as np
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam
from heddle.isa.counter_table import BREAKDOWN
from heddle.isa.error_codes import ErrorCode
from heddle.isa.register_map import CONTROL, INTERRUPT, REGISTERS, STATUS, UNIFORM_WINDOW, counter_addresses

__all__ = ["AxiHost", "random_pauses"]


def random_pauses(rng, share):
    """Endless: pause or not, in bursts."""
    while True:
        paused = bool(rng.random() < share)
        for _ in range(int(rng.integers(1, 8))):
            yield paused


class AxiHost:
    """AXI4-Lite master and AXI memory of one device.

    Accesses beyond ``size`` and in the address ranges of ``faults`` are answered with SLVERR.

    Parameters
    ----------
    bench : heddle_verif.fixture.Bench
        Of the complete device; not started yet.
    size : int
        Bytes of memory.
    stalls : float
        Share of the cycles in which each channel pauses.
    """

    def __init__(self, bench, size, stalls=0.0):
        self.bench, self.dut, self.rng, self.size = bench, bench.dut, bench.rng, size
        self.faults, dut = [], bench.dut
        self.control = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
        self.ram = AxiRam(AxiBus.from_prefix(dut, "m_axi"), dut.clk, dut.rst, size=size)
        for side in (self.control.write_if, self.control.read_if, self.ram.write_if, self.ram.read_if):
            side.log.setLevel("ERROR")
        self.ram.read_if._read, self.ram.write_if._write = self._read, self._write
        self.channels = [getattr(side, f"{name}_channel") for side, names in (
            (self.ram.write_if, ("aw", "w", "b")), (self.ram.read_if, ("ar", "r")),
            (self.control.write_if, ("aw", "w", "b")), (self.control.read_if, ("ar", "r"))) for name in names]
        self.stall(stalls)

    def stall(self, share):
        """Change the stalls of all channels."""
        for channel in self.channels:
            channel.set_pause_generator(random_pauses(self.rng, share) if share else None)
            channel.pause = False

    def _reach(self, address, length):
        if address + length > self.size or any(first < address + length and address < end for first, end in self.faults):
            raise ValueError(f"{address:#x} must lie in the memory")

    async def _read(self, address, length):
        self._reach(address, length)
        return self.ram.read(address, length)

    async def _write(self, address, data):
        self._reach(address, len(data))
        self.ram.write(address, data)

    @property
    def memory(self):
        """All bytes of the memory, a copy."""
        return np.frombuffer(self.ram.read(0, self.size), np.uint8).copy()

    async def reset(self):
        """Reset the device, at any time."""
        await self.bench.reset(8)
        await self.bench.cycles(2)

    async def write(self, name, value):
        await self.control.write_dword(REGISTERS[name][0], value)

    async def read(self, name):
        return await self.control.read_dword(REGISTERS[name][0])

    async def load(self, words, uniform=None):
        """Program from instruction 0, and uniform registers."""
        await self.write("program_address", 0)
        for word in words:
            for shift in (0, 32, 64, 96):
                await self.write("program_data", word >> shift & 0xFFFFFFFF)
        for number, value in (uniform or {}).items():
            await self.control.write_dword(UNIFORM_WINDOW + 4 * number, int(value) & 0xFFFFFFFF)

    async def start(self, timeout=0, entry=0):
        """Doorbell; the interrupt is enabled and not pending."""
        await self.write("timeout", timeout)
        await self.write("entry", entry)
        await self.write("interrupt", 1 << INTERRUPT["enable"] | 1 << INTERRUPT["pending"])
        await self.write("control", 1 << CONTROL["start"])

    async def until_interrupt(self, limit=200_000):
        for _ in range(limit):
            await RisingEdge(self.dut.clk)
            if self.dut.interrupt.value:
                return
        raise AssertionError(f"the interrupt must come within {limit} cycles")

    async def outcome(self):
        """Error (code, pc, operand) of the last run, ``ErrorCode.NONE`` and zeros without one, and whether it was stuck."""
        status = await self.read("status")
        assert not status >> STATUS["running"] & 1, f"status must not say running after the interrupt: {status:#x}"
        assert status >> STATUS["done"] & 1, f"status must say done after the interrupt: {status:#x}"
        error = ErrorCode(await self.read("error_code")), await self.read("error_pc"), await self.read("error_operand")
        assert bool(status >> STATUS["error"] & 1) == (error[0] is not ErrorCode.NONE), (status, error)
        return error, bool(status >> STATUS["stuck"] & 1)

    async def counters(self):
        """All counters by name; the breakdown must add up to the cycles."""
        values = {name: await self.control.read_dword(address) for name, address in counter_addresses().items()}
        total = sum(values[name] for name in BREAKDOWN)
        assert total == values["cycles"], f"breakdown must add up to {values['cycles']} cycles, not {total}: {values}"
        return values

    async def run(self, words, uniform=None, timeout=0):
        """Load and run; returns the error."""
        await self.load(words, uniform)
        await self.start(timeout)
        await self.until_interrupt()
        error, stuck = await self.outcome()
        assert not stuck
        return error
