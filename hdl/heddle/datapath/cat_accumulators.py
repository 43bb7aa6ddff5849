"""Accumulators of one CAT tap of a PE."""

from amaranth.hdl import Module, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from ..lib.onehot import any_of, select_one_hot
from ..parameters.matrix import DatapathParameters
from .layouts import TAP_ROW_BITS, tap_banks

__all__ = ["CatAccumulators"]


class CatAccumulators(Component):
    """Accumulators of a CAT tap: ``rnn_tap_registers`` registers of 32 bits in distributed RAM, updated in one cycle [S3.4].

    Register n is row n mod 16 of bank n div 16; banks are selected one-hot and joined by OR. Selections decoded once for all PEs are much
    smaller than multiplexers in each PE.

    Parameters
    ----------
    cfg : DatapathParameters

    *Ports*:
    source_row, source_bank : In(4), In(tap_banks(cfg))
        Register that is added to.
    source : Out(32)
        This register in the same cycle; zero without a bank.
    row, bank : In(4), In(tap_banks(cfg))
        Register that is read through the register port.
    data : Out(32)
        This register one cycle later; zero without a bank.
    product_row, product_bank : In(4), In(tap_banks(cfg))
        Register that is written; none without a bank.
    total : In(32)
        Its new value.

    *Latency*: ``source`` is combinational, ``data`` takes one cycle. A write is seen by reads of later cycles, so nothing is forwarded.

    *Throughput*: both reads, of independent registers, and a write in every cycle.

    *Reset*: none; registers hold their values.
    """

    def __init__(self, cfg):
        cfg = DatapathParameters.of(cfg)
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
