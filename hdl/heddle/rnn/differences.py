"""Differences of the elements of a vector to what was multiplied of them before."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from .rounding import add_carry, saturate

__all__ = ["Differences", "choose_group"]


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


class Differences(Component):
    """Keeps what was sent of each element, and makes the differences to it: those beyond ``held`` are sent, others are zero.

    A memory like that of the vectors: word ``word`` is read in a cycle with ``read``; ``o`` are the differences of the group at ``place``
    of that word from the cycle after it on (combinational from ``i``), and a cycle with ``take`` keeps what is sent. Reads of later cycles
    see it. With ``fresh`` nothing was sent before. Nothing is reset.

    Members
    -------
    read, word : In(1), In
    place, cat : In
        Of the group, see ``choose_group``.
    fresh, take : In(1)
    held : In(16)
        Unsigned.
    i : In(signed(16)).array(dot)
    o : Out(signed(16)).array(dot)
    """

    def __init__(self, cfg):
        self.cfg = cfg
        bits = exact_log2(cfg.vector_lanes)
        super().__init__({
            "read": In(1), "word": In(exact_log2(cfg.rnn_elements) - bits), "place": In(bits), "cat": In(2),
            "fresh": In(1), "take": In(1), "held": In(16),
            "i": In(signed(16)).array(cfg.dot), "o": Out(signed(16)).array(cfg.dot),
        })

    def elaborate(self, platform):
        m = Module()
        cfg, outputs = self.cfg, []
        word = Signal.like(self.word, name="word_read", reset_less=True)
        sent = [Signal(signed(16), name=f"sent_{index}") for index in range(cfg.dot)]
        for lane in range(cfg.vector_lanes):
            m.submodules[f"sent_{lane}"] = memory = Memory(
                shape=16, depth=cfg.rnn_elements // cfg.vector_lanes, init=[], attrs={"no_rw_check": 1})
            read, write = memory.read_port(domain="comb"), memory.write_port()     # read into registers: see ProductFile
            output = Signal(16, name=f"output_{lane}", reset_less=True)
            m.d.comb += [read.addr.eq(self.word), write.addr.eq(word)]
            with m.If(self.read):
                m.d.sync += output.eq(read.data)
            outputs.append(output)
            choices, mine = zip(*(self._of_lane(lane, cfg.dot >> shift, sent) for shift in range(3)))
            m.d.comb += [write.data.eq(Array(choices)[self.cat]), write.en.eq(self.take & Array(mine)[self.cat])]
        with m.If(self.read):
            m.d.sync += word.eq(self.word)
        for index, (value, output) in enumerate(zip(self.i, choose_group(cfg, outputs, self.place, self.cat))):
            before, whole = Signal(signed(16), name=f"before_{index}"), Signal(signed(17), name=f"whole_{index}")
            m.d.comb += [before.eq(Mux(self.fresh, 0, output)), whole.eq(value - before)]
            difference, _ = saturate(m, whole, 16, f"difference_{index}")
            # |difference| - held - 1, the magnitude of a negative one by its complement and a carry
            beyond = Signal(signed(18), name=f"beyond_{index}")
            sign = difference[-1]
            magnitude = Cat(difference.as_unsigned() ^ sign.replicate(16), 0).as_signed()
            m.d.comb += [
                beyond.eq(add_carry(magnitude, (~Cat(self.held, 0)).as_signed(), sign)),
                self.o[index].eq(Mux(beyond[-1], 0, difference)), sent[index].eq(before + self.o[index]),
            ]
        return m

    def _of_lane(self, lane, group, sent):
        """What a lane of the memory keeps of a group of some elements, and whether the group is in it."""
        shift = exact_log2(group)
        return sent[lane % group], self.place[shift:] == lane >> shift if self.cfg.vector_lanes > group else 1
