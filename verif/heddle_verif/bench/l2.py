"""Bench of the second-level cache: several cores, memories that answer late, contents and answers byte by byte."""

import functools
from collections import defaultdict, deque

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from heddle.constants import LINE_BYTES
from heddle.interfaces.layouts import read_data_layout, read_request_layout, write_data_layout, write_request_layout, write_response_layout
from heddle.isa.encoding import Reduction
from heddle.isa.tensor_descriptor import FLOAT_FORMATS, FORMAT_BYTES, TensorFormat
from heddle.l2.unit import L2
from heddle_sim.golden.reductions import reduce_elements
from heddle_sim.toolchain.cocotb_runner import bench_config

from ..agents.global_memory import GlobalMemory
from ..agents.pause import bernoulli, pattern
from ..coverage.l2 import sample_events, sample_request
from ..fixture import Bench
from .reduction_unit import choices

MEMORY = 1 << 14
PAGE = 4096
ANY_ORDER = {Reduction.ADD, Reduction.MIN, Reduction.MAX, Reduction.AND, Reduction.OR, Reduction.XOR}


class Level2Bench(Bench):
    """Epochs: requests of all cores that may overtake each other, none of which depends on another one; then everything is compared.

    ``golden`` is memory after the requests; ``owner`` says what an epoch does to each byte: nothing, a write, or one kind of reduction that
    may be repeated in any order. Reads are compared where nothing is done.
    """

    def __init__(self, dut, *, pause="bursty", latency=(1, 40), errors=()):
        cfg = bench_config()
        super().__init__(dut, L2(cfg), idle_limit=3000)
        self.pause_name, self.latency = pause, latency
        self.errors = list(errors)
        self.reads, self.writes = defaultdict(deque), defaultdict(deque)      # by core and tag
        self.finished = []
        self.memory_cfg = cfg.without_level2()
        self.choices = choices(cfg) if cfg.reductions else []
        self.events = dict.fromkeys(("hit", "miss", "eviction"), 0)

    async def start(self):
        await super().start()
        cfg, dut, ids = self.cfg, self.dut, self.cfg.axi_id_bits
        self.memory = [GlobalMemory(dut, f"o__{number}", self.memory_cfg, ids, self.rng, size=MEMORY, latency=self.latency, ahead=2,
                                    pause=functools.partial(pattern, self.pause_name)) for number in range(cfg.cores)]
        for memory in self.memory:
            memory.data, memory.errors = self.memory[0].data, self.errors
        self.golden = self.memory[0].data.copy()
        self.sources, self.answers = [], []
        for core in range(cfg.cores):
            port = f"i__{core}__"
            self.sources.append({
                "read": self.source(port + "read_request", read_request_layout(cfg, ids), pause=self.pause_name),
                "write": self.source(port + "write_request", write_request_layout(cfg, ids), pause=self.pause_name),
                "data": self.source(port + "write_data", write_data_layout(cfg), pause=self.pause_name)})
            self.answers.append(self.sink(port + "read_data", read_data_layout(cfg, ids), pause=self.pause_name,
                                          on_item=functools.partial(self._beat, core)))
            self.answers.append(self.sink(port + "write_response", write_response_layout(ids), pause=self.pause_name,
                                          on_item=functools.partial(self._response, core)))
        cocotb.start_soon(self._count())
        self.begin_epoch()

    async def _count(self):
        while True:
            await RisingEdge(self.dut.clk)
            counts = {name: int(getattr(self.dut, f"event_{name}").value) for name in self.events}
            sample_events(counts)
            for name, count in counts.items():
                self.events[name] += count

    # -- requests ---------------------------------------------------------------------------

    def begin_epoch(self):
        self.before, self.owner = self.golden.copy(), np.zeros(MEMORY, np.int64)
        self.finished.clear()

    def _place(self, lines):
        """A burst that begins in one of ``lines`` and stays in its page."""
        size = self.cfg.axi_bytes
        line = lines[int(self.rng.integers(len(lines)))] if lines is not None else int(self.rng.integers(MEMORY // LINE_BYTES))
        address = LINE_BYTES * line + size * int(self.rng.integers(self.cfg.line_beats))
        beats = int(self.rng.choice([1, 1, 2, 3, self.cfg.line_beats, 4 * self.cfg.line_beats]))
        if beats == self.cfg.line_beats and self.rng.random() < 0.5:
            address = LINE_BYTES * line         # a line as a whole
        return address, min(beats, (PAGE - address % PAGE) // size)

    def read(self, core, address, beats, prefetch=0):
        tag = int(self.rng.integers(1 << self.cfg.axi_id_bits))
        self.sources[core]["read"].put({"address": address, "beats_minus_one": beats - 1, "tag": tag, "prefetch": prefetch})
        if prefetch:
            sample_request("prefetch", address, beats * self.cfg.axi_bytes)
        else:
            self.reads[core, tag].append([address, beats, []])

    def _beat(self, core, beat):
        assert self.reads[core, beat["tag"]], f"core {core} got an answer for tag {beat['tag']} that it did not ask for"
        address, beats, got = self.reads[core, beat["tag"]][0]
        got.append((beat["data"], beat["error"]))
        assert beat["last"] == (len(got) == beats), f"last of beat {len(got)} of {beats} at {address:#x}"
        if beat["last"]:
            self.finished.append(self.reads[core, beat["tag"]].popleft())
            sample_request("read", address, beats * self.cfg.axi_bytes, error=any(error for _, error in got))

    def write(self, core, address, data, strobes, reduction=Reduction.NONE, format=TensorFormat.U8, fails=False):
        """``data``, ``strobes``: arrays of bytes and booleans, whole beats."""
        tag, size = int(self.rng.integers(1 << self.cfg.axi_id_bits)), self.cfg.axi_bytes
        request = {"address": address, "beats_minus_one": len(data) // size - 1, "tag": tag}
        if self.cfg.reductions:
            request |= {"reduction": reduction, "format": format}
        self.sources[core]["write"].put(request)
        for start in range(0, len(data), size):
            strobe = int.from_bytes(np.packbits(strobes[start:start + size], bitorder="little").tobytes(), "little")
            self.sources[core]["data"].put({"data": int.from_bytes(data[start:start + size].tobytes(), "little"), "strobe": strobe,
                                            "last": int(start + size == len(data))})
        self.writes[core, tag].append((address, fails, {"enabled": strobes, "reduction": reduction, "format": format}))

    def _response(self, core, response):
        assert self.writes[core, response["tag"]], f"core {core} got a response for tag {response['tag']} that it did not ask for"
        address, fails, kind = self.writes[core, response["tag"]].popleft()
        assert response["error"] == fails, f"error of the write to {address:#x} must be {int(fails)}"
        sample_request("write", address, len(kind["enabled"]), error=fails, **kind)

    def random_read(self, core, lines):
        self.read(core, *self._place(lines), prefetch=int(self.rng.random() < 0.15))

    def random_write(self, core, lines):
        """A write or a reduction of bytes that the epoch leaves alone, or reduces the same way."""
        address, beats = self._place(lines)
        here = slice(address, address + beats * self.cfg.axi_bytes)
        owner = self.owner[here]
        data = self.rng.integers(0, 256, len(owner), np.uint8)
        enabled = self.rng.random(len(owner)) < (1 if self.rng.random() < 0.6 else self.rng.random())
        if not self.choices or self.rng.random() < 0.4:
            enabled &= owner == 0
            self.golden[here][enabled] = data[enabled]
            owner[enabled] = 1
            self.write(core, address, data, enabled)
            return
        index = int(self.rng.integers(len(self.choices)))
        reduction, format = self.choices[index]
        repeats = reduction in ANY_ORDER and format not in FLOAT_FORMATS
        size = FORMAT_BYTES[format]
        free = (owner == 0) | ((owner == 2 + index) if repeats else False)
        enabled = (enabled.reshape(-1, size)[:, 0] & free.reshape(-1, size).all(axis=1)).repeat(size)
        self.golden[here][enabled] = reduce_elements(reduction, format, self.golden[here], data)[enabled]
        owner[enabled] = 2 + index
        self.write(core, address, data, enabled, reduction, format)

    # -- the end of an epoch ----------------------------------------------------------------

    @property
    def pending(self):
        return any(self.reads.values()) or any(self.writes.values())

    async def end_epoch(self, memory=True):
        """Wait for all answers; compare what was read, and memory."""
        while self.pending or any(source.queue for sources in self.sources for source in sources.values()):
            await RisingEdge(self.dut.clk)
        while int(self.dut.busy.value):
            await RisingEdge(self.dut.clk)
        assert all(memory.idle for memory in self.memory), "memory is still busy, the cache is not"
        for address, _, got in self.finished:
            size = self.cfg.axi_bytes
            for index, (value, error) in enumerate(got):
                here = slice(address + index * size, address + (index + 1) * size)
                assert error == self.memory[0]._fails(here.start), f"error of {here.start:#x} must be {1 - error}"
                if error:
                    continue
                value = np.frombuffer(value.to_bytes(size, "little"), np.uint8)
                wrong = (value != self.before[here]) & (self.owner[here] == 0)
                assert not wrong.any(), f"{here.start:#x} must be {self.before[here]}, not {value}"
        wrong = np.flatnonzero(self.golden != self.memory[0].data) if memory else []
        assert not len(wrong), f"memory must have {self.golden[wrong[0]]:#x} at {wrong[0]:#x}, not {self.memory[0].data[wrong[0]]:#x}"
        self.begin_epoch()

    async def change_memory(self):
        """What the host does between runs."""
        await self.invalidate()
        self.golden[:] = self.rng.integers(0, 256, MEMORY, np.uint8)
        self.memory[0].data[:] = self.golden
        self.begin_epoch()

    async def invalidate(self):
        self.dut.invalidate.value = 1
        await RisingEdge(self.dut.clk)
        self.dut.invalidate.value = 0

    def few_lines(self):
        """Lines of which many meet in one set."""
        sets = self.cfg.l2_kib * 1024 // LINE_BYTES // self.cfg.l2_ways
        first = int(self.rng.integers(sets))
        return [(first + step * sets + near) % (MEMORY // LINE_BYTES) for step in range(self.cfg.l2_ways + 2) for near in range(2)]


async def mixed_traffic(bench, epochs):
    """Epochs of requests in few lines or anywhere, each followed by reads of what came out."""
    cfg, rng = bench.cfg, bench.rng
    for epoch in range(epochs):
        lines = None if epoch % 3 == 2 else bench.few_lines()
        for _ in range(20 + 10 * cfg.cores):
            core = int(rng.integers(cfg.cores))
            (bench.random_read if rng.random() < 0.55 else bench.random_write)(core, lines)
        await bench.end_epoch()
        for number in range(8 + 2 * cfg.cores):
            bench.random_read(number % cfg.cores, lines)
        await bench.end_epoch()
        if epoch % 3 == 2:
            await bench.change_memory()


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(pause=["none", "bursty", "adversarial"])
async def random_traffic(dut, pause):
    """Reads, prefetches, writes and reductions of all cores, many in the same sets and lines; the host changes memory now and then."""
    bench = Level2Bench(dut, pause=pause)
    await bench.start()
    epochs = bench.parameters["epochs"]
    enough = min(5, 2 * epochs)                 # hits, misses and evictions; a large cache has few of these in one epoch
    await mixed_traffic(bench, epochs)
    for _ in range(3):
        if min(bench.events.values()) <= enough:
            await mixed_traffic(bench, 1)
    bench.finish()
    assert min(bench.events.values()) > enough, bench.events


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def errors(dut):
    """Errors of memory reach the client of their beat or burst; nothing of them is kept: when memory answers again, data are right."""
    bench = Level2Bench(dut)
    await bench.start()
    cfg, rng, size = bench.cfg, bench.rng, bench.cfg.axi_bytes
    reported = 0
    for _ in range(bench.parameters["epochs"]):
        await bench.invalidate()        # a line that is in the cache has no errors
        bad = [int(rng.integers(MEMORY // size)) * size for _ in range(5)]
        bench.errors[:] = [range(start, start + size) for start in bad]
        lines = sorted({(start // LINE_BYTES + near) % (MEMORY // LINE_BYTES) for start in bad for near in (0, 1)})
        used = set()
        first, most = ([start // span * span for start in bad] for span in (LINE_BYTES, 2 * LINE_BYTES))     # of lines, of two lines
        # A beat, a line and two lines with an error, reduced and written.
        wanted = [(bad[0], 1, True), (bad[1], 1, False), (first[2], cfg.line_beats, True), (most[3], 2 * cfg.line_beats, True),
                  (most[4], 2 * cfg.line_beats, False)]
        for number in range(24):
            core = int(rng.integers(cfg.cores))
            address, beats, reduced = wanted[number] if number < len(wanted) else (*bench._place(lines), rng.random() < 0.6)
            places = range(address, address + beats * size, size)
            if number >= len(wanted) and rng.random() < 0.6:
                bench.read(core, address, beats, prefetch=int(rng.random() < 0.2))
            elif not used & set(places):
                used |= set(places)
                fails = [place in bad for place in places]
                reported += any(fails)
                data = rng.integers(0, 256, beats * size, np.uint8)
                reduction, format = bench.choices[0] if bench.choices and reduced else (Reduction.NONE, TensorFormat.U8)
                here = slice(address, address + len(data))
                result = reduce_elements(reduction, format, bench.golden[here], data) if reduction != Reduction.NONE else data
                kept = np.repeat(fails, size)
                bench.golden[here] = np.where(kept, bench.golden[here], result)
                bench.owner[here] = 1
                bench.write(core, address, data, np.ones(len(data), bool), reduction, format, fails=any(fails))
        await bench.end_epoch()
        bench.errors.clear()
        for number in range(12):
            bench.read(number % cfg.cores, LINE_BYTES * lines[number % len(lines)], cfg.line_beats)
        await bench.end_epoch()
    bench.finish()
    assert reported


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def quick_memory(dut):
    """Memory that answers at once, while acknowledgements wait for their places; more writes than are taken, each at a random time."""
    bench = Level2Bench(dut, latency=(0, 0))
    await bench.start()
    for sources in bench.sources:
        sources["write"].pause = bernoulli(bench.rng, 0.8)
    for epoch in range(8 * bench.parameters["epochs"]):
        if epoch < 2 * bench.parameters["epochs"] or len(bench.memory[0].writes) <= 50:
            for number in range(50):
                bench.random_write(0 if number % 2 else number % bench.cfg.cores, None)
            await bench.end_epoch()
    bench.finish()
    assert len(bench.memory[0].writes) > 50


async def beats_per_cycle(bench, requests, streams):
    """Issue ``requests``; returns their beats by the cycles from the first to the last that ``streams`` move, and when the first does."""
    start, first, before, beats = bench.cycle, None, sum(stream.count for stream in streams), sum(requests())
    while (moved := sum(stream.count for stream in streams) - before) < beats:
        await RisingEdge(bench.dut.clk)
        if first is None and moved:
            first = bench.cycle
    return beats / (bench.cycle - first), first - start


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def pace(dut):
    """With memory that answers after 64 cycles: a beat a cycle and port for reads that miss, for hits and for writes; hits come soon."""
    bench = Level2Bench(dut, pause="none", latency=(64, 64))
    await bench.start()
    cfg, size = bench.cfg, bench.cfg.axi_bytes
    total = min(cfg.l2_kib * 1024, MEMORY) // 2 // cfg.cores          # bytes of each core
    burst = min(512, total)

    def reads():
        for core in range(cfg.cores):
            for start in range(core * total, (core + 1) * total, burst):
                bench.read(core, start, burst // size)
                yield burst // size

    def writes():
        for core in range(cfg.cores):
            for start in range(MEMORY // 2 + core * total, MEMORY // 2 + (core + 1) * total, burst):
                data = bench.rng.integers(0, 256, burst, np.uint8)
                bench.golden[start:start + burst] = data
                bench.owner[start:start + burst] = 1
                bench.write(core, start, data, np.ones(burst, bool))
                yield burst // size

    await bench.cycles(bench.cfg.l2_kib * 8 + 8)
    results = {}
    taken = [sources["data"] for sources in bench.sources]
    for name, requests, streams in (("misses", reads, bench.answers), ("hits", reads, bench.answers), ("writes", writes, taken)):
        results[name] = await beats_per_cycle(bench, requests, streams)
        await bench.end_epoch()
    bench.finish()
    cocotb.log.info(f"beats a cycle, cycles to the first answer: {results}")
    assert results["hits"][1] <= 14, results
    for name, (rate, _) in results.items():
        least = 0.95 if cfg.cores == 1 else 0.6 * cfg.cores
        assert rate >= least, f"{name}: {rate} beats a cycle must be at least {least}"


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def short_rows(dut):
    """A beat of each line, of one core: a beat a cycle where as many are under way as memory takes cycles. No beat more is read."""
    bench = Level2Bench(dut, pause="none", latency=(64, 64))
    await bench.start()
    cfg, size = bench.cfg, bench.cfg.axi_bytes
    starts = range(0, MEMORY // 2, LINE_BYTES)

    def reads(first=0):
        for start in starts:
            bench.read(0, start + first * size, 1)
            yield 1

    def writes():
        for start in starts:
            data = bench.rng.integers(0, 256, size, np.uint8)
            here = slice(MEMORY // 2 + start, MEMORY // 2 + start + len(data))
            bench.golden[here], bench.owner[here] = data, 1
            bench.write(0, here.start, data, np.ones(len(data), bool))
            yield 1

    await bench.cycles(cfg.l2_kib * 8 + 8)
    results = {}
    cases = [("reads", reads, [bench.answers[0]]), ("writes", writes, [bench.sources[0]["data"]]),
             ("other beats", lambda: reads(1), [bench.answers[0]])]
    for name, requests, streams in cases:
        misses = bench.events["miss"]
        results[name] = (await beats_per_cycle(bench, requests, streams))[0]
        await bench.end_epoch()
        assert bench.events["miss"] - misses == (0 if name == "writes" else len(starts)), (name, bench.events)
    bench.finish()
    cocotb.log.info(f"beats a cycle: {results}")
    if min(cfg.axi_reads, cfg.axi_writes) >= 96:
        for name, rate in results.items():
            assert rate >= 0.95, f"{name}: {rate} beats a cycle must be at least 0.95"
