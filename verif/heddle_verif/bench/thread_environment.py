"""What stands around the thread unit in its bench: lanes, banks and global memory with random delays, and the golden model."""

import copy
import random
from collections import Counter, deque

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from heddle.constants import BANK_BYTES, BANKS, FIRST_FACTOR_REGISTER, PREDICATES, ROW_BYTES
from heddle.interfaces.layouts import (
    SHARED_READ_LATENCY,
    error_layout,
    read_data_layout,
    read_request_layout,
    thread_operation_layout,
    write_data_layout,
    write_response_layout,
)
from heddle_sim.golden.thread import ThreadState, active_threads, execute
from heddle_sim.toolchain.cocotb_runner import bench_config

from ..coverage.errors import sample_error
from ..coverage.streams import StreamSampler
from ..coverage.thread import sample_operation
from .thread_memory import GlobalMemorySide

__all__ = ["ThreadBench", "Stalls"]

IDLE_LIMIT = 20_000     # cycles without progress that fail a test
STREAMS = ("i_operation", *(f"global_port__{name}" for name in ("read_request", "read_data", "write_request", "write_data",
                                                                "write_response")))
MEMORY_BYTES = 1 << 14


class Stalls:
    """Probabilities per cycle that a port does not move; ``latency`` of global memory in cycles. With ``asked`` global memory is ready
    for a request only when there is one."""

    def __init__(self, operations=0.0, registers=0.0, banks=0.0, requests=0.0, data=0.0, responses=0.0, latency=(1, 1), asked=False):
        self.operations, self.registers, self.banks, self.asked = operations, registers, banks, asked
        self.requests, self.data, self.responses, self.latency = requests, data, responses, latency


class ThreadBench(GlobalMemorySide):
    """Everything around the unit, moved by one loop that samples before and drives after each clock edge.

    ``state`` is what the unit works on, ``golden`` what the golden model makes of the same operations. The registers are
    compared at every ``done``, the rest when the unit is idle.
    """

    def __init__(self, dut, stalls):
        self.dut, self.stalls = dut, stalls
        self.cfg = cfg = bench_config()
        self.slots = min(cfg.thread_slots, cfg.threads)
        self.random = random.Random(cocotb.RANDOM_SEED)
        self.rng = rng = np.random.default_rng(cocotb.RANDOM_SEED)
        self.state = ThreadState.create(cfg, MEMORY_BYTES)
        self.state.registers[:] = rng.integers(0, 1 << 32, self.state.registers.shape, np.uint32)
        self.state.shared[:] = rng.integers(0, 256, cfg.shared_bytes, np.uint8)
        self.state.memory[:] = rng.integers(0, 256, MEMORY_BYTES, np.uint8)
        self.golden = copy.deepcopy(self.state)
        self.golden.cfg = self.state.cfg = cfg
        tag = cfg.tag_bits
        self.layouts = {"read_request": read_request_layout(cfg, tag), "read_data": read_data_layout(cfg, tag),
                        "write_request": read_request_layout(cfg, tag), "write_data": write_data_layout(cfg),
                        "write_response": write_response_layout(tag)}
        self.task = None
        self.cycle = self.done = self.moved = self.compared = 0
        self.conflict_events = self.most_stores = 0
        self.told = (1 << BANKS) - 1        # with banks_known_ahead: banks that grant in the next cycle
        self.times = {"accept": [], "done": [], "bank_read": [], "bank_write": []}
        self._forget()

    def _forget(self):
        """Nothing is under way."""
        self.operations, self.under_way, self.accepted = deque(), deque(), self.done
        self.stalls_seen = set()        # since the last operation was done
        self.streams = [(StreamSampler("ThreadUnit", name), self.port(f"{name}__valid"), self.port(f"{name}__ready"),
                         name.endswith(("request", "write_data"))) for name in STREAMS]
        self.returned = [0] * self.cfg.threads      # what the lanes keep for a product register
        self.operands = deque([None] * (self.cfg.register_read_latency - 1))    # registers that stand at the port after the next edges
        self.waits = False              # a write was refused in the last cycle
        self.denied = False             # so was a request to a bank
        self.words = deque([[0] * BANKS] * SHARED_READ_LATENCY, SHARED_READ_LATENCY)     # data of the banks, by cycle
        self.reads, self.read_beat = deque(), None
        self.write_requests, self.write_beats, self.responses, self.response = deque(), [], deque(), None
        self.errors, self.expected_errors = Counter(), Counter()
        self.held = {}
        self.register_stalls = self.register_events = 0
        self.discarding = False
        self.busy = self.pending = True

    def port(self, name):
        return getattr(self.dut, name)

    async def start(self):
        dut = self.dut
        if self.task is None:
            Clock(dut.clk, 10, unit="ns").start()
        for name in ("i_operation__valid", "start", "stop", "bank_read__grant", "bank_write__grant", "registers__read_grant",
                     "registers__write_grant", *["bank_ahead"] * self.cfg.banks_known_ahead,
                     "global_port__read_request__ready", "global_port__read_data__valid", "global_port__write_request__ready",
                     "global_port__write_data__ready", "global_port__write_response__valid"):
            self.port(name).value = 0
        dut.rst.value = 1
        for _ in range(3):
            await RisingEdge(dut.clk)
        dut.rst.value = 0
        self.task = cocotb.start_soon(self._loop())

    async def reset(self):
        """Reset the unit and what stands around it, whatever they do; registers and memories keep what they have then."""
        self.task.cancel()
        self._forget()
        await self.start()
        self.golden = copy.deepcopy(self.state)
        self.golden.start()

    def issue(self, **fields):
        """Queue an operation for the unit."""
        self.operations.append(thread_operation_layout.const(fields))

    async def idle(self):
        """Wait until everything that was issued is over, then compare all that can be seen with the golden model."""
        waited, before = 0, None
        while self.operations or self.busy or self.pending or self.done != self.accepted:
            await RisingEdge(self.dut.clk)
            assert not self.task.done(), self.task.result()
            now = (self.moved, self.done, self.accepted)
            waited = waited + 1 if now == before else 0
            before = now
            assert waited < IDLE_LIMIT, f"no progress: {now}, {len(self.operations)} operations left"
        for _ in range(4):
            await RisingEdge(self.dut.clk)
            assert not self.busy and self.done == self.accepted, "done without an operation, or busy again"
        assert not self.task.done(), self.task.result()
        self.compare_registers("at the end")
        for name in ("shared", "memory"):
            wrong = np.flatnonzero(getattr(self.state, name) != getattr(self.golden, name))
            assert len(wrong) == 0, f"{len(wrong)} bytes of {name} differ, first at {wrong[0]:#x}"
        for number in range(PREDICATES):
            expected = sum(1 << t for t in np.flatnonzero(self.golden.predicates[number]).tolist())
            mine = self.port(f"predicates__{number}").value.to_unsigned()
            assert mine == expected, f"p{number} is {mine:b}, not {expected:b}"
        expected = sum(1 << t for t in np.flatnonzero(self.golden.lane_mask).tolist())
        assert self.dut.lane_mask.value.to_unsigned() == expected, "lane mask"
        assert self.errors == self.expected_errors, (self.errors - self.expected_errors, self.expected_errors - self.errors)
        assert not self.reads and not self.write_beats and not self.write_requests and not self.responses
        assert self.register_stalls == self.register_events, (self.register_stalls, self.register_events)
        self.compared += 1

    def compare_registers(self, when):
        wrong = np.argwhere(self.state.registers != self.golden.registers)
        if len(wrong):
            thread, register = wrong[0]
            raise AssertionError(f"{when}: {len(wrong)} registers differ, first r{register} of thread {thread}: "
                                 f"{self.state.registers[thread, register]:#x}, not {self.golden.registers[thread, register]:#x}")

    # -- the loop ---------------------------------------------------------------------------

    async def _loop(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            self.cycle += 1
            self.busy, self.pending = bool(dut.busy.value), bool(dut.writes_pending.value)
            self.register_events += int(dut.event_register_stalls.value)
            conflict = bool(dut.event_thread_bank_conflicts.value)
            assert conflict or not self.denied, "a request was not granted a cycle before: that is a conflict"
            self.conflict_events += conflict
            self._observe_streams()
            self._registers()
            self._banks()
            self._completions()
            self._operation()
            self._reading()
            self._writing()
            assert self.busy or self.done == self.accepted, "busy fell before everything was done"
            assert self.pending or not self.responses, "writes_pending fell before the last answer"

    def _observe_streams(self):
        """Coverage of the streams, and what holds operations back."""
        for sampler, valid, ready, is_output in self.streams:
            offered, taken = bool(valid.value), bool(ready.value)
            sampler.step(offered, taken)
            if is_output and offered and not taken:
                self.stalls_seen.add("global memory")

    def _pause(self, probability):
        return self.random.random() < probability

    def _number(self, name):
        return int(self.port(name).value)

    def _registers(self):
        """The lanes: registers stand at the port ``register_read_latency`` cycles after their grant, for one cycle; else anything does."""
        self.operands.append(None)
        operands = self.operands.popleft()
        stalled = self._register_read()
        stalled |= self._register_writes()
        self.register_stalls += stalled
        if stalled:
            self.stalls_seen.add("registers")
        for slot in range(self.slots):
            value = self.random.getrandbits(32) if operands is None else int(operands[slot])
            self.port(f"registers__read_data__{slot}").value = value
        # A write takes two cycles at least.
        self.port("registers__read_grant").value = not self._pause(self.stalls.registers)
        self.port("registers__write_grant").value = self.waits and not self._pause(self.stalls.registers)

    def _register_read(self):
        if not self._number("registers__read"):
            return False
        assert not (self._number("registers__write_factor") and self._number("registers__read_number") >= FIRST_FACTOR_REGISTER), \
            "read and write of the factor file at once"
        if not self._number("registers__read_grant"):
            return True
        group = self._number("registers__read_group") if self.cfg.thread_groups > 1 else 0
        number = self._number("registers__read_number")
        self.operands[-1] = self.state.registers[group * self.slots:(group + 1) * self.slots, number].copy()
        self.moved += 1
        return False

    def _register_writes(self):
        product, factor = self._number("registers__write_product"), self._number("registers__write_factor")
        returning, written = self._lanes("return"), self._lanes("write")
        assert product + factor + bool(returning) <= 1, "product and factor register at once"
        data = [self._number(f"registers__return_data__{slot}") for slot in range(self.slots)] if factor or returning else []
        for lane in returning:
            self.returned[lane] = data[lane % self.slots] & 0xFFFFFFFF
        if factor:
            parts, enabled = self.cfg.numbers_per_word, self._number("registers__write_parts")
            first = FIRST_FACTOR_REGISTER + self._number("registers__write_word") * parts
            for part in range(parts):
                for lane in written if enabled >> part & 1 else ():
                    self.state.registers[lane, first + part] = data[lane % self.slots] >> 32 * part & 0xFFFFFFFF
        refused = product and not self._number("registers__write_grant")
        if product and not refused:
            for lane in written:
                self.state.registers[lane, self._number("registers__write_register")] = self.returned[lane]
        self.moved += bool(factor or returning or (product and not refused))
        waits, self.waits = self.waits, refused
        return bool(waits and refused)

    def _lanes(self, name):
        lanes = self._number(f"registers__{name}_lanes")
        return [lane for lane in range(self.cfg.threads) if lanes >> lane & 1]

    def _banks(self):
        read, granted = self._number("bank_read__request"), self._number("bank_read__grant")
        write, taken = self._number("bank_write__request"), self._number("bank_write__grant")
        assert self._number("storing") == bool(write), "storing must say whether bank_write asks for a bank"
        shared = self.state.shared
        self.words.append([self.random.getrandbits(128) for _ in range(BANKS)])
        for b in range(BANKS):
            if read & granted & 1 << b:
                address = self._number(f"bank_read__row__{b}") * ROW_BYTES + b * BANK_BYTES
                self.words[-1][b] = int.from_bytes(shared[address:address + BANK_BYTES].tobytes(), "little")
                self.times["bank_read"].append(self.cycle)
            self.port(f"bank_read__data__{b}").value = self.words[0][b]
        for b in range(BANKS):
            if write & taken & 1 << b:
                address = self._number(f"bank_write__row__{b}") * ROW_BYTES + b * BANK_BYTES
                mask = self._number(f"bank_write__mask__{b}")
                value = self._number(f"bank_write__data__{b}").to_bytes(BANK_BYTES, "little")
                for i in range(BANK_BYTES):
                    if mask >> i & 1:
                        shared[address + i] = value[i]
                self.times["bank_write"].append(self.cycle)
        self.moved += bool(read & granted) + bool(write & taken)
        self.denied = bool(read & ~granted | write & ~taken)
        if self.denied:
            self.stalls_seen.add("banks")
        grants = [sum((not self._pause(self.stalls.banks)) << b for b in range(BANKS)) for _ in range(2)]
        if self.cfg.banks_known_ahead:      # those of the next cycle have been told
            self.port("bank_ahead").value = grants[0] ^ ((1 << BANKS) - 1)
            grants, self.told = [self.told] * 2, grants[0]
        for name, granted in zip(("bank_read", "bank_write"), grants):
            self.port(f"{name}__grant").value = granted

    def _completions(self):
        dut = self.dut
        if dut.done.value:
            self.done += 1
            self.moved += 1
            self.times["done"].append(self.cycle)
            operation = self.under_way.popleft()
            if not self.discarding:
                active = active_threads(self.golden, operation.guard, operation.guard_negate)
                errors = execute(self.golden, operation)
                sample_operation(operation, active, self.stalls_seen, errors[0].code.name if errors else None, FIRST_FACTOR_REGISTER)
                self.stalls_seen = set()
                self.expected_errors.update((error.code.value, error.pc, error.operand) for error in errors)
                self.compare_registers(f"after operation {self.done}, {operation!r}")
        if dut.o_error__valid.value:
            error = error_layout.from_bits(dut.o_error__payload.value.to_unsigned())
            self.errors[error.code.value, error.pc, error.operand] += 1
            sample_error("thread unit", error.code)

    def _operation(self):
        dut = self.dut
        if dut.i_operation__valid.value and dut.i_operation__ready.value:
            self.accepted += 1
            self.busy = True
            self.times["accept"].append(self.cycle)
            self.under_way.append(self.operations.popleft())
            dut.i_operation__valid.value = 0
        elif dut.i_operation__valid.value:
            return
        if self.operations and not self._pause(self.stalls.operations):
            dut.i_operation__payload.value = self.operations[0].as_bits()
            dut.i_operation__valid.value = 1
