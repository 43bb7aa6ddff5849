"""Bench of the lanes under the engine for recurrent networks, in the matrix unit, against their golden model [S3.4]."""

from collections import deque

import cocotb
import numpy as np
from amaranth.utils import exact_log2
from cocotb.triggers import RisingEdge
from heddle.constants import PRODUCT_REGISTERS
from heddle.interfaces.datapath import engine_step_layout
from heddle.rnn.layouts import Start
from heddle_sim.golden.engine_lanes import EngineStep, Sums, sweep_steps

from .matrix_environment import MatrixBench
from .matrix_workload import ACCESS_WORDS, Workload
from .register_access import Read

FREE = (*range(128), *range(192, PRODUCT_REGISTERS))        # product registers that the thread unit does not write
TAPS = 4
DRAIN = 16                  # cycles in which the last step of a burst and the reads behind it end


class EngineBench(MatrixBench):
    """``engine`` is a queue of cycles of the engine: a step or none, and the word that is taken with it or none.

    The model makes a step when its sums are due; registers with sums under way are not read.
    """

    def __init__(self, dut, **stalls):
        super().__init__(dut, **stalls)
        self.model = Sums(self.products, self.factors, self.cfg.rnn_tap_registers)
        self.step_layout = engine_step_layout(self.cfg)
        self.latency = 4 + exact_log2(self.cfg.dot)
        self.limit = 1 << self.cfg.engine_element_bits - 1      # of elements
        self.engine, self.due = deque(), deque()
        self.word, self.taken, self.cat = [0] * self.cfg.dot, None, 0
        self.driven = self.engine_steps = self.early_reads = 0
        self.finished = deque(maxlen=4)         # steps, the last ones

    def sums(self, tap):
        self.model.products = self.products
        return self.model.registers(tap).view(np.uint32)

    def places(self, steps):
        """(tap, register) that steps write."""
        taps = self.cfg.rnn_tap_registers
        return {(tap, step.product % (taps if tap else PRODUCT_REGISTERS)) for step in steps for tap in range(1 << step.cat)}

    def _sample_access(self):
        self.model.products = self.products
        while self.due and self.due[0][0] <= self.cycle:
            _, step, elements = self.due.popleft()
            self.model.step(step, elements)
            self.finished.append(step)
        super()._sample_access()

    def _drive_access(self):
        super()._drive_access()
        self._drive_engine()

    def _drive_engine(self):
        """The word of the step of the cycle before, and the next step."""
        choose, dut = self.random, self.dut
        dut.engine__take.value = int(self.taken is not None)
        word = self.random_word() if self.taken is None else self.taken
        for index, element in enumerate(word):
            getattr(dut, f"engine__word__{index}").value = int(element)
        active = bool(self.engine) or self.driven
        self.taken, self.driven = None, bool(self.engine)
        fields = {name: choose.getrandbits(8) % (1 << member.width) for name, member in self.step_layout} | {"step": 0}
        if self.engine:
            self.progress()
            step, cat, word = self.engine.popleft()
            fields["cat"] = cat
            if word is not None:
                self.taken = self.word = word
                self.cat = cat
            if step is not None:
                assert step.cat == self.cat == cat
                fields = {"step": 1, **vars(step)}
                self.due.append((self.cycle + 1 + self.latency, step, self.word))
                self.engine_steps += 1
        dut.engine_active.value = int(active)
        dut.engine__step.value = self.step_layout.const(fields).as_bits()

    def _next_access(self):
        """Sums are read as soon as they are due, but not while ``mm`` may change them."""
        idle = not (self.in_flight or self.operations or self.accesses or self.current["read"])
        if idle and self.finished and self.random.random() < 0.7:
            under_way = self.places(step for due, step, _ in self.due if due > self.cycle + 1)
            places = sorted(self.places(self.finished) - under_way)
            if places:
                tap, register = self.random.choice(places)
                taps = self.cfg.rnn_tap_registers
                number = register + taps * self.random.randrange(PRODUCT_REGISTERS // taps) if tap else register
                self.accesses.appendleft(Read(number, self.random.randrange(self.cfg.thread_groups), self.cfg.numbers_per_word, tap))
                self.early_reads += 1
        super()._next_access()

    async def run_engine(self, cycles):
        """Give the lanes to the engine for some cycles."""
        assert not self.in_flight and not self.operations
        self.engine += cycles
        while self.engine or self.driven:
            await RisingEdge(self.dut.clk)

    async def clear_taps(self):
        """All accumulators of taps become known."""
        word = self.random_word()
        await self.run_engine([(EngineStep(number, number, 0, 2, 1), 2, word) for number in range(self.cfg.rnn_tap_registers)])
        await self.drain()

    async def drain(self):
        for _ in range(DRAIN):
            await RisingEdge(self.dut.clk)
        await self.idle()
        assert not self.due

    def random_word(self):
        extreme, limit = self.random.random() < 0.2, self.limit
        return self.rng.choice([-limit, limit - 1], self.cfg.dot) if extreme else self.rng.integers(-limit, limit, self.cfg.dot)

    async def compare(self):
        await super().compare()
        self.accesses += [Read(register, group, self.cfg.numbers_per_word, tap) for tap in range(1, TAPS)
                          for register in range(self.cfg.rnn_tap_registers) for group in range(self.cfg.thread_groups)]
        before = self.compared
        await self.idle()
        assert self.compared - before >= (TAPS - 1) * self.cfg.rnn_tap_registers * self.cfg.thread_groups

    def random_cycles(self, count):
        """Steps with gaps on few registers: repeats, sources that are products of the steps before, words that stay."""
        choose = self.random
        cat, taken = choose.randrange(3), False
        near = choose.sample(FREE, 4)
        recent = [near[0]]
        for _ in range(count):
            if choose.random() < 0.1:
                near = choose.sample(FREE, 4)
            word = None
            if not taken or choose.random() < 0.5:
                cat, word = choose.randrange(3), self.random_word()
            taken = True
            if choose.random() < 0.2:
                yield None, cat, word
                continue
            product = choose.choice([choose.choice(near), recent[-1]])
            source = choose.choice([product, product, choose.choice(recent[-3:]), choose.choice(near)])
            factor = choose.randrange(ACCESS_WORDS, self.cfg.factor_words)
            recent.append(product)
            yield EngineStep(product, source, factor, cat, int(choose.random() < 0.15)), cat, word

    def sweep_cycles(self):
        """A sweep, one step a cycle."""
        choose, cfg = self.random, self.cfg
        cat = choose.randrange(3)
        columns, blocks = choose.randrange(1, 6), choose.choice([1, 1, 2, 3, 4, 5])
        vector = self.rng.integers(-self.limit, self.limit, columns * (cfg.dot >> cat))
        weight = choose.randrange(ACCESS_WORDS, cfg.factor_words - columns * blocks)
        product, bias = choose.randrange(0, 24), choose.randrange(32, 56)
        last = None
        for step, elements in sweep_steps(vector, dot=cfg.dot, cat=cat, blocks=blocks, weight=weight, product=product, bias=bias,
                                          start=choose.choice(list(Start))):
            word = np.concatenate([elements, self.rng.integers(-self.limit, self.limit, cfg.dot - len(elements))])
            new = last is None or (elements is not last)
            yield step, cat, word if new else None
            last = elements


async def begin(dut, **stalls):
    bench = EngineBench(dut, **stalls)
    work = Workload(bench)
    await bench.start()
    await work.prepare()
    await bench.clear_taps()
    return bench, work


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def random_steps(dut):
    """Random steps of every mode with accesses of the thread unit in between, and operations of ``mm`` before and after."""
    bench, work = await begin(dut, access_stall=0.2)
    bench.next_access = lambda: work.access() if bench.random.random() < 0.5 else None
    for _ in range(6):
        await bench.run_engine(list(bench.random_cycles(150)))
        for _ in range(bench.random.randrange(3)):
            bench.issue(work.operation())
        await bench.idle(also_accesses=False)
        for _ in range(bench.random.randrange(DRAIN)):
            await RisingEdge(dut.clk)
    bench.next_access = lambda: None
    await bench.drain()
    await bench.compare()
    assert bench.early_reads > 50
    assert bench.completed


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def sweeps(dut):
    """Sweeps back to back, from a bias, from zero and on top of what is there; sums are read as soon as they are due."""
    bench, _ = await begin(dut)
    for _ in range(12):
        await bench.run_engine([cycle for _ in range(bench.random.randrange(1, 5)) for cycle in bench.sweep_cycles()])
        await bench.drain()
    await bench.compare()
    assert bench.early_reads > 30
