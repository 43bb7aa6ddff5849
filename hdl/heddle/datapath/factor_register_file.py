"""The factor registers of one lane."""

from amaranth.hdl import Module, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

__all__ = ["FactorRegisterFile"]


class FactorRegisterFile(Component):
    """``factor_words`` words of ``dot`` bytes behind two ports; port A reads, port B reads or writes.

    Port A: ``data_a`` is word ``address_a`` one cycle later. Port B: ``data_b`` is word ``address_b`` one cycle after a
    cycle with ``read_b``, and ``write_b`` writes the 32-bit parts it marks; a cycle with both gives no defined
    ``data_b``. Port A reading a word in the cycle that writes it gives no defined value. Both ports work every cycle.
    Registers keep their values over a reset.

    It is one true-dual-port memory per 32-bit part (port B has one address), never a copy.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    address_a, address_b : In(factor_address_bits)
    data_a, data_b : Out(32).array(dot / 4)
    read_b : In(1)
    write_b : In(dot / 4)
    write_data : In(32).array(dot / 4)
    """

    def __init__(self, cfg):
        self.cfg = cfg
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
            # Combinational reads into registers: see ProductFile.
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
