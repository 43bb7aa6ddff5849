"""The accumulators of one tap of a lane."""

from amaranth.hdl import Module, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from ..lib.onehot import any_of, select_one_hot
from .layouts import TAP_ROW_BITS, tap_banks

__all__ = ["CatAccumulators"]


class CatAccumulators(Component):
    """``rnn_tap_registers`` registers of 32 bits in distributed RAM: read, added to and written in one cycle [S3.4].

    Register n is row n mod 16 of bank n div 16; banks come one hot. Both reads are independent of each other. A write is seen by reads
    of later cycles, so that nothing has to be forwarded. Every port works every cycle. Registers keep their values over a reset.

    Banks are joined by OR: where many lanes have many of them, controls that are decoded once for all lanes are much smaller than
    multiplexers.

    Members
    -------
    source_row : In(4)
    source_bank : In(tap_banks(cfg))
    source : Out(32)
        Combinational; zero without a bank.
    row : In(4)
    bank : In(tap_banks(cfg))
    data : Out(32)
        A cycle later, zero without a bank.
    product_row : In(4)
    product_bank : In(tap_banks(cfg))
    total : In(32)
        What is written, if there is a bank.
    """

    def __init__(self, cfg):
        self._banks = banks = tap_banks(cfg)
        super().__init__({
            "source_row": In(TAP_ROW_BITS),
            "source_bank": In(banks),
            "source": Out(32),
            "row": In(TAP_ROW_BITS),
            "bank": In(banks),
            "data": Out(32),
            "product_row": In(TAP_ROW_BITS),
            "product_bank": In(banks),
            "total": In(32),
        })

    def elaborate(self, platform):
        m = Module()
        sources, data = [], []
        for bank in range(self._banks):
            m.submodules[f"bank_{bank}"] = memory = Memory(shape=32, depth=1 << TAP_ROW_BITS, init=[], attrs={"ram_style": "distributed"})
            source, read, write = memory.read_port(domain="comb"), memory.read_port(domain="comb"), memory.write_port()
            value = Signal(32, name=f"data_{bank}", reset_less=True)
            m.d.comb += [
                source.addr.eq(self.source_row),
                read.addr.eq(self.row),
                write.addr.eq(self.product_row),
                write.data.eq(self.total),
                write.en.eq(self.product_bank[bank]),
            ]
            m.d.sync += value.eq(read.data)
            with m.If(~self.bank[bank]):
                m.d.sync += value.eq(0)
            sources.append(source.data)
            data.append(value)
        m.d.comb += [self.source.eq(select_one_hot(self.source_bank, sources)), self.data.eq(any_of(data))]
        return m
