"""Data memory of an L2 bank: one beat read and one beat written per cycle."""

from amaranth.hdl import Module
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from ..parameters.l2 import L2Parameters
from .layouts import L2Sizes

__all__ = ["L2Data"]


class L2Data(Component):
    """Data memory of an L2 bank: the beats of its lines, each with an error bit.

    A row is {place, beat}; it holds one beat of ``cfg.axi_data_bits`` bits. The error bit says that memory answered the beat with an
    error.

    Parameters
    ----------
    cfg : L2Parameters

    *Ports*:
    read_enable : In(1)
        Read row ``read_row``.
    read_row : In(place_bits + beat_bits)
        Row to read; in the same cycle no byte of that row may be written.
    read_data : Out(cfg.axi_data_bits)
        Beat of the last read.
    read_error : Out(1)
        Error bit of the last read.
    write_row : In(place_bits + beat_bits)
        Row to write.
    write_data : In(cfg.axi_data_bits)
        Beat to write.
    write_mask : In(cfg.axi_bytes)
        Byte enables; zero writes no byte.
    write_mark : In(1)
        Write ``write_error`` to the error bit of the row.
    write_error : In(1)
        Value of the error bit.

    *Latency*: 1 cycle from ``read_enable`` to ``read_data`` and ``read_error``, which then hold until the next ``read_enable``.

    *Throughput*: one read and one write per cycle.

    *Back-pressure*: none.

    *Reset*: contents have no reset.
    """

    def __init__(self, cfg):
        self.cfg = cfg = L2Parameters.of(cfg)
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
