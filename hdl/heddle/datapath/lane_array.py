"""All lanes of a core with their common control."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib.wiring import Component, In, Out

from ..layouts import RegisterPort
from ..once import Once
from .gates import any_of
from .lane import Lane
from .lane_sums import LaneSums
from .layouts import step_layout
from .register_arbiter import ACCESS_MEMBERS, RegisterArbiter
from .step_control import StepControl

__all__ = ["LaneArray"]


class LaneArray(Component):
    """``threads`` lanes: one step of ``mm`` a cycle, and the thread unit's access to the same registers.

    ``step`` of a cycle goes with ``word`` of the next one; lane t takes ``word[t mod slots]`` when bit t mod
    ``positions`` of ``take`` is set, in the cycle after ``step`` or before, and keeps it. The sum is in the product
    file 6 + log2(dot) cycles after ``step``, and ``done`` marks that cycle for a step with ``last``. Steps are never
    held back; the thread unit and the reads of offsets take what is left (see ``RegisterArbiter``). Reset drops what is
    under way and keeps the registers.

    The words and all controls come from registers that exist once; each lane is an instance of the same module, so that
    its own copies stay its own. Sums over several lanes continue with the roots of the lanes' trees (``LaneSums``).

    Parameters
    ----------
    cfg : Config

    Members
    -------
    step : In(step_layout(cfg))
    word : In(signed(element_bits)).array(fetch_slots, dot)
    take : In(positions)
    registers : In(RegisterPort(cfg))
    offset_read : In(1)
        Read register ``256 + offset_number`` of all lanes into the next offset, when ``offset_grant`` is high.
    offset_number : In
    offset_grant : Out(1)
        Combinational; the next offset is there two cycles later.
    offset_load : In(1)
        The next offset becomes ``offset``.
    offset : Out(32).array(threads)
    pause : Out(1)
        The thread unit waits for a cycle without a step; ``mm`` leaves one out soon.
    done : Out(1)
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "step": In(step_layout(cfg)),
            "word": In(signed(cfg.element_bits)).array(cfg.fetch_slots, cfg.dot),
            "take": In(cfg.positions),
            "registers": In(RegisterPort(cfg)),
            "offset_read": In(1),
            "offset_number": In(cfg.factor_address_bits + cfg.numbers_per_word.bit_length() - 1),
            "offset_grant": Out(1),
            "offset_load": In(1),
            "offset": Out(32).array(cfg.threads),
            "pause": Out(1),
            "done": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.control = control = StepControl(self.cfg)
        m.submodules.arbiter = arbiter = RegisterArbiter(self.cfg)
        m.d.comb += [
            control.i.eq(self.step),
            self.done.eq(control.done),
            arbiter.read_register.eq(control.read_register),
            arbiter.write_register.eq(control.write_register),
            arbiter.write.eq(control.write),
            arbiter.write_next.eq(control.write_next),
            self.pause.eq(arbiter.pause),
            arbiter.offset_read.eq(self.offset_read),
            arbiter.offset_number.eq(self.offset_number),
            self.offset_grant.eq(arbiter.offset_grant),
        ]
        for name in ACCESS_MEMBERS:
            outer, inner = getattr(self.registers, name), getattr(arbiter.registers, name)
            m.d.comb += outer.eq(inner) if name.endswith("_grant") else inner.eq(outer)
        self._lanes(m, control, arbiter)
        return m

    def _lanes(self, m, control, arbiter):
        cfg, port = self.cfg, self.registers
        slots = len(port.return_data)
        m.submodules.sums = sums = LaneSums(cfg.threads, cfg.sum_bits, cfg.two_passes)
        m.d.comb += [sums.pairs.eq(control.pairs), sums.quads.eq(control.quads), sums.total.eq(control.total)]
        if cfg.two_passes:
            m.d.comb += sums.scaled.eq(control.scaled)
        group = Signal(cfg.thread_groups)       # whose registers stand at the files, one hot
        m.d.sync += group.eq(1 << port.read_group)
        lanes = Once("heddle_lane", Lane, cfg)
        values = [[] for _ in range(slots)]
        for thread in range(cfg.threads):
            lane = lanes.instantiate(m, f"lane_{thread}")
            word = self.word[thread % cfg.fetch_slots]
            m.d.comb += [element.eq(value) for element, value in zip(lane.word, word)]
            if self.cfg.two_passes:
                m.d.comb += [lane.odd_high.eq(control.odd_high), lane.scaled.eq(control.scaled)]
            if self.cfg.wide_lanes:
                m.d.comb += lane.wide.eq(control.wide)
            m.d.comb += [
                lane.take.eq(self.take[thread % cfg.positions]),
                lane.own.eq(control.own),
                lane.receive.eq(control.receive[thread]),
                lane.group_sum.eq(sums.o[thread // 2] if thread else sums.first),
                sums.i[thread].eq(lane.root),
                lane.factor_address.eq(self.step.factor_word),
                lane.a_signed.eq(control.a_signed),
                lane.active.eq(control.active[thread]),
                lane.accumulate.eq(control.accumulate),
                lane.clear.eq(control.clear[thread]),
                lane.access.eq(arbiter.access),
                lane.factor_access.eq(arbiter.factor_access),
                lane.capture.eq(arbiter.capture),
                lane.read_lane.eq(group[thread // slots]),
                lane.write_lane.eq(port.write_lanes[thread]),
                lane.returned.eq(port.return_data[thread % slots]),
                lane.return_lane.eq(port.return_lanes[thread]),
                lane.offset_load.eq(self.offset_load),
                self.offset[thread].eq(lane.offset),
            ]
            values[thread % slots] += [lane.thread_product, lane.thread_factor]
        # Lanes that were not read give zeros.
        m.d.comb += [read.eq(any_of(of_slot)) for read, of_slot in zip(port.read_data, values)]
