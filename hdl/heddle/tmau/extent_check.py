"""Whether a tensor ends in global memory [S1.4]."""

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Component, In, Out

from ..isa.error_codes import ErrorCode
from ..lib.product import BoundedProduct
from .layouts import violation_layout

__all__ = ["LAST_BITS", "STRIDE_BITS", "ExtentCheck"]

LAST_BITS = 32          # of the last element of a dimension
STRIDE_BITS = 36        # of a stride in blocks: below 2 ** 40 bytes


class ExtentCheck(Component):
    """Adds up where the last element of a tensor lies, one dimension a cycle: TENSOR_EXTENT in the first one that leaves global memory.

    Coordinates inside the tensor and strides are not negative, so that no element lies behind the last one. All requests for elements
    inside the tensor are then in [address, 2 ** axi_address_bits), and sums modulo this size are exact.

    Latency: ``o`` and ``failed`` are registered, and right two clocks after the last dimension. Throughput: a dimension a cycle.

    Parameters
    ----------
    bits : int
        Of a global address in blocks of 16 bytes, ``place_bits(cfg)``.

    Members
    -------
    begin : In(1)
        Of a tensor, with the first dimension that has a stride.
    address : In(bits), row_end : In(LAST_BITS), row_last : In(LAST_BITS)
        With ``begin``: block of the tensor; last block of its first row, from there on; last element of that row.
    enable : In(1), number : In(3), last : In(LAST_BITS), stride : In(STRIDE_BITS)
        A dimension: its last element, and the blocks from one to the next.
    o : Out(violation_layout)
        The value is the last element of the dimension.
    failed : Out(1)
    """

    def __init__(self, bits):
        self._bits = bits
        super().__init__({
            "begin": In(1), "address": In(bits), "row_end": In(LAST_BITS), "row_last": In(LAST_BITS),
            "enable": In(1), "number": In(3), "last": In(LAST_BITS), "stride": In(STRIDE_BITS),
            "o": Out(violation_layout), "failed": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.product = product = BoundedProduct(self._bits, LAST_BITS, STRIDE_BITS)
        total = Signal(self._bits, reset_less=True)
        row, further = Signal(LAST_BITS + 1), Signal(self._bits + 1)
        came, number, last = Signal(), Signal.like(self.number), Signal.like(self.last, reset_less=True)
        m.d.comb += [
            product.a.eq(self.last), product.b.eq(self.stride), row.eq(self.address + self.row_end), further.eq(total + product.o),
            self.o.code.eq(ErrorCode.TENSOR_EXTENT),
        ]
        m.d.sync += [came.eq(self.enable), number.eq(self.number), last.eq(self.last)]
        with m.If(self.begin):
            m.d.sync += [total.eq(row), self.failed.eq(row[self._bits:].any()), self.o.dimension.eq(0), self.o.value.eq(self.row_last)]
        with m.Elif(came & ~self.failed):
            m.d.sync += [total.eq(further), self.failed.eq(product.over | further[-1]), self.o.dimension.eq(number), self.o.value.eq(last)]
        return m
