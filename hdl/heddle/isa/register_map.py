"""Control and status registers on AXI4-Lite: one table for RTL, device and documentation."""

from .counter_table import BREAKDOWN, COUNTERS

__all__ = ["REGISTERS", "FIELDS", "PARAMETERS", "UNIFORM_WINDOW", "COUNTER_WINDOW", "ADDRESS_BITS", "DEVICE_ID", "CONTROL", "STATUS",
           "INTERRUPT", "counter_addresses", "reset_value"]

ADDRESS_BITS = 12
DEVICE_ID = 0x48444C31      # "HDL1"

# name: (byte address, access, meaning)
REGISTERS = {
    "id": (0x000, "ro", "device identification, 0x48444C31"),
    "threads": (0x004, "ro", "threads of a core"),
    "dot": (0x008, "ro", "multipliers of a lane"),
    "cores": (0x00C, "ro", "cores"),
    "shared_bytes": (0x010, "ro", "shared memory of a core in bytes"),
    "factor_words": (0x014, "ro", "factor words of a lane"),
    "instruction_words": (0x018, "ro", "instructions that the instruction memory holds"),
    "control": (0x020, "wo", "bit 0: doorbell, starts the program at entry; ignored while running"),
    "status": (0x024, "ro", "bit 0 running, bit 1 done, bit 2 error, bit 3 memory did not answer (reset needed)"),
    "interrupt": (0x028, "rw", "bit 0 enable; bit 1 pending, cleared by writing 1"),
    "entry": (0x02C, "rw", "first instruction of the program"),
    "timeout": (0x030, "rw", "cycles a run may take; 0: no limit"),
    "error_code": (0x034, "ro", "first error of the last run"),
    "error_pc": (0x038, "ro", "instruction that caused it; of TIMEOUT the one at issue, or the last one"),
    "error_operand": (0x03C, "ro", "its operand"),
    "program_address": (0x040, "rw", "next instruction to load, at most instruction_words; instructions from there on are void; "
                                     "not written while running"),
    "program_data": (0x044, "wo", "four writes, low word first, load one instruction; the address advances; ignored while running "
                                  "and behind the memory"),
    "error_core": (0x048, "ro", "core that the error comes from"),
    "error_dimension": (0x04C, "ro", "dimension of the tensor that it is about, 0 the innermost; 0 where it has none"),
    "wait_timeout": (0x050, "rw", "cycles that one wait, barrier.wait, wait_group or commit_group may take; 0: no limit"),
}

# register: {field: (bit, access, meaning)}, of the registers that are no number of 32 bits. Writing 1 to a "w1c" field clears it.
FIELDS = {
    "control": {"start": (0, "wo", "starts the program at `entry`; ignored while a program runs")},
    "status": {
        "running": (0, "ro", "a program runs"),
        "done": (1, "ro", "the last run has ended"),
        "error": (2, "ro", "the last run had an error, see `error_code`"),
        "stuck": (3, "ro", "memory did not answer; only a reset helps"),
    },
    "interrupt": {
        "enable": (0, "rw", "the interrupt pin follows `pending`"),
        "pending": (1, "w1c", "a run has ended since the last write of 1"),
    },
}
CONTROL, STATUS, INTERRUPT = ({name: bit for name, (bit, _, _) in FIELDS[register].items()} for register in FIELDS)
PARAMETERS = ("threads", "dot", "cores", "shared_bytes", "factor_words", "instruction_words")     # registers that tell the configuration

UNIFORM_WINDOW = 0x100      # 64 words: uniform registers of all cores, writable while no program runs
COUNTER_WINDOW = 0x200      # cycles (low, high), then the breakdown, then the counters, 32 bits each


def counter_addresses():
    """Name to byte address of every 32-bit counter; ``cycles`` has its high word at ``cycles_high``."""
    names = ["cycles", "cycles_high", *BREAKDOWN, *COUNTERS]
    return {name: COUNTER_WINDOW + 4 * index for index, name in enumerate(names)}


def reset_value(name):
    """Value of a register after reset; None where it is the parameter of the configuration with that name."""
    return None if name in PARAMETERS else DEVICE_ID if name == "id" else 0
