"""Coverage of the front end: instructions with guards and sources of operands, and what stalls it."""

from heddle.isa.encoding import GUARD_ALWAYS, UNIFORM_FUNCTIONS, AluFunction, Opcode, OperandSource
from heddle_sim.isa.fields import FIELDS

from .model import SWIZZLES, Exclusion, Group

__all__ = ["INSTRUCTION", "STALL", "instruction_values", "sample_instruction", "sample_stall"]

OPCODES = [opcode.name for opcode in Opcode]
SOURCES = [source.name.lower() for source in OperandSource]
THREAD_SOURCES = ("THREAD_ALU", "THREAD_COMPARE")
UNIFORM_SOURCES = ("SEGMENT", "BARRIER_EXPECT", "UNIFORM_ALU", "UNIFORM_COMPARE", "COPY_BLOCK", "PREFETCH_BLOCK")
FUNCTIONS = [function.name for function in AluFunction]
GUARDS = ("always", "where it holds", "where it does not")
PLACES = ("bench", "verilator", "golden")

INSTRUCTION = Group(
    "front_end.instruction", "An instruction of a program that ended without an error, in the front end's bench or on a device.",
    {"opcode": OPCODES, "guard": GUARDS, "source": SOURCES, "function": FUNCTIONS, "swizzle": SWIZZLES, "place": PLACES},
    crosses=[("opcode", "place"), ("opcode", "guard"), ("opcode", "source"), ("opcode", "function"), ("guard", "place"),
             ("swizzle", "place")],
    exclude=[
        Exclusion("it has no operand of this kind", source=SOURCES,
                  opcode=[name for name in OPCODES if name not in (*THREAD_SOURCES, *UNIFORM_SOURCES)]),
        Exclusion("uniform instructions have no registers of threads", source="register", opcode=UNIFORM_SOURCES),
        Exclusion("it has no function", function=FUNCTIONS, opcode=[name for name in OPCODES if name not in ("THREAD_ALU", "UNIFORM_ALU")]),
        Exclusion("uniform instructions lack it", opcode="UNIFORM_ALU",
                  function=[name for name in FUNCTIONS if AluFunction[name] not in UNIFORM_FUNCTIONS]),
        Exclusion("a trap that is taken ends the program with an error", opcode="TRAP", guard="always")])

STALL = Group(
    "front_end.stall", "What begins to hold the front end back, or that nothing does, in its bench.",
    {"reason": ("nothing", "hazard", "queue of the thread unit full", "queue of the matrix unit full", "queue of the TMAU full",
                "a barrier or wait")})

_QUEUES = {"thread": "queue of the thread unit full", "matrix": "queue of the matrix unit full", "copy": "queue of the TMAU full"}
_NAMES = {opcode.value: opcode.name for opcode in Opcode}


def instruction_values(word):
    """The bins of an instruction word of a program that ended well, without the place.

    None where its opcode is not defined, for a trap, and for what no instruction may have: its guard, or a branch, passed over it.
    """
    opcode = _NAMES.get(FIELDS["opcode"].get(word))
    if opcode is None:
        return None
    guard, negate, source = (FIELDS[name].get(word) for name in ("guard", "guard_negate", "b_source"))
    always = guard == GUARD_ALWAYS and not negate
    if opcode == "TRAP" and always:
        return None
    with_source, function = opcode in (*THREAD_SOURCES, *UNIFORM_SOURCES), AluFunction(FIELDS["modifiers.alu.function"].get(word))
    if with_source and (source >= len(SOURCES) or opcode in UNIFORM_SOURCES and source == OperandSource.REGISTER.value):
        return None
    if opcode == "UNIFORM_ALU" and function not in UNIFORM_FUNCTIONS:
        return None
    return {"opcode": opcode, "guard": "always" if always else GUARDS[1 + negate], "source": SOURCES[source] if with_source else None,
            "function": function.name if opcode in ("THREAD_ALU", "UNIFORM_ALU") else None,
            "swizzle": SWIZZLES[FIELDS["modifiers.segment.swizzle"].get(word)] if opcode == "SEGMENT" else None}


def sample_instruction(word, place):
    """Count an instruction word of a program that ran in one of ``PLACES``."""
    values = instruction_values(word)
    if values is not None:
        INSTRUCTION.sample(**values, place=place)


def sample_stall(hazard, refused, barrier):
    """Count a reason that begins: a hazard, units that refuse, a barrier or wait."""
    for unit in refused:
        STALL.sample(reason=_QUEUES[unit])
    if hazard:
        STALL.sample(reason="hazard")
    if barrier:
        STALL.sample(reason="a barrier or wait")
    if not (hazard or refused or barrier):
        STALL.sample(reason="nothing")
