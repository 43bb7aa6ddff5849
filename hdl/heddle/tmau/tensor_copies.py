"""Tensor copies: request generator with bursts and errors for the engines."""

from amaranth.hdl import Module
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..interfaces.layouts import barrier_blocks_signature, error_layout, read_data_layout, read_request_layout
from ..interfaces.reductions import reducible_formats
from ..interfaces.tensor_operation import tensor_operation_layout
from ..lib.members import connect_members
from ..lib.stream import link
from ..parameters.tmau import TmauParameters
from .chunk_bursts import ChunkBursts
from .descriptor_read_port import DESCRIPTOR_TAG_BITS
from .layouts import burst_layout
from .request_generator import RequestGenerator

__all__ = ["TensorCopies"]


class TensorCopies(Component):
    """Tensor copies: request generator whose burst chunks and failures are converted to bursts and errors.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i_operation : In(stream.Signature(tensor_operation_layout()))
        Tensor copies.
    o_load : Out(stream.Signature(burst_layout(cfg)))
        Bursts of loads and prefetches.
    o_store : Out(stream.Signature(burst_layout(cfg)))
        Bursts of stores.
    o_failure : Out(stream.Signature(error_layout))
        Code of the first broken rule, its dimension and the low 32 bits of the value; held until accepted.
    read_request : Out(stream.Signature(read_request_layout(cfg, DESCRIPTOR_TAG_BITS)))
        Read requests of descriptors.
    read_data : In(stream.Signature(read_data_layout(cfg, DESCRIPTOR_TAG_BITS)))
        Read data of descriptors.
    invalidate : In(1)
        Invalidate the descriptor at ``invalidate_address``.
    invalidate_address : In(32)
        Byte address of a descriptor.
    stop : In(1)
        Drop waiting requests and the rest of the boxes in progress.
    o_sized : Out(barrier_blocks_signature())
        1 cycle after a box of this core with a barrier begins: its size in blocks of 16 bytes.
    dropped : Out(2)
        Requests that end without a last burst in this cycle: in setup (bit 0), after setup (bit 1).
    busy : Out(1)
        A request is in flight.

    *Latency*: rank + 3 cycles from ``i_operation`` to the first burst on a descriptor hit, one more with interleave.

    *Throughput*: one burst per cycle.

    *Back-pressure*: as ``RequestGenerator``; a load that waits holds later stores, and the reverse.

    *Reset*: drops all requests.

    *Errors*: rules of ``RULES``. Reductions are UNSUPPORTED without ``cfg.reductions``, of floats without ``cfg.reduction_floats``.
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
        super().__init__({
            "i_operation": In(stream.Signature(tensor_operation_layout())),
            "o_load": Out(stream.Signature(burst_layout(cfg))),
            "o_store": Out(stream.Signature(burst_layout(cfg))),
            "o_failure": Out(stream.Signature(error_layout)),
            "read_request": Out(stream.Signature(read_request_layout(cfg, DESCRIPTOR_TAG_BITS))),
            "read_data": In(stream.Signature(read_data_layout(cfg, DESCRIPTOR_TAG_BITS))),
            "invalidate": In(1), "invalidate_address": In(32), "stop": In(1), "dropped": Out(2), "busy": Out(1),
            "o_sized": Out(barrier_blocks_signature()),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.generator = generator = RequestGenerator(self.cfg, reducible_formats(self.cfg))
        m.submodules.bursts = bursts = ChunkBursts(self.cfg)
        link(m, self.i_operation, generator.i_operation)
        link(m, generator.o, bursts.i)
        link(m, bursts.o_load, self.o_load)
        link(m, bursts.o_store, self.o_store)
        connect(m, generator.o_sized, flipped(self.o_sized))
        connect(m, generator.read_request, flipped(self.read_request))
        connect(m, flipped(self.read_data), generator.read_data)
        failure, violation = generator.o_failure, generator.o_failure.payload.violation
        m.d.comb += [
            self.o_failure.valid.eq(failure.valid), failure.ready.eq(self.o_failure.ready),
            self.o_failure.payload.code.eq(violation.code),
            self.o_failure.payload.dimension.eq(violation.dimension),
            self.o_failure.payload.operand.eq(violation.value),
            self.o_failure.payload.pc.eq(failure.payload.pc),
        ]
        connect_members(m, flipped(self), generator, ("invalidate", "invalidate_address", "stop", "dropped", "busy"))
        return m
