"""Factor register file of one PE."""

from amaranth.hdl import Module, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from ..parameters.matrix import DatapathParameters

__all__ = ["FactorRegisterFile"]


class FactorRegisterFile(Component):
    """Factor register file of a PE: ``factor_words`` words of ``dot`` bytes, with a read port A and a read-or-write port B.

    There is one true-dual-port memory for each 32-bit part; both accesses of port B share an address, so that no copy is needed.

    Parameters
    ----------
    cfg : DatapathParameters

    *Ports*:
    address_a : In(factor_address_bits)
        Word that port A reads.
    data_a : Out(32).array(dot / 4)
        Word that port A read in the cycle before.
    address_b : In(factor_address_bits)
        Word of port B.
    read_b : In(1)
        Port B reads.
    data_b : Out(32).array(dot / 4)
        Word of the last ``read_b``, from the next cycle on.
    write_b : In(dot / 4)
        32-bit parts that port B writes.
    write_data : In(32).array(dot / 4)
        Their new values.

    *Latency*: one cycle for a read. Undefined are ``data_b`` after a cycle with ``read_b`` and ``write_b``, and ``data_a`` of a word that
    is written in the cycle of the read.

    *Throughput*: both ports in every cycle.

    *Reset*: none; registers hold their values.
    """

    def __init__(self, cfg):
        self.cfg = cfg = DatapathParameters.of(cfg)
        parts = cfg.numbers_per_word
        super().__init__({
            "address_a": In(cfg.factor_address_bits),
            "data_a": Out(32).array(parts),
            "address_b": In(cfg.factor_address_bits),
            "data_b": Out(32).array(parts),
            "read_b": In(1),
            "write_b": In(parts),
            "write_data": In(32).array(parts),
        })

    def elaborate(self, platform):
        m = Module()
        for part in range(self.cfg.numbers_per_word):
            # Combinational reads into registers, which Yosys merges: see ProductRegisterFile.
            m.submodules[f"part_{part}"] = memory = Memory(
                shape=32, depth=self.cfg.factor_words, init=[], attrs={"ram_style": "block", "no_rw_check": 1})
            read_a = memory.read_port(domain="comb")
            read_b = memory.read_port(domain="comb")
            write_b = memory.write_port()
            output_a = Signal(32, name=f"output_a_{part}", reset_less=True)
            output_b = Signal(32, name=f"output_b_{part}", reset_less=True)
            m.d.sync += output_a.eq(read_a.data)
            with m.If(self.read_b):
                m.d.sync += output_b.eq(read_b.data)
            m.d.comb += [
                read_a.addr.eq(self.address_a),
                self.data_a[part].eq(output_a),
                read_b.addr.eq(self.address_b),
                self.data_b[part].eq(output_b),
                write_b.addr.eq(self.address_b),
                write_b.data.eq(self.write_data[part]),
                write_b.en.eq(self.write_b[part]),
            ]
        return m
