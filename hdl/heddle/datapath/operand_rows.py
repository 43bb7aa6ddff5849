"""Operand rows of one PE: its part of two rows of the left operand of a sampled product, or its weights of depthwise rows."""

from amaranth.hdl import Module
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.datapath import OPERAND_BITS
from ..parameters.matrix import DatapathParameters

__all__ = ["OperandRows"]


class OperandRows(Component):
    """Operand rows of a PE: 16 words of ``dot`` bytes in distributed RAM [S4.2].

    The multipliers take a word in the place of a broadcast word of B. Of a sampled product a half is for each of two rows of A, so that one
    is written while the other is read. Of depthwise rows a word has the weights of a step.

    Parameters
    ----------
    cfg : DatapathParameters

    *Ports*:
    word : In(4)
        Word that is read.
    data : Out(32).array(dot / 4)
        This word in the same cycle.
    write : In(dot / 4)
        32-bit parts that are written.
    write_word : In(4)
        Word of the write.
    write_data : In(32).array(dot / 4)
        New values of its parts.

    *Latency*: reads are combinational. A write is seen by reads of later cycles.

    *Throughput*: a read and a write in every cycle.

    *Reset*: none; words hold their values.
    """

    def __init__(self, cfg):
        cfg = DatapathParameters.of(cfg)
        self._parts = parts = cfg.numbers_per_word
        super().__init__({
            "word": In(OPERAND_BITS), "data": Out(32).array(parts), "write": In(parts), "write_word": In(OPERAND_BITS),
            "write_data": In(32).array(parts),
        })

    def elaborate(self, platform):
        m = Module()
        for part in range(self._parts):
            m.submodules[f"part_{part}"] = memory = Memory(shape=32, depth=1 << OPERAND_BITS, init=[], attrs={"ram_style": "distributed"})
            read, write = memory.read_port(domain="comb"), memory.write_port()
            m.d.comb += [
                read.addr.eq(self.word), self.data[part].eq(read.data), write.addr.eq(self.write_word),
                write.data.eq(self.write_data[part]), write.en.eq(self.write[part]),
            ]
        return m
