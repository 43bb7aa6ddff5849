"""Random operations and register accesses for the bench of the matrix unit."""

import numpy as np
from cocotb.triggers import ClockCycles
from heddle.constants import FIRST_FACTOR_REGISTER, PRODUCT_REGISTERS, ROW_BYTES
from heddle.isa.compiled_offsets import MASK_BITS, OFFSET_BITS, POSITIONS, OffsetEntry
from heddle.isa.encoding import LoopOrder, Swizzle
from heddle_sim.golden.matrix import MatrixOperation

from ..stimulus.swizzles import random_mode
from .matrix_environment import MatrixBench
from .register_access import FactorWrite, ProductWrite, Read, Return

__all__ = ["Workload", "begin", "group_size", "stop"]

ACCESS_WORDS = 3            # factor words that only the thread unit uses, the first ones
OFFSET_WORDS = 8            # factor words that hold offsets, the last ones
NEAR_WORDS = 3              # of them, those of columns that lie side by side, more or less
PANEL_WORDS = 2             # and in front of these, those of columns that begin in a row of shared memory each


def group_size(ka, kb):
    return (1, 2, 4, 4)[ka] * (1, 2, 4, 4)[kb]


class Workload:
    """Random operations; slices are in the factor words between those of the accesses and those of the offsets."""

    def __init__(self, bench):
        self.bench, self.cfg, self.random, self.rng = bench, bench.cfg, bench.random, bench.rng
        self.merges = True
        self.limit = self.cfg.factor_words - OFFSET_WORDS
        parts = self.cfg.numbers_per_word
        near, panels = (self.cfg.factor_words - words for words in (NEAR_WORDS, NEAR_WORDS + PANEL_WORDS))
        compiled = int(self.cfg.compiled_offsets > 0)       # words with bases of compiled offsets, the first ones
        self.compiled_numbers = range(self.limit * parts, (self.limit + compiled) * parts)
        self.offset_numbers = range((self.limit + compiled) * parts, panels * parts)
        self.panel_numbers = range(panels * parts, near * parts)
        self.near_numbers = range(near * parts, self.cfg.factor_registers)

    async def prepare(self):
        """Random registers; every register of the last factor words is an offset in elements within half of shared memory."""
        bench, cfg = self.bench, self.cfg
        await bench.fill()
        for word in range(self.limit, cfg.factor_words):
            for group in range(cfg.thread_groups):
                data = self.rng.integers(0, cfg.shared_bytes // 2 // 16 - 80, (bench.slots, cfg.numbers_per_word), np.uint32) * 16
                if self.panel_numbers.start <= word * cfg.numbers_per_word < self.panel_numbers.stop:
                    rows = (cfg.shared_bytes // 2 - 80 * 16) // ROW_BYTES
                    one_each = (group * bench.slots + np.arange(bench.slots, dtype=np.uint32))[:, None] % rows
                    data = (data // ROW_BYTES if word % 2 else one_each + np.zeros_like(data)) * ROW_BYTES
                if word >= cfg.factor_words - NEAR_WORDS:
                    columns = (group * bench.slots + np.arange(bench.slots))[:, None] * [1, 2, 2, 4][:cfg.numbers_per_word]
                    data = (2 * columns if word % 2 else columns + self.rng.integers(0, 2, columns.shape) * 16).astype(np.uint32)
                if word * cfg.numbers_per_word in self.compiled_numbers:        # bases, and most mask bits
                    masks = sum((self.rng.random(data.shape) < 0.9).astype(np.uint32) << bit for bit in range(MASK_BITS))
                    data = self.rng.integers(0, cfg.shared_bytes // 4 // 16, data.shape, np.uint32) * 16 | masks << OFFSET_BITS
                bench.accesses.append(FactorWrite(word, (1 << cfg.numbers_per_word) - 1, bench.lanes_of(group), data))
        await bench.idle()
        if cfg.compiled_offsets:
            await self.prepare_entries()

    async def prepare_entries(self):
        """Entries in the last bytes of shared memory and in the compiled-offset memory: the first half of words, the others of bytes."""
        bench, cfg, count = self.bench, self.cfg, self.cfg.compiled_offsets
        offsets = self.rng.integers(0, cfg.shared_bytes // 4, count, np.uint32)
        offsets[:count // 2] &= ~np.uint32(cfg.dot - 1)
        offsets[count // 2:][::2] = offsets[count // 2:][1::2] & ~np.uint32(1)      # some bytes are neighbours
        entries = offsets
        for number in range(POSITIONS):
            entries = entries | np.where(self.rng.random(count) < 0.5, 15, self.rng.integers(0, MASK_BITS, count)).astype(
                np.uint32) << OFFSET_BITS + 4 * number
        bench.shared[-4 * count:] = entries.astype("<u4").view(np.uint8)
        for word in range(0, cfg.offset_words, 16):
            bench.issue(self.fill(word, min(16, cfg.offset_words - word)))
        await bench.idle()
        assert np.array_equal(bench.entries, entries)

    def fill(self, word, count, source=None):
        """Loads ``count`` words of the entries, from word ``source`` of those in shared memory."""
        register = self.random.choice(self.offset_numbers)
        place = self.cfg.shared_bytes - 4 * self.cfg.compiled_offsets + (word if source is None else source) * self.cfg.dot
        base = (place - int(self.bench.factor_numbers()[0, register])) % (1 << 32)
        return self.plain(fill=1, factor_word=word, k_length=count - 1, offset_register=register, base=base)

    def plain(self, **fixed):
        """An operation of thread 0 without merges."""
        return MatrixOperation(**{"columns": np.arange(self.cfg.threads) == 0, "lanes": np.ones(self.cfg.threads, bool)} | fixed)

    def refill(self):
        """Some words of the entries come from other words of the same half."""
        half = self.cfg.offset_words // 2
        count = self.random.randrange(1, min(half, 8) + 1)
        word, source = (self.random.randrange(half - count + 1) for _ in range(2))
        second = self.random.randrange(2) * half
        return self.fill(second + word, count, second + source)

    def compiled(self, values):
        """What is different with compiled offsets: bases and entries, which stay within three quarters of shared memory."""
        cfg, random = self.cfg, self.random
        by_byte = cfg.byte_entries and random.getrandbits(1)
        together, room = (cfg.dot, cfg.compiled_offsets) if by_byte else (1, cfg.compiled_offsets // 2)
        slices = min(values["k_length"] + 1, room // together)
        first = random.randrange((room - slices * together) // together + 1) * together
        step = 1 if by_byte else cfg.dot
        padding = random.randrange(0, cfg.shared_bytes, step)
        merge = {"kb": 0, "kb_destination": 0, "lane_sum": 0, "transpose": 0} | ({"ka": 0, "ka_interleaved": 0} if by_byte else {})
        return merge | {
            "compiled": OffsetEntry.BYTE if by_byte else OffsetEntry.WORD, "k_length": slices - 1,
            "pitch": first << OFFSET_BITS | padding, "base": random.randrange(0, cfg.shared_bytes // 4, step),
            "offset_register": random.choice(self.compiled_numbers)}

    def mask(self):
        kind = self.random.randrange(6)
        if kind == 0:
            return np.ones(self.cfg.threads, bool)
        if kind == 1:
            return np.arange(self.cfg.threads) == self.random.randrange(self.cfg.threads)
        if kind == 2:
            return np.zeros(self.cfg.threads, bool)
        return self.rng.random(self.cfg.threads) < self.random.choice([0.2, 0.5, 0.8])

    def mask_of(self, kind):
        """No lane, one, some or all of them."""
        lanes = np.arange(self.cfg.threads)
        count = (0, 1, self.random.randrange(2, self.cfg.threads), self.cfg.threads)[kind]
        return np.isin(lanes, self.random.sample(lanes.tolist(), count))

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
        if not fixed and random.random() < 0.4:
            values |= self.swizzled(values, random_mode(random, cfg))
        if cfg.compiled_offsets and self.merges and not fixed and random.random() < 0.3:
            values |= self.compiled(values) | {"swizzle": random_mode(random, cfg)}
        return MatrixOperation(**values)

    def swizzled(self, values, mode):
        """What is different in a swizzled tile: columns that fit a panel, some just not."""
        random, dot = self.random, self.cfg.dot
        if values.get("transpose") or mode is Swizzle.NONE:
            return {"swizzle": mode}
        words = self.cfg.threads if values.get("lane_sum") else values.get("kb", 0) + 1
        slices = min(values["k_length"] + 1, max(ROW_BYTES // (words * dot), 1))
        room = ROW_BYTES - slices * words * dot
        start = random.randrange(0, room + 1, dot) if room >= 0 else 0
        if random.random() < 0.1:
            start = min(room + dot * random.randrange(1, 4), ROW_BYTES - dot)
        return {"swizzle": mode, "k_length": slices - 1, "base": values["base"] // 2 // ROW_BYTES * ROW_BYTES + max(start, 0),
                "offset_register": random.choice(self.panel_numbers)}

    def transposed(self, values):
        """What is different with transposed B: rows anywhere in the second half of the room, columns at any byte."""
        cfg, random = self.cfg, self.random
        pitch = random.choice([0, 16, 48, 16 * random.randrange(1, 12)])
        words = cfg.threads if values.get("lane_sum") else values.get("kb", 0) + 1
        slices = min(values["k_length"] + 1, 16 if words == 1 else max(1, 8 // words))       # each word takes a step
        rows = slices * words * (cfg.dot >> values["int16"])
        if pitch * rows > cfg.shared_bytes // 4:
            pitch = 16 if 16 * rows <= cfg.shared_bytes // 4 else 0
        odd = 0 if values["int16"] or values["element_shift"] else random.randrange(16)
        return {"transpose": 1, "pitch": pitch, "k_length": slices - 1, "base": values["base"] // 2 // 16 * 16 + odd,
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
            data = np.repeat(offsets[:, None], cfg.numbers_per_word, axis=1).astype(np.uint32)
            bench.accesses.append(FactorWrite(cfg.factor_words - 1, (1 << cfg.numbers_per_word) - 1, bench.lanes_of(group), data))
        await bench.idle()
        return cfg.factor_registers - 1

    def access(self):
        """A random access to registers that no operation uses: r128 to r191, the lower factor words."""
        random, cfg, bench = self.random, self.cfg, self.bench
        kind = random.randrange(5)
        lanes, group = self.mask(), random.randrange(cfg.thread_groups)
        register = random.randrange(128, 192)
        if kind == 0:
            pair = bool(cfg.register_pairs and random.getrandbits(1))
            return Read(register // 2 * 2 if pair else register, group, cfg.numbers_per_word, pair=pair)
        if kind == 1:
            return Read(FIRST_FACTOR_REGISTER + random.randrange(cfg.factor_registers), group, cfg.numbers_per_word)
        if kind == 2:
            return ProductWrite(register, lanes)
        if kind == 3:
            return FactorWrite(random.randrange(ACCESS_WORDS), random.randrange(1, 1 << cfg.numbers_per_word), lanes, bench.random_data())
        return Return(bench.random_data(), lanes)


async def begin(dut, **stalls):
    bench = MatrixBench(dut, **stalls)
    work = Workload(bench)
    await bench.start()
    await work.prepare()
    return bench, work


async def stop(bench, delay):
    """Raise ``stop`` some cycles after the unit has taken what was issued, until every operation is done."""
    await bench.source_i.drained()
    await ClockCycles(bench.dut.clk, delay + 1)
    bench.dut.stop.value = 1
    for operation in bench.in_flight:
        object.__setattr__(operation, "discarded", True)
    await ClockCycles(bench.dut.clk, 80)
    assert not bench.in_flight, "stop must end every operation"
    assert not int(bench.dut.busy.value)
    bench.dut.stop.value = 0
    bench.reads.clear()
