"""Layouts of the recurrent engine: records of the image in shared memory, payloads and ports between its units.

Every record of an image has 128 bits, the word of a bank of shared memory. An *image* is a header, ``sweeps`` records of matrix-vector
passes, ``operations`` records of tail operations, then pairs of task records. All are contiguous (docs/units/rnn.md) [S3.1-S3.6].
"""

from amaranth.hdl import Mux
from amaranth.lib import data, enum, stream
from amaranth.lib.wiring import In, Out, Signature
from amaranth.utils import exact_log2

from ..interfaces.datapath import PRODUCT_ADDRESS_BITS

__all__ = [
    "ACTIVATION_FRACTION", "CELL_FRACTION", "COLUMNS_BITS", "COUNT_BITS", "DISTRIBUTED", "ELEMENT_BITS", "MAX_BLOCKS", "MAX_STEPS",
    "RECORD_BITS", "SUM_FRACTION",
    "Cell", "ContextEvent", "Function", "Pre", "RecordReadPort", "Start", "Wait",
    "chosen_sweep_layout", "context_bits", "context_layout", "context_place_layout", "header_layout",
    "job_order_layout", "of_context", "operation_layout", "step_count_layout", "stored", "sweep_layout", "tail_job_layout",
    "tail_output_layout", "task_layout", "task_memory_layout", "task_start_layout", "vector_group_bits", "written_group_layout",
]

RECORD_BITS = 128
DISTRIBUTED = {"ram_style": "distributed"}      # for memories with a row for each context: registers and multiplexers would cost more
SUM_FRACTION = 13           # fraction bits of a de-quantised sum, signed 18 bits
ACTIVATION_FRACTION = 16    # fraction bits of sigmoid and tanh, signed 18 bits
CELL_FRACTION = 11          # fraction bits of the stored cell state of an LSTM, signed 16 bits
MAX_BLOCKS = 128
MAX_STEPS = 1 << 16
COLUMNS_BITS = 12           # bits of the columns of a matrix-vector pass, minus one
ELEMENT_BITS = 13           # bits of the position of an element in a context's part of vector memory
COUNT_BITS = 2              # bits of counters of jobs and of rows, modulo 4: a context has at most two of either in flight


def _padded(fields):
    """A layout of ``RECORD_BITS``."""
    used = data.StructLayout(fields).size
    assert used <= RECORD_BITS, used
    return data.StructLayout(fields | ({"unused": RECORD_BITS - used} if used < RECORD_BITS else {}))


def stored(layout):
    """Layout of a record without its unused bits, as the tables of the engine store the record."""
    return data.StructLayout({name: member for name, member in layout.members.items() if name != "unused"})


class Start(enum.Enum, shape=2):
    """Initial value of the product registers in the first column of a matrix-vector pass."""

    CONTINUE = 0        # the product registers: the pass accumulates
    BIAS = 1            # the bias registers
    ZERO = 2            # zero
    PERSIST = 3         # in the first step of a task like BIAS, then the sums of the previous step


class Wait(enum.Enum, shape=2):
    """Producer of the vector that a matrix-vector pass reads."""

    NONE = 0            # none: the vector is already written
    INPUT = 1           # the image loader: a row of the input
    LAST = 2            # the youngest tail job of this context, element by element
    BEFORE = 3          # the second youngest tail job of this context, element by element


# Activation function.
class Function(enum.Enum, shape=2):
    LINEAR = 0
    SIGMOID = 1
    TANH = 2
    RELU = 3


class Pre(enum.Enum, shape=2):
    """Term that is added to a de-quantised sum."""

    NONE = 0
    PEEPHOLE = 1        # operand * state
    KEEP = 2            # none; the sum is stored for GATED
    GATED = 3           # stored gate * stored sum


class Cell(enum.Enum, shape=3):
    """Cell function: the result that an operation of the tail computes from its activation."""

    ACTIVATION = 0      # activation
    PRODUCT = 1         # stored activation * activation
    STATE = 2           # activation * state + result of the previous operation
    GATE = 3            # activation * state
    BLEND = 4           # activation + stored activation * (state - activation)
    OUTPUT = 5          # activation * second function of the last STATE, or of the state that was read


header_layout = _padded({
    "sweeps": 8,                # records of matrix-vector passes, at least 1
    "operations": 8,            # records of tail operations
    "elements": ELEMENT_BITS + 1,   # vector memory of each context in elements, a multiple of ``vector_lanes``
    "registers": PRODUCT_ADDRESS_BITS,  # product registers of each context; context n adds n times this number
    "parity": PRODUCT_ADDRESS_BITS,     # offset in registers of the accumulators of odd steps
    "contexts": 4,              # contexts that accept tasks, 1 to ``rnn_contexts``
    "tap_registers": PRODUCT_ADDRESS_BITS + 1,  # accumulators with ``cat`` above 0 differ modulo this power of two; 0: none
})

# A task is two records: this one, then one of ``task_memory_layout``.
task_layout = _padded({
    "sweep": 8,                 # first record of a step
    "steps": 16,                # 0 is 65,536
    "start": 24,                # earliest start of the task, in cycles after the start of the run
    "input_bytes": 15,          # bytes of a row of input, a multiple of 16; 0: no input
    "input_element": ELEMENT_BITS,      # row of even steps; the row of odd steps follows at the next full word
    "state_bytes": 15,          # bytes loaded once before the first step, a multiple of 16; 0: none
    "state_element": ELEMENT_BITS,
    "last": 1,                  # last task of the image
})
task_memory_layout = _padded({
    "input_address": 20,        # byte addresses of shared memory, multiples of 16
    "input_pitch": 16,          # bytes from a row to the row of the next step, signed, a multiple of 16
    "state_address": 20,
    "output_address": 20,
    "output_pitch": 16,         # bytes, signed
})

sweep_layout = _padded({
    "element": ELEMENT_BITS,    # first element of the vector in the context's part of vector memory, a multiple of ``vector_lanes``
    "columns": COLUMNS_BITS,    # groups of dot / cat elements, minus one
    "weight": 13,               # first factor word; column after column, block after block
    "blocks": 7,                # row blocks: rows / (threads * cat), minus one
    "product": PRODUCT_ADDRESS_BITS,    # accumulator of row block 0
    "bias": PRODUCT_ADDRESS_BITS,       # bias register of row block 0, the same for all contexts
    "cat": 2,                   # log2 of the dot products of a PE (CAT taps): 1, 2 or 4
    "start": Start,
    "wait": Wait,
    "parity": 1,                # odd steps use the accumulators at offset ``parity`` of the header
    "input": 1,                 # the vector is the input: odd steps read the row of odd steps
    "release": 1,               # last pass that reads the input row of this step
    "skip": 1,                  # columns whose elements are all zero take no step of the PEs
    "last": 1,                  # last pass of the step
    "launch": 1,                # the end of this pass starts a tail job
    "operation": 8,             # first record of the job
    "operations": 4,            # records for each element group, minus one
    "groups": 10,               # element groups of ``tail_lanes`` elements, or pairs of element groups, minus one
    "pairs": 1,                 # the operations are issued once for each pair of element groups
    "settled": 1,               # the job reads elements that the previous job of this context wrote
    # With ``rnn_differences``:
    "difference": 1,            # delta threshold: columns are differences to the reference vector
    "sent": ELEMENT_BITS,       # first element of the reference vector in its memory, a multiple of ``vector_lanes``
    "held": 16,                 # delta threshold, unsigned: differences of at most this magnitude become zero
})

operation_layout = _padded({
    "idle": 1,                  # no sum: the operation only reads its operand
    "second_group": 1,          # stores and reads the values of the second element group of a pair
    "product": PRODUCT_ADDRESS_BITS,    # accumulator of the first row group
    "parity": 1,
    "cat": 2,                   # log2, as in the passes that computed the sums
    "first": 3,                 # row group of element group 0
    "stride": 3,                # row groups from one element group to the next
    "shift": 5,                 # sums are divided by 2^shift and rounded,
    "multiplier": 16,           # then multiplied by multiplier / 2^16
    "function": Function,
    "shift_activation": 3,      # right shift of the activation, rounded
    "pre": Pre,
    "cell": Cell,
    "second": Function,         # function of the cell state, for OUTPUT
    "shift_second": 3,
    "read": 1,                  # the operand is a group of elements from ``operand`` on
    "operand": ELEMENT_BITS,
    "load_state": 1,            # the operand becomes the state,
    "wide_state": 1,            # times 4, as a cell state
    "keep_activation": 1,       # stores the activation for PRODUCT and BLEND
    "keep_gate": 1,             # stores the gate for GATED
    "write": 1,                 # the result is written to vector memory,
    "wide_result": 1,           # divided by 4, as a cell state
    "destination": ELEMENT_BITS,
    "output": 1,                # the result is written to shared memory,
    "output_byte": 16,          # byte offset from the start of the row of the step
})


def context_bits(cfg):
    """Bits of a context number, at least one."""
    return max(1, exact_log2(cfg.rnn_contexts))


def vector_group_bits(cfg):
    """Bits of the number of a group of ``tail_lanes`` elements of vector memory."""
    return exact_log2(cfg.rnn_elements // cfg.tail_lanes)


def ContextEvent(cfg):
    """Event of one context, whose number is the payload; at most one a cycle, always ready."""
    return stream.Signature(data.StructLayout({"context": context_bits(cfg)}), always_ready=True)


def RecordReadPort(cfg, layout):
    """Read port of a table of records, seen from the reader.

    *Ports*:
    address : Out(log2(rnn_records))
        Record to read.
    record : In(layout)
        Record at ``address`` of the previous cycle.
    """
    return Signature({"address": Out(exact_log2(cfg.rnn_records)), "record": In(layout)})


def of_context(cfg, context, size):
    """Base of a context's part of a memory: the value ``context * size``, as shifts and additions without a multiplier."""
    return sum(Mux(context[bit], size << bit, 0) for bit in range(exact_log2(cfg.rnn_contexts)))


def tail_job_layout(cfg):
    """Job of the activation pipeline: the sums of one step of one context; all positions are absolute."""
    return data.StructLayout({
        "context": context_bits(cfg),
        "operation": exact_log2(cfg.rnn_records),   # first record
        "operations": 4,                            # of each element group, minus one
        "groups": 10,                               # element groups or pairs of element groups, minus one
        "pairs": 1,
        "settled": 1,                               # begins when all elements that the previous job of its context wrote can be read
        "elements": exact_log2(cfg.rnn_elements),   # first element of the context in vector memory
        "registers": PRODUCT_ADDRESS_BITS,          # first product register of the context
        "parity_registers": PRODUCT_ADDRESS_BITS,   # first product register of operations with ``parity``; equal in even steps
        "row": 20,                                  # address of the output row of this step, in bytes
    })


def job_order_layout(cfg):
    """Job of the activation pipeline in the order of the dependency scoreboard; ``pairs``: it processes pairs of element groups."""
    return data.StructLayout({"context": context_bits(cfg), "pairs": 1})


def written_group_layout(cfg):
    """Element group, or pair of element groups, that a job has written; ``finished``: the group is the last one of its job."""
    return data.StructLayout({"context": context_bits(cfg), "finished": 1})


def tail_output_layout(cfg):
    """Results for shared memory: ``tail_lanes`` elements of 16 bits in order. The byte address is a multiple of the smaller of 16 and
    ``2 * tail_lanes``.
    """
    return data.StructLayout({"address": 20, "elements": data.ArrayLayout(16, cfg.tail_lanes)})


def chosen_sweep_layout(cfg):
    """Granted matrix-vector pass, with absolute positions in vector memory and product register file."""
    return data.StructLayout({
        "context": context_bits(cfg),
        "job": COUNT_BITS,          # number of the job that writes the vector, modulo 4; valid with ``waits``
        "waits": 1,
        "element": exact_log2(cfg.rnn_elements),
        "columns": COLUMNS_BITS,
        "weight": cfg.factor_address_bits,
        "blocks": 7,
        "product": PRODUCT_ADDRESS_BITS,
        "source": PRODUCT_ADDRESS_BITS,  # addend register of row block 0, in the first column
        "zero": 1,                  # the addend is zero, in the first column
        "cat": 2,
        "skip": 1,
        "release": 1,
        "launch": 1,
        "begins": 1,                # its first column defines the sums: ``start`` is not CONTINUE
        **({"fresh": 1, "difference": 1, "sent": exact_log2(cfg.rnn_elements), "held": 16} if cfg.rnn_differences else {}),
    })


def context_layout(cfg):
    """State of a task that the scheduler updates with every granted matrix-vector pass."""
    return data.StructLayout({
        "next": exact_log2(cfg.rnn_records),        # record of the next matrix-vector pass
        "odd": 1,                                   # the step is odd
        **({"fresh": 1} if cfg.rnn_differences else {}),        # the step is the first of the task
    })


def step_count_layout(cfg):
    """State of a task that the scheduler updates with every step."""
    return data.StructLayout({
        "left": 16,                 # outstanding steps, this one included; 0: 65,536
        "row": 20,                  # address of the output row of this step, in bytes
    })


def context_place_layout(cfg):
    """Absolute positions of a task, computed once when the task begins."""
    elements = exact_log2(cfg.rnn_elements)
    return data.StructLayout({
        "first": exact_log2(cfg.rnn_records),       # first record of a step
        "pitch": 16,                                # pitch of output rows in bytes, signed
        "elements": elements,                       # first element of the context
        "odd_input": elements,                      # the same for inputs of odd steps, advanced by the distance of the two rows
        "registers": PRODUCT_ADDRESS_BITS,          # first product register
        "odd_registers": PRODUCT_ADDRESS_BITS,      # first product register of accumulators with ``parity``, in odd steps
    })


# Start of a task in a context: initial state and absolute positions.
def task_start_layout(cfg):
    return data.StructLayout({"context": context_bits(cfg), "task": context_layout(cfg), "count": step_count_layout(cfg),
                              "place": context_place_layout(cfg)})
