"""Bench of the front end's hazards: which operations wait for one of the other unit, and which do not."""

import cocotb
import numpy as np
from heddle.constants import FIRST_FACTOR_REGISTER, PRODUCT_REGISTERS, REGISTER_GROUPS
from heddle.interfaces.layouts import ThreadKind
from heddle_sim.isa import assemble

from heddle_verif.checkers.hazards import matrix_registers, thread_registers
from heddle_verif.stimulus.front_end_programs import SHARED_SEGMENTS, ProgramGenerator

from .front_end_environment import prepared

SETTLED = 12        # cycles after which an operation that may go to its unit has gone
MOST = 4            # operations behind the first, which have a scoreboard entry each


class Uses:
    """What an operation uses, by the rules of the architecture: registers become groups of ``factor_words`` / 16 words or of 16.

    ``held``: what must not be met. ``offset``: the group of the offset register of an ``mm`` or ``offsets``. ``masks``: the operation
    writes predicates or the lane mask.
    """

    def __init__(self, cfg, unit, operation):
        self.cfg, self.masks, self.offset = cfg, False, set()
        if unit == "thread":
            reads, writes = thread_registers(operation)
            used = writes | {register for register in reads if register < FIRST_FACTOR_REGISTER}     # an mm writes no factor registers
            self.masks = operation["kind"] in (ThreadKind.COMPARE, ThreadKind.LANE_MASK)
        else:
            reads, writes = matrix_registers(cfg, operation | {"columns": (1 << cfg.threads) - 1})
            used, self.offset = reads | writes, {self._group(FIRST_FACTOR_REGISTER + operation["offset_register"])}
        offset_memory = operation.get("gathers") or operation.get("fill")
        self.held = {self._group(register) for register in used} | ({"offset memory"} if offset_memory else set())

    def _group(self, register):
        if register < FIRST_FACTOR_REGISTER:
            return "product", register // 16
        return "factor", (register - FIRST_FACTOR_REGISTER) // self.cfg.numbers_per_word // (self.cfg.factor_words // REGISTER_GROUPS)

    def factors(self):
        """Groups of factor registers that an ``mm`` reads in its steps, not before."""
        return {group for group in self.held if group[0] == "factor"} - self.offset


def hazard(first, later, of_matrix, alone):
    """Whether ``later`` has a hazard with ``first``, in flight in the other unit.

    ``of_matrix``: ``later`` is for the matrix unit, which has ``alone`` nothing else to do.
    """
    meets = first.held & later.held
    return bool(meets - later.factors() if of_matrix and alone else meets) or (of_matrix and first.masks)


def text_of(generator, draw):
    """The instruction that ``draw`` adds to a generator's program."""
    before = str(generator.text)
    draw(generator)
    return str(generator.text)[len(before):].strip()


def near(generator):
    """An ``mm``, and a thread operation that writes a register of it or one near them: a product register, or a factor word in the group
    before or behind."""
    cfg, random = generator.cfg, generator.random
    (factors, slices), target = generator.slices(), generator.register(product=True)
    words = cfg.factor_words // REGISTER_GROUPS     # of a group
    if random.random() < 0.5:
        word = random.randrange(cfg.factor_words)
        begin = word // words * words       # of its group
        first = random.choice((begin - slices, word - random.randrange(slices), begin + words))
        first = min(max(first, 0), cfg.factor_words - slices)
        register, factors = (FIRST_FACTOR_REGISTER + number * cfg.numbers_per_word for number in (word, first))
    else:
        register = min(max(target + random.randrange(-16, cfg.threads + 16), 0), PRODUCT_REGISTERS - 1)
    thread = random.choice((f"mov r{register}, ur3", f"ld.b32 r{register}, {generator.address()}"))
    return {"thread": thread, "matrix": text_of(generator, lambda _: generator.matrix_text(
        target, generator.matrix_address(), factors, slices, generator.merge()[0]))}


def group(bench):
    """Lines of a program: an operation of a unit, and some of the other one; the first two mostly use registers near others."""
    random, cfg = bench.random, bench.cfg
    threads = [ProgramGenerator.thread_alu] * 4 + [ProgramGenerator.load] * 2 + [
        ProgramGenerator.store, ProgramGenerator.thread_compare, ProgramGenerator.thread_special, ProgramGenerator.lane_mask]
    threads += [ProgramGenerator.gather] * cfg.gather_offsets
    offsets = [lambda generator: generator.offsets(generator.matrix_address())] * (cfg.compiled_offsets > 0)
    draws = {"thread": lambda: random.choice(threads), "matrix": lambda: random.choice([ProgramGenerator.matrix] * 3 + offsets)}
    first, other = random.sample(list(draws), 2)
    lines = [text_of(ProgramGenerator(random, cfg), draws[unit]()) for unit in (first, *[other] * random.randint(1, MOST))]
    if random.random() < 0.7:
        pair = near(ProgramGenerator(random, cfg))
        lines[:2] = pair[first], pair[other]
    return first, other, lines


def pairs_of_group(generator, number):
    """Lines of a thread operation and an ``mm`` that meet in a group of product or of factor registers, in each of their operands."""
    cfg, random = generator.cfg, generator.random
    words, parts = cfg.factor_words // REGISTER_GROUPS, cfg.numbers_per_word
    word = number * words + random.randrange(words)
    product, factor = 16 * number + random.randrange(16), FIRST_FACTOR_REGISTER + word * parts + random.randrange(parts)
    other = (product + PRODUCT_REGISTERS // 2) % PRODUCT_REGISTERS
    other_word = FIRST_FACTOR_REGISTER + (word + cfg.factor_words // 2) % cfg.factor_words * parts
    segment = random.choice(SHARED_SEGMENTS)

    def matrix(target, offset, factors):
        return text_of(generator, lambda _: generator.matrix_text(target, f"ur{segment}:rf{offset}:4", factors, 1, ""))

    of_product = (f"mov r{product}, ur3", f"ld.b32 r{product}, ur{segment}:rf{other}:4", f"ld.b32 r{other}, ur{segment}:rf{product}:4",
                  f"add r{other}, r{product}, ur3", f"add r{other}, r{other}, r{product}", f"st.b32 ur{segment}:rf{other}:4, r{product}")
    of_factor = (f"mov r{factor}, ur3", f"ld.b32 r{factor}, ur{segment}:rf{product}:4")
    pairs = [(thread, matrix(product, other_word, other_word)) for thread in of_product]
    return pairs + [(thread, matrix(other, *factors)) for thread in of_factor
                    for factors in ((other_word, factor // parts * parts), (factor, other_word))]


async def see(bench, queues, first, other, lines):
    """A group runs: the first of ``lines`` is for the unit ``first``, and what is behind it for ``other``.

    Returns whether one waits, how many do not, and whether an ``mm`` awaits its factors.
    """
    held, later = queues[first].pop(0), [queues[other].pop(0) for _ in lines[1:]]
    meets = [hazard(held, uses, other == "matrix", not place) for place, uses in enumerate(later)]
    free = [*meets, True].index(True)
    await bench.until(lambda: bench.in_flight[first] == 1, 100, "the first operation must go to its unit")
    await bench.cycles(SETTLED + free)
    waits, awaits = bool(bench.dut.events__scoreboard_stalls.value), bool(bench.dut.matrix_hold.value)
    assert (bench.in_flight[other], waits) == (free, any(meets)), (lines, free, bench.in_flight, waits)
    assert awaits == bool(other == "matrix" and free and held.held & later[0].factors()), (lines, awaits)
    bench.finish_share = 1
    await bench.until(lambda: not any(bench.in_flight.values()) and all(
        bench.scoreboards[unit].outstanding == len(queue) for unit, queue in queues.items()), 200, "all must end")
    bench.finish_share = 0
    return waits, free, awaits


async def see_all(bench, groups):
    """A program of groups of operations; returns the sum of what ``see`` returns."""
    await bench.load(assemble("\n".join(line for _, _, lines in groups for line in (*lines, "wait")) + "\nhalt", bench.cfg))
    bench.expect()
    operations = {"thread": bench.model.thread, "matrix": bench.model.matrix}
    queues = {unit: [Uses(bench.cfg, unit, vars(operation)) for operation in queue] for unit, queue in operations.items()}
    await bench.doorbell()
    seen = np.zeros(3, int)
    for units_and_lines in groups:
        seen += await see(bench, queues, *units_and_lines)
    await bench.until_ended(100)
    return seen


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def exact_hazards(dut):
    """Behind an operation that does not end, those of the other unit go to it up to the first that meets its register groups."""
    bench = await prepared(dut, "none", 0.0)
    seen = np.zeros(3, int)
    for _ in range(bench.some(8)):
        seen += await see_all(bench, [group(bench) for _ in range(60)])
    assert (seen >= np.array((60, 100, 1)) * bench.some(3)).all(), seen
    bench.end(thread=bench.some(100), matrix=bench.some(100))


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def every_group(dut):
    """Each operand of a thread operation, and each of an ``mm``, is seen in each group of registers."""
    bench = await prepared(dut, "none", 0.0)
    generator = ProgramGenerator(bench.random, bench.cfg)
    met = 0
    for number in range(REGISTER_GROUPS):
        pairs = pairs_of_group(generator, number)
        turns = [bench.random.getrandbits(1) for _ in pairs]
        waits, _, awaits = await see_all(bench, [("matrix", "thread", pair[::-1]) if turn else ("thread", "matrix", pair)
                                                 for turn, pair in zip(turns, pairs, strict=True)])
        assert waits + awaits >= len(pairs) - 1, (number, pairs)
        met += waits + awaits
    bench.end(thread=met, matrix=met)
