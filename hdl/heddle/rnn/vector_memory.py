"""Vector memory: inputs, hidden vectors and cell states of all contexts."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out, Signature
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES
from ..parameters.rnn import RnnParameters
from .layouts import vector_group_bits

__all__ = ["LOADED_ELEMENTS", "ColumnReadPort", "LoadPort", "OperandReadPort", "ElementWritePort", "VectorMemory"]

LOADED_ELEMENTS = BANK_BYTES // 2       # elements of a word of shared memory


def ColumnReadPort(cfg):
    """Read port of vector memory for the column reader, seen from the reader.

    *Ports*:
    enable : Out(1)
        Reads a word.
    word : Out(log2(rnn_elements / vector_lanes))
        Word to read.
    data : In(16).array(vector_lanes)
        The word, one cycle after ``enable`` and until the next read.
    """
    return Signature({
        "enable": Out(1), "word": Out(exact_log2(cfg.rnn_elements) - exact_log2(cfg.vector_lanes)), "data": In(16).array(cfg.vector_lanes),
    })


def OperandReadPort(cfg):
    """Read port of vector memory for the operands of the tail, seen from the reader; reads every cycle.

    *Ports*:
    group : Out(log2(rnn_elements / tail_lanes))
        Group of ``tail_lanes`` elements to read.
    data : In(16).array(tail_lanes)
        Elements of ``group`` of the previous cycle.
    """
    return Signature({"group": Out(vector_group_bits(cfg)), "data": In(16).array(cfg.tail_lanes)})


def ElementWritePort(cfg):
    """Write port of vector memory for the results of the tail, seen from the writer; a write is never refused.

    *Ports*:
    enable : Out(1)
        Writes a group.
    group : Out(log2(rnn_elements / tail_lanes))
        Group of ``tail_lanes`` elements to write.
    data : Out(16).array(tail_lanes)
        Elements of the group.
    """
    return Signature({"enable": Out(1), "group": Out(vector_group_bits(cfg)), "data": Out(16).array(cfg.tail_lanes)})


def LoadPort(cfg):
    """Write port of vector memory for the words of the image loader, seen from the writer. A result of the tail has priority.

    *Ports*:
    enable : Out(1)
        Writes ``LOADED_ELEMENTS`` (8) elements; without effect in a cycle in which the tail writes.
    place : Out(log2(rnn_elements / 8))
        Position, in units of 8 elements.
    data : Out(128)
        The elements.
    """
    return Signature({
        "enable": Out(1), "place": Out(exact_log2(cfg.rnn_elements) - exact_log2(LOADED_ELEMENTS)), "data": Out(16 * LOADED_ELEMENTS),
    })


class VectorMemory(Component):
    """Vector memory: ``rnn_elements`` elements of 16 bits in words of ``vector_lanes``, with two read ports and one shared write port.

    The memory consists of parts as wide as the narrower of both writes. Reading one group while another group of the same word is
    written is therefore no conflict.

    *Ports*:
    column : In(ColumnReadPort(cfg))
        Read port of the column reader.
    operand : In(OperandReadPort(cfg))
        Read port of the tail.
    write : In(ElementWritePort(cfg))
        Write port of the tail.
    load : In(LoadPort(cfg))
        Write port of the image loader.

    *Latency*: 1 cycle from ``column.enable`` to ``column.data`` and from ``operand.group`` to ``operand.data``. Reads of later cycles
    see a write; a read in the cycle of the write is undefined.

    *Throughput*: one word, one group and one write a cycle.

    *Back-pressure*: none. ``write`` has priority over ``load``; the loader must retain its word in a cycle with ``write.enable``.

    *Reset*: none.
    """

    def __init__(self, cfg):
        self.cfg = cfg = RnnParameters.of(cfg)
        super().__init__({
            "column": In(ColumnReadPort(cfg)),
            "operand": In(OperandReadPort(cfg)),
            "write": In(ElementWritePort(cfg)),
            "load": In(LoadPort(cfg)),
        })

    def elaborate(self, platform):
        m = Module()
        cfg = self.cfg
        lanes, width = cfg.vector_lanes, min(cfg.tail_lanes, LOADED_ELEMENTS)
        groups, pieces = lanes // cfg.tail_lanes, lanes // LOADED_ELEMENTS

        def split(place, number):
            """Word and place in it."""
            return place[exact_log2(number):], place[:exact_log2(number)] if number > 1 else 0

        word, group = split(self.write.group, groups)
        loaded_word, piece = split(self.load.place, pieces)
        operand_word, operand_group = split(self.operand.group, groups)
        selected = Signal(range(max(groups, 2)))
        m.d.sync += selected.eq(operand_group)
        written, loaded = Cat(self.write.data), self.load.data
        operands = []
        for number in range(lanes // width):
            m.submodules[f"part_{number}"] = memory = Memory(
                shape=16 * width, depth=cfg.rnn_elements // lanes, init=[], attrs={"no_rw_check": 1})
            # Combinational reads into registers, as in the product register file.
            outputs = []
            for name, address in (("column", self.column.word), ("operand", operand_word)):
                read = memory.read_port(domain="comb")
                output = Signal(16 * width, name=f"{name}_{number}", reset_less=True)
                m.d.comb += read.addr.eq(address)
                with m.If(self.column.enable if name == "column" else 1):
                    m.d.sync += output.eq(read.data)
                outputs.append(output)
            m.d.comb += [self.column.data[number * width + element].eq(outputs[0].word_select(element, 16)) for element in range(width)]
            operands.append(outputs[1])
            write = memory.write_port()
            m.d.comb += [
                write.addr.eq(Mux(self.write.enable, word, loaded_word)),
                write.data.eq(Mux(self.write.enable, written.word_select(number * width % cfg.tail_lanes // width, 16 * width),
                                  loaded.word_select(number * width % LOADED_ELEMENTS // width, 16 * width))),
                write.en.eq(Mux(self.write.enable, group == number * width // cfg.tail_lanes,
                                self.load.enable & (piece == number * width // LOADED_ELEMENTS))),
            ]
        m.d.comb += Cat(self.operand.data).eq(Cat(operands).word_select(selected, 16 * cfg.tail_lanes))
        return m
