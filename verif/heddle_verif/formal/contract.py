"""The rules of a stream as assumptions or assertions, for every proof."""

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Cover, Signal
from amaranth.lib import data

__all__ = ["any_sink", "any_stream", "obey", "require", "tracked_item"]


def _rule(m, port, name, make):
    """Once valid, ``valid`` holds and the payload stays the same until it is accepted; reset ends that."""
    waits = Signal(name=f"{name}_waits")
    before = Signal(len(data_of(port)), name=f"{name}_before", reset_less=True)
    m.d.sync += [waits.eq(port.valid & ~port.ready), before.eq(data_of(port))]
    with m.If(waits):
        m.d.comb += make(port.valid & (data_of(port) == before))


def data_of(port):
    """The bits of a stream's payload."""
    payload = port.payload
    return payload.as_value() if isinstance(payload, data.View) else payload


def obey(m, port, name):
    """Assume that the environment, which drives this stream, keeps to the rules."""
    _rule(m, port, name, Assume)


def require(m, port, name):
    """Assert that the unit, which drives this stream, keeps to the rules; cover that it ever waits and is accepted."""
    _rule(m, port, name, Assert)
    waits = Signal(name=f"{name}_waited")
    m.d.sync += waits.eq(port.valid & ~port.ready)
    m.d.comb += Cover(waits & port.valid & port.ready)


def any_stream(m, port, name):
    """Drive the inputs of a unit's input stream with anything that keeps to the rules."""
    m.d.comb += [port.valid.eq(AnySeq(1)), data_of(port).eq(AnySeq(len(data_of(port))))]
    obey(m, port, name)


def any_sink(m, port, name):
    """Take from a unit's output stream whenever it pleases, and require the rules."""
    m.d.comb += port.ready.eq(AnySeq(1))
    require(m, port, name)


def tracked_item(m, entering, leaving, value, result, limit, name="item", clear=None):
    """One item, picked in any cycle of any execution, leaves unchanged behind all that entered before it, and before the others.

    ``entering``, ``leaving``: an item goes in, out in this cycle; ``value`` and ``result`` are the bits of each; at most ``limit``
    items are inside. ``clear`` takes all of them, and what enters in its cycle. Returns the number of items inside.
    """
    inside = Signal(range(limit + 2), name=f"{name}_inside")
    ahead = Signal(range(limit + 2), name=f"{name}_ahead")
    tracked, done = Signal(name=f"{name}_tracked"), Signal(name=f"{name}_done")
    kept = Signal(len(value), name=f"{name}_kept", reset_less=True)
    m.d.sync += inside.eq(inside + entering - leaving)
    m.d.comb += [Assert(inside <= limit), Assert(~leaving | (inside != 0)), Cover(done & (inside == min(limit, 5)))]
    with m.If(~tracked & ~done & entering & AnySeq(1)):
        m.d.sync += [tracked.eq(1), kept.eq(value), ahead.eq(inside - leaving)]
    with m.If(tracked & leaving):
        m.d.sync += ahead.eq(ahead - 1)
        with m.If(ahead == 0):
            m.d.comb += Assert(result == kept)
            m.d.sync += [tracked.eq(0), done.eq(1)]
    if clear is not None:
        with m.If(clear):
            m.d.sync += [inside.eq(0), tracked.eq(0)]
    return inside
