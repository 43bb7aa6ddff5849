"""Vector memory: inputs, hidden vectors and cell states of all contexts."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES
from ..parameters.rnn import RnnParameters

__all__ = ["LOADED_ELEMENTS", "VectorMemory"]

LOADED_ELEMENTS = BANK_BYTES // 2       # elements of a word of shared memory


class VectorMemory(Component):
    """Vector memory: ``rnn_elements`` elements of 16 bits in words of ``vector_lanes``, with two read ports and one shared write port.

    The memory consists of parts as wide as the narrower of both writes. Reading one group while another group of the same word is
    written is therefore no conflict.

    *Ports*:
    column_read : In(1)
        Reads a word for the column reader.
    column_word : In(log2(rnn_elements / vector_lanes))
        Word to read.
    column : Out(16).array(vector_lanes)
        The word; holds until the next ``column_read``.
    operand_group : In(log2(rnn_elements / tail_lanes))
        Group of ``tail_lanes`` elements that the tail reads, every cycle.
    operand : Out(16).array(tail_lanes)
        The group.
    write : In(1)
        The tail writes a group.
    write_group : In(log2(rnn_elements / tail_lanes))
        Group to write.
    write_data : In(16).array(tail_lanes)
        Elements of the group.
    loaded_valid : In(1)
        The image loader writes ``LOADED_ELEMENTS`` (8) elements, in a cycle without ``write`` only.
    loaded_place : In(log2(rnn_elements / 8))
        Position, in units of 8 elements.
    loaded : In(128)
        The elements.

    *Latency*: 1 cycle from ``column_read`` to ``column`` and from ``operand_group`` to ``operand``. Reads of later cycles see a write;
    a read in the cycle of the write is undefined.

    *Throughput*: one word, one group and one write a cycle.

    *Back-pressure*: none. ``write`` has priority; the loader must retain its word in a cycle with ``write``.

    *Reset*: none.
    """

    def __init__(self, cfg):
        self.cfg = cfg = RnnParameters.of(cfg)
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
            # Combinational reads into registers, as in the product register file.
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
