"""Coverage of errors: every code that a unit can report, and every code at the end of a run of a device."""

from heddle.isa.error_codes import ErrorCode
from heddle.isa.tensor_rules import RULES

from .model import Exclusion, Group

__all__ = ["REPORTED", "RUN", "sample_error"]

CODES = [code.name for code in ErrorCode if code is not ErrorCode.NONE]
NOT_ENCODED = [code.name for code, rule in RULES.items() if not rule.encoded]
TENSOR_CODES = [code.name for code in RULES]
# The codes that each unit makes; those of the engine reach the host by way of the front end.
UNITS = {
    "front end": ["ILLEGAL_INSTRUCTION", "ILLEGAL_OPERAND", "UNSUPPORTED", "PROGRAM_COUNTER", "BARRIER_UNDERRUN", "BARRIER_OVERRUN",
                  "BARRIER_EXPECT", "TRAP", "WAIT_TIMEOUT", "MULTICAST_MASK"],
    "thread unit": ["MISALIGNED", "OUT_OF_RANGE", "OFFSET_RANGE", "AXI_READ", "AXI_WRITE"],
    "matrix unit": ["MISALIGNED", "OUT_OF_RANGE", "PRODUCT_RANGE", "PANEL_RANGE", "OFFSET_RANGE"],
    "TMAU": ["UNSUPPORTED", "MISALIGNED", "OUT_OF_RANGE", "AXI_READ", "AXI_WRITE", *TENSOR_CODES],
    "recurrent engine": ["OUT_OF_RANGE", "RECURRENT_IMAGE"],
    "sparse engine": ["OUT_OF_RANGE", "SPARSE_JOB", "SPARSE_POINTER", "SPARSE_INDEX"],
    "control": ["TIMEOUT"],
}
_EVERYWHERE = [Exclusion("the fields of a descriptor cannot hold such a value", code=NOT_ENCODED),
               Exclusion("shared memory has no room for such a box: TENSOR_SHARED_RANGE comes first", code="TENSOR_BYTES")]

REPORTED = Group(
    "errors.reported", "An error that a unit reports, in its bench.",
    {"unit": list(UNITS), "code": CODES},
    crosses=[("unit", "code")],
    exclude=[*_EVERYWHERE,
             *(Exclusion(f"no rule of the {unit}", unit=unit, code=[code for code in CODES if code not in made])
               for unit, made in UNITS.items())])

RUN = Group(
    "errors.run", "A run of a device that ended with an error.",
    {"code": CODES, "simulator": ("verilator", "golden")},
    crosses=[("code", "simulator")],
    exclude=[*_EVERYWHERE,
             Exclusion("without a clock no wait takes time", code="WAIT_TIMEOUT", simulator="golden")])


def sample_error(unit, code):
    """Count an error that a unit reported: an ``ErrorCode``, or its number."""
    REPORTED.sample(unit=unit, code=ErrorCode(getattr(code, "value", code)).name)
