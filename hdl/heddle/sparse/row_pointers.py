"""Row pointers: reads the row pointers of jobs and makes rows of them."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, ROW_BYTES
from ..isa.error_codes import ErrorCode
from ..isa.sparse_job import ELEMENTS_OF_WORD, POINTER_BYTES, STRIP_ROWS, SparseKind, sparse_job_layout
from ..lib.stream import Queue
from ..parameters.sparse import SparseParameters
from .layouts import (
    BLOCK_BITS,
    COLUMN_BITS,
    COUNT_BITS,
    PIECE_BITS,
    SUMS_OF_WORD,
    WORD_BITS,
    ItemKind,
    checked_job_layout,
    extent_layout,
    item_layout,
    left_row_layout,
    word_request_layout,
)

__all__ = ["RowPointers"]

WORDS_AHEAD = 4                                         # words of pointers that are requested and not used up
POINTERS_OF_WORD = BANK_BYTES // POINTER_BYTES
POINTER_BITS = 8 * POINTER_BYTES
LEFT_BITS = 27                                          # of the number of a word of a row of A, also behind the end of shared memory


class RowPointers(Component):
    """Row pointers: reads the row pointers of each job ahead and makes an item of work of each row, in order.

    Panels and errors of jobs pass as items of their own. After an item with an error nothing follows until reset.

    Parameters
    ----------
    cfg : SparseParameters

    *Ports*:
    i : In(stream.Signature(checked_job_layout))
        Jobs.
    request : Out(stream.Signature(word_request_layout))
        Reads of words of row pointers.
    answered : In(1)
        ``word`` has the next word.
    word : In(128)
        Word of shared memory.
    o : Out(stream.Signature(item_layout))
        Items of work.
    o_extent : Out(stream.Signature(extent_layout))
        Non-zeros of each row that has some, in the cycle in which ``o`` transfers its item.
    o_left : Out(stream.Signature(left_row_layout, always_ready=True))
        Row of A for each row of a mask that has elements, in this cycle.

    *Latency*: at the least latency of the memory 6 cycles from ``i`` to the first item.

    *Throughput*: one row a cycle.

    *Back-pressure*: ``i.ready`` is low while rows of a job are outstanding. ``o.valid`` depends on ``o_extent.ready``, and
    ``o_extent.valid`` on ``o.ready``.

    *Reset*: forgets the job.

    *Errors*: OUT_OF_RANGE: the word of a pointer is outside of shared memory. SPARSE_POINTER: pointers fall, or the first one is below
    ``first`` of the job; of sub-warps also where a row does not end with a step, or the first one does not begin at ``first``.
    OUT_OF_RANGE also where a row of A, by columns its strip, of a row of a mask with elements, is outside of shared memory.
    """

    def __init__(self, cfg):
        self.cfg = cfg = SparseParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(checked_job_layout)), "request": Out(stream.Signature(word_request_layout)), "answered": In(1),
            "word": In(8 * BANK_BYTES), "o": Out(stream.Signature(item_layout)), "o_extent": Out(stream.Signature(extent_layout)),
            "o_left": Out(stream.Signature(left_row_layout, always_ready=True)),
        })

    def elaborate(self, platform):
        m = Module()
        self._active, self._dead = Signal(), Signal()
        self._job, self._pc = Signal(sparse_job_layout, reset_less=True), Signal.like(self.i.payload.pc, reset_less=True)
        self._gone = Signal()           # the next pointer is outside of shared memory
        self._number = Signal(WORD_BITS + 2)        # word to request next
        self._begin = Signal()
        passes = Signal()               # a job without rows becomes an item
        job = self.i.payload.job
        plain = (self.i.payload.code == ErrorCode.NONE) & (job.kind != SparseKind.PANEL)
        m.d.comb += [
            passes.eq(self.i.valid & ~plain & ~self._active & ~self._dead),
            self._begin.eq(self.i.valid & plain & ~self._active & ~self._dead),
            self.i.ready.eq(~self._active & ~self._dead & (plain | self.o.ready)),
        ]
        with m.If(self._begin):
            m.d.sync += [self._active.eq(1), self._job.eq(job), self._pc.eq(self.i.payload.pc)]
        words = self._words(m)
        pointer = self._pointers(m, words)
        self._rows(m, pointer, passes)
        return m

    def _words(self, m):
        """Reads the words of pointers ahead; returns their queue."""
        m.submodules.words = words = Queue(8 * BANK_BYTES, WORDS_AHEAD, registered=False)
        inside, left = Signal(range(WORDS_AHEAD + 1)), Signal(WORD_BITS)        # words in the queue or on their way; to be requested
        outside, accepted, job = Signal(), Signal(), self.i.payload.job
        last = (job.pointers // POINTER_BYTES + job.rows) // POINTERS_OF_WORD
        m.d.comb += [
            outside.eq(self._number >= self.cfg.shared_bytes // BANK_BYTES),
            self.request.valid.eq((left != 0) & ~outside & (inside != WORDS_AHEAD)), self.request.payload.word.eq(self._number),
            accepted.eq(self.request.valid & self.request.ready),
            words.i.valid.eq(self.answered), words.i.payload.eq(self.word),
            self._gone.eq((left != 0) & outside & (inside == 0)),
        ]
        m.d.sync += inside.eq(inside + accepted - (words.o.valid & words.o.ready))
        with m.If(accepted):
            m.d.sync += [self._number.eq(self._number + 1), left.eq(left - 1)]
        with m.If(self._begin):
            m.d.sync += [self._number.eq(job.pointers // BANK_BYTES), left.eq(last - job.pointers // BANK_BYTES + 1)]
        return words

    def _pointers(self, m, words):
        """Takes the pointers out of the words, one a cycle; returns the stream of them, with the mark of one that is outside."""
        pointer = stream.Signature(POINTER_BITS + 1).create(path=("pointer",))
        place, left, takes = Signal(range(POINTERS_OF_WORD)), Signal(17), Signal()
        m.d.comb += [
            takes.eq((left != 0) & (words.o.valid | self._gone) & (~pointer.valid | pointer.ready)),
            words.o.ready.eq(takes & ((place == POINTERS_OF_WORD - 1) | (left == 1))),
        ]
        with m.If(pointer.ready):
            m.d.sync += pointer.valid.eq(0)
        with m.If(takes):
            m.d.sync += [
                pointer.valid.eq(1), place.eq(place + 1), left.eq(left - 1), pointer.payload[-1].eq(self._gone),
                pointer.payload[:-1].eq(words.o.payload.word_select(place, POINTER_BITS)),
            ]
        with m.If(self._begin):
            job = self.i.payload.job
            m.d.sync += [place.eq(job.pointers // POINTER_BYTES), left.eq(job.rows + 1)]
        return pointer

    def _rows(self, m, pointer, passes):
        """Makes items of the pointers, or of a job without rows."""
        job, item = self._job, self.o.payload
        value, gone = pointer.payload[:-1], pointer.payload[-1]
        self._opened, self._filled = Signal(), Signal()     # the first pointer is known; a row with non-zeros has passed
        self._before, self._row = Signal(POINTER_BITS), Signal(16)
        faulty, some, samples = Signal(), Signal(), job.kind == SparseKind.SAMPLES
        m.d.comb += [
            faulty.eq(self._fault(m, value, gone, samples)), some.eq(self._opened & ~faulty & (value != self._before)),
            item.kind.eq(Mux(faulty, ItemKind.FAULT, ItemKind.ROW)), item.pc.eq(self._pc), item.number.eq(self._row),
            item.panel_rows.eq(job.panel_rows), item.begins.eq(self._row == 0), item.ends.eq(self._row == job.rows - 1),
            item.strips.eq(job.strips), item.sub_warps.eq(job.sub_warps & ~samples), item.samples.eq(samples), item.words.eq(job.words),
            item.unsigned_panel.eq(job.unsigned_panel), item.unsigned_left.eq(job.unsigned_left),
            item.depthwise.eq(~samples & job.depthwise), item.scaled.eq(job.scaled),
            self.o_left.valid.eq(self.o_extent.valid & self.o_extent.ready & samples),
            self.o.valid.eq(pointer.valid & ~self._dead & (self._opened | faulty) & (~some | self.o_extent.ready)),
            self.o_extent.valid.eq(pointer.valid & ~self._dead & some & self.o.ready),
            pointer.ready.eq(~self._dead & Mux(self._opened | faulty, self.o.ready & (~some | self.o_extent.ready), 1)),
        ]
        first = self._elements(m, value, samples)
        counted = pointer.valid & pointer.ready & self._opened
        self._results(m, first, samples, counted)
        self._without_rows(m, passes)
        with m.If(self.o.valid & self.o.ready & (item.kind == ItemKind.FAULT)):
            m.d.sync += self._dead.eq(1)
        with m.If(pointer.valid & pointer.ready):
            m.d.sync += [self._before.eq(value), self._opened.eq(1)]
        with m.If(counted):
            m.d.sync += [self._row.eq(self._row + 1), self._filled.eq(self._filled | some)]
            with m.If(item.ends):
                m.d.sync += self._active.eq(0)
        with m.If(self._begin):
            m.d.sync += [self._opened.eq(0), self._filled.eq(0), self._row.eq(0)]

    def _fault(self, m, value, gone, samples):
        """Whether a pointer is wrong; code and operand of the error."""
        job, item, falls = self._job, self.o.payload, Signal()
        ragged = Signal()           # of sub-warps: not where a step ends, or not at the first element of the job
        lost, left_operand = self._left(m, self._opened)
        m.d.comb += [
            ragged.eq(job.sub_warps & ~samples & (((value & ((self.cfg.sparse_pairs << job.strips) - 1)[:3]) != 0)
                                                  | (~self._opened & (value != job.first)))),
            falls.eq((value < Mux(self._opened, self._before, job.first)) | ragged),
            item.code.eq(Mux(gone | ~falls, ErrorCode.OUT_OF_RANGE, ErrorCode.SPARSE_POINTER)),
            item.operand.eq(Mux(gone, self._number * BANK_BYTES, Mux(falls, self._row, left_operand))),
        ]
        return gone | falls | (lost & self._opened & (value != self._before))

    def _elements(self, m, value, samples):
        """The elements of a row, for the row and for the loader; returns how far the first lies behind that of the job."""
        job, item, extent = self._job, self.o.payload, self.o_extent.payload
        count, offsets = Signal(POINTER_BITS), [Signal(POINTER_BITS, name=f"offset_{number}") for number in range(2)]
        m.d.comb += [
            count.eq(value - self._before), offsets[0].eq(self._before - job.first), offsets[1].eq(value - job.first),
            item.count.eq(Mux(count[COUNT_BITS:].any(), (1 << COUNT_BITS) - 1, count)), item.start.eq(offsets[0] % ELEMENTS_OF_WORD),
            extent.begins.eq(~self._filled), extent.first.eq(offsets[0]), extent.last.eq(offsets[1] - 1),
            extent.indices.eq(job.indices // BANK_BYTES), extent.values.eq(job.values // BANK_BYTES), extent.wide.eq(job.wide_values),
            extent.unsigned.eq(job.unsigned_values), extent.pattern.eq(Mux(samples, job.pattern, job.depthwise)),
            extent.two.eq(item.sub_warps & ~job.wide_values),
        ]
        return offsets[0]

    def _results(self, m, first, samples, counted):
        """Where the results of a row lie: a block of each strip, of a mask the sum of its element ``first``. ``counted``: a row passes."""
        job, item = self._job, self.o.payload
        groups = exact_log2(self.cfg.thread_groups)
        block, blocks = Signal(BLOCK_BITS), Signal(range(self.cfg.thread_groups + 1))
        last, outside = Signal(BLOCK_BITS), Signal()
        stride, far = Signal(BLOCK_BITS), Signal(BLOCK_BITS)        # from a strip to the next one, to the last one
        end, sum_word = Signal(BLOCK_BITS), Signal(BLOCK_BITS)      # unit behind the last of shared memory; word of the sum
        m.d.comb += [
            end.eq(Mux(job.scaled, self.cfg.shared_rows << PIECE_BITS, self.cfg.shared_rows)),
            # Of the results of a row those of the last strip lie furthest.
            blocks.eq(self.cfg.thread_groups >> job.strips), item.stride.eq(stride), last.eq(block + far),
            outside.eq(~samples & (last + blocks > end)), item.outside.eq(outside),
            item.output.eq(Mux(samples, sum_word, Mux(outside, Mux(last < end, end, last), block))),
            sum_word.eq(job.output // BANK_BYTES + first // SUMS_OF_WORD), item.place.eq(first % SUMS_OF_WORD),
        ]
        with m.If(counted):
            m.d.sync += block.eq(block + blocks)
        with m.If(self._begin):
            begun, unit = self.i.payload.job, exact_log2(ROW_BYTES)
            m.d.sync += [
                block.eq(Mux(begun.scaled, begun.output >> unit - PIECE_BITS, begun.output >> unit)),
                stride.eq(begun.rows << groups >> begun.strips), far.eq((begun.rows << groups) - (begun.rows << groups >> begun.strips)),
            ]

    def _without_rows(self, m, passes):
        """The item of a panel, or of a job that is wrong."""
        item, given = self.o.payload, self.i.payload
        with m.If(passes):
            m.d.comb += [
                self.o.valid.eq(1), item.pc.eq(given.pc), item.code.eq(given.code), item.number.eq(given.job.rows),
                item.panel_rows.eq(given.job.panel_rows), item.operand.eq(given.operand), item.kind.eq(ItemKind.FAULT),
            ]
            with m.If(given.code == ErrorCode.NONE):
                m.d.comb += [
                    item.kind.eq(ItemKind.PANEL), item.operand.eq(given.job.values // BANK_BYTES), item.target.eq(given.job.target),
                    item.strips.eq(given.job.strips), item.sub_warps.eq(given.job.sub_warps),
                ]

    def _left(self, m, opened):
        """Rows of A. Returns whether the next one, by columns its strip, is outside of shared memory, and its first byte that is."""
        job, given, left = self._job, self.i.payload.job, self.o_left.payload
        parts, end = self.cfg.numbers_per_word, self.cfg.shared_bytes // BANK_BYTES
        word, after, size = Signal(LEFT_BITS), Signal(LEFT_BITS), Signal(LEFT_BITS)
        lost, column = Signal(), Signal(COLUMN_BITS)
        row_words = exact_log2(self.cfg.threads * self.cfg.dot // BANK_BYTES)       # log2 of the words of a factor word of all PEs
        m.d.comb += [
            size.eq(Mux(job.left_by_columns, job.words << row_words + COLUMN_BITS, job.words << row_words)), after.eq(word + size),
            lost.eq((job.kind == SparseKind.SAMPLES) & (after > end)), left.word.eq(word), left.rows.eq(job.words << exact_log2(parts)),
            left.by_columns.eq(job.left_by_columns), left.column.eq(column), left.begins.eq(self.o_extent.payload.begins),
        ]
        with m.If(opened & self.o.valid & self.o.ready):
            m.d.sync += column.eq(column + 1)
            with m.If(~job.left_by_columns | (column == STRIP_ROWS - 1)):
                m.d.sync += word.eq(after)
        with m.If(self._begin):
            m.d.sync += [word.eq(given.left // BANK_BYTES), column.eq(given.left_first)]
        return lost, Mux(word > end, word, end) * BANK_BYTES
