"""Bench of the matrix unit against its golden model."""

import itertools

import cocotb
import numpy as np
from amaranth.utils import exact_log2
from cocotb.triggers import RisingEdge
from heddle.constants import BANK_BYTES, BANKS, PRODUCT_REGISTERS, ROW_BYTES
from heddle.interfaces.swizzle import swizzles
from heddle.isa.encoding import LoopOrder, Swizzle
from heddle.isa.error_codes import ErrorCode
from heddle_sim.golden.matrix import MatrixOperation, matrix_steps

from ..stimulus.swizzles import modes_of, random_mode
from .matrix_workload import ACCESS_WORDS, begin, group_size, stop
from .register_access import FactorWrite, ProductWrite, Read

PROFILES = {
    "free": {},
    "banks": {"bank_stall": 0.4},
    "operations": {"operation_stall": 0.8, "access_stall": 0.3, "hold": 0.2},
    "all": {"bank_stall": 0.2, "operation_stall": 0.4, "access_stall": 0.6, "hold": 0.3},
    "late": {"bank_stall": 0.2, "access_stall": 0.4, "hold": 0.1, "memory": {"delay": 3, "places": 3}},
}


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(profile=list(PROFILES))
async def random_operations(dut, profile):
    """Operations back to back with concurrent accesses of the thread unit, under every profile of stalls."""
    bench, work = await begin(dut, **PROFILES[profile])
    bench.next_access = work.access
    for _ in range(bench.rounds(4)):
        for _ in range(12):
            bench.issue(work.operation())
        await bench.idle(also_accesses=False)
    bench.next_access = lambda: None
    await bench.idle()
    await bench.compare()
    assert bench.memory or bench.conflicts == bench.expected_conflicts
    assert bench.memory or bench.bank_stall == 0 or bench.conflicts
    assert bench.refused, "the register port never had to wait"
    assert bench.held or not bench.hold
    bench.finish()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def repeats(dut):
    """Neighbouring steps on the same and on neighbouring product registers, by changing lanes: forwarding."""
    bench, work = await begin(dut)
    for product in (0, 5):
        for _ in range(bench.some(60)):
            columns = np.zeros(work.cfg.threads, bool)
            columns[work.random.sample(range(3), work.random.choice([1, 1, 2, 3]))] = True
            bench.issue(work.operation(
                columns=columns, product=product, k_length=work.random.choice([0, 0, 1, 2]), factor_word=work.random.randrange(20)))
        await bench.idle()
    await bench.compare()
    bench.finish()


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(order=list(LoopOrder))
async def no_bubbles(dut, order):
    """Operations that are queued in time follow each other without a gap, from three steps on."""
    bench, work = await begin(dut)
    work.merges = False
    everything = np.ones(work.cfg.threads, bool)
    three = np.arange(work.cfg.threads) < 3
    cases = ((everything, 16, 6, 0), (everything, 1, 10, 0), (three, 1, 10, 0), (three, 4, 6, 0), (everything, 2, 10, 0),
             (everything, 8, 6, work.cfg.mm16), (three, 1, 10, work.cfg.mm16))
    for columns, slices, count, int16 in cases:
        before = bench.steps
        start = bench.cycle
        for _ in range(count):
            bench.issue(work.operation(columns=columns, k_length=slices - 1, product=0, order=order, int16=int16))
        await bench.idle()
        steps = int(columns.sum()) * slices * count * work.cfg.passes(1 + int16)
        assert bench.steps - before == steps
        assert bench.cycle - start < steps + 40
        assert bench.bubbles == 0, f"{bench.bubbles} bubbles with {columns.sum()} columns and {slices} slices"
    await bench.compare()
    bench.finish()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def beside_writes_of_factors(dut):
    """Factor registers are written whenever ``write_pause`` allows it: the offsets of an operation wait three cycles at most."""
    bench, work = await begin(dut)
    cfg, cycles = work.cfg, []

    def write():
        return FactorWrite(work.random.randrange(ACCESS_WORDS), (1 << cfg.numbers_per_word) - 1, bench.lanes_of(0), bench.random_data())

    operation = work.operation(columns=np.ones(cfg.threads, bool), k_length=0, product=0, ka=0, kb=0, lane_sum=0, kb_destination=0)
    for access in (lambda: None, write):
        bench.next_access = access
        await bench.cycles(8)
        bench.issue(operation)
        await bench.idle(also_accesses=False)
        cycles.append(bench.done_at - bench.accepted_at)
    bench.next_access = lambda: None
    assert cycles[0] < cycles[1] <= cycles[0] + 3, f"{cycles} cycles without and with writes"
    await bench.idle()
    await bench.compare()
    bench.finish()


def merged_operations(work):
    """Every merge with each of its destinations and orders of columns, with every kind of columns and lanes for both types, and with every
    swizzle."""
    cfg, random = work.cfg, work.random
    modes = modes_of(cfg)

    def variants_of(values, rows, number):
        values |= work.transposed(values) if rows else {}
        return MatrixOperation(**values | work.swizzled(values, modes[(number + number // 4) % len(modes)]))

    for ka, kb in itertools.product(range(4), repeat=2):
        if group_size(ka, kb) > cfg.threads:
            continue
        variants = list(itertools.product(range(2 if ka else 1), range(kb + 1)))
        for rows, number in itertools.product(range(1 + cfg.transpose), range(max(8, len(variants)))):
            interleaved, destination = variants[number % len(variants)]
            values = vars(work.operation(
                ka=ka, ka_interleaved=interleaved, kb=kb, kb_destination=destination, lane_sum=0, int16=number // 4 % 2 & cfg.mm16,
                k_length=random.randrange(3), product=3, columns=work.mask_of(number % 4), lanes=work.mask_of((number + 1) % 4)))
            yield variants_of(values, rows, number)
    for rows, number in itertools.product(range(1 + cfg.transpose), range(8)):
        values = vars(work.operation(
            ka=0, kb=0, kb_destination=0, lane_sum=1, int16=number // 4 & cfg.mm16, k_length=random.randrange(3), product=9,
            columns=work.mask_of(number % 4), lanes=work.mask_of((number + 1) % 4)))
        yield variants_of(values, rows, number)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def every_merge(dut):
    """All factors, destinations and orders of columns [S0.5-S0.8]. Columns and lanes are all, some, one and none; B lies in columns and
    in rows; elements have both sizes. Banks and a hold stall, or do not. One of ``fewer`` is taken."""
    bench, work = await begin(dut)
    everything = np.ones(work.cfg.threads, bool)
    operations = list(merged_operations(work))
    work.random.shuffle(operations)
    operations = operations[::bench.fewer]
    for number in range(4):
        bench.stall(0.3 * (number % 2), 0.3 * (number // 2))
        bench.issue(*operations[number::4])
        await bench.idle()
    bench.stall(0, 0)
    for order in LoopOrder:
        for lanes in (everything, everything, ~everything, np.arange(work.cfg.threads) > 0):
            bench.issue(work.operation(
                ka=0, kb=0, kb_destination=0, lane_sum=1, order=order, lanes=lanes, k_length=work.random.randrange(4), product=9))
    await bench.idle()
    await bench.compare()
    assert bench.conflicts == bench.expected_conflicts
    bench.finish()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def merges_are_faster(dut):
    """As many times as factors and slots promise, with neighbouring columns in different banks."""
    bench, work = await begin(dut)
    cfg = work.cfg
    offset = await work.place_columns(5 * 16)
    everything = np.ones(cfg.threads, bool)
    cycles = {}
    plain = {"columns": everything, "lanes": everything, "k_length": 15, "product": 0, "base": 0, "element_shift": 0,
             "offset_register": offset, "factor_word": 3, "order": LoopOrder.SLICES_OUTER, "ka": 0, "kb": 0, "kb_destination": 0,
             "lane_sum": 0, "int16": 0}
    for name, merge, count in (("plain", {}, 8), ("ka4", {"ka": 3, "ka_interleaved": 1}, 8), ("kb4", {"kb": 3}, 2)):
        start = bench.cycle
        bench.issue(*(work.operation(**(plain | merge)) for _ in range(count)))
        await bench.idle()
        cycles[name] = bench.cycle - start
    expected = min(4, cfg.fetch_slots)
    overhead = 24           # until the first step, and after the last
    for name in ("ka4", "kb4"):
        speedup = (cycles["plain"] - overhead) / (cycles[name] - overhead)
        dut._log.info(f"{name}: {cycles['plain']} and {cycles[name]} cycles, {speedup:.2f} times as fast")
        assert speedup > 0.9 * expected
    await bench.compare()
    bench.finish()


TILES = ((128, Swizzle.NONE), (128, Swizzle.B128), (64, Swizzle.NONE), (64, Swizzle.B64), (32, Swizzle.NONE), (32, Swizzle.B32))
TILE_MERGES = [(ka, interleaved, kb) for kb in (1, 2, 4) for ka in (1, 2, 3, 4) for interleaved in range(2 if ka > 1 else 1)]


async def rounds_of(bench, *operations):
    """Rounds in which the banks are read for each group of words, without stalls; and the cycles from the first operation to the end."""
    before = bench.steps, bench.conflicts, bench.cycle
    bench.issue(*operations)
    await bench.idle()
    return tuple(now - then for now, then in zip((bench.steps, bench.conflicts, bench.cycle), before))


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def swizzled_tiles(dut):
    """Cycles a step from tiles whose columns are as long as their pitch, with and without swizzle: of every merge, and of rows of k."""
    bench, work = await begin(dut)
    cfg = work.cfg
    everything = np.ones(cfg.threads, bool)
    plain = {"columns": everything, "lanes": everything, "product": 3, "factor_word": 3, "base": 0}
    tiles, overhead = [tile for tile in TILES if tile[1] in modes_of(cfg)], 40
    table = {}
    for pitch, mode in tiles:
        offset = await work.place_columns(pitch)
        for ka, interleaved, kb in TILE_MERGES:
            slices = pitch // (kb * cfg.dot)
            if group_size(ka - 1, kb - 1) > cfg.threads or not slices:
                continue
            merge = {"ka": ka - 1, "ka_interleaved": interleaved, "kb": kb - 1, "k_length": min(slices, 16) - 1}
            steps, conflicts, cycles = await rounds_of(bench, *[
                MatrixOperation(**plain, **merge, offset_register=offset, swizzle=mode) for _ in range(2)])
            groups = -(-group_size(ka - 1, kb - 1) // cfg.fetch_slots) if cfg.fetch_slots > 1 else ka * kb
            rounds = groups + conflicts / steps
            assert cycles < steps * rounds + overhead, f"{cycles} cycles for {steps} steps of {rounds} rounds"
            table[f"ka{ka}{'i' * interleaved}.kb{kb}", pitch, mode] = rounds
            if mode is Swizzle.B128 and (interleaved or ka == 1) and (kb * cfg.dot <= BANK_BYTES or ka == 1):
                assert conflicts == 0, f"{conflicts} conflicts with {merge} in a swizzled tile"
    offset = await work.place_columns(1)
    for pitch, mode in tiles if cfg.transpose else ():
        slices = min(4, cfg.shared_bytes // 2 // (pitch * cfg.dot))
        steps, conflicts, _ = await rounds_of(bench, MatrixOperation(
            **plain, k_length=slices - 1, offset_register=offset, swizzle=mode, transpose=1, pitch=pitch))
        sets = slices * -(-cfg.threads // BANK_BYTES)
        assert steps == cfg.threads * slices
        table["t1", pitch, mode] = cfg.dot // cfg.piece_slots + conflicts / sets
        banks = 1 if mode is Swizzle.NONE else min(BANKS, cfg.piece_slots)
        together = max(BANKS * BANK_BYTES // pitch, 1) if mode is Swizzle.NONE else banks       # rows in different banks
        assert conflicts == sets * (cfg.dot // cfg.piece_slots) * (max(cfg.piece_slots // together, 1) - 1)
    for name in dict.fromkeys(name for name, _, _ in table):
        rounds = [f"{pitch} {mode.name}: {table[name, pitch, mode]:.2f}" for pitch, mode in tiles if (name, pitch, mode) in table]
        dut._log.info(f"cycles a step, {name}: {', '.join(rounds)}")
    await bench.compare()
    bench.finish()


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(int16=[0, 1])
async def transposed_once(dut, int16):
    """Each block of B is read once for all columns in it, and steps follow each other when 16 of them share it [S0.8]."""
    bench, work = await begin(dut)
    cfg = work.cfg
    if not cfg.transpose or int16 > cfg.mm16:
        return
    work.merges = False
    everything = np.ones(cfg.threads, bool)
    offset = await work.place_columns(1 + int16)
    for pitch, base in ((48, 0), (16, 0), (48, 16 - 2 * (1 + int16))):
        before = bench.steps, bench.bubbles, bench.blocks, bench.cycle
        count, slices = 3, 8
        bench.issue(*(work.operation(
            columns=everything, lanes=everything, k_length=slices - 1, product=0, base=base, element_shift=0, offset_register=offset,
            order=LoopOrder.SLICES_OUTER, int16=int16, transpose=1, pitch=pitch) for _ in range(count)))
        await bench.idle()
        steps, bubbles, blocks, cycles = (now - then for now, then in zip(
            (bench.steps, bench.bubbles, bench.blocks, bench.cycle), before))
        pieces = -(-(base + cfg.threads * (1 + int16)) // 16) * slices * count
        assert steps == cfg.threads * slices * count * cfg.passes(1 + int16)
        assert blocks == pieces * (cfg.dot >> int16)
        load = cfg.dot // cfg.piece_slots + 11 + (1 if pitch % 32 else 3) * (cfg.dot // cfg.fetch_slots if cfg.fetch_slots > 1 else 0)
        if steps == 16 * pieces and base == 0:
            assert bubbles == 0 and cycles < steps + load + 40
        assert cycles < pieces * max(steps // pieces + 1, load) + 60
        dut._log.info(f"pitch {pitch}: {steps} steps, {pieces} pieces, {blocks} blocks in {cycles} cycles")
    await bench.compare()
    bench.finish()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def transposed_merges(dut):
    """Every merge of rows of B, and the sum of all lanes: a column a step, each block read once, a step a cycle where 16 share it."""
    bench, work = await begin(dut)
    cfg, random = work.cfg, work.random
    if not cfg.transpose:
        return
    offset = await work.place_columns(1)
    everything = np.ones(cfg.threads, bool)
    merges = [{"ka": ka, "ka_interleaved": interleaved, "kb": kb, "kb_destination": random.randrange(kb + 1)}
              for ka in range(4) for interleaved in range(2 if ka else 1) for kb in range(4) if group_size(ka, kb) <= cfg.threads]
    for number, merge in enumerate([*merges, {"lane_sum": 1}, {"lane_sum": 1, "lanes": np.arange(cfg.threads) > 0}]):
        words = cfg.threads if merge.get("lane_sum") else merge["kb"] + 1
        for columns in (everything, work.mask()):
            slices = random.randrange(1, 4)
            pitches = 3 if 256 + 48 * slices * words * cfg.dot <= cfg.shared_bytes else 1       # all rows lie in shared memory
            before = bench.steps, bench.bubbles, bench.blocks, bench.cycle
            bench.issue(MatrixOperation(**{
                "columns": columns, "lanes": everything if number % 2 else work.mask(), "product": 16 * (number % 4), "factor_word": 3,
                "offset_register": offset, "k_length": slices - 1, "base": 16 * random.randrange(8),
                "pitch": 16 * random.randrange(1, 1 + pitches), "zero": random.getrandbits(1), "order": random.choice(list(LoopOrder)),
                "transpose": 1, "a_signed": random.getrandbits(1), "b_signed": random.getrandbits(1), **merge}))
            await bench.idle()
            steps, bubbles, blocks, cycles = (now - then for now, then in zip(
                (bench.steps, bench.bubbles, bench.blocks, bench.cycle), before))
            pieces = len({column // 16 for column in np.flatnonzero(columns)}) * slices * words
            assert steps == columns.sum() * slices * words, f"{steps} steps with {merge}"
            assert blocks == pieces * cfg.dot, f"{blocks} blocks with {merge}"
            if steps == 16 * pieces and cfg.fetch_slots > 1:
                assert bubbles == 0, f"{bubbles} bubbles with {merge}"
    await bench.compare()
    bench.finish()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def transposed_errors(dut):
    """Rows at wrong distances or beyond shared memory; operations with and without transpose in turn."""
    bench, work = await begin(dut, bank_stall=0.2)
    cfg, random = work.cfg, work.random
    if not cfg.transpose:
        return
    size = cfg.shared_bytes
    for number in range(40):
        values = vars(work.operation(k_length=random.randrange(4)))
        kind = number % 5
        if kind < 4:
            values |= work.transposed(values)
        if kind == 0:
            values |= {"pitch": random.choice([8, size, size - 16, size // 4, 0xFFFFFFF0, 0x80000001, size // cfg.dot])}
        elif kind == 1:
            values |= {"base": random.choice([size, size - 16, size - 160, 0xFFFFFFF0, size - 1])}
        elif kind == 3:
            values |= {"product": PRODUCT_REGISTERS - random.randrange(1, cfg.threads), "columns": np.ones(cfg.threads, bool)}
        elif kind == 2 and cfg.mm16:
            values |= {"int16": 1, "base": random.choice([1, 2, 33])}
        bench.issue(MatrixOperation(**values))
    await bench.idle()
    await bench.compare()
    assert bench.blocks == bench.blocks_expected
    bench.finish()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def first_step(dut):
    """The time from an operation to its sum is what the unit's page says. A read granted in the cycle of ``done`` sees the sum."""
    bench, work = await begin(dut)
    work.merges = False
    one = np.arange(work.cfg.threads) == 0
    latency = (1 if work.cfg.matrix_queue == 2 else 2) + 15 + exact_log2(work.cfg.dot) + 3 * (work.cfg.fetch_slots > 1)
    for row in range(8):
        steps, int16 = 1 + row % 2, row // 2 % 2 & work.cfg.mm16
        cycles = steps * work.cfg.passes(1 + int16)
        bench.next_access = lambda row=row, accepted=bench.accepted, cycles=latency + cycles: (
            Read(4 * row, 0, work.cfg.numbers_per_word)
            if bench.accepted > accepted and bench.cycle + 1 == bench.accepted_at + cycles else None)
        bench.issue(work.operation(columns=one, k_length=steps - 1, order=LoopOrder.COLUMNS_OUTER, product=4 * row, lanes=~one,
                                               int16=int16))
        await bench.idle()
        assert bench.done_at - bench.accepted_at == latency + cycles
    await bench.compare()
    assert bench.compared == 8 + PRODUCT_REGISTERS * work.cfg.thread_groups, "a read for each operation"
    bench.finish()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def writes_between_steps(dut):
    """A product register is written soon although every cycle has a step, for at most one cycle of the steps."""
    bench, work = await begin(dut)
    work.merges = False
    everything = np.ones(work.cfg.threads, bool)
    limit = 9 + exact_log2(work.cfg.dot) + 3        # from the request to the end of the write
    bench.issue(*(work.operation(columns=everything, lanes=everything, k_length=15, product=0) for _ in range(4)))
    while bench.steps < 40:
        await RisingEdge(dut.clk)
    for count in range(1, 9):
        bench.accesses.append(ProductWrite(200 + count, work.mask()))
        start = bench.cycle
        while bench.accesses or bench.current["write"]:
            await RisingEdge(dut.clk)
        assert bench.cycle - start <= limit, f"a write took {bench.cycle - start} cycles"
        assert bench.bubbles <= count
    assert bench.operations or bench.in_flight, "the steps were over before the writes"
    await bench.idle()
    await bench.compare()
    bench.finish()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def steps_are_counted(dut):
    """As many steps as the model has, for operations without errors, and the same with refused banks."""
    bench, work = await begin(dut, bank_stall=0.3)
    expected = 0
    for _ in range(20):
        operation = work.operation(product=17)
        passes = work.cfg.passes(1 + operation.int16)
        expected += len(matrix_steps(operation)) * (work.cfg.threads // 4 if operation.lane_sum else 1) * passes
        bench.issue(operation)
    await bench.idle()
    assert bench.steps == expected
    assert bench.conflicts == bench.expected_conflicts > 0
    await bench.compare()
    bench.finish()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def errors(dut):
    """Bad addresses drop the rest of an operation; columns beyond r255 are ignored; the unit goes on [S0.11]."""
    bench, work = await begin(dut, bank_stall=0.2)
    cfg, random = work.cfg, work.random
    for number in range(48):
        kind, values = number % 6, None
        if kind == 0:       # a column or a slice beyond shared memory, also beyond 2^32
            fixed = {"base": random.choice([cfg.shared_bytes - 64, cfg.shared_bytes // 2, 0xFFFFFF00, 0x80000000])}
        elif kind == 1:
            fixed = {"base": random.randrange(1, cfg.dot)}
        elif kind == 2:     # ends just before, at and behind r255
            fixed = {"product": PRODUCT_REGISTERS - random.randrange(1, cfg.threads + 2)}
        elif kind == 3:
            fixed = {"product": PRODUCT_REGISTERS - 2, "base": random.choice([1, cfg.shared_bytes - 16, cfg.shared_bytes])}
        elif kind == 4:     # a column that goes on behind its panel, at any of its words
            fixed = {"k_length": random.randrange(1, 4), "lane_sum": 0, "ka": random.randrange(2), "kb": random.randrange(3),
                     "kb_destination": 0, "columns": np.ones(cfg.threads, bool), "int16": number // 6 % 2 & cfg.mm16}
            values = vars(work.operation(**fixed))
            values |= work.swizzled(values, modes_of(cfg)[-1 - number // 12 % (len(modes_of(cfg)) - 1 or 1)])
            values |= {"base": values["base"] // ROW_BYTES * ROW_BYTES + ROW_BYTES - cfg.dot * random.randrange(1, 3)}
        else:
            fixed = {}
        if kind < 4:
            fixed["swizzle"] = random_mode(random, cfg)
        bench.issue(MatrixOperation(**values) if values else work.operation(**fixed))
    await bench.idle()
    expected = {ErrorCode.MISALIGNED, ErrorCode.OUT_OF_RANGE, ErrorCode.PRODUCT_RANGE, *[ErrorCode.PANEL_RANGE] * bool(swizzles(cfg))}
    assert bench.error_codes == expected, f"errors {bench.error_codes}, expected {expected}"
    await bench.compare()
    bench.finish()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def empty_operations(dut):
    """No active column: no step, no error, done in order; also between others and all in a row."""
    bench, work = await begin(dut)
    none = np.zeros(work.cfg.threads, bool)
    for empty in (True, True, False, True, False, False, True, True, True):
        bench.issue(work.operation(**({"columns": none, "base": 1} if empty else {})))
    await bench.idle()
    await bench.compare()
    bench.finish()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def stop_discards(dut):
    """With ``stop`` every operation is done soon; the unit works afterwards."""
    bench, work = await begin(dut, bank_stall=0.3)
    everything = np.ones(work.cfg.threads, bool)
    for delay in (0, 1, 5, 9, 14, 15, 16, 30, 60, 100):
        for number in range(4):
            # Without lanes the operation that is cut changes nothing, at whatever step.
            values = vars(work.operation(columns=everything, k_length=15, lanes=~everything))
            if number % 2 and work.cfg.transpose:
                values |= work.transposed(values) | {"swizzle": random_mode(work.random, work.cfg)}
            bench.issue(MatrixOperation(**values))
        await stop(bench, delay)
        bench.issue(work.operation())
        await bench.idle()
    await bench.compare()
    bench.finish()
