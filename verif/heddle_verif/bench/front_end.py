"""Bench of the front end: the operations of random programs and of a kernel, hazards, errors, stop, throughput."""

import itertools

import cocotb
from heddle.constants import FIRST_FACTOR_REGISTER, PRODUCT_REGISTERS, SEGMENTS
from heddle.isa.encoding import GUARD_ALWAYS, Opcode, Space, Special
from heddle.isa.error_codes import ErrorCode
from heddle.isa.issue_rules import CHECKS
from heddle_sim.isa import assemble
from heddle_sim.isa.checking import find_violation
from heddle_sim.isa.fields import FIELDS, opcode_of, pack
from heddle_sim.kernels.problem import Elements, MatmulProblem, Operands, Schedule
from heddle_sim.kernels.tiled import TiledKernel

from heddle_verif.stimulus.front_end_programs import ProgramGenerator
from heddle_verif.stimulus.program_texts import random_program

from .front_end_environment import prepared

OF_TENSORS = {Opcode.COPY_TENSOR, Opcode.PREFETCH_BLOCK, Opcode.PREFETCH_TENSOR, Opcode.INVALIDATE_DESCRIPTOR,
              Opcode.COMMIT_GROUP, Opcode.WAIT_GROUP}
GOOD = "mov r3, 5\numov ur9, 77\nmov r4, ur9\nmm8.sa.sb r16, ur12:rf300:0, r256\nhalt"
NUMBERS = (6, 7, 15, 16, 62, 63, 64, 254, 255, 256, 257, 4095)


@cocotb.test(timeout_time=6, timeout_unit="ms")
@cocotb.parametrize(pause=["none", "bursty", "adversarial"], finish=[0.5, 0.05])
async def random_programs(dut, pause, finish):
    bench = await prepared(dut, pause, finish)
    pairs = 1 if finish > 0.1 else 21           # of operations in flight that are compared, at least
    for number in range(12):
        if number >= 4 and bench.hazards.compared >= pairs:
            break
        entry = int(bench.rng.integers(20))
        text = random_program(bench.rng, bench.cfg, 150, executable=False)
        await bench.load(assemble("trap 1\n" * entry + text, bench.cfg))
        assert (await bench.run(entry)).ok
    bench.end(thread=200, matrix=20, copy=3, **{"tensor": 3, "invalidate": 1} if bench.cfg.tensors else {})
    assert bench.hazards.compared >= pairs


def changed_words(bench, count):
    """Straight-line legal words with three bits, or a field, changed outside opcode: most of it is what the instruction does not use."""
    program = assemble(random_program(bench.rng, bench.cfg, count, executable=False), bench.cfg)
    fixed = FIELDS["opcode"].mask << FIELDS["opcode"].offset
    # Copies of any number of rows take too long; the model has no %cycle.
    skipped = {Opcode.BRANCH, Opcode.HALT, Opcode.TRAP, Opcode.COPY_ROWS, Opcode.COPY_TENSOR}
    for word in program.words:
        if FIELDS["opcode"].get(word) in {opcode.value for opcode in skipped}:
            continue
        for _ in range(8):
            bits = sum(1 << int(bit) for bit in bench.rng.choice(128, 3, replace=False)) & ~fixed
            if bench.random.getrandbits(1):
                field = FIELDS[bench.random.choice(("dst", "a", "b", "c", "imm"))]
                bits = bench.random.getrandbits(field.width) << field.offset
            if not _reads_cycle(word ^ bits) and all(
                    find_violation(word ^ bits, bench.cfg, [space.value] * SEGMENTS) is None for space in Space):
                yield word ^ bits
                break


def _reads_cycle(word):
    special = opcode_of(word) in (Opcode.THREAD_SPECIAL, Opcode.UNIFORM_SPECIAL)
    return special and FIELDS["modifiers.alu.special"].get(word) == Special.CYCLE.value


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def unused_fields(dut):
    """What an instruction does not use has no effect, also field b of a copy of a block whose size is an immediate: b may be its rows."""
    bench = await prepared(dut, "bursty", 0.5)
    copy, b = assemble("copy_block.shared.global ur1, ur2, 1", bench.cfg).words[0], FIELDS["b"]
    copies = [copy ^ 1 << b.offset + bit for bit in range(b.width)]
    for _ in range(2):
        await bench.load([*copies, *changed_words(bench, 250), pack({"opcode": Opcode.HALT, "guard": GUARD_ALWAYS})])
        assert (await bench.run()).ok
    bench.end(thread=100)


def meeting_pair(generator):
    """An mm and a thread instruction that meet in a register at an end of what the mm uses."""
    cfg, random = generator.cfg, generator.random
    factors, slices = generator.slices()
    offset, product = random.randrange(FIRST_FACTOR_REGISTER, cfg.registers), random.randrange(PRODUCT_REGISTERS)
    mm = f"mm8.sa.sb.k{slices} r{product}, ur12:rf{offset}:0, r{factors}"
    columns = [product, min(product + cfg.threads, PRODUCT_REGISTERS) - 1]
    reads = [factors, factors + slices * cfg.numbers_per_word - 1, offset]
    other = random.choice([f"mov r{random.choice(columns + reads + reads)}, 1", f"add r{random.choice(reads)}, r3, r4",
                           f"setp.eq p1, r{random.choice(columns)}, 0", f"add r3, r4, r{random.choice(columns)}",
                           f"st.b32 ur1:rf{random.choice(columns)}:0, r5", f"ld.b32 r{random.choice(columns)}, ur1:rf3:0"])
    return random.sample([mm, other], 2)


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(finish=[0.3, 0.05])
async def hazards(dut, finish):
    bench = await prepared(dut, "none", finish)
    generator = ProgramGenerator(bench.random, bench.cfg)
    for _ in range(bench.rounds(3)):
        pairs = [[*meeting_pair(generator), *["copy_block.shared.global ur0, ur1, 1"] * (generator.random.random() < 0.3),
                  *["wait"] * (generator.random.random() < 0.5)] for _ in range(80)]
        await bench.load(assemble("\n".join([*itertools.chain(*pairs), "halt"]), bench.cfg))
        assert (await bench.run()).ok
    bench.end(thread=bench.rounds(200), matrix=bench.rounds(200))


@cocotb.test(timeout_time=6, timeout_unit="ms")
async def kernel(dut):
    """The programs of the matrix product; three shapes."""
    bench = await prepared(dut, "bursty", 0.3)
    for m, n, k in ((7, 9, 15), (17, 20, 40), (33, 20, 40)):
        problem = MatmulProblem(m * bench.cfg.cores, n, k, Elements(b_signed=False), schedule=Schedule(1, 1, "k-outer"))
        launch, = TiledKernel.planned(bench.cfg, problem).launches(Operands(0, 0x4000, 0x8000))     # of the rows, this core's part
        await bench.load(launch.program)
        await bench.set_uniform(launch.uniform)
        await bench.run()
    bench.end(thread=45, matrix=4, copy=10)


def words_of(opcode, rng):
    """Endless words of an opcode with one field, and sometimes the source of b, away from values that are legal for most opcodes."""
    first = FIRST_FACTOR_REGISTER if opcode in (Opcode.MATRIX, Opcode.OFFSETS) else 0
    special = FIELDS["modifiers"].get(pack({"modifiers.alu.special": int(opcode is Opcode.UNIFORM_SPECIAL)}))
    if opcode in OF_TENSORS:        # im2col, 4 dimensions, to shared memory
        special = FIELDS["modifiers"].get(pack({"modifiers.copy.source": 1, "modifiers.copy.mode": 1, "modifiers.copy.rank_minus_one": 3}))
    for field in itertools.cycle(("dst", "a", "b", "c", "b_source", "modifiers")):
        dst, a, b, c = (4 * int(number) for number in rng.integers(3, size=4))
        values = {"guard": int(rng.integers(8)), "guard_negate": int(rng.integers(2)), "dst": dst, "a": first + a, "b": b,
                  "c": c if opcode is Opcode.OFFSETS else first + c,
                  "b_source": int(rng.integers(3)), "modifiers": special, "imm": int(rng.integers(1 << 32))}
        place = FIELDS[field]
        values[field] = int(rng.integers(place.mask + 1) if place.width != 12 else rng.choice(NUMBERS))
        yield pack(values | {"opcode": opcode})


def violating(cfg, opcode, check, rng):
    """A word whose first violation is ``check``, and the segment that must be global before it (or None)."""
    if check.rule == "shared_segment":
        segment = int(rng.integers(12))      # the good program uses segment 12
        factors = 0 if opcode is Opcode.OFFSETS else FIRST_FACTOR_REGISTER
        return pack({"opcode": opcode, "guard": GUARD_ALWAYS, "a": FIRST_FACTOR_REGISTER, "c": factors, "b": segment}), segment
    for word in itertools.islice(words_of(opcode, rng), 20_000):
        violation = find_violation(word, cfg, [Space.SHARED.value] * SEGMENTS)
        if violation and (violation.field, violation.code) == (check.field, check.code):
            return word, None
    raise AssertionError(f"no word found for {opcode}, {check}")


async def fails(bench, word, before=(), good_after=True):
    """A program with a wrong word and a good one behind it: the error of the model and nothing after it; then a good program."""
    nops = int(bench.rng.integers(0, 5))
    good = assemble(GOOD, bench.cfg).words
    lead = assemble("\n".join([*before, *["nop"] * nops, "mov r9, ur1"]), bench.cfg).words
    await bench.load([*good, *lead, word, *good])
    result = await bench.run(entry=len(good))
    assert not result.ok
    assert not good_after or (await bench.run()).ok
    return result


@cocotb.test(timeout_time=6, timeout_unit="ms")
async def violations(dut):
    """Every row of the checks at issue."""
    bench = await prepared(dut, "bursty", 0.5)
    features = {Opcode.RECURRENT: ("recurrent", bench.cfg.rnn), Opcode.OFFSETS: ("offset_memory", bench.cfg.compiled_offsets > 0),
                Opcode.GATHER: ("gather", bench.cfg.gather_offsets),
                **dict.fromkeys((Opcode.SPARSE, Opcode.WAIT_SPARSE), ("sparse", bench.cfg.sparse)),
                Opcode.TAKE_TILE: ("tiles", bench.cfg.tile_scheduler)}
    for opcode, checks in CHECKS.items():
        for check in checks:
            rule, there = features.get(opcode, ("tensors", bench.cfg.tensors))
            if opcode in (*OF_TENSORS, *features) and there != (check.rule != rule):
                continue        # holds, or another check fails before it
            word, segment = violating(bench.cfg, opcode, check, bench.rng)
            before = () if segment is None else (f"segment.global.b8.d1 ur{segment}, 0",)
            result = await fails(bench, word, before)
            assert result.error is check.code, (opcode, check, result)
            if segment is not None:
                await bench.load(assemble(f"segment.shared.b8.d1 ur{segment}, 0\nhalt", bench.cfg))
                await bench.run()
    bench.end(thread=100)


@cocotb.test(timeout_time=6, timeout_unit="ms")
async def undefined_opcodes(dut):
    bench = await prepared(dut, "none", 0.5)
    defined = {opcode.value for opcode in Opcode}
    for number in sorted(set(range(256)) - defined):
        word = pack({"opcode": number}) | int.from_bytes(bench.rng.bytes(15), "little") << 8
        result = await fails(bench, word, good_after=number % 16 == 15)
        assert (result.error, result.operand) == (ErrorCode.ILLEGAL_INSTRUCTION, number)
    bench.end(thread=20)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def control_errors(dut):
    """Traps, branches that leave the memory, programs without an end."""
    bench = await prepared(dut, "bursty", 0.5)
    size = bench.cfg.instruction_words
    up0_is_true = ("usetp.eq up0, ur0, ur0",)
    for guard, negate in ((GUARD_ALWAYS, 0), (0, 0), (1, 1)):
        values = {"guard": guard, "guard_negate": negate}
        for operand in (0, 0xFFFFFFFF):
            result = await fails(bench, pack(values | {"opcode": Opcode.TRAP, "imm": operand}), up0_is_true)
            assert (result.error, result.operand) == (ErrorCode.TRAP, operand)
        for target in (size, size + 1, 2 * size, 0x80000000, 0xFFFFFFFF):
            result = await fails(bench, pack(values | {"opcode": Opcode.BRANCH, "imm": target}), up0_is_true)
            assert (result.error, result.operand) == (ErrorCode.PROGRAM_COUNTER, target)
    for opcode in (Opcode.TRAP, Opcode.BRANCH, Opcode.HALT):        # a false guard makes them nothing
        word = pack({"opcode": opcode, "guard": 2, "imm": 0xFFFFFFFF})
        await bench.load([word, *assemble(GOOD, bench.cfg).words])
        assert (await bench.run()).ok
    for first in (size - 1, size - 2, size - 7):
        await bench.load(assemble("\n".join(["nop"] * (size - first)), bench.cfg), first)
        result = await bench.run(entry=first)
        assert (result.error, result.operand) == (ErrorCode.PROGRAM_COUNTER, size)
    bench.end(thread=30)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def barriers(dut):
    """Expected bytes; a barrier that nothing can complete is an error, one with copies under way waits."""
    bench = await prepared(dut, "none", 0.5)
    await bench.load(assemble("barrier.expect b3, 0x12345678\n@up1 barrier.expect b4, 1\n@!up1 barrier.expect b15, ur7\n"
                              "barrier.wait b3\n@!up1 nop\nmov r1, 1\n@!up1 halt\ntrap 1", bench.cfg))
    await bench.run()
    lines = [f"barrier.expect b{index % 16}, " + (f"ur{index % 60}" if index % 3 else hex(bench.rng.integers(1 << 32)))
             for index in range(150)]
    await bench.load(assemble("\n".join([*lines, "halt"]), bench.cfg))
    await bench.run()
    bench.barriers = "never"
    for excess, overrun, code in ((0, 0, "BARRIER_UNDERRUN"), (0, 1, "BARRIER_OVERRUN"), (1, 1, "BARRIER_EXPECT")):
        dut.barriers__excess.value, dut.barriers__overrun.value = excess, overrun
        await bench.load(assemble("nop\n@up0 barrier.wait b2\nbarrier.wait b11\nmov r1, 1\nhalt", bench.cfg))
        await bench.doorbell()
        await bench.until_ended(200)
        assert [(error["code"], error["pc"], error["operand"]) for error in bench.errors] == [(ErrorCode[code], 2, 11)]
    dut.barriers__excess.value = dut.barriers__overrun.value = 0
    for wait, stalls in (("barrier.wait b2", 1), ("wait.copy", 0)):
        bench.barriers, bench.copies_may_end = "never", False
        await bench.load(assemble(f"copy_block.shared.global ur0, ur1, 1\n{wait}\nmov r1, 1\nhalt", bench.cfg))
        bench.expect()
        await bench.doorbell()
        await bench.cycles(300)
        assert not bench.errors
        assert (dut.waiting__copy.value, dut.waiting__thread.value, dut.events__barrier_stalls.value) == (1, 0, stalls)
        bench.barriers, bench.copies_may_end = "complete", True
        await bench.until_ended(50)
        await bench.drain()
    assert not bench.errors
    bench.end(thread=3, copy=2, expect=150)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def place_of_a_wait(dut):
    """``pc`` is the number of the instruction that waits, wherever it lies: TIMEOUT names it."""
    bench = await prepared(dut, "none", 0.5)
    last = bench.cfg.instruction_words - 2
    for place in sorted({1, last, *(1 << bit for bit in range(last.bit_length())), *bench.random.sample(range(1, last), 4)}):
        bench.copies_may_end = False
        await bench.load(assemble("copy_block.shared.global ur0, ur1, 1\nwait.copy\nhalt", bench.cfg), place - 1)
        bench.expect(place - 1)
        await bench.doorbell(place - 1)
        await bench.cycles(40)
        assert dut.waiting__copy.value and int(dut.pc.value) == place
        bench.copies_may_end = True
        await bench.until_ended()
        await bench.drain()
    bench.end(copy=3)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def masks(dut):
    """A mask of no core, or of one that does not exist, is an error before the copy is offered; others may still send to a barrier."""
    bench = await prepared(dut, "bursty", 0.5)
    if not bench.cfg.multicast:
        return
    wrong = [0, 1 << bench.cfg.cores, 0xFFFFFFFF, 0x80000001]
    copies = ["copy_block.shared.global.multicast ur1, ur2, 1, ur9"]
    copies += ["copy_tensor.im2col.5d.shared.global.multicast ur1, ur2, ur20, ur30, ur9, b3"] * bench.cfg.tensors
    for copy in copies:
        word = assemble(copy, bench.cfg).words[0]
        for mask in wrong:
            result = await fails(bench, word, before=(f"umov ur9, {mask:#x}",))
            assert (result.error, result.operand) == (ErrorCode.MULTICAST_MASK, mask)
    bench.barriers = "never"
    dut.peers_settled.value = 0
    await bench.load(assemble("barrier.wait b2\nmov r1, 1\nhalt", bench.cfg))
    await bench.doorbell()
    await bench.cycles(200)
    assert dut.settled.value
    assert not bench.errors
    dut.peers_settled.value = 1
    await bench.until_ended(20)
    assert [error["code"] for error in bench.errors] == [ErrorCode.BARRIER_UNDERRUN]
    await bench.cycles(20)
    assert dut.settled.value
    bench.end()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def wait_limits(dut):
    """A wait that takes longer than the limit is an error with what it waits for; one that takes as long is none."""
    bench = await prepared(dut, "none", 0.5)
    if not bench.cfg.wait_timeout:
        return
    bench.barriers, bench.copies_may_end, bench.groups_move = "never", False, False
    waits = [("barrier.wait b11", 11), ("wait.copy", 2), ("wait", 7)]
    if bench.cfg.tensors:
        waits += [("wait_group 5", 5), ("wait_group.read 0x12345", 0x12345), ("commit_group", 0)]
        dut.groups__pending.value, dut.groups__unread.value, dut.groups__rows_busy.value = 8, 8, 0
    for limit in (1, 2, 10, 100, 330):
        for text, operand in waits:
            if operand == 0x12345:      # has no time to wait
                continue
            dut.wait_timeout.value = limit
            bench.copies_may_end = False
            await bench.load(assemble(f"copy_block.shared.global ur0, ur1, 1\n@up0 {text}\nnop\n{text}\nmov r1, 1\nhalt", bench.cfg))
            bench.scoreboards, kept = {unit: _Everything() for unit in bench.scoreboards}, bench.scoreboards
            await bench.doorbell()
            began, bench.waited_for_copies = bench.cycle, 0
            await bench.until_ended(limit + 60)
            assert limit <= bench.cycle - began <= limit + 30 and limit <= bench.waited_for_copies + 2
            assert [(error["code"], error["pc"], error["operand"]) for error in bench.errors] == [(ErrorCode.WAIT_TIMEOUT, 3, operand)]
            bench.scoreboards, bench.copies_may_end = kept, True
            await bench.drain()
    if bench.cfg.tensors:
        dut.groups__pending.value, dut.groups__unread.value = 0, 0
    for limit, barriers, lines in ((1, "complete", ["barrier.wait b1"] * 3), (200, "random", [text for text, _ in waits * 20])):
        dut.wait_timeout.value, bench.copies_may_end, bench.barriers = limit, True, barriers
        await bench.load(assemble("\n".join([*lines, "halt"]), bench.cfg))
        assert (await bench.run()).ok
    bench.end()


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def stops(dut):
    """``stop`` ends a program at any time, also one that waits for a unit; the next program is as good as the first."""
    bench = await prepared(dut, "bursty", 0.1)
    endless = "again:\n" + random_program(bench.rng, bench.cfg, 60, executable=False).replace("halt", "bra again")
    for _ in range(bench.rounds(15)):
        await bench.load(assemble(endless, bench.cfg))
        bench.scoreboards, kept = {unit: _Everything() for unit in bench.scoreboards}, bench.scoreboards
        await bench.doorbell()
        await bench.cycles(int(bench.rng.integers(1, 300)))
        dut.stop.value = 1
        await bench.until_ended(3000)
        await bench.drain()
        dut.stop.value = 0
        assert not bench.errors
        bench.scoreboards = kept
        await bench.resynchronise()
        await bench.load(assemble(random_program(bench.rng, bench.cfg, 10, executable=False), bench.cfg))
        assert (await bench.run()).ok
    bench.end(thread=bench.rounds(50))


class _Everything:
    """In place of a scoreboard: anything is right."""

    def observe(self, *items):
        pass


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def tiles(dut):
    """Numbers of tiles, each read at once; a false guard asks for none. A stop while a core waits is forgotten in the next run."""
    bench = await prepared(dut, "bursty", 0.5)
    if not bench.cfg.tile_scheduler:
        return
    lines = ["usetp.eq up0, ur0, ur0"]
    for number in range(60):
        guard = bench.random.choice(("", "", "@up0 ", "@!up0 ", "@up1 ", "@!up1 "))
        lines += [f"{guard}take_tile ur{number}", *["umov ur61, 5"] * bench.random.randrange(2), f"mov r{number}, ur{number}"]
    taken = assemble("\n".join([*lines, "halt"]), bench.cfg)
    for wait in range(9):
        await bench.load(assemble("again: take_tile ur1\nbra again", bench.cfg))
        await bench.doorbell()
        await bench.cycles(wait + 4)
        dut.stop.value = 1
        await bench.until_ended(50)
        dut.stop.value = 0
        await bench.resynchronise()
        await bench.load(taken)
        assert (await bench.run()).ok
    bench.end(thread=9 * 60)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def throughput(dut):
    """Cycles from one instruction to the next."""
    bench = await prepared(dut, "none", 0.9)
    bench.barriers, hops, timing = "complete", [f"hop{index}: bra hop{index + 1}" for index in range(20)], bench.timing
    cases = {"nop": (["nop"] * 60, timing.instruction), "mov r1, ur2": (["mov r1, ur2"] * 3, timing.instruction),
             "uadd": (["uadd ur1, ur2, 1"] * 30, timing.writer), "uadd of the uadd before": (["uadd ur1, ur1, 1"] * 30, timing.dependent),
             "uadd of the segment before": (["segment.shared.b8.d1 ur1, 0", "uadd ur2, ur1, 1"] * 10, timing.writer),
             "segment": (["segment.shared.b8.d1 ur1, 0"] * 5, timing.writer), "usetp": (["usetp.eq up1, ur1, 1"] * 30, timing.instruction),
             "guard of the usetp before": (["usetp.eq up1, ur1, 1", "@up1 nop", "@!up1 nop"] * 10, timing.instruction),
             "bra": ([*hops, "hop20: nop"], timing.branch)}
    cases |= {f"barrier.wait {latency}": (["barrier.wait b1"] * 10, timing.barrier_wait + latency) for latency in range(4)}
    for name, (lines, cycles) in cases.items():
        bench.barrier_latency = int(name[-1]) if name.startswith("barrier.wait") else 0
        await bench.load(assemble("\n".join([*lines, "halt"]), bench.cfg))
        await bench.run()
        assert len(bench.instruction_cycles) == len(lines) + 1
        steps = {after - before for before, after in itertools.pairwise(bench.instruction_cycles[:-1])}
        assert steps == {cycles}, f"{name}: an instruction must take {cycles} cycles, not {steps}"
        assert bench.instruction_cycles[0] - bench.started == timing.start + (cycles - timing.instruction if "barrier" in name else 0)
    bench.end(thread=3)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def cycle_register(dut):
    """``%cycle`` counts each cycle from the start of a run, for threads and in uniform registers, in every run anew, and while it waits."""
    bench = await prepared(dut, "none", 0.9)
    lines, kept, before = ["mov r1, %cycle", *["nop"] * 11, "umov ur4, %cycle", "nop", "mov r2, ur4"], bench.scoreboards, set()
    program = ["copy_block.shared.global ur0, ur1, 1", *lines * 20, "wait.copy", *lines]
    for cycles in (1, 2000):
        bench.scoreboards = kept | {"copy": _Everything(), "thread": (operations := _Operations())}
        await bench.load(assemble("\n".join([*program, "halt"]), bench.cfg))
        bench.copies_may_end = False
        await bench.doorbell()
        await bench.cycles(cycles)
        bench.copies_may_end = True
        await bench.until_ended()
        await bench.drain()
        issued = [cycle for cycle, line in zip(bench.instruction_cycles, program) if line.endswith("%cycle")]
        values = [operation["value"] for operation in operations.observed]
        assert len(values) == 42 and values[-1] > max(256, cycles - 100)
        before |= {cycle - bench.started - value for cycle, value in zip(issued, values, strict=True)}
    assert len(before) == 1 and before < set(range(8)), f"must be read a fixed number of cycles before issue, not {before}"
    bench.scoreboards = kept
    bench.end()


class _Operations:
    """In place of a scoreboard: keeps what it is told."""

    def __init__(self):
        self.observed = []

    def observe(self, *items):
        self.observed += items
