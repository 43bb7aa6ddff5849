"""The contents of a bank of the second-level cache: a beat read and a beat written a cycle."""

from amaranth.hdl import Module
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from .layouts import L2Sizes

__all__ = ["L2Data"]


class L2Data(Component):
    """Beats of the lines, each with a bit that says that memory answered it with an error.

    ``read_row`` is read while ``read_enable`` is high; ``read_data`` and ``read_error`` hold it from the next cycle until
    ``read_enable`` is high again. The row that is read must not be written in the same cycle. Contents have no reset.

    Members
    -------
    read_enable : In(1), read_row : In(row), read_data : Out(cfg.axi_data_bits), read_error : Out(1)
    write_row : In(row), write_data : In(cfg.axi_data_bits), write_mask : In(cfg.axi_bytes)
        Row = {place, beat}; the mask enables the bytes.
    write_mark : In(1), write_error : In(1)
        Write the error bit.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        row = L2Sizes(cfg).place_bits + L2Sizes(cfg).beat_bits
        super().__init__({
            "read_enable": In(1), "read_row": In(row), "read_data": Out(cfg.axi_data_bits), "read_error": Out(1),
            "write_row": In(row), "write_data": In(cfg.axi_data_bits), "write_mask": In(cfg.axi_bytes),
            "write_mark": In(1), "write_error": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        rows = 1 << len(self.read_row)
        for name, shape, granularity, enable, value, result in (
                ("beats", self.cfg.axi_data_bits, 8, self.write_mask, self.write_data, self.read_data),
                ("errors", 1, None, self.write_mark, self.write_error, self.read_error)):
            m.submodules[name] = memory = Memory(shape=shape, depth=rows, init=[], attrs={"no_rw_check": 1})
            write, read = memory.write_port(granularity=granularity), memory.read_port()
            m.d.comb += [read.en.eq(self.read_enable), read.addr.eq(self.read_row), result.eq(read.data),
                         write.addr.eq(self.write_row), write.en.eq(enable), write.data.eq(value)]
        return m
