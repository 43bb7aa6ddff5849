"""Bench of the control units: registers over AXI4-Lite, runs, errors, time limits, counters."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiLiteBus, AxiLiteMaster
from heddle.control.run_control import STUCK_CYCLES
from heddle.interfaces.control import REASONS, uniform_write_layout
from heddle.interfaces.layouts import PC_BITS, error_layout
from heddle.interfaces.program import program_write_layout
from heddle.isa.counter_table import BREAKDOWN, COUNTERS
from heddle.isa.error_codes import ErrorCode
from heddle.isa.register_map import COUNTER_WINDOW, DEVICE_ID, REGISTERS, UNIFORM_WINDOW, counter_addresses
from heddle_sim.toolchain.cocotb_process import bench_config

from heddle_verif.agents.axi_host import random_pauses
from heddle_verif.agents.payload import pack
from heddle_verif.coverage.errors import sample_error
from heddle_verif.duts.control_system import ControlSystem
from heddle_verif.fixture import Bench

RUNNING, DONE, ERROR, STUCK = 1, 2, 4, 8
ENABLE, PENDING = 1, 2
PARTS = ("code", "pc", "operand", "dimension")


class ControlBench(Bench):
    """A host, and a core that ends when it is told."""

    def __init__(self, dut, stalls=0.3):
        super().__init__(dut, ControlSystem(bench_config()), idle_limit=20_000)
        self.stalls = stalls
        self.words, self.uniform, self.starts = [], [], 0
        self.active_share = 0.0     # of each event and reason
        self.expected = {}
        self.stopped_after = 0      # cycles of the run before ``stop``

    async def start(self):
        await super().start()
        self.host = AxiLiteMaster(AxiLiteBus.from_prefix(self.dut, "s_axil"), self.dut.clk, self.dut.rst)
        for side, names in ((self.host.write_if, ("aw", "w", "b")), (self.host.read_if, ("ar", "r"))):
            side.log.setLevel("ERROR")
            for name in names:
                getattr(side, f"{name}_channel").set_pause_generator(random_pauses(self.rng, self.stalls))
        self.dut.run__idle.value = 1
        await self.reset(8)
        self.monitor("o_program", program_write_layout(self.cfg), lambda item: self.words.append((item["address"], item["word"])))
        self.monitor("o_uniform", uniform_write_layout, lambda item: self.uniform.append((item["index"], item["value"])))
        cocotb.start_soon(self._watch_core())

    async def _watch_core(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            if dut.run__start.value:
                self.starts += 1
                self.expected = dict.fromkeys(counter_addresses(), 0)
            if dut.running.value:
                self._count()
            for name in [f"events__{name}" for name in COUNTERS] + [f"reasons__{name}" for name in REASONS]:
                getattr(dut, name).value = int(self.rng.random() < self.active_share)

    def _count(self):
        if not self.dut.run__stop.value:
            self.stopped_after = self.expected["cycles"] + 1
        reason = next((name for name in REASONS if getattr(self.dut, f"reasons__{name}").value), "control")
        for name in ["cycles", reason] + [name for name in COUNTERS if getattr(self.dut, f"events__{name}").value]:
            self.expected[name] += 1

    async def write(self, place, value):
        await self.host.write_dword(place if isinstance(place, int) else REGISTERS[place][0], value)

    async def read(self, place):
        return await self.host.read_dword(place if isinstance(place, int) else REGISTERS[place][0])

    async def doorbell(self):
        await self.write("control", 1)
        await self.cycles(3)

    async def report(self, *errors):
        """Errors in one cycle, by source: ``(code, pc, operand, dimension)`` or None."""
        for index, error in enumerate(errors):
            if error:
                getattr(self.dut, f"i_error__{index}__payload").value = pack(error_layout, dict(zip(PARTS, error, strict=True)))
            getattr(self.dut, f"i_error__{index}__valid").value = int(error is not None)
        await RisingEdge(self.dut.clk)
        for index in range(len(errors)):
            getattr(self.dut, f"i_error__{index}__valid").value = 0
        await self.cycles(2)

    async def end_run(self):
        """The core ends; the registers show it."""
        self.dut.run__ended.value = self.dut.run__idle.value = 1
        await self.cycles(12)
        assert not self.dut.running.value
        self.dut.run__ended.value = 0

    async def error(self):
        code, *rest = [await self.read(f"error_{part}") for part in PARTS]
        if code == ErrorCode.TIMEOUT.value:         # the others come from units, here from the bench
            sample_error("control", code)
        return ErrorCode(code), *rest


async def prepared(dut, stalls=0.3):
    bench = ControlBench(dut, stalls)
    await bench.start()
    return bench


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def registers(dut):
    """Constants, registers that keep what is written, addresses without a register."""
    bench = await prepared(dut)
    cfg = bench.cfg
    constants = {"id": DEVICE_ID, "threads": cfg.threads, "dot": cfg.dot, "cores": cfg.cores, "shared_bytes": cfg.shared_bytes,
                 "factor_words": cfg.factor_words, "instruction_words": cfg.instruction_words}
    for name, (_, access, _) in REGISTERS.items():
        if access == "ro":
            await bench.write(name, 0xFFFFFFFF)
    for name, value in constants.items():
        assert await bench.read(name) == value, name
    for name in ("status", "interrupt", "entry", "timeout", "error_code", "error_core", "control", "program_address", "program_data"):
        assert await bench.read(name) == 0, name
    for value in (0x89ABCDEF, 0x01234567):
        await bench.write("timeout", value)
        await bench.write("entry", value)
        assert await bench.read("timeout") == value
        assert await bench.read("entry") == value % cfg.instruction_words == int(dut.program__entry.value)
    for address in (0x01C, 0x04C, 0x0FC, 0x300, 0xFFC):
        await bench.write(address, 0xFFFFFFFF)
        assert await bench.read(address) == 0, hex(address)
    assert not bench.words
    assert not bench.uniform
    assert bench.starts == 0
    bench.finish()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def program_and_uniform(dut):
    """Instructions of four words, uniform registers; neither while a program runs."""
    bench = await prepared(dut)
    rng, size = bench.rng, bench.cfg.instruction_words
    for first in (0, 5, size - 2):
        words = [int.from_bytes(rng.bytes(16), "little") for _ in range(4)]
        await bench.write("program_data", 1)                    # an instruction that is left unfinished
        await bench.write("program_address", first)
        bench.words.clear()
        for word in words:
            for shift in (0, 32, 64, 96):
                await bench.write("program_data", word >> shift & 0xFFFFFFFF)
        await bench.cycles(4)
        assert bench.words == [(first + index, word) for index, word in enumerate(words) if first + index < size]
        assert await bench.read("program_address") == min(first + 4, size) == int(dut.program__end.value)
    for beyond in (size, size + 1, 2 * size, 0x80000000, 0xFFFFFFFF):       # nothing is loaded behind the memory
        await bench.write("program_address", beyond)
        bench.words.clear()
        for _ in range(8):
            await bench.write("program_data", 3)
        assert await bench.read("program_address") == size == int(dut.program__end.value)
        assert not bench.words
    await bench.write("program_address", 3)
    values = [(int(rng.integers(64)), int(rng.integers(1 << 32))) for _ in range(20)] + [(0, 1), (63, 0xFFFFFFFF)]
    for number, value in values:
        await bench.write(UNIFORM_WINDOW + 4 * number, value)
    await bench.cycles(4)
    assert bench.uniform == values
    bench.words.clear()
    await bench.doorbell()
    for _ in range(4):
        await bench.write("program_data", 7)
    await bench.write("program_address", 9)
    await bench.write(UNIFORM_WINDOW, 7)
    await bench.cycles(4)
    assert len(bench.uniform) == len(values)
    assert not bench.words
    assert await bench.read("program_address") == 3
    await bench.end_run()
    bench.finish()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def interrupt(dut):
    """Enable, pending, clear; the doorbell does nothing while a program runs."""
    bench = await prepared(dut)
    for enable in (0, 1):
        await bench.write("interrupt", enable | PENDING)
        await bench.write("control", 0xFFFFFFFE)
        await bench.cycles(4)
        starts = bench.starts
        assert not dut.running.value
        await bench.doorbell()
        assert bench.starts == starts + 1
        await bench.doorbell()
        await bench.doorbell()
        assert bench.starts == starts + 1
        assert await bench.read("status") == RUNNING
        assert await bench.read("interrupt") == enable
        dut.run__ended.value, dut.run__idle.value = 1, 0                  # the end waits for the units
        await bench.cycles(30)
        assert await bench.read("status") == RUNNING
        await bench.end_run()
        assert await bench.read("status") == DONE
        assert await bench.read("interrupt") == enable | PENDING
        assert int(dut.interrupt.value) == enable
        await bench.write("interrupt", ENABLE)                  # pending stays
        await bench.cycles(3)
        assert dut.interrupt.value
        await bench.write("interrupt", ENABLE | PENDING)
        await bench.cycles(3)
        assert not dut.interrupt.value
        assert await bench.read("interrupt") == ENABLE
    bench.finish()


PRODUCT = (ErrorCode.PRODUCT_RANGE, 17, 256, 0)
TRAP, FIRST = (ErrorCode.TRAP, 0xFFF, 0xFFFFFFFF, 0), (ErrorCode.TENSOR_BYTES, 3, 0x1001, 5)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def errors(dut):
    """The first error counts; one that stops the program replaces one that does not; the next run begins without."""
    bench = await prepared(dut)
    cases = [([(TRAP,)], TRAP, True), ([(FIRST,), (TRAP,)], FIRST, True), ([(PRODUCT,)], PRODUCT, False),
             ([(PRODUCT,), (None, (ErrorCode.PRODUCT_RANGE, 20, 256, 0))], PRODUCT, False), ([(PRODUCT,), (TRAP,), (FIRST,)], TRAP, True),
             ([(FIRST,), (PRODUCT,)], FIRST, True), ([(FIRST, TRAP)], FIRST, True), ([(None, TRAP)], TRAP, True)]
    for reports, expected, stops in cases:
        dut.run__idle.value = 0
        await bench.doorbell()
        assert not dut.run__stop.value
        for report in reports:
            await bench.report(*report)
        assert bool(dut.run__stop.value) == stops, reports
        assert dut.running.value
        if stops:                   # an error of the units, without halt
            dut.run__idle.value = 1
            await bench.cycles(12)
        else:
            await bench.end_run()
        assert not dut.running.value
        assert not dut.run__stop.value
        assert await bench.read("status") == DONE | ERROR
        assert await bench.error() == expected, reports
    await bench.report(TRAP)        # outside of a run: nothing
    assert await bench.error() == cases[-1][1]
    await bench.doorbell()
    await bench.end_run()
    assert await bench.read("status") == DONE
    assert await bench.error() == (ErrorCode.NONE, 0, 0, 0)
    bench.finish()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def time_limits(dut):
    """TIMEOUT at the limit; without idle units stuck 4,096 cycles later, and no run until reset."""
    bench = await prepared(dut, 0.0)
    for limit in (1, 2, 77, 1000):
        dut.run__idle.value = 0
        dut.run__pc.value = place = int(bench.rng.integers(1 << PC_BITS))
        await bench.write("timeout", limit)
        await bench.doorbell()
        while not dut.run__stop.value:
            await bench.cycles(1)
        dut.run__pc.value = 0                                        # what is drained has no place
        await bench.cycles(2)
        assert limit <= bench.stopped_after <= limit + 3, bench.stopped_after
        dut.run__idle.value = 1
        await bench.cycles(12)
        assert await bench.read("status") == DONE | ERROR
        assert await bench.error() == (ErrorCode.TIMEOUT, place, limit, 0)
    await bench.write("timeout", 100)                           # an error before the limit stays
    await bench.doorbell()
    dut.run__idle.value = 0
    await bench.report(FIRST)
    await bench.cycles(300)
    dut.run__idle.value = 1
    await bench.cycles(12)
    assert await bench.error() == FIRST
    assert await bench.read("status") == DONE | ERROR
    dut.run__idle.value, dut.run__pc.value = 0, 0x123
    await bench.doorbell()
    await ClockCycles(dut.clk, STUCK_CYCLES)
    assert dut.running.value
    await ClockCycles(dut.clk, 120)
    assert not dut.running.value
    assert await bench.read("status") == DONE | ERROR | STUCK
    assert await bench.error() == (ErrorCode.TIMEOUT, 0x123, 100, 0)
    starts = bench.starts
    await bench.doorbell()
    assert bench.starts == starts
    dut.run__idle.value = 1
    await bench.reset(8)
    await bench.cycles(4)
    assert await bench.read("status") == 0
    await bench.doorbell()
    await bench.end_run()
    assert await bench.read("status") == DONE
    bench.finish()


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def counters(dut):
    """Random events for runs of random length; read at once after the end."""
    bench = await prepared(dut)
    for length, share in ((1, 1.0), (40, 0.5), (700, 0.2), (1500, 1.0), (333, 0.02)):
        bench.active_share = share
        await bench.doorbell()
        await bench.cycles(length)
        while_running = await bench.read(COUNTER_WINDOW)
        assert while_running <= bench.expected["cycles"]
        await bench.end_run()
        found = {name: await bench.read(address) for name, address in counter_addresses().items()}
        assert found == bench.expected, (length, share)
        assert sum(found[name] for name in BREAKDOWN) == found["cycles"] >= length
        await bench.cycles(100)
        assert await bench.read(counter_addresses()["instructions"]) == bench.expected["instructions"]
    bench.finish()
