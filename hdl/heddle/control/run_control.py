"""Run control: start, end, errors and time limit of a run."""

from amaranth import *
from amaranth.lib import data
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.control import RunPort, StatusPort
from ..interfaces.layouts import ErrorStream, error_layout
from ..isa.error_codes import ErrorCode
from ..lib.onehot import any_of

__all__ = ["RunControl", "STUCK_CYCLES"]

STUCK_CYCLES = 4096         # cycles after the time limit in which memory must answer
SETTLE_CYCLES = 1           # idle cycles after which a run is over


class RunControl(Component):
    """Run control: runs one program on all cores, from doorbell to interrupt.

    A run ends when every program has ended, or ``stop`` is high, and all units were idle without an error report for ``SETTLE_CYCLES``
    (1) cycle. After the time limit the program is stopped with TIMEOUT. If units are still busy ``STUCK_CYCLES`` (4096) cycles later,
    the run ends as ``stuck``, and only a reset helps.

    Errors: the first error of a run is reported. An error that stops the program replaces PRODUCT_RANGE, which does not stop the
    program. Of several errors in one cycle the lowest index of ``i_error`` counts. The time limit has priority over errors of the same
    cycle.

    Parameters
    ----------
    sources : int
        Units of a core that report errors.
    cores : int
        Number of cores.

    *Ports*:
    doorbell : In(1)
        Starts a run; ignored while a run starts or runs, and after ``stuck``.
    timeout : In(32)
        Time limit of a run in cycles; 0: none.
    start : Out(1)
        High for one cycle before the program starts; the units clear their state. The same as ``start`` of all ``cores``.
    cores : Out(RunPort()).array(cores)
        Run of each core. ``stop`` is the same for all: the program ends, because of an error or the time limit.
    status : Out(StatusPort(cores))
        State of the last run.
    i_error : In(ErrorStream()).array(sources * cores)
        Errors of the units, those of core 0 first.

    *Latency*: ``start`` is high 1 cycle after ``doorbell``, ``running`` 2 cycles after. ``failed`` and ``stop`` rise 1 cycle after an
    error, ``error`` and ``error_core`` are valid 1 cycle later. ``done`` rises 1 cycle after ``finished``. ``running``, ``finished``,
    ``done``, ``failed``, ``error`` and ``error_core`` are those of ``status``.

    *Reset*: no run, no error.
    """

    def __init__(self, sources, cores=1):
        self._sources = sources
        super().__init__({
            "doorbell": In(1), "timeout": In(32), "start": Out(1), "cores": Out(RunPort()).array(cores),
            "i_error": In(ErrorStream()).array(sources * cores), "status": Out(StatusPort(cores)),
        })

    def elaborate(self, platform):
        m = Module()
        self._stop = Signal(name="stop")
        self._ended, self._idle = (Signal(len(self.cores), name=name) for name in ("ended", "idle"))
        m.d.comb += [self._ended.eq(Cat(core.ended for core in self.cores)), self._idle.eq(Cat(core.idle for core in self.cores))]
        m.d.comb += [value.eq(source) for core in self.cores for value, source in ((core.start, self.start), (core.stop, self._stop))]
        arrived = Signal()
        m.d.comb += arrived.eq(Cat(error.valid for error in self.i_error).any())
        elapsed = Signal(32)
        late = Signal()                         # the time limit has passed
        grace = Signal(range(STUCK_CYCLES + 1))
        settle = Signal(range(SETTLE_CYCLES + 1))
        over, gone = Signal(), Signal()
        m.d.comb += [
            over.eq(settle == SETTLE_CYCLES),
            gone.eq(grace == STUCK_CYCLES),
            self.status.finished.eq(self.status.running & (over | gone)),
        ]

        with m.If(self.status.running):
            m.d.sync += [elapsed.eq(elapsed + 1), late.eq((self.timeout != 0) & (elapsed >= self.timeout))]
            with m.If((self._ended.all() | self._stop) & self._idle.all() & ~arrived):
                m.d.sync += settle.eq(settle + 1)
            with m.Else():
                m.d.sync += settle.eq(0)
            with m.If(late):
                m.d.sync += grace.eq(grace + 1)
        self._keep_error(m, *self._note_error(m, arrived, late))
        with m.If(self.status.finished):
            m.d.sync += [self.status.running.eq(0), self.status.done.eq(1), self._stop.eq(0), self.status.stuck.eq(gone & ~over)]

        m.d.sync += self.start.eq(0)
        with m.If(self.doorbell & ~self.status.running & ~self.start & ~self.status.stuck):
            m.d.sync += [
                self.start.eq(1), self.status.done.eq(0), self.status.failed.eq(0),
            ]
        with m.If(self.start):
            m.d.sync += [
                self.status.running.eq(1), self.status.error.eq(0), self.status.error_core.eq(0),
                elapsed.eq(0), late.eq(0), grace.eq(0), settle.eq(0),
            ]
        return m

    def _note_error(self, m, arrived, late):
        """Selects the error of this cycle. Returns, registered: a report is valid; the report is TIMEOUT; the error (of TIMEOUT the
        program counter only); its core.
        """
        first, before = Signal(len(self.i_error)), 0
        for source, error in enumerate(self.i_error):
            m.d.comb += first[source].eq(error.valid & ~before)
            before = before | error.valid
        stopping, over, keep, is_late = (Signal(name=name) for name in ("stopping", "time_is_over", "keep", "is_late"))
        m.d.comb += [
            stopping.eq(any_of(chosen & (error.payload.code != ErrorCode.PRODUCT_RANGE)
                               for chosen, error in zip(first, self.i_error, strict=True))),
            over.eq(late & ~self._stop),
        ]
        with m.If(self.status.running & (arrived | over)):
            m.d.sync += [self.status.failed.eq(1), self._stop.eq(self._stop | stopping | over)]
        m.d.sync += [keep.eq(self.status.running & (over | (arrived & (~self.status.failed | (stopping & ~self._stop))))), is_late.eq(over)]

        core = Signal.like(self.status.error_core, name="core", reset_less=True)
        m.d.sync += core.eq(any_of(Mux(chosen, source // self._sources, 0) for source, chosen in enumerate(first)))
        noted = []      # all payloads but that of the first error are zero: an OR selects
        self._note_limit(m, over, core, noted)
        for source, (chosen, error) in enumerate(zip(first, self.i_error, strict=True)):
            noted.append(Signal(error_layout, name=f"noted_{source}", reset_less=True))
            m.d.sync += noted[-1].eq(error.payload)
            with m.If(over | ~chosen):
                m.d.sync += noted[-1].eq(0)
        return keep, is_late, data.View(error_layout, any_of(value.as_value() for value in noted)), core

    def _note_limit(self, m, over, core, noted):
        """Core and program counter of the time limit."""
        late_core, pc = Signal.like(core, name="late_core"), Signal(error_layout, name="late_place", reset_less=True)
        for condition in (~self._idle, ~self._ended):      # the last assignment counts
            for number in reversed(range(len(self.cores))):
                with m.If(condition[number]):
                    m.d.comb += late_core.eq(number)
        noted.append(pc)
        m.d.sync += pc.eq(0)
        with m.If(over):
            m.d.sync += [core.eq(late_core), pc.pc.eq(Array(core.pc for core in self.cores)[late_core])]

    def _keep_error(self, m, keep, is_late, error, core):
        kept = self.status.error
        with m.If(keep):
            m.d.sync += [
                kept.code.eq(error.code.as_value() | Mux(is_late, ErrorCode.TIMEOUT.value, 0)), kept.pc.eq(error.pc),
                kept.operand.eq(error.operand | Mux(is_late, self.timeout, 0)), kept.dimension.eq(error.dimension),
                self.status.error_core.eq(core),
            ]
