"""Random operations and register accesses for the bench of the matrix unit."""

import numpy as np
from heddle.config import PRODUCT_REGISTERS
from heddle.isa.layout import LoopOrder
from heddle.layouts import Capture
from heddle_sim.golden.matrix import MatrixOperation

from .matrix_environment import MatrixBench
from .register_access import FactorRead, FactorWrite, ProductRead, ProductWrite, Return

__all__ = ["Workload", "begin", "group_size"]

ACCESS_WORDS = 3            # factor words that only the thread unit uses, the first ones
OFFSET_WORDS = 8            # factor words that hold offsets, the last ones
NEAR_WORDS = 3              # of them, those of columns that lie side by side, more or less


def group_size(ka, kb):
    return (1, 2, 4, 4)[ka] * (1, 2, 4, 4)[kb]


class Workload:
    """Random operations; slices are in the factor words between those of the accesses and those of the offsets."""

    def __init__(self, bench):
        self.bench, self.cfg, self.random, self.rng = bench, bench.cfg, bench.random, bench.rng
        self.merges = True
        self.limit = self.cfg.factor_words - OFFSET_WORDS
        parts = self.cfg.numbers_per_word
        self.offset_numbers = range(self.limit * parts, (self.cfg.factor_words - NEAR_WORDS) * parts)
        self.near_numbers = range(self.offset_numbers.stop, self.cfg.factor_registers)

    async def prepare(self):
        """Random registers; every register of the last factor words is an offset in elements within half of shared memory."""
        bench, cfg = self.bench, self.cfg
        await bench.fill()
        parts = cfg.numbers_per_word
        for word in range(self.limit, cfg.factor_words):
            for group in range(cfg.thread_groups):
                data = self.rng.integers(0, cfg.shared_bytes // 2 // 16 - 80, (bench.slots, 4), np.uint32) * 16
                if word >= cfg.factor_words - NEAR_WORDS:
                    columns = (group * bench.slots + np.arange(bench.slots))[:, None] * [1, 2, 2, 4]
                    data = (2 * columns if word % 2 else columns + self.rng.integers(0, 2, columns.shape) * 16).astype(np.uint32)
                bench.accesses.append(Return(data, 15, np.arange(cfg.threads) // bench.slots == group))
            bench.accesses.append(FactorWrite(word, 0, (1 << parts) - 1, np.ones(cfg.threads, bool)))
        await bench.idle()

    def mask(self):
        kind = self.random.randrange(6)
        if kind == 0:
            return np.ones(self.cfg.threads, bool)
        if kind == 1:
            return np.arange(self.cfg.threads) == self.random.randrange(self.cfg.threads)
        if kind == 2:
            return np.zeros(self.cfg.threads, bool)
        return self.rng.random(self.cfg.threads) < self.random.choice([0.2, 0.5, 0.8])

    def operation(self, **fixed):
        random, cfg = self.random, self.cfg
        slices = fixed.get("k_length", random.choice([0, 0, 1, 2, 3, 7, 15]))
        shift = random.randrange(2)
        values = {
            "columns": self.mask(), "lanes": self.mask(), "product": random.choice([0, 1, 3, 64, PRODUCT_REGISTERS - cfg.threads]),
            "factor_word": random.randrange(ACCESS_WORDS, self.limit - slices), "offset_register": random.choice(self.offset_numbers),
            "base": random.randrange(cfg.shared_bytes // 2 // 16 - 16) * 16 if not shift else 0, "element_shift": shift,
            "a_signed": random.getrandbits(1), "b_signed": random.getrandbits(1), "k_length": slices,
            "order": random.choice(list(LoopOrder)), "zero": random.getrandbits(1), "pc": random.getrandbits(12),
            "int16": random.getrandbits(1) & cfg.mm16,
        }
        values |= self.merge() | fixed
        if cfg.transpose and self.merges and not fixed and random.random() < 0.4:
            values |= self.transposed(values)
        return MatrixOperation(**values)

    def transposed(self, values):
        """What is different with transposed B: rows anywhere in the second half of the room, columns at any byte."""
        cfg, random = self.cfg, self.random
        pitch = random.choice([0, 16, 48, 16 * random.randrange(1, 12)])
        rows = (values["k_length"] + 1) * (cfg.dot >> values["int16"])
        if pitch * rows > cfg.shared_bytes // 4:
            pitch = 16
        odd = 0 if values["int16"] or values["element_shift"] else random.randrange(16)
        return {"transpose": 1, "pitch": pitch, "ka": 0, "ka_interleaved": 0, "kb": 0, "kb_destination": 0, "lane_sum": 0,
                "order": LoopOrder.SLICES_OUTER, "base": values["base"] // 2 // 16 * 16 + odd,
                "offset_register": random.choice(self.near_numbers) if random.random() < 0.7 else values["offset_register"]}

    def merge(self):
        """Random merges whose groups fit the threads; none, as often as any."""
        random = self.random
        ka, kb = random.randrange(4), random.randrange(4)
        ka, kb = random.choice([(0, 0), (ka, 0), (0, kb), (ka, kb)])
        if group_size(ka, kb) > self.cfg.threads or not self.merges:
            ka = kb = 0
        if self.merges and random.randrange(8) == 0:
            return {"lane_sum": 1}
        return {"ka": ka, "ka_interleaved": random.getrandbits(1), "kb": kb, "kb_destination": random.randrange(kb + 1)}

    async def place_columns(self, pitch):
        """Columns ``pitch`` bytes apart, in all offset registers of the last factor word; returns the last one."""
        bench, cfg = self.bench, self.cfg
        for group in range(cfg.thread_groups):
            offsets = (np.arange(bench.slots) + group * bench.slots) * pitch
            lanes = np.arange(cfg.threads) // bench.slots == group
            bench.accesses.append(Return(np.repeat(offsets[:, None], 4, axis=1).astype(np.uint32), 15, lanes))
        every_part, everything = (1 << cfg.numbers_per_word) - 1, np.ones(cfg.threads, bool)
        bench.accesses.append(FactorWrite(cfg.factor_words - 1, 0, every_part, everything))
        await bench.idle()
        return cfg.factor_registers - 1

    def access(self):
        """A random access to registers that no operation uses: rows 32 to 47 of the product banks, the lower factor words."""
        random, cfg = self.random, self.cfg
        kind = random.randrange(6)
        lanes = self.mask()
        row = random.randrange(32, 48)
        if kind == 0:
            return ProductRead(random.choice([15, 3, 12]), row, Capture.QUAD)
        if kind == 1:
            return ProductRead(1 << random.randrange(4), row, Capture(random.randrange(5)))
        if kind == 2:
            return FactorRead(random.randrange(cfg.factor_registers), Capture(random.randrange(5)), cfg.numbers_per_word)
        if kind == 3:
            return ProductWrite(random.randrange(1, 16), row, lanes)
        if kind == 4:
            return FactorWrite(random.randrange(ACCESS_WORDS), random.randrange(16 // cfg.dot),
                               random.randrange(1, 1 << cfg.numbers_per_word), lanes)
        return Return(self.rng.integers(0, 1 << 32, (self.bench.slots, 4), np.uint32), random.randrange(1, 16), lanes)


async def begin(dut, **stalls):
    bench = MatrixBench(dut, **stalls)
    work = Workload(bench)
    await bench.start()
    await work.prepare()
    return bench, work
