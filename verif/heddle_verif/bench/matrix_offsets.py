"""Bench of compiled offsets in the matrix unit, against the golden model of the unit."""

import cocotb
import numpy as np
from heddle.constants import PRODUCT_REGISTERS, ROW_BYTES
from heddle.isa.compiled_offsets import OFFSET_BITS, OffsetEntry
from heddle.isa.encoding import Swizzle
from heddle.isa.error_codes import ErrorCode
from heddle_sim.golden.matrix import MatrixOperation

from ..stimulus.swizzles import random_mode
from .matrix_workload import begin, stop


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(stalls=[0, 0.3])
async def compiled_offsets(dut, stalls):
    """Addresses by entries of words and of bytes, refilled while operations are under way, in any order; wrong entries, bases, padding."""
    bench, work = await begin(dut, bank_stall=stalls, operation_stall=stalls / 3, hold=stalls / 3)
    cfg, random = work.cfg, work.random
    size = cfg.shared_bytes
    for number in range(90):
        values = vars(work.operation(k_length=random.choice([0, 1, 3, 15]), kb=0, kb_destination=0, lane_sum=0))
        values |= work.compiled(values) | {"swizzle": random_mode(random, cfg)}
        kind = number % 9
        if kind == 0:       # behind the entries, or none of a word's bytes first
            first = random.choice([cfg.compiled_offsets - 1, cfg.compiled_offsets, (1 << 12) - 1, cfg.dot - 1])
            values |= {"pitch": first << OFFSET_BITS | values["pitch"] % (1 << OFFSET_BITS), "k_length": 3}
        elif kind == 1:     # bases out of memory, and odd ones
            values |= {"base": random.choice([size, size - cfg.dot, 1, (1 << 32) - 16, (1 << OFFSET_BITS) - size // 4])}
        elif kind == 2:
            values |= {"pitch": values["pitch"] >> OFFSET_BITS << OFFSET_BITS | random.choice([size, size - 1, 1, (1 << OFFSET_BITS) - 1])}
        elif kind == 3:     # columns beyond r255
            values |= {"product": PRODUCT_REGISTERS - random.randrange(1, 4), "columns": np.ones(cfg.threads, bool)}
        if number % 3 == 0:
            bench.issue(MatrixOperation(**vars(work.refill()) | {"swizzle": random_mode(random, cfg)}))
        if number % 10 == 5:        # loads of entries that end with an error
            bench.issue(MatrixOperation(**vars(work.refill()) | {"base": random.choice([1, size, size - cfg.dot, (1 << 32) - 8])}))
        if number % 10 == 6 and cfg.tensors:        # or leave the panel of a swizzled tile
            last = ROW_BYTES // cfg.dot - 1
            bench.issue(MatrixOperation(**vars(work.fill(last, 2)) | {"swizzle": random.choice(list(Swizzle)[1:])}))
        bench.issue(MatrixOperation(**values))
    await bench.idle()
    assert bench.error_codes >= {ErrorCode.OFFSET_RANGE, ErrorCode.OUT_OF_RANGE, ErrorCode.MISALIGNED}
    await bench.compare()
    assert bench.blocks == bench.blocks_expected
    bench.finish()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def compiled_stop(dut):
    """With ``stop`` operations with entries and loads of entries are done soon; the unit works afterwards."""
    bench, work = await begin(dut, bank_stall=0.3)
    none = np.zeros(work.cfg.threads, bool)
    for delay in (0, 1, 5, 9, 14, 15, 16, 30, 60, 100) * 2:
        for number in range(4):
            # Without lanes, or with the words that are there, what is cut changes nothing.
            values = vars(work.operation(columns=~none, lanes=none, k_length=15, kb=0, kb_destination=0, lane_sum=0))
            words = min(16, work.cfg.offset_words)
            bench.issue(work.fill(0, words) if number % 2 else MatrixOperation(**values | work.compiled(values)))
        await stop(bench, delay)
        bench.issue(work.refill())
        values = vars(work.operation(kb=0, kb_destination=0, lane_sum=0))
        bench.issue(MatrixOperation(**values | work.compiled(values)))
        await bench.idle()
    await bench.compare()
    bench.finish()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def compiled_pace(dut):
    """A step a cycle with an entry a word, and with an entry a byte where the bytes of a word lie in different banks."""
    bench, work = await begin(dut)
    cfg = work.cfg
    offset, everything = await work.place_columns(16), np.ones(cfg.threads, bool)
    count = cfg.compiled_offsets // 4
    tables = {OffsetEntry.WORD: np.arange(count) % 8 * 16}
    if cfg.byte_entries:
        tables[OffsetEntry.BYTE] = np.arange(count) * 3
    for kind, offsets in tables.items():
        bench.shared[-4 * count:] = (offsets | 0xFFF << OFFSET_BITS).astype("<u4").view(np.uint8)
        words = 4 * count // cfg.dot
        base = (cfg.shared_bytes - 4 * count - int(bench.factor_numbers()[0, offset])) % (1 << 32)
        start = bench.cycle
        bench.issue(*(work.plain(fill=1, factor_word=word, k_length=min(16, words - word) - 1, offset_register=offset,
                                 base=base + word * cfg.dot) for word in range(0, words, 16)))
        await bench.idle()
        filled = bench.cycle - start
        assert filled < words + 40, f"{filled} cycles for {words} words"
        slices, repeats = min(16, count // (cfg.dot if kind is OffsetEntry.BYTE else 1)), 6
        before, start = (bench.steps, bench.bubbles, bench.conflicts), bench.cycle
        bench.issue(*(MatrixOperation(columns=everything, lanes=everything, k_length=slices - 1, offset_register=offset, factor_word=3,
                                      compiled=kind, pitch=0) for _ in range(repeats)))
        await bench.idle()
        steps, bubbles, conflicts = (now - then for now, then in zip((bench.steps, bench.bubbles, bench.conflicts), before))
        assert steps == cfg.threads * slices * repeats and bubbles == conflicts
        assert kind is OffsetEntry.BYTE or not conflicts
        dut._log.info(f"{kind.name}: {steps} steps in {bench.cycle - start} cycles, {conflicts} conflicts; {words} words in {filled}")
    await bench.compare()
    bench.finish()
