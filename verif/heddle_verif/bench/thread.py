"""Bench of the thread unit against its golden model."""

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, RisingEdge
from heddle.constants import BANK_BYTES, BANKS, FIRST_FACTOR_REGISTER, ROW_BYTES
from heddle.interfaces.layouts import ThreadKind
from heddle.interfaces.swizzle import swizzles
from heddle.isa.compiled_offsets import GATHERED_BYTES, MASK_BITS, OFFSET_BITS, POSITIONS
from heddle.isa.encoding import (
    ACCESS_BYTES,
    GUARD_ALWAYS,
    PACKING,
    Access,
    AluFunction,
    CompareFunction,
    OutputUse,
    Space,
    Swizzle,
    output_bounds_layout,
)
from heddle.isa.error_codes import ErrorCode
from heddle.thread.global_lsu import IN_FLIGHT
from heddle_sim.golden.output_stage import channel_words

from .thread_environment import MEMORY_BYTES, Stalls, ThreadBench
from .thread_workload import GATHERS, STORES, Workload

PROFILES = {
    "free": Stalls(),
    "banks": Stalls(banks=0.5, latency=(1, 20)),
    "registers": Stalls(registers=0.5, latency=(1, 3)),
    "all": Stalls(operations=0.4, registers=0.3, banks=0.3, requests=0.3, data=0.3, responses=0.4, latency=(1, 40)),
    "slow": Stalls(operations=0.1, registers=0.8, banks=0.8, requests=0.8, data=0.8, responses=0.9, latency=(1, 10)),
    "late": Stalls(operations=0.1, registers=0.1, banks=0.4, latency=(1, 20), delay=9, places=4),
    "asked": Stalls(operations=0.3, requests=0.2, latency=(1, 20), asked=True),
}


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(profile=list(PROFILES))
async def random_operations(dut, profile):
    """Batches of random operations, back to back and one at a time."""
    bench = ThreadBench(dut, PROFILES[profile])
    await bench.start()
    workload = Workload(bench)
    batches = bench.some(6)
    for batch in range(batches):
        workload.prepare()
        await bench.idle()
        for _ in range(25):
            workload.any()
            if batch % 3 == 1:
                await bench.idle()
        await bench.idle()
    assert bench.done >= 25 * batches and bench.compared >= 2 * batches


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def dependent_operations(dut):
    """Each operation uses the register that the one before it wrote: as operand, as offset, as data, as guard."""
    bench = ThreadBench(dut, Stalls(registers=0.2, banks=0.2))
    await bench.start()
    always = {"guard": GUARD_ALWAYS}
    for factor in (16, bench.cfg.registers - 16):
        bench.issue(kind=ThreadKind.TID, dst=factor, **always)
        for _ in range(4):
            bench.issue(kind=ThreadKind.ALU, function=AluFunction.ADD, dst=factor + 1, a=factor, b=factor, b_is_register=1, **always)
            bench.issue(kind=ThreadKind.LOAD, access=Access.U8, space=Space.SHARED, dst=factor + 2, a=factor + 1, **always)
            bench.issue(kind=ThreadKind.LOAD, access=Access.V4, space=Space.SHARED, dst=factor + 4, a=factor + 2,
                        element_shift=4, **always)
            bench.issue(kind=ThreadKind.ALU, function=AluFunction.AND, dst=factor + 4, a=factor + 5, value=0x3F, **always)
            bench.issue(kind=ThreadKind.LOAD, access=Access.U16, space=Space.GLOBAL, dst=20, a=factor + 4, element_shift=1, **always)
            bench.issue(kind=ThreadKind.STORE, access=Access.B32, space=Space.SHARED, c=20, a=factor + 4, element_shift=2, **always)
            bench.issue(kind=ThreadKind.LOAD, access=Access.B32, space=Space.SHARED, dst=21, a=factor + 4, element_shift=2, **always)
            bench.issue(kind=ThreadKind.COMPARE, compare=CompareFunction.LT, unsigned=1, dst=3, a=21, value=0x8000, **always)
            bench.issue(kind=ThreadKind.TID, dst=factor, guard=3)
            bench.issue(kind=ThreadKind.LANE_MASK, guard=3, guard_negate=1)
            bench.issue(kind=ThreadKind.STORE, access=Access.V2, space=Space.GLOBAL, c=20, a=factor + 4, element_shift=3, **always)
            bench.issue(kind=ThreadKind.LOAD, access=Access.V2, space=Space.GLOBAL, dst=factor + 6, a=factor + 4, element_shift=3,
                        **always)
    await bench.idle()
    assert bench.done == 98


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(kind=[ThreadKind.LOAD, ThreadKind.STORE], space=list(Space))
async def every_place(dut, kind, space):
    """Every thread loads from, or stores to, every place of a 16-byte word; no two stores meet in a word, so a byte too many shows."""
    bench = ThreadBench(dut, Stalls(banks=0.2, requests=0.2, data=0.2, latency=(1, 4)))
    await bench.start()
    workload, threads = Workload(bench), np.arange(bench.cfg.threads)
    base, first = 0, 32         # first of the registers with offsets, one for each shift
    for access in STORES if kind is ThreadKind.STORE else Access:
        size = ACCESS_BYTES[access]
        places = BANK_BYTES // size
        await bench.idle()
        for shift in range(places):
            workload.set(first + shift, threads * BANK_BYTES + (threads + shift) % places * size)
        for shift in range(places):
            data = 64 + 4 * bench.random.randrange(8)
            bench.issue(kind=kind, access=access, space=space, a=first + shift, value=base,
                        **({"c": data} if kind is ThreadKind.STORE else {"dst": data}), guard=GUARD_ALWAYS)
            base = (base + len(threads) * BANK_BYTES) % bench.cfg.shared_bytes
    await bench.idle()
    assert not bench.errors and bench.done >= 2 * BANK_BYTES - 1


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def gather_cycles(dut):
    """Without stalls a group without bank conflicts takes one cycle, also one of a column of a swizzled tile; and one in which all want the
    same bank a cycle a thread."""
    bench = ThreadBench(dut, Stalls())
    await bench.start()
    workload, cfg = Workload(bench), bench.cfg
    numbers = np.arange(cfg.threads)
    groups, turns = cfg.thread_groups, cfg.thread_groups * -(-bench.slots // BANKS)      # more slots than banks take turns
    tile = [(ROW_BYTES, Swizzle.B128, turns, turns - groups)] if swizzles(cfg) else []
    for stride, swizzle, expected, conflicts in (
            (16, Swizzle.NONE, turns, turns - groups), (ROW_BYTES, Swizzle.NONE, cfg.threads, cfg.threads - groups), *tile,
            (0, Swizzle.NONE, groups, 0), (4, Swizzle.NONE, -(-cfg.threads // bench.slots), 0)):
        workload.set(8, numbers * stride)
        await bench.idle()
        bench.times["bank_read"].clear()
        before = bench.conflict_events
        access = Access.V4 if stride != 4 else Access.B32
        bench.issue(kind=ThreadKind.LOAD, access=access, space=Space.SHARED, swizzle=swizzle, dst=FIRST_FACTOR_REGISTER, a=8,
                    guard=GUARD_ALWAYS)
        await bench.idle()
        cycles = sorted(set(bench.times["bank_read"]))
        assert len(cycles) == expected == cycles[-1] - cycles[0] + 1, (stride, cycles)
        assert bench.conflict_events - before == conflicts, (stride, bench.conflict_events - before)
        workload.set(8, numbers * stride)
        await bench.idle()
        bench.times["bank_write"].clear()
        before = bench.conflict_events
        if stride in (16, ROW_BYTES):
            bench.issue(kind=ThreadKind.STORE, access=Access.B32, space=Space.SHARED, swizzle=swizzle, c=12, a=8, guard=GUARD_ALWAYS)
            await bench.idle()
            cycles = sorted(set(bench.times["bank_write"]))     # two registers are read for a group
            expected = expected if cfg.shared_writes == BANKS else cfg.threads
            assert len(cycles) == expected and cycles[-1] - cycles[0] < max(expected, 2 * groups), (stride, cycles)
            assert bench.conflict_events - before == expected - groups, (stride, bench.conflict_events - before)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def shared_words(dut):
    """A group takes a cycle for each word that the bank with most of them has to read, whoever wants it."""
    bench = ThreadBench(dut, Stalls())
    await bench.start()
    workload, cfg = Workload(bench), bench.cfg
    for words in (2, 3, 2 * BANKS, 3 * BANKS) * 8:
        chosen = bench.rng.integers(0, words, cfg.threads) * int(bench.rng.choice([1, 1, BANKS // 2]))
        workload.set(8, chosen * BANK_BYTES)
        await bench.idle()
        bench.times["bank_read"].clear()
        before = bench.conflict_events
        bench.issue(kind=ThreadKind.LOAD, access=Access.V4, space=Space.SHARED, dst=FIRST_FACTOR_REGISTER, a=8, guard=GUARD_ALWAYS)
        await bench.idle()
        groups = [set(chosen[first:first + bench.slots].tolist()) for first in range(0, cfg.threads, bench.slots)]
        expected = sum(max(np.bincount([word % BANKS for word in group])) for group in groups)
        assert len(set(bench.times["bank_read"])) == expected, (chosen.tolist(), expected)
        assert bench.conflict_events - before == expected - len(groups), chosen.tolist()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def operation_cycles(dut):
    """Cycles from one operation to the next, as docs/units/thread.md says."""
    bench = ThreadBench(dut, Stalls())
    await bench.start()
    workload, groups, count = Workload(bench), bench.cfg.thread_groups, 8
    workload.set(8, np.arange(bench.cfg.threads))
    workload.set(9, 5)
    await bench.idle()
    parts, passes = bench.cfg.numbers_per_word, bench.slots // bench.cfg.slot_multipliers
    overlap, latency = bench.cfg.thread_overlap, bench.cfg.register_read_latency
    turns = groups * -(-bench.slots // BANKS)
    stores = turns if bench.cfg.shared_writes == BANKS else bench.cfg.threads       # cycles of a pass
    always = {"guard": GUARD_ALWAYS}
    load = {"kind": ThreadKind.LOAD, "space": Space.SHARED, "a": 8, "element_shift": 4, **always}
    store = {"kind": ThreadKind.STORE, "space": Space.SHARED, "a": 8, "element_shift": 4, **always}
    compute = {"kind": ThreadKind.ALU, "dst": 20, "a": 24, **always}
    four = {"access": Access.V4, "value": 3}
    write = 4 * (groups + 2) if overlap else 4 * (groups + 3) + 1       # four product registers
    enter = latency + 4         # without overlap: cycles of an operation that are not those of its micro-operations
    cases = {       # operation, cycles, cycles with thread_overlap
        "add of two registers": (dict(compute, function=AluFunction.ADD, b=22, b_is_register=1), 2 * groups + enter,
                                 max(2 * groups, groups + 2)),
        "add of a constant": (dict(compute, function=AluFunction.ADD, value=3), groups + enter, groups + 2),
        "move of a constant": (dict(compute, function=AluFunction.MOV, value=3), groups + 4, groups + 2),
        "comparison": ({"kind": ThreadKind.COMPARE, "compare": CompareFunction.EQ, "dst": 2, "a": 24, "value": 4, **always}, groups + enter,
                       groups + 2),
        "add to four registers": (dict(compute, function=AluFunction.ADD, **four), write, write),
        "product": (dict(compute, function=AluFunction.MULH, b=22, b_is_register=1),
                    max(2 * groups + 3, passes * groups + 4) + enter, max(2 * groups, passes * groups + 1, groups + 2)),
        "product of four registers": (dict(compute, function=AluFunction.MULH, **four), max(4 * passes * groups + 3 + enter, write),
                                      max(4 * passes * groups + 1, write)),
        "narrow": (dict(compute, function=AluFunction.NARROW, **four), 4 * groups + 2 + enter, 4 * groups + 1),
        "scale": (dict(compute, function=AluFunction.SCALE, c=5, **four), 4 * passes * groups + 5 + enter, 4 * passes * groups + 1),
        "load of a word": (dict(load, access=Access.B32, dst=16), turns + enter, turns + 2),
        "load of two words": (dict(load, access=Access.V2, dst=16), max(turns + enter, 2 * (groups + 3) + 1),
                              max(turns + 2, 2 * (groups + 2))),
        "load of a vector": (dict(load, access=Access.V4, dst=16), write, write),
        "load of one vector": (dict(load, access=Access.V4, dst=16, a=9), write, 12),
        "load of factors": (dict(load, access=Access.V4, dst=FIRST_FACTOR_REGISTER), max(turns + enter, groups * 4 // parts + 1),
                            max(turns + 2, groups * 4 // parts)),
        "store of a word": (dict(store, access=Access.B32, c=21), max(2 * groups, stores) + enter, max(2 * groups, stores, 3)),
        "store of two words": (dict(store, access=Access.V2, c=20), max(3 * groups, 2 * stores) + enter, max(2 * groups + 1, 2 * stores)),
        "store of a vector": (dict(store, access=Access.V4, c=20), max(5 * groups, 4 * stores) + enter, max(4 * groups + 1, 4 * stores)),
        "global load": (dict(load, space=Space.GLOBAL, access=Access.B32, dst=20), bench.cfg.threads + 4 + enter, bench.cfg.threads + 6),
        "global store": (dict(store, space=Space.GLOBAL, access=Access.B32, c=20), bench.cfg.threads + groups + enter,
                         bench.cfg.threads + max(groups, 2)),
    }
    if bench.cfg.output_stage:
        requant = dict(compute, function=AluFunction.SCALE, c=5, **four)
        cases |= {"channel": (dict(compute, function=AluFunction.ADD, output=OutputUse.CHANNEL, b=22, b_is_register=1), 0,
                              max(2 * groups, groups + 2)),
                  "requant": (dict(requant, output=OutputUse.PACK), 0, 4 * groups + 1),
                  "requant with exchange": (dict(requant, output=OutputUse.TRANSPOSE), 0, 4 * groups + 1)}
        if bench.cfg.packs_groups:
            cases["requant of groups"] = (dict(requant, output=OutputUse.GROUPS), 0, 4 * groups + 1)
    if bench.cfg.gather_offsets:        # neighbouring threads have neighbouring elements: no conflicts
        bench.write_entries(np.arange(bench.cfg.compiled_offsets) * 16 | 0xFFF << OFFSET_BITS)
        for access, entries in ((Access.U8, 16), (Access.U8, 4), (Access.B32, 4), (Access.B32, 1), (Access.V2, 2)):
            size = ACCESS_BYTES[access]
            workload.set(200 + size, np.arange(bench.cfg.threads) * size)       # which no other case writes
            words = max(entries * size // 4, 1)
            gather = dict(load, access=access, dst=FIRST_FACTOR_REGISTER, a=200 + size, element_shift=0, gathers=1, entries=entries - 1)
            cases[f"gather of {entries} {access.name}"] = (gather, 0, max(entries * groups + 2, -(-words // parts) * groups))
    await bench.idle()
    wrong = []
    for name, (operation, *expected) in cases.items():
        expected = expected[overlap]
        bench.times["done"].clear()
        for _ in range(count):
            bench.issue(**operation)
        await bench.idle()
        times = bench.times["done"]
        cocotb.log.info("%s: %s cycles", name, np.diff(times))
        cycles = np.diff(times[2:])
        # Where two stages take as long, the one or the other waits now and then: less than a cycle on average.
        slack = name in ("load of factors", "product", "channel", "store of a word", "store of two words", "gather of 2 V2")
        if cycles.min() < expected - slack or cycles.max() > expected + 2 * slack or not expected <= cycles.mean() <= expected + slack:
            wrong.append(f"{name}: {cycles}, not {expected}")
    assert not wrong, "; ".join(wrong)


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(own_shifts=[0, 1])
async def halves(dut, own_shifts):
    """Output stage: sums around those at which a byte changes, rounded once and twice; with a shift of each thread, or one for all.

    Then the same under a guard that holds in some threads.
    """
    bench = ThreadBench(dut, Stalls())
    await bench.start()
    if not bench.cfg.output_stage:
        return
    workload, rng, threads = Workload(bench), bench.rng, bench.cfg.threads
    for _ in range(bench.some(6)):
        multiplier = np.where(rng.random(threads) < 0.3, 1 << 30, rng.integers(1 << 30, 1 << 31, threads))
        shift = rng.integers(1, 12, threads) if own_shifts else np.full(threads, rng.integers(1, 12))
        bias = rng.integers(-1 << 26, 1 << 26, threads)
        await bench.idle()
        workload.set(20, channel_words(bias, shift) if own_shifts else bias & 0xFFFF_FFFF)
        workload.set(21, multiplier)
        for register in range(24, 28):
            half = (2 * rng.integers(-130, 130, threads) + 1) << 31 + shift
            workload.set(register, half // multiplier + rng.integers(-1, 3, threads) - bias & 0xFFFF_FFFF)
        bench.issue(kind=ThreadKind.ALU, function=AluFunction.ADD, output=OutputUse.CHANNEL, a=20, b=21, b_is_register=1, c=1,
                    guard=GUARD_ALWAYS)
        for rounds in range(2):
            value = output_bounds_layout.const({"minimum": 0x80, "maximum": 0x7f, "set": 1, "own_shifts": own_shifts,
                                                "double_rounding": rounds}).as_value().value
            bench.issue(kind=ThreadKind.ALU, function=AluFunction.SCALE, output=OutputUse.PACK, access=Access.V4, a=24, dst=28 + rounds,
                        value=value, c=int(shift[0]), guard=GUARD_ALWAYS)
    bench.issue(kind=ThreadKind.TID, dst=22, guard=GUARD_ALWAYS)
    bench.issue(kind=ThreadKind.COMPARE, compare=CompareFunction.GE, dst=0, a=22, value=threads // 2 - 1, guard=GUARD_ALWAYS)
    bench.issue(kind=ThreadKind.ALU, function=AluFunction.ADD, output=OutputUse.CHANNEL, a=21, b=20, b_is_register=1, c=1, guard=0)
    for number, output in enumerate(PACKING if bench.cfg.packs_groups else PACKING[:2]):
        for unsigned in range(2):
            bench.issue(kind=ThreadKind.ALU, function=AluFunction.SCALE, output=output, access=Access.V4, a=24, dst=28 + number,
                        value=value, unsigned=unsigned, c=int(shift[0]), guard=0)
    await bench.idle()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def load_behind_store(dut):
    """A load behind a store of the same words waits for its acknowledgement and no longer: requested two cycles after it, where operations
    overlap.
    """
    bench = ThreadBench(dut, Stalls())
    await bench.start()
    workload, cfg = Workload(bench), bench.cfg
    workload.set(8, np.arange(cfg.threads))
    requests = bench.slots if cfg.shared_writes == 1 else -(-bench.slots // BANKS)      # of the last group
    access = {"access": Access.B32, "space": Space.SHARED, "a": 8, "element_shift": 4, "guard": GUARD_ALWAYS}
    for number in range(6):
        await bench.idle()
        bench.times["bank_write"].clear(), bench.times["bank_read"].clear()
        bench.issue(kind=ThreadKind.STORE, c=20 + number, **access)
        bench.issue(kind=ThreadKind.LOAD, dst=40 + number, **access)
        await bench.idle()
        cycles = min(bench.times["bank_read"]) - max(bench.times["bank_write"])
        assert cycles == (2 if cfg.thread_overlap else max(2, cfg.register_read_latency + 6 - requests)), cycles


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def address_errors(dut):
    """The first wrong thread is reported, earlier groups of a store are executed, and the unit goes on."""
    bench = ThreadBench(dut, Stalls(banks=0.2, latency=(1, 9)))
    await bench.start()
    workload, cfg = Workload(bench), bench.cfg
    always = {"guard": GUARD_ALWAYS}
    outside = {Space.SHARED: cfg.shared_bytes, Space.GLOBAL: 1 << cfg.axi_address_bits}
    for space in Space:
        for kind in (ThreadKind.LOAD, ThreadKind.STORE):
            for thread in sorted({0, 1, bench.slots - 1, bench.slots % cfg.threads, cfg.threads - 1}):
                for wrong in (2, outside[space], outside[space] - 2):
                    offsets = np.arange(cfg.threads, dtype=np.int64) * 4
                    offsets[thread:] += wrong
                    workload.set(8, offsets & 0xFFFFFFFF)
                    await bench.idle()
                    bench.issue(kind=kind, access=Access.B32, space=space, dst=40, c=41, a=8, pc=thread, **always)
                    bench.issue(kind=ThreadKind.TID, dst=42, **always)
                    await bench.idle()
    codes = {code for code, _, _ in bench.errors}
    assert ErrorCode.MISALIGNED.value in codes and ErrorCode.OUT_OF_RANGE.value in codes


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(access=GATHERS)
async def gathered_places(dut, access):
    """Elements of every size from every place of 16 bytes to product and factor registers, with masks and padding [S2.3]."""
    bench = ThreadBench(dut, Stalls(banks=0.2, registers=0.1))
    await bench.start()
    workload, cfg = Workload(bench), bench.cfg
    if not cfg.gather_offsets:
        return
    size, threads = ACCESS_BYTES[access], np.arange(cfg.threads)
    most = GATHERED_BYTES // size
    shape = (cfg.compiled_offsets, POSITIONS)
    positions = bench.rng.integers(0, 16, shape) | 15 * bench.rng.integers(0, 2, shape)
    offsets = np.arange(cfg.compiled_offsets) * 5 * size % (cfg.shared_bytes // 2)
    bench.write_entries(offsets | (positions << OFFSET_BITS + 4 * np.arange(POSITIONS)).sum(axis=1))
    for count in sorted({1, most, *bench.rng.integers(1, most + 1, 4).tolist()}):
        masks = bench.rng.integers(0, 1 << MASK_BITS, cfg.threads) | -(threads % 2)
        workload.set(8, ((threads * 9 * size) % (cfg.shared_bytes // 4)) | masks << OFFSET_BITS & 0xFFFFFFFF)
        await bench.idle()
        for dst in (40, FIRST_FACTOR_REGISTER + 8):
            bench.issue(kind=ThreadKind.LOAD, access=access, space=Space.SHARED, gathers=1, entries=count - 1, dst=dst, a=8,
                        first_entry=bench.random.randrange(cfg.compiled_offsets - count + 1), value=count * size,
                        padding=bench.random.randrange(cfg.shared_bytes) // size * size, guard=GUARD_ALWAYS)
    await bench.idle()
    assert not bench.errors and bench.done >= (2 if access is Access.V4 else 4)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def gather_errors(dut):
    """Entries that do not exist, before all others; then the address of the first wrong element, entry by entry in each group."""
    bench = ThreadBench(dut, Stalls(banks=0.2))
    await bench.start()
    workload, cfg = Workload(bench), bench.cfg
    if not cfg.gather_offsets:
        return
    bench.write_entries(np.arange(cfg.compiled_offsets) * 4 | 0xFFF << OFFSET_BITS)
    gather = {"kind": ThreadKind.LOAD, "access": Access.B32, "space": Space.SHARED, "gathers": 1, "entries": 3, "dst": 40, "a": 8}
    for thread in sorted({0, 1, bench.slots - 1, bench.slots % cfg.threads, cfg.threads - 1}):
        for wrong in (2, cfg.shared_bytes - 8, (1 << OFFSET_BITS) - 12):       # the last two: in the third entry, and up to it
            bases = np.arange(cfg.threads, dtype=np.int64) * 4
            bases[thread:] = wrong
            workload.set(8, bases)
            await bench.idle()
            bench.issue(first_entry=0, pc=thread, guard=GUARD_ALWAYS, **gather)
            bench.issue(kind=ThreadKind.TID, dst=42, guard=GUARD_ALWAYS)
            for entry in (cfg.compiled_offsets - 3, cfg.compiled_offsets, 8190):
                bench.issue(first_entry=entry, pc=thread + 100, guard=GUARD_ALWAYS, **gather)
                bench.issue(first_entry=entry, pc=thread + 200, guard=3, **gather)       # of no thread
            bench.issue(first_entry=cfg.compiled_offsets - 4, pc=thread + 300, guard=GUARD_ALWAYS, **gather)
            await bench.idle()
    codes = {code for code, _, _ in bench.errors}
    assert codes == {ErrorCode.OFFSET_RANGE.value, ErrorCode.MISALIGNED.value, ErrorCode.OUT_OF_RANGE.value}
    assert not any(200 <= pc < 300 for _, pc, _ in bench.errors)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def memory_errors(dut):
    """Errors that memory answers name program counter and address."""
    bench = ThreadBench(dut, Stalls(data=0.3, responses=0.3, latency=(1, 30)))
    await bench.start()
    workload, cfg = Workload(bench), bench.cfg
    for access in Access:
        for first in (0, 3, cfg.threads - 1, cfg.threads):
            size = ACCESS_BYTES[access]
            workload.set(8, np.where(np.arange(cfg.threads) < first, 0, MEMORY_BYTES // size) + np.arange(cfg.threads))
            await bench.idle()
            for kind in (ThreadKind.LOAD, ThreadKind.STORE)[:1 + (access in STORES)]:
                bench.issue(kind=kind, access=access, space=Space.GLOBAL, element_shift=size.bit_length() - 1, dst=40, c=44, a=8,
                            pc=first + 100, guard=GUARD_ALWAYS)
            await bench.idle()
    codes = {code for code, _, _ in bench.errors}
    assert codes == {ErrorCode.AXI_READ.value, ErrorCode.AXI_WRITE.value}


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def errors_at_once(dut):
    """Errors of writes arrive while other operations fail: none is lost."""
    bench = ThreadBench(dut, Stalls(responses=0.5, latency=(1, 30)))
    await bench.start()
    workload, cfg = Workload(bench), bench.cfg
    workload.set(8, MEMORY_BYTES + np.arange(cfg.threads) * 4)
    workload.set(9, 1)
    for round_ in range(8):
        await bench.idle()
        bench.issue(kind=ThreadKind.STORE, access=Access.B32, space=Space.GLOBAL, c=44, a=8, pc=round_, guard=GUARD_ALWAYS)
        for number in range(8):
            bench.issue(kind=ThreadKind.LOAD, access=Access.U16, space=Space.SHARED, dst=40, a=9, pc=100 + number, guard=GUARD_ALWAYS)
    await bench.idle()
    assert sum(bench.errors.values()) == 8 * (cfg.threads + 8)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def stores_in_flight(dut):
    """Stores go on until as many wait for their answers as may, and none is lost."""
    bench = ThreadBench(dut, Stalls(latency=(200, 200)))
    await bench.start()
    workload = Workload(bench)
    workload.set(8, np.arange(bench.cfg.threads) * 4)
    await bench.idle()
    for number in range(2 + 2 * IN_FLIGHT // bench.cfg.threads):
        bench.issue(kind=ThreadKind.STORE, access=Access.B32, space=Space.GLOBAL, c=40 + number, a=8, value=number * 4 * bench.cfg.threads,
                    guard=GUARD_ALWAYS)
    await bench.idle()
    assert bench.most_stores == IN_FLIGHT


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reset_under_way(dut):
    """A reset in the middle of operations forgets them, and the unit works as before."""
    bench = ThreadBench(dut, PROFILES["all"])
    await bench.start()
    workload = Workload(bench)
    for _ in range(bench.rounds(12)):
        workload.prepare()
        await bench.idle()
        for _ in range(6):
            workload.any()
        await ClockCycles(dut.clk, bench.random.randrange(10, 200))
        await bench.reset_under_way()
    workload.prepare()
    await bench.idle()
    for _ in range(20):
        workload.any()
    await bench.idle()
    assert bench.done >= bench.rounds(12) * 2


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def start_and_stop(dut):
    """``stop`` discards what has not begun, ``start`` clears predicates and the lane mask; registers stay."""
    bench = ThreadBench(dut, Stalls(registers=0.1))
    await bench.start()
    workload = Workload(bench)
    threads = np.arange(bench.cfg.threads, dtype=np.uint32)[:, None]
    discarded = 0
    for wait in (0, 1, 2, 3, 5, 9, 14, 30):
        bench.issue(kind=ThreadKind.COMPARE, compare=CompareFunction.EQ, dst=2, a=4, b=4, b_is_register=1, guard=GUARD_ALWAYS)
        bench.issue(kind=ThreadKind.LANE_MASK, guard=2, guard_negate=1)
        await bench.idle()
        assert dut.masks__predicates__2.value.to_unsigned() == (1 << bench.cfg.threads) - 1
        assert dut.masks__lanes.value.to_unsigned() == 0
        dut.start.value = 1
        await RisingEdge(dut.clk)
        dut.start.value = 0
        bench.golden.start()
        await ClockCycles(dut.clk, 2)
        await bench.idle()

        bench.discarding = True
        before = bench.state.registers[:, 40:46].copy()
        for number in range(6):
            bench.issue(kind=ThreadKind.TID, dst=40 + number, guard=GUARD_ALWAYS)
        await ClockCycles(dut.clk, wait + 1)
        dut.stop.value = 1
        while bench.busy or bench.operations:
            await RisingEdge(dut.clk)
        dut.stop.value = 0
        await ClockCycles(dut.clk, 2)
        registers = bench.state.registers[:, 40:46]
        executed = (registers == threads).all(axis=0)
        assert (executed | (registers == before).all(axis=0)).all(), "an operation was executed in part"
        assert (executed[:-1] >= executed[1:]).all(), "an operation was executed after a discarded one"
        discarded += int((~executed).sum())
        bench.golden.registers[:] = bench.state.registers
        bench.discarding = False
        workload.set(slice(40, 46), bench.rng.integers(1 << 16, 1 << 32, (bench.cfg.threads, 6), np.uint32))
    await bench.idle()
    assert 0 < discarded < 48
