"""Bench of the tail of the engine for recurrent networks, bit for bit and cycle for cycle against the golden model."""

from collections import Counter, deque

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from heddle.constants import PRODUCT_REGISTERS
from heddle.rnn.layouts import Cell, Function, Pre, operation_layout, tail_job_layout, tail_output_layout, written_group_layout
from heddle.rnn.tail import ISSUE_LATENCY, SETTLED, TAIL_LATENCY, Tail
from heddle_sim.golden.recurrent_tail import sum_position, tail
from heddle_sim.toolchain.cocotb_process import bench_config

from heddle_verif.agents.pause import always, bursty
from heddle_verif.fixture import Bench
from heddle_verif.stimulus.tail_operations import RECIPES, Regions, random_operations, recipe, sums_and_scale

MAX_GROUPS = 6
CONTEXT_REGISTERS = 40      # product registers of a context


def numbers(rng, shape, bits):
    """Signed numbers of all sizes, the extreme ones among them."""
    values = rng.integers(-(1 << bits - 1), 1 << bits - 1, shape) >> rng.integers(0, bits, shape)
    extremes = np.array([-(1 << bits - 1), (1 << bits - 1) - 1, 0, -1, 1])
    return np.where(rng.random(shape) < 0.1, rng.choice(extremes, shape), values)


class TailBench(Bench):
    """Models of what surrounds the tail, and what is expected of it."""

    def __init__(self, dut):
        super().__init__(dut, Tail(bench_config()))
        cfg, rng = self.cfg, self.rng
        self.lanes = cfg.tail_lanes
        self.sums = numbers(rng, (cfg.thread_groups, 4, PRODUCT_REGISTERS, self.lanes), 32)
        self.vector = numbers(rng, (cfg.rnn_elements // self.lanes, self.lanes), 16)
        self.after = self.vector.copy()         # as the jobs that are queued leave it
        self.table = [int.from_bytes(rng.bytes(16), "little") for _ in range(cfg.rnn_records)]
        self.writes, self.progress_marks, self.outputs, self.read_cycles = deque(), deque(), deque(), deque()
        self.reads, self.finished_jobs, self.written, self.clock = [], [], 0, 0
        self.covered, self.taken, self.jobs, self.recipes = Counter(), 0, 0, 0

    async def begin(self, pause_i="bursty", pause_o="bursty"):
        cocotb.start_soon(self._surround())
        await self.start()
        self.source_i = self.source("i", tail_job_layout(self.cfg), pause=pause_i)
        self.sink_o = self.sink("o_output", tail_output_layout(self.cfg), pause=pause_o, on_item=self._output)
        self.monitor("i", tail_job_layout(self.cfg), self._taken)

    def job(self, operations, base, context, groups, row=None, parity=None, pairs=0, settled=1):
        """Queue a job and what comes of it; the table has its operations from ``base`` on. With ``pairs`` ``groups`` counts pairs."""
        elements = context * (self.cfg.rnn_elements // self.cfg.rnn_contexts)
        registers = context * CONTEXT_REGISTERS % PRODUCT_REGISTERS
        parity = int(self.rng.integers(0, CONTEXT_REGISTERS // 2)) if parity is None else parity
        row = 16 * int(self.rng.integers(1 << 16)) if row is None else row
        results = self._golden(operations, elements, groups, registers, parity, 1 + pairs)
        for group in range(groups):
            for operation, result in zip(operations, results):
                values = None if result is None else (result[group] & 0xFFFF).tolist()
                place = (elements + operation.destination) // self.lanes + group * (1 + pairs)
                if result is not None:
                    self.read_cycles.append((operation.write, operation.output))
                    self.covered.update([Function(operation.function), Pre(operation.pre), Cell(operation.cell)])
                if result is not None and operation.write:
                    self.writes.append((place, values))
                    self.after[place] = result[group]
                    self.written += 1
                if result is not None and operation.output:
                    address = (row + operation.output_byte + group * (1 + pairs) * 2 * self.lanes) % (1 << 20)
                    self.outputs.append({"address": address, "elements": values})
            self.progress_marks.append((context, int(group == groups - 1), self.written))
        self.jobs += 1
        self.source_i.put({"context": context, "operation": base, "operations": len(operations) - 1, "groups": groups - 1,
                           "elements": elements, "registers": registers, "pairs": pairs, "settled": settled,
                           "parity_registers": (registers + parity) % 256, "row": row})

    def _golden(self, operations, elements, groups, registers, parity, each):
        sums, operands = [], []
        for operation in operations:
            places = [sum_position(self.cfg, operation, group, registers, parity) for group in range(groups)]
            sums.append(np.stack([self.sums[place] for place in places]))
            first = (elements + operation.operand) // self.lanes
            operands.append(self.after[first:first + groups * each:each].copy())
        return tail(operations, sums, operands)

    def _taken(self, item):
        self.taken += 1

    def _output(self, item):
        expected = self.outputs.popleft()
        assert item == expected, f"output must be {expected}, not {item}"

    async def _surround(self):
        """Product registers, vector memory and table; checks of what is written, and when."""
        dut, latency, answers = self.dut, self.cfg.register_read_latency, deque()
        answers.extend([None] * (latency - 1))
        due = deque()               # cycles of the results of reads
        while True:
            await RisingEdge(dut.clk)
            self.clock += 1
            if not dut.rst.value.is_resolvable or dut.rst.value:
                continue
            self._check_progress()
            self._check_write(due)
            operand = self.vector[int(dut.operand__group.value)].copy() if dut.operand__group.value.is_resolvable else None
            if dut.write__enable.value:
                if dut.write__group.value == dut.operand__group.value:
                    operand = None      # undefined
                self.vector[int(dut.write__group.value)] = self._written_data()
            read = None
            if dut.sums__enable.value:
                lane_group = int(dut.sums__group.value) if self.cfg.thread_groups > 1 else 0
                read = self.sums[lane_group, int(dut.sums__tap.value), int(dut.sums__register.value)]
                self.reads.append(self.clock)
                due.append(self.clock + latency + TAIL_LATENCY)
            answers.append(read)
            self._drive("sums__data", answers.popleft(), 32)
            self._drive("operand__data", operand, 16)
            address = dut.operations__address.value
            dut.operations__record.value = self.table[int(address)] if address.is_resolvable else 0

    def _drive(self, name, values, bits):
        if values is None:
            values = self.rng.integers(0, 1 << bits, self.lanes)
        for index, value in enumerate(values):
            getattr(self.dut, f"{name}__{index}").value = int(value) & (1 << bits) - 1

    def _written_data(self):
        data = [int(getattr(self.dut, f"write__data__{index}").value) for index in range(self.lanes)]
        return [value - (value >> 15 << 16) for value in data]

    def _check_write(self, due):
        dut, now = self.dut, bool(due) and due[0] == self.clock
        expected = None
        if now:
            due.popleft()
            self.progress()
            expected = self.read_cycles.popleft()
        assert bool(dut.write__enable.value) == bool(expected and expected[0]), f"write must come {TAIL_LATENCY} cycles after the sums"
        if dut.write__enable.value:
            place, values = self.writes.popleft()
            got = int(dut.write__group.value), [value & 0xFFFF for value in self._written_data()]
            assert got == (place, values), f"group {place} must become {values}, not {got}"

    def _check_progress(self):
        dut = self.dut
        if dut.o_wrote__valid.value:
            context, finished, written = self.progress_marks.popleft()
            group = written_group_layout(self.cfg).from_bits(int(dut.o_wrote__payload.value))
            got = group.context, group.finished
            assert got == (context, finished), f"context and finished must be {context, finished}, not {got}"
            count = self.written - len(self.writes)
            assert count == written, f"{written} results must have been written, not {count}"
            if finished:
                self.finished_jobs.append(self.clock)
        if self.taken > len(self.finished_jobs) or dut.i__valid.value or dut.o_output__valid.value:
            assert dut.busy.value, "busy must be high while anything is under way"

    async def done(self):
        """Wait until everything is done, and a little longer."""
        while self.writes or self.outputs or self.progress_marks or self.source_i.queue:
            await RisingEdge(self.dut.clk)
        await self.cycles(40)
        assert not self.dut.busy.value, "busy must end"
        assert (self.vector == self.after).all()
        assert len(self.finished_jobs) == self.jobs and not self.read_cycles

    def lists(self, count, groups):
        """Random lists and recipes that fill the table: (operations, first record) of each."""
        cfg, made, base = self.cfg, [], 0
        span = groups * self.lanes
        for index in range(count):
            regions = Regions(self.rng, span, cfg.rnn_elements // cfg.rnn_contexts // span)

            def where():
                return sums_and_scale(self.rng, CONTEXT_REGISTERS // 2, cfg.thread_groups, groups)
            if index % 2:
                operations = random_operations(self.rng, regions, where)
            else:
                operations = recipe(self.rng, list(RECIPES)[self.recipes % len(RECIPES)], regions, where)
            if base + len(operations) > cfg.rnn_records:
                break
            self.recipes += 1 - index % 2
            made.append((operations, base))
            for operation in operations:
                self.table[base] = operation.as_bits()
                base += 1
        return made


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def equals_golden(dut):
    """Jobs of all kinds for all contexts, with pauses of both streams; the table changes from time to time."""
    bench = TailBench(dut)
    await bench.begin()
    rng = bench.rng
    for _ in range(bench.parameters["tables"]):
        made = bench.lists(8, MAX_GROUPS)
        for index in range(bench.parameters["jobs"]):
            operations, base = made[index if index < len(made) else int(rng.integers(len(made)))]
            pairs = int(rng.random() < 0.4)
            bench.job(operations, base, int(rng.integers(bench.cfg.rnn_contexts)), int(rng.integers(1, MAX_GROUPS // (1 + pairs) + 1)),
                      pairs=pairs, settled=int(index % 3 == 0 or any(operation.read for operation in operations) or rng.random() < 0.5))
        await bench.done()
    missing = [member for kind in (Function, Pre, Cell) for member in kind if not bench.covered[member]]
    assert not missing, f"not compared: {missing}"


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def pace(dut):
    """A slot in every cycle, although each has an output; jobs with ``settled`` wait for those of the same context, others do not."""
    bench = TailBench(dut)
    await bench.begin(pause_i="none", pause_o="none")
    cfg = bench.cfg
    # Every job makes -1.5 times the elements of what the one before it left: old ones would be seen.
    bench.sums[:] = -3 << 15
    bench.vector[:] = bench.after[:] = np.where(bench.vector, bench.vector, 1)
    operation = operation_layout.const({"function": Function.LINEAR, "multiplier": 0xFFFF, "stride": 1, "write": 1, "output": 1, "read": 1,
                                        "load_state": 1, "cell": Cell.GATE})
    bench.table[5] = operation.as_bits()
    contexts = [index % cfg.rnn_contexts for index in range(2 * cfg.rnn_contexts)]
    for context in contexts:
        bench.job([operation], 5, context, 20, parity=0)
    await bench.done()
    assert bench.reads == list(range(bench.reads[0], bench.reads[0] + 20 * len(contexts))), "slots must follow each other without a gap"
    start = len(bench.reads)
    for _ in range(3):
        bench.job([operation], 5, 0, 1, parity=0)
    bench.job([operation], 5, 1, 1, parity=0)
    await bench.done()
    first, *others = bench.reads[start:]
    assert others == [first + SETTLED, first + 2 * SETTLED, first + 2 * SETTLED + 1], "jobs of a context must follow at the stated distance"
    start = len(bench.reads)
    reads_nothing = operation_layout.const({"function": Function.LINEAR, "multiplier": 0xFFFF, "stride": 1, "write": 1})
    bench.table[6] = reads_nothing.as_bits()
    for _ in range(3):
        bench.job([reads_nothing], 6, 0, 2, parity=0, pairs=1, settled=0)
    await bench.done()
    assert bench.reads[start:] == list(range(bench.reads[start], bench.reads[start] + 6)), "jobs without settled must follow without a gap"
    start = len(bench.reads)
    bench.job([reads_nothing], 6, 0, 1, parity=0, settled=0)
    bench.job([reads_nothing], 6, 0, 5, parity=0, settled=0)
    bench.job([operation], 5, 0, 5, parity=0)
    await bench.done()
    wanted = [*range(6), *range(5 + SETTLED, 10 + SETTLED)]
    found = [read - bench.reads[start] for read in bench.reads[start:]]
    assert found == wanted, f"the last job must be settled, not only the one before it: slots at {wanted}, not {found}"
    offered = bench.clock
    bench.job([operation], 5, cfg.rnn_contexts - 1, 1, parity=0)
    await bench.done()
    # The job stands at the design in the cycle after next: the source sees the queue at an edge and drives behind it.
    assert bench.reads[-1] - offered in (ISSUE_LATENCY + 1, ISSUE_LATENCY + 2)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def held_outputs(dut):
    """Nothing is lost while nobody takes results: slots wait, wherever the others are, and go on when results leave."""
    bench = TailBench(dut)
    await bench.begin(pause_i="none", pause_o=always())
    fields = {"function": Function.LINEAR, "shift": 2, "multiplier": 65535, "stride": 1, "output": 1}
    bench.table[0] = operation_layout.const(fields).as_bits()
    for context in range(2):
        bench.job([operation_layout.const(fields)], 0, context, 60, parity=0)
    await bench.cycles(200)
    held = len(bench.reads)
    assert 16 <= held <= Tail(bench.cfg).output_depth, f"{held} results must fit the queue"
    await bench.cycles(50)
    assert len(bench.reads) == held, "slots must wait"
    bench.sink_o.pause = bursty(bench.rng)
    await bench.done()
