"""PE array: all PEs of a core with their common control."""

from amaranth.hdl import Array, Cat, Module, Mux, Shape, Signal, signed
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..interfaces.datapath import EngineStepPort, SamplePort, SparseReadPort, step_layout
from ..interfaces.layouts import OffsetReadPort, RegisterPort
from ..lib.delay import Stages
from ..lib.members import connect_members
from ..lib.onehot import any_of
from ..lib.shared_module import SharedModule
from ..parameters.matrix import DatapathParameters
from .cross_lane_tree import CrossLaneTree
from .layouts import TAPS, factor_access_layout
from .pe import PE
from .pipeline_control import PipelineControl
from .register_arbiter import RegisterArbiter

__all__ = ["PEArray"]

CONTROL = ("multiply", "accumulate", "files")   # control ports of a PE, driven once for all of them
OWN = ("active", "clear", "receive")            # members of these with a bit for each PE
OF_GROUP = ("first", "second")                  # members with bits for each group of PEs
NEIGHBOURS = 8      # read values of PEs that are joined before a register, on the path to the thread unit


class PEArray(Component):
    """PE array: ``threads`` PEs, one step of ``mm`` a cycle, and the thread unit's access to their registers.

    Words and controls come from registers that exist once. Each PE is an instance of one module, so its copies of them are not merged with
    those of other PEs. Sums over PEs continue with the roots of their trees (``CrossLaneTree``).

    With ``rnn`` the engine for recurrent networks has steps of its own, with signed bytes of the factor word and elements of 16 bits. With
    ``cat`` dot products a PE, multiplier i takes ``engine.word[i div cat]``, and its product counts for tap i mod ``cat`` [S3.4]. Register
    ``source`` (nothing with ``zero``) plus the sum goes to ``product``. Tap 0 is in the product register file; the other taps have the same
    numbers modulo ``rnn_tap_registers``. Steps may name any registers in any order. The engine owns the PEs from its first ``engine.step``
    to the cycle after the last. No ``mm`` is in flight then; one may step in the cycle after.

    Parameters
    ----------
    cfg : DatapathParameters

    *Ports*:
    step : In(step_layout(cfg))
        Step of ``mm``.
    word : In(signed(element_bits)).array(fetch_slots, dot)
        Words of B, one cycle after ``step``; PE t takes ``word[t mod fetch_slots]``.
    take : In(positions)
        Bit t mod ``positions``: PE t takes its word, in the cycle after ``step`` or before, and holds it.
    engine_active : In(1)
        With ``rnn``: the engine owns the PEs.
    engine : In(EngineStepPort(cfg))
        With ``rnn``: steps of the engine. Of ``word``, one cycle after ``step``, the first ``dot / cat`` elements count. ``take`` takes
        them for the ``cat`` of ``step`` of the cycle before (also without ``step.step``), and holds them.
    sparse_reads : In(SparseReadPort(cfg))
        With ``sparse``: operands of a step of the sparse engine, beside ``engine.step``. Its factor words and elements are joined with
        those of ``engine``, which are 0 then. Without ``active`` the step is one of the engine for recurrent networks.
    samples : In(SamplePort(cfg))
        With ``sparse``: steps of sampled products, and writes of operand rows. Such a step has ``engine.step`` with ``cat`` 0; its sum over
        all PEs is at ``samples.total``, and its product register is undefined then.
    registers : In(RegisterPort(cfg))
        Access of the thread unit.
    offset_read : In(OffsetReadPort(cfg))
        Reads of the next offsets.
    offset_load : In(1)
        The next offset becomes ``offset``; without register slice.
    offset : Out(32).array(threads)
        Offset of each thread's column of B.
    pause : Out(1)
        The thread unit waits for a cycle without a step; the fetch of B leaves a step out.
    done : Out(1)
        The last sum of an operation is in the product register file: a read granted in this cycle sees it.

    *Latency*: sums are in the product register file 6 + log2(``dot``) cycles after ``step``; ``done`` marks this cycle. After
    ``engine.step`` it is 4 + log2(``dot``) for all taps, two less for taps 2 and 3, one less for tap 1. Reads have
    ``register_read_latency``. With ``lane_slices`` everything reaches the PEs as many cycles later, and read data come back twice as many
    cycles later; all relations above remain.

    *Throughput*: one step a cycle.

    *Back-pressure*: steps are never held. Reads of offsets and the thread unit use the cycles that they leave. A write to a product
    register waits for a cycle in which no sum is written. ``offset_read.grant`` and ``read_grant`` are combinational from the requests.

    *Reset*: no step is in flight; registers hold their values.
    """

    def __init__(self, cfg):
        self.cfg = cfg = DatapathParameters.of(cfg)
        super().__init__({
            "step": In(step_layout(cfg)),
            "word": In(signed(cfg.element_bits)).array(cfg.fetch_slots, cfg.dot),
            "take": In(cfg.positions),
            "registers": In(RegisterPort(cfg)),
            "offset_read": In(OffsetReadPort(cfg)),
            "offset_load": In(1),
            "offset": Out(32).array(cfg.threads),
            "pause": Out(1),
            "done": Out(1),
            **({"engine_active": In(1), "engine": In(EngineStepPort(cfg))} if cfg.rnn else {}),
            **({"sparse_reads": In(SparseReadPort(cfg)), "samples": In(SamplePort(cfg))} if cfg.sparse else {}),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.control = control = PipelineControl(self.cfg)
        m.submodules.arbiter = arbiter = RegisterArbiter(self.cfg)
        m.d.comb += control.i.eq(self.step)
        connect_members(m, flipped(self), control, ("done",))
        connect(m, control.products, arbiter.products)
        connect(m, flipped(self.offset_read), arbiter.offset_read)
        connect_members(m, flipped(self), arbiter, ("pause",))
        if self.cfg.rnn:
            connect_members(m, flipped(self), control, ("engine_active",))
            m.d.comb += control.engine_step.eq(self.engine.step)
        if self.cfg.sparse:
            connect_members(m, flipped(self), control, ("sparse_reads",))
            m.d.comb += [
                *(getattr(control.samples, name).eq(getattr(self.samples, name)) for name in control.samples.signature.members),
                arbiter.sparse_active.eq(self.sparse_reads.active), arbiter.operand_write.eq(self.samples.write),
                arbiter.operand_word.eq(self.samples.write_word),
            ]
        connect_members(m, flipped(self.registers), arbiter.registers, arbiter.registers.signature.members)
        self._lanes(m, control, arbiter)
        return m

    def _lanes(self, m, control, arbiter):
        cfg, port = self.cfg, self.registers
        slots = len(port.return_data)
        m.submodules.sums = sums = CrossLaneTree(cfg.threads, cfg.sum_bits, cfg.two_passes, cfg.sparse)
        if cfg.sparse:
            m.d.comb += self.samples.total.eq(self._later(m, "total", sums.whole))
        group = Signal(cfg.thread_groups)       # group whose registers the register files deliver, one-hot
        m.d.sync += group.eq(1 << port.read_group)
        at_lanes = self._at_lanes(m, control, arbiter, group)
        for name in ("pairs", "quads", "total", *["scaled"] * cfg.two_passes):
            m.d.comb += getattr(sums, name).eq(at_lanes[name])
        lanes = SharedModule("heddle_lane", PE, cfg)
        values, seconds = ([[] for _ in range(slots)] for _ in range(2))
        taps = [[[] for _ in range(slots)] for _ in range(1, TAPS)]
        for thread in range(cfg.threads):
            lane = lanes.instantiate(m, f"lane_{thread}")
            of_group = thread // slots
            m.d.comb += [element.eq(value) for element, value in zip(lane.word, at_lanes["word"][self._line(thread)], strict=True)]
            for name in (*["odd_high"] * cfg.two_passes, *["taps"] * cfg.rnn):
                m.d.comb += getattr(lane, name).eq(at_lanes[name])
            for port_name in CONTROL:
                control_port = getattr(lane, port_name)
                for name, member in control_port.signature.members.items():
                    value = at_lanes[name]
                    if name in OWN:
                        value = value[thread]
                    elif name in OF_GROUP:
                        value = value.word_select(of_group, Shape.cast(member.shape).width)
                    elif name == "factors":
                        value = value[of_group % len(value)]
                    m.d.comb += getattr(control_port, name).eq(value)
            addresses = at_lanes["factor_address"]
            m.d.comb += [
                lane.factor_address.eq(addresses[of_group % len(addresses)]),
                lane.take.eq(at_lanes["take"][thread % cfg.positions]),
                lane.group_sum.eq(sums.o[thread // 2] if thread else sums.first),
                sums.i[thread].eq(lane.root),
                lane.thread.write_lane.eq(at_lanes["write_lane"][thread]),
                lane.thread.return_lane.eq(at_lanes["return_lane"][thread]),
                lane.thread.read_lane.eq(at_lanes["group"][of_group]),
                lane.thread.return_data.eq(at_lanes["returned"][thread % slots]),
                lane.offset_load.eq(self.offset_load),
                self.offset[thread].eq(lane.offset),
            ]
            values[thread % slots] += [lane.thread.product, *([lane.thread.tap] if cfg.rnn and not cfg.sparse else [])]
            seconds[thread % slots].append(lane.thread.factor)
            for tap, of_slots in enumerate(taps if cfg.sparse else ()):
                of_slots[thread % slots].append(lane.thread.each_tap[tap])
        self._read_data(m, values, seconds, taps)

    def _read_data(self, m, values, seconds, taps):
        """Registers that are read, of each slot: of all its PEs those that are read first, and those that may be second of a pair.

        PEs that were not read deliver zeros.
        """
        cfg, port = self.cfg, self.registers
        pair = Stages(m, port.read_pair, "pair")[cfg.register_read_latency] if cfg.register_pairs else 0
        for slot, read in enumerate(port.read_data):
            first, second = Signal(32, name=f"first_{slot}"), Signal(32, name=f"second_{slot}")
            sums = [Signal(32, name=f"tap_{tap}_{slot}") for tap in range(1, TAPS)] if cfg.sparse else []
            tap_reads = [(joined, f"tap_{tap}", taps[tap - 1][slot]) for tap, joined in enumerate(sums, 1)]
            for joined, name, of_slot in ((first, "first", values[slot]), (second, "second", seconds[slot]), *tap_reads):
                near = [any_of(of_slot[start:start + NEIGHBOURS]) for start in range(0, len(of_slot), NEIGHBOURS)]  # joined near their PEs
                m.d.comb += joined.eq(any_of(self._later(m, f"{name}_{slot}_{number}", value) for number, value in enumerate(near)))
            m.d.comb += read.eq(any_of([first, *sums]) | Mux(pair, 0, second))
            if cfg.sparse:      # an odd product register is a second one
                m.d.comb += [value.eq(joined) for value, joined in zip(port.read_sums[slot], (first | second, *sums), strict=True)]
            if cfg.register_pairs:
                m.d.comb += port.read_second[slot].eq(second)

    def _at_lanes(self, m, control, arbiter, group):
        """Inputs of the PEs and of the sums over PEs, by name, behind the register slices in front of the PEs."""
        cfg, port = self.cfg, self.registers
        values = {name: getattr(control, name) for name in (
            "pairs", "quads", "total", *["odd_high"] * cfg.two_passes, *["taps"] * cfg.rnn)}
        values |= {name: getattr(source, name) for source in (control.multiply, control.accumulate, arbiter.files)
                   for name in source.signature.members}
        values |= {"take": self.take, "group": group, "write_lane": port.write_lanes, "return_lane": port.return_lanes}
        words, addresses = self.word, [self.step.factor_word]
        if cfg.rnn:
            take = Signal.like(self.take, name="take_either")
            m.d.comb += take.eq(self.take | self.engine.take.replicate(len(self.take)))
            values |= {"take": take}
            words, addresses = self._words(m), self._factor_addresses(m)
        lists = {"word": [Cat(word) for word in words], "returned": list(port.return_data), "factor_address": addresses}
        lists |= {"factors": self._factor_accesses(m, values.pop("factors")) if cfg.sparse else [values.pop("factors")]}
        values = {name: self._later(m, name, value, reset=True) for name, value in values.items()}
        lists = {name: [self._later(m, f"{name}_{number}", value, reset=name == "factors") for number, value in enumerate(several)]
                 for name, several in lists.items()}
        lists["word"] = [[word.word_select(element, cfg.element_bits).as_signed() for element in range(cfg.dot)] for word in lists["word"]]
        return values | lists

    def _line(self, thread):
        """Number of the word that a PE takes: of its slot and, where PEs of other groups share the slot, of its group."""
        cfg = self.cfg
        slots = cfg.fetch_slots
        if not cfg.sparse:
            return thread % slots
        return thread if slots >= cfg.thread_slots else thread // cfg.thread_slots * slots + thread % slots

    def _factor_addresses(self, m):
        """Factor word of each group of PEs; without ``sparse`` of all."""
        cfg, own = self.cfg, [group.first_word for group in self.sparse_reads.operands] if self.cfg.sparse else [0]
        addresses = [Signal(cfg.factor_address_bits, name=f"factor_address_{number}") for number in range(len(own))]
        for address, word in zip(addresses, own, strict=True):
            m.d.comb += address.eq(Mux(self.engine_active, self.engine.step.factor_word | word, self.step.factor_word))
        return addresses

    def _factor_accesses(self, m, access):
        """Access to port B of the factor register files, of each group of PEs."""
        accesses = []
        for number, group in enumerate(self.sparse_reads.operands):
            own = Signal(factor_access_layout(self.cfg), name=f"factors_{number}")
            m.d.comb += [own.eq(access), own.word.eq(access.word | group.second_word)]
            accesses.append(own)
        return accesses

    def _words(self, m):
        """Words of B, or the elements of the engine spread over the multipliers, for each ``_line``."""
        cfg = self.cfg
        cat, lines = Signal(2, name="engine_cat", reset_less=True), {}
        m.d.sync += cat.eq(self.engine.step.cat)
        spread = [self._spread(m, cat, group) for group in range(cfg.thread_groups if cfg.sparse else 1)]
        for thread in range(cfg.threads):
            line = self._line(thread)
            if line in lines:
                continue
            elements, word = spread[thread // cfg.thread_slots if cfg.sparse else 0], self.word[thread % cfg.fetch_slots]
            lines[line] = [Signal.like(value, name=f"word_{line}_{index}") for index, value in enumerate(word)]
            m.d.comb += [chosen.eq(Mux(self.engine_active, element, value))
                         for chosen, element, value in zip(lines[line], elements, word, strict=True)]
        return [lines[line] for line in range(len(lines))]

    def _spread(self, m, cat, group):
        """Elements of the engine at the multipliers of a group of PEs."""
        cfg, spread = self.cfg, []
        words = list(self.engine.word)
        if cfg.sparse:
            words[:2] = [word | own for word, own in zip(words[:2], self.sparse_reads.elements[group], strict=True)]
        for index in range(cfg.dot):
            element = Signal(signed(cfg.element_bits), name=f"engine_element_{group}_{index}")
            m.d.comb += element.eq(Array(words[index >> shift] for shift in range(3))[cat])
            spread.append(element)
        return spread

    def _later(self, m, name, value, reset=False):
        """``value`` behind the register slices between the units and the PEs."""
        return Stages(m, value, f"far_{name}", reset)[self.cfg.lane_slices]
