"""Coverage of the thread unit: functions, compares, loads and stores, with guards, stalls and errors."""

from heddle.interfaces.layouts import ThreadKind
from heddle.isa.compiled_offsets import GATHERED_BYTES
from heddle.isa.encoding import ACCESS_BYTES, PACKING, Access, AluFunction, CompareFunction, OutputUse, Space

from .model import SWIZZLES, Exclusion, Group

__all__ = ["ALU", "COMPARE", "GATHER", "MEMORY", "OTHER", "sample_operation"]

LANES = ("all", "some", "none")         # threads in which the guard holds
STALLS = ("none", "registers", "banks", "global memory", "several")
OPERANDS = ("register", "constant")
NARROWING = ("NARROW", "SCALE")
_COMMON = {"threads": LANES, "stall": STALLS}      # what was held back since the operation before was done
_COMPUTING = {"threads": LANES, "stall": STALLS[:2]}
_USED = {"shared": {"registers", "banks"}, "global": {"registers", "global memory"}}

ALU = Group(
    "thread.alu", "An operation of the ALU that the unit has ended, in its bench.",
    {"function": [function.name for function in AluFunction], "operand": OPERANDS, "registers": ("one", "four"),
     "signs": ("signed", "unsigned"), "output": [use.name for use in OutputUse]} | _COMPUTING,
    crosses=[("output", "signs"), ("output", "threads"), ("output", "operand"),
             ("function", "operand", "registers"), ("function", "threads"), ("registers", "operand", "stall"), ("function", "signs")],
    exclude=[
        Exclusion("with four registers the second operand is a constant", operand="register", registers="four"),
        Exclusion("it takes four registers always", function=NARROWING, registers="one"),
        Exclusion("it packs four registers with constants", output=[use.name for use in PACKING], operand="register"),
        Exclusion("it knows no signs", output="CHANNEL", signs=("signed", "unsigned")),
        Exclusion("only high products and narrowing know signs",
                  function=[function.name for function in AluFunction if function.name not in ("MULH", *NARROWING)],
                  signs=("signed", "unsigned"))])

COMPARE = Group(
    "thread.compare", "A compare that the unit has ended, in its bench.",
    {"function": [function.name for function in CompareFunction], "operand": OPERANDS, "signs": ("signed", "unsigned")} | _COMPUTING,
    crosses=[("function", "operand", "signs"), ("function", "threads"), ("operand", "stall")])

MEMORY = Group(
    "thread.memory", "A load or store that the unit has ended, in its bench.",
    {"kind": ("load", "store"), "access": [access.name for access in Access], "space": [space.name.lower() for space in Space],
     "swizzle": SWIZZLES, "offset": ("product register", "factor register"),
     "end": ("done", "MISALIGNED", "OUT_OF_RANGE", "AXI_READ", "AXI_WRITE")} | _COMMON,
    crosses=[("kind", "access", "space"), ("kind", "access", "space", "threads"), ("kind", "space", "stall"), ("kind", "space", "end"),
             ("access", "end"), ("kind", "space", "offset"), ("kind", "access", "swizzle"), ("space", "swizzle")],
    exclude=[
        Exclusion("stores of 8 and 16 bits use the unsigned forms", kind="store", access=("S8", "S16")),
        Exclusion("stores of 8 and 16 bits use the unsigned forms", access=("S8", "S16"), end="AXI_WRITE"),
        Exclusion("it uses banks, not global memory", space="shared", stall="global memory"),
        Exclusion("it uses global memory, not banks", space="global", stall="banks"),
        Exclusion("shared memory answers without errors", space="shared", end=("AXI_READ", "AXI_WRITE")),
        Exclusion("nothing is written", kind="load", end="AXI_WRITE"), Exclusion("nothing is read", kind="store", end="AXI_READ"),
        Exclusion("tiles lie in shared memory", space="global", swizzle=SWIZZLES[1:]),
        Exclusion("any byte is aligned", access=("U8", "S8"), end="MISALIGNED")])

GATHER = Group(
    "thread.gather", "A gather by compiled offsets that the unit has ended, in its bench.",
    {"access": ("U8", "B32", "V2", "V4"), "entries": ("one", "some", "most"), "swizzle": SWIZZLES,
     "base": ("product register", "factor register"), "end": ("done", "OFFSET_RANGE", "MISALIGNED", "OUT_OF_RANGE")} | _COMMON,
    crosses=[("access", "entries", "threads"), ("access", "entries", "stall"), ("access", "swizzle"), ("access", "end"), ("base", "end")],
    exclude=[
        Exclusion("it uses banks, not global memory", stall="global memory"),
        Exclusion("one element of 16 bytes is all", access="V4", entries=("some", "most")),
        Exclusion("two elements of 8 bytes are most", access="V2", entries="some"),
        Exclusion("any byte is aligned", access="U8", end="MISALIGNED")])

OTHER = Group(
    "thread.special", "A thread number, or a lane mask, that the unit has ended, in its bench.",
    {"kind": ("TID", "LANE_MASK")} | _COMPUTING, crosses=[("kind", "threads"), ("kind", "stall")])


def _lanes(active):
    return "all" if active.all() else "some" if active.any() else "none"


def sample_operation(operation, active, stalls, error, first_factor):
    """Count an operation: bool [threads] where its guard held, names of the stalls in its time, name of its error code or None.

    ``first_factor`` is the number of the first factor register.
    """
    kind = operation.kind
    memory = kind in (ThreadKind.LOAD, ThreadKind.STORE)
    stalls = set(stalls) & (_USED[operation.space.name.lower()] if memory else {"registers"})
    common = {"threads": _lanes(active), "stall": "none" if not stalls else "several" if len(stalls) > 1 else stalls.pop()}
    operand, signs = OPERANDS[not operation.b_is_register], ("signed", "unsigned")[operation.unsigned]
    if kind is ThreadKind.ALU:
        function = operation.function.name
        four = operation.access is Access.V4
        ALU.sample(function=function, operand=operand, registers=("one", "four")[four],
                   signs=signs if function in ("MULH", *NARROWING) else None,
                   output=getattr(operation, "output", OutputUse.NONE).name, **common)
    elif kind is ThreadKind.COMPARE:
        COMPARE.sample(function=operation.compare.name, operand=operand, signs=signs, **common)
    elif getattr(operation, "gathers", 0):
        count = operation.entries + 1
        GATHER.sample(access=operation.access.name, end=error or "done", swizzle=SWIZZLES[operation.swizzle.value],
                      entries="one" if count == 1 else "most" if count * ACCESS_BYTES[operation.access] == GATHERED_BYTES else "some",
                      base="factor register" if operation.a >= first_factor else "product register", **common)
    elif memory:
        MEMORY.sample(kind=kind.name.lower(), access=operation.access.name, space=operation.space.name.lower(), end=error or "done",
                      swizzle=SWIZZLES[operation.swizzle.value],
                      offset="factor register" if operation.a >= first_factor else "product register", **common)
    else:
        OTHER.sample(kind=kind.name, **common)
