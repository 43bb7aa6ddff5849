"""Performance counters: one table for RTL, device and documentation."""

from ..constants import BANKS

__all__ = ["BREAKDOWN", "COUNTERS", "ISSUE_EVENTS", "LEVEL2_EVENTS", "MATRIX_EVENTS", "RNN_EVENTS", "SPARSE_EVENTS", "THREAD_EVENTS",
           "TMAU_EVENTS", "absent_counters", "most_in_a_cycle"]

# Exclusive reasons, one per cycle of a run, in order of priority; their counters add up to the cycles [architecture: breakdown].
# With several cores: the reasons of core 0.
BREAKDOWN = {
    "matrix": "a step of the matrix unit or of an engine entered the lanes",
    "matrix_wait": "one of them had work but no step could start (pipeline start, bank conflicts, hidden vectors on their way)",
    "copy_wait": "the program waited for copies (barrier.wait, wait.copy)",
    "thread": "the program waited for thread instructions (hazards of registers, a full queue, wait.thread)",
    "drain": "the program had ended and writes were still on their way",
    "control": "anything else: uniform instructions, branches, start",
}

# Events; each counts cycles in which the event holds, or an amount per cycle, added up over the cores.
COUNTERS = {
    "instructions": "instructions issued",
    "matrix_instructions": "mm and offsets instructions completed",
    "matrix_steps": "steps of mm that entered the lanes",
    "matrix_blocks": "blocks of 16 bytes that the fetch of B read",
    "matrix_bank_conflicts": "cycles a fetch of B waited for its bank",
    "matrix_bubbles": "cycles between the first and the last step of consecutive mm instructions without a step",
    "thread_instructions": "thread instructions completed",
    "register_stalls": "cycles the thread unit waited for registers that mm or another access used",
    "thread_bank_conflicts": "cycles in which a thread access to shared memory had to wait for a bank",
    "copy_bank_conflicts": "cycles in which a copy had to wait for a bank",
    "scoreboard_stalls": "cycles an instruction waited for a hazard of its registers or an entry of the scoreboard",
    "queue_stalls": "cycles an instruction waited for a place in its unit's queue",
    "barrier_stalls": "cycles spent in barrier.wait",
    "read_requests": "AXI read bursts",
    "read_beats": "AXI read beats",
    "write_requests": "AXI write bursts",
    "write_beats": "AXI write beats",
    "multiply_stalls": "cycles the thread unit waited for its multipliers",
    "thread_shared_cycles": "cycles in which a thread access asked for banks of shared memory",
    "copy_start_cycles": "cycles from an operation that an idle TMAU takes to an address on the AXI port",
    "level2_hits": "lines that reads, prefetches and reductions found in the second-level cache",
    "level2_misses": "lines that they did not find there",
    "level2_evictions": "lines of the second-level cache that made room for others",
    "rnn_steps": "steps of the engine for recurrent networks that entered the lanes",
    "rnn_waits": "cycles of its runs without a step",
    "rnn_skipped": "columns of zeros that it left out",
    "sparse_steps": "steps of the sparse engine that entered the lanes",
    "sparse_halves": "of these, steps with one non-zero where a step has room for two",
    "sparse_loads": "cycles in which it wrote to the factor register files",
    "sparse_waits": "cycles of its runs without a step and without such a write",
}
# Events that a unit tells by itself.
ISSUE_EVENTS = ("instructions", "scoreboard_stalls", "queue_stalls", "barrier_stalls")
MATRIX_EVENTS = ("matrix_steps", "matrix_blocks", "matrix_bank_conflicts", "matrix_bubbles")
THREAD_EVENTS = ("register_stalls", "thread_bank_conflicts", "multiply_stalls", "thread_shared_cycles")
TMAU_EVENTS = ("copy_bank_conflicts",)
RNN_EVENTS = ("rnn_steps", "rnn_waits", "rnn_skipped")
SPARSE_EVENTS = tuple(name for name in COUNTERS if name.startswith("sparse_"))
LEVEL2_EVENTS = tuple(name for name in COUNTERS if name.startswith("level2_"))


def absent_counters(cfg):
    """Counters that remain zero because their events do not exist in the configuration."""
    return (() if cfg.tensors else ("copy_start_cycles",)) + (() if cfg.l2_kib else LEVEL2_EVENTS) + (() if cfg.rnn else RNN_EVENTS) + (
        () if cfg.sparse else SPARSE_EVENTS)


def most_in_a_cycle(name):
    """Largest increment of a counter by one core in one cycle."""
    # Conflicts: a refused request, and words of the same bank. Skipped: a column that was read, and three columns behind the next.
    return {"matrix_blocks": BANKS, "matrix_bank_conflicts": 2, "rnn_skipped": 4}.get(name, 1)
