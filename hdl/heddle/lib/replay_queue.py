"""Replay queue: a first-in first-out queue whose reader reports the result of each item one cycle later."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..errors import UsageError

__all__ = ["ReplayQueue"]


class ReplayQueue(Component):
    """Replay queue: offers one item a cycle, retains each item until ``done``, and offers the item again after ``again``.

    The reader accepts every item at ``o``. In the next cycle exactly one of ``done`` and ``again`` is high. With ``again`` the item at
    ``o`` in that cycle does not count. The replayed item follows in the next cycle, then all later items in order.

    The late decision therefore drives only two pointers of the queue and no register of the reader.

    Parameters
    ----------
    shape : ShapeLike
        Payload of both streams.
    depth : int
        Capacity in items, a power of two, at least 2.

    *Ports*:
    i : In(stream.Signature(shape))
        Items.
    o : Out(stream.Signature(shape, always_ready=True))
        Items in order.
    done : In(1)
        The item of the previous cycle is complete and leaves the queue.
    again : In(1)
        The item of the previous cycle must be offered again.
    empty : Out(1)
        Every accepted item is complete.

    Raises
    ------
    ValueError
        When ``depth`` is not a power of two of at least 2.

    *Latency*: 1 cycle from ``i`` to ``o``.

    *Throughput*: one item a cycle with a ``depth`` of at least 4; a replay costs two cycles.

    *Back-pressure*: ``i.ready`` is registered and counts a completed item one cycle late. ``o`` depends on registers only.

    *Reset*: empties the queue; stored items have no reset.

    *Area*: distributed RAM of ``depth`` rows.
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
        # Pointers with one bit more than an address: items accepted, offered, complete.
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
