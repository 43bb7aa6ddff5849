"""Register slice: rules of streams, order, capacity, what ``clear`` takes."""

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Const, Cover, Module, Signal
from amaranth.lib.wiring import Component
from heddle.lib.register_slice import RegisterSlice, SliceMode

from .contract import tracked_item

__all__ = ["RegisterSliceSpec"]


class RegisterSliceSpec(Component):
    """A ``RegisterSlice``: what goes in comes out, in order, unchanged and not twice; ``clear`` takes all that is inside.

    ``FORWARD`` and ``FULL`` hold as many items as ``capacity`` says, and take one unless they are full (``FORWARD``: and keep it). With
    ``REVERSE`` every item that ``o`` transfers is transferred at ``i`` in the next cycle, and nothing else.
    """

    def __init__(self, mode, bits=2, clears=False):
        self._mode, self._bits, self._clears = mode, bits, clears
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = RegisterSlice(self._bits, self._mode, clears=self._clears)
        clear = dut.clear if self._clears else Const(0)
        if self._clears:
            m.d.comb += dut.clear.eq(AnySeq(1))
        m.d.comb += [dut.i.valid.eq(AnySeq(1)), dut.i.payload.eq(AnySeq(self._bits)), dut.o.ready.eq(AnySeq(1))]
        for name, port, make in (("i", dut.i, Assume), ("o", dut.o, Assert)):
            waits, before = Signal(name=f"{name}_waits"), Signal(self._bits, name=f"{name}_before", reset_less=True)
            m.d.sync += [waits.eq(port.valid & ~port.ready & ~clear), before.eq(port.payload)]
            with m.If(waits):
                m.d.comb += [make(port.valid & (port.payload == before)), Cover(port.ready)]
        enters, leaves = dut.i.valid & dut.i.ready, dut.o.valid & dut.o.ready
        if self._mode is SliceMode.REVERSE:
            taken, item = Signal(), Signal(self._bits, reset_less=True)
            m.d.sync += [taken.eq(leaves & ~clear), item.eq(dut.o.payload)]
            m.d.comb += [
                Assert(dut.i.ready == taken), Assert(~taken | (dut.i.valid & (dut.i.payload == item))),
                Assert(dut.o.valid == (dut.i.valid & ~taken)), Assert(~leaves | (dut.o.payload == dut.i.payload)),
            ]
            return m
        inside = tracked_item(m, enters, leaves, dut.i.payload, dut.o.payload, self._mode.capacity, clear=clear)
        is_open = inside != self._mode.capacity
        if self._mode is SliceMode.FORWARD:
            is_open = is_open | dut.o.ready
        m.d.comb += [Assert(dut.i.ready == is_open), Assert(dut.o.valid == (inside != 0))]
        return m
