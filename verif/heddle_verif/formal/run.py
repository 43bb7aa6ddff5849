"""Start and end of a run."""

from unittest import mock

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Cat, Cover, Module, Signal
from amaranth.lib.wiring import Component
from heddle.control import run_control as run
from heddle.interfaces.layouts import error_layout
from heddle.isa.error_codes import ErrorCode

from .contract import data_of

__all__ = ["RunControlSpec"]

GRACE_CYCLES = 6        # in place of STUCK_CYCLES, which is too long for a bounded cover
SOURCES = 2


class _ShortGrace(run.RunControl):
    def elaborate(self, platform):
        with mock.patch.object(run, "STUCK_CYCLES", GRACE_CYCLES):
            return super().elaborate(platform)


class RunControlSpec(Component):
    """A doorbell starts a run exactly once, and every run ends.

    ``start`` lasts one cycle, a cycle after a doorbell outside of a run, and never inside one; ``running`` follows it. A run that has
    ended its program and stays idle is over within ``SETTLE_CYCLES`` + 1 cycles; one with a time limit is over within the limit, the
    grace period and 3 cycles, whatever the units do. ``done`` follows the end and stays until the next start. The first stopping error
    of a run is the one kept, with its core, a cycle after ``failed``. The grace period is 6 cycles here.

    Parameters
    ----------
    cores : int
        Cores that end and report errors on their own.
    """

    def __init__(self, cores=1):
        self._cores = cores
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = _ShortGrace(SOURCES, self._cores)
        timeout = Signal(32)
        m.d.comb += [timeout.eq(AnyConst(3)), dut.timeout.eq(timeout), dut.doorbell.eq(AnySeq(1))]
        for core in dut.cores:
            m.d.comb += [core.ended.eq(AnySeq(1)), core.idle.eq(AnySeq(1)), core.pc.eq(AnySeq(len(core.pc)))]
        for core in dut.cores:
            m.d.comb += [Assert(core.start == dut.start), Assert(core.stop == dut.cores[0].stop)]
        for port in dut.i_error:
            m.d.comb += [port.valid.eq(AnySeq(1)), data_of(port).eq(AnySeq(len(data_of(port))))]
        accepted = Signal()
        m.d.comb += accepted.eq(dut.doorbell & ~dut.status.running & ~dut.start & ~dut.status.stuck)
        self._states(m, dut, accepted)
        self._limits(m, dut, timeout)
        with m.If(timeout == 0):
            self._errors(m, dut, accepted)
        return m

    def _states(self, m, dut, accepted):
        rang, running, done, status = Signal(), Signal(), Signal(), dut.status
        m.d.sync += rang.eq(accepted)
        with m.If(status.finished):
            m.d.sync += [running.eq(0), done.eq(1)]
        with m.If(accepted):
            m.d.sync += done.eq(0)
        with m.If(dut.start):
            m.d.sync += running.eq(1)
        m.d.comb += [
            Assert(dut.start == rang), Assert(~(dut.start & status.running)), Assert(status.running == running),
            Assert(status.done == done), Assert(~dut.cores[0].stop | status.running), Assert(~status.finished | status.running),
            Cover(status.done & status.failed), Cover(status.done & ~status.failed & ~status.stuck), Cover(status.stuck & status.done),
        ]

    def _limits(self, m, dut, timeout):
        settled, cycles = Signal(4), Signal(6)
        errors = Cat(port.valid for port in dut.i_error).any()
        ended, idle = (Cat(getattr(core, name) for core in dut.cores).all() for name in ("ended", "idle"))
        with m.If(dut.status.running & (ended | dut.cores[0].stop) & idle & ~errors):
            m.d.sync += settled.eq(settled + 1)
        with m.Else():
            m.d.sync += settled.eq(0)
        with m.If(dut.status.running):
            m.d.sync += cycles.eq(cycles + 1)
        with m.Else():
            m.d.sync += cycles.eq(0)
        m.d.comb += [
            Assert(settled <= run.SETTLE_CYCLES + 1),
            Assert(~dut.status.finished | dut.status.stuck | (settled >= run.SETTLE_CYCLES) | (timeout != 0)),
        ]
        with m.If(timeout != 0):
            m.d.comb += Assert(cycles <= timeout + GRACE_CYCLES + 3)

    def _errors(self, m, dut, accepted):
        """The first error that stops; the first error of all until then."""
        stopped, failed = Signal(), Signal()
        kept = Signal(error_layout, reset_less=True)
        core, kept_core = Signal(range(max(self._cores, 2))), Signal(range(max(self._cores, 2)), reset_less=True)
        error = Signal(error_layout)
        for number, port in reversed(list(enumerate(dut.i_error))):
            with m.If(port.valid):
                m.d.comb += [error.eq(data_of(port)), core.eq(number // SOURCES)]
        stops = error.code != ErrorCode.PRODUCT_RANGE
        with m.If(dut.status.running & Cat(port.valid for port in dut.i_error).any()):
            m.d.sync += [failed.eq(1), stopped.eq(stopped | stops)]
            with m.If(~failed | (stops & ~stopped)):
                m.d.sync += [kept.eq(error), kept_core.eq(core)]
        with m.If(accepted):
            m.d.sync += [stopped.eq(0), failed.eq(0)]
        m.d.comb += [Assert(dut.status.failed == failed), Assert(~dut.status.running | (dut.cores[0].stop == stopped))]
        shown, shown_error, shown_core = Signal(), Signal.like(kept, name="shown_error"), Signal.like(kept_core, name="shown_core")
        m.d.sync += [shown.eq(failed & ~accepted), shown_error.eq(kept), shown_core.eq(kept_core)]
        with m.If(shown):
            m.d.comb += [Assert(dut.status.error.as_value() == shown_error.as_value()), Assert(dut.status.error_core == shown_core),
                         Cover(dut.status.done & (shown_error.code == ErrorCode.PRODUCT_RANGE))]
