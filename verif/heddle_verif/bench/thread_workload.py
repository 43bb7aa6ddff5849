"""Random operations for the bench of the thread unit."""

import numpy as np
from heddle.constants import FIRST_FACTOR_REGISTER, PRODUCT_REGISTERS
from heddle.interfaces.layouts import ThreadKind
from heddle.isa.compiled_offsets import GATHERED_BYTES, MASK_BITS, OFFSET_BITS, POSITIONS
from heddle.isa.encoding import (
    ACCESS_BYTES,
    CHANNEL_SETS,
    GUARD_ALWAYS,
    PACKING,
    Access,
    AluFunction,
    CompareFunction,
    OutputUse,
    Space,
    Swizzle,
)
from heddle_sim.golden.output_stage import channel_words

from ..stimulus.swizzles import random_mode
from .thread_environment import MEMORY_BYTES

__all__ = ["GATHERS", "STORES", "Workload"]

OFFSETS = 8         # registers that hold the offsets of loads and stores; half of them factor registers
GATHERS = [Access.V4, Access.V2, Access.B32, Access.U8]     # from the largest elements to the smallest
STORES = [Access.U8, Access.U16, Access.B32, Access.V2, Access.V4]
LATE = [AluFunction.MUL, AluFunction.MULH, AluFunction.NARROW, AluFunction.SCALE]
CORNERS = [0, 1, 2, 4, 31, 32, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF]


class Workload:
    """Random operations. Offset registers keep patterns that give addresses with and without bank conflicts."""

    def __init__(self, bench):
        self.bench, self.random, self.cfg = bench, bench.random, bench.cfg
        half = OFFSETS // 2
        self.far = self.cfg.shared_bytes // 64      # addresses that differ in their upper bits only
        self.offsets = [*range(4, 4 + half), *range(self.cfg.registers - half, self.cfg.registers)]
        self.bases = [8, 9, self.cfg.registers - half - 1, self.cfg.registers - half - 2]       # of gathers
        self.pool = self.random.sample(range(PRODUCT_REGISTERS), 12)
        self.pool += self.random.sample(range(FIRST_FACTOR_REGISTER, self.cfg.registers - 4), 12)

        if self.cfg.output_stage:       # keeps what the test before has left
            for number in range(CHANNEL_SETS):
                bench.issue(kind=ThreadKind.ALU, function=AluFunction.ADD, output=OutputUse.CHANNEL, a=16 + number, b=17, b_is_register=1,
                            c=number, guard=GUARD_ALWAYS)

    def set(self, register, values):
        """Put numbers into a register of all threads; only while the unit is idle."""
        for state in (self.bench.state, self.bench.golden):
            state.registers[:, register] = values

    def prepare(self):
        """New offsets, and corner values in other registers."""
        threads, rng = self.cfg.threads, self.bench.rng
        numbers = np.arange(threads)
        patterns = [numbers, numbers[::-1], numbers * 8, numbers * 9, numbers * 0, numbers ^ 5, numbers // 2 * 3,
                    rng.permutation(threads), rng.integers(0, 16, threads), rng.integers(0, 64, threads),
                    numbers % 4 * self.far, rng.integers(0, 3 * self.far, threads)]
        for register in self.offsets:
            values = patterns[self.random.randrange(len(patterns))].copy()
            if self.random.random() < 0.1:
                values[self.random.randrange(threads):] += self.random.choice([1 << 11, 1 << 20, 1 << 27])
            self.set(register, values)
        for register in self.pool[::3]:
            self.set(register, rng.choice(np.array(CORNERS, np.uint32), threads))
        for register in self.pool[1::6]:        # biases with shifts, and multipliers for which results are near bytes
            self.set(register, channel_words(rng.integers(-3000, 3000, threads), rng.integers(1, 12, threads)))
        for register in self.pool[2::6]:
            self.set(register, rng.integers(1 << 29, 1 << 31, threads))
        if self.cfg.gather_offsets:
            self._prepare_gathers(patterns)

    def _prepare_gathers(self, patterns):
        """Bases and masks of the threads; entries of the compiled-offset memory, a quarter for each size of an element."""
        rng, threads, quarter = self.bench.rng, self.cfg.threads, self.cfg.compiled_offsets // 4
        for register in self.bases:
            masks = rng.integers(0, 1 << MASK_BITS, threads) | rng.integers(0, 1 << MASK_BITS, threads)
            masks[rng.random(threads) < 0.4] = (1 << MASK_BITS) - 1
            bases = patterns[self.random.randrange(len(patterns) - 2)] * self.random.choice([4, 8, 16])
            self.set(register, bases % (self.cfg.shared_bytes // 2) | masks << OFFSET_BITS)
        sizes = np.repeat([ACCESS_BYTES[access] for access in GATHERS], quarter)
        offsets = rng.integers(0, self.cfg.shared_bytes // 4, 4 * quarter) // sizes * sizes
        shape = (4 * quarter, POSITIONS)
        positions = np.where(rng.random(shape) < 0.6, rng.integers(12, 16), rng.integers(0, 12, shape))
        self.bench.write_entries(offsets | (positions << OFFSET_BITS + 4 * np.arange(POSITIONS)).sum(axis=1))

    def register(self, count=1, product=False):
        number = self.random.choice(self.pool)
        if product or self.random.random() < 0.3:
            number = self.random.randrange(16, PRODUCT_REGISTERS)
        number = number // count * count
        return number if not {*range(number, number + count)} & {*self.offsets, *self.bases} else 16

    def guard(self):
        guard = self.random.choice([GUARD_ALWAYS, GUARD_ALWAYS, *range(7)])
        return {"guard": guard, "guard_negate": int(guard != GUARD_ALWAYS and self.random.random() < 0.6)
                or int(self.random.random() < 0.03), "pc": self.random.randrange(4096)}

    def function(self):
        return self.random.choice([*AluFunction, *LATE])

    def compute(self):
        value = self.random.choice([self.random.getrandbits(32), self.random.choice(CORNERS)])
        scales = self.cfg.output_stage and self.random.random() < 0.1
        function = AluFunction.SCALE if scales else self.function()
        narrows = function in (AluFunction.NARROW, AluFunction.SCALE)
        vector = narrows or self.random.random() < 0.3
        many = 4 if vector else 1
        if function is AluFunction.NARROW:
            value = self.random.choice([0, 1, 4, 8, 20, 24, 31, value])
        output = {}
        if self.cfg.output_stage and self.random.random() < (0.7 if function is AluFunction.SCALE else 0.15):
            output = {"output": OutputUse.CHANNEL if function is not AluFunction.SCALE
                      else self.random.choice(PACKING if self.cfg.packs_groups else PACKING[:2])}
            if function is not AluFunction.SCALE:
                function, vector, narrows, many = AluFunction.ADD, False, False, 1
            elif self.random.random() < 0.7:        # sums near the bytes, and bounds in their order
                bounds = sorted(self.random.sample(range(-128, 128), 2))
                value = self.random.randrange(256) | (bounds[0] & 0xff) << 8 | (bounds[1] & 0xff) << 16 | self.random.randrange(16) << 24
        self.bench.issue(kind=ThreadKind.ALU, **output, function=function, dst=self.register(1 if narrows else many),
                         access=Access.V4 if vector else Access.B32, a=self.register(many, product=vector), b=self.register(),
                         b_is_register=0 if vector else self.random.getrandbits(1), unsigned=self.random.getrandbits(1), value=value,
                         c=self.random.randrange(32), **self.guard())

    def compare(self):
        self.bench.issue(kind=ThreadKind.COMPARE, function=self.function(), compare=self.random.choice(list(CompareFunction)),
                         unsigned=self.random.getrandbits(1), dst=self.random.randrange(7), a=self.register(), b=self.register(),
                         b_is_register=self.random.getrandbits(1), value=self.random.choice([self.random.getrandbits(32), 0]),
                         **self.guard())

    def special(self):
        kind = self.random.choice([ThreadKind.TID, ThreadKind.LANE_MASK])
        self.bench.issue(kind=kind, function=self.function(), dst=self.register() if kind is ThreadKind.TID else 0, **self.guard())

    def memory(self, space=None):
        """A load or store, sometimes with a wrong address."""
        store = self.random.random() < 0.4
        access = self.random.choice(STORES if store else list(Access))
        size = ACCESS_BYTES[access]
        space = self.random.choice([Space.SHARED, Space.SHARED, Space.GLOBAL]) if space is None else space
        limit = self.cfg.shared_bytes if space is Space.SHARED else MEMORY_BYTES
        span = max(9 * self.cfg.threads, 3 * self.far + 1) * size
        base = self.random.randrange(0, max(limit - span, 64)) // size * size
        shift = size.bit_length() - 1
        if self.random.random() < 0.15:
            base += self.random.choice([1, size // 2, limit, limit - base - 8 * size, -base - size])
            shift = self.random.choice([0, shift, 4])
        count = max(1, size // 4)
        self.bench.issue(
            kind=ThreadKind.STORE if store else ThreadKind.LOAD, function=self.function(), access=access, space=space, element_shift=shift,
            swizzle=random_mode(self.random, self.cfg) if space is Space.SHARED else Swizzle.NONE,
            a=self.random.choice(self.offsets), value=base & 0xFFFFFFFF,
            **({"c": self.register(count, product=True)} if store else {"dst": self.register(count)}), **self.guard())

    def gather(self):
        """Elements by compiled offsets, sometimes with an entry or address that does not exist."""
        choose, cfg = self.random, self.cfg
        place = choose.randrange(len(GATHERS))
        access, quarter = GATHERS[place], cfg.compiled_offsets // 4
        size, most = ACCESS_BYTES[access], GATHERED_BYTES // ACCESS_BYTES[access]
        count = choose.choice([1, most, choose.randint(1, most)])
        first = choose.randrange(place + 1) * quarter       # of larger elements too
        first += choose.randrange(max(quarter - count, 0) + 1)
        value = choose.randrange(0, cfg.shared_bytes // 4) // GATHERED_BYTES * GATHERED_BYTES
        padding = choose.randrange(0, cfg.shared_bytes) // size * size
        if choose.random() < 0.12:
            kind = choose.randrange(4)
            value += [choose.choice([1, 2, 4, 8]), cfg.shared_bytes, 0, 0][kind]
            padding += [0, 0, choose.choice([1, cfg.shared_bytes, (1 << OFFSET_BITS) - 1 - padding]), 0][kind]
            first = first if kind < 3 else choose.choice([cfg.compiled_offsets - count + 1, cfg.compiled_offsets, 8190])
        elif choose.random() < 0.3:
            value |= choose.getrandbits(12) << OFFSET_BITS          # modulo 2^20
        self.bench.issue(
            kind=ThreadKind.LOAD, function=self.function(), access=access, space=Space.SHARED, swizzle=random_mode(choose, cfg), gathers=1,
            entries=count - 1, first_entry=first, padding=padding, a=choose.choice(self.bases), value=value, dst=self.register(4),
            **self.guard())

    def any(self):
        gathers = [self.gather] * (2 * self.cfg.gather_offsets)
        self.random.choice([self.compute, self.compare, self.special, self.memory, self.memory, self.memory, *gathers])()
