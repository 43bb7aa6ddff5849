"""Brings an image, its tasks and their inputs from shared memory to the engine."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, enum, stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out, connect, flipped
from amaranth.utils import exact_log2

from ..layouts import BankReadPort
from .layouts import RECORD_BITS, header_layout, task_layout, task_memory_layout, task_start_layout
from .transfer import WORD_BITS, Transfer
from .vector_memory import LOADED_ELEMENTS

__all__ = ["Fault", "Loader"]

PLACE_SHIFT = exact_log2(LOADED_ELEMENTS)
BYTE_SHIFT = exact_log2(RECORD_BITS // 8)


class Fault(enum.Enum, shape=2):
    """What is wrong with an image."""

    NONE = 0
    RANGE = 1           # something lies outside of shared memory: its address
    HEADER = 2          # a count of the header is zero or larger than the engine: the address of the header
    ELEMENTS = 3        # the vectors of the contexts are larger than vector memory


class Sink(enum.Enum, shape=3):
    """Where the words of a transfer go."""

    HEADER = 0
    SWEEPS = 1
    OPERATIONS = 2
    TASK = 3
    STATE = 4
    ROW = 5


def input_layout(cfg):
    """The rows of input of a task that are still to come."""
    place = exact_log2(cfg.rnn_elements) - PLACE_SHIFT
    return data.StructLayout({"word": WORD_BITS, "pitch": 12, "left": 17, "words": 11, "place": place, "offset": place, "odd": 1})


class Loader(Component):
    """Executes an image as far as data are concerned: tables, tasks in order, the state of each, its rows of input ahead of time [S3.6].

    Tasks are given to the contexts as these become free, in the order of the image, each at the earliest ``task.start`` cycles after ``begin``. A row
    of input is read as soon as one of the two places of its context is free. One transfer at a time, contexts in turn.

    Members
    -------
    begin, address : In(1), In(32)
        Start; the image lies at this address of shared memory, a multiple of 16.
    stop : In(1)
        Forget everything.
    bank : Out(BankReadPort(cfg))
    header : Out(header_layout)
    sweep_write, operation_write, table_address, table_data
        Writes of the tables.
    loaded_valid, loaded_place, loaded, loaded_ready
        See ``VectorMemory``.
    running, free : In(rnn_contexts)
        Contexts with a task; with room for a row.
    o_task : Out(stream.Signature(task_start_layout(cfg)))
    loaded_row, row_context
        A row of a context was loaded.
    over : Out(1)
        All tasks were handed out, and no context runs.
    fault, fault_value : Out(Fault), Out(32)
        Until ``stop``; nothing is loaded any more.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        contexts = cfg.rnn_contexts
        super().__init__({
            "begin": In(1), "address": In(32), "stop": In(1), "bank": Out(BankReadPort(cfg)), "header": Out(header_layout),
            "sweep_write": Out(1), "operation_write": Out(1), "table_address": Out(exact_log2(cfg.rnn_records)), "table_data": Out(RECORD_BITS),
            "loaded_valid": Out(1), "loaded_place": Out(exact_log2(cfg.rnn_elements) - PLACE_SHIFT), "loaded": Out(RECORD_BITS),
            "loaded_ready": In(1), "running": In(contexts), "free": In(contexts), "o_task": Out(stream.Signature(task_start_layout(cfg))),
            "loaded_row": Out(1), "row_context": Out(range(max(contexts, 2))), "over": Out(1),
            "fault": Out(Fault), "fault_value": Out(32),
        })

    def elaborate(self, platform):
        m = Module()
        cfg = self.cfg
        m.submodules.transfer = self._transfer = transfer = Transfer(cfg)
        connect(m, flipped(self.bank), transfer.bank)
        self._sink, self._index = Signal(Sink), Signal(WORD_BITS)       # words of the transfer that have come
        self._active, self._serving = Signal(), Signal()
        self._task, self._memory = Signal(task_layout, reset_less=True), Signal(task_memory_layout, reset_less=True)
        self._context = Signal(range(max(cfg.rnn_contexts, 2)))         # whose turn it is
        self._pending = Signal(cfg.rnn_contexts)                        # rows are left to load
        m.submodules.inputs = inputs = Memory(shape=input_layout(cfg), depth=max(cfg.rnn_contexts, 2), init=[])
        self._input, self._input_write = inputs.read_port(domain="comb"), inputs.write_port()
        m.d.comb += self._input.addr.eq(self._context)
        self._words(m)
        self._sequence(m)
        return m
