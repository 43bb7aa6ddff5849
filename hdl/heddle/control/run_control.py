"""Start and end of a run, errors and the time limit."""

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
    """Runs one program on all cores from doorbell to interrupt.

    Parameters
    ----------
    sources : int
        Units of a core that report errors; in one cycle the one with the lowest index counts.
    cores : int
        Number of cores.

    Members
    -------
    doorbell, timeout
        Start a run (ignored while one is running or after ``stuck``); its limit in cycles, 0 for none.
    start
        One cycle before the program starts: the units clear what a run starts with.
    running
        From the cycle after the doorbell to the end; counted as the cycles of the run.
    i_error
        Errors of the units, those of core 0 first. The first one is kept; one that stops the program replaces one that does not.
    stop
        A stopping error or the time limit was met: the program ends.
    ended, idle
        One bit per core: the program has executed ``halt``; no unit has work left.
    pc
        For each core the number of its instruction at issue, or of its last one: the place of TIMEOUT.
    done, failed, stuck, error, error_core
        State of the last run: over, with an error, memory did not answer; the error, a cycle after ``failed``; the core that reported
        it (of the time limit: the lowest one whose program had not ended; when all had, the lowest one that was not idle).
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
        """What the errors of this cycle change. Returns, a cycle later: one is to be kept; it is the time limit; the first of the errors,
        with the time limit only a program counter; its core."""
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
        noted = []      # the payloads of all but the first are zero, so that an OR selects
        self._note_limit(m, over, core, noted)
        for source, (chosen, error) in enumerate(zip(first, self.i_error)):
            noted.append(Signal(error_layout, name=f"noted_{source}", reset_less=True))
            m.d.sync += noted[-1].eq(error.payload)
            with m.If(over | ~chosen):
                m.d.sync += noted[-1].eq(0)
        return keep, is_late, data.View(error_layout, any_of(value.as_value() for value in noted)), core

    def _note_limit(self, m, over, core, noted):
        """The core and the program counter of the time limit."""
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
