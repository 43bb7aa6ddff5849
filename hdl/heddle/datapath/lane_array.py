"""All lanes of a core with their common control."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib.wiring import Component, In, Out

from ..layouts import RegisterPort
from ..once import Once
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
            "done": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.control = control = StepControl(self.cfg)
        m.submodules.arbiter = arbiter = RegisterArbiter(self.cfg)
        m.d.comb += [
            control.i.eq(self.step),
            self.done.eq(control.done),
            arbiter.read_bank.eq(control.read_bank),
            arbiter.read_row.eq(control.read_row),
            arbiter.write_bank.eq(control.write_bank),
            arbiter.write_row.eq(control.write_row),
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
        port = self.registers
        returned = self._returned(m)
        m.submodules.sums = sums = LaneSums(self.cfg.threads, self.cfg.sum_bits, self.cfg.two_passes)
        m.d.comb += [sums.pairs.eq(control.pairs), sums.quads.eq(control.quads), sums.total.eq(control.total)]
        if self.cfg.two_passes:
            m.d.comb += sums.scaled.eq(control.scaled)
        lanes = Once("heddle_lane", Lane, self.cfg)
        for thread in range(self.cfg.threads):
            lane = lanes.instantiate(m, f"lane_{thread}")
            word = self.word[thread % self.cfg.fetch_slots]
            m.d.comb += [element.eq(value) for element, value in zip(lane.word, word)]
            if self.cfg.two_passes:
                m.d.comb += [lane.odd_high.eq(control.odd_high), lane.scaled.eq(control.scaled)]
            if self.cfg.wide_lanes:
                m.d.comb += lane.wide.eq(control.wide)
            m.d.comb += [
                lane.take.eq(self.take[thread % self.cfg.positions]),
                lane.merged.eq(control.merged),
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
                lane.write_lane.eq(port.write_lanes[thread]),
                lane.capture.eq(arbiter.capture),
                lane.offset_load.eq(self.offset_load),
                lane.returned.eq(returned[thread % len(returned)]),
                lane.return_words.eq(port.return_words),
                lane.return_lane.eq(port.return_lanes[thread]),
                port.operand[thread].eq(lane.operand),
                port.address[thread].eq(lane.address),
                self.offset[thread].eq(lane.offset),
            ]

    def _returned(self, m):
        """The results of each slot, zero in words that no lane takes in this cycle."""
        port = self.registers
        returned = []
        for slot, value in enumerate(port.return_data):
            used = Signal(name=f"used_{slot}")
            gated = Signal(128, name=f"returned_{slot}")
            m.d.comb += used.eq(Cat(port.return_lanes[slot::len(port.return_data)]).any())
            for word in range(4):
                taken = port.return_words[word] & used
                m.d.comb += gated.word_select(word, 32).eq(Mux(taken, value.word_select(word, 32), 0))
            returned.append(gated)
        return returned
