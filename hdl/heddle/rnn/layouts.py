"""Records of the engine for recurrent networks: what a program places in shared memory, and what its parts hand to each other.

All records are 128 bits, one word of a bank of shared memory. They follow each other in an *image*: a header, ``sweeps`` sweep
records, ``operations`` tail operation records, pairs of task records (docs/units/rnn.md) [S3.1-S3.6].
"""

from amaranth.hdl import Mux
from amaranth.lib import data, enum
from amaranth.utils import exact_log2

from ..constants import PRODUCT_REGISTERS

__all__ = [
    "ACTIVATION_FRACTION", "CELL_FRACTION", "COLUMNS_BITS", "COUNT_BITS", "DISTRIBUTED", "ELEMENT_BITS", "MAX_BLOCKS", "MAX_STEPS",
    "PRODUCT_BITS", "RECORD_BITS", "SUM_FRACTION",
    "Cell", "Function", "Pre", "Start", "Wait",
    "chosen_sweep_layout", "context_bits", "context_layout", "context_place_layout", "engine_step_layout", "header_layout", "of_context",
    "operation_layout", "step_count_layout", "stored", "sweep_layout", "tail_job_layout", "tail_output_layout", "task_layout",
    "task_memory_layout", "task_start_layout",
]

RECORD_BITS = 128
DISTRIBUTED = {"ram_style": "distributed"}      # of memories of a row for each context: registers and multiplexers cost more
SUM_FRACTION = 13           # fraction bits of a de-quantised sum, signed 18 bits
ACTIVATION_FRACTION = 16    # of sigmoid and tanh, signed 18 bits
CELL_FRACTION = 11          # of the cell state of an LSTM as it is stored, signed 16 bits
MAX_BLOCKS = 128
MAX_STEPS = 1 << 16
COLUMNS_BITS = 12           # columns of a sweep, minus one
ELEMENT_BITS = 13           # position of an element in a context's part of vector memory
COUNT_BITS = 2              # of counts of jobs and of rows, modulo 4: no context has more than two of either under way
PRODUCT_BITS = (PRODUCT_REGISTERS - 1).bit_length()


def _padded(fields):
    """A layout of ``RECORD_BITS``."""
    used = data.StructLayout(fields).size
    assert used <= RECORD_BITS, used
    return data.StructLayout(fields | ({"unused": RECORD_BITS - used} if used < RECORD_BITS else {}))


def stored(layout):
    """A record without its unused bits, as a table keeps it."""
    return data.StructLayout({name: member for name, member in layout.members.items() if name != "unused"})


class Start(enum.Enum, shape=2):
    """What the first column of a sweep does to its product registers."""

    CONTINUE = 0        # adds to them
    BIAS = 1            # replaces them: bias registers plus column
    ZERO = 2            # replaces them: the column alone
    PERSIST = 3         # replaces them: in the first step of a task like BIAS, then the sums of the step before plus column


class Wait(enum.Enum, shape=2):
    """What the elements of a sweep's vector come from."""

    NONE = 0            # they are there
    INPUT = 1           # a row of the input
    LAST = 2            # the youngest job of the tail of this context, element by element
    BEFORE = 3          # the job before that


class Function(enum.Enum, shape=2):
    LINEAR = 0
    SIGMOID = 1
    TANH = 2
    RELU = 3


class Pre(enum.Enum, shape=2):
    """What is added to a de-quantised sum."""

    NONE = 0
    PEEPHOLE = 1        # operand x state
    KEEP = 2            # nothing; the sum is kept
    GATED = 3           # kept gate x kept sum


class Cell(enum.Enum, shape=3):
    """What becomes of an activation."""

    ACTIVATION = 0      # itself
    PRODUCT = 1         # kept activation x activation
    STATE = 2           # activation x state + result of the operation before
    GATE = 3            # activation x state
    BLEND = 4           # activation + kept activation x (state - activation)
    OUTPUT = 5          # activation x second function of the last STATE, or of the state that was read


header_layout = _padded({
    "sweeps": 8,                # records, at least 1
    "operations": 8,            # records
    "elements": ELEMENT_BITS + 1,   # of vector memory for each context, a multiple of the memory's width
    "registers": PRODUCT_BITS,  # product registers for each context; context n adds n times as many
    "parity": PRODUCT_BITS,     # odd steps use accumulators so many registers further
    "contexts": 4,              # contexts that take tasks, 1 to ``rnn_contexts``
    "tap_registers": PRODUCT_BITS + 1,  # numbers of accumulators with ``cat`` above 0 differ modulo this power of two; 0 without such
})

# A task is two records, one behind the other.
task_layout = _padded({
    "sweep": 8,                 # first of the records of a step
    "steps": 16,                # 0 is 65,536
    "start": 24,                # cycles after the start of the run before which the task does not begin
    "input_bytes": 15,          # of a row of input, a multiple of 16; 0: none
    "input_element": ELEMENT_BITS,      # where rows of even steps go; odd steps: right behind that, at the next full word of the memory
    "state_bytes": 15,          # loaded once before the first step, a multiple of 16; 0: nothing
    "state_element": ELEMENT_BITS,
    "last": 1,                  # of the image
})
task_memory_layout = _padded({
    "input_address": 20,        # shared memory, multiples of 16
    "input_pitch": 16,          # bytes from a row to that of the next step, signed, a multiple of 16
    "state_address": 20,
    "output_address": 20,
    "output_pitch": 16,         # signed
})

sweep_layout = _padded({
    "element": ELEMENT_BITS,    # first element of the vector in the context's part of vector memory, a multiple of its width
    "columns": COLUMNS_BITS,    # groups of dot / cat elements, minus one
    "weight": 13,               # first factor word; column after column, block after block
    "blocks": 7,                # rows / (threads x cat), minus one
    "product": PRODUCT_BITS,    # accumulator of block 0
    "bias": PRODUCT_BITS,       # register of block 0 with which BIAS begins, the same for all contexts
    "cat": 2,                   # log2 of the dot products of a lane: 1, 2 or 4
    "start": Start,
    "wait": Wait,
    "parity": 1,                # odd steps use the other accumulators
    "input": 1,                 # the vector is the input: odd steps read the other row
    "release": 1,               # the last sweep that reads the input of this step
    "skip": 1,                  # columns whose elements are all zero take no step of the lanes
    "last": 1,                  # of the step
    "launch": 1,                # a job of the tail begins when this sweep has ended
    "operation": 8,             # its first record
    "operations": 4,            # records for each group of elements, minus one
    "groups": 10,               # groups of ``tail_lanes`` elements, or pairs of such groups, minus one
    "pairs": 1,                 # operations follow each other for each pair of groups
    "settled": 1,               # the job reads what the one before it of this context wrote
    # With ``rnn_differences``:
    "difference": 1,            # columns are differences to what was sent before,
    "sent": ELEMENT_BITS,       # which is kept from this element of the context on, a multiple of the memory's width
    "held": 16,                 # differences up to this magnitude are zero, and not sent
})

operation_layout = _padded({
    "idle": 1,                  # no sum: only the operand is read
    "second_group": 1,          # keeps and uses the kept values of the second group of a pair
    "product": PRODUCT_BITS,    # accumulator of the first row group
    "parity": 1,
    "cat": 2,                   # log2, as in the sweeps that made the sums
    "first": 3,                 # row group of element group 0
    "stride": 3,                # row groups from an element group to the next
    "shift": 5,                 # sums are rounded to units of 2^shift,
    "multiplier": 16,           # then times this / 2^16
    "function": Function,
    "shift_activation": 3,      # right shift of the activation
    "pre": Pre,
    "cell": Cell,
    "second": Function,         # OUTPUT: of the cell state
    "shift_second": 3,
    "read": 1,                  # the operand is a group of elements from ``operand`` on
    "operand": ELEMENT_BITS,
    "load_state": 1,            # the operand becomes the state,
    "wide_state": 1,            # times 4: a cell state
    "keep_activation": 1,       # for PRODUCT and BLEND
    "keep_gate": 1,             # for GATED
    "write": 1,                 # the result goes to vector memory,
    "wide_result": 1,           # divided by 4: a cell state
    "destination": ELEMENT_BITS,
    "output": 1,                # and to shared memory,
    "output_byte": 16,          # so many bytes behind the start of the row of the step
})


def context_bits(cfg):
    """Bits of the number of a context, at least one."""
    return max(1, exact_log2(cfg.rnn_contexts))


def of_context(cfg, context, size):
    """Where the part of a context begins: ``context`` times ``size``, a value."""
    return sum(Mux(context[bit], size << bit, 0) for bit in range(exact_log2(cfg.rnn_contexts)))     # no multiplier


def engine_step_layout(cfg):
    """What the engine asks of the lanes in a cycle; the elements of the column go with it (see ``LaneArray``)."""
    return data.StructLayout({
        "step": 1,
        "product": PRODUCT_BITS,    # accumulator; of taps other than the first: modulo ``rnn_tap_registers``
        "source": PRODUCT_BITS,     # register that is added to: the same one, or the bias
        "zero": 1,                  # nothing is added to: the register is replaced
        "factor_word": cfg.factor_address_bits,
        "cat": 2,                   # log2 of the dot products of a lane
    })


def tail_job_layout(cfg):
    """The sums of one step of one context, for the tail; positions are those of the whole memory."""
    return data.StructLayout({
        "context": context_bits(cfg),
        "operation": exact_log2(cfg.rnn_records),   # first record
        "operations": 4,                            # of each element group, minus one
        "groups": 10,                               # element groups or pairs of them, minus one
        "pairs": 1,
        "settled": 1,                               # begins when all that the one before it of its context wrote can be read
        "elements": exact_log2(cfg.rnn_elements),   # first element of the context in vector memory
        "registers": PRODUCT_BITS,                  # first product register of the context
        "parity_registers": PRODUCT_BITS,           # and for operations with ``parity`` in this step: the same one in even ones
        "row": 20,                                  # address of the output row of this step, in bytes
    })


def tail_output_layout(cfg):
    """Results for shared memory: ``tail_lanes`` elements of 16 bits in order; the byte address is a multiple of their size or of 16."""
    return data.StructLayout({"address": 20, "elements": data.ArrayLayout(16, cfg.tail_lanes)})


def chosen_sweep_layout(cfg):
    """A sweep whose turn it is, with positions of the whole memory and of the whole register file."""
    return data.StructLayout({
        "context": context_bits(cfg),
        "job": COUNT_BITS,          # that writes the vector, modulo 4; with ``waits``
        "waits": 1,
        "element": exact_log2(cfg.rnn_elements),
        "columns": COLUMNS_BITS,
        "weight": cfg.factor_address_bits,
        "blocks": 7,
        "product": PRODUCT_BITS,
        "source": PRODUCT_BITS,     # of block 0, in the first column
        "zero": 1,                  # likewise
        "cat": 2,
        "skip": 1,
        "release": 1,
        "launch": 1,
        "begins": 1,                # its first column does not only add
        **({"fresh": 1, "difference": 1, "sent": exact_log2(cfg.rnn_elements), "held": 16} if cfg.rnn_differences else {}),
    })


def context_layout(cfg):
    """What the scheduler keeps of a task from sweep to sweep."""
    return data.StructLayout({
        "next": exact_log2(cfg.rnn_records),        # sweep record
        "odd": 1,                                   # this step
        **({"fresh": 1} if cfg.rnn_differences else {}),        # the first step
    })


def step_count_layout(cfg):
    """And from step to step."""
    return data.StructLayout({
        "left": 16,                 # steps, with this one; 0: 65,536
        "row": 20,                  # of output, of this step
    })


def context_place_layout(cfg):
    """Where its task is; made once, when the task begins."""
    elements = exact_log2(cfg.rnn_elements)
    return data.StructLayout({
        "first": exact_log2(cfg.rnn_records),       # sweep records of a step begin here
        "pitch": 16,                                # of output rows
        "elements": elements,                       # first element of the context,
        "odd_input": elements,                      # for inputs of odd steps: their rows lie further by the same distance
        "registers": PRODUCT_BITS,                  # first product register,
        "odd_registers": PRODUCT_BITS,              # of accumulators that alternate, in odd steps
    })


def task_start_layout(cfg):
    return data.StructLayout({"context": context_bits(cfg), "task": context_layout(cfg), "count": step_count_layout(cfg),
                              "place": context_place_layout(cfg)})
