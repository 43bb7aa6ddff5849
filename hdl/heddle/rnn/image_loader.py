"""Image loader: tables, tasks, initial states and input rows of an image, from shared memory to the recurrent engine."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, enum, stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out, Signature, connect, flipped
from amaranth.utils import exact_log2

from ..interfaces.layouts import SharedReadPort
from ..parameters.rnn import RnnParameters
from .bank_reader import WORD_BITS, BankReader
from .layouts import (
    DISTRIBUTED,
    PRODUCT_ADDRESS_BITS,
    RECORD_BITS,
    ContextEvent,
    context_bits,
    header_layout,
    of_context,
    task_layout,
    task_memory_layout,
    task_start_layout,
)
from .vector_memory import LOADED_ELEMENTS, LoadPort

__all__ = ["Fault", "ImageLoader", "RecordWritePort"]

PLACE_SHIFT = exact_log2(LOADED_ELEMENTS)
BYTE_SHIFT = exact_log2(RECORD_BITS // 8)
COUNT = 11          # bits of the number of words of a transfer


class Fault(enum.Enum, shape=2):
    """Fault of an image."""

    NONE = 0
    RANGE = 1           # a word of the image, of a state or of a row is outside of shared memory
    ADDRESS = 2         # the address of the image is outside of shared memory or misaligned
    HEADER = 3          # a count of the header is zero or exceeds the engine, or the vectors or tap registers do


class Sink(enum.Enum, shape=3):
    """Destination of the words of a transfer."""

    HEADER = 0
    SWEEPS = 1
    OPERATIONS = 2
    TASK = 3
    STATE = 4
    ROW = 5


class Phase(enum.Enum, shape=4):
    """Next action of the loader; in all phases but SERVE the loader waits for the end of the previous transfer."""

    HEADER = 0
    CHECK = 1
    SWEEPS = 2
    OPERATIONS = 3
    TASK = 4
    BEHIND = 5          # registers the address of the next task, behind the last word
    SERVE = 6           # decides between ROW, TASK and STATE
    ROW = 7
    STATE = 8
    START = 9


def input_layout(cfg):
    """Input rows of a task: ``pitch`` from row to row and ``words`` of a row in units of 16 bytes; places of the rows of ``even`` and
    ``odd`` steps.
    """
    place = exact_log2(cfg.rnn_elements) - PLACE_SHIFT
    return data.StructLayout({"pitch": 12, "words": COUNT, "even": place, "odd": place})


# Next input row of a task: word of shared memory, outstanding rows (0: 65,536), parity of the step.
row_layout = data.StructLayout({"word": WORD_BITS, "left": 16, "odd": 1})


def RecordWritePort(cfg):
    """Write port of the tables of records, seen from the image loader.

    *Ports*:
    write_sweep : Out(1)
        Write enable of the table of matrix-vector passes.
    write_operation : Out(1)
        Write enable of the table of tail operations.
    address : Out(log2(rnn_records))
        Record to write in either table.
    data : Out(128)
        Data of the record.
    """
    return Signature({
        "write_sweep": Out(1), "write_operation": Out(1), "address": Out(exact_log2(cfg.rnn_records)), "data": Out(RECORD_BITS),
    })


class ImageLoader(Component):
    """Image loader: reads the header and the tables of an image, hands out its tasks in order and loads states and input rows ahead
    [S3.6].

    A place counts ``LOADED_ELEMENTS`` (8) elements of vector memory; all places are absolute.

    A task is handed to a context that runs none, in the order of the image, at the earliest ``task.start`` cycles after ``begin``. The
    initial state of the task is loaded before. An input row is loaded when one of the two row buffers of its context is free.

    The loader executes one transfer at a time. A round-robin pointer visits the contexts, one a cycle. At each context the order of
    checks is: an input row to load, then the next task record to read, then a task to hand out.

    *Ports*:
    begin : In(1)
        Starts an image; allowed after reset and after ``stop``.
    address : In(32)
        With ``begin``: byte address of the image in shared memory, a multiple of 16.
    stop : In(1)
        Discards the image and the fault. A transfer in progress ends with the words that are requested.
    bank : Out(SharedReadPort(cfg))
        Read port of shared memory.
    header : Out(header_layout)
        Header of the image; registered.
    records : Out(RecordWritePort(cfg))
        Write port of the tables.
    load : Out(LoadPort(cfg))
        Write port of vector memory. A word remains valid in the cycle after ``hold`` and leaves in a later one.
    hold : In(1)
        Vector memory takes no word in the next cycle.
    running : In(rnn_contexts)
        Contexts that run a task.
    free : In(rnn_contexts)
        Contexts with a free row buffer.
    o_task : Out(stream.Signature(task_start_layout(cfg)))
        Tasks that begin, after their state is loaded.
    has_input : Out(rnn_contexts)
        Contexts whose task has input rows; registered.
    o_reserved : Out(ContextEvent(cfg))
        A row buffer of the context is about to be loaded.
    o_loaded : Out(ContextEvent(cfg))
        The last word of an input row of the context is written to vector memory in this cycle.
    over : Out(1)
        All tasks are handed out, no context runs, and no transfer is in progress.
    busy : Out(1)
        A transfer is in progress: words are requested, or are about to be.
    fault : Out(Fault)
        Fault of the image, registered until ``stop``; a fault ends all loading.
    fault_value : Out(20)
        Byte address of a RANGE fault.

    *Latency*: at the least latency of the memory 3 cycles from the begin of a transfer to its first word.

    *Throughput*: one word of 16 bytes a cycle within a transfer, at the least latency of the memory.

    *Back-pressure*: ``hold`` acts on the next cycle. ``bank.request`` and ``o_task.valid`` depend on registers only.

    *Reset*: idle without an image or a fault.

    *Errors*: RANGE: a word of the image, a state or a row is outside of shared memory. ADDRESS: ``address`` is not a multiple of 16 or
    is outside. HEADER: ``sweeps`` or ``contexts`` is 0, or a count exceeds the engine.

    *Source*: [S3.6].
    """

    def __init__(self, cfg):
        self.cfg = cfg = RnnParameters.of(cfg)
        contexts = cfg.rnn_contexts
        super().__init__({
            "begin": In(1), "address": In(32), "stop": In(1), "bank": Out(SharedReadPort(cfg)), "header": Out(header_layout),
            "records": Out(RecordWritePort(cfg)), "load": Out(LoadPort(cfg)), "hold": In(1),
            "running": In(contexts), "free": In(contexts), "o_task": Out(stream.Signature(task_start_layout(cfg))),
            "has_input": Out(contexts), "o_reserved": Out(ContextEvent(cfg)), "o_loaded": Out(ContextEvent(cfg)),
            "over": Out(1), "busy": Out(1), "fault": Out(Fault), "fault_value": Out(WORD_BITS + BYTE_SHIFT),
        })

    def elaborate(self, platform):
        m = Module()
        cfg = self.cfg
        self._places = exact_log2(cfg.rnn_elements) - PLACE_SHIFT
        m.submodules.transfer = self._reader = reader = BankReader(cfg, COUNT, max(self._places, exact_log2(cfg.rnn_records)))
        connect(m, flipped(self.bank), reader.bank)
        self._task, self._memory = Signal(task_layout, reset_less=True), Signal(task_memory_layout, reset_less=True)
        self._late = Signal()           # the start time of the task has passed
        self._phase, self._sink, active = Signal(Phase), Signal(Sink), Signal()
        self._next = Signal(WORD_BITS, reset_less=True)         # word of the next task record
        self._more, self._have = Signal(), Signal()             # more tasks follow; a task is read and not handed out
        cycles = Signal(len(self._task.start) + 1)
        self._context, self._served = Signal(context_bits(cfg)), Signal(context_bits(cfg))      # round-robin pointer; of the transfer
        self._elements, self._registers = Signal(self._places), Signal(PRODUCT_ADDRESS_BITS)    # bases of the former
        self._pending = Signal(cfg.rnn_contexts)                        # contexts with outstanding rows
        for name, layout in (("input", input_layout(cfg)), ("row", row_layout)):
            memory = m.submodules[f"{name}s"] = Memory(shape=layout, depth=1 << context_bits(cfg), init=[], attrs=DISTRIBUTED)
            read, write = memory.read_port(domain="comb"), memory.write_port()
            setattr(self, f"_{name}", read.data)
            setattr(self, f"_{name}_write", write)
            m.d.comb += [read.addr.eq(self._context), write.addr.eq(self._context)]
        m.d.sync += cycles.eq(cycles + ~cycles[-1])
        self._words(m)
        self._sources(m)
        self._start(m)
        idle = Signal()
        m.d.comb += [
            self._late.eq(cycles >= self._task.start), self.o_reserved.payload.context.eq(self._context), reader.o.hold.eq(self.hold),
            reader.stop.eq(self.stop), self.busy.eq(reader.transfer.busy), idle.eq(active & ~self.busy & (self.fault == Fault.NONE)),
            self.over.eq(idle & (self._phase == Phase.SERVE) & ~self._have & ~self._more & ~self.running.any()),
            self.fault_value.eq(reader.word << BYTE_SHIFT),
        ]
        with m.If(active & (self._phase == Phase.SERVE)):
            self._serve(m)
        with m.If(idle):
            self._sequence(m)
        with m.If(reader.outside):
            m.d.sync += self.fault.eq(Fault.RANGE)
        with m.If(self.begin):
            m.d.sync += [active.eq(1), self._phase.eq(Phase.HEADER), self._have.eq(0), self._more.eq(1), cycles.eq(0),
                         self._next.eq(self.address >> BYTE_SHIFT)]
            with m.If((self.address[self.cfg.shared_address_bits:] != 0) | (self.address[:BYTE_SHIFT] != 0)):
                m.d.sync += self.fault.eq(Fault.ADDRESS)
        with m.If(self.stop):
            m.d.sync += [active.eq(0), self.fault.eq(Fault.NONE), self._pending.eq(0)]
        return m

    def _words(self, m):
        """Routes each word to its sink."""
        word, sink, records, load = self._reader.o, self._sink, self.records, self.load
        m.d.comb += [
            records.address.eq(word.at), records.data.eq(word.data), load.data.eq(word.data), load.place.eq(word.at),
            records.write_sweep.eq(word.valid & (sink == Sink.SWEEPS)), records.write_operation.eq(word.valid & (sink == Sink.OPERATIONS)),
            load.enable.eq(word.valid & ((sink == Sink.STATE) | (sink == Sink.ROW))),
            self.o_loaded.valid.eq(word.taken & word.last & (sink == Sink.ROW)), self.o_loaded.payload.context.eq(self._served),
        ]
        with m.If(word.valid & (sink == Sink.HEADER)):
            m.d.sync += self.header.eq(word.data)
        with m.If(word.valid & (sink == Sink.TASK)):        # both records of a task in order
            m.d.sync += self._memory.eq(word.data)
            with m.If(~word.last):
                m.d.sync += self._task.eq(word.data)

    def _sources(self, m):
        """Address and length of the next transfer. The values are not zero in other cycles, because a gate would cost as much as a
        multiplexer.
        """
        transfer, task, phase, entry = self._reader.transfer, self._task, self._phase, self._input
        m.d.comb += [
            transfer.on.eq((phase == Phase.SWEEPS) | (phase == Phase.OPERATIONS)), transfer.first.eq(self._next),
            transfer.words.eq(Mux(phase == Phase.TASK, 2, 1)),
        ]
        with m.Switch(phase):
            with m.Case(Phase.SWEEPS):
                m.d.comb += transfer.words.eq(self.header.sweeps)
            with m.Case(Phase.OPERATIONS):
                m.d.comb += transfer.words.eq(self.header.operations)
            with m.Case(Phase.STATE):
                m.d.comb += [
                    transfer.words.eq(task.state_bytes[BYTE_SHIFT:]), transfer.first.eq(self._memory.state_address[BYTE_SHIFT:]),
                    transfer.place.eq(self._elements + task.state_element[PLACE_SHIFT:]),
                ]
            with m.Case(Phase.ROW):
                m.d.comb += [
                    transfer.words.eq(entry.words), transfer.first.eq(self._row.word),
                    transfer.place.eq(Mux(self._row.odd, entry.odd, entry.even)),
                ]

    def _sequence(self, m):
        """The next action, in a cycle without a transfer."""
        phase = self._phase

        def read(sink, after):
            m.d.comb += self._reader.transfer.begin.eq(1)
            m.d.sync += [self._sink.eq(sink), self._served.eq(self._context), phase.eq(after)]

        with m.Switch(phase):
            with m.Case(Phase.HEADER):
                read(Sink.HEADER, Phase.CHECK)
            with m.Case(Phase.CHECK):
                self._check(m)
                m.d.sync += phase.eq(Phase.SWEEPS)
            with m.Case(Phase.SWEEPS):
                read(Sink.SWEEPS, Phase.OPERATIONS)
            with m.Case(Phase.OPERATIONS):
                read(Sink.OPERATIONS, Phase.BEHIND)
            with m.Case(Phase.TASK):
                read(Sink.TASK, Phase.BEHIND)
                m.d.sync += self._have.eq(1)
            with m.Case(Phase.BEHIND):
                m.d.sync += [phase.eq(Phase.SERVE), self._next.eq(self._reader.word), self._more.eq(~(self._have & self._task.last))]
            with m.Case(Phase.ROW):
                read(Sink.ROW, Phase.SERVE)
                m.d.comb += [self._row_write.en.eq(1), self.o_reserved.valid.eq(1)]
                with m.If(self._row.left == 1):
                    m.d.sync += self._pending.bit_select(self._context, 1).eq(0)
            with m.Case(Phase.STATE):
                read(Sink.STATE, Phase.START)
            with m.Case(Phase.START):
                m.d.comb += [self.o_task.valid.eq(1), self._input_write.en.eq(1), self._row_write.en.eq(1)]
                with m.If(self.o_task.ready):
                    any_rows = self._task.input_bytes[BYTE_SHIFT:] != 0
                    m.d.sync += [phase.eq(Phase.SERVE), self._have.eq(0)]
                    m.d.sync += [bits.bit_select(self._context, 1).eq(any_rows) for bits in (self._pending, self.has_input)]

    def _check(self, m):
        header, cfg = self.header, self.cfg
        large = [(header.contexts > index) & (header.elements > cfg.rnn_elements // (index + 1)) for index in range(cfg.rnn_contexts)]
        with m.If((header.sweeps == 0) | (header.sweeps > cfg.rnn_records) | (header.operations > cfg.rnn_records)
                  | (header.contexts == 0) | (header.contexts > cfg.rnn_contexts) | Cat(large).any()
                  | (header.tap_registers > cfg.rnn_tap_registers)):
            m.d.sync += self.fault.eq(Fault.HEADER)

    def _serve(self, m):
        """One cycle at the round-robin pointer: an input row, a task record, a task to hand out, or the next context."""
        context, count = self._context, self.cfg.rnn_contexts
        free = ~self.running.bit_select(context, 1) & (context < self.header.contexts)
        m.d.sync += [
            self._elements.eq(of_context(self.cfg, context, self.header.elements) >> PLACE_SHIFT),
            self._registers.eq(of_context(self.cfg, context, self.header.registers)),
        ]
        with m.If((self._pending & self.free).bit_select(context, 1)):
            m.d.sync += self._phase.eq(Phase.ROW)
        with m.Elif(~self._have & self._more):
            m.d.sync += self._phase.eq(Phase.TASK)
        with m.Elif(self._have & free & self._late):
            m.d.sync += self._phase.eq(Phase.STATE)
        with m.Else():
            m.d.sync += context.eq(Mux(context == count - 1, 0, context + 1))

    def _start(self, m):
        """Absolute positions of the task and its rows, for the scheduler and the memories; in phase ROW the state of the next row."""
        task, memory, new, row = self._task, self._memory, self._input_write.data, self._row_write.data
        o, place = self.o_task.payload, self.o_task.payload.place
        words, wide = task.input_bytes[BYTE_SHIFT:], self.cfg.vector_lanes // LOADED_ELEMENTS
        offset, odd = ((words + wide - 1) & ~(wide - 1) if wide > 1 else words), Signal(self._places)
        input_place = task.input_element[PLACE_SHIFT:]
        m.d.comb += [
            odd.eq(self._elements + offset),
            o.context.eq(self._context), o.task.next.eq(task.sweep), o.count.left.eq(task.steps), o.count.row.eq(memory.output_address),
            place.first.eq(task.sweep), place.pitch.eq(memory.output_pitch),
            place.elements.eq(self._elements << PLACE_SHIFT), place.odd_input.eq(odd << PLACE_SHIFT),
            place.registers.eq(self._registers), place.odd_registers.eq(self._registers + self.header.parity),
            row.word.eq(memory.input_address[BYTE_SHIFT:]), row.left.eq(task.steps),
            new.pitch.eq(memory.input_pitch[BYTE_SHIFT:]), new.words.eq(words),
            new.even.eq(self._elements + input_place), new.odd.eq(odd + input_place),
        ]
        if self.cfg.rnn_differences:
            m.d.comb += o.task.fresh.eq(1)
        with m.If(self._phase == Phase.ROW):
            last = self._row
            m.d.comb += [
                row.word.eq(last.word + self._input.pitch.as_signed()), row.left.eq(last.left - 1), row.odd.eq(~last.odd),
            ]
