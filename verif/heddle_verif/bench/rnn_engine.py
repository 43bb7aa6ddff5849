"""Bench of the engine for recurrent networks on the lanes, against the golden engine."""

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from heddle.interfaces.front_end import recurrent_error_layout
from heddle.isa.error_codes import ErrorCode
from heddle.rnn.layouts import task_memory_layout
from heddle_sim.golden.recurrent_engine import ROW_BYTES, EngineFault, EngineState, engine_run, read_image
from heddle_sim.rnn.image import build_image
from heddle_sim.rnn.model import EngineModel
from heddle_sim.rnn.task import Task
from heddle_sim.toolchain.cocotb_process import bench_config, bench_parameters

from ..agents.banks import BankMemory
from ..coverage.errors import sample_error
from ..coverage.recurrent import sample_image
from ..duts.engine_system import EngineSystem, with_lanes
from ..fixture import Bench
from ..stimulus.recurrent_networks import KINDS, random_image, random_model, random_task, stacked_gru

LIMIT = 60_000      # cycles of a run
MEMORIES = ((0, 1), (0, 1), (3, 2), (14, 16))       # latencies that are drawn: largest delay of a request, requests that are accepted ahead


class EngineBench(Bench):
    """An engine with lanes; the bench is shared memory and writes the factor registers.

    Steps of the lanes and writes of factor registers are progress too. Every access of shared memory happens in a run: when its busy ends,
    writes are in memory and no word is on its way.

    Parameters
    ----------
    paced : bool
        Shared memory has its least latency and refuses nothing. Otherwise the latency is drawn for each run.
    """

    def __init__(self, dut, paced=False):
        super().__init__(dut, EngineSystem(_config()))
        self.cfg = _config()
        self.memory = BankMemory(dut, self.cfg, self.rng, read="bank_read", write="bank_write", grant_chance=1.0 if paced else 0.7)
        self.memory.on_access = self._access
        self.state = EngineState.for_config(self.cfg)
        self.skipped = self.steps = 0
        self.stop_after = None      # cycles of the next run
        self._memories = ((0, 1),) if paced else MEMORIES

    def _access(self, kind, bank, row):
        self.progress()
        assert self.dut.run__busy.value, f"{kind} of row {row} of bank {bank} outside of a run"

    async def load(self, words):
        """Factor registers of all lanes, from word 0 on."""
        cfg, dut = self.cfg, self.dut
        self.state.factors[:, :words.shape[1]] = words
        for word in range(words.shape[1]):
            for group in range(cfg.thread_groups):
                dut.write.value, dut.write_word.value = 1, word
                if cfg.thread_groups > 1:
                    dut.write_group.value = group
                for slot in range(cfg.tail_lanes):
                    row = words[group * cfg.tail_lanes + slot, word]
                    getattr(dut, f"data__{slot}").value = int.from_bytes(row.astype(np.int8).tobytes(), "little")
                await RisingEdge(dut.clk)
                self.progress()
        dut.write.value = 0
        await self.cycles(3)

    async def run(self, address):
        """Cycles of a run; ``fault`` becomes the code and operand of its error, or None. ``stop`` comes after ``stop_after`` cycles."""
        dut = self.dut
        self.memory.delay, self.memory.places = self.random.choice(self._memories)
        dut.run__start.value, dut.run__address.value = 1, address
        await RisingEdge(dut.clk)
        dut.run__start.value = 0
        cycles, self.fault = 0, None
        while True:
            await RisingEdge(dut.clk)
            cycles += 1
            dut.stop.value = cycles == self.stop_after
            if (bits := int(dut.run__error.value)) & 1:
                error = recurrent_error_layout.from_bits(bits)
                self.fault = error.code, address if error.of_image else error.operand
                sample_error("recurrent engine", error.code)
            skipped, steps = int(dut.events__rnn_skipped.value), int(dut.events__rnn_steps.value)
            self.skipped += skipped
            self.steps += steps
            if skipped or steps:
                self.progress()
            if not int(dut.run__busy.value):
                break
            assert cycles < LIMIT, f"the run must end within {LIMIT} cycles"
        dut.stop.value, self.stop_after = 0, None
        return cycles

    async def begin(self, image):
        """Load the factor registers and shared memory of an image."""
        await self.load(image.words)
        self.memory.data[:] = self.rng.integers(0, 256, len(self.memory.data))
        self.memory.data[:len(image.shared)] = image.shared

    def forget(self):
        """After a run that did not end as the golden engine's: columns that were left out count from here on."""
        self.skipped = self.state.skipped

    def expected_fault(self, address):
        """Code and operand of the golden engine's error, or None."""
        try:
            engine_run(self.cfg, self.state, self.memory.data.copy(), address)
        except EngineFault as fault:
            return fault.code, fault.operand
        return None

    async def check(self, image):
        """Run an image and compare all of shared memory with the golden engine's."""
        await self.begin(image)
        expected = self.memory.data.copy()
        cycles = 0
        for address in (image.bias_address, image.address):
            if address is not None:
                cycles = await self.run(address)
                assert self.fault is None, f"error {self.fault}"
                engine_run(self.cfg, self.state, expected, address)
        wrong = np.flatnonzero(self.memory.data != expected)
        assert not len(wrong), f"{len(wrong)} bytes differ, first at {wrong[0]:#x}"
        assert self.skipped == self.state.skipped, f"columns that are left out must be {self.state.skipped}, not {self.skipped}"
        sample_image(self.cfg, image)
        return cycles

    async def each_step(self, steps, tasks, make):
        """What a step of one of ``tasks`` tasks adds to ``cycles``, ``steps`` of the lanes, and elements ``multiplied`` and read.

        Two images are run, ``make(steps)`` and ``make(2 * steps)``: what they differ by is that of the steps.
        """
        counts = []
        for number in (steps, 2 * steps):
            before = self.steps, self.state.multiplied, self.state.elements
            cycles = await self.check(make(number))
            counts.append((cycles, *(new - old for new, old in zip((self.steps, self.state.multiplied, self.state.elements), before))))
        return dict(zip(("cycles", "steps", "multiplied", "elements"), ((last - first) / steps / tasks for first, last in zip(*counts))))


def _config():
    """That of the test, with the number of lanes that its parameters say."""
    lanes = bench_parameters().get("lanes")
    return with_lanes(bench_config(), lanes) if lanes else bench_config()


@cocotb.test(timeout_time=50, timeout_unit="ms")
@cocotb.parametrize(kind=KINDS)
async def one_layer(dut, kind):
    """Each kind of layer: one task, some that take turns, and more than there are contexts."""
    bench = EngineBench(dut)
    await bench.start()
    counts = (1, min(2, bench.cfg.rnn_contexts), bench.cfg.rnn_contexts + 1)
    for cat, tasks in zip((1, 2, 4), bench.rng.permutation(counts)):
        await bench.check(random_image(bench.cfg, bench.rng, tasks=int(tasks), kinds=(kind,), cats=(cat,), largest=16 if tasks == 1 else 8,
                                       starts=bool(bench.rng.integers(2))))
    bench.finish()


@cocotb.test(timeout_time=50, timeout_unit="ms")
async def several_contexts(dut):
    """Tasks of different models take turns, begin at different times and are more than contexts."""
    bench = EngineBench(dut)
    await bench.start()
    for _ in range(6):
        await bench.check(random_image(bench.cfg, bench.rng, models=2, tasks=int(bench.rng.integers(2, 7)), starts=True))
    bench.finish()


@cocotb.test(timeout_time=50, timeout_unit="ms")
async def several_layers(dut):
    """Layers in one step, each of which reads the result of the one before, in one task and in several."""
    bench = EngineBench(dut)
    await bench.start()
    size = 8 if bench.cfg.factor_words > 64 else 3      # two layers fit the factor registers
    for cat, tasks in zip((1, 2, 4), (2, 1, bench.cfg.rnn_contexts + 1)):
        model = stacked_gru(bench.cfg, bench.rng, 3, size, linear=False, cat=cat, reverse=cat == 1, skip_zeros=cat == 4)
        await bench.check(build_image(bench.cfg, [random_task(bench.rng, model, 1 + number % 3) for number in range(tasks)]))
    bench.finish()


@cocotb.test(timeout_time=50, timeout_unit="ms")
async def faults(dut):
    """Images that do not lie in shared memory, or whose counts are none, end with the error of the golden engine; the next one runs."""
    bench = EngineBench(dut)
    await bench.start()
    size = len(bench.memory.data)
    bench.memory.data[:] = 0
    for address in (0, 8, size, size - 16, 1 << 31):
        expected = bench.expected_fault(address)
        await bench.run(address)
        assert bench.fault == expected is not None, f"{bench.fault}, not {expected} at {address:#x}"
    await bench.check(random_image(bench.cfg, bench.rng, tasks=1))
    bench.finish()


@cocotb.test(timeout_time=50, timeout_unit="ms")
@cocotb.parametrize(field=["state_address", "input_address", "output_address"])
async def outside(dut, field):
    """States, rows and results of which one lies behind shared memory end the run with its address; the next image runs."""
    bench = EngineBench(dut)
    await bench.start()
    cfg, size, steps = bench.cfg, bench.cfg.shared_bytes, 4
    for number in range(steps):
        if field == "state_address" and number:
            break
        image = build_image(cfg, [random_task(bench.rng, random_model(cfg, bench.rng, "lstm", 20, 2), steps)])
        await bench.begin(image)
        header, (task,) = (parts := read_image(cfg, bench.memory.data, image.address)).header, parts.tasks
        pitch = 0 if field == "state_address" else getattr(task[1], field.replace("address", "pitch"))
        place = image.address + ROW_BYTES * (2 + header.sweeps + header.operations)
        record = bench.memory.data[place:place + ROW_BYTES]
        bits = int.from_bytes(record.tobytes(), "little")
        change = (getattr(task[1], field) ^ (size - number * pitch)) << task_memory_layout[field].offset
        record[:] = np.frombuffer((bits ^ change).to_bytes(ROW_BYTES, "little"), np.uint8)
        expected = bench.expected_fault(image.address)
        await bench.run(image.address)
        assert bench.fault == expected and expected[0] == ErrorCode.OUT_OF_RANGE, f"{bench.fault}, not {expected}"
    bench.forget()
    await bench.check(random_image(cfg, bench.rng, tasks=1))
    bench.finish()


@cocotb.test(timeout_time=50, timeout_unit="ms")
async def stops(dut):
    """Runs that are stopped end with nothing on its way; the next one is complete."""
    bench = EngineBench(dut)
    await bench.start()
    stopped = 0
    for _ in range(4):
        image = random_image(bench.cfg, bench.rng, tasks=3, largest=30)
        await bench.begin(image)
        for after in bench.rng.integers(1, 500, 4):
            bench.stop_after = int(after)
            stopped += await bench.run(image.address) > after
            assert bench.fault is None, f"error {bench.fault}"
        bench.forget()
        await bench.check(random_image(bench.cfg, bench.rng, tasks=1))
    bench.finish()
    assert stopped > 4, f"more than 4 runs must be stopped, not {stopped}"


@cocotb.test(timeout_time=50, timeout_unit="ms")
async def results(dut):
    """Layers of one group of elements, and of several, whose results lie in all banks."""
    bench = EngineBench(dut)
    await bench.start()
    for kind, size, steps in (("lstm", 2, 1), ("rnn", 40, 6)):
        model = random_model(bench.cfg, bench.rng, kind, 3, size)
        await bench.check(build_image(bench.cfg, [random_task(bench.rng, model, steps)]))
    bench.finish()


@cocotb.test(timeout_time=50, timeout_unit="ms", skip=not getattr(bench_config(), "rnn_differences", False))
async def jumps(dut):
    """Differences of elements that go from end to end of 16 bits are exact: with none held, results are those of all elements."""
    bench = EngineBench(dut)
    await bench.start()
    for kind, cat in (("lstm", 1), ("gru", 2), ("rnn", 4)):
        plain = random_model(bench.cfg, bench.rng, kind, 3, 5, cat)
        rows = {"x": bench.rng.choice(np.array([-32768, 32767], np.int16), (4, 3))}
        results = []
        for model in (plain, EngineModel(bench.cfg, plain.step, cat, held=0)):
            image = build_image(bench.cfg, [Task(model, rows)])
            await bench.check(image)
            results.append(image.results(bench.memory.data)[0].outputs)
        for name, values in results[0].items():
            assert np.array_equal(values, results[1][name]), f"{kind} cat {cat}: {name} must be {values}, not {results[1][name]}"
    for kind in KINDS:      # differences that wait, of tasks that take turns
        await bench.check(random_image(bench.cfg, bench.rng, tasks=int(bench.rng.integers(1, 5)), kinds=(kind,), largest=5))
    bench.finish()


@cocotb.test(timeout_time=50, timeout_unit="ms", skip="most" not in bench_parameters())
async def pace(dut):
    """Cycles of a step of a layer: parameters ``kind``, ``inputs``, ``hidden``, ``tasks`` that take turns, ``steps``; at most ``most``."""
    bench = EngineBench(dut, paced=True)
    await bench.start()
    given = bench.parameters
    model = random_model(bench.cfg, bench.rng, given["kind"], given["inputs"], given["hidden"])
    found = await bench.each_step(given["steps"], given["tasks"], lambda steps: build_image(
        bench.cfg, [random_task(bench.rng, model, steps) for _ in range(given["tasks"])], given["tasks"]))
    cocotb.log.info(f"PACE {given} {found}")
    assert found["cycles"] <= given["most"], f"a step must take at most {given['most']} cycles, not {found['cycles']}"
    bench.finish()
