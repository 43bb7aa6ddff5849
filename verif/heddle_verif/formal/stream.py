"""Queue: rules of streams, order, capacity, level."""

from unittest import mock

from amaranth.hdl import Assert, Module
from amaranth.lib.wiring import Component
from heddle.lib import stream

from .contract import any_sink, any_stream, tracked_item

__all__ = ["StreamSpec"]


class _Queue(stream.Queue):
    """A queue whose read is synchronous from another number of rows on."""

    def __init__(self, shape, depth, distributed_rows, registered):
        self._distributed_rows = distributed_rows
        super().__init__(shape, depth, registered)

    def elaborate(self, platform):
        with mock.patch.object(stream, "DISTRIBUTED_ROWS", self._distributed_rows):
            return super().elaborate(platform)


class StreamSpec(Component):
    """A ``Queue``: what goes in comes out, in order, unchanged and not twice.

    Also: capacity and ``level`` are what the page says; a queue takes an item unless it is full.
    """

    def __init__(self, depth, bits=2, distributed_rows=stream.DISTRIBUTED_ROWS, registered=True):
        self._depth, self._bits, self._distributed_rows, self._registered = depth, bits, distributed_rows, registered
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = _Queue(self._bits, self._depth, self._distributed_rows, self._registered)
        any_stream(m, dut.i, "i")
        any_sink(m, dut.o, "o")
        inside = tracked_item(m, dut.i.valid & dut.i.ready, dut.o.valid & dut.o.ready, dut.i.payload, dut.o.payload, self._depth)
        m.d.comb += [Assert(dut.level == inside), Assert(dut.i.ready == (inside != self._depth))]
        return m
