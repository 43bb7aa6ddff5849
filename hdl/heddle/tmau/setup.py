"""Setup of tensor copies: checks descriptor and request and initialises the loops of the box [S1.4]."""

from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.reductions import lacks_reduction
from ..isa.error_codes import ErrorCode
from ..isa.tensor_descriptor import MAX_SPATIAL, SWIZZLE_BYTES, Interleave, TensorFormat, TensorMode
from ..lib.onehot import any_of, is_one_of, select_one_hot
from ..lib.product import PartialProduct
from ..parameters.tmau import TmauParameters
from .box_walk import FAR, LOOPS, place_bits
from .float_conversion import CONVERTED_FORMATS
from .layouts import BLOCK_BITS, box_layout, multicast_members, tensor_failure_layout, tensor_request_layout, violation_layout
from .row_geometry import BoxBytes, RowEdges, RowShape
from .rule_check import POSITION_BITS, DimensionChecks, ExtentCheck, RequestChecks

__all__ = ["TensorSetup"]

SPAN_BLOCKS = max(SWIZZLE_BYTES) >> BLOCK_BITS


def near(value):
    """A number of elements saturated to the range -FAR to FAR - 1."""
    bits = FAR.bit_length()
    negative, fits = value[-1], (value[bits - 1:] == 0) | value[bits - 1:].all()
    return Cat(Mux(fits, value[:bits - 1], (~negative).replicate(bits - 1)), negative).as_signed()


def at_most(value, limit):
    """A non-negative number saturated to ``limit``, a value of all ones."""
    bits = limit.bit_length()
    return value[:bits] | value[bits:].any().replicate(bits)


class _Step(NamedTuple):
    """Cycle of a request: the setup of one loop."""

    begin: Value    # first cycle
    here: Signal    # loop being set up, one-hot; after the last one the sums are completed
    loop: Signal    # its number
    go: Signal      # the cycle is not a wait for the preceding result
    last: Signal    # last cycle


class TensorSetup(Component):
    """Setup of tensor copies: checks every rule for a request and its descriptor and computes the box, one dimension per cycle [S1.4].

    The first broken rule, in the order of ``RULES`` and then of the dimensions, is reported at ``o_failure``. The request is then
    dropped and no data are moved. A legal prefetch of a box that shared memory cannot hold is dropped without an error.

    Parameters
    ----------
    cfg : TmauParameters
    reducible : collection of TensorFormat
        Formats that the L2 can reduce. A legal request with a reduction of another format is UNSUPPORTED.

    *Ports*:
    i : In(stream.Signature(tensor_request_layout()))
        Requests with their descriptor; ``payload`` must be stable until accepted.
    o : Out(stream.Signature(box_layout(cfg)))
        Checked boxes. Combinational from registers and ``stop``.
    o_failure : Out(stream.Signature(tensor_failure_layout()))
        First broken rule with its program counter; held until accepted or until ``stop``.
    stop : In(1)
        Drop requests without an error. Items at ``o`` and ``o_failure`` are withdrawn: a run that stops reports its first error only.
    dropped : Out(1)
        A request ends here in this cycle: it failed or was dropped.
    busy : Out(1)
        A result waits.

    *Latency*: rank cycles from ``i.valid`` to ``o.valid``, one more with interleave. ``o_failure`` is valid one cycle after ``o`` would
    be accepted.

    *Throughput*: one request per rank cycles (rank + 1 with interleave). The next request begins in the cycle in which the result is
    accepted.

    *Back-pressure*: only the first cycle of a request waits for the preceding result, so ``i.ready`` of a request of one cycle depends
    on ``o.ready``. A result that failed also waits for ``o.ready``, as the check is on the critical path.

    *Reset*: drops the request in progress and the result.

    *Errors*: all rules of ``RULES``; UNSUPPORTED for legal requests that the configuration lacks, with the value of the field.

    *Source*: [S1.4].
    """

    def __init__(self, cfg, reducible=tuple(TensorFormat)):
        cfg = TmauParameters.of(cfg)
        self.cfg, self.reducible = cfg, frozenset(reducible)
        super().__init__({
            "i": In(stream.Signature(tensor_request_layout())),
            "o": Out(stream.Signature(box_layout(cfg))),
            "o_failure": Out(stream.Signature(tensor_failure_layout())),
            "stop": In(1),
            "dropped": Out(1), "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        request = self._understood(m)
        descriptor = request.descriptor
        self._pixels, self._slices = pixels, slices = Signal(), Signal()
        self._spanned = Signal()
        step = Signal(LOOPS + 1, init=1)            # one-hot, as it selects all operands
        here = Signal(LOOPS)
        loop = Signal(range(LOOPS + 1))
        begin, last, go, finished, left, refused = Signal(), Signal(), Signal(), Signal(), Signal(), Signal()
        silent, over = Signal(reset_less=True), Signal()        # refused without an error; refused request leaves in this cycle
        m.d.comb += [
            pixels.eq(descriptor.mode == TensorMode.IM2COL if self.cfg.tensor_im2col else 0),
            slices.eq(descriptor.interleave != Interleave.NONE),
            here.eq(Mux(slices, step, step << 1)), loop.eq(any_of(Mux(bit, d, 0) for d, bit in enumerate(here))),
            begin.eq(step[0]),
            # Only the first cycle waits for the preceding result, which the registers hold until accepted.
            go.eq(self.i.valid & ~self.stop & (~begin | ~finished | left)),
            self.i.ready.eq(Mux(self.stop, ~finished & ~refused, go & last)),
        ]
        with m.If(self.stop | last):
            m.d.sync += step.eq(1)
        with m.Elif(go):
            m.d.sync += step.eq(step << 1)
        with m.If(go & last):
            m.d.sync += finished.eq(1)
        with m.Elif(left):
            m.d.sync += finished.eq(0)
        walk = self.o.payload.walk
        loops = Signal(walk.shape()["loop"].shape, reset_less=True)
        m.submodules.row = row = RowShape()
        m.d.comb += [row.descriptor.eq(descriptor), row.coordinate.eq(request.coordinates[0])]
        values = self._dimension(m, request, here)
        m.d.comb += last.eq(~values["exists"])
        cycle = _Step(begin, here, loop, go, last)
        inside = self._loops(m, loops, cycle, values)
        self._places(m, cycle, values, row)
        failed, ignored = self._checks(m, request, cycle, values, row)
        self._keep(m, request, row, go & last)
        m.d.comb += [
            walk.loop.eq(loops), walk.inside.eq(inside), self.o.payload.bytes.eq(self._moved(m) << BLOCK_BITS),
            *(out.place.eq(first) for out, first in zip(walk.loop, self._first_places, strict=True)),
            # A result leaves when ``o`` is ready, failed or not, as the verdict is late in the cycle; a failure waits in a register.
            left.eq(finished & ~refused & (self.stop | self.o.ready)),
            self.o.valid.eq(finished & ~refused & ~failed & ~ignored & ~self.stop),
            self.o_failure.valid.eq(refused & ~silent & ~self.stop),
            over.eq(self.o_failure.ready | silent),
            self.dropped.eq(Mux(self.stop, finished | refused | self.i.valid, refused & over)),
            self.busy.eq(finished | refused),
        ]
        failure = Signal(tensor_failure_layout(), reset_less=True)
        m.d.comb += self.o_failure.payload.eq(failure)
        with m.If(~refused):
            m.d.sync += [refused.eq(left & (failed | ignored) & ~self.stop), silent.eq(~failed), failure.pc.eq(self.o.payload.pc),
                         failure.violation.eq(self._first)]
        with m.Elif(self.stop | over):
            m.d.sync += refused.eq(0)
        return m

    def _understood(self, m):
        """The request as the configuration supports it: fields of absent features read as zero, which means unused."""
        request = Signal.like(self.i.payload, name="understood")
        m.d.comb += request.eq(self.i.payload)
        fields = {"tensor_interleave": "interleave", "tensor_strides": "element_stride_minus_one", "tensor_nan": "fill",
                  "copy_swizzles": "swizzle"}
        for name, field in fields.items():
            if not getattr(self.cfg, name):
                m.d.comb += Value.cast(request.descriptor[field]).eq(0)
        return request

    def _dimension(self, m, request, here):
        """Operands of the dimension of the loop ``here`` and values derived from them."""
        descriptor = request.descriptor
        rank = descriptor.rank_minus_one
        spatial = Signal()      # spatial dimension of an im2col tensor
        images = Signal()       # outermost dimension of an im2col tensor
        exists = Signal()       # operands of a dimension that does not exist are undefined
        at = list(here)
        of_pixels = at[1:1 + MAX_SPATIAL]       # corners and offset of a dimension that is not spatial are undefined
        at_spatial = Signal(MAX_SPATIAL)
        m.d.comb += [
            exists.eq(Cat(bit & (d <= rank) for d, bit in enumerate(at)).any()),
            images.eq(self._pixels & Cat(bit & (d == rank) for d, bit in enumerate(at)).any()),
            at_spatial.eq(Cat(bit & (d < rank) & self._pixels for d, bit in enumerate(of_pixels, 1))), spatial.eq(at_spatial.any()),
        ]
        low, high = descriptor.stride_low, descriptor.stride_high
        slice_blocks = Mux(descriptor.interleave == Interleave.B16, 1, 2)
        box_of_channels = Mux(self._pixels, descriptor.channels_per_pixel_minus_one, descriptor.box_minus_one[0])
        # With interleave dimension 0 has the first stride and dimension 1 the bytes of a slice.
        with_stride = [at[0] | (at[1] & ~self._slices), *at[2:]]
        fields = {
            "coordinate": select_one_hot(at, request.coordinates),
            "last": select_one_hot(at, descriptor.size_minus_one),
            "box_minus_one": select_one_hot(at, [box_of_channels, *list(descriptor.box_minus_one)[1:]]),
            "step_minus_one": select_one_hot([at[0] & ~self._pixels, *at[1:]], descriptor.element_stride_minus_one),
            "lower": select_one_hot(of_pixels, descriptor.lower_corner),
            "upper": select_one_hot(of_pixels, descriptor.upper_corner),
            "offset": select_one_hot(of_pixels, request.offsets),
            "stride": select_one_hot([*with_stride, at[1] & self._slices], [*low, slice_blocks]),
            "stride_high": select_one_hot(with_stride, high),
        }
        values = {"spatial": spatial, "images": images, "exists": exists}
        for name, value in fields.items():
            values[name] = Signal.like(value, name=f"dimension_{name}")
            m.d.comb += values[name].eq(value)
        def derived(name, value):
            values[name] = Signal(signed(min(len(value), POSITION_BITS + 1)), name=f"dimension_{name}")
            m.d.comb += values[name].eq(value)

        values |= {name: values[f"{name}_minus_one"] + 1 for name in ("box", "step")}
        derived("reach", values["last"] + values["upper"])          # last position of the pixel box
        derived("end", values["last"] + values["upper"] + 1)        # first position after it
        derived("position", values["coordinate"] + select_one_hot(at_spatial, request.offsets))
        derived("extent", values["end"] - values["lower"])
        derived("left", Mux(spatial, values["end"] - values["coordinate"], values["box"]))
        derived("back", Mux(spatial, values["lower"] - values["coordinate"], 0))        # from the first position to the restart position
        derived("restart", Mux(spatial, values["lower"] + values["offset"], values["position"]))
        # Distance to the last element of the tensor.
        derived("rest", values["last"] - values["position"])
        derived("restart_rest", Mux(spatial, values["last"] - (values["lower"] + values["offset"]), values["rest"]))
        return values

    def _loops(self, m, loops, cycle, values):
        """Registers of the loops; absent loops have one position. Returns whether the first row lies inside."""
        never, go = FAR - 1, cycle.go
        now = {
            **{name: near(values[name]) for name in ("position", "rest", "restart", "restart_rest")},
            "left": Mux(values["images"], never, at_most(values["left"], never)),
            "restart_left": Mux(values["images"], never, at_most(Mux(values["spatial"], values["extent"], values["box"]), never)),
            "step": values["step"],
            "step_blocks": values["stride"] * values["step"],
        }
        for name, value in now.items():
            kept = Signal(loops[0][name].shape(), name=f"loop_{name}")
            m.d.comb += kept.eq(value)
            for d, target in enumerate(loops):
                with m.If(go & ~cycle.last & cycle.here[d]):
                    m.d.sync += target[name].eq(kept)
                with m.Elif(go & cycle.begin):
                    m.d.sync += target[name].eq(name in ("left", "restart_left", "step"))
        inside = Signal(reset_less=True)
        with m.If(go):
            m.d.sync += inside.eq((cycle.last | ((values["position"] >= 0) & (values["rest"] >= 0))) & (cycle.begin | inside))
        return inside

    def _places(self, m, cycle, values, row):
        """Global block of the first row (address, row, and positions times strides), and of the first row after each restart."""
        bits = place_bits(self.cfg)
        m.submodules.start = start = PartialProduct(bits)
        m.submodules.back = back = PartialProduct(bits)
        total = Signal(bits, reset_less=True)
        arrived = Signal()             # the products of a loop are valid
        number = Signal.like(cycle.loop)    # loop of the products
        behind = Signal(data.ArrayLayout(bits, LOOPS), reset_less=True)     # distance from the first row to the restart, per loop
        m.d.comb += [
            start.a.eq(values["position"]), start.b.eq(values["stride"]),
            back.a.eq(values["back"]), back.b.eq(values["stride"]),
        ]
        m.d.sync += [arrived.eq(cycle.go & ~cycle.last), number.eq(cycle.loop)]
        with m.If(cycle.go & cycle.begin):
            m.d.sync += total.eq(self.i.payload.descriptor.address[BLOCK_BITS:] + row.first_block)
            m.d.sync += behind.eq(0)
        with m.Elif(arrived):
            m.d.sync += total.eq(total + start.o)
            for d in range(1, LOOPS):
                with m.If(number < d):
                    m.d.sync += behind[d].eq(behind[d] + back.o)
        self._first_places = [(total + behind[d])[:bits] for d in range(LOOPS)]

    def _checks(self, m, request, cycle, values, row):
        """Whether a rule is broken (``_first``), and whether a legal request has no effect."""
        begin, here, loop, go, last = cycle
        m.submodules.bytes = nbytes = BoxBytes(self.cfg)
        m.submodules.dimension_checks = dimensions = DimensionChecks()
        m.submodules.request_checks = requests = RequestChecks(self.cfg)
        dimension = dimensions.i
        m.d.comb += [
            nbytes.begin.eq(go & begin), nbytes.enable.eq(go & ~last), nbytes.pitch_bytes.eq(row.pitch_bytes),
            nbytes.box_minus_one.eq(values["box_minus_one"]), nbytes.step_minus_one.eq(values["step_minus_one"]),
            nbytes.pixels.eq(self._pixels & here[1]), nbytes.one.eq(self._pixels & here[2:].any()),
            nbytes.pixels_per_column.eq(request.descriptor.pixels_per_column_minus_one + 1),
            dimension.valid.eq(go), dimension.begin.eq(begin), dimension.number.eq(loop),
            dimension.odd_stride.eq(values["stride"][0] & values["exists"] & ~here[1] & (request.descriptor.interleave == Interleave.B32)),
            dimension.stride.eq(values["stride"] << BLOCK_BITS), dimension.store.eq(request.store),
            dimension.spatial_dimensions.eq(request.descriptor.rank_minus_one - 1),
            dimension.empty.eq(values["reach"] < values["lower"]), dimension.behind.eq(values["reach"] < values["coordinate"]),
        ]
        m.d.comb += [getattr(dimension, name).eq(values[name]) for name in (
            "exists", "spatial", "coordinate", "lower", "upper", "offset", "extent")]
        m.d.comb += [requests.request.eq(request), requests.request.descriptor.interleave.eq(self.i.payload.descriptor.interleave)]
        m.d.comb += [requests.row_bytes.eq(row.row_bytes), requests.pitch_bytes.eq(row.pitch_bytes), requests.room.eq(nbytes.bytes),
                     requests.unaligned.eq(row.unaligned), requests.keep.eq(go & last)]
        self._first = first = Signal(violation_layout)
        m.d.comb += first.eq(Mux(dimensions.o.code < requests.o.code, dimensions.o, requests.o))
        self._room = nbytes.bytes
        extent = self._extent(m, cycle, values, row)
        wanted, field = self._unsupported(request)
        unsupported, value = Signal(), Signal.like(field, reset_less=True)
        with m.If(go & last):
            m.d.sync += [unsupported.eq(wanted), value.eq(field)]
        with m.If(~dimensions.failed & ~requests.failed):
            m.d.comb += [first.code.eq(ErrorCode.UNSUPPORTED), first.dimension.eq(0), first.value.eq(value)]
            with m.If(extent.failed):
                m.d.comb += first.eq(extent.o)
        # A box larger than shared memory cannot be copied; its prefetch is ignored, as it would take a cycle for each of its rows.
        ignored = self.o.payload.prefetch & (nbytes.bytes > self.cfg.shared_bytes) if self.cfg.prefetches else Const(0)
        return dimensions.failed | requests.failed | extent.failed | unsupported, ignored

    def _moved(self, m):
        """Blocks that a box moves: all of its room in shared memory but what lies behind each row."""
        box, rows = self.o.payload, Signal.like(self._room, name="rows")
        room = self._room >> BLOCK_BITS
        m.d.comb += rows.eq(room >> box.swizzle)        # a span has as many blocks as two to the code of the swizzle
        return Mux(self._spanned, rows * box.row_blocks[:SPAN_BLOCKS.bit_length()], room)

    def _extent(self, m, cycle, values, row):
        """Extent check of the tensor."""
        bits, descriptor = place_bits(self.cfg), self.i.payload.descriptor
        m.submodules.extent = extent = ExtentCheck(bits)
        m.d.comb += [
            extent.begin.eq(cycle.go & cycle.begin), extent.address.eq(descriptor.address[BLOCK_BITS:][:bits]),
            extent.row_end.eq(row.last_block),
            extent.row_last.eq(descriptor.size_minus_one[0]), extent.enable.eq(cycle.go & ~cycle.last), extent.number.eq(cycle.loop),
            extent.last.eq(values["last"]), extent.stride.eq(Cat(values["stride"], values["stride_high"])),
        ]
        return extent

    def _unsupported(self, request):
        """Whether the request needs an absent feature, and the value of the offending field."""
        descriptor = self.i.payload.descriptor
        wanted = [lacks_reduction(request.reduction, request.descriptor.format, self.reducible)]
        values = [request.reduction]
        if not self.cfg.tensor_floats:
            wanted.append(~request.store & ~request.prefetch & is_one_of(descriptor.format, CONVERTED_FORMATS))
            values.append(descriptor.format)
        for name, field in (("copy_swizzles", descriptor.swizzle), ("tensor_nan", descriptor.fill)):
            if not getattr(self.cfg, name):
                wanted.append(Value.cast(field).any())
                values.append(field)
        if not self.cfg.tensor_strides:
            for d, step in enumerate(descriptor.element_stride_minus_one):
                wanted.append((d <= descriptor.rank_minus_one if d else self._slices) & step.any())
                values.append(step + 1)
        value = Const(0)
        for condition, field in reversed(list(zip(wanted, values, strict=True))):
            value = Mux(condition, Value.cast(field), value)
        return Cat(wanted).any(), value

    def _keep(self, m, request, row, keep):
        """Registers of the unchanged fields and of the row geometry; the next request is set up while the result waits."""
        box, descriptor = self.o.payload, request.descriptor
        m.submodules.edges = edges = RowEdges()
        m.d.comb += [
            box.row_blocks.eq(edges.row_bytes >> BLOCK_BITS),
            *(box[name].eq(getattr(edges, name)) for name in ("left_blocks", "inside_end", "missing_bytes")),
        ]
        names = ["store", "reduction", "barrier", "has_barrier", "pc", *["prefetch"] * self.cfg.prefetches, *multicast_members(self.cfg)]
        for target, value in (
                (box.walk.pixels, self._pixels), (box.walk.pixels_minus_one, descriptor.pixels_per_column_minus_one),
                *((getattr(edges, name), getattr(row, name)) for name in ("row_bytes", "start", "behind", "sliced")),
                (box.shared_block, request.shared_address >> BLOCK_BITS),
                (box.pitch_blocks, row.pitch_bytes >> BLOCK_BITS), (self._spanned, row.spanned),
                *((box[name], descriptor[name]) for name in ("swizzle", "format", "fill")),
                *((box[name], request[name]) for name in names)):
            kept = Signal.like(Value.cast(target), reset_less=True)
            m.d.comb += Value.cast(target).eq(kept)
            with m.If(keep):
                m.d.sync += kept.eq(Value.cast(value))
