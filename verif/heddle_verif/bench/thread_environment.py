"""What stands around the thread unit in its bench: lanes, banks and global memory with random delays, and the golden model."""

import copy
from collections import Counter, deque
from functools import partial
from types import SimpleNamespace

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from heddle.constants import BANK_BYTES, FIRST_FACTOR_REGISTER, PREDICATES
from heddle.interfaces.layouts import error_layout, thread_operation_layout
from heddle.isa.encoding import Swizzle
from heddle.thread.unit import ThreadUnit
from heddle_sim.golden.thread import ThreadState, active_threads, execute
from heddle_sim.toolchain.cocotb_process import bench_config

from ..agents.banks import BankMemory
from ..agents.global_memory import GlobalMemory
from ..agents.pause import bernoulli, when_asked
from ..coverage.errors import sample_error
from ..coverage.thread import sample_operation
from ..fixture import Bench
from ..stimulus.swizzles import number_of

__all__ = ["MEMORY_BYTES", "Stalls", "ThreadBench"]

IDLE_LIMIT = 20_000     # cycles without progress that fail a test
BANK_OUTPUTS = ("bank_read__request", "bank_write__request")
GLOBAL_OUTPUTS = tuple(f"global_port__{name}" for name in ("read_request", "write_request", "write_data"))
MEMORY_BYTES = 1 << 14


class Stalls:
    """Probabilities per cycle that a port does not move; ``latency`` of global memory in cycles. With ``asked`` global memory is ready
    for a request only when there is one. ``delay`` and ``places`` are those of ``BankMemory``, for shared memory."""

    def __init__(self, operations=0.0, registers=0.0, banks=0.0, requests=0.0, data=0.0, responses=0.0, latency=(1, 1), asked=False,
                 delay=0, places=1):
        self.operations, self.registers, self.banks, self.asked = operations, registers, banks, asked
        self.delay, self.places = delay, places
        self.requests, self.data, self.responses, self.latency = requests, data, responses, latency


class ThreadBench(Bench):
    """Front end, banks and global memory are agents; the lanes and all that is compared are moved by one loop, which samples before and
    drives after each clock edge.

    ``state`` is what the unit works on, ``golden`` what the golden model makes of the same operations. The registers are
    compared at every ``done``, the rest when the unit is idle.
    """

    def __init__(self, dut, stalls):
        super().__init__(dut, ThreadUnit(bench_config()), idle_limit=IDLE_LIMIT)
        self.stalls = stalls
        self.slots = min(self.cfg.thread_slots, self.cfg.threads)
        self.layout = thread_operation_layout(self.cfg)
        self.done = self.compared = self.conflict_events = self.most_stores = 0
        self.times = {"done": [], "bank_read": [], "bank_write": []}
        self.forget()

    def forget(self):
        """Nothing is under way."""
        self.operations, self.under_way, self.accepted = deque(), deque(), self.done
        self.entry_words = deque()      # words for the compiled-offset memory, with their numbers
        self.stalls_seen = set()        # since the last operation was done
        self.returned = [0] * self.cfg.threads      # what the lanes keep for a product register
        self.operands = deque([None] * (self.cfg.register_read_latency - 1))    # registers that stand at the port after the next edges
        self.waits = False              # a write was refused in the last cycle
        self.paused = False             # write_pause was high in the last cycle
        self.held = False               # so was a request to a bank
        self.stores = 0                 # to global memory, whose data are there and whose response is not
        self.errors, self.expected_errors = Counter(), Counter()
        self.register_stalls = self.register_events = 0
        self.discarding = False
        self.accepting = False          # an operation was accepted in this cycle
        self.busy = self.pending = True

    def port(self, name):
        return getattr(self.dut, name)

    async def start(self):
        await super().start()
        cfg, dut, rng, stalls = self.cfg, self.dut, self.rng, self.stalls
        self.source_i = self.source("i_operation", self.layout, pause=bernoulli(rng, stalls.operations), on_item=self._accept)
        self.sink("o_error", error_layout, on_item=self._error)
        request = partial(when_asked if stalls.asked else bernoulli, share=stalls.requests)
        data = partial(bernoulli, share=stalls.data)
        self.memory = GlobalMemory(
            dut, "global_port", cfg, cfg.tag_bits, rng, size=MEMORY_BYTES, latency=stalls.latency, ahead=2,
            errors=[range(MEMORY_BYTES, 1 << cfg.axi_address_bits)],
            pause={"read_request": request, "read_data": data, "write_request": request, "write_data": data,
                   "write_response": partial(bernoulli, share=stalls.responses)})
        self.memory.on_item = self._global_item
        self.banks = BankMemory(
            dut, cfg, rng, read="bank_read", write="bank_write", grant_chance=1 - stalls.banks, delay=stalls.delay, places=stalls.places)
        self.banks.on_access, self.banks.on_refused = self._bank_access, self._bank_refused
        self.state = ThreadState.create(cfg)
        self.state.registers[:] = rng.integers(0, 1 << 32, self.state.registers.shape, np.uint32)
        self.state.shared, self.state.memory = self.banks.data, self.memory.data
        self.golden = copy.deepcopy(self.state)
        self.golden.cfg = self.state.cfg = cfg
        cocotb.start_soon(self._loop())

    async def reset_under_way(self):
        """Reset the unit and what stands around it, whatever they do; registers and memories keep what they have then."""
        words = self.entry_words
        await self.restart(self.source_i, self.memory, self)
        self.entry_words = words                # their writer is not reset
        channels = self.golden.channels         # kept in the unit
        self.golden = copy.deepcopy(self.state)
        self.golden.channels = channels
        self.golden.start()

    def issue(self, **fields):
        """Queue an operation for the unit; ``swizzle`` is a mode."""
        swizzle = fields.get("swizzle", Swizzle.NONE)
        operation = self.layout.const(fields | {"swizzle": number_of(self.cfg, swizzle)})
        self.operations.append(SimpleNamespace(**{name: getattr(operation, name) for name in self.layout.members} | {"swizzle": swizzle}))
        self.source_i.put(operation)

    def write_entries(self, entries):
        """Put all entries into the compiled-offset memory up to the end of the next ``idle``; only while the unit is idle."""
        self.state.entries[:] = self.golden.entries[:] = entries
        words = self.state.entries.astype("<u4").view(np.uint8).reshape(-1, self.cfg.dot)
        self.entry_words.extend((number, int.from_bytes(word.tobytes(), "little")) for number, word in enumerate(words))

    async def idle(self):
        """Wait until everything that was issued is over, then compare all that can be seen with the golden model."""
        while self.entry_words or self.operations or self.busy or self.pending or self.done != self.accepted:
            await RisingEdge(self.dut.clk)
        for _ in range(4):
            await RisingEdge(self.dut.clk)
            assert not self.busy and self.done == self.accepted, "done without an operation, or busy again"
        self.compare_registers("at the end")
        for name in ("shared", "memory"):
            wrong = np.flatnonzero(getattr(self.state, name) != getattr(self.golden, name))
            assert len(wrong) == 0, f"{len(wrong)} bytes of {name} differ, first at {wrong[0]:#x}"
        for number in range(PREDICATES):
            expected = sum(1 << t for t in np.flatnonzero(self.golden.predicates[number]).tolist())
            mine = self.port(f"masks__predicates__{number}").value.to_unsigned()
            assert mine == expected, f"p{number} is {mine:b}, not {expected:b}"
        expected = sum(1 << t for t in np.flatnonzero(self.golden.lane_mask).tolist())
        assert self.dut.masks__lanes.value.to_unsigned() == expected, "lane mask"
        assert self.errors == self.expected_errors, (self.errors - self.expected_errors, self.expected_errors - self.errors)
        assert self.memory.idle, "global memory waits for data, or has answers that nobody took"
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
            if dut.rst.value:
                continue
            self.busy, self.pending = bool(dut.busy.value) or self.accepting, bool(dut.writes_pending.value)
            self.accepting = False
            self.register_events += int(dut.events__register_stalls.value)
            conflict = bool(dut.events__thread_bank_conflicts.value)
            assert conflict or not self.held, "a request waited at its port a cycle before: that is a conflict"
            self.conflict_events += conflict
            self.held = any(self._number(f"{name}__valid") and not self._number(f"{name}__ready") for name in BANK_OUTPUTS)
            if any(self.checkers[name].held for name in GLOBAL_OUTPUTS):
                self.stalls_seen.add("global memory")
            self._registers()
            self._entries()
            self._completions()
            assert self.busy or self.done == self.accepted, "busy fell before everything was done"
            assert self.pending or not self.stores, "writes_pending fell before the last answer"

    # -- what the agents tell -------------------------------------------------------------------

    def _accept(self, _):
        self.accepted += 1
        self.accepting = True
        self.under_way.append(self.operations.popleft())

    def _error(self, error):
        self.errors[error["code"].value, error["pc"], error["operand"]] += 1
        sample_error("thread unit", error["code"])

    def _bank_access(self, kind, bank, row):
        self.times[f"bank_{kind}"].append(self.cycle)
        self.progress()

    def _bank_refused(self, kind, banks):
        self.stalls_seen.add("banks")

    def _global_item(self, stream, item):
        if stream.endswith("request"):
            beats, size = item["beats_minus_one"] + 1, self.cfg.axi_bytes
            assert not item["tag"], "with several tags answers would have no order"
            assert beats == 1 or (beats * size <= BANK_BYTES and item["address"] % BANK_BYTES == 0), "more than a vector"
        if stream == "read_request":
            assert not self.dut.writes_pending.value, "a load overtakes a store"
        elif stream == "write_data" and item["last"]:
            self.stores += 1
            self.most_stores = max(self.most_stores, self.stores)
        elif stream == "write_response":
            self.stores -= 1

    # -- the lanes ------------------------------------------------------------------------------

    def _refuses(self):
        """The lanes refuse an access."""
        return self.random.random() < self.stalls.registers

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
        for number, name in enumerate(("read_data", "read_second")[:1 + self.cfg.register_pairs]):
            for slot in range(self.slots):
                known = operands is not None and number < len(operands)
                self.port(f"registers__{name}__{slot}").value = int(operands[number][slot]) if known else self.random.getrandbits(32)
        # A write takes two cycles at least.
        self.port("registers__read_grant").value = not self._refuses()
        self.port("registers__write_grant").value = self.waits and not self._refuses()
        self.paused = bool(self._number("registers__write_pause"))
        self.port("registers__write_pause").value = self._refuses()

    def _entries(self):
        """Writes of the compiled-offset memory, in a random order and with gaps."""
        if not self.cfg.gather_offsets:
            return
        writes = bool(self.entry_words) and self.random.random() < 0.9
        self.port("offset_write__enable").value = int(writes)
        if writes:
            self.entry_words.rotate(self.random.randrange(4))
            number, word = self.entry_words.popleft()
            self.port("offset_write__word").value, self.port("offset_write__data").value = number, word
            self.progress()

    def _register_read(self):
        if not self._number("registers__read"):
            return False
        assert not (self._number("registers__write_factor") and self._number("registers__read_number") >= FIRST_FACTOR_REGISTER), \
            "read and write of the factor file at once"
        if not self._number("registers__read_grant"):
            return True
        group = self._number("registers__read_group") if self.cfg.thread_groups > 1 else 0
        number = self._number("registers__read_number")
        pair = self.cfg.register_pairs and self._number("registers__read_pair")
        assert not pair or number % 2 == 0 and number < FIRST_FACTOR_REGISTER, f"pair of registers from {number}"
        threads = self.state.registers[group * self.slots:(group + 1) * self.slots]
        self.operands[-1] = [threads[:, register].copy() for register in range(number, number + 1 + pair)]
        self.progress()
        return False

    def _register_writes(self):
        product, factor = self._number("registers__write_product"), self._number("registers__write_factor")
        returning, written = self._lanes("return"), self._lanes("write")
        assert product + factor + bool(returning) <= 1, "product and factor register at once"
        assert not (factor and self.paused), "a factor register is written in the cycle after write_pause"
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
        if factor or returning or (product and not refused):
            self.progress()
        waits, self.waits = self.waits, refused
        return bool(waits and refused)

    def _lanes(self, name):
        lanes = self._number(f"registers__{name}_lanes")
        return [lane for lane in range(self.cfg.threads) if lanes >> lane & 1]

    def _completions(self):
        dut = self.dut
        if dut.done.value:
            self.done += 1
            self.times["done"].append(self.cycle)
            operation = self.under_way.popleft()
            if not self.discarding:
                active = active_threads(self.golden, operation.guard, operation.guard_negate)
                errors = execute(self.golden, operation)
                sample_operation(operation, active, self.stalls_seen, errors[0].code.name if errors else None, FIRST_FACTOR_REGISTER)
                self.stalls_seen = set()
                self.expected_errors.update((error.code.value, error.pc, error.operand) for error in errors)
                self.compare_registers(f"after operation {self.done}, {operation!r}")
