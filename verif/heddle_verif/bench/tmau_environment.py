"""What stands around the TMAU in its bench: banks, global memory and barriers with random delays."""

import random
from collections import Counter, deque

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from heddle.constants import BANK_BYTES, BANKS, MAX_BURST_BYTES, ROW_BYTES
from heddle.interfaces.layouts import (
    SHARED_READ_LATENCY,
    barrier_arrival_layout,
    copy_operation_layout,
    error_layout,
    read_data_layout,
    read_request_layout,
    write_data_layout,
    write_request_layout,
    write_response_layout,
)
from heddle.isa.encoding import Reduction, Space
from heddle.tmau.unit import Tmau
from heddle_sim.golden.block_copy import check_copy, copy_block
from heddle_sim.golden.reductions import reduce_elements
from heddle_sim.toolchain.cocotb_runner import bench_config

from heddle_verif.checkers.stream_rules import check_streams
from heddle_verif.coverage.errors import sample_error
from heddle_verif.coverage.tmau import sample_block

__all__ = ["CopyBench", "Stalls"]

IDLE_LIMIT = 20_000     # cycles without progress that fail a test


class Stalls:
    """Probabilities per cycle that a port does not move."""

    def __init__(self, operations=0.0, banks=0.0, requests=0.0, data=0.0, responses=0.0, latency=(1, 1), reorder=False):
        self.operations, self.banks, self.requests, self.data, self.responses = operations, banks, requests, data, responses
        self.latency, self.reorder = latency, reorder


class CopyBench:
    """Everything around the unit, moved by one loop that samples before and drives after each clock edge."""

    def __init__(self, dut, stalls, fails=lambda address: False):
        self.dut, self.stalls, self.fails = dut, stalls, fails
        self.cfg = cfg = bench_config()
        self.random = random.Random(cocotb.RANDOM_SEED)
        rng = np.random.default_rng(cocotb.RANDOM_SEED)
        self.memory = rng.integers(0, 256, 1 << min(cfg.axi_address_bits, 18), np.uint8)
        self.shared = rng.integers(0, 256, cfg.shared_bytes, np.uint8)
        self.golden_memory, self.golden_shared = self.memory.copy(), self.shared.copy()
        self.layouts = {"read_request": read_request_layout(cfg, cfg.tag_bits), "read_data": read_data_layout(cfg, cfg.tag_bits),
                        "write_request": write_request_layout(cfg, cfg.tag_bits), "write_data": write_data_layout(cfg),
                        "write_response": write_response_layout(cfg.tag_bits)}
        self.operations, self.accepted, self.done, self.busy = deque(), 0, 0, False
        self.reads, self.read_beats = {}, None          # tag -> queue of (ready cycle, beat); the beat that is offered
        self.write_requests, self.write_data, self.responses, self.response = deque(), [], [], None
        self.busy_writes = Counter()
        self.mover_tags = [1 << cfg.tag_bits - 1] * cfg.copy_within
        self.errors, self.arrived = Counter(), Counter()
        self.expected_errors, self.expected_arrivals = Counter(), Counter()
        self.moved = self.cycle = self.conflicts = self.conflict_events = self.compared = 0
        self.times = {"operation": [], "read_request": [], "read_data": [], "write_data": [], "bank_write": []}
        self.accesses, self.expected_accesses = Counter(), Counter()       # words that banks were granted for
        self.held = {}
        self.beat_blocks = max(1, cfg.axi_bytes // BANK_BYTES)      # of a beat of the bus; halves count as whole ones
        self.unmoved = 0            # bytes of stores that barriers are told of, although some are clipped
        self.allowed = None         # where shared memory may be written, by byte
        self.words = deque([[0] * BANKS] * SHARED_READ_LATENCY, SHARED_READ_LATENCY)     # data of the banks, by cycle

    def port(self, name):
        return getattr(self.dut, name)

    async def start(self):
        Clock(self.dut.clk, 10, unit="ns").start()
        self._drive_idle()
        self.dut.stop.value = 0
        self.dut.rst.value = 1
        for _ in range(3):
            await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0
        check_streams(self.dut, Tmau(self.cfg).signature, unit="Tmau")
        self.task = cocotb.start_soon(self._loop())

    def _drive_idle(self):
        self.dut.i_operation__valid.value = 0
        for name in ("read_request__ready", "read_data__valid", "write_request__ready", "write_data__ready",
                     "write_response__valid"):
            self.port(f"global_port__{name}").value = 0
        for name in ("read_data", "write_response"):        # ``ready`` depends on the tag
            self.port(f"global_port__{name}__payload").value = 0
        if self.cfg.tensors:
            for name in ("i_tensor__valid", "i_tensor__payload", "invalidate", "invalidate_address", "clear", "commit"):
                self.port(name).value = 0
        self.dut.bank_read__grant.value = 0
        self.dut.bank_write__grant.value = 0

    def issue(self, operation, golden=True):
        """Queue an operation for the unit and execute it on the golden arrays."""
        self.operations.append(operation)
        if golden:
            result = copy_block(self.cfg, operation, self.golden_shared, self.golden_memory, self.fails)
            self.expected_errors.update((code.value, pc, operand, 0) for code, pc, operand in result.errors)
            if result.arrived:
                self.expected_arrivals[operation.barrier] += result.arrived
            within = operation.source_space == operation.destination_space
            if within and operation.source_space == Space.SHARED and not result.errors:
                self.expected_accesses.update({"read": operation.blocks, "write": operation.blocks})
            if result.bursts and not within:
                kind, failed = ("write", result.errors) if operation.destination_space == Space.SHARED else ("read", [])
                self.expected_accesses[kind] += operation.blocks * max(1, BANK_BYTES // self.cfg.axi_bytes)
                self.expected_accesses["failed"] += len(failed)

    @property
    def waiting_operations(self):
        """Operations that the unit has not taken."""
        return len(self.operations)

    async def stopped(self, cycles):
        """After some cycles stop the unit until everything has ended with its done, then go on from what was copied by then."""
        await ClockCycles(self.dut.clk, cycles)
        self.dut.stop.value = 1
        for _ in range(20_000):
            await RisingEdge(self.dut.clk)
            if not self.busy and not self.waiting_operations:
                break
        assert not self.busy
        assert self.done == self.accepted
        assert not self.write_data
        assert not self.write_requests
        self.dut.stop.value = 0
        self.golden_memory, self.golden_shared = self.memory.copy(), self.shared.copy()
        self.expected_arrivals, self.expected_accesses = self.arrived.copy(), self.accesses.copy()

    async def idle(self):
        """Wait until everything that was issued is over, then compare all that can be seen with the golden model."""
        waited, before = 0, None
        while self.waiting_operations or self.busy or self.done != self.accepted:
            await RisingEdge(self.dut.clk)
            state = (self.moved, self.done, self.accepted)
            waited = waited + 1 if state == before else 0
            before = state
            assert waited < IDLE_LIMIT, f"no progress: {state}, {self.waiting_operations} operations left"
        for _ in range(5):
            await RisingEdge(self.dut.clk)
            assert (self.busy, self.done) == (False, self.accepted), "done without an operation, or busy again"
        assert not self.task.done(), self.task.result()
        for name, mine, golden in (("shared", self.shared, self.golden_shared), ("global", self.memory, self.golden_memory)):
            wrong = np.flatnonzero(mine != golden)
            assert len(wrong) == 0, f"{len(wrong)} bytes of {name} memory differ, first at {wrong[0]:#x}"
        assert self.errors == self.expected_errors, (self.errors - self.expected_errors, self.expected_errors - self.errors)
        assert self.arrived == self.expected_arrivals, (self.arrived, self.expected_arrivals)
        assert not any(self.reads.values())
        assert not self.write_data
        assert not self.write_requests
        assert not self.responses
        if not self.expected_accesses["failed"]:
            assert self.accesses == +self.expected_accesses, (self.accesses, self.expected_accesses)
        assert self.conflicts == self.conflict_events, (self.conflicts, self.conflict_events)
        self.compared += 1

    # -- the loop ---------------------------------------------------------------------------

    async def _loop(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            self.cycle += 1
            self.busy = bool(dut.busy.value)
            self.done += int(dut.done.value)
            self.conflict_events += int(dut.event_copy_bank_conflicts.value)
            self.conflicts += self._banks()
            self._reports()
            self._operation()
            self._reading()
            self._writing()
            assert self.busy or self.done == self.accepted, "busy fell before everything was done"

    def _pause(self, probability):
        return self.random.random() < probability

    def _sample(self, name):
        """Payload fields and whether it was transferred, of an output stream of the global port; checks stability."""
        valid = bool(self.port(f"global_port__{name}__valid").value)
        ready = bool(self.port(f"global_port__{name}__ready").value)
        payload = self.port(f"global_port__{name}__payload").value.to_unsigned() if valid else None
        if name in self.held:
            assert payload == self.held[name], f"{name} changed before it was accepted"
        self.held.pop(name, None)
        if valid and not ready:
            self.held[name] = payload
        return self.layouts[name].from_bits(payload) if valid and ready else None

    def _banks(self):
        """Serve the banks; returns whether a request was denied."""
        dut = self.dut
        read, granted = dut.bank_read__request.value.to_unsigned(), dut.bank_read__grant.value.to_unsigned()
        write, taken = dut.bank_write__request.value.to_unsigned(), dut.bank_write__grant.value.to_unsigned()
        if write:
            self.times["bank_write"].append(self.cycle)
        one_row, one_bus = self.cfg.banks_known_ahead, self.cfg.shared_writes == 1      # ports with the lines of bank 0 only
        for asked, alone in ((read, one_row), (write, one_bus)):
            assert not alone or asked & (asked - 1) == 0, f"one bank must be asked for at a time, not {asked:#x}"
        self.words.append([self.random.getrandbits(128) for _ in range(BANKS)])
        for b in range(BANKS):
            if read & granted & 1 << b:
                address = self.port(f"bank_read__row__{0 if one_row else b}").value.to_unsigned() * ROW_BYTES + b * BANK_BYTES
                self.words[-1][b] = int.from_bytes(self.shared[address:address + BANK_BYTES].tobytes(), "little")
                self.moved += 1
                self.accesses["read"] += 1
            self.port(f"bank_read__data__{b}").value = self.words[0][b]
        for b in range(BANKS):
            if write & taken & 1 << b:
                lines = 0 if one_bus else b
                address = self.port(f"bank_write__row__{lines}").value.to_unsigned() * ROW_BYTES + b * BANK_BYTES
                mask = self.port(f"bank_write__mask__{lines}").value.to_unsigned()
                value = self.port(f"bank_write__data__{lines}").value.to_unsigned().to_bytes(BANK_BYTES, "little")
                for i in range(BANK_BYTES):
                    if mask >> i & 1:
                        self.shared[address + i] = value[i]
                assert self.allowed is None or self.allowed[address], f"a write to {address:#x} leaves the range of its copy"
                self.moved += 1
                self.accesses["write"] += 1
        for name in ("bank_read", "bank_write"):
            grant = sum((not self._pause(self.stalls.banks)) << b for b in range(BANKS))
            self.port(f"{name}__grant").value = grant
        return int(bool(read & ~granted) or bool(write & ~taken))

    def _reports(self):
        dut = self.dut
        if dut.o_error__valid.value:
            error = error_layout.from_bits(dut.o_error__payload.value.to_unsigned())
            self.errors[error.code.value, error.pc, error.operand, error.dimension] += 1
            sample_error("TMAU", error.code)
        if dut.o_arrival__valid.value:
            arrival = barrier_arrival_layout.from_bits(dut.o_arrival__payload.value.to_unsigned())
            self.arrived[arrival.barrier] += arrival.bytes
            assert sum(self.arrived.values()) <= self.moved * BANK_BYTES + self.unmoved or self.errors, "bytes arrived before they moved"

    def _operation(self):
        dut = self.dut
        if dut.i_operation__valid.value and dut.i_operation__ready.value:
            self.accepted += 1
            self.busy = True
            self.times["operation"].append(self.cycle)
            operation = self.operations.popleft()
            problem = check_copy(self.cfg, operation)
            sample_block(operation, problem and problem[0].name)
            dut.i_operation__valid.value = 0
            dut.i_operation__payload.value = self.random.getrandbits(copy_operation_layout.size)
        elif dut.i_operation__valid.value:
            return
        if self.operations and not self._pause(self.stalls.operations):
            dut.i_operation__payload.value = pack_operation(self.operations[0])
            dut.i_operation__valid.value = 1

    def _burst(self, request):
        """Check the rules of a burst; returns the addresses of its beats."""
        size = (request.beats_minus_one + 1) * self.cfg.axi_bytes
        assert request.address % self.cfg.axi_bytes == 0, "a burst begins at a beat"
        assert request.address // MAX_BURST_BYTES == (request.address + size - 1) // MAX_BURST_BYTES, "a burst crosses"
        return [request.address + self.cfg.axi_bytes * n for n in range(request.beats_minus_one + 1)]

    def _reading(self):
        cfg, dut, stalls = self.cfg, self.dut, self.stalls
        if dut.global_port__read_data__valid.value and dut.global_port__read_data__ready.value:
            self.times["read_data"].append(self.cycle)
            self.reads[self.read_beats].popleft()
            self.read_beats = None
            dut.global_port__read_data__payload.value = self.random.getrandbits(self.layouts["read_data"].size)
            self.moved += self.beat_blocks
        if (request := self._sample("read_request")) is not None:
            self.times["read_request"].append(self.cycle)
            if cfg.l2_kib and request.prefetch:     # without an answer
                self._burst(request)
                request = None
        if request is not None:
            assert request.tag in self.mover_tags or not self.reads.get(request.tag), "a tag is used twice"
            assert request.tag in {*range(cfg.axi_reads + 2 * cfg.tensors), *self.mover_tags}
            addresses = self._burst(request)
            start = self.cycle + self.random.randint(*stalls.latency)
            self.reads.setdefault(request.tag, deque()).extend(
                (start, _word(self.memory, address, cfg.axi_bytes), request.tag, address == addresses[-1], self.fails(address))
                for address in addresses)
        dut.global_port__read_request__ready.value = not self._pause(stalls.requests)
        if self.read_beats is None:
            ready = [tag for tag, beats in self.reads.items() if beats and beats[0][0] <= self.cycle]
            if ready and not self._pause(stalls.data):
                self.read_beats = self.random.choice(ready) if stalls.reorder else ready[0]
                _, value, tag, last, error = self.reads[self.read_beats][0]
                beat = {"data": value, "tag": tag, "last": last, "error": error}
                dut.global_port__read_data__payload.value = self.layouts["read_data"].const(beat).as_bits()
            dut.global_port__read_data__valid.value = self.read_beats is not None
        if not stalls.reorder:
            self.reads = {tag: beats for tag, beats in self.reads.items() if beats}

    def _writing(self):
        cfg, dut, stalls = self.cfg, self.dut, self.stalls
        if dut.global_port__write_response__valid.value and dut.global_port__write_response__ready.value:
            self.busy_writes[self.response] -= 1
            self.response = None
            dut.global_port__write_response__payload.value = self.random.getrandbits(self.layouts["write_response"].size)
        if (request := self._sample("write_request")) is not None:
            assert request.tag in {*range(cfg.axi_writes), *self.mover_tags}
            assert request.tag in self.mover_tags or not self.busy_writes[request.tag], "a tag is used twice"
            self.busy_writes[request.tag] += 1
            self.write_requests.append(request)
        if (beat := self._sample("write_data")) is not None:
            self.times["write_data"].append(self.cycle)
            self.write_data.append((beat.data, beat.strobe, beat.last))
            self.moved += self.beat_blocks
        if self.write_requests and len(self.write_data) > self.write_requests[0].beats_minus_one:
            self._write_burst(self.write_requests.popleft())
        dut.global_port__write_request__ready.value = not self._pause(stalls.requests)
        dut.global_port__write_data__ready.value = not self._pause(stalls.data)
        oldest = {}         # response of each tag
        for index, (_, tag, _) in enumerate(self.responses):
            oldest.setdefault(tag, index)
        due = [index for index in oldest.values() if self.responses[index][0] <= self.cycle]
        if self.response is None and due and not self._pause(stalls.responses):
            _, self.response, error = self.responses.pop(self.random.choice(due) if stalls.reorder else due[0])
            bits = self.layouts["write_response"].const({"tag": self.response, "error": error}).as_bits()
            dut.global_port__write_response__payload.value = bits
        dut.global_port__write_response__valid.value = self.response is not None

    def _write_burst(self, request):
        addresses = self._burst(request)
        beats, self.write_data = self.write_data[:len(addresses)], self.write_data[len(addresses):]
        for address, (value, strobe, last) in zip(addresses, beats, strict=True):
            assert last == (address == addresses[-1]), "last beat is marked wrongly"
            if not self.fails(address):
                self._write_beat(request, address, value, np.array([strobe >> i & 1 for i in range(self.cfg.axi_bytes)], bool))
        due = self.cycle + self.random.randint(*self.stalls.latency)
        self.responses.append((due, request.tag, any(self.fails(address) for address in addresses)))

    def _write_beat(self, request, address, value, enabled):
        data = np.frombuffer(value.to_bytes(self.cfg.axi_bytes, "little"), np.uint8)
        place = self.memory[address:address + self.cfg.axi_bytes]
        if self.cfg.reductions and request.reduction != Reduction.NONE:
            place[enabled] = reduce_elements(request.reduction, request.format, place[enabled], data[enabled])
        else:
            place[enabled] = data[enabled]


def pack_operation(operation):
    """Bits of an operation; ``kind`` may be a number that has no name yet."""
    values = {name: getattr(operation, name) for name, _ in copy_operation_layout if name != "kind"}
    values |= {end: values[end] & 0xFFFFFFFF for end in ("destination", "source")}
    values["format"] = values["format"].value
    kind = getattr(operation.kind, "value", operation.kind)
    return copy_operation_layout.const(values).as_bits() | kind << copy_operation_layout["kind"].offset


def _word(memory, address, size):
    return int.from_bytes(memory[address:address + size].tobytes(), "little")
