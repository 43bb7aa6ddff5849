"""Random legal programs for the front end."""

from heddle.constants import (
    BARRIERS,
    FIRST_FACTOR_REGISTER,
    PREDICATES,
    PRODUCT_REGISTERS,
    SEGMENTS,
    STORE_GROUPS,
    UNIFORM_PREDICATES,
    UNIFORM_REGISTERS,
)
from heddle.interfaces.reductions import reducible_formats
from heddle.isa.compiled_offsets import GATHERED_BYTES
from heddle.isa.encoding import ACCESS_BYTES, UNIFORM_FUNCTIONS, Access, AluFunction, CompareFunction, Swizzle
from heddle.isa.tensor_descriptor import FLOAT_FORMATS
from heddle.isa.tensor_rules import REDUCTION_FORMATS

from .swizzles import random_mode
from .text import Text

__all__ = ["GATHERS", "ProgramGenerator", "STORES", "reducible_pairs"]

CORNERS = (0, 1, 2, 4, 31, 32, 33, 255, 256, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF)
ALU = [function.name.lower() for function in UNIFORM_FUNCTIONS if function is not AluFunction.MOV]
THREAD_ALU = [*ALU, "mov", "mov", "sel", "sel", "mul", "mulh", "mulh.u", "narrow.s8", "narrow.u8", "scale.s8", "scale.u8"]
COMPARE = [function.name.lower() for function in CompareFunction]
STORES = {"b8": Access.U8, "b16": Access.U16, "b32": Access.B32, "v2": Access.V2, "v4": Access.V4}
LOOP_PREDICATE = UNIFORM_PREDICATES - 1     # not written but by the ends of loops
FIRST_COUNTER, COUNTERS = 32, 4             # uniform registers of loops, by depth
SHARED_SEGMENTS = range(12, SEGMENTS)       # always in shared memory: mm takes no others
GATHERS = {"b8": 1, "b32": 4, "v2": 8, "v4": 16}       # bytes of an element
ROW_COUNTS = range(57, 64, 2)               # uniform registers that hold small numbers of rows


def reducible_pairs(cfg):
    """Reductions with their formats that the configuration has."""
    formats = reducible_formats(cfg)
    return [(reduction, format) for reduction, kinds in REDUCTION_FORMATS.items() for format in formats if format in kinds]


class ProgramGenerator:
    """Programs for the front end; what must be otherwise in programs that are executed is overridden there."""

    hint_end = 0        # of what prefetches that have an effect may name; 0: anything

    def __init__(self, source, cfg):
        self.random, self.cfg = source, cfg
        self.text = Text()
        self.uniforms = [number for number in range(64)
                         if number not in ROW_COUNTS and not FIRST_COUNTER <= number < FIRST_COUNTER + COUNTERS]
        window = source.randrange(0, PRODUCT_REGISTERS - 48)
        self.hot = [*range(window, window + 24)]        # instructions of different units often meet here
        window = source.randrange(FIRST_FACTOR_REGISTER, cfg.registers - 24)
        self.hot += range(window, window + 16)
        self.depth = 0                                  # of blocks and loops
        self.loops = 0
        kinds = {self.uniform_alu: 4, self.uniform_compare: 2, self.uniform_special: 1, self.thread_alu: 4, self.thread_compare: 2,
                 self.thread_special: 1, self.lane_mask: 1, self.segment: 2, self.load: 3, self.store: 3, self.matrix: 5,
                 self.copy_block: 1, self.copy_rows: 1, self.barrier: 1, self.wait: 1, self.nop: 1, self.block: 2, self.loop: 1}
        if cfg.tensors:
            kinds |= {self.copy_tensor: 1, self.tensor_hint: 1, self.invalidate_descriptor: 1, self.commit_group: 1, self.wait_group: 1}
        if cfg.gather_offsets:
            kinds |= {self.gather: 2}
        if cfg.tile_scheduler:
            kinds |= {self.take_tile: 1}
        self._kinds, self._weights = list(kinds), list(kinds.values())

    # -- structure --------------------------------------------------------------------------

    def program(self, length):
        self.prologue()
        self.items(length)
        self.epilogue()
        return str(self.text)

    def prologue(self):
        for segment in SHARED_SEGMENTS:
            self.text(f"segment.shared.b{8 << self.random.randrange(5)}.d1{self.swizzle()} ur{segment}, {self.number()}")

    def epilogue(self):
        """Show what uniform instructions have done."""
        self.text(*(f"mov r{number}, ur{number}" for number in range(UNIFORM_REGISTERS)), "umov ur0, 0")
        self.text(*(f"@up{number} uor ur0, ur0, {1 << number}" for number in range(UNIFORM_PREDICATES)), "mov r0, ur0", "halt")

    def items(self, length):
        end = self.text.count + length
        while self.text.count < end:
            self.random.choices(self._kinds, self._weights)[0]()

    def block(self):
        """Instructions behind a forward branch."""
        if self.depth == 3:
            return
        label = self.text.label("behind")
        self.text(f"{self.guard('up')}bra {label}")
        before = self.enter()
        self.items(self.random.randrange(1, 8))
        self.leave(before)
        self.text.place(label)

    def loop(self):
        """A counted loop; what the uniform registers of counters hold does not matter elsewhere."""
        if self.depth == 3 or self.loops == COUNTERS:
            return
        label, counter = self.text.label("again"), FIRST_COUNTER + self.loops
        self.text(f"umov ur{counter}, {self.random.randrange(1, 4)}")
        self.text.place(label)
        self.loops += 1
        before = self.enter(again=True)
        self.items(self.random.randrange(2, 8))
        self.leave(before)
        self.loops -= 1
        self.text(f"usub ur{counter}, ur{counter}, 1", f"usetp.gt up{LOOP_PREDICATE}, ur{counter}, 0", f"@up{LOOP_PREDICATE} bra {label}")

    def enter(self, again=False):
        """Begin of a block or (``again``) loop; returns what ``leave`` needs."""
        self.depth += 1

    def leave(self, before):
        self.depth -= 1

    # -- operands ---------------------------------------------------------------------------

    def number(self):
        value = self.random.choice((self.random.getrandbits(32), self.random.choice(CORNERS), self.random.randrange(16)))
        return f"{value:#x}"

    def guard(self, prefix, always=0.5):
        """Text of a guard, empty with probability ``always``."""
        if self.random.random() < always:
            return ""
        return f"@{self.random.choice(('', '!'))}{prefix}{self.random.randrange(PREDICATES)} "

    def writable(self, first, count=1):
        """Registers that instructions may change freely."""
        return first + count <= self.cfg.registers

    def register(self, count=1, product=False, writes=False):
        """Number of the first of ``count`` registers, aligned to them."""
        while True:
            number = self.random.choice(self.hot) if self.random.random() < 0.7 else self.random.randrange(self.cfg.registers)
            number = number // count * count
            if (number < PRODUCT_REGISTERS or not product) and (not writes or self.writable(number, count)):
                return number

    def uniform(self):
        return f"ur{self.random.choice(self.uniforms)}"

    def swizzle(self):
        """Modifier of a swizzle that the configuration has, or none."""
        mode = random_mode(self.random, self.cfg)
        return "" if mode is Swizzle.NONE else f".{mode.name[1:]}B"

    def uniform_source(self):
        return self.random.choice((self.uniform(), self.number()))

    def source(self):
        return self.random.choice((f"r{self.register()}", self.uniform(), self.number()))

    # -- uniform and control instructions ---------------------------------------------------

    def nop(self):
        self.text("nop")

    def uniform_alu(self):
        guard = self.guard("up")
        if self.random.random() < 0.2:
            self.text(f"{guard}umov {self.uniform()}, {self.uniform_source()}")
        else:
            self.text(f"{guard}u{self.random.choice(ALU)} {self.uniform()}, {self.uniform()}, {self.uniform_source()}")

    def uniform_compare(self):
        self.text(f"{self.guard('up')}usetp.{self.random.choice(COMPARE)}{self.random.choice(('', '.u'))} "
                  f"up{self.random.randrange(LOOP_PREDICATE)}, {self.uniform()}, {self.uniform_source()}")

    def uniform_special(self):
        special = self.random.choice(("%threads", "%dot", "%core", "%cores"))
        self.text(f"{self.guard('up')}umov {self.uniform()}, {special}")

    def take_tile(self):
        self.text(f"{self.guard('up')}take_tile {self.uniform()}")

    def segment(self):
        number = self.random.randrange(SEGMENTS)
        space = "shared" if number in SHARED_SEGMENTS else self.random.choice(("shared", "global"))
        swizzle = self.swizzle() if space == "shared" else ""
        self.text(f"{self.guard('up')}segment.{space}.b{8 << self.random.randrange(5)}.d1{swizzle} ur{number}, {self.uniform_source()}")

    def wait(self):
        units = "".join(f".{unit}" for unit in ("thread", "copy", "matrix") if self.random.random() < 0.4)
        wait = f"wait{units}" if self.random.random() < 0.6 else f"wait_thread {self.random.choice((0, 1, 2, 3, 5, 31))}"
        self.text(f"{self.guard('up', 0.8)}{wait}")

    def barrier(self):
        barrier = self.random.randrange(BARRIERS)
        if self.random.random() < 0.5:
            self.text(f"{self.guard('up')}barrier.expect b{barrier}, {self.uniform_source()}")
        else:
            self.text(f"{self.guard('up')}barrier.wait b{barrier}")

    # -- thread instructions ----------------------------------------------------------------

    def output_stage(self):
        """Biases and multipliers, or four registers with them to bytes."""
        if self.random.random() < 0.4:
            self.text(f"channel r{self.register()}, {self.source()}, {self.random.randrange(4)}")
            return
        kind = f"{self.random.choice(('s8', 'u8'))}{self.random.choice(('', '.t', *['.g'] * self.cfg.packs_groups))}"
        self.text(f"{self.guard('p')}requant.{kind} r{self.register(writes=True)}, r{self.register(4, product=True)}, "
                  f"{self.uniform_source()}, {self.random.choice((0, 1, 8, 12, 20, 31))}")

    def thread_alu(self):
        if self.cfg.output_stage and self.random.random() < 0.1:
            self.output_stage()
            return
        guard, function = self.guard("p"), self.random.choice(THREAD_ALU)
        narrows = function.startswith(("narrow", "scale"))
        vector = narrows or self.random.random() < 0.3
        many = 4 if vector and not narrows else 1
        target = f"r{self.register(many, writes=True)}"
        operands = [target, f"r{self.register(4, product=True)}" if vector else f"r{self.register()}",
                    self.uniform_source() if vector else self.source()]
        if function.startswith("scale"):
            operands.append(f"{self.random.choice((0, 1, 8, 12, 20, 31))}")
        if function == "mov":
            del operands[1]
        if function == "sel":
            guard = ""
            operands.insert(1, f"{self.random.choice(('', '!'))}p{self.random.randrange(PREDICATES)}")
        self.text(f"{guard}{function}{'.v4' if many == 4 else ''} {', '.join(operands)}")

    def thread_compare(self):
        self.text(f"{self.guard('p')}setp.{self.random.choice(COMPARE)}{self.random.choice(('', '.u'))} "
                  f"p{self.random.randrange(PREDICATES)}, r{self.register()}, {self.source()}")

    def thread_special(self):
        special = self.random.choice(("%tid", "%tid", "%threads", "%dot", "%core", "%cores"))
        self.text(f"{self.guard('p')}mov r{self.register(writes=True)}, {special}")

    def lane_mask(self):
        self.text(f"{self.guard('p', 0.3)}lanemask")

    def address(self):
        return f"ur{self.random.randrange(SEGMENTS)}:rf{self.register()}:{self.number()}"

    def load(self):
        access = self.random.choice(list(Access))
        count = max(1, ACCESS_BYTES[access] // 4)
        self.text(f"{self.guard('p')}ld.{access.name.lower()} r{self.register(count, writes=True)}, {self.address()}")

    def store(self):
        name = self.random.choice(list(STORES))
        count = max(1, ACCESS_BYTES[STORES[name]] // 4)
        self.text(f"{self.guard('p')}st.{name} {self.address()}, r{self.register(count, product=True)}")

    def gather(self):
        name, size = self.random.choice(list(GATHERS.items()))
        count = self.random.randrange(1, GATHERED_BYTES // size + 1)
        address = f"ur{self.random.choice(SHARED_SEGMENTS)}:rf{self.register()}:{self.number()}"
        first = self.random.choice((0, 1, 4095, self.random.randrange(4096)))
        self.text(f"{self.guard('p')}gather.{name}.k{count} r{self.register(4, writes=True)}, {address}, {first}")

    # -- mm and copies ----------------------------------------------------------------------

    def slices(self):
        """First factor register and number of words of an mm."""
        slices = min(self.random.choice((1, 1, 2, 3, 5, 16)), self.cfg.factor_words)
        word = self.random.randrange(self.cfg.factor_words - slices + 1)
        return FIRST_FACTOR_REGISTER + word * self.cfg.numbers_per_word, slices

    def merge(self):
        """Modifiers of a merge that the threads allow, and the number of words of a column in a slice."""
        if self.random.random() < 0.1:
            return ".sum", self.cfg.threads
        ka, kb = (self.random.choice((1, 1, 2, 3, 4)) for _ in range(2))
        if ka > 2 and kb > 2 and self.cfg.threads < 16:
            ka = 2
        columns = f".ka{ka}{self.random.choice(('', 'i'))}" if ka > 1 else ""
        return columns + (f".kb{kb}d{self.random.randrange(kb)}" if kb > 1 else ""), kb

    def matrix_text(self, target, address, factors, slices, merge, element=None):
        signs = f".{self.random.choice('us')}a.{self.random.choice('us')}b"
        flags = self.random.choice(("", ".kin")) + self.random.choice(("", ".z"))
        element = element or self.element()
        self.text(f"{self.guard('p')}mm{element}{merge}{signs}.k{slices}{flags} r{target}, {address}, r{factors}")

    def transposes(self):
        return self.cfg.transpose and self.random.random() < 0.3

    def element(self):
        return self.random.choice((8, 16)) if self.cfg.mm16 else 8

    def matrix_address(self):
        segment, offset = self.random.choice(SHARED_SEGMENTS), self.random.randrange(FIRST_FACTOR_REGISTER, self.cfg.registers)
        return f"ur{segment}:rf{offset}:{self.number()}"

    def offsets(self, address):
        slices = self.random.randrange(1, min(16, self.cfg.offset_words) + 1)
        self.text(f"offsets.k{slices} {self.random.randrange(self.cfg.offset_words - slices + 1)}, {address}")

    def matrix(self):
        address = self.matrix_address()
        if self.cfg.compiled_offsets and self.random.random() < 0.1:
            self.offsets(address)
            return
        merge = self.merge()[0] + (".t1" if self.transposes() else "")
        if self.cfg.compiled_offsets and self.random.random() < 0.2:
            merge = ".ob" if self.cfg.byte_entries and self.random.getrandbits(1) else f".ka{self.random.randrange(1, 5)}.ow"
        self.matrix_text(self.register(product=True), address, *self.slices(), merge)

    def spaces(self, within=False):
        """Destination and source, also the same ones ``within`` where the configuration has that."""
        pairs = [("shared", "global"), ("global", "shared")]
        pairs += [("shared", "shared"), ("global", "global")] if within and self.cfg.copy_within else []
        return ".".join(self.random.choice(pairs))

    def reduction(self, spaces):
        """Modifiers of a reduction of blocks, or none; within shared memory of integers."""
        if not self.cfg.reductions or spaces == "shared.global" or self.random.random() < 0.4:
            return ""
        reduction, format = self.random.choice([
            pair for pair in reducible_pairs(self.cfg) if spaces.startswith("global") or pair[1] not in FLOAT_FORMATS])
        return f".{reduction.name.lower()}.{format.name.lower()}"

    def copy_block(self):
        barrier = self.random.choice(("", f", b{self.random.randrange(BARRIERS)}"))
        spaces = self.spaces(within=True)
        swizzle = self.swizzle() + self.reduction(spaces)
        multicast, mask = self.multicast(spaces)
        self.text(f"{self.guard('up')}copy_block.{spaces}{swizzle}{multicast} {self.uniform()}, {self.uniform()}, "
                  f"{self.uniform_source()}{mask}{barrier}")

    def multicast(self, spaces):
        """Modifier and operand of a multicast, where there is one; its mask is set before."""
        if not self.cfg.multicast or spaces != "shared.global" or self.random.random() < 0.5:
            return "", ""
        number = self.random.choice(self.uniforms)
        self.text(f"umov ur{number}, {self.random.randrange(1, 1 << self.cfg.cores)}")
        return ".multicast", f", ur{number}"

    def copy_rows(self):
        barrier = self.random.choice(("", f", b{self.random.randrange(BARRIERS)}"))
        rows = self.random.choice(ROW_COUNTS)
        pairs = [self.random.randrange(0, 30, 2) for _ in range(2)]
        self.text(f"umov ur{rows}, {self.random.choice((0, 1, 2, 3, 7))}",
                  f"{self.guard('up')}copy_rows.{self.spaces()} ur{pairs[0]}, ur{pairs[1]}, ur{rows - 1}{barrier}")

    def tensor_registers(self):
        """Mode and rank, and the uniform registers of descriptor, coordinates and offsets."""
        mode = self.random.choice(("tile", "im2col"))
        rank = self.random.randrange(1 if mode == "tile" else 3, 6)
        numbers = [self.random.randrange(64), self.random.randrange(65 - rank)]
        numbers += [self.random.randrange(67 - rank)] if mode == "im2col" else []
        return f"{mode}.{rank}d", ", ".join(f"ur{number}" for number in numbers)

    def copy_tensor(self):
        barrier = self.random.choice(("", f", b{self.random.randrange(BARRIERS)}"))
        form, registers = self.tensor_registers()
        spaces = self.spaces()
        reduction = self.random.choice(("", ".add", ".xor")) if spaces.startswith("global") else ""
        multicast, mask = self.multicast(spaces)
        self.text(f"{self.guard('up')}copy_tensor.{form}.{spaces}{multicast}{reduction} {self.uniform()}, {registers}{mask}{barrier}")

    def tensor_hint(self):
        if self.hint_end and self.cfg.prefetches:
            uniform, blocks = self.random.choice(self.uniforms), self.random.choice((0, 1, 9, 70))
            start = self.random.randrange(0, self.hint_end - 16 * blocks + 1, 16)
            self.text(f"umov ur{uniform}, {start:#x}", f"{self.guard('up')}prefetch_block ur{uniform}, {blocks}")
            return
        form, registers = self.tensor_registers()
        self.text(f"{self.guard('up')}" + self.random.choice((f"prefetch_tensor.{form} {registers}",
                                                              f"prefetch_block {self.uniform()}, {self.uniform_source()}")))

    def commit_group(self):
        self.text(f"{self.guard('up')}commit_group")

    def wait_group(self):
        number = self.random.choice((*range(STORE_GROUPS + 1), 9, 16, "0x80000000"))
        self.text(f"{self.guard('up')}wait_group{self.random.choice(('', '.read'))} {number}")

    def invalidate_descriptor(self):
        self.text(f"{self.guard('up')}invalidate_descriptor {self.uniform()}")
