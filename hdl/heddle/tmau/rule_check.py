"""Rule checks of tensor copies: the first rule of ``RULES`` that a request or its descriptor breaks [S1.4]."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import Component, In, Out, Signature

from ..interfaces.reductions import undefined_reduction
from ..isa.encoding import Swizzle
from ..isa.error_codes import ErrorCode
from ..isa.tensor_descriptor import (
    FLOAT_FORMATS,
    MAX_RANK,
    Fill,
    Interleave,
    TensorFormat,
    TensorMode,
    no_descriptor,
)
from ..isa.tensor_rules import COORDINATE_OFFSET_BITS, CORNER_LIMITS, SHARED_ALIGNMENT
from ..lib.onehot import any_of, is_one_of
from ..lib.product import BoundedProduct
from ..parameters.tmau import TmauParameters
from .layouts import NO_VIOLATION, tensor_request_layout, violation_layout
from .row_geometry import ROW_BITS

__all__ = ["LAST_BITS", "POSITION_BITS", "STRIDE_BITS", "DimensionChecks", "DimensionPort", "ExtentCheck", "RequestChecks"]

POSITION_BITS = 34              # 32-bit coordinates plus offset and one step
LAST_BITS = 32          # bits of the last element of a dimension
STRIDE_BITS = 36        # bits of a stride in blocks of 16 bytes, below 2 ** 40 bytes


def DimensionPort():
    """Dimension of a request and of its tensor, as the rules need it, seen from the setup.

    *Ports*:
    valid : Out(1)
        There is a dimension in this cycle.
    begin : Out(1)
        It is the first dimension of the request.
    number : Out(3)
        Its number; 0 is the innermost.
    exists, spatial : Out(1)
        The tensor has the dimension; it is a spatial dimension of an im2col tensor.
    spatial_dimensions : Out(3)
        Number of spatial dimensions.
    store : Out(1)
        The request is a store.
    odd_stride : Out(1)
        The stride must be a multiple of 32 bytes and is not.
    stride : Out(32)
        Low 32 bits of the stride in bytes.
    coordinate, offset : Out(signed(32)), Out(16)
        Coordinate and offset of the request.
    lower, upper : Out(signed(16))
        Corners of the pixel box.
    extent : Out(signed(POSITION_BITS + 1))
        Elements of the pixel box.
    empty, behind : Out(1)
        The pixel box has no elements; the coordinate lies behind its last one.
    """
    # Not one payload: fields are computed from each other, and Verilator takes a vector as one signal.
    return Signature({
        "valid": Out(1), "begin": Out(1), "number": Out(3), "exists": Out(1), "spatial": Out(1), "spatial_dimensions": Out(3),
        "store": Out(1), "odd_stride": Out(1), "stride": Out(32), "coordinate": Out(signed(32)), "offset": Out(16),
        "lower": Out(signed(16)), "upper": Out(signed(16)), "extent": Out(signed(POSITION_BITS + 1)),
        "empty": Out(1), "behind": Out(1),
    })


def _first(m, violation, dimension, rules):
    """Drive ``violation`` with the first broken rule of ``rules``: (error, broken, value), in the order of the table."""
    m.d.comb += [violation.code.eq(NO_VIOLATION), violation.dimension.eq(dimension)]
    for error, broken, value in reversed(rules):
        with m.If(broken):
            m.d.comb += [violation.code.eq(error.value), violation.value.eq(Value.cast(value))]


class DimensionChecks(Component):
    """Rule checks of dimensions 1 and up (with interleave also 0), one dimension per cycle [S1.4].

    Result: the first rule in the order of the table that any dimension so far breaks, for its lowest dimension.

    *Ports*:
    i : In(DimensionPort())
        Dimensions of a request, lowest first.
    o : Out(violation_layout)
        First broken rule. Registered.
    failed : Out(1)
        A rule is broken.

    *Latency*: 1 cycle from ``i`` to ``o`` and ``failed``.

    *Throughput*: one dimension per cycle.

    *Reset*: ``o`` is all zeros; the result is valid after the first dimension with ``begin``.

    *Source*: [S1.4].
    """

    def __init__(self):
        super().__init__({
            "i": In(DimensionPort()), "o": Out(violation_layout), "failed": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        i = self.i
        wrong = {name: Signal(name=f"wrong_{name}") for name in ("lower", "upper", "offset")}
        with m.Switch(i.spatial_dimensions):
            for count, (low, high) in CORNER_LIMITS.items():
                with m.Case(count):
                    m.d.comb += [wrong[name].eq((corner < low) | (corner > high))
                                 for name, corner in (("lower", i.lower), ("upper", i.upper))]
                    m.d.comb += wrong["offset"].eq(i.offset[COORDINATE_OFFSET_BITS[count]:].any())
        violation = Signal(violation_layout)
        rules = [
            (ErrorCode.TENSOR_STRIDE_ALIGNMENT, i.odd_stride, i.stride),
            (ErrorCode.TENSOR_LOWER_CORNER, i.spatial & wrong["lower"], i.lower),
            (ErrorCode.TENSOR_UPPER_CORNER, i.spatial & wrong["upper"], i.upper),
            (ErrorCode.TENSOR_PIXEL_BOX, i.spatial & i.empty, i.extent),
            (ErrorCode.TENSOR_COORDINATE_NEGATIVE, i.exists & i.store & (i.coordinate < 0), i.coordinate),
            (ErrorCode.TENSOR_COORDINATE_BOX, i.spatial & ((i.coordinate < i.lower) | i.behind), i.coordinate),
            (ErrorCode.TENSOR_OFFSET, i.spatial & (wrong["offset"] | (i.store & i.offset.any())), i.offset),
            (ErrorCode.TENSOR_STORE_CORNER, i.spatial & i.store & ((i.lower < 0) | (i.upper > 0)),
             Mux(i.lower < 0, i.lower, i.upper)),
        ]
        _first(m, violation, i.number, rules)
        # ``code`` of the result is compared with each rule, not with the first broken one, which is late in the cycle.
        earlier = any_of(broken & (self.o.code > error.value) for error, broken, _ in rules)
        with m.If(i.valid & (i.begin | earlier)):
            m.d.sync += self.o.eq(violation)
        m.d.comb += self.failed.eq(self.o.code != NO_VIOLATION)
        return m


class RequestChecks(Component):
    """Rule checks of a request as a whole and of dimension 0 [S1.4].

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    request : In(tensor_request_layout())
        Request with its descriptor.
    row_bytes, pitch_bytes : In(ROW_BITS)
        Bytes of a row, and from row to row; a longer row does not fit the span of its swizzle.
    room : In(cfg.shared_address_bits + 1)
        Bytes of the box in shared memory, of the registered request; a value above the size of shared memory represents every larger one.
    unaligned : In(1)
        Rows do not begin at multiples of 16 bytes.
    keep : In(1)
        Register the result of ``request``.
    o : Out(violation_layout)
        First broken rule of the registered request. Combinational from ``room``.
    failed : Out(1)
        A rule is broken.

    *Latency*: 1 cycle from ``keep`` to ``o``; 0 cycles from ``room`` to ``o`` and ``failed``.

    *Throughput*: one request per cycle.

    *Reset*: none.

    *Source*: [S1.4].
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
        super().__init__({
            "request": In(tensor_request_layout()), "row_bytes": In(ROW_BITS), "pitch_bytes": In(ROW_BITS),
            "room": In(cfg.shared_address_bits + 1), "unaligned": In(1), "keep": In(1), "o": Out(violation_layout), "failed": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        request, descriptor = self.request, self.request.descriptor
        modes = TensorMode if self.cfg.tensor_im2col else (TensorMode.TILE,)
        interleaves = Interleave if self.cfg.tensor_interleave else (Interleave.NONE,)
        tile = descriptor.mode == TensorMode.TILE
        rank = Signal(4)
        m.d.comb += rank.eq(descriptor.rank_minus_one + 1)
        sliced, wide_slices = descriptor.interleave != Interleave.NONE, descriptor.interleave == Interleave.B32
        uneven = self.row_bytes[:4].any()
        wide = self.row_bytes > self.pitch_bytes
        coordinate = request.coordinates[0]
        rules = [
            (ErrorCode.AXI_READ, request.descriptor_error, request.descriptor_address),
            (ErrorCode.TENSOR_DESCRIPTOR_ADDRESS, no_descriptor(self.cfg, request.descriptor_address), request.descriptor_address),
            (ErrorCode.TENSOR_MODE, ~is_one_of(descriptor.mode, modes), descriptor.mode),
            (ErrorCode.TENSOR_RANK, (rank > MAX_RANK) | ((~tile | sliced) & (rank < 3)), rank),
            (ErrorCode.TENSOR_FORMAT, ~is_one_of(descriptor.format, TensorFormat), descriptor.format),
            (ErrorCode.TENSOR_INTERLEAVE, ~is_one_of(descriptor.interleave, interleaves), descriptor.interleave),
            (ErrorCode.TENSOR_SWIZZLE, wide_slices & (descriptor.swizzle != Swizzle.B32.value), descriptor.swizzle),
            (ErrorCode.TENSOR_FILL, (descriptor.fill == Fill.NAN) & ~is_one_of(descriptor.format, FLOAT_FORMATS), descriptor.fill),
            (ErrorCode.TENSOR_ADDRESS, self._outside(descriptor.address, 16) | (descriptor.address[4] & wide_slices), descriptor.address),
            (ErrorCode.TENSOR_BOX_ROW, tile & uneven, self.row_bytes),
            (ErrorCode.TENSOR_BOX_SPAN, tile & wide, self.row_bytes),
            (ErrorCode.TENSOR_CHANNEL_ROW, uneven, self.row_bytes),
            (ErrorCode.TENSOR_CHANNEL_SPAN, wide, self.row_bytes),
            (ErrorCode.TENSOR_REQUEST_MODE, descriptor.mode != request.mode, request.mode),
            (ErrorCode.TENSOR_REQUEST_RANK, descriptor.rank_minus_one != request.rank_minus_one, request.rank_minus_one + 1),
            (ErrorCode.TENSOR_COORDINATE_ALIGNMENT, self.unaligned, coordinate),
            (ErrorCode.TENSOR_COORDINATE_NEGATIVE, request.store & (coordinate < 0), coordinate),
            (ErrorCode.TENSOR_REDUCTION, undefined_reduction(m, request.reduction, descriptor.format), request.reduction),
            (ErrorCode.TENSOR_SHARED_ADDRESS, ~request.prefetch & request.shared_address[:SHARED_ALIGNMENT.bit_length() - 1].any(),
             request.shared_address),
        ]
        # Every rule has a register; the first broken one is found behind them.
        broken = Signal(len(rules), reset_less=True)
        values = [Signal.like(Value.cast(value), name=f"value_{number}", reset_less=True) for number, (_, _, value) in enumerate(rules)]
        address, moves, far = Signal.like(request.shared_address, reset_less=True), Signal(reset_less=True), Signal(reset_less=True)
        room_bits = self.cfg.shared_address_bits
        with m.If(self.keep):
            m.d.sync += [broken.eq(Cat(Value.cast(condition).any() for _, condition, _ in rules)),
                         *(register.eq(Value.cast(value)) for register, (_, _, value) in zip(values, rules, strict=True)),
                         address.eq(request.shared_address), moves.eq(~request.prefetch),
                         far.eq(request.shared_address[room_bits:].any())]
        no_room = Signal()
        last = Signal(room_bits + 2)        # last byte of the box; a box has at least one
        m.d.comb += [last.eq(address[:room_bits] + self.room - 1), no_room.eq(moves & (far | last[room_bits:].any())),
                     self.failed.eq(broken.any() | no_room)]
        _first(m, self.o, 0, [
            *((code, bit, value) for (code, _, _), bit, value in zip(rules, broken, values, strict=True)),
            (ErrorCode.TENSOR_SHARED_RANGE, no_room, address),      # needs ``room``, the last result
        ])
        return m

    def _outside(self, address, alignment):
        """``address`` is no multiple of ``alignment`` or lies outside global memory."""
        return address[:alignment.bit_length() - 1].any() | address[self.cfg.axi_address_bits:].any()


class ExtentCheck(Component):
    """Extent check: address of the last element of a tensor, one dimension per cycle; TENSOR_EXTENT if a dimension leaves global
    memory.

    Coordinates inside the tensor and strides are not negative, so no element lies after the last one. Requests for elements inside the
    tensor therefore lie in [address, 2 ** axi_address_bits), and sums modulo this size are exact.

    Parameters
    ----------
    bits : int
        Bits of a global address in blocks of 16 bytes, ``place_bits(cfg)``.

    *Ports*:
    begin : In(1)
        First cycle of a tensor, together with the first dimension that has a stride.
    address : In(bits)
        With ``begin``: first block of the tensor.
    row_end : In(LAST_BITS)
        With ``begin``: last block of the first row, relative to ``address``.
    row_last : In(LAST_BITS)
        With ``begin``: last element of the first row.
    enable : In(1)
        A dimension is present in this cycle.
    number : In(3)
        Number of the dimension.
    last : In(LAST_BITS)
        Last element of the dimension.
    stride : In(STRIDE_BITS)
        Stride of the dimension in blocks of 16 bytes.
    o : Out(violation_layout)
        TENSOR_EXTENT with the dimension and its last element. Registered.
    failed : Out(1)
        A dimension leaves global memory. Registered.

    *Latency*: 2 cycles from the last ``enable`` to ``o`` and ``failed``.

    *Throughput*: one dimension per cycle.

    *Reset*: ``failed`` is low.

    *Source*: [S1.4], docs/units/tmau.md.
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
        arrived, number, last = Signal(), Signal.like(self.number), Signal.like(self.last, reset_less=True)
        m.d.comb += [
            product.a.eq(self.last), product.b.eq(self.stride), row.eq(self.address + self.row_end), further.eq(total + product.o),
            self.o.code.eq(ErrorCode.TENSOR_EXTENT),
        ]
        m.d.sync += [arrived.eq(self.enable), number.eq(self.number), last.eq(self.last)]
        with m.If(self.begin):
            m.d.sync += [total.eq(row), self.failed.eq(row[self._bits:].any()), self.o.dimension.eq(0), self.o.value.eq(self.row_last)]
        with m.Elif(arrived & ~self.failed):
            m.d.sync += [total.eq(further), self.failed.eq(product.over | further[-1]), self.o.dimension.eq(number), self.o.value.eq(last)]
        return m
