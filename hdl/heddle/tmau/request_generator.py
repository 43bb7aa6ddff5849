"""Request generator of tensor copies: requests to burst chunks of at most one line [S1.1-S1.6]."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..interfaces.layouts import barrier_blocks_signature, read_data_layout, read_request_layout
from ..interfaces.tensor_operation import tensor_operation_layout
from ..isa.tensor_descriptor import TensorFormat
from ..lib.stream import Queue, link
from ..parameters.tmau import TmauParameters
from .box_walk import BoxWalk
from .descriptor_cache import DescriptorCache
from .layouts import BLOCK_BITS, tensor_failure_layout
from .row_bursts import RowBursts, piece_layout, row_shape_layout
from .setup import TensorSetup

__all__ = ["RequestGenerator"]

BOXES_AHEAD = 2     # boxes between their first row and their last burst chunk


class RequestGenerator(Component):
    """Request generator of tensor copies: splits each checked box into burst chunks of at most one line of 128 bytes, in order
    [S1.1-S1.6].

    Stages: descriptor cache, setup with all checks, row address generator, row splitter. The next request is looked up and fetched
    while setup works; setup works while the preceding box is generated. A request that breaks a rule is dropped with an error and has
    no chunk.

    Parameters
    ----------
    cfg : TmauParameters
    reducible : collection of TensorFormat
        Formats that the L2 can reduce.

    *Ports*:
    i_operation : In(stream.Signature(tensor_operation_layout()))
        Tensor copies.
    o : Out(stream.Signature(piece_layout(cfg)))
        Burst chunks. Registered.
    o_failure : Out(stream.Signature(tensor_failure_layout()))
        First broken rule of a request; held until accepted or until ``stop``, which withdraws it.
    read_request : Out(stream.Signature(read_request_layout(cfg, 1)))
        Read requests of descriptors.
    read_data : In(stream.Signature(read_data_layout(cfg, 1)))
        Read data of descriptors.
    invalidate : In(1)
        Invalidate the descriptor at ``invalidate_address``.
    invalidate_address : In(32)
        Byte address of a descriptor.
    stop : In(1)
        Drop waiting requests and the rest of the boxes in progress.
    dropped : Out(2)
        Requests that end without a last chunk in this cycle: in setup (bit 0), after setup (bit 1).
    busy : Out(1)
        A request is in flight.
    o_sized : Out(barrier_blocks_signature())
        1 cycle after a box of this core with a barrier begins: its size in blocks of 16 bytes.
    event_miss : Out(1)
        A descriptor fetch begins.

    *Latency*: rank + 3 cycles from ``i_operation`` to the first chunk when the descriptor hits and all stages are idle; one more with
    interleave.

    *Throughput*: one chunk per cycle, also across boxes of at least rank chunks (rank + 1 with interleave).

    *Back-pressure*: ``i_operation.ready`` depends combinationally on its address and on the progress of setup. ``o.ready`` reaches the
    row splitter only.

    *Reset*: drops all requests; memory must be reset in the same cycle.

    *Errors*: as ``TensorSetup``.

    *Source*: [S1.1-S1.6], docs/units/tmau.md.
    """

    def __init__(self, cfg, reducible=tuple(TensorFormat)):
        cfg = TmauParameters.of(cfg)
        self.cfg, self.reducible = cfg, reducible
        super().__init__({
            "i_operation": In(stream.Signature(tensor_operation_layout())),
            "o": Out(stream.Signature(piece_layout(cfg))),
            "o_failure": Out(stream.Signature(tensor_failure_layout())),
            "read_request": Out(stream.Signature(read_request_layout(cfg, 1))),
            "read_data": In(stream.Signature(read_data_layout(cfg, 1))),
            "invalidate": In(1), "invalidate_address": In(32), "stop": In(1), "o_sized": Out(barrier_blocks_signature()),
            "dropped": Out(2), "busy": Out(1), "event_miss": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        request = tensor_operation_layout()["request"].shape
        m.submodules.cache = cache = DescriptorCache(self.cfg, request)
        m.submodules.setup = setup = TensorSetup(self.cfg, self.reducible)
        m.submodules.walk = walk = BoxWalk(self.cfg)
        m.submodules.shapes = shapes = Queue(row_shape_layout(self.cfg), BOXES_AHEAD)
        m.submodules.bursts = bursts = RowBursts(self.cfg)
        connect(m, cache.read_request, flipped(self.read_request))
        connect(m, flipped(self.read_data), cache.read_data)
        link(m, self.i_operation, cache.i)
        link(m, shapes.o, bursts.i_shape)
        link(m, walk.o, bursts.i_row)
        link(m, bursts.o, self.o)
        link(m, setup.o_failure, self.o_failure)
        found, box = cache.o.payload, setup.o
        both = Signal()
        m.d.comb += [
            cache.invalidate.eq(self.invalidate), cache.invalidate_address.eq(self.invalidate_address),
            self.event_miss.eq(cache.event_miss),
            setup.i.valid.eq(cache.o.valid), cache.o.ready.eq(setup.i.ready),
            setup.i.payload.descriptor.eq(found.descriptor), setup.i.payload.descriptor_address.eq(found.address),
            setup.i.payload.descriptor_error.eq(found.error),
            *(setup.i.payload[name].eq(found.request[name]) for name, _ in request),
            both.eq(walk.i.ready & shapes.i.ready),
            walk.i.valid.eq(box.valid & shapes.i.ready), walk.i.payload.eq(box.payload.walk),
            shapes.i.valid.eq(box.valid & walk.i.ready), box.ready.eq(both),
            *(shapes.i.payload[name].eq(box.payload[name]) for name, _ in row_shape_layout(self.cfg)),
        ]
        m.d.comb += [setup.stop.eq(self.stop), walk.stop.eq(self.stop), bursts.stop.eq(self.stop)]
        m.d.sync += [
            self.o_sized.valid.eq(box.valid & both & box.payload.has_barrier & ~(box.payload.mask.any() if self.cfg.multicast else 0)),
            self.o_sized.barrier.eq(box.payload.barrier), self.o_sized.blocks.eq(box.payload.bytes >> BLOCK_BITS),
        ]
        m.d.comb += self.dropped.eq(Cat(setup.dropped, shapes.o.valid & self.stop))
        m.d.comb += self.busy.eq(cache.busy | setup.i.valid | setup.busy | walk.o.valid | (shapes.level != 0) | self.o.valid
                                 | self.o_failure.valid)
        return m
