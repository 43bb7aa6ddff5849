"""Bench of shared memory: every answer of every cycle against a model."""

import cocotb
from cocotb.triggers import RisingEdge
from heddle.constants import BANK_BYTES, BANKS
from heddle.interfaces.layouts import shared_answer_layout, shared_read_layout, shared_write_layout
from heddle.memory.shared_memory import SharedMemory
from heddle_sim.toolchain.cocotb_process import bench_config, bench_parameters

from ..agents import pause
from ..agents.stream import StreamHandles
from ..fixture import Bench

WORD_BITS = 8 * BANK_BYTES


class _Port:
    """What the model knows of a port: the banks that its request still needs, and since when it waits."""

    def __init__(self, bench, kind, number, layout):
        self.kind, self.number, self.name = kind, number, f"{kind}__{number}"
        self.source = bench.source(f"{self.name}__request", layout, pause=pause.bernoulli(bench.rng, 1 - bench.density))
        self.handles = StreamHandles(bench.dut, f"{self.name}__request", layout)
        self.fields, self.rows, self.banks, self.waited = None, None, set(), 0

    def line(self, name, bank):
        """A member of the request for a bank; with one write bus there is one line for all banks."""
        lines = self.fields[name]
        return lines[bank % len(lines)]


class SharedMemoryBench(Bench):
    """Random requests of all ports, and a model of the arbitration, cycle by cycle. ``stays``: how often a port keeps to its rows."""

    def __init__(self, dut, density, rows, least=1, stays=0.0):
        self.readers, self.writers = bench_parameters()["readers"], bench_parameters()["writers"]
        super().__init__(dut, SharedMemory(bench_config(), self.readers, self.writers), idle_limit=None)
        self.density, self.least, self.stays = density, least, stays
        self.rows = rows or self.cfg.shared_rows
        self.words = [[0] * self.cfg.shared_rows for _ in range(BANKS)]
        self.checked = self.refused = self.collided = self.alone = self.longest = 0

    async def start(self):
        await super().start()
        layouts = {"read": shared_read_layout(self.cfg), "write": shared_write_layout(self.cfg)}
        self.ports = [_Port(self, kind, number, layouts[kind])
                      for kind, count in (("read", self.readers), ("write", self.writers)) for number in range(count)]

    async def clear(self):
        """Write zeros to every row through the first port."""
        port = self.ports[self.readers]
        port.source.pause = pause.none()
        lines = self.cfg.shared_writes
        for row in range(self.cfg.shared_rows):
            for banks in [0xFF] if lines == BANKS else [1 << b for b in range(BANKS)]:
                port.source.put({"bank": banks, "row": [row] * lines, "data": [0] * lines, "mask": [0xFFFF] * lines})
        await port.source.drained()
        await self.cycles(2)
        port.source.pause = pause.bernoulli(self.rng, 1 - self.density)

    def _request(self, port):
        """A random request."""
        lines = BANKS if port.kind == "read" else self.cfg.shared_writes
        count = 1 if lines == 1 else self.random.randint(self.least, BANKS)
        if self.random.random() >= self.stays or not port.rows:
            port.rows = [self.random.choice([0, self.rows - 1, self.random.randrange(self.rows)]) for _ in range(lines)]
        fields = {"bank": sum(1 << bank for bank in self.random.sample(range(BANKS), count)), "row": port.rows}
        if port.kind == "write":
            fields |= {"data": [self.random.getrandbits(WORD_BITS) for _ in range(lines)],
                       "mask": [self.random.choice([0, 1, 0xFFFF, 0xFF00, self.random.getrandbits(BANK_BYTES)]) for _ in range(lines)]}
        return fields

    async def run(self, cycles):
        """Random requests, ``cycles`` of them a port at most."""
        answers, only = {}, None
        for _ in range(cycles):
            for port in self.ports:
                if len(port.source.queue) < 2:
                    port.source.put(self._request(port))
            await RisingEdge(self.dut.clk)
            self._check(answers)
            for port in self.ports:
                if not port.banks and port.handles.is_valid():
                    assert port.handles.is_ready(), f"{port.name} must be ready: none of its requests waits"
                    port.fields, port.waited = port.handles.value(), 0
                    port.banks = {bank for bank in range(BANKS) if port.fields["bank"] >> bank & 1}
                else:
                    assert bool(port.banks) != port.handles.is_ready(), f"{port.name} must be ready when no request waits, and only then"
            answers, only = self._arbitrate(only)

    def _check(self, answers):
        """Answers and acknowledgements of this cycle."""
        for port in self.ports:
            banks, words, last = answers.get(port, ({}, {}, False))
            if port.kind == "write":
                assert bool(getattr(self.dut, f"{port.name}__written").value) == last, f"{port.name}: written is not {last}"
                continue
            valid = getattr(self.dut, f"{port.name}__answer__valid").value
            assert bool(valid) == bool(banks), f"{port.name}: answers {valid}, {banks} were granted"
            if banks:
                answer = StreamHandles(self.dut, f"{port.name}__answer", shared_answer_layout).value()
                expected = sum(1 << bank for bank in banks), last
                assert (answer["bank"], bool(answer["last"])) == expected, f"{port.name}: {answer}, not {expected}"
                for bank, word in words.items():
                    assert answer["data"][bank] == word, f"{port.name}, bank {bank}: {answer['data'][bank]:#x} instead of {word:#x}"
                    self.checked += 1

    def _arbitrate(self, only):
        """Grants of this cycle: what each port is answered in the next, and the port that has waited too long."""
        asking = [only] if only else [port for port in self.ports if port.banks]
        self.alone += only is not None
        reads = [port for port in asking if port.kind == "read"]
        writes = [port for port in asking if port.kind == "write"]
        if self.cfg.shared_writes == 1:
            writes = writes[:1]
        granted = {port: set() for port in self.ports}
        words = {port: {} for port in self.ports}
        for bank in range(BANKS):
            reader = next((port for port in reads if bank in port.banks), None)
            writer = next((port for port in writes if bank in port.banks), None)
            if reader and writer and reader.line("row", bank) == writer.line("row", bank):
                writer = None
                self.collided += 1
            if reader:
                granted[reader].add(bank)
                words[reader][bank] = self.words[bank][reader.line("row", bank)]
            if writer:
                granted[writer].add(bank)
        for port in self.ports:
            for bank in granted[port] if port.kind == "write" else ():
                row, data, mask = (port.line(name, bank) for name in ("row", "data", "mask"))
                bytes_kept = sum(0xFF << 8 * i for i in range(BANK_BYTES) if not mask >> i & 1)
                self.words[bank][row] = self.words[bank][row] & bytes_kept | data & ~bytes_kept
        answers, waiting = {}, []
        for port in self.ports:
            asked, port.banks = bool(port.banks), port.banks - granted[port]
            answers[port] = granted[port], words[port], asked and not port.banks
            self.refused += bool(port.banks)
            if port.banks:
                port.waited += 1
                self.longest = max(self.longest, port.waited)
                if port is not self.ports[0] and port is not only and port.waited > self.cfg.bank_patience:
                    waiting.append(port)
        return answers, next(iter(waiting), None)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(density=[0.1, 0.5, 1.0], rows=[3, 0])
async def random_accesses(dut, density, rows):
    """All ports at once on few rows, where accesses meet, and on all rows."""
    bench = SharedMemoryBench(dut, density, rows)
    await bench.start()
    await bench.clear()
    await bench.run(400)
    assert bench.checked > 100
    if density == 1.0:
        assert bench.collided or rows == 0
        assert bench.refused or bench.readers + bench.writers == 2
    bench.finish()


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stays=[0.0, 0.9])
async def no_port_waits_for_ever(dut, stays):
    """All ports want all banks all the time, also the same rows for long: each has its turn within the limit."""
    bench = SharedMemoryBench(dut, 1.0, 3, least=BANKS, stays=stays)
    await bench.start()
    await bench.clear()
    await bench.run(2400)
    ports = bench.readers + bench.writers
    assert bench.alone > 50 or ports == 2
    assert bench.longest <= bench.cfg.bank_patience + ports, f"a request waited {bench.longest} cycles"
    bench.finish()
