"""Instruction table: text form, operands, fixed fields and meaning of every instruction."""

from dataclasses import dataclass, field

from .compiled_offsets import GATHERED_BYTES
from .encoding import ACCESS_BYTES, Access, AluFunction, CompareFunction, ElementType, Opcode, OutputUse, WaitUnit
from .tensor_descriptor import TensorMode

__all__ = ["Operand", "Instruction", "INSTRUCTIONS", "Unit"]


class Unit:
    """Unit that executes an instruction, by its name in the documentation."""

    CONTROL = "control"
    UNIFORM = "uniform"
    THREAD = "thread"
    MATRIX = "matrix"
    COPY = "copy"


@dataclass(frozen=True)
class Operand:
    """Operand in the text of an instruction.

    ``kind`` is one of

    - ``register``: ``r0`` … into ``field``;
    - ``uniform``: ``ur0`` … into ``field``;
    - ``predicate`` / ``uniform_predicate``: ``p0`` … / ``up0`` … into ``field``;
    - ``source``: operand b of thread instructions: ``r5``, ``ur6`` or an immediate (fields b, b_source, imm);
    - ``amount``: a number, into ``field``;
    - ``select``: ``p1`` or ``!p1`` instead of a guard (fields guard, guard_negate);
    - ``uniform_source``: ``ur6`` or an immediate (fields b, b_source, imm);
    - ``special``: ``%tid`` … into the ALU modifiers;
    - ``address``: ``ur4:rf290:0x10``: segment into b, first offset register into a, immediate into imm;
    - ``segment``: ``ur4`` as name of a segment-table entry, into ``field``;
    - ``barrier``: ``b0`` into ``field`` (``b`` or the copy modifiers);
    - ``label``: a label or an instruction number, into imm;
    - ``immediate``: a number, into imm.

    ``modifier`` is the one-bit field without which the operand is absent.
    """

    kind: str
    field: str = ""
    optional: bool = False
    modifier: str = ""


@dataclass(frozen=True)
class Instruction:
    """Row of the instruction table.

    ``modifiers`` names the modifier group of the text: ``"matrix"``, ``"slices"``, ``"gather"``, ``"copy"``, ``"block"``, ``"tensor"``,
    ``"rank"``, ``"segment"``, ``"wait"``, ``"group"``, ``"compare"``, ``"alu"``, ``"mulh"``, ``"narrow"``, ``"output"`` or ``""``.
    ``fixed`` holds field values
    that the mnemonic implies; dotted names address the modifiers.
    """

    mnemonic: str
    opcode: Opcode
    unit: str
    operands: tuple
    doc: str
    fixed: dict = field(default_factory=dict)
    modifiers: str = ""


_NO_OUTPUT = {"modifiers.alu.output": OutputUse.NONE}


def _alu():
    text = {
        AluFunction.ADD: "a + b", AluFunction.SUB: "a - b", AluFunction.AND: "a and b", AluFunction.OR: "a or b",
        AluFunction.XOR: "a xor b", AluFunction.SHL: "a shifted left by b mod 32",
        AluFunction.SHR: "a shifted right by b mod 32, zeros in",
        AluFunction.SAR: "a shifted right by b mod 32, sign in", AluFunction.MIN: "signed minimum of a and b",
        AluFunction.MAX: "signed maximum of a and b",
    }
    for function, doc in text.items():
        name = function.name.lower()
        yield Instruction(name, Opcode.THREAD_ALU, Unit.THREAD,
                          (Operand("register", "dst"), Operand("register", "a"), Operand("source")),
                          f"dst = {doc}, 32 bits.", {"modifiers.alu.function": function} | _NO_OUTPUT, "alu")
        yield Instruction("u" + name, Opcode.UNIFORM_ALU, Unit.UNIFORM,
                          (Operand("uniform", "dst"), Operand("uniform", "a"), Operand("uniform_source")),
                          f"dst = {doc}, 32 bits.", {"modifiers.alu.function": function})
    move = {"modifiers.alu.function": AluFunction.MOV}
    yield Instruction("mov", Opcode.THREAD_ALU, Unit.THREAD, (Operand("register", "dst"), Operand("source")),
                      "dst = b.", move, "alu")
    yield Instruction("umov", Opcode.UNIFORM_ALU, Unit.UNIFORM, (Operand("uniform", "dst"), Operand("uniform_source")),
                      "dst = b.", move)
    yield Instruction("mov", Opcode.THREAD_SPECIAL, Unit.THREAD, (Operand("register", "dst"), Operand("special")),
                      "dst = special register.")
    yield Instruction("umov", Opcode.UNIFORM_SPECIAL, Unit.UNIFORM, (Operand("uniform", "dst"), Operand("special")),
                      "dst = special register (not %tid).")


def _multiply():
    binary = (Operand("register", "dst"), Operand("register", "a"), Operand("source"))
    yield Instruction("mul", Opcode.THREAD_ALU, Unit.THREAD, binary, "dst = low 32 bits of a x b.",
                      {"modifiers.alu.function": AluFunction.MUL}, "alu")
    yield Instruction("mulh", Opcode.THREAD_ALU, Unit.THREAD, binary,
                      "dst = high 32 bits of the 64-bit product a x b, signed, or unsigned with .u.",
                      {"modifiers.alu.function": AluFunction.MULH}, "mulh")
    yield Instruction("sel", Opcode.THREAD_ALU, Unit.THREAD,
                      (Operand("register", "dst"), Operand("select"), Operand("register", "a"), Operand("source")),
                      "dst = a in threads where the predicate holds (!: does not hold), b in the others. Has no guard.",
                      {"modifiers.alu.function": AluFunction.SEL}, "alu")
    yield Instruction("narrow", Opcode.THREAD_ALU, Unit.THREAD,
                      (Operand("register", "dst"), Operand("register", "a"), Operand("uniform_source")),
                      "Byte j of dst = register a + j (a: a multiple of 4, at most r252) shifted right by b mod 32, rounded to nearest "
                      "(halves up), and saturated to int8 (.s8) or uint8 (.u8).",
                      {"modifiers.alu.function": AluFunction.NARROW}, "narrow")
    yield Instruction("scale", Opcode.THREAD_ALU, Unit.THREAD,
                      (Operand("register", "dst"), Operand("register", "a"), Operand("uniform_source"), Operand("amount", "c")),
                      "mulh (signed) and narrow at once: byte j of dst = high 32 bits of register a + j (a as for narrow) x b, shifted "
                      "right by c mod 32, rounded and saturated.",
                      {"modifiers.alu.function": AluFunction.SCALE} | _NO_OUTPUT, "narrow")
    yield Instruction("channel", Opcode.THREAD_ALU, Unit.THREAD,
                      (Operand("register", "a"), Operand("source"), Operand("amount", "c")),
                      "Output stage: bias of each thread = a, its multiplier = b, in set c (0 to 3), in all threads, whatever the guard.",
                      {"modifiers.alu.function": AluFunction.ADD, "modifiers.alu.output": OutputUse.CHANNEL})
    yield Instruction("requant", Opcode.THREAD_ALU, Unit.THREAD,
                      (Operand("register", "dst"), Operand("register", "a"), Operand("uniform_source"), Operand("amount", "c")),
                      "Output stage: byte j of dst = scale of register a + j (a as for narrow) + bias by the thread's multiplier, plus a "
                      "zero point, within bounds. b: zero point (bits 7 to 0), minimum (15 to 8), maximum (23 to 16), each of the type of "
                      "the bytes, and the set of biases and multipliers (25 to 24). With bit 26 a bias has 27 bits, and bits 31 to 27 are "
                      "the shift of its thread, in place of c. With bit 27 the product is rounded to a multiple of 2^31 first, and halves "
                      "of results are rounded away from zero. With .t, byte j of thread t of a group becomes byte t mod 4 of thread "
                      "T j + t div 4, T = thread_slots / 4: a word then holds neighbouring threads. With .g, byte j of thread t of group "
                      "i is that of register a + i of thread t of group j: a word then holds threads thread_slots apart.",
                      {"modifiers.alu.function": AluFunction.SCALE}, "output")


def _compare():
    for function in CompareFunction:
        name, fixed = function.name.lower(), {"modifiers.alu.compare": function}
        yield Instruction(f"setp.{name}", Opcode.THREAD_COMPARE, Unit.THREAD,
                          (Operand("predicate", "dst"), Operand("register", "a"), Operand("source")),
                          "Predicate dst = comparison of a with b, signed, or unsigned with .u.", fixed, "compare")
        yield Instruction(f"usetp.{name}", Opcode.UNIFORM_COMPARE, Unit.UNIFORM,
                          (Operand("uniform_predicate", "dst"), Operand("uniform", "a"), Operand("uniform_source")),
                          "Uniform predicate dst = comparison of a with b, signed, or unsigned with .u.", fixed, "compare")


def _memory():
    for access in Access:
        fixed = {"modifiers.memory.access": access}
        yield Instruction(f"ld.{access.name.lower()}", Opcode.LOAD, Unit.THREAD,
                          (Operand("register", "dst"), Operand("address")),
                          "Load into dst (v2, v4: dst and the next registers; dst is a multiple of 2 or 4).", fixed)
        if access in (Access.S8, Access.S16):
            continue
        name = {Access.U8: "b8", Access.U16: "b16"}.get(access, access.name.lower())
        yield Instruction(f"st.{name}", Opcode.STORE, Unit.THREAD, (Operand("address"), Operand("register", "c")),
                          "Store register c (v2, v4: c and the next; a multiple of 2 or 4; at most r255).", fixed)
    for name, access in (("b8", Access.U8), ("b32", Access.B32), ("v2", Access.V2), ("v4", Access.V4)):
        size = ACCESS_BYTES[access]
        most = f"each of 1 to {GATHERED_BYTES // size} entries (.k)" if size < GATHERED_BYTES else "an entry"
        text = "a byte" if size == 1 else f"{size} bytes"
        yield Instruction(f"gather.{name}", Opcode.GATHER, Unit.THREAD,
                          (Operand("register", "dst"), Operand("address"), Operand("amount", "c")),
                          f"Load {text} for {most} of the compiled-offset memory, one behind the other, into dst (a multiple of 4) "
                          "and the next registers; the rest of the last one becomes zero. Uniform register urS of address "
                          "urS:rB:imm has padding and entry; the first entry is this plus c. rB has base and mask of the thread [S2.3].",
                          {"modifiers.memory.access": access}, "gather")


def _matrix():
    text = {
        ElementType.INT8: "Multiply-accumulate the factor registers from c with columns of B into the product registers from dst; thread "
                          "n's guard and offset register say whether and where column n is fetched [S0.1-S0.3].",
        ElementType.INT16: "Like mm8 with 16-bit integers, little-endian: a word of %dot bytes has %dot / 2 of them [S0.15].",
    }
    for element, doc in text.items():
        yield Instruction(f"mm{element.name[3:]}", Opcode.MATRIX, Unit.MATRIX,
                          (Operand("register", "dst"), Operand("address"), Operand("register", "c")), doc,
                          {"modifiers.matrix.element": element}, "matrix")
    yield Instruction("offsets", Opcode.OFFSETS, Unit.MATRIX, (Operand("amount", "c"), Operand("address")),
                      "Load words of %dot bytes, one for each k-slice, from the address of thread 0 into the compiled-offset memory, from "
                      "its word c on. Each 4 bytes are an entry. Behind this instruction mm with .ow or .ob sees them [S2.2].",
                      {"modifiers.matrix.element": ElementType.INT8}, "slices")


_MASK = Operand("uniform", "modifiers.copy.mask", modifier="modifiers.copy.multicast")
_MODES = {TensorMode.TILE: "a box", TensorMode.IM2COL: "a column of pixels"}
_TENSOR_DOC = ("a: address of the descriptor, a multiple of 64; b: first of as many uniform registers as the tensor has dimensions, the "
               "signed coordinates, innermost first")
_OFFSETS_DOC = "; c: first of two less, the offsets of the spatial dimensions (16 bits each), innermost first"


def _tensors():
    for mode, what in _MODES.items():
        registers = (Operand("uniform", "a"), Operand("uniform", "b"), Operand("uniform", "c"))[:2 + (mode is TensorMode.IM2COL)]
        doc, fixed = _TENSOR_DOC + _OFFSETS_DOC * (len(registers) == 3), {"modifiers.copy.mode": mode}
        yield Instruction(f"copy_tensor.{mode.name.lower()}", Opcode.COPY_TENSOR, Unit.COPY,
                          (Operand("uniform", "dst"), *registers, _MASK, Operand("barrier", "modifiers.copy.barrier", optional=True)),
                          f"Copy {what} of a tensor to (.shared.global) or from (.global.shared) shared memory at dst. {doc}. All bytes of "
                          "the box are counted at the barrier [S1.2-S1.10].", fixed, "tensor")
        yield Instruction(f"prefetch_tensor.{mode.name.lower()}", Opcode.PREFETCH_TENSOR, Unit.COPY, registers,
                          f"Hint that {what} of a tensor will be needed; no effect without a second-level cache, and of a box larger than "
                          f"shared memory. {doc} [S1.11].",
                          fixed, "rank")
    yield Instruction("prefetch_block", Opcode.PREFETCH_BLOCK, Unit.COPY, (Operand("uniform", "a"), Operand("uniform_source")),
                      "Hint that b blocks of 16 bytes from address a will be needed; no effect without a second-level cache. "
                      "All of them must lie in global memory; no more than the second level holds are asked for [S1.11].")
    yield Instruction("invalidate_descriptor", Opcode.INVALIDATE_DESCRIPTOR, Unit.COPY, (Operand("uniform", "a"),),
                      "Forget the descriptor of a tensor at address a: it is read again when it is needed. Before its first use by a "
                      "program, and after it was changed; wait for the copies with the old one before [S1.3].")


INSTRUCTIONS = (
    Instruction("nop", Opcode.NOP, Unit.CONTROL, (), "Nothing."),
    Instruction("halt", Opcode.HALT, Unit.CONTROL, (),
                "End the program when all units are idle and all stores are acknowledged."),
    Instruction("trap", Opcode.TRAP, Unit.CONTROL, (Operand("immediate"),), "Stop with error TRAP and this operand."),
    Instruction("bra", Opcode.BRANCH, Unit.CONTROL, (Operand("label"),), "Continue at the label."),
    Instruction("wait", Opcode.WAIT, Unit.CONTROL, (),
                "Wait until the named units (.thread, .copy, .matrix; all without a name) have finished all earlier "
                "instructions and their writes are acknowledged [S1.13].", {"modifiers.wait.unfinished": 0}, "wait"),
    Instruction("wait_thread", Opcode.WAIT, Unit.CONTROL, (Operand("amount", "modifiers.wait.unfinished"),),
                "Wait until at most so many of the last thread instructions are unfinished. A store to shared memory is finished when its "
                "writes are acknowledged, one to global memory when it has been sent; with 0 as wait.thread [S1.13].",
                {"modifiers.wait.units": 1 << WaitUnit.THREAD.value}),
    Instruction("segment", Opcode.SEGMENT, Unit.CONTROL, (Operand("segment", "dst"), Operand("uniform_source")),
                "Define a segment-table entry: .shared or .global, element size .b8 to .b128, rank .d1, swizzle of a tile in shared "
                "memory .32B to .128B; b is the base address.", modifiers="segment"),
    Instruction("barrier.expect", Opcode.BARRIER_EXPECT, Unit.CONTROL, (Operand("barrier", "a"), Operand("uniform_source")),
                "Add b to the bytes that the barrier expects [S1.13]."),
    Instruction("barrier.wait", Opcode.BARRIER_WAIT, Unit.CONTROL, (Operand("barrier", "a"),),
                "Wait until all copies of this core to the barrier are done and all expected bytes have arrived; errors BARRIER_UNDERRUN, "
                "BARRIER_OVERRUN and BARRIER_EXPECT instead of hanging."),
    Instruction("commit_group", Opcode.COMMIT_GROUP, Unit.CONTROL, (),
                "All stores from shared to global memory since the last commit form a group (copies and tensors; none is a group too). "
                "Waits while 8 groups are pending, and until the rows of a copy_rows before it have been handed to the TMAU [S1.13]."),
    Instruction("wait_group", Opcode.WAIT_GROUP, Unit.CONTROL, (Operand("immediate"),),
                "Wait until at most so many of the last committed groups have stores whose writes are not acknowledged; with .read: that "
                "are not yet read from shared memory, which may then be overwritten. The order of groups is that of their commits [S1.13].",
                modifiers="group"),
    *_alu(),
    *_multiply(),
    *_compare(),
    Instruction("lanemask", Opcode.LANE_MASK, Unit.THREAD, (),
                "Row t of mm takes part only where the guard of this instruction holds for thread t."),
    *_memory(),
    *_matrix(),
    Instruction("rnn", Opcode.RECURRENT, Unit.CONTROL, (Operand("uniform", "a"),),
                "Run the engine for recurrent networks on the image at shared address a, a multiple of 16, when all thread and matrix "
                "instructions before have finished; the program goes on when the outputs are in shared memory [S3.1-S3.6]."),
    Instruction("sparse", Opcode.SPARSE, Unit.CONTROL, (Operand("uniform", "a"),),
                "Start the job of the sparse engine at shared address a, a multiple of 16, when all thread and matrix instructions before "
                "have finished; waits while 4 jobs are not done. The program goes on; thread and matrix instructions wait until all jobs "
                "are done [S4]."),
    Instruction("wait_sparse", Opcode.WAIT_SPARSE, Unit.CONTROL, (Operand("immediate"),),
                "Wait until at most so many of the last jobs of the sparse engine are not done [S4]."),
    Instruction("take_tile", Opcode.TAKE_TILE, Unit.CONTROL, (Operand("uniform", "dst"),),
                "dst = the next number of the tile scheduler, which counts from 0 in each run. No two cores have the same number; of those "
                "that ask together each has its turn [S4.7]."),
    Instruction("copy_block", Opcode.COPY_BLOCK, Unit.COPY,
                (Operand("uniform", "dst"), Operand("uniform", "a"), Operand("uniform_source"), _MASK,
                 Operand("barrier", "modifiers.copy.barrier", optional=True)),
                "Copy b blocks of 16 bytes from address a to address dst (.destination.source spaces); the bytes are counted "
                "at the barrier. Into global memory, and of integers within shared memory, with a reduction, and the format behind it, "
                "where the configuration has reductions; within a memory where it has copy_within [S1.12]. With .multicast to the "
                "shared memories of all cores in the mask [S1.10].", modifiers="block"),
    Instruction("copy_rows", Opcode.COPY_ROWS, Unit.COPY,
                (Operand("uniform", "dst"), Operand("uniform", "a"), Operand("uniform", "b"),
                 Operand("barrier", "modifiers.copy.barrier", optional=True)),
                "One copy_block for each row of a matrix. Operands are pairs of uniform registers: address and pitch in bytes of the "
                "destination (dst, dst+1) and of the source (a, a+1), blocks of a row and number of rows (b, b+1). Pitches have a sign; "
                "addresses of rows are exact: one below 0 or from 2^32 on is OUT_OF_RANGE (operand: its low 32 bits). Rows are "
                "checked one by one: those before a wrong one are copied.", modifiers="copy"),
    *_tensors(),
)
