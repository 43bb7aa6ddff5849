"""Random programs that a device can execute, with results that do not depend on time."""

import numpy as np
from heddle.constants import BANK_BYTES, BARRIERS, FIRST_FACTOR_REGISTER, PREDICATES, PRODUCT_REGISTERS, ROW_BYTES, UNIFORM_REGISTERS
from heddle.isa.encoding import ACCESS_BYTES
from heddle.isa.encoding import Access as Width

from ..checkers.races import Access, Races
from .front_end_programs import LOOP_PREDICATE, STORES, ProgramGenerator
from .offset_texts import OffsetTexts
from .store_group_texts import StoreGroupTexts

__all__ = ["ExecutableGenerator"]

OFFSETS = 4                         # registers of offsets in each register file, the last ones
FIRST_COPY_UNIFORM = 36             # this and above hold operands of copies and bases of segments
BESIDE_ITEMS, LEAST_ITEMS = 94, 110     # instructions of a program before the results: beside the random ones, and random ones at least
OTHER_RESULTS = PRODUCT_REGISTERS // 4 + UNIFORM_REGISTERS * 5 // 4 + 40     # instructions that store all but factor registers
MOST_FACTORS = 256                  # factor registers that the end stores: each store of all threads takes hundreds of cycles
MOST_STEPS = 8192                   # of the columns of one product of 8 bits
SEGMENTS_IN_LOOPS = (14, 15)        # defined by each instruction that uses them; the others only outside of blocks


def in_rows(addresses, size):
    """Whether ``size`` bytes from each address on lie in one row of shared memory."""
    return (addresses % ROW_BYTES + size <= ROW_BYTES).all()


class ExecutableGenerator(StoreGroupTexts, OffsetTexts, ProgramGenerator):
    """Keeps count of what is in offset registers and segments, so that every address is known, and of the accesses under way.

    Global memory: data first, results (the registers of all threads, then shared memory) last. Of several cores one runs the program:
    all of them would load and store the same places, in an order that depends on time.
    """

    def __init__(self, source, cfg, memory_bytes, stores_state=True):
        super().__init__(source, cfg)
        self._stores_state = stores_state
        self.uniforms = list(range(32))
        self.record_bytes = 4 * (cfg.registers + UNIFORM_REGISTERS + PREDICATES + 1) // BANK_BYTES * BANK_BYTES + BANK_BYTES
        self.shared_results = memory_bytes - cfg.shared_bytes
        self.data_bytes = self.shared_results - cfg.threads * self.record_bytes
        if self.data_bytes < 4096:
            raise ValueError(f"memory_bytes must leave 4096 bytes besides the results, not {memory_bytes}")
        self.stored = self._stored_factors()
        self.sizes, self.hint_end = {"shared": cfg.shared_bytes, "global": self.data_bytes}, self.data_bytes
        product, factor = PRODUCT_REGISTERS - OFFSETS, cfg.registers - OFFSETS
        self.offsets = dict.fromkeys([*range(product, PRODUCT_REGISTERS), *range(factor, cfg.registers)])
        self.segments = {}
        self.races = Races()
        if self.copy_tensor in self._kinds:     # needs descriptors
            place = self._kinds.index(self.copy_tensor)
            del self._kinds[place], self._weights[place]

    # -- beginning and end ------------------------------------------------------------------

    def program(self, length):
        text = super().program(min(length, self._room()))
        if self.cfg.cores == 1:
            return text
        core = self.random.randrange(self.cfg.cores)
        return f"umov ur0, %core\nusetp.ne up0, ur0, {core}\n@up0 bra other_cores\n{text.rstrip()}\n".removesuffix(
            "halt\n") + "other_cores:\nhalt\n"

    def interrupted(self, length):
        """A program like others, and the number of an instruction of it at which everything before has ended."""
        length = min(length, self._room())
        self.prologue()
        self.items(length // 2)
        self.text("wait")
        self.races.wait()
        place = self.text.count
        self.items(length - length // 2)
        self.epilogue()
        return str(self.text), place

    def prologue(self):
        """Random contents for shared memory and registers, offsets, segments."""
        blocks = min(self.cfg.shared_bytes, self.data_bytes) // BANK_BYTES
        self.text("umov ur36, 0", f"umov ur37, {self.random.randrange(0, self.data_bytes - 16 * blocks + 1, 16)}",
                  f"copy_block.shared.global ur36, ur37, {blocks}, b0", f"barrier.expect b0, {16 * blocks}", "barrier.wait b0")
        for register in self.offsets:
            self.define_offset(register)
        for segment in range(0, 12, 2):
            self.define_segment(segment)
        for _ in range(12):
            self.load(Width.V4)

    def _stored_factors(self):
        """Factor registers that the end stores: all, or a part, drawn, where they are many or the instruction memory has no room."""
        words, factors = self.cfg.instruction_words, self.cfg.factor_registers
        count = min(factors, MOST_FACTORS, (words - BESIDE_ITEMS - min(LEAST_ITEMS, words // 8) - OTHER_RESULTS) * 4 // 5 // 4 * 4)
        first = self.random.randrange(0, factors - count + 1, 4) if count < factors else 0
        return range(FIRST_FACTOR_REGISTER + first, FIRST_FACTOR_REGISTER + first + count)

    def _room(self):
        return self.cfg.instruction_words - OTHER_RESULTS - len(self.stored) * 5 // 4 - BESIDE_ITEMS

    def epilogue(self):
        """Store what a program can see, or nothing. The last registers hold offsets and are stored before they are needed."""
        text = self.text
        text("wait")
        self.races.wait()
        if not self._stores_state:
            text("halt")
            return
        offset = self.cfg.registers - 1
        text(f"umov ur63, {self.data_bytes:#x}", "segment.global.b128.d1 ur0, ur63", "mov r255, %tid")
        self.times("r255", "r254", self.record_bytes // BANK_BYTES)
        text(f"mov r{offset}, r255")
        for register in range(0, PRODUCT_REGISTERS, 4):
            text(f"st.v4 ur0:rf{offset}:{register // 4}, r{register}")
        place = PRODUCT_REGISTERS // 4
        values = [*(f"r{number}" for number in self.stored), *(f"ur{number}" for number in range(UNIFORM_REGISTERS))]
        for index in range(0, len(values), 4):
            group = index // 4 % 2 * 4
            text(*(f"mov r{group + part}, {value}" for part, value in enumerate(values[index:index + 4])),
                 f"st.v4 ur0:rf{offset}:{place}, r{group}")
            place += 1
        text("mov r0, 0")
        text(*(f"@p{number} or r0, r0, {1 << number}" for number in range(PREDICATES)), "umov ur62, 0")
        text(*(f"@up{number} uor ur62, ur62, {1 << number}" for number in range(LOOP_PREDICATE + 1)))
        text("mov r1, ur62", f"st.v2 ur0:rf{offset}:{place}, r0", "umov ur60, 0",
             f"umov ur61, {self.shared_results:#x}", f"copy_block.global.shared ur61, ur60, {self.cfg.shared_bytes // 16}", "halt")

    def times(self, register, scratch, factor):
        """register = register x factor by shifts and adds."""
        self.text(f"mov {scratch}, 0")
        for bit in range(factor.bit_length()):
            if factor >> bit & 1:
                self.text(f"add {scratch}, {scratch}, {register}")
            self.text(f"shl {register}, {register}, 1")
        self.text(f"mov {register}, {scratch}")

    # -- structure --------------------------------------------------------------------------

    def enter(self, again=False):
        super().enter()
        before = self.races.snapshot()
        if again:
            self.text("wait")       # the end of the loop before it
            self.races.wait()
        return set() if again else before

    def leave(self, before):
        super().leave(before)
        self.races.merge(before)

    # -- addresses --------------------------------------------------------------------------

    def writable(self, first, count=1):
        return super().writable(first, count) and not any(number in self.offsets for number in range(first, first + count))

    def define_offset(self, register):
        """A pattern over the threads, not beyond 12 bits; some are negative."""
        values = np.arange(self.cfg.threads, dtype=np.int64)
        self.text(f"mov r{register}, %tid")
        for _ in range(self.random.randrange(3)):
            function = self.random.choice(("xor", "shl", "add", "sub", "shr"))
            number = {"xor": self.random.randrange(self.cfg.threads), "shl": self.random.randrange(5),
                      "shr": 1}.get(function, self.random.randrange(16))
            self.text(f"{function} r{register}, r{register}, {number}")
            if function == "xor" and (values < 0).any() or function == "shr" and (values < 0).any():
                self.text(f"mov r{register}, %tid")
                values = np.arange(self.cfg.threads, dtype=np.int64)
                continue
            operation = {"xor": np.bitwise_xor, "shl": np.left_shift, "add": np.add, "sub": np.subtract, "shr": np.right_shift}
            values = operation[function](values, number)
        self.offsets[register] = values

    def define_segment(self, number, space=None, base=None, shift=None, swizzle=None):
        """A segment anywhere in its memory, or as given."""
        space = space or self.random.choice(("shared", "shared", "global"))
        shift = self.random.randrange(5) if shift is None else shift
        base = self.random.randrange(0, self.sizes[space] // 2, 16) if base is None else base
        swizzle = (self.swizzle() if space == "shared" else "") if swizzle is None else swizzle
        source = f"{base:#x}"
        if self.random.random() < 0.3:
            register = self.random.randrange(FIRST_COPY_UNIFORM, UNIFORM_REGISTERS)
            self.text(f"umov ur{register}, {source}")
            source = f"ur{register}"
        self.text(f"segment.{space}.b{8 << shift}.d1{swizzle} ur{number}, {source}")
        self.segments[number] = (space, base, shift, swizzle)

    def segment(self):
        if self.depth == 0:
            self.define_segment(self.random.randrange(12))

    def place(self, size, align, registers, *, space=None, distinct=False, panel=False):
        """An address whose ``size`` bytes lie in memory at multiples of ``align`` for all threads, or None when none was found.

        ``distinct``: no two threads meet. ``panel``: the bytes of each thread lie in one row of a swizzled tile. Returns its text, space,
        first byte and end over all threads, of a swizzled tile whole rows.
        """
        register = self.random.choice(registers)
        known = [entry for entry in self.segments.items() if space in (None, entry[1][0]) and entry[0] not in SEGMENTS_IN_LOOPS]
        if known and self.random.random() < 0.6:
            number, (where, base, shift, swizzle) = self.random.choice(known)
        else:
            number, where, base = self.random.choice(SEGMENTS_IN_LOOPS), space or self.random.choice(("shared", "global")), None
            shift, swizzle = self.random.randrange(5), self.swizzle()
        spread = self.offsets[register] << shift
        if (spread % align).any() or distinct and len(set(spread // size)) < self.cfg.threads:
            return None
        low, high = -int(spread.min()), self.sizes[where] - size - int(spread.max())       # of base + immediate
        if low > high:
            return None
        if base is None:
            base = self.random.randrange(-(-low // align) * align, high + 1, align) if -(-low // align) * align <= high else None
            if base is None:
                return None
            row = base // ROW_BYTES * ROW_BYTES
            if swizzle and panel and row >= low and not in_rows(base + spread, size):
                base = row
            if where == "global" or panel and not in_rows(base + spread, size):
                swizzle = ""
            step = max(align >> shift, 1) << shift
            move = self.random.choice((0, 0, 1, -1, 5)) * step
            self.define_segment(number, where, base - move & 0xFFFFFFFF, shift, swizzle)
            immediate = move >> shift
        else:
            step = max(align, 1 << shift)
            choices = range(-(-(low - base) // step) * step, high - base + 1, step)
            if base % align or not choices:
                return None
            immediate = self.random.choice(choices) >> shift
            base += immediate << shift
            if swizzle and panel and not in_rows(base + spread, size):
                return None
        first, end = base - low, base + int(spread.max()) + size
        if swizzle:
            first, end = first // ROW_BYTES * ROW_BYTES, -(-end // ROW_BYTES) * ROW_BYTES
        return f"ur{number}:rf{register}:{immediate}", where, first, end

    def settle(self, *accesses):
        """Wait for everything that these accesses must not meet."""
        conflicts = self.races.conflicts(*accesses)
        while conflicts:
            barriers = {access.barrier for access in conflicts if access.unit == "copy"}
            units = sorted({access.unit for access in conflicts})
            groups = {access.group for access in conflicts}
            if None not in groups and self.depth == 0 and self.random.random() < 0.7:
                read = not any(access.writes for access in conflicts)
                self.wait_for_groups(self.races.groups - 1 - max(groups), read and self.random.random() < 0.8)
            elif units == ["copy"] and None not in barriers and self.random.random() < 0.7:
                for barrier in barriers:
                    self.text(f"barrier.wait b{barrier}")
                    self.races.wait_barrier(barrier)
            elif self.random.random() < 0.2:
                self.text("wait")
                self.races.wait()
            else:
                self.text("wait" + "".join(f".{unit}" for unit in units))
                self.races.wait(*units)
            conflicts = self.races.conflicts(*accesses)
        self.races.add(*accesses)

    # -- instructions -----------------------------------------------------------------------

    def thread_special(self):
        if self.depth == 0 and self.random.random() < 0.3:
            self.define_offset(self.random.choice(list(self.offsets)))
        else:
            super().thread_special()

    def wait(self):
        if self.random.random() < 0.3:          # what is then over depends on the instructions before: taken as nothing
            self.text(f"wait_thread {self.random.randrange(1, 8)}")
            return
        units = [unit for unit in ("thread", "copy", "matrix") if self.random.random() < 0.4]
        self.text("wait" + "".join(f".{unit}" for unit in units))
        self.races.wait(*units)

    def barrier(self):
        """Expected bytes are told with each copy; waiting is right at any time."""
        barrier = self.random.randrange(BARRIERS)
        self.text(f"barrier.wait b{barrier}")
        self.races.wait_barrier(barrier)

    def load(self, access=None):
        access = access or self.random.choice(list(Width))
        size = ACCESS_BYTES[access]
        if place := self.place(size, size, list(self.offsets)):
            self.settle(Access("thread", *place[1:], False))
            self.text(f"{self.guard('p')}ld.{access.name.lower()} r{self.register(max(1, size // 4), writes=True)}, {place[0]}")

    def store(self):
        name = self.random.choice(list(STORES))
        size = ACCESS_BYTES[STORES[name]]
        if place := self.place(size, size, list(self.offsets), distinct=True):
            self.settle(Access("thread", *place[1:], True))
            self.text(f"{self.guard('p')}st.{name} {place[0]}, r{self.register(max(1, size // 4), product=True)}")

    def matrix(self):
        if self.transposes():
            self.matrix_transposed()
            return
        factors, slices, merge, words = self.shape_of_product()
        registers = [number for number in self.offsets if number >= FIRST_FACTOR_REGISTER]
        if place := self.place(self.cfg.dot * slices * words, self.cfg.dot, registers, space="shared", panel=True):
            self.settle(Access("matrix", *place[1:], False))
            self.matrix_text(self.products(), place[0], factors, slices, merge)

    def matrix_transposed(self):
        """The uniform register with the number of the segment takes the distance of the rows."""
        element = self.element()
        pitch = BANK_BYTES * self.random.choice((0, 1, 1, 3, self.random.randrange(12)))
        factors, slices, merge, words = self.shape_of_product()
        rows = slices * words * self.cfg.dot * 8 // element
        registers = [number for number in self.offsets if number >= FIRST_FACTOR_REGISTER]
        if place := self.place((rows - 1) * pitch + element // 8, element // 8, registers, space="shared"):
            segment = int(place[0].split(":")[0][2:])
            self.settle(Access("matrix", *place[1:], False))
            self.text(f"umov ur{segment}, {pitch >> self.segments[segment][2]}")
            self.matrix_text(self.products(), place[0], factors, slices, merge + ".t1", element)

    def shape_of_product(self):
        """First factor register, slices, merge, and words of a column in a slice; a long sum over many lanes is cut short."""
        factors, slices = self.slices()
        merge, words = self.merge()
        return factors, min(slices, max(1, MOST_STEPS // (self.cfg.threads * words))), merge, words

    def products(self):
        """First product register of an mm that leaves those of offsets alone."""
        target = self.register(product=True)
        if target + self.cfg.threads > PRODUCT_REGISTERS - OFFSETS:
            target = self.random.randrange(PRODUCT_REGISTERS - OFFSETS - self.cfg.threads + 1)
        return target

    def ends(self, size):
        """Spaces and first addresses of a copy of so many bytes; ``destination, source`` each (space, address)."""
        spaces = self.spaces(within=True).split(".")
        while True:
            ends = [(space, self.random.randrange(0, self.sizes[space] - size + 1, BANK_BYTES)) for space in spaces]
            if spaces[0] != spaces[1] or abs(ends[0][1] - ends[1][1]) >= size:
                return ends

    def registers_of_copy(self):
        """Three pairs of uniform registers."""
        return self.random.sample(range(FIRST_COPY_UNIFORM, UNIFORM_REGISTERS - 1, 2), 3)

    def finish_copy(self, text, size, accesses):
        """Emit a copy with its barrier."""
        barrier = self.random.choice((None, self.random.randrange(BARRIERS), self.random.randrange(BARRIERS)))
        ends = {writes: space for space, _, _, writes in accesses}
        stores = ends == {False: "shared", True: "global"}      # copies within a memory belong to no group
        self.settle(*(Access("copy", *access, barrier, stores) for access in accesses if access[1] < access[2]))
        if barrier is None:
            self.text(text)
            return
        both = [f"{text}, b{barrier}", f"barrier.expect b{barrier}, {size}"]
        self.text(*(both if self.random.random() < 0.5 else both[::-1]))

    def copy_block(self):
        blocks = self.random.choice((0, 1, 2, 3, 8, 32, 33, 70))
        size = BANK_BYTES * blocks
        (to, first), (come, start) = self.ends(size)
        a, b, c = self.registers_of_copy()
        self.text(f"umov ur{a}, {first:#x}", f"umov ur{b}, {start:#x}")
        count = blocks
        if self.random.random() < 0.5:
            self.text(f"umov ur{c}, {blocks}")
            count = f"ur{c}"
        swizzle, accesses = "", [(to, first, first + size, True), (come, start, start + size, False)]
        if to != come and (swizzle := self.swizzle()):      # the blocks of a row of 128 bytes change places
            accesses = [(space, low // ROW_BYTES * ROW_BYTES, -(-high // ROW_BYTES) * ROW_BYTES if blocks else low, writes)
                        if space == "shared" else (space, low, high, writes) for space, low, high, writes in accesses]
        spaces = f"{to}.{come}"
        self.finish_copy(f"copy_block.{spaces}{swizzle}{self.reduction(spaces)} ur{a}, ur{b}, {count}", size, accesses)

    def copy_rows(self):
        """Rows of the destination do not overlap; those of the source may."""
        rows, blocks = self.random.choice((0, 1, 2, 3, 7)), self.random.choice((0, 1, 2, 5))
        row = BANK_BYTES * blocks
        pitches = [row + BANK_BYTES * self.random.randrange(3), BANK_BYTES * self.random.randrange(-2, 5)]
        if self.random.random() < 0.2:
            pitches[0] *= -1
        spans = [max(rows - 1, 0) * abs(pitch) + row for pitch in pitches]
        ends = self.ends(max(spans))
        firsts = [end + (0 if pitch >= 0 else -pitch * max(rows - 1, 0)) for (_, end), pitch in zip(ends, pitches)]
        a, b, c = self.registers_of_copy()
        for pair, values in ((a, (firsts[0], pitches[0])), (b, (firsts[1], pitches[1])), (c, (blocks, rows))):
            self.text(*(f"umov ur{pair + part}, {value}" for part, value in enumerate(values)))
        accesses = [(space, end, end + span if rows * blocks else end, writes)
                    for (space, end), span, writes in zip(ends, spans, (True, False))]
        spaces = ".".join(space for space, _ in ends)
        self.finish_copy(f"copy_rows.{spaces}{self.reduction(spaces)} ur{a}, ur{b}, ur{c}", rows * row, accesses)
