"""Run control: start, end, errors and time limit of a run."""

from amaranth import *
from amaranth.lib import data
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.layouts import PC_BITS, ErrorStream, error_layout
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
        High for one cycle before the program starts; the units clear their state.
    running : Out(1)
        A run is in progress; these cycles are the cycles of the run.
    i_error : In(ErrorStream()).array(sources * cores)
        Errors of the units, those of core 0 first.
    stop : Out(1)
        The program ends, because of an error or the time limit.
    ended : In(cores)
        The program of a core has executed ``halt``, one bit per core.
    idle : In(cores)
        No unit of a core has work, one bit per core.
    pc : In(PC_BITS).array(cores)
        Number of the instruction at issue in a core, or of its last one: the place of TIMEOUT.
    finished : Out(1)
        The run ends; high in the last cycle of ``running``.
    done : Out(1)
        The last run has ended.
    failed : Out(1)
        The run has an error.
    stuck : Out(1)
        Memory did not answer.
    error : Out(error_layout)
        Error of the last run.
    error_core : Out(range(max(cores, 2)))
        Core that reported the error. For TIMEOUT the lowest core whose program has not ended, else the lowest core that is not idle.

    *Latency*: ``start`` is high 1 cycle after ``doorbell``, ``running`` 2 cycles after. ``failed`` and ``stop`` rise 1 cycle after an
    error, ``error`` and ``error_core`` are valid 1 cycle later. ``done`` rises 1 cycle after ``finished``.

    *Reset*: no run, no error.
    """

    def __init__(self, sources, cores=1):
        self._sources, self._cores = sources, cores
        super().__init__({
            "doorbell": In(1), "timeout": In(32), "start": Out(1), "running": Out(1),
            "i_error": In(ErrorStream()).array(sources * cores), "stop": Out(1), "ended": In(cores), "idle": In(cores),
            "pc": In(PC_BITS).array(cores),
            "finished": Out(1), "done": Out(1), "failed": Out(1), "stuck": Out(1), "error": Out(error_layout),
            "error_core": Out(range(max(cores, 2))),
        })

    def elaborate(self, platform):
        m = Module()
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
            self.finished.eq(self.running & (over | gone)),
        ]

        with m.If(self.running):
            m.d.sync += [elapsed.eq(elapsed + 1), late.eq((self.timeout != 0) & (elapsed >= self.timeout))]
            with m.If((self.ended.all() | self.stop) & self.idle.all() & ~arrived):
                m.d.sync += settle.eq(settle + 1)
            with m.Else():
                m.d.sync += settle.eq(0)
            with m.If(late):
                m.d.sync += grace.eq(grace + 1)
        self._keep_error(m, *self._note_error(m, arrived, late))
        with m.If(self.finished):
            m.d.sync += [self.running.eq(0), self.done.eq(1), self.stop.eq(0), self.stuck.eq(gone & ~over)]

        m.d.sync += self.start.eq(0)
        with m.If(self.doorbell & ~self.running & ~self.start & ~self.stuck):
            m.d.sync += [
                self.start.eq(1), self.done.eq(0), self.failed.eq(0),
            ]
        with m.If(self.start):
            m.d.sync += [
                self.running.eq(1), self.error.eq(0), self.error_core.eq(0), elapsed.eq(0), late.eq(0), grace.eq(0), settle.eq(0),
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
            stopping.eq(any_of(chosen & (error.payload.code != ErrorCode.PRODUCT_RANGE) for chosen, error in zip(first, self.i_error))),
            over.eq(late & ~self.stop),
        ]
        with m.If(self.running & (arrived | over)):
            m.d.sync += [self.failed.eq(1), self.stop.eq(self.stop | stopping | over)]
        m.d.sync += [keep.eq(self.running & (over | (arrived & (~self.failed | (stopping & ~self.stop))))), is_late.eq(over)]

        core = Signal.like(self.error_core, name="core", reset_less=True)
        m.d.sync += core.eq(any_of(Mux(chosen, source // self._sources, 0) for source, chosen in enumerate(first)))
        noted = []      # all payloads but that of the first error are zero: an OR selects
        self._note_limit(m, over, core, noted)
        for source, (chosen, error) in enumerate(zip(first, self.i_error)):
            noted.append(Signal(error_layout, name=f"noted_{source}", reset_less=True))
            m.d.sync += noted[-1].eq(error.payload)
            with m.If(over | ~chosen):
                m.d.sync += noted[-1].eq(0)
        return keep, is_late, data.View(error_layout, any_of(value.as_value() for value in noted)), core

    def _note_limit(self, m, over, core, noted):
        """Core and program counter of the time limit."""
        late_core, pc = Signal.like(core, name="late_core"), Signal(error_layout, name="late_place", reset_less=True)
        for condition in (~self.idle, ~self.ended):      # the last assignment counts
            for number in reversed(range(self._cores)):
                with m.If(condition[number]):
                    m.d.comb += late_core.eq(number)
        noted.append(pc)
        m.d.sync += pc.eq(0)
        with m.If(over):
            m.d.sync += [core.eq(late_core), pc.pc.eq(Array(self.pc)[late_core])]

    def _keep_error(self, m, keep, is_late, error, core):
        with m.If(keep):
            m.d.sync += [
                self.error.code.eq(error.code.as_value() | Mux(is_late, ErrorCode.TIMEOUT.value, 0)), self.error.pc.eq(error.pc),
                self.error.operand.eq(error.operand | Mux(is_late, self.timeout, 0)), self.error_core.eq(core),
                self.error.dimension.eq(error.dimension),
            ]
