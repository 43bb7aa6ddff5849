"""All lanes of a core with their common control."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.layouts import RegisterPort
from ..lib.onehot import any_of
from ..lib.shared_module import SharedModule
from ..rnn.layouts import engine_step_layout
from .cross_lane_tree import CrossLaneTree
from .layouts import step_layout
from .pe import PE
from .pipeline_control import PipelineControl
from .register_arbiter import RegisterArbiter

__all__ = ["PEArray", "engine_members"]

# Inputs of a lane: the same for all, one of each for each.
COMMON = ("own", "factor_address", "a_signed", "accumulate", "access", "factor_access", "capture")
OWN = ("receive", "active", "clear", "write_lane", "return_lane")
NEIGHBOURS = 8      # values of lanes that are joined on their way to the thread unit


def engine_members(cfg):
    """What the engine for recurrent networks gives the lanes."""
    return {
        "engine_active": In(1),
        "engine_step": In(engine_step_layout(cfg)),
        "engine_word": In(signed(cfg.engine_element_bits)).array(cfg.dot),
        "engine_take": In(1),
    }


class PEArray(Component):
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
    its own copies stay its own. Sums over several lanes continue with the roots of the lanes' trees (``CrossLaneTree``).

    With ``cfg.rnn`` the engine for recurrent networks has its own ``engine_step``, one a cycle while ``engine_active``. All lanes
    multiply the signed bytes of their factor word with elements of 16 bits: with ``cat`` dot products a lane, multiplier i takes
    ``engine_word[i div cat]``, and its product counts for tap i mod ``cat`` [S3.4]. ``engine_word`` is taken with ``engine_take``
    in the cycle after the step, spread for that step's ``cat`` (also without ``step``), and kept for those that follow. Register
    ``source`` (nothing with ``zero``) plus the sum goes to ``product``, of tap 0 in the product file, of the others in the tap files
    under the same numbers modulo ``rnn_tap_registers``; steps may name any registers in any order. A read granted 4 + log2(dot) cycles
    after ``engine_step`` sees the sums of all taps (of taps 2 and 3 two cycles before, of tap 1 one), and has them
    ``cfg.register_read_latency`` cycles later. The lanes are the engine's from the first ``engine_step`` to the cycle after the last one;
    no ``mm`` is under way then, one may step in the cycle after. Writes of the thread unit wait for a cycle in which no sum is written.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    step : In(step_layout(cfg))
    word : In(signed(element_bits)).array(fetch_slots, dot)
    take : In(positions)
    engine_active : In(1)
        With ``cfg.rnn``, as the next three: the engine owns the lanes.
    engine_step : In(engine_step_layout(cfg))
    engine_word : In(signed(engine_element_bits)).array(dot)
        The first ``dot / cat`` count.
    engine_take : In(1)
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
            **(engine_members(cfg) if cfg.rnn else {}),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.control = control = PipelineControl(self.cfg)
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
        if self.cfg.rnn:
            m.d.comb += [control.engine_active.eq(self.engine_active), control.engine_step.eq(self.engine_step)]
        for name in arbiter.registers.signature.members:
            outer, inner = getattr(self.registers, name), getattr(arbiter.registers, name)
            m.d.comb += outer.eq(inner) if name.endswith("_grant") else inner.eq(outer)
        self._lanes(m, control, arbiter)
        return m

    def _lanes(self, m, control, arbiter):
        cfg, port = self.cfg, self.registers
        slots = len(port.return_data)
        m.submodules.sums = sums = CrossLaneTree(cfg.threads, cfg.sum_bits, cfg.two_passes)
        group = Signal(cfg.thread_groups)       # whose registers stand at the files, one hot
        m.d.sync += group.eq(1 << port.read_group)
        at_lanes = self._at_lanes(m, control, arbiter, group)
        for name in ("pairs", "quads", "total", *["scaled"] * cfg.two_passes):
            m.d.comb += getattr(sums, name).eq(at_lanes[name])
        lanes = SharedModule("heddle_lane", PE, cfg)
        values = [[] for _ in range(slots)]
        for thread in range(cfg.threads):
            lane = lanes.instantiate(m, f"lane_{thread}")
            m.d.comb += [element.eq(value) for element, value in zip(lane.word, at_lanes["word"][thread % cfg.fetch_slots], strict=True)]
            for name in COMMON + ("odd_high", "scaled") * cfg.two_passes + ("wide",) * cfg.wide_lanes + ("taps", "read_tap") * cfg.rnn:
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
            values[thread % slots] += [lane.thread_product, lane.thread_factor, *([lane.thread_tap] if cfg.rnn else [])]
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
            *["odd_high", "scaled"] * cfg.two_passes, *["wide"] * cfg.wide_lanes, *["taps"] * cfg.rnn)}
        values |= {name: getattr(arbiter, name) for name in ("access", "factor_access", "capture", *["read_tap"] * cfg.rnn)}
        values |= {"take": self.take, "factor_address": self.step.factor_word, "group": group, "write_lane": port.write_lanes,
                   "return_lane": port.return_lanes}
        words = self.word
        if cfg.rnn:
            factor_address, take = Signal.like(self.step.factor_word, name="factor_address"), Signal.like(self.take, name="take_either")
            m.d.comb += [
                factor_address.eq(Mux(self.engine_active, self.engine_step.factor_word, self.step.factor_word)),
                take.eq(self.take | self.engine_take.replicate(len(self.take))),
            ]
            values |= {"factor_address": factor_address, "take": take}
            words = self._words(m)
        lists = {"word": [Cat(word) for word in words], "returned": list(port.return_data)}
        if cfg.lane_registers:
            values = {name: self._later(m, name, value) for name, value in values.items()}
            lists = {name: [self._later(m, f"{name}_{number}", value, reset_less=True) for number, value in enumerate(several)]
                     for name, several in lists.items()}
        lists["word"] = [[word.word_select(element, cfg.element_bits).as_signed() for element in range(cfg.dot)] for word in lists["word"]]
        return values | lists

    def _words(self, m):
        """The words, or in their place the elements of the engine, spread over the multipliers."""
        cfg = self.cfg
        cat, spread = Signal(2, name="engine_cat", reset_less=True), []
        m.d.sync += cat.eq(self.engine_step.cat)
        for index in range(cfg.dot):
            element = Signal(signed(cfg.element_bits), name=f"engine_element_{index}")
            m.d.comb += element.eq(Array(self.engine_word[index >> shift] for shift in range(3))[cat])
            spread.append(element)
        words = [[Signal.like(value, name=f"word_{slot}_{index}") for index, value in enumerate(word)]
                 for slot, word in enumerate(self.word)]
        for either, word in zip(words, self.word):
            m.d.comb += [chosen.eq(Mux(self.engine_active, element, value)) for chosen, element, value in zip(either, spread, word)]
        return words

    def _later(self, m, name, value, **options):
        register = Signal(value.shape(), name=f"far_{name}", **options)
        m.d.sync += register.eq(value)
        return register
