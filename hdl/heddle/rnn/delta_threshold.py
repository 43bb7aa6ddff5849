"""Differences of the elements of a vector to what was multiplied of them before."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..lib.rounding import add_carry

__all__ = ["DeltaThreshold", "choose_group"]


def choose_group(cfg, word, place, cat):
    """The ``dot / cat`` elements of a word of vector memory from ``place`` on, zeros behind them; ``cat`` is a logarithm. An element that
    only large groups have stands in few places."""
    chosen = []
    for index in range(cfg.dot):
        shift = next(cat for cat in (2, 1, 0) if index < cfg.dot >> cat)
        choices = Array(word[first + index] for first in range(0, cfg.vector_lanes, cfg.dot >> shift))
        value = choices[place[exact_log2(cfg.dot >> shift):]] if len(choices) > 1 else choices[0]
        chosen.append(Mux(cat > shift, 0, value))
    return chosen


class DeltaThreshold(Component):
    """Keeps what was sent of each element, and makes the differences to it: those beyond ``held`` are sent, others are zero.

    A memory like that of the vectors: word ``word`` is read in a cycle with ``read``; ``o`` are the differences of that word from the
    cycle after it on (combinational from ``i``), and a cycle with ``take`` keeps what is sent of the group at ``place``. Reads of later
    cycles see it. With ``fresh`` nothing was sent before. Nothing is reset.

    Members
    -------
    read, word : In(1), In
    place, cat : In
        Of the group, see ``choose_group``.
    fresh, take : In(1)
    held : In(16)
        Unsigned.
    i : In(signed(16)).array(vector_lanes)
    o : Out(signed(17)).array(vector_lanes)
        Exact: the difference of any two elements.
    """

    def __init__(self, cfg):
        self.cfg = cfg
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
        for lane, (value, sent) in enumerate(zip(self.i, self.o)):
            m.submodules[f"sent_{lane}"] = memory = Memory(
                shape=16, depth=cfg.rnn_elements // cfg.vector_lanes, init=[], attrs={"no_rw_check": 1})
            read, write = memory.read_port(domain="comb"), memory.write_port()     # read into registers: see ProductFile
            output, before = Signal(16, name=f"output_{lane}", reset_less=True), Signal(signed(16), name=f"before_{lane}")
            with m.If(self.read):
                m.d.sync += output.eq(read.data)
            mine = Array(self.place[exact_log2(group):] == lane // group for group in (cfg.dot >> cat for cat in range(3)))
            m.d.comb += [
                before.eq(Mux(self.fresh, 0, output)), sent.eq(self._beyond(m, lane, value - before)),
                read.addr.eq(self.word), write.addr.eq(word), write.data.eq(before + sent), write.en.eq(self.take & mine[self.cat]),
            ]
        return m

    def _beyond(self, m, lane, difference):
        """The difference of 17 bits, or zero if it is not beyond ``held``."""
        # |difference| - held - 1, the magnitude of a negative one by its complement and a carry
        beyond = Signal(signed(18), name=f"beyond_{lane}")
        sign = difference[-1]
        magnitude = Cat(difference[:-1] ^ sign.replicate(16), 0).as_signed()
        m.d.comb += beyond.eq(add_carry(magnitude, (~Cat(self.held, 0)).as_signed(), sign))
        return Mux(beyond[-1], 0, difference)
