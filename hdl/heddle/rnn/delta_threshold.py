"""Delta threshold: differences of a vector to its reference vector, small ones suppressed."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..lib.rounding import add_carry
from ..parameters.rnn import RnnParameters

__all__ = ["DeltaThreshold", "choose_group", "group_lanes"]


def choose_group(cfg, word, place, cat):
    """The ``dot / cat`` elements of a word of vector memory from element ``place`` on, zero-padded to ``dot``; ``cat`` is a logarithm.

    Multiplexers are as narrow as possible: an element that only large groups have occurs at few places.
    """
    chosen = []
    for index in range(cfg.dot):
        shift = next(cat for cat in (2, 1, 0) if index < cfg.dot >> cat)
        choices = Array(word[first + index] for first in range(0, cfg.vector_lanes, cfg.dot >> shift))
        value = choices[place[exact_log2(cfg.dot >> shift):]] if len(choices) > 1 else choices[0]
        chosen.append(Mux(cat > shift, 0, value))
    return chosen


def group_lanes(cfg, place, cat):
    """The elements of a word of vector memory that the column group from element ``place`` on has, a bit each; ``cat`` is a logarithm."""
    sizes = [cfg.dot >> cat for cat in range(3)]
    return Cat(Array(place[exact_log2(size):] == lane // size for size in sizes)[cat] for lane in range(cfg.vector_lanes))


class DeltaThreshold(Component):
    """Delta threshold: replaces vector elements by differences to the reference vector; differences of magnitude ``held`` or less
    become zero.

    The reference vector holds, for each element, the value that the sums contain. Each emitted difference is added to the reference
    vector. The memory of the reference vector has the size and the words of vector memory.

    *Ports*:
    read : In(1)
        Reads word ``word`` of the reference vector.
    word : In(log2(rnn_elements / vector_lanes))
        Word to read.
    place : In(log2(vector_lanes))
        First element of the column group in the word, in the cycles after ``read``.
    cat : In(2)
        log2 of the CAT taps; a column group has ``dot >> cat`` elements.
    fresh : In(1)
        The reference vector counts as zero.
    take : In(1)
        Adds the differences of the column group at ``place`` to the reference vector.
    held : In(16)
        Delta threshold, unsigned.
    i : In(signed(16)).array(vector_lanes)
        Elements of the word.
    o : Out(signed(17)).array(vector_lanes)
        Exact difference of element and reference, or 0.

    *Latency*: 1 cycle from ``read`` to valid ``o``, which then holds until the next ``read``. ``o`` is combinational from ``i``,
    ``fresh`` and ``held``. Reads in cycles after ``take`` see the update.

    *Throughput*: one word read and one group written a cycle.

    *Reset*: none; ``fresh`` defines the initial value.
    """

    def __init__(self, cfg):
        self.cfg = cfg = RnnParameters.of(cfg)
        bits = exact_log2(cfg.vector_lanes)
        super().__init__({
            "read": In(1), "word": In(exact_log2(cfg.rnn_elements) - bits), "place": In(bits), "cat": In(2),
            "fresh": In(1), "take": In(1), "held": In(16),
            "i": In(signed(16)).array(cfg.vector_lanes), "o": Out(signed(cfg.engine_element_bits)).array(cfg.vector_lanes),
        })

    def elaborate(self, platform):
        m = Module()
        cfg = self.cfg
        word = Signal.like(self.word, name="word_read", reset_less=True)
        with m.If(self.read):
            m.d.sync += word.eq(self.word)
        mine = group_lanes(cfg, self.place, self.cat)
        for lane, (value, sent) in enumerate(zip(self.i, self.o, strict=True)):
            m.submodules[f"sent_{lane}"] = memory = Memory(
                shape=16, depth=cfg.rnn_elements // cfg.vector_lanes, init=[], attrs={"no_rw_check": 1})
            read, write = memory.read_port(domain="comb"), memory.write_port()     # combinational read, then registers
            output, before = Signal(16, name=f"output_{lane}", reset_less=True), Signal(signed(16), name=f"before_{lane}")
            with m.If(self.read):
                m.d.sync += output.eq(read.data)
            m.d.comb += [
                before.eq(Mux(self.fresh, 0, output)), sent.eq(self._beyond(m, lane, value - before)),
                read.addr.eq(self.word), write.addr.eq(word), write.data.eq(before + sent), write.en.eq(self.take & mine[lane]),
            ]
        return m

    def _beyond(self, m, lane, difference):
        """The difference in 17 bits, or zero where its magnitude is at most ``held``."""
        # |difference| - held - 1; the magnitude of a negative difference is its complement plus a carry.
        beyond = Signal(signed(18), name=f"beyond_{lane}")
        sign = difference[-1]
        magnitude = Cat(difference[:-1] ^ sign.replicate(16), 0).as_signed()
        m.d.comb += beyond.eq(add_carry(magnitude, (~Cat(self.held, 0)).as_signed(), sign))
        return Mux(beyond[-1], 0, difference)
