"""Address generator of tensor copies: requests to pieces of at most a line [S1.1-S1.6]."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..interfaces.layouts import barrier_blocks_signature, read_data_layout, read_request_layout
from ..isa.tensor_descriptor import TensorFormat
from ..lib.stream import Queue, link
from .box_walk import BoxWalk
from .descriptor_cache import DescriptorCache
from .layouts import BLOCK_BITS, tensor_failure_layout, tensor_operation_layout
from .row_bursts import RowBursts, piece_layout, row_shape_layout
from .setup import TensorSetup

__all__ = ["RequestGenerator"]

BOXES_AHEAD = 2     # boxes between the begin of their walk and their last piece


class RequestGenerator(Component):
    """Descriptor cache, setup with all checks, walk through the box, pieces; in the order of the requests.

    The descriptor of the next request is looked up and fetched while setup works, and setup works while the box before is walked through.
    A piece a cycle, also from box to box, when boxes have at least ``rank`` pieces (one more with interleave). A request that breaks a rule
    leaves an error and nothing else. While ``stop`` is high requests and the rest of the boxes under way are dropped.

    Parameters
    ----------
    cfg : Config
    reducible
        As in ``TensorSetup``.

    Members
    -------
    i_operation : In(stream.Signature(tensor_operation_layout()))
    o : Out(stream.Signature(piece_layout(cfg)))
    o_failure : Out(stream.Signature(tensor_failure_layout()))
    read_request, read_data : as in GlobalPort(cfg, 1)
    invalidate : In(1), invalidate_address : In(32)
    stop : In(1)
    dropped : Out(2)
        Requests that ended without a last piece in this cycle: one in setup, one behind it.
    busy : Out(1)
    o_sized : Out(barrier_blocks_signature())
        A box of this core with a barrier begins, and how many blocks it has; a cycle later.
    event_miss : Out(1)
        A descriptor is fetched.
    """

    def __init__(self, cfg, reducible=tuple(TensorFormat)):
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
