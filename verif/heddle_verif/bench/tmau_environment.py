"""What stands around the TMAU in its bench: shared memory, global memory and barriers with random delays."""

from collections import Counter, deque
from functools import partial

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, RisingEdge
from heddle.constants import BANK_BYTES, MAX_BURST_BYTES, ROW_BYTES
from heddle.interfaces.layouts import barrier_arrival_layout, copy_operation_layout, error_layout
from heddle.isa.encoding import Reduction, Space
from heddle.tmau.unit import Tmau
from heddle_sim.golden.block_copy import check_copy, copy_block
from heddle_sim.toolchain.cocotb_process import bench_config

from heddle_verif.agents.banks import BankMemory
from heddle_verif.agents.global_memory import GlobalMemory
from heddle_verif.agents.pause import bernoulli
from heddle_verif.coverage.errors import sample_error
from heddle_verif.coverage.tmau import sample_block
from heddle_verif.fixture import Bench

__all__ = ["CopyBench", "Stalls", "pack_operation"]

IDLE_LIMIT = 20_000     # cycles without progress that fail a test


class Stalls:
    """Probabilities per cycle that a port does not move, and latencies.

    ``shared_delay``: cycles that a request to shared memory waits at most before it may be served. ``shared_places``: requests that a
    port of shared memory accepts ahead. Without delay and with one place it behaves like ``SharedMemory``.
    """

    def __init__(self, operations=0.0, banks=0.0, requests=0.0, data=0.0, responses=0.0, latency=(1, 1), reorder=False, shared_delay=0,
                 shared_places=1):
        self.operations, self.banks, self.requests, self.data, self.responses = operations, banks, requests, data, responses
        self.latency, self.reorder, self.shared_delay, self.shared_places = latency, reorder, shared_delay, shared_places

    @property
    def like_hardware(self):
        """Whether a port of shared memory is not ready exactly in the cycle after a refusal."""
        return self.shared_delay == 0 and self.shared_places == 1

    def of_memory(self):
        """Patterns of the streams of the global port."""
        shares = {"read_request": self.requests, "read_data": self.data, "write_request": self.requests, "write_data": self.data,
                  "write_response": self.responses}
        return {stream: partial(bernoulli, share=share) for stream, share in shares.items()}


class FailingAddresses:
    """The addresses of which ``fails`` says so."""

    def __init__(self, fails):
        self._fails = fails

    def __contains__(self, address):
        return self._fails(address)


class CopyBench(Bench):
    """Everything around the unit, and what has to come of the operations that were issued.

    Parameters
    ----------
    stalls : Stalls
    fails : callable
        Whether a byte of global memory is answered with an error, by its address; equal for all bytes of a beat.
    """

    def __init__(self, dut, stalls, fails=lambda address: False):
        self.unit = Tmau(bench_config())
        super().__init__(dut, self.unit, idle_limit=IDLE_LIMIT)
        self.stalls, self.fails = stalls, fails
        self.issued = self.accepted = self.done = 0
        self.busy = False
        self.unanswered = {"read": Counter(), "write": Counter()}     # bursts that are not answered, by tag
        self.dma_tags = [1 << self.cfg.tag_bits - 1] * self.cfg.copy_within
        self.errors, self.arrived = Counter(), Counter()
        self.expected_errors, self.expected_arrivals = Counter(), Counter()
        self.moved = self.conflict_events = self.compared = 0
        self.transferred = 0        # bytes that barriers may be told of
        self.parts = deque()        # bytes of write bursts of the local DMA without response
        self.conflicts, self.held = set(), 0    # cycles in which a request was refused; cycles in which a port was not ready
        self.times = {"operation": [], "read_request": [], "read_data": [], "write_request": [], "write_data": [], "bank_read": [],
                      "bank_write": [], "arrival": [], "done": []}
        self.accesses, self.expected_accesses = Counter(), Counter()       # words that banks were granted for
        self.beat_blocks = max(1, self.cfg.axi_bytes // BANK_BYTES)     # of a beat of the bus; halves count as whole ones
        self.unmoved = 0            # bytes of stores that barriers are told of, although some are clipped
        self.allowed = None         # where shared memory may be written, by byte
        self._operations = deque()  # that the source has not given to the unit

    async def start(self):
        await super().start()
        cfg, dut, stalls = self.cfg, self.dut, self.stalls
        self.global_memory = GlobalMemory(
            dut, "global_port", cfg, cfg.tag_bits, self.rng, size=1 << min(cfg.axi_address_bits, 18), latency=stalls.latency,
            errors=[FailingAddresses(self.fails)], ahead=2, pause=stalls.of_memory(), in_order=not stalls.reorder)
        self.global_memory.on_item = self._memory_item
        self.banks = BankMemory(dut, cfg, self.rng, read="bank_read", write="bank_write", grant_chance=1 - stalls.banks,
                                delay=stalls.shared_delay, places=stalls.shared_places)
        self.banks.on_access, self.banks.on_refused = self._bank_access, self._bank_refused
        self.memory, self.shared = self.global_memory.data, self.banks.data
        self.golden_memory, self.golden_shared = self.memory.copy(), self.shared.copy()
        self.inputs = [self.source("i_operation", copy_operation_layout, pause=self._operation_pause(), on_item=self._operation)]
        self.monitor("o_error", error_layout, self._error)
        self.monitor("o_arrival", barrier_arrival_layout, self._arrival)
        cocotb.start_soon(self._every_cycle())

    def _operation_pause(self):
        return bernoulli(self.rng, self.stalls.operations)

    def issue(self, operation, golden=True):
        """Queue an operation for the unit and execute it on the golden arrays."""
        self.issued += 1
        self._operations.append(operation)
        self.inputs[0].put(pack_operation(operation))
        if golden:
            result = copy_block(self.cfg, operation, self.golden_shared, self.golden_memory, self.fails)
            self.expected_errors.update((code.value, pc, operand, 0) for code, pc, operand in result.errors)
            if result.arrived:
                self.expected_arrivals[operation.barrier] += result.arrived
            within = operation.source_space == operation.destination_space
            if within and operation.source_space == Space.SHARED and not result.errors:
                reads = 1 if operation.reduction == Reduction.NONE else 2       # of a block: a reduction reads both sides
                self.expected_accesses.update({"read": reads * operation.blocks, "write": operation.blocks})
            if result.bursts and not within:
                kind, failed = ("write", result.errors) if operation.destination_space == Space.SHARED else ("read", [])
                self.expected_accesses[kind] += operation.blocks * max(1, BANK_BYTES // self.cfg.axi_bytes)
                self.expected_accesses["failed"] += len(failed)

    @property
    def waiting_operations(self):
        """Operations that the unit has not taken."""
        return self.issued - self.accepted

    async def stopped(self, cycles):
        """After some cycles stop the unit until everything has ended with its done, then go on from what was copied by then."""
        await ClockCycles(self.dut.clk, cycles)
        self.dut.stop.value = 1
        await RisingEdge(self.dut.clk)
        await self.until(lambda: not (self.busy or self.waiting_operations), IDLE_LIMIT, "everything must end")
        assert self.done == self.accepted
        assert self.global_memory.idle
        self.dut.stop.value = 0
        self.golden_memory, self.golden_shared = self.memory.copy(), self.shared.copy()
        self.expected_arrivals, self.expected_accesses = self.arrived.copy(), self.accesses.copy()

    async def idle(self):
        """Wait until everything that was issued is over, then compare all that can be seen with the golden model."""
        while self.waiting_operations or self.busy or self.done != self.accepted:
            await RisingEdge(self.dut.clk)
        for _ in range(5):
            await RisingEdge(self.dut.clk)
            assert (self.busy, self.done) == (False, self.accepted), "done without an operation, or busy again"
        for name, mine, golden in (("shared", self.shared, self.golden_shared), ("global", self.memory, self.golden_memory)):
            wrong = np.flatnonzero(mine != golden)
            assert len(wrong) == 0, f"{len(wrong)} bytes of {name} memory differ, first at {wrong[0]:#x}"
        assert self.errors == self.expected_errors, (self.errors - self.expected_errors, self.expected_errors - self.errors)
        assert self.arrived == self.expected_arrivals, (self.arrived, self.expected_arrivals)
        assert self.global_memory.idle
        if not self.expected_accesses["failed"]:
            assert self.accesses == +self.expected_accesses, (self.accesses, self.expected_accesses)
        assert self.held == self.conflict_events, (self.held, self.conflict_events)
        if self.stalls.like_hardware:
            assert len(self.conflicts) == self.conflict_events, (len(self.conflicts), self.conflict_events)
        self.compared += 1

    # -- what is seen -----------------------------------------------------------------------

    async def _every_cycle(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            self.busy = bool(dut.busy.value)
            if dut.done.value:
                self.done += 1
                self.times["done"].append(self.cycle)
            self.conflict_events += int(dut.events__copy_bank_conflicts.value)
            self.held += not (dut.bank_read__request__ready.value and dut.bank_write__request__ready.value)
            self._reports()
            taken = sum(source.handles.is_valid() and source.handles.is_ready() for source in self.inputs)
            self.accepted += taken
            self.busy |= taken > 0
            assert self.busy or self.done == self.accepted, "busy fell before everything was done"

    def _bank_access(self, kind, bank, row):
        self.accesses[kind] += 1
        self.moved += 1
        self.transferred += BANK_BYTES if self.cfg.copy_within else min(BANK_BYTES, self.cfg.axi_bytes)
        self.progress()
        self.times[f"bank_{kind}"].append(self.cycle)
        if kind == "write":
            address = row * ROW_BYTES + bank * BANK_BYTES
            assert self.allowed is None or self.allowed[address], f"a write to {address:#x} leaves the range of its copy"

    def _bank_refused(self, kind, banks):
        self.conflicts.add(self.cycle)

    def _reports(self):
        """What was reported until this cycle."""
        assert sum(self.arrived.values()) <= self.transferred + self.unmoved or self.errors, "bytes arrived before they moved"

    def _error(self, error):
        self.errors[error["code"].value, error["pc"], error["operand"], error["dimension"]] += 1
        sample_error("TMAU", error["code"])

    def _arrival(self, arrival):
        self.times["arrival"].append(self.cycle)
        self.arrived[arrival["barrier"]] += arrival["bytes"]

    def _operation(self, _):
        self.times["operation"].append(self.cycle)
        operation = self._operations.popleft()
        problem = check_copy(self.cfg, operation)
        sample_block(operation, problem and problem[0].name)

    def _memory_item(self, stream, item):
        """Check the rules of bursts and tags that memory does not know."""
        if stream in self.times:
            self.times[stream].append(self.cycle)
        kind = stream.partition("_")[0]
        if stream.endswith("request"):
            self._request(kind, item)
        elif stream == "write_response" or (stream == "read_data" and item["last"]):
            self.unanswered[kind][item["tag"]] -= 1
        if stream.endswith("data"):
            self.moved += self.beat_blocks
        if stream == "write_response" and item["tag"] in self.dma_tags:
            self.transferred += self.parts.popleft()

    def _request(self, kind, request):
        cfg, tag, size = self.cfg, request["tag"], (request["beats_minus_one"] + 1) * self.cfg.axi_bytes
        assert request["address"] // MAX_BURST_BYTES == (request["address"] + size - 1) // MAX_BURST_BYTES, "a burst crosses"
        if request.get("prefetch"):     # without an answer
            return
        tags = range(cfg.axi_reads + 2 * cfg.tensors) if kind == "read" else range(cfg.axi_writes)
        assert tag in {*tags, *self.dma_tags}, f"tag {tag} of a {kind} must be one of {tags}, or of copies within memory"
        assert tag in self.dma_tags or not self.unanswered[kind][tag], f"tag {tag} must not be used twice"
        if kind == "write" and tag in self.dma_tags:
            self.parts.append(size)
        self.unanswered[kind][tag] += 1


def pack_operation(operation):
    """Bits of an operation; ``kind`` may be a number that has no name yet."""
    values = {name: getattr(operation, name) for name, _ in copy_operation_layout if name != "kind"}
    values |= {end: values[end] & 0xFFFFFFFF for end in ("destination", "source")}
    values["format"] = values["format"].value
    kind = getattr(operation.kind, "value", operation.kind)
    return copy_operation_layout.const(values).as_bits() | kind << copy_operation_layout["kind"].offset
