"""Start and end of a run, errors and the time limit."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out

from ..errors import ErrorCode
from ..layouts import ErrorStream, error_layout

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
    done, failed, stuck, error, error_core
        State of the last run: over, with an error, memory did not answer; the error; the core that reported it (of the
        time limit: the lowest one whose program had not ended).
    """

    def __init__(self, sources, cores=1):
        self._sources, self._cores = sources, cores
        super().__init__({
            "doorbell": In(1), "timeout": In(32), "start": Out(1), "running": Out(1),
            "i_error": In(ErrorStream()).array(sources * cores), "stop": Out(1), "ended": In(cores), "idle": In(cores),
            "finished": Out(1), "done": Out(1), "failed": Out(1), "stuck": Out(1), "error": Out(error_layout),
            "error_core": Out(range(max(cores, 2))),
        })

    def elaborate(self, platform):
        m = Module()
        incoming = Signal(error_layout)
        arrived = Signal()
        core = Signal.like(self.error_core)     # of the incoming error
        for source in reversed(range(self._sources * self._cores)):
            with m.If(self.i_error[source].valid):
                m.d.comb += [arrived.eq(1), incoming.eq(self.i_error[source].payload), core.eq(source // self._sources)]

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
            self._keep_error(m, arrived, incoming, core, late)
        with m.If(self.finished):
            m.d.sync += [self.running.eq(0), self.done.eq(1), self.stop.eq(0), self.stuck.eq(gone & ~over)]

        m.d.sync += self.start.eq(0)
        with m.If(self.doorbell & ~self.running & ~self.start & ~self.stuck):
            m.d.sync += [
                self.start.eq(1), self.done.eq(0), self.failed.eq(0), self.error.eq(0), self.error_core.eq(0), elapsed.eq(0), late.eq(0),
                grace.eq(0), settle.eq(0), self.stop.eq(0),
            ]
        with m.If(self.start):
            m.d.sync += self.running.eq(1)
        return m

    def _keep_error(self, m, arrived, incoming, core, late):
        stopping = Signal()
        m.d.comb += stopping.eq(incoming.code != ErrorCode.PRODUCT_RANGE)
        with m.If(arrived):
            m.d.sync += [self.failed.eq(1), self.stop.eq(self.stop | stopping)]
            with m.If(~self.failed | (stopping & ~self.stop)):
                m.d.sync += [self.error.eq(incoming), self.error_core.eq(core)]
        with m.If(late & ~self.stop):
            m.d.sync += [self.stop.eq(1), self.failed.eq(1)]
            m.d.sync += [self.error.code.eq(ErrorCode.TIMEOUT), self.error.operand.eq(self.timeout), self.error.pc.eq(0)]
            for number in reversed(range(self._cores)):
                with m.If(~self.ended[number]):
                    m.d.sync += self.error_core.eq(number)
