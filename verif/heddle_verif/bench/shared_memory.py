"""Bench of shared memory: every grant and every word of every cycle against a model."""

import cocotb
from cocotb.triggers import RisingEdge
from heddle.constants import BANK_BYTES, BANKS
from heddle.interfaces.layouts import SHARED_READ_LATENCY
from heddle.memory.shared_memory import FIRST_READERS, SharedMemory
from heddle_sim.toolchain.cocotb_process import bench_config, bench_parameters

from ..fixture import Bench

WORD_BITS = 8 * BANK_BYTES


class SharedMemoryBench(Bench):
    """Random requesters; each keeps a request up until it is granted."""

    def __init__(self, dut, density, rows):
        self.kinds = {"read": bench_parameters()["readers"], "write": bench_parameters()["writers"]}
        super().__init__(dut, SharedMemory(bench_config(), *self.kinds.values()), idle_limit=None)
        cfg, self.density = self.cfg, density
        self.rows = rows or cfg.shared_rows
        self.words = [[0] * cfg.shared_rows for _ in range(BANKS)]
        self.ordered = cfg.banks_known_ahead    # reads and writes have one order, and a bank is read or written
        # Whether a port asks for one bank at a time, with its row on the lines of bank 0.
        self.single = {"write": cfg.shared_writes == 1, "read": self.ordered}
        # (kind, port, bank) -> what is requested
        self.requests = {}
        self.in_flight = []         # per cycle: bank -> word that was read
        self.checked = self.refused = self.collided = 0

    def _port(self, kind, port, member):
        return getattr(self.dut, f"{kind}__{port}__{member}")

    async def clear(self):
        """Write zeros to every row through the first port."""
        for row in range(self.cfg.shared_rows):
            for b in range(BANKS):
                self._port("write", 0, f"row__{b}").value = row
                self._port("write", 0, f"data__{b}").value = 0
                self._port("write", 0, f"mask__{b}").value = 0xFFFF
            for request in [0xFF] if self.cfg.shared_writes == BANKS else [1 << b for b in range(BANKS)]:
                self._ask("write", 0, request)
                await RisingEdge(self.dut.clk)
        self._ask("write", 0, 0)
        await RisingEdge(self.dut.clk)

    async def run(self, cycles):
        """Random requests; the last ones end before the last cycle."""
        self._drive()
        for cycle in range(cycles):
            await RisingEdge(self.dut.clk)
            self._check_words()
            reads, writes = self._check_grants()
            self.in_flight.append({b: self.words[b][self.requests["read", port, b][0]] for b, port in reads.items()})
            for b, port in writes.items():
                row, data, mask = self.requests["write", port, b]
                bytes_kept = sum(0xFF << 8 * i for i in range(BANK_BYTES) if not mask >> i & 1)
                self.words[b][row] = self.words[b][row] & bytes_kept | data & ~bytes_kept
            for kind, granted in (("read", reads), ("write", writes)):
                for b, port in granted.items():
                    del self.requests[kind, port, b]
            self._drive(quiet=cycle > cycles - 10)

    def _check_words(self):
        if len(self.in_flight) < SHARED_READ_LATENCY:
            return
        for b, word in self.in_flight.pop(0).items():
            for port in range(self.kinds["read"]):
                read = self._port("read", port, f"data__{b}").value.to_unsigned()
                assert read == word, f"bank {b}: read {read:#x} instead of {word:#x}"
            self.checked += 1

    def _check_grants(self):
        """Bank to port of the accesses that the rules grant in this cycle."""
        winners = {}
        for kind, ports in self.kinds.items():
            winners[kind] = {}
            for b in range(BANKS):
                asking = [port for port in range(ports) if (kind, port, b) in self.requests]
                if self.ordered and kind == "read" and ("write", 0, b) in self.requests:
                    asking = [port for port in asking if port < FIRST_READERS]
                if asking:
                    winners[kind][b] = min(asking)
        if self.cfg.shared_writes == 1:       # one port is granted, and those behind it wait in all banks
            first = min((port for kind, port, _ in self.requests if kind == "write"), default=0)
            winners["write"] = {b: port for b, port in winners["write"].items() if port == first}
        for b, port in list(winners["write"].items()):
            readers = [reader for reader in range(self.kinds["read"]) if ("read", reader, b) in self.requests]
            if not self.cfg.far_registers:        # else a port that is not granted counts too
                readers = readers[:1]
            if self.ordered and not port:
                readers = [reader for reader in readers if reader < FIRST_READERS]
            if any(self.ordered or self.requests["read", reader, b][0] == self.requests["write", port, b][0] for reader in readers):
                del winners["write"][b]
                self.collided += 1
        for kind, ports in self.kinds.items():
            for port in range(ports):
                grant = self._port(kind, port, "grant").value.to_unsigned()
                expected = sum(1 << b for b, winner in winners[kind].items() if winner == port)
                wanted = sum(1 << b for b in range(BANKS) if (kind, port, b) in self.requests)
                assert grant & wanted == expected, f"{kind} {port}: granted {grant & wanted:08b} instead of {expected:08b}"
                self.refused += (wanted & ~grant).bit_count()
        return winners["read"], winners["write"]

    def _drive(self, quiet=False):
        for kind, ports in self.kinds.items():
            for port in range(ports):
                banks = self.random.sample(range(BANKS), BANKS)
                for b in banks:
                    if self.single[kind] and any(asked[:2] == (kind, port) for asked in self.requests):
                        break
                    if (kind, port, b) in self.requests or quiet or self.random.random() >= self.density:
                        continue
                    row = self.random.choice([0, self.rows - 1, self.random.randrange(self.rows)])
                    mask = self.random.choice([0, 1, 0xFFFF, 0xFF00, self.random.getrandbits(BANK_BYTES)])
                    self.requests[kind, port, b] = (row, self.random.getrandbits(WORD_BITS), mask)
                    lines = 0 if self.single[kind] else b
                    self._port(kind, port, f"row__{lines}").value = row
                    if kind == "write":
                        self._port(kind, port, f"data__{lines}").value = self.requests[kind, port, b][1]
                        self._port(kind, port, f"mask__{lines}").value = mask
                self._ask(kind, port, sum(1 << b for b in range(BANKS) if (kind, port, b) in self.requests))

    def _ask(self, kind, port, banks):
        self._port(kind, port, "request").value = banks
        if kind == "write" and self.cfg.far_registers:
            getattr(self.dut, f"asks__{port}").value = int(banks != 0)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(density=[0.1, 0.5, 1.0], rows=[3, 0])
async def random_accesses(dut, density, rows):
    """All ports at once on few rows, where accesses meet, and on all rows."""
    bench = SharedMemoryBench(dut, density, rows)
    if rows == 0:       # the memory keeps its words over tests: overwrite what this one may read
        bench.density = 1.0
    await bench.start()
    await bench.clear()
    await bench.run(400)
    assert bench.checked > 200
    if density == 1.0:
        assert bench.collided
        assert (bench.refused or sum(bench.kinds.values()) == 2)
