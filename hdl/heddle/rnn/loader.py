"""Brings an image, its tasks and their inputs from shared memory to the engine."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, enum, stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out, connect, flipped
from amaranth.utils import exact_log2

from ..layouts import BankReadPort
from .layouts import RECORD_BITS, context_bits, header_layout, of_context, task_layout, task_memory_layout, task_start_layout
from .transfer import WORD_BITS, Transfer
from .vector_memory import LOADED_ELEMENTS

__all__ = ["Fault", "Loader"]

PLACE_SHIFT = exact_log2(LOADED_ELEMENTS)
BYTE_SHIFT = exact_log2(RECORD_BITS // 8)
COUNT = 11          # bits of the number of words of a transfer


class Fault(enum.Enum, shape=2):
    """What is wrong."""

    NONE = 0
    RANGE = 1           # a word of the image, of a state or of a row lies outside of shared memory: its address
    ADDRESS = 2         # the image does
    HEADER = 3          # a count of the header is zero or larger than the engine, or the vectors of all contexts or sums are


class Sink(enum.Enum, shape=3):
    """Where the words of a transfer go."""

    HEADER = 0
    SWEEPS = 1
    OPERATIONS = 2
    TASK = 3
    STATE = 4
    ROW = 5


class Phase(enum.Enum, shape=4):
    """What is done when the transfer before is over."""

    HEADER = 0
    CHECK = 1
    SWEEPS = 2
    OPERATIONS = 3
    SERVE = 4           # decides between the next three
    ROW = 5
    TASK = 6
    STATE = 7
    START = 8


def input_layout(cfg):
    """The rows of input of a task that are still to come; ``left`` 0 is 65,536."""
    place = exact_log2(cfg.rnn_elements) - PLACE_SHIFT
    return data.StructLayout({"word": WORD_BITS, "pitch": 12, "left": 16, "words": COUNT, "place": place, "offset": place, "odd": 1})


class Loader(Component):
    """Executes an image as far as data are concerned: tables, tasks in order, the state of each, its rows of input ahead [S3.6].

    Tasks are given to the contexts as these become free, in the order of the image, each at the earliest ``task.start`` cycles after
    ``begin``. A row of input is read as soon as one of the two places of its context is free. One transfer at a time, contexts in turn.

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
    has_input : Out(rnn_contexts)
        The task of the context has rows of input.
    reserved, reserved_context
        A place of a context will be used for a row.
    loaded_row, row_context
        A row of a context was loaded.
    over : Out(1)
        All tasks were handed out, and no context runs.
    fault, fault_value : Out(Fault), Out(20)
        Until ``stop``; nothing is loaded any more. The value is that of RANGE.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        contexts = cfg.rnn_contexts
        super().__init__({
            "begin": In(1), "address": In(32), "stop": In(1), "bank": Out(BankReadPort(cfg)), "header": Out(header_layout),
            "sweep_write": Out(1), "operation_write": Out(1), "table_address": Out(exact_log2(cfg.rnn_records)),
            "table_data": Out(RECORD_BITS),
            "loaded_valid": Out(1), "loaded_place": Out(exact_log2(cfg.rnn_elements) - PLACE_SHIFT), "loaded": Out(RECORD_BITS),
            "loaded_ready": In(1), "running": In(contexts), "free": In(contexts), "o_task": Out(stream.Signature(task_start_layout(cfg))),
            "has_input": Out(contexts), "reserved": Out(1), "reserved_context": Out(context_bits(cfg)),
            "loaded_row": Out(1), "row_context": Out(context_bits(cfg)), "over": Out(1),
            "fault": Out(Fault), "fault_value": Out(WORD_BITS + BYTE_SHIFT),
        })

    def elaborate(self, platform):
        m = Module()
        cfg = self.cfg
        context = context_bits(cfg)
        tag = data.StructLayout({"sink": Sink, "context": context})
        m.submodules.transfer = self._transfer = transfer = Transfer(cfg, COUNT, tag)
        connect(m, flipped(self.bank), transfer.bank)
        self._phase, self._first, active = Signal(Phase), Signal(), Signal()
        self._next, self._left, self._have = Signal(WORD_BITS), Signal(16), Signal()        # next task record; tasks; one is read
        self._known, self._cycles = Signal(), Signal(24)                # the record has come
        self._elements = Signal(exact_log2(cfg.rnn_elements), reset_less=True)
        self._task, self._memory = Signal(task_layout, reset_less=True), Signal(task_memory_layout, reset_less=True)
        self._context = Signal(context)         # whose turn it is
        self._pending = Signal(cfg.rnn_contexts)                        # rows are left to load
        m.submodules.inputs = inputs = Memory(shape=input_layout(cfg), depth=1 << context_bits(cfg), init=[])
        self._input, self._input_write = inputs.read_port(domain="comb"), inputs.write_port()
        m.d.comb += [self._input.addr.eq(self._context), self._input_write.addr.eq(self._context), self.reserved_context.eq(self._context)]
        m.d.sync += self._cycles.eq(self._cycles + ~self._cycles.all())
        self._words(m)
        idle = Signal()
        m.d.comb += [
            idle.eq(active & transfer.free & (self.fault == Fault.NONE)),
            self.over.eq(idle & ~transfer.busy & (self._phase == Phase.SERVE) & ~self._have & (self._left == 0) & ~self.running.any()),
            self.fault_value.eq(transfer.word << BYTE_SHIFT),
        ]
        with m.If(idle):
            self._sequence(m)
        with m.If(transfer.outside):
            m.d.sync += self.fault.eq(Fault.RANGE)
        with m.If(self.begin):
            m.d.sync += [active.eq(1), self._phase.eq(Phase.HEADER), self._have.eq(0), self._known.eq(0), self._cycles.eq(0),
                         self._next.eq(self.address >> BYTE_SHIFT)]
            with m.If((self.address[self.cfg.shared_address_bits:] != 0) | (self.address[:BYTE_SHIFT] != 0)):
                m.d.sync += self.fault.eq(Fault.ADDRESS)
        with m.If(self.stop):
            m.d.sync += [active.eq(0), self.fault.eq(Fault.NONE), self._pending.eq(0)]
        return m

    def _words(self, m):
        """Where each word goes that comes."""
        word, sink = self._transfer.o, self._transfer.o.payload.tag.sink
        to_memory = (sink == Sink.STATE) | (sink == Sink.ROW)
        m.d.comb += [
            self.table_address.eq(word.payload.place), self.table_data.eq(word.payload.data),
            self.sweep_write.eq(word.valid & (sink == Sink.SWEEPS)), self.operation_write.eq(word.valid & (sink == Sink.OPERATIONS)),
            self.loaded_valid.eq(word.valid & to_memory), self.loaded.eq(word.payload.data), self.loaded_place.eq(word.payload.place),
            word.ready.eq(~to_memory | self.loaded_ready),
            self.loaded_row.eq(word.valid & word.ready & word.payload.last & (sink == Sink.ROW)),
            self.row_context.eq(word.payload.tag.context),
        ]
        with m.If(word.valid & (sink == Sink.HEADER)):
            m.d.sync += self.header.eq(word.payload.data)
        with m.If(word.valid & (sink == Sink.TASK) & ~word.payload.last):
            m.d.sync += self._task.eq(word.payload.data)
        with m.If(word.valid & (sink == Sink.TASK) & word.payload.last):
            m.d.sync += [self._memory.eq(word.payload.data), self._known.eq(1)]

    def _read(self, m, sink, words, first=None, place=0):
        """Begins a transfer: from ``first`` on, or of the words behind the last one that was read."""
        m.d.comb += [
            self._transfer.words.eq(words), self._transfer.begin.eq(1), self._transfer.place.eq(place),
            self._transfer.tag.sink.eq(sink), self._transfer.tag.context.eq(self._context),
        ]
        if first is None:
            m.d.comb += self._transfer.on.eq(1)
        else:
            m.d.comb += self._transfer.first.eq(first)

    def _sequence(self, m):
        """The next thing to do, in a cycle in which no transfer is under way."""
        header, phase, task = self.header, self._phase, self._task
        with m.Switch(phase):
            with m.Case(Phase.HEADER):
                self._read(m, Sink.HEADER, 1, self._next)
                m.d.sync += phase.eq(Phase.CHECK)
            with m.Case(Phase.CHECK):
                with m.If(~self._transfer.busy):
                    self._check(m)
                    m.d.sync += [phase.eq(Phase.SWEEPS), self._left.eq(header.tasks)]
            with m.Case(Phase.SWEEPS):
                self._read(m, Sink.SWEEPS, header.sweeps)
                m.d.sync += phase.eq(Phase.OPERATIONS)
            with m.Case(Phase.OPERATIONS):
                self._read(m, Sink.OPERATIONS, header.operations)
                m.d.sync += [phase.eq(Phase.SERVE), self._first.eq(1)]
            with m.Case(Phase.SERVE):
                self._serve(m)
            with m.Case(Phase.ROW):
                self._row(m)
            with m.Case(Phase.TASK):
                self._read(m, Sink.TASK, 2, self._next)
                m.d.sync += [phase.eq(Phase.SERVE), self._have.eq(1), self._left.eq(self._left - 1), self._next.eq(self._next + 2)]
            with m.Case(Phase.STATE):
                self._read(m, Sink.STATE, task.state_bytes[BYTE_SHIFT:], self._memory.state_address[BYTE_SHIFT:],
                           (self._elements + task.state_element) >> PLACE_SHIFT)
                m.d.sync += phase.eq(Phase.START)
            with m.Case(Phase.START):
                with m.If(~self._transfer.busy):
                    self._start(m)

    def _check(self, m):
        header, cfg = self.header, self.cfg
        elements = Signal(header.elements.shape().width + 4)
        m.d.comb += elements.eq(sum(Mux(header.contexts > index, header.elements, 0) for index in range(cfg.rnn_contexts)))
        with m.If((header.tasks == 0) | (header.sweeps == 0) | (header.sweeps > cfg.rnn_records) | (header.operations > cfg.rnn_records)
                  | (header.contexts == 0) | (header.contexts > cfg.rnn_contexts) | (elements > cfg.rnn_elements)
                  | (header.tap_registers > cfg.rnn_tap_registers)):
            m.d.sync += self.fault.eq(Fault.HEADER)

    def _serve(self, m):
        """One context: a row of input, or a task, or nothing."""
        context, count = self._context, self.cfg.rnn_contexts
        free = ~self.running.bit_select(context, 1) & (context < self.header.contexts)
        m.d.sync += self._elements.eq(of_context(self.cfg, context, self.header.elements))
        with m.If(self._first):         # the tasks lie behind the operations
            m.d.sync += [self._first.eq(0), self._next.eq(self._transfer.word)]
        with m.Elif((self._pending & self.free).bit_select(context, 1)):
            m.d.sync += self._phase.eq(Phase.ROW)
        with m.Elif(~self._have & (self._left != 0)):
            m.d.sync += self._phase.eq(Phase.TASK)
        with m.Elif(self._known & free & (self._cycles >= self._task.start)):
            m.d.sync += self._phase.eq(Phase.STATE)
        with m.Else():
            m.d.sync += context.eq(Mux(context == count - 1, 0, context + 1))

    def _row(self, m):
        """Begins the transfer of a row; the next one of this context follows it in memory."""
        row, new = self._input.data, self._input_write.data
        self._read(m, Sink.ROW, row.words, row.word, row.place + (row.offset & row.odd.replicate(len(row.offset))))
        m.d.comb += [
            new.eq(row), new.word.eq(row.word + row.pitch.as_signed()), new.left.eq(row.left - 1), new.odd.eq(~row.odd),
            self._input_write.en.eq(1),
        ]
        m.d.comb += self.reserved.eq(1)
        m.d.sync += self._phase.eq(Phase.SERVE)
        with m.If(row.left == 1):
            m.d.sync += self._pending.bit_select(self._context, 1).eq(0)

    def _start(self, m):
        """Hands the task to the scheduler, and keeps where its rows lie."""
        task, memory, new, first = self._task, self._memory, self._input_write.data, self.o_task.payload.task
        words, wide = task.input_bytes[BYTE_SHIFT:], self.cfg.vector_lanes // LOADED_ELEMENTS
        offset = (words + wide - 1) & ~(wide - 1) if wide > 1 else words
        m.d.comb += [
            self.o_task.valid.eq(1), self.o_task.payload.context.eq(self._context),
            first.first.eq(task.sweep), first.next.eq(task.sweep), first.left.eq(task.steps), first.row.eq(memory.output_address),
            first.pitch.eq(memory.output_pitch), first.input.eq(offset << PLACE_SHIFT),
            new.word.eq(memory.input_address[BYTE_SHIFT:]), new.pitch.eq(memory.input_pitch[BYTE_SHIFT:]), new.left.eq(task.steps),
            new.words.eq(words), new.place.eq((self._elements + task.input_element) >> PLACE_SHIFT), new.offset.eq(offset),
            self._input_write.en.eq(1),
        ]
        if self.cfg.rnn_differences:
            m.d.comb += first.fresh.eq(1)
        with m.If(self.o_task.ready):
            m.d.sync += [
                self._phase.eq(Phase.SERVE), self._have.eq(0), self._known.eq(0), self._pending.bit_select(self._context, 1).eq(words != 0),
                self.has_input.bit_select(self._context, 1).eq(words != 0),
            ]
