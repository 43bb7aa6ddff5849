"""All lanes of a core with their common control."""

from amaranth.hdl import Cat, Module, Signal, signed
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

# Inputs of a lane: the same for all, one of each for each.
COMMON = ("own", "factor_address", "a_signed", "accumulate", "access", "factor_access", "capture")
OWN = ("receive", "active", "clear", "write_lane", "return_lane")
NEIGHBOURS = 8      # values of lanes that are joined on their way to the thread unit


class LaneArray(Component):
    """``threads`` lanes: one step of ``mm`` a cycle, and the thread unit's access to the same registers.

    ``step`` of a cycle goes with ``word`` of the next one; lane t takes ``word[t mod slots]`` when bit t mod
    ``positions`` of ``take`` is set, in the cycle after ``step`` or before, and keeps it. The sum is in the product
    file 6 + log2(dot) cycles after ``step``, and ``done`` marks that cycle for a step with ``last``. Steps are never
    held back; the thread unit and the reads of offsets take what is left (see ``RegisterArbiter``). Reset drops what is
    under way and keeps the registers.

    With ``cfg.far_registers`` all of this reaches the lanes a cycle later, and what the thread unit reads comes back two cycles later
    (``cfg.register_read_latency``); ``offset_load`` goes to the lanes at once. Because steps, reads and writes are late alike, nothing
    else changes.

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
        group = Signal(cfg.thread_groups)       # whose registers stand at the files, one hot
        m.d.sync += group.eq(1 << port.read_group)
        at_lanes = self._at_lanes(m, control, arbiter, group)
        for name in ("pairs", "quads", "total", *["scaled"] * cfg.two_passes):
            m.d.comb += getattr(sums, name).eq(at_lanes[name])
        lanes = Once("heddle_lane", Lane, cfg)
        values = [[] for _ in range(slots)]
        for thread in range(cfg.threads):
            lane = lanes.instantiate(m, f"lane_{thread}")
            m.d.comb += [element.eq(value) for element, value in zip(lane.word, at_lanes["word"][thread % cfg.fetch_slots])]
            for name in COMMON + ("odd_high", "scaled") * cfg.two_passes + ("wide",) * cfg.wide_lanes:
                m.d.comb += getattr(lane, name).eq(at_lanes[name])
            m.d.comb += [
                lane.take.eq(at_lanes["take"][thread % cfg.positions]),
                lane.group_sum.eq(sums.o[thread // 2] if thread else sums.first),
                sums.i[thread].eq(lane.root),
                *(getattr(lane, name).eq(at_lanes[name][thread]) for name in OWN),
                lane.read_lane.eq(at_lanes["group"][thread // slots]),
                lane.returned.eq(at_lanes["returned"][thread % slots]),
                lane.offset_load.eq(self.offset_load),
                self.offset[thread].eq(lane.offset),
            ]
            values[thread % slots] += [lane.thread_product, lane.thread_factor]
        # Lanes that were not read give zeros.
        for slot, (read, of_slot) in enumerate(zip(port.read_data, values)):
            if cfg.lane_registers:      # each of the registers is in the middle of its lanes
                near = [Signal(32, name=f"read_{slot}_{first}", reset_less=True) for first in range(0, len(of_slot), NEIGHBOURS)]
                m.d.sync += [kept.eq(any_of(of_slot[number * NEIGHBOURS:][:NEIGHBOURS])) for number, kept in enumerate(near)]
                of_slot = near
            m.d.comb += read.eq(any_of(of_slot))

    def _at_lanes(self, m, control, arbiter, group):
        """What goes to the lanes and their sums, by name: as it is, or a cycle later."""
        cfg, port = self.cfg, self.registers
        values = {name: getattr(control, name) for name in (
            "pairs", "quads", "total", "own", "receive", "a_signed", "active", "accumulate", "clear",
            *["odd_high", "scaled"] * cfg.two_passes, *["wide"] * cfg.wide_lanes)}
        values |= {name: getattr(arbiter, name) for name in ("access", "factor_access", "capture")}
        values |= {"take": self.take, "factor_address": self.step.factor_word, "group": group, "write_lane": port.write_lanes,
                   "return_lane": port.return_lanes}
        lists = {"word": [Cat(word) for word in self.word], "returned": list(port.return_data)}
        if cfg.lane_registers:
            values = {name: self._later(m, name, value) for name, value in values.items()}
            lists = {name: [self._later(m, f"{name}_{number}", value, reset_less=True) for number, value in enumerate(several)]
                     for name, several in lists.items()}
        lists["word"] = [[word.word_select(element, cfg.element_bits).as_signed() for element in range(cfg.dot)] for word in lists["word"]]
        return values | lists

    def _later(self, m, name, value, **options):
        register = Signal(value.shape(), name=f"far_{name}", **options)
        m.d.sync += register.eq(value)
        return register
