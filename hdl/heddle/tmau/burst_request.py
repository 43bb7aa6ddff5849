"""Memory request of a burst."""

from amaranth.hdl import Mux, Signal
from amaranth.utils import exact_log2

from ..interfaces.reductions import reduction_members

__all__ = ["request_burst"]


def request_burst(m, cfg, request, burst, slot, wanted):
    """Drive the stream ``request`` for ``burst`` with tag ``slot`` in a cycle in which ``wanted`` is high; returns ``free``.

    ``wanted`` may be high only while ``free``. Without ``cfg.tensors`` ``request`` is registered: valid 1 cycle after ``wanted``, and
    ``free`` depends combinationally on ``request.ready``. With ``cfg.tensors`` ``request`` is valid in the cycle of ``wanted``. A
    request that is not accepted is then held in a register, and ``free`` is a function of registers.
    """
    free = Signal(name="request_free")
    asked = Signal.like(request.payload, name="asked")
    m.d.comb += [
        asked.address.eq(burst.beat_address << exact_log2(cfg.axi_bytes)),
        asked.beats_minus_one.eq(burst.beats_minus_one),
        asked.tag.eq(slot),
        *(asked[name].eq(burst[name]) for name in ("prefetch", *reduction_members(cfg))
          if name in asked.shape().members and name in burst.shape().members),
    ]
    if not cfg.tensors:
        m.d.comb += free.eq(~request.valid | request.ready)
        with m.If(free):
            m.d.sync += [request.valid.eq(wanted), request.payload.eq(asked)]
        return free
    waiting = Signal(name="request_waits")
    kept = Signal.like(request.payload, name="kept", reset_less=True)
    m.d.comb += [free.eq(~waiting), request.valid.eq(waiting | wanted), request.payload.eq(Mux(waiting, kept, asked))]
    m.d.sync += waiting.eq(request.valid & ~request.ready)
    with m.If(~waiting):
        m.d.sync += kept.eq(asked)
    return free
