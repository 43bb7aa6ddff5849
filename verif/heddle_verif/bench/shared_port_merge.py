"""Bench of the merges of ports of shared memory: two requesters, and shared memory of any latency."""

from collections import Counter

import cocotb
from heddle.constants import BANK_BYTES, BANKS
from heddle.tmau.shared_port_merge import ReadPortMerge, WritePortMerge
from heddle_sim.toolchain.cocotb_process import bench_config, bench_parameters

from ..agents.banks import BankMemory, BankRequester
from ..fixture import Bench
from ..stimulus.shared_memories import SHARED

COUNT, ROUNDS = 60, 5       # requests of each in a round, in which writes go to rows of their own


def make_unit(cfg, kind):
    """The design under test, of ``kind`` "read" or "write"."""
    return {"read": ReadPortMerge, "write": WritePortMerge}[kind](cfg)


class MergeBench(Bench):
    """``parameters``: ``kind``. A request has several banks, with one line for all banks one."""

    def __init__(self, dut, shared, chance=0.7):
        self.kind = bench_parameters()["kind"]
        super().__init__(dut, make_unit(bench_config(), self.kind))
        self.shared, self.chance = SHARED[shared], chance
        self.compared = 0
        self.accesses, self.expected = Counter(), Counter()     # by bank and row

    async def start(self):
        await super().start()
        self.memory = BankMemory(self.dut, self.cfg, self.rng, **{"read": None, self.kind: "o"}, **self.shared)
        self.memory.on_access = lambda kind, bank, row: self.accesses.update([(bank, row)])
        self.words = self.memory.data.reshape(-1, BANKS, BANK_BYTES)
        self.requesters = [BankRequester(self.dut, self.cfg, self.rng, request_chance=self.chance, **{self.kind: f"i__{number}"})
                           for number in range(2)]
        self.rows = [0, 0]

    def request(self, number, banks):
        """A request of requester ``number`` at ``banks``: writes go to a row of their own."""
        rows = {bank: int(self.rng.integers(self.cfg.shared_rows)) for bank in banks}
        if self.kind == "read":
            self.expected.update(rows.items())
            self.requesters[number].read(rows, lambda words: self._compare(rows, words))
            return
        row = self.rows[number] * 2 + number
        self.rows[number] = (self.rows[number] + 1) % (self.cfg.shared_rows // 2)
        words = {bank: (row, int.from_bytes(self.rng.bytes(BANK_BYTES), "little"), int(self.rng.integers(1 << BANK_BYTES)))
                 for bank in banks}
        self.expected.update((bank, row) for bank in banks)
        before = {bank: self.words[row, bank].copy() for bank in banks}
        self.requesters[number].write(words, lambda: self._written(row, words, before))

    def _compare(self, rows, words):
        for bank, row in rows.items():
            assert words[bank] == int.from_bytes(self.words[row, bank].tobytes(), "little"), (bank, row)
        self.compared += 1

    def _written(self, row, words, before):
        for bank, (_, word, mask) in words.items():
            expected = [word >> 8 * byte & 0xFF if mask >> byte & 1 else before[bank][byte] for byte in range(BANK_BYTES)]
            assert self.words[row, bank].tolist() == expected, "an acknowledged write must be in memory"
        self.compared += 1

    def banks(self, most):
        count = 1 if self.kind == "write" and self.cfg.shared_writes == 1 else int(self.rng.integers(1, most + 1))
        return [int(bank) for bank in self.rng.choice(BANKS, count, replace=False)]

    async def idle(self, count):
        """Wait until all is over; returns the cycles."""
        start = self.cycle
        for requester in self.requesters:
            await requester.drained()
        assert self.compared == count
        assert self.accesses == self.expected, "banks must be accessed as requested, and no others"
        return self.cycle - start


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(shared=list(SHARED))
async def random_requests(dut, shared):
    """Both at random banks."""
    bench = MergeBench(dut, shared)
    await bench.start()
    for number in range(ROUNDS):
        for _ in range(COUNT):
            bench.request(0, bench.banks(4))
            bench.request(1, bench.banks(3))
        await bench.idle(2 * COUNT * (number + 1))
    bench.finish()


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(meet=[False, True])
async def cycles(dut, meet):
    """A request of each in a cycle where banks differ; where they meet, or share the bus, the first one goes first."""
    bench = MergeBench(dut, "least", chance=1)
    await bench.start()
    count = bench.cfg.shared_rows // 2
    for number in range(count):
        bench.request(0, [0 if meet else number % BANKS])
        bench.request(1, [0 if meet else (number + 4) % BANKS])
    cycles = await bench.idle(2 * count)
    bench.finish()
    together = not meet and not (bench.kind == "write" and bench.cfg.shared_writes == 1)
    assert cycles <= (1 if together else 2) * count + 4, cycles
    if not together:
        assert cycles >= 2 * count


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def reset_under_way(dut):
    """A reset drops all requests."""
    bench = MergeBench(dut, "refusing", chance=1)
    await bench.start()
    for _ in range(20):
        bench.request(0, bench.banks(4))
        bench.request(1, bench.banks(3))
    await bench.cycles(11)
    await bench.restart(*bench.requesters)
    bench.compared = 0
    bench.accesses.clear()
    bench.expected.clear()
    for _ in range(20):
        bench.request(0, bench.banks(4))
        bench.request(1, bench.banks(3))
    await bench.idle(40)
    bench.finish()
