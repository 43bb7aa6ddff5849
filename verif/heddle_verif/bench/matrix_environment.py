"""What stands around the matrix unit in its bench: the front end, the banks and the thread unit."""

from collections import deque

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from heddle.constants import BANK_BYTES, PRODUCT_REGISTERS, ROW_BYTES
from heddle.interfaces.layouts import error_layout, matrix_operation_layout, shared_read_layout
from heddle.matrix.unit import MatrixUnit
from heddle_sim.golden.matrix import multiply
from heddle_sim.toolchain.cocotb_process import bench_config

from ..agents.banks import BankMemory
from ..agents.pause import bernoulli
from ..agents.stream import StreamHandles
from ..checkers.scoreboard import Scoreboard
from ..coverage.errors import sample_error
from ..coverage.matrix import sample_access, sample_operation
from ..fixture import Bench
from ..stimulus.swizzles import number_of
from .register_access import FactorWrite, ProductWrite, Read, Return

__all__ = ["MatrixBench"]

ACCESS_NAMES = {Read: "read", ProductWrite: "product write", FactorWrite: "factor write", Return: "return"}
IDLE_LIMIT = 4_000          # cycles without progress that fail a test


class MatrixBench(Bench):
    """Front end and banks are agents; the thread unit and all that is counted are moved by one loop, which samples before and drives after
    each clock edge.

    ``issue`` queues operations, ``accesses`` is a queue that tests fill; the model follows what the unit accepted, grants and
    completes. Operations and accesses that are under way at the same time must use different registers.
    """

    def __init__(self, dut, bank_stall=0.0, operation_stall=0.0, access_stall=0.0, hold=0.0, memory=None):
        super().__init__(dut, MatrixUnit(bench_config()), idle_limit=IDLE_LIMIT)
        self.bank_stall, self.operation_stall, self.access_stall, self.hold = bank_stall, operation_stall, access_stall, hold
        self.memory = memory or {}      # delays of shared memory
        cfg = self.cfg
        self.slots = min(cfg.thread_slots, cfg.threads)
        self.layout = matrix_operation_layout(cfg)
        self.products = np.zeros((cfg.threads, PRODUCT_REGISTERS), np.int32)
        self.factors = np.zeros((cfg.threads, cfg.factor_words, cfg.dot), np.uint8)
        self.entries = np.zeros(cfg.compiled_offsets, np.uint32)
        self.returned = np.zeros(cfg.threads, np.uint32)
        self.operations, self.accesses = deque(), deque()       # not accepted, not begun
        self.in_flight, self.reads = deque(), []
        self.errors, self.error_codes = Scoreboard("errors"), set()
        self.current = {"read": None, "write": None}
        self.expected_reads = []
        self.accepted = self.completed = self.compared = 0
        self.accepted_at = self.done_at = 0
        self.steps = self.bubbles = self.conflicts = self.expected_conflicts = self.refused = self.held = 0
        self.blocks = self.blocks_expected = 0
        self.asked = None       # the request that was offered and not taken
        self.next_access = lambda: None
        self.held_before = False
        self.begins, self.stalled = deque(), {"banks": 0, "hold": 0}    # of the operations in flight; last cycle of each stall
        self.waited, self.beside = dict.fromkeys(self.current, 0), dict.fromkeys(self.current, False)   # of the accesses under way

    # -- small helpers ----------------------------------------------------------------------

    @staticmethod
    def bits(flags):
        return sum(1 << index for index, flag in enumerate(flags) if flag)

    def factor_numbers(self):
        """The factor registers as uint32 [threads, numbers]; a view."""
        return self.factors.reshape(self.cfg.threads, -1).view("<u4")

    def sums(self, tap):
        """The accumulators of a tap as uint32 [threads, registers]; a view. Without the engine there is one."""
        assert tap == 0
        return self.products.view(np.uint32)

    def registers(self, **values):
        for name, value in values.items():
            getattr(self.dut, f"registers__{name}").value = value

    def return_data(self, data):
        for slot, words in enumerate(data):
            getattr(self.dut, f"registers__return_data__{slot}").value = sum(int(word) << 32 * j for j, word in enumerate(words))

    def sample(self, name):
        return int(getattr(self.dut, f"registers__{name}").value)

    def expect_read(self, values):
        self.expected_reads.append((self.cycle + self.cfg.register_read_latency, values))

    def signals(self, *names):
        return [int(getattr(self.dut, name).value) for name in names]

    @property
    def shared(self):
        """Bytes of shared memory."""
        return self.banks.data

    # -- control ----------------------------------------------------------------------------

    async def start(self):
        await super().start()
        self.request = StreamHandles(self.dut, "bank__request", shared_read_layout(self.cfg))
        self.source_i = self.source("i_operation", self.layout, pause=bernoulli(self.rng, self.operation_stall), on_item=self._accept)
        self.sink("o_error", error_layout, on_item=self._error)
        self.banks = BankMemory(self.dut, self.cfg, self.rng, read="bank", grant_chance=1 - self.bank_stall, **self.memory)
        self.banks.on_access, self.banks.on_refused = self._granted, self._refused
        self._idle_registers()
        cocotb.start_soon(self._loop())

    def issue(self, *operations):
        """Queue operations for the unit."""
        for operation in operations:
            self.operations.append(operation)
            fields = {name: getattr(operation, name) for name in self.layout.members}
            self.source_i.put(fields | {name: self.bits(fields[name]) for name in ("columns", "lanes")}
                              | {"swizzle": number_of(self.cfg, operation.swizzle)})

    def stall(self, banks, hold):
        """Change the stalls of banks and the share of cycles with ``hold``."""
        self.banks.grant_chance, self.hold = 1 - banks, hold

    async def idle(self, also_accesses=True):
        """Wait until everything that was queued is done."""
        while self.operations or self.in_flight or (also_accesses and (self.accesses or any(self.current.values()))):
            await RisingEdge(self.dut.clk)
        await self.cycles(4)
        assert not int(self.dut.busy.value) and not int(self.dut.active.value), "busy or active although nothing is under way"

    async def fill(self):
        """Give every register of every lane a random value, through the register port."""
        cfg = self.cfg
        for register in range(PRODUCT_REGISTERS):
            for group in range(cfg.thread_groups):
                self.accesses.append(Return(self.random_data(), self.lanes_of(group)))
            self.accesses.append(ProductWrite(register, np.ones(cfg.threads, bool)))
        for word in range(cfg.factor_words):
            for group in range(cfg.thread_groups):
                self.accesses.append(FactorWrite(word, (1 << cfg.numbers_per_word) - 1, self.lanes_of(group), self.random_data()))
        await self.idle()

    def lanes_of(self, group):
        return np.arange(self.cfg.threads) // self.slots == group

    def random_data(self):
        return self.rng.integers(0, 1 << 32, (self.slots, self.cfg.numbers_per_word), np.uint32)

    async def compare(self):
        """Read every product register of every lane; the loop compares them with the model."""
        self.accesses += [Read(register, group, self.cfg.numbers_per_word)
                          for register in range(PRODUCT_REGISTERS) for group in range(self.cfg.thread_groups)]
        before = self.compared
        await self.idle()
        assert self.compared - before >= PRODUCT_REGISTERS * self.cfg.thread_groups

    def finish(self):
        super().finish()
        assert self.completed and self.compared and not self.in_flight
        self.dut._log.info(f"{self.completed} operations, {self.steps} steps, {self.bubbles} bubbles, {self.refused} "
                           f"refused accesses, {self.compared} comparisons in {self.cycle} cycles")

    # -- the loop ---------------------------------------------------------------------------

    async def _loop(self):
        while True:
            await RisingEdge(self.dut.clk)
            self._sample_bank()
            self._sample_done()
            self._check_reads()
            self._sample_access()
            self._drive_hold()
            self._drive_access()

    def _accept(self, _):
        self.begins.append((self.cycle, "back to back" if self.in_flight else "after idle"))
        self.in_flight.append(self.operations.popleft())
        self.accepted += 1
        self.accepted_at = self.cycle

    def _error(self, error):
        self.errors.observe((error["code"], error["pc"], error["operand"]))
        self.error_codes.add(error["code"])
        sample_error("matrix unit", error["code"])

    def _granted(self, kind, bank, row):
        self.reads.append(row * ROW_BYTES + bank * BANK_BYTES)
        self.progress()

    def _refused(self, kind, banks):
        self.expected_conflicts += 1
        self.stalled["banks"] = self.cycle

    def _sample_bank(self):
        """What is asked for, and what was read in this cycle."""
        request = self.request.value() if self.request.is_valid() else None
        assert not request or self.cfg.fetch_slots > 1 or request["bank"] & (request["bank"] - 1) == 0, f"more than one bank: {request}"
        assert not (self.held_before and request and request != self.asked), "a bank is asked for in the cycle after hold"
        self.asked = request if request and not self.request.is_ready() else None
        held, self.held_before = self.held_before and bool(self.in_flight), bool(self.dut.hold.value)
        self.held += held
        self.stalled["hold"] = self.cycle if held else self.stalled["hold"]
        self.blocks += int(self.dut.events__matrix_blocks.value)
        steps, bubbles, conflicts = self.signals("events__matrix_steps", "events__matrix_bubbles", "events__matrix_bank_conflicts")
        self.steps, self.bubbles, self.conflicts = self.steps + steps, self.bubbles + bubbles, self.conflicts + conflicts
        if steps:
            self.progress()

    def _groups_of_pieces(self, pieces):
        """Rows that are fetched together; rows of 16-bit elements count twice where several come in a cycle."""
        groups = []
        for rows in pieces:
            slots = self.cfg.piece_slots // (self.cfg.dot // len(rows)) or 1
            groups += [rows[start:start + slots] for start in range(0, len(rows), slots)]
        return groups

    def _compare_reads(self, result, passes, transpose):
        """Words that are fetched together are read together, each 16 bytes once a pass; a group with an error is not read."""
        slots = self.cfg.fetch_slots
        groups = self._groups_of_pieces(result.pieces)
        for words in (*result.steps, *result.fills, result.unfinished) if not transpose else ():
            of_step = {}
            for position, address in words.items():
                of_step.setdefault(position // slots, []).append(address // BANK_BYTES * BANK_BYTES)
            groups += [*of_step.values()] * (passes if words is not result.unfinished else 1)
        if result.unfinished:
            groups.pop()
        for addresses in groups:
            expected = set(addresses)
            self.blocks_expected += len(expected)
            count = len(expected)
            read = self.reads[:count]
            assert len(read) == count and set(read) == expected, f"reads {self.reads}, expected {expected} first"
            del self.reads[:count]
            in_bank = [address % ROW_BYTES for address in expected]
            self.expected_conflicts += max(in_bank.count(bank) for bank in in_bank) - 1

    def _drive_hold(self):
        self.dut.hold.value = int(self.random.random() < self.hold)

    def _sample_done(self):
        if int(self.dut.done.value):
            assert self.in_flight, "done without an operation"
            self.done_at = self.cycle
            self.progress()
            operation = self.in_flight.popleft()
            assert int(self.dut.busy.value) and int(self.dut.active.value), "done, but not busy and active"
            if getattr(operation, "discarded", False):
                self.completed += 1
                self._count(operation, "stopped")
                return
            result = multiply(self.products, self.factors, self.shared, operation, self.entries)
            self.products, self.entries = result.products, result.entries
            self.errors.expect(*result.errors)
            assert not self.errors.outstanding, f"errors must be reported before done: {result.errors}"
            self._count(operation, result.errors[0][0].name if result.errors else "done")
            self._compare_reads(result, self.cfg.passes(1 + operation.int16), operation.transpose)
            self.completed += 1
            if not self.in_flight:
                self.errors.finish(0)
                assert not self.reads, f"surplus reads {self.reads}"

    def _count(self, operation, end):
        """Coverage of an operation that is over."""
        since, begins = self.begins.popleft()
        sample_operation(operation, end=end, begins=begins, **{name: last > since for name, last in self.stalled.items()})

    def _idle_registers(self):
        """No request; everything that a request would qualify is random."""
        self.registers(read=0, write_product=0, write_factor=0, return_lanes=0,
                       write_register=self.random.getrandbits(8), read_number=self.random.randrange(self.cfg.registers),
                       read_group=self.random.randrange(self.cfg.thread_groups),
                       write_word=self.random.randrange(self.cfg.factor_words),
                       write_parts=self.random.getrandbits(self.cfg.numbers_per_word),
                       write_lanes=self.random.getrandbits(self.cfg.threads),
                       **({"read_tap": self.random.getrandbits(2)} if self.cfg.rnn else {}),
                       **({"read_pair": self.random.getrandbits(1)} if self.cfg.register_pairs else {}))
        self.return_data(self.random_data())

    def _sample_access(self):
        for kind, access in self.current.items():
            if access is not None:
                granted, over = access.sample(self)
                self.refused += not granted
                self.waited[kind] += not granted
                if granted:
                    self.progress()
                self.beside[kind] |= bool(self.in_flight)
                if over:
                    self.current[kind] = None
                    sample_access(ACCESS_NAMES[type(access)], self.waited[kind], self.beside[kind])
                    self.waited[kind], self.beside[kind] = 0, False

    def _drive_access(self):
        if self.random.random() >= self.access_stall:
            self._next_access()
        self._idle_registers()
        for access in self.current.values():
            if access is not None:
                access.drive(self)

    def _next_access(self):
        """Start the next queued access, or a random one, if its kind is idle and nothing forbids it."""
        if not self.accesses:
            access = self.next_access()
            if access is None:
                return
            self.accesses.append(access)
        access = self.accesses[0]
        if isinstance(access, FactorWrite) and self.sample("write_pause"):
            return
        other = self.current["write" if access.kind == "read" else "read"]
        if self.current[access.kind] or (other and other.places & access.places):
            return
        self.current[access.kind] = self.accesses.popleft()

    def _check_reads(self):
        while self.expected_reads and self.expected_reads[0][0] == self.cycle:
            values = self.expected_reads.pop(0)[1]
            for name, row in zip(("read_data", "read_second"), values):
                for slot, value in enumerate(row):
                    got, = self.signals(f"registers__{name}__{slot}")
                    assert got == value, f"{name} of slot {slot}: {got:#x}, expected {value:#x}"
            self.compared += 1
