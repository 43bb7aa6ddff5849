"""SIMD lane of the thread unit: operands, ALU and address of one thread, and its result buffer."""

from amaranth import *
from amaranth.lib import data
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out, Signature
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, BANKS
from ..isa.compiled_offsets import OFFSET_BITS, base_layout
from ..isa.encoding import CHANNEL_SETS, PACKING, Access, OutputUse, channel_bias_layout, output_bounds_layout
from ..lib.alu import AluDatapath, alu_control_layout
from ..lib.narrow import Narrow
from ..lib.onehot import any_of
from ..parameters.thread import ThreadParameters
from .offset_fetch import ElementSize, offset_layout
from .operand_fetch import OPERAND_QUEUE, WORDS, OperandQueuePort
from .shared_lsu import placement_layout

__all__ = ["MultiCycleNumberPort", "MultiplierOperandPort", "OperandLoadPort", "ResultReadPort", "ResultStorePort", "SlotOperands",
           "SlotResult", "element_source_layout", "form_layout", "operand_source_layout"]

form_layout = data.StructLayout({
    "vector": 1,            # two or four words
    "four": 1,
    "byte": 1,
    "narrow": 1,            # 8 or 16 bits
    "signed": 1,
})

# Operands of an operation beside its registers, and the width of its access.
operand_source_layout = data.StructLayout({
    "value": 32,            # uniform or immediate operand, or base address in bytes
    "element_shift": 3,     # log2 of the bytes of an element, 0 to 4
    "b_is_register": 1,     # b is the second operand of the entry
    "use_thread": 1,        # else b is the number of the thread
    "access": Access,       # of a store
    "output": OutputUse,    # of the output stage: CHANNEL sets bias and multiplier, those that pack use them
    "set": 2,               # of biases and multipliers
    "own_shifts": 1,        # biases are words of ``channel_bias_layout``
})


# Address of an element of a gather: ``by_entry`` for a gather, its entry of the compiled-offset memory, and the address of the padding.
element_source_layout = data.StructLayout({"by_entry": 1, "entry": offset_layout, "padding": OFFSET_BITS})


def OperandLoadPort(cfg):
    """Load strobes of the operand registers of a SIMD lane, seen from the control of the lanes.

    *Ports*:
    operands : Out(1)
        a becomes the first operand of the oldest entry of the queue; b its second operand with ``b_is_register``, else the number of the
        thread with ``use_thread``, else ``value``.
    clear_a : Out(1)
        a becomes zero, which wins.
    address : Out(1)
        The address becomes ``value`` plus the first operand shifted left by ``element_shift``. With ``by_entry`` it becomes the sum of
        the entry and the base in the first operand, modulo 2^20. Where the first operand lacks a mask bit it becomes the padding.
    other : Out(1)
        With ``register_pairs``: b becomes the other register of a pair.
    element : Out(element_source_layout)
        With ``gather_offsets``: entry and padding for ``address``.
    """
    return Signature({"operands": Out(1), "clear_a": Out(1), "address": Out(1), "other": Out(1)}
                     | ({"element": Out(element_source_layout)} if cfg.gather_offsets else {}))


def MultiCycleNumberPort(cfg):
    """Product and packed bytes of a SIMD lane, seen from the control of the lanes.

    *Ports*:
    scale : Out(1)
        ``product`` and ``amount`` take the place of a and of bits 4 to 0 of b in front of the ALU.
    product : Out(32)
        Product of the lane from the result bus, zero without one.
    amount : Out(5)
        Shift amount of this product.
    narrow_take : Out(1)
        The narrowing unit takes ``shifted`` of the ALU.
    narrow_show : Out(1)
        The packed word of the narrowing unit is the result.
    narrow_unsigned : Out(1)
        The narrowing unit saturates to unsigned bytes.
    bounds, shown : Out(output_bounds_layout), Out(32)
        With ``output_stage``: zero point and bounds of the narrowing unit; the packed word that is the result with ``narrow_show``.
    """
    return Signature({
        "scale": Out(1), "product": Out(32), "amount": Out(5), "narrow_take": Out(1), "narrow_show": Out(1), "narrow_unsigned": Out(1),
    } | ({"bounds": Out(output_bounds_layout), "shown": Out(32)} if cfg.output_stage else {}))


def MultiplierOperandPort(cfg):
    """Operands of a SIMD lane for the shared multipliers, seen from the lane.

    *Ports*:
    a, b : Out(32)
        Operands.
    amount : Out(5)
        With ``output_stage``: shift of the product, with ``own_shifts``.
    """
    return Signature({"a": Out(32), "b": Out(32)} | ({"amount": Out(5)} if cfg.output_stage else {}))


def ResultStorePort(cfg):
    """Write port of the result buffer of a SIMD lane, seen from the writer.

    *Ports*:
    enable : Out(1)
        Writes ``entry``.
    words : Out(4)
        32-bit parts that are written.
    bytes, size : Out(4), Out(ElementSize)
        With ``gather_offsets``: bytes of these parts that are written, and where load data go. Of a BYTE ``bytes`` are its own and those
        above, which become zero.
    entry : Out(range(2 * thread_groups))
        The entry: group and half.
    """
    return Signature({"enable": Out(1), "words": Out(WORDS), "entry": Out(range(2 * cfg.thread_groups))}
                     | ({"bytes": Out(4), "size": Out(ElementSize)} if cfg.gather_offsets else {}))


def ResultReadPort(cfg):
    """Read port of the result buffers, seen from write-back.

    *Ports*:
    entry : Out(range(2 * thread_groups))
        Entry that is read: group and half.
    place : Out(2)
        Number of the 32-bit part of the entry that is the lowest of the result.
    """
    return Signature({"entry": Out(range(2 * cfg.thread_groups)), "place": Out(2)})


class SlotOperands(Component):
    """Operand stage of a SIMD lane: operand queue, operands a and b, address, ALU and narrowing unit of one thread.

    Parameters
    ----------
    cfg : ThreadParameters

    *Ports*:
    queue : In(OperandQueuePort())
        Pointers of the operand queue.
    operand : In(32).array(1)
        Operand from the register files, for the queue. With ``register_pairs`` an array of 2: the second is the other register of a pair.
    load : In(OperandLoadPort(cfg))
        Loads of the operand registers.
    source : In(operand_source_layout)
        Uniform operand and the source of b.
    thread : In(thread_bits)
        Number of the lane's thread in the present group.
    control : In(alu_control_layout)
        Controls of the ALU; its owner registers them together with the operands.
    choose : In(1)
        Guard of the thread, which SEL reads.
    multi_cycle : In(MultiCycleNumberPort())
        Product and packed bytes of the lane.
    word : Out(32)
        With ``output_stage``: packed word of the narrowing unit.
    multiplier : Out(MultiplierOperandPort(cfg))
        Operands for the shared multipliers.
    address : Out(32)
        Byte address.
    data : Out(32)
        Data of a store, which are operand b; 8- and 16-bit data are repeated in every place of the word.
    result : Out(32)
        Result of the ALU, or the packed word with ``multi_cycle.narrow_show``.
    compare_result : Out(1)
        Result of the comparison.

    *Latency*: one cycle from the load strobes to all outputs, two to ``result``. An entry can be loaded in the cycle after its
    last operand came.

    *Throughput*: one load of each register a cycle, no back-pressure.

    *Reset*: none; the owner controls validity.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
        super().__init__({
            "queue": In(OperandQueuePort()),
            "operand": In(32).array(2 if cfg.register_pairs else 1),
            "load": In(OperandLoadPort(cfg)),
            "source": In(operand_source_layout),
            "thread": In(cfg.thread_bits),
            "control": In(alu_control_layout),
            "choose": In(1),
            "multi_cycle": In(MultiCycleNumberPort(cfg)),
            **({"word": Out(32)} if cfg.output_stage else {}),
            "multiplier": Out(MultiplierOperandPort(cfg)),
            "address": Out(32),
            "data": Out(32),
            "result": Out(32),
            "compare_result": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.alu = alu = AluDatapath(registered=True)
        m.submodules.narrow = narrow = Narrow(self.cfg.output_stage)
        source, multi_cycle, load = self.source, self.multi_cycle, self.load
        first = self._queue(m, "first", self.queue.first, self.operand[0])
        second = self._queue(m, "second", self.queue.second, self.operand[0])
        if self.cfg.register_pairs:
            second = Mux(load.other, self._queue(m, "other", self.queue.second, self.operand[1]), second)
        a = Signal(32, reset_less=True)
        b = Signal(32, reset_less=True)
        address = Signal(32, reset_less=True)
        summand, factor = first, Mux(source.b_is_register, second, Mux(source.use_thread, self.thread, source.value))
        if self.cfg.output_stage:
            summand, factor = self._channel(m, first, factor)
        with m.If(load.operands):
            m.d.sync += [a.eq(summand), b.eq(factor)]
        with m.If(load.clear_a):
            m.d.sync += a.eq(0)
        with m.If(load.address):
            m.d.sync += address.eq(self._address(first))
        m.d.comb += [
            self.address.eq(address), alu.control.eq(self.control), alu.a.eq(Mux(multi_cycle.scale, multi_cycle.product, a)),
            alu.b.eq(Cat(Mux(multi_cycle.scale, multi_cycle.amount, b[:5]), b[5:])),
            alu.choose.eq(self.choose), self.multiplier.a.eq(a), self.multiplier.b.eq(b),
            narrow.shifted.eq(alu.shifted), narrow.take.eq(multi_cycle.narrow_take), narrow.unsigned.eq(multi_cycle.narrow_unsigned),
            self.compare_result.eq(alu.compare_result),
        ]
        shown = narrow.word
        if self.cfg.output_stage:
            shown = multi_cycle.shown
            bounds = ("zero_point", "minimum", "maximum")
            m.d.comb += [self.word.eq(narrow.word), *(getattr(narrow, name).eq(multi_cycle.bounds[name]) for name in bounds)]
        m.d.comb += self.result.eq(alu.result | Mux(multi_cycle.narrow_show, shown, 0))
        with m.Switch(source.access):
            with m.Case(Access.U8, Access.S8):
                m.d.comb += self.data.eq(b[:8].replicate(4))
            with m.Case(Access.U16, Access.S16):
                m.d.comb += self.data.eq(b[:16].replicate(2))
            with m.Default():
                m.d.comb += self.data.eq(b)
        return m

    def _channel(self, m, first, second):
        """Bias and multiplier of the lane's threads: CHANNEL sets them; returns a with the bias, and b, which PACK takes from here."""
        values, slots = [], min(self.cfg.thread_slots, self.cfg.threads)
        uses = Cat(self.source.output == use for use in PACKING).any()
        for name, value in (("bias", first), ("multiplier", second)):
            m.submodules[name] = memory = Memory(shape=32, depth=CHANNEL_SETS * self.cfg.thread_groups, init=[])
            write, read = memory.write_port(), memory.read_port(domain="comb")
            place = Cat(self.source.set, self.thread[exact_log2(slots):])
            m.d.comb += [
                write.addr.eq(place), read.addr.eq(place), write.data.eq(value),
                write.en.eq(self.load.operands & (self.source.output == OutputUse.CHANNEL)),
            ]
            values.append(read.data)
        bias, multiplier = channel_bias_layout(values[0]), values[1]
        amount = Signal(5, reset_less=True)
        with m.If(self.load.operands):
            m.d.sync += amount.eq(bias.shift)
        m.d.comb += self.multiplier.amount.eq(amount)
        number = Mux(self.source.own_shifts, bias.bias, values[0].as_signed())
        return (first + Mux(uses, number, 0))[:32], Mux(uses, multiplier, second)

    def _queue(self, m, name, arrives, operand):
        """One operand of the entries; returns that of the oldest."""
        m.submodules[f"{name}_queue"] = queue = Memory(shape=32, depth=OPERAND_QUEUE, init=[])
        write, read = queue.write_port(), queue.read_port(domain="comb")
        m.d.comb += [
            write.addr.eq(self.queue.write_place), write.data.eq(operand), write.en.eq(arrives), read.addr.eq(self.queue.read_place),
        ]
        return read.data

    def _address(self, first):
        """Byte address: that of a load or store, or that of an element of a gather, whose ``element_shift`` is 0."""
        if not self.cfg.gather_offsets:
            return self.source.value + self._scaled(first)
        element, thread = self.load.element, data.View(base_layout, first)
        total = Mux(element.by_entry, element.entry.sum, self.source.value) + self._scaled(first)
        inside = (thread.mask | ~element.entry.needed).all()
        return Mux(element.by_entry, Mux(inside, total[:OFFSET_BITS], element.padding), total)

    def _scaled(self, offset):
        """offset << element_shift for shifts of 0 to 4."""
        shifted = offset
        for bit, distance in enumerate((1, 2, 4)):
            shifted = Mux(self.source.element_shift[bit], Cat(C(0, distance), shifted)[:32], shifted)
        return shifted


class SlotResult(Component):
    """Result buffer of a SIMD lane: collects load data and ALU results of an operation, and delivers them for write-back.

    The buffer has 128 bits for each entry: two halves of ``thread_groups`` entries, so that one operation is written while the next
    executes. A source that does not count is a register with zero, and an OR joins all sources: half the LUTs of a selection.

    Parameters
    ----------
    cfg : ThreadParameters

    *Ports*:
    banks : In(128).array(8)
        Words at the banks of shared memory.
    placement : In(placement_layout)
        Bank of the data for this lane, zero without data. Byte offset of the thread's address in 16 bytes, naturally aligned.
    other : In(128)
        16 bytes from global memory.
    take_other : In(1)
        ``other`` is for this lane, with the offset of ``placement``.
    result : In(32)
        Result of the ALU or multi-cycle result; zero while load data are in flight.
    store : In(ResultStorePort(cfg))
        Writes an entry: with the word at ``banks`` or ``other`` of the cycle before, or with ``result`` in each 32-bit part.
    form : In(form_layout)
        Form of the results of the operation in write-back.
    read : In(ResultReadPort(cfg))
        Reads an entry; with one group also one that is written in this cycle.
    o : Out(8 * dot)
        Result of ``read.entry`` of the cycle before. Of no vector: the number of 8, 16 or 32 bits at the offset, extended, in every 32-bit
        part. Of a vector of 8 bytes: the half at the offset. Of 16 bytes: all. Parts above the lowest follow the multiple of ``dot`` bytes
        below ``read.place``.

    *Latency*: one cycle from ``read.entry`` to ``o``. The entry and the selection of its number are registered; ``o`` is combinational
    behind them.

    *Throughput*: one write and one read a cycle, no back-pressure.

    *Reset*: none.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
        super().__init__({
            "banks": In(8 * BANK_BYTES).array(BANKS),
            "placement": In(placement_layout),
            "other": In(8 * BANK_BYTES),
            "take_other": In(1),
            "result": In(32),
            "store": In(ResultStorePort(cfg)),
            "form": In(form_layout),
            "read": In(ResultReadPort(cfg)),
            "o": Out(cfg.word_bits),
        })

    def elaborate(self, platform):
        m = Module()
        words, offset, store, read = [], Signal(4, reset_less=True), self.store, self.read
        for number, (source, counts) in enumerate([*zip(self.banks, self.placement.bank, strict=True), (self.other, self.take_other)]):
            word = Signal(8 * BANK_BYTES, name=f"word_{number}", reset_less=True)
            m.d.sync += word.eq(source)
            with m.If(~counts):
                m.d.sync += word.eq(0)
            words.append(word)
        value, kept_offset = any_of([*words, self.result.replicate(4)]), offset
        if self.cfg.gather_offsets:
            value, kept_offset = self._placed(m, value, offset), Mux(store.size == ElementSize.LINE, offset, 0)
        parts = [self._part(m, part, value.word_select(part, 32)) for part in range(WORDS)]
        m.d.sync += offset.eq(self.placement.offset)
        with m.If(~(self.placement.bank.any() | self.take_other)):
            m.d.sync += offset.eq(0)
        selection = self._selection(self._entries(m, "offsets", store.enable, kept_offset, read.entry))
        values = {"entry": Cat(parts), "selection": selection, "form": self.form}
        kept = {name: Signal(value.shape(), name=f"kept_{name}", reset_less=True) for name, value in values.items()}
        m.d.sync += [kept[name].eq(value) for name, value in values.items()]
        m.d.comb += self.o.eq(self._extract(m, **kept))
        return m

    def _placed(self, m, value, offset):
        """16 bytes for the entry: those that were loaded, or an element of a gather in each place that may be its own."""
        store, pair, number = self.store, Signal(64), Signal(32)
        own = store.bytes & ~(store.bytes << 1)[:4]
        byte = number.word_select(offset[:2], 8)
        low = Mux(store.size == ElementSize.BYTE, Cat(byte & place.replicate(8) for place in own), number)
        high = Mux(store.size == ElementSize.PAIR, pair[32:], low)
        m.d.comb += [
            pair.eq(Mux(offset[3], value[64:], value[:64])), number.eq(Mux(offset[2], pair[32:], pair[:32])),
        ]
        return Mux(store.size == ElementSize.LINE, value, Cat(low, high, low, high))

    def _part(self, m, part, value):
        """Memory of a 32-bit part of the entries, whose bytes gathers write one by one; returns its value for ``read.entry``."""
        enable = self.store.enable & self.store.words[part]
        if self.cfg.gather_offsets:
            enable = Mux(enable, self.store.bytes, 0)
        return self._entries(m, f"words_{part}", enable, value, self.read.entry)

    def _entries(self, m, name, enable, value, entry):
        """Memory of one part of the entries; a bit of ``enable`` writes an equal share of ``value``. Returns the value for ``entry``, with
        one group also in the cycle of its write."""
        m.submodules[name] = entries = Memory(shape=len(value), depth=2 * self.cfg.thread_groups, init=[])
        share = len(value) // len(enable)
        write, read = entries.write_port(granularity=share), entries.read_port(domain="comb")
        m.d.comb += [write.addr.eq(self.store.entry), write.en.eq(enable), write.data.eq(value), read.addr.eq(entry)]
        if self.cfg.thread_groups > 1:
            return read.data
        return Cat(Mux(written & (self.store.entry == entry), value.word_select(number, share), read.data.word_select(number, share))
                   for number, written in enumerate(enable))

    def _selection(self, offset):
        """Byte, half, word and pair of words of an entry."""
        form, place = self.form, self.read.place
        return Cat(offset[:2], Mux(form.vector, place[0], offset[2]), Mux(form.four, place[1], offset[3]))

    def _extract(self, m, entry, selection, form):
        parts = self.cfg.numbers_per_word
        pair, number = Signal(64), Signal(32)
        m.d.comb += [
            pair.eq(Mux(selection[3], entry[64:], entry[:64])),
            number.eq(self._number(m, Mux(selection[2], pair[32:], pair[:32]), selection, form)),
        ]
        low = Cat(number, Mux(form.vector, pair[32:], number))
        return Cat(low, Mux(form.four, entry[64:], low))[:32 * parts]

    def _number(self, m, word, selection, form):
        """The 8-, 16- or 32-bit number at a place in a word, extended.

        Aligned offsets have zeros in the bits that wider accesses do not use, so they need no multiplexer of their own.
        """
        half, byte, sign = Signal(16), Signal(8), Signal()
        m.d.comb += [
            half.eq(Mux(selection[1], word[16:], word[:16])),
            byte.eq(Mux(selection[0], half[8:], half[:8])),
            sign.eq(form.signed & Mux(form.byte, byte[7], half[15])),
        ]
        return Cat(byte, Mux(form.byte, sign.replicate(8), half[8:]), Mux(form.narrow, sign.replicate(16), word[16:]))
