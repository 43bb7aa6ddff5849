"""What is fixed by the programming model and by the swizzle patterns of tensor memory access: not parameters."""

__all__ = [
    "BANKS",
    "BANK_BYTES",
    "BARRIERS",
    "FIRST_FACTOR_REGISTER",
    "LINE_BYTES",
    "MAX_BURST_BYTES",
    "MAX_COMPILED_OFFSETS",
    "MOST_EXPECTED",
    "PREDICATES",
    "PRODUCT_REGISTERS",
    "REGISTER_BITS",
    "ROW_BYTES",
    "SEGMENTS",
    "STORE_GROUPS",
    "REGISTER_GROUPS",
    "UNIFORM_PREDICATES",
    "UNIFORM_REGISTERS",
]

BANKS = 8
BANK_BYTES = 16
ROW_BYTES = BANKS * BANK_BYTES
PRODUCT_REGISTERS = 256
FIRST_FACTOR_REGISTER = PRODUCT_REGISTERS
REGISTER_BITS = 12
PREDICATES = 7
UNIFORM_PREDICATES = 7
UNIFORM_REGISTERS = 64
SEGMENTS = 16
BARRIERS = 16
MOST_EXPECTED = (1 << 31) - 1       # bytes that a barrier may expect up to its wait
STORE_GROUPS = 8
REGISTER_GROUPS = 16
MAX_BURST_BYTES = 512
LINE_BYTES = 128
MAX_COMPILED_OFFSETS = 4096     # entries of the compiled-offset memory
