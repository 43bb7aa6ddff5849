"""The vectors of all contexts: inputs, hidden vectors, states."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES

__all__ = ["LOADED_ELEMENTS", "VectorMemory"]

LOADED_ELEMENTS = BANK_BYTES // 2       # elements of a word of shared memory


class VectorMemory(Component):
    """``rnn_elements`` elements of 16 bits in words of ``vector_lanes``: two are read and one group is written a cycle.

    ``column`` is word ``column_word`` one cycle later, and stays until the next cycle with ``column_read``;
    ``operand`` the ``tail_lanes`` elements of group ``operand_group`` likewise. The tail
    writes a group whenever it likes; the loader writes ``LOADED_ELEMENTS`` elements in a cycle
    in which the tail does not. A write is seen by reads of later cycles; what is read in the cycle that writes it is
    not defined. Nothing is reset.

    It is made of memories as wide as the smaller of both writes, so that reading one group while its neighbour is written is no conflict.

    Members
    -------
    column_read, column_word : In(1), In
    column : Out(16).array(vector_lanes)
    operand_group : In
    operand : Out(16).array(tail_lanes)
    write, write_group, write_data : In(1), In, In(16).array(tail_lanes)
    loaded_valid, loaded_place, loaded : In(1), In, In(128)
        ``loaded_place`` counts ``LOADED_ELEMENTS`` elements.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        bits = exact_log2(cfg.rnn_elements)
        group_bits = bits - exact_log2(cfg.tail_lanes)
        super().__init__({
            "column_read": In(1),
            "column_word": In(bits - exact_log2(cfg.vector_lanes)),
            "column": Out(16).array(cfg.vector_lanes),
            "operand_group": In(group_bits),
            "operand": Out(16).array(cfg.tail_lanes),
            "write": In(1),
            "write_group": In(group_bits),
            "write_data": In(16).array(cfg.tail_lanes),
            "loaded_valid": In(1),
            "loaded_place": In(bits - exact_log2(LOADED_ELEMENTS)),
            "loaded": In(16 * LOADED_ELEMENTS),
        })

    def elaborate(self, platform):
        m = Module()
        cfg = self.cfg
        lanes, width = cfg.vector_lanes, min(cfg.tail_lanes, LOADED_ELEMENTS)
        groups, pieces = lanes // cfg.tail_lanes, lanes // LOADED_ELEMENTS

        def split(place, number):
            """Word and place in it."""
            return place[exact_log2(number):], place[:exact_log2(number)] if number > 1 else 0

        word, group = split(self.write_group, groups)
        loaded_word, piece = split(self.loaded_place, pieces)
        operand_word, operand_group = split(self.operand_group, groups)
        selected = Signal(range(max(groups, 2)))
        m.d.sync += selected.eq(operand_group)
        written, loaded = Cat(self.write_data), self.loaded
        operands = []
        for number in range(lanes // width):
            m.submodules[f"part_{number}"] = memory = Memory(
                shape=16 * width, depth=cfg.rnn_elements // lanes, init=[], attrs={"no_rw_check": 1})
            # Combinational reads into registers: see ProductFile.
            outputs = []
            for name, address in (("column", self.column_word), ("operand", operand_word)):
                read = memory.read_port(domain="comb")
                output = Signal(16 * width, name=f"{name}_{number}", reset_less=True)
                m.d.comb += read.addr.eq(address)
                with m.If(self.column_read if name == "column" else 1):
                    m.d.sync += output.eq(read.data)
                outputs.append(output)
            m.d.comb += [self.column[number * width + element].eq(outputs[0].word_select(element, 16)) for element in range(width)]
            operands.append(outputs[1])
            write = memory.write_port()
            m.d.comb += [
                write.addr.eq(Mux(self.write, word, loaded_word)),
                write.data.eq(Mux(self.write, written.word_select(number * width % cfg.tail_lanes // width, 16 * width),
                                  loaded.word_select(number * width % LOADED_ELEMENTS // width, 16 * width))),
                write.en.eq(Mux(self.write, group == number * width // cfg.tail_lanes,
                                self.loaded_valid & (piece == number * width // LOADED_ELEMENTS))),
            ]
        m.d.comb += Cat(self.operand).eq(Cat(operands).word_select(selected, 16 * cfg.tail_lanes))
        return m
