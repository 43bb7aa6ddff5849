"""Job fetch: reads the jobs of the sparse engine and checks their fields."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import enum, stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, ROW_BYTES
from ..interfaces.datapath import OPERAND_BITS
from ..interfaces.front_end import sparse_start_layout
from ..isa.error_codes import ErrorCode
from ..isa.sparse_job import JOB_ALIGNMENT, JOB_BYTES, MOST_SUB_WARPS, POINTER_BYTES, SCALE_ROWS, PanelTarget, SparseKind, sparse_job_layout
from ..parameters.sparse import OPERAND_WORDS, SparseParameters
from .layouts import checked_job_layout, word_request_layout

__all__ = ["JobFetch"]

WORD_SHIFT = exact_log2(BANK_BYTES)
ELEMENT_ALIGNMENT = 16      # of the number of the first element


class Phase(enum.Enum, shape=2):
    """What the fetch does with the job at ``i``."""

    FIRST = 0       # checks the address, requests the first word
    SECOND = 1      # requests the second word
    CHECK = 2       # waits for the words, checks the fields
    DONE = 3        # offers the job


class JobFetch(Component):
    """Job fetch: reads the record of each job and checks address and fields, one job after the other.

    Parameters
    ----------
    cfg : SparseParameters

    *Ports*:
    i : In(stream.Signature(sparse_start_layout))
        Jobs.
    request : Out(stream.Signature(word_request_layout))
        Reads of the words of a job.
    answered : In(1)
        ``word`` has the next word.
    word : In(128)
        Word of shared memory.
    o : Out(stream.Signature(checked_job_layout))
        Jobs with their fields, or with an error.

    *Latency*: at the least latency of the memory 6 cycles from ``i.valid`` to ``o.valid``.

    *Throughput*: one job in 7 cycles.

    *Back-pressure*: a job remains at ``i`` until it leaves at ``o``. ``i.ready`` depends combinationally on ``o.ready``.

    *Reset*: no job is read.

    *Errors*: SPARSE_JOB: the address is misaligned, there is no such ``kind`` or ``target``, ``rows``, ``panel_rows``, ``words`` or
    ``strips`` violate the limits, an address or ``first`` is misaligned. So is
    ``sub_warps`` with a field that it excludes.
    OUT_OF_RANGE: a word of the job, or of the rows of B of a panel, is outside of shared memory.
    """

    def __init__(self, cfg):
        self.cfg = cfg = SparseParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(sparse_start_layout)), "request": Out(stream.Signature(word_request_layout)), "answered": In(1),
            "word": In(8 * BANK_BYTES), "o": Out(stream.Signature(checked_job_layout)),
        })

    def elaborate(self, platform):
        m = Module()
        phase, half, complete = Signal(Phase), Signal(), Signal()
        address, request, record = self.i.payload.address, self.request, Signal(8 * JOB_BYTES, reset_less=True)
        code, operand = Signal(ErrorCode), Signal(32, reset_less=True)
        number, second = address[WORD_SHIFT:], Signal(32 - WORD_SHIFT)
        last = self.cfg.shared_bytes // BANK_BYTES - 1
        job = Signal(sparse_job_layout)
        m.d.comb += [
            job.as_value().eq(record), second.eq(number + 1),
            self.o.valid.eq(phase == Phase.DONE), self.i.ready.eq(self.o.valid & self.o.ready),
            self.o.payload.pc.eq(self.i.payload.pc), self.o.payload.code.eq(code), self.o.payload.operand.eq(operand),
            self.o.payload.job.as_value().eq(record),
            request.payload.word.eq(Mux(phase == Phase.FIRST, number, second)),
        ]
        with m.If(self.answered):
            m.d.sync += [record.eq(Cat(record[8 * BANK_BYTES:], self.word)), half.eq(~half), complete.eq(half)]
        with m.Switch(phase):
            with m.Case(Phase.FIRST):
                m.d.sync += [code.eq(ErrorCode.NONE), operand.eq(address), complete.eq(0)]
                with m.If(self.i.valid & ((address % JOB_ALIGNMENT) != 0)):
                    m.d.sync += [code.eq(ErrorCode.SPARSE_JOB), phase.eq(Phase.DONE)]
                with m.Elif(self.i.valid & (number >= last)):
                    m.d.sync += [code.eq(ErrorCode.OUT_OF_RANGE), phase.eq(Phase.DONE)]
                    with m.If(number == last):
                        m.d.sync += operand.eq(self.cfg.shared_bytes)
                with m.Elif(self.i.valid):
                    m.d.comb += request.valid.eq(1)
                    with m.If(request.ready):
                        m.d.sync += phase.eq(Phase.SECOND)
            with m.Case(Phase.SECOND):
                m.d.comb += request.valid.eq(1)
                with m.If(request.ready):
                    m.d.sync += phase.eq(Phase.CHECK)
            with m.Case(Phase.CHECK):
                with m.If(complete):
                    m.d.sync += phase.eq(Phase.DONE)
                    self._check(m, job, code, operand)
            with m.Case(Phase.DONE):
                with m.If(self.o.ready):
                    m.d.sync += phase.eq(Phase.FIRST)
        return m

    def _check(self, m, job, code, operand):
        """Code and operand of the error of a job."""
        cfg, size = self.cfg, self.cfg.sparse_columns
        wrong, end, narrow = Signal(), Signal(32), Signal()
        shared = Mux(job.sub_warps, job.strips, 0)      # strips get the same rows
        m.d.comb += [
            end.eq(job.values + (job.rows << exact_log2(size) >> shared)),
            narrow.eq((job.strips > exact_log2(cfg.thread_groups))
                      | (job.sub_warps & ((job.strips == 0) | (job.strips > exact_log2(MOST_SUB_WARPS))))),
        ]
        with m.If(job.kind == SparseKind.PANEL):
            limit = Signal(range(cfg.sparse_rows + 1))
            m.d.comb += limit.eq(cfg.sparse_rows)
            with m.If(job.target == PanelTarget.WEIGHTS):
                m.d.comb += limit.eq(cfg.numbers_per_word << OPERAND_BITS)
            with m.If(job.target == PanelTarget.SCALES):
                m.d.comb += limit.eq(SCALE_ROWS)
            m.d.comb += wrong.eq((job.panel_rows + job.rows > limit) | (job.values % min(ROW_BYTES, size) != 0)
                                 | (job.target.as_value() == len(PanelTarget)) | narrow
                                 | (job.sub_warps & (job.target != PanelTarget.PANEL)))
            with m.If(end > cfg.shared_bytes):
                m.d.sync += [code.eq(ErrorCode.OUT_OF_RANGE), operand.eq(Mux(job.values >= cfg.shared_bytes, job.values, cfg.shared_bytes))]
        with m.Else():
            unaligned, samples = Signal(), job.kind == SparseKind.SAMPLES
            alone = job.sub_warps & (job.depthwise | job.scaled | (job.indices % (2 * BANK_BYTES) != 0))
            m.d.comb += [
                unaligned.eq(Cat(
                    value % alignment != 0 for value, alignment in (
                        (job.first, ELEMENT_ALIGNMENT), (job.pointers, POINTER_BYTES), (job.indices, BANK_BYTES),
                        (job.values, BANK_BYTES), (job.output, BANK_BYTES))).any()),
                wrong.eq(unaligned | (job.panel_rows == 0) | Mux(
                    samples,
                    (job.words == 0) | (job.words > OPERAND_WORDS) | (job.panel_rows * job.words > cfg.factor_words)
                    | (job.left % Mux(job.left_by_columns, ROW_BYTES, min(ROW_BYTES, size)) != 0),
                    (job.panel_rows > cfg.sparse_rows) | (job.output % ROW_BYTES != 0) | (job.kind != SparseKind.ROWS) | narrow
                    | alone)),
            ]
        with m.If(wrong | (job.rows == 0)):
            m.d.sync += [code.eq(ErrorCode.SPARSE_JOB), operand.eq(self.i.payload.address)]
