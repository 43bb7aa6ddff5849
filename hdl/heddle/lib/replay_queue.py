"""A queue whose reader may find out late that it did not get through with an item."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..errors import UsageError

__all__ = ["ReplayQueue"]


class ReplayQueue(Component):
    """A first-in first-out queue that shows an item a cycle and keeps each until it is done with.

    The reader takes whatever is shown and says in the next cycle what became of it: ``done``, or ``again``: what is shown in that cycle
    does not count then, that item comes in the next one, and those behind it follow. So what decides about an item holds no register of the
    reader, only the two pointers here. Exactly one of them is set in the cycle after an item was shown.

    Latency 1 cycle, throughput one item a cycle with ``depth`` 4 and more; an item that comes again costs two cycles. ``i.ready`` comes out
    of a register and counts what is done with a cycle late. Reset empties the queue; stored items have no reset. Area: distributed RAM
    of ``depth`` rows.

    Parameters
    ----------
    shape : ShapeLike
        Payload of both streams.
    depth : int
        Capacity in items, a power of two, at least 2.

    Members
    -------
    i : In(stream.Signature(shape))
    o : Out(stream.Signature(shape, always_ready=True))
        Depends on registers only.
    done, again : In(1)
        Of the item of the cycle before.
    empty : Out(1)
        No item that is not done with.

    Raises
    ------
    ValueError
        When ``depth`` is not such a number.
    """

    def __init__(self, shape, depth):
        if not isinstance(depth, int) or depth < 2 or depth & (depth - 1):
            raise UsageError(f"depth must be a power of two of at least 2, not {depth!r}")
        self.shape, self.depth = shape, depth
        super().__init__({
            "i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape, always_ready=True)),
            "done": In(1), "again": In(1), "empty": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.storage = storage = Memory(shape=self.shape, depth=self.depth, init=[])
        write, read = storage.write_port(), storage.read_port(domain="comb")
        bits = exact_log2(self.depth)
        # With a bit more than an address: items that came, were shown, are done with.
        came, shown, over, put, full = (*(Signal(bits + 1, name=name) for name in ("came", "shown", "over")), Signal(), Signal())
        m.d.comb += [
            self.i.ready.eq(~full), put.eq(self.i.valid & ~full),
            write.en.eq(put), write.addr.eq(came), write.data.eq(self.i.payload),
            read.addr.eq(shown), self.o.payload.eq(read.data), self.o.valid.eq(shown != came),
            self.empty.eq(over == came),
        ]
        following = Signal(bits + 1)
        m.d.comb += following.eq(came + put)
        m.d.sync += [
            came.eq(following), full.eq(following == (over ^ self.depth)),
            over.eq(over + self.done), shown.eq(Mux(self.again, over, shown + self.o.valid)),
        ]
        return m
