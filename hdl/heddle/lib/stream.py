"""Streams: a queue, and a connection that checks payload layouts."""

from amaranth.hdl import Module, Mux, Shape, Signal
from amaranth.lib import data, stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import ceil_log2

from ..errors import UsageError, UsageTypeError
from .register_slice import RegisterSlice

__all__ = ["Queue", "link"]

DISTRIBUTED_ROWS = 32       # a queue with more rows has a synchronous read, as block RAM requires


class Queue(Component):
    """First-in first-out queue of a stream.

    Not one of ``amaranth.lib.fifo``, whose payloads are bits without a layout. There a registered output always comes with a synchronous
    read: a short queue would take a block RAM.

    | ``depth`` | latency | storage |
    |---|---|---|
    | 2 | 1 cycle | registers |
    | 3 and more | 2 cycles | distributed RAM of ``2**ceil_log2(depth - 1)`` rows, at most 32 |
    | more | 3 cycles | RAM with synchronous read, ``2**ceil_log2(depth - 2)`` rows; block RAM where synthesis prefers it |
    | not ``registered`` | 1 cycle | distributed RAM of ``2**ceil_log2(depth)`` rows; the read is between a register and ``o`` |

    Parameters
    ----------
    shape : ShapeLike
        Payload of both streams.
    depth : int
        Capacity in items, at least 2; at most 32 without ``registered``.
    registered : bool
        Whether ``o`` is registered. Without registers the reader should have a register of its own.

    *Ports*:
    i : In(stream.Signature(shape))
        Items.
    o : Out(stream.Signature(shape))
        Items in order.
    level : Out(range(depth + 1))
        Items in the queue, the item at ``o`` included.

    Raises
    ------
    ValueError
        When ``depth`` is not an integer in its range.

    *Latency*: 1 to 3 cycles through an empty queue, as the table says.

    *Throughput*: one item a cycle; capacity exactly ``depth`` items.

    *Back-pressure*: ``i.ready`` is ``level != depth`` and depends on registers only.

    *Reset*: empties the queue; stored items have no reset.
    """

    def __init__(self, shape, depth, registered=True):
        if not isinstance(depth, int) or depth < 2:
            raise UsageError(f"depth must be an integer of at least 2, not {depth!r}")
        if not registered and depth > DISTRIBUTED_ROWS:
            raise UsageError(f"depth must be at most {DISTRIBUTED_ROWS} without a register at the output, not {depth}")
        self.shape = shape
        self.depth = depth
        self.registered = registered
        super().__init__({
            "i": In(stream.Signature(shape)),
            "o": Out(stream.Signature(shape)),
            "level": Out(range(depth + 1)),
        })

    @property
    def latency(self):
        """Cycles from ``i`` to ``o`` when the queue is empty."""
        if self.depth == 2 or not self.registered:
            return 1
        return 2 if 1 << ceil_log2(self.depth - 1) <= DISTRIBUTED_ROWS else 3

    def elaborate(self, platform):
        m = Module()
        if self.registered and self.depth == 2:
            self._elaborate_registers(m)
        else:
            self._elaborate_memory(m)
        return m

    def _elaborate_registers(self, m):
        m.submodules.buffer = buffer = RegisterSlice(self.shape)
        link(m, self.i, buffer.i)
        link(m, buffer.o, self.o)
        m.d.comb += self.level.eq(Mux(buffer.i.ready, buffer.o.valid, 2))

    def _elaborate_memory(self, m):
        # The registers behind the memory hold one item each; ``stored`` counts the items in the memory only.
        stages = self.latency - 1
        limit = self.depth - stages
        rows = 1 << ceil_log2(limit)
        m.submodules.storage = storage = Memory(shape=self.shape, depth=rows, init=[])
        write = storage.write_port()
        read = storage.read_port(domain="comb" if stages < 2 else "sync")
        stored, full, some = Signal(range(limit + 1)), Signal(), Signal()   # ``full`` and ``some`` are registered comparisons of ``stored``
        put = Signal()
        take = Signal()
        m.d.comb += [
            self.i.ready.eq(~full),
            put.eq(self.i.valid & self.i.ready),
            write.en.eq(put),
            write.data.eq(self.i.payload),
        ]
        m.d.sync += [write.addr.eq(write.addr + put), read.addr.eq(read.addr + take)]
        with m.If(put & ~take):
            m.d.sync += [stored.eq(stored + 1), full.eq(stored == limit - 1), some.eq(1)]
        with m.If(take & ~put):
            m.d.sync += [stored.eq(stored - 1), full.eq(0), some.eq(stored != 1)]

        if not self.registered:
            m.d.comb += [self.o.valid.eq(some), self.o.payload.eq(read.data), take.eq(some & self.o.ready), self.level.eq(stored)]
            return
        valid = Signal()
        payload = Signal(self.shape, reset_less=True)
        free = Signal()
        m.d.comb += [free.eq(~valid | self.o.ready), self.o.valid.eq(valid), self.o.payload.eq(payload)]
        with m.If(free):
            m.d.sync += payload.eq(read.data)
        if stages == 1:
            m.d.comb += [take.eq(free & some), self.level.eq(stored + valid)]
            with m.If(free):
                m.d.sync += valid.eq(some)
        else:
            fetched = Signal()      # the output register of the memory holds an item
            m.d.comb += [
                take.eq((free | ~fetched) & some),
                read.en.eq(free | ~fetched),
                self.level.eq(stored + fetched + valid),
            ]
            with m.If(read.en):
                m.d.sync += fetched.eq(some)
            with m.If(free):
                m.d.sync += valid.eq(fetched)


def link(m, source, sink):
    """Connect the stream ``source`` to the stream ``sink`` in module ``m``, on either side of a component.

    Raises
    ------
    TypeError
        When the payload shapes differ; layouts must be equal field by field. Also when ``source`` is always ready but ``sink`` is not,
        or ``sink`` is always valid but ``source`` is not.
    """
    shapes = [_comparable(port.payload.shape()) for port in (source, sink)]
    if shapes[0] != shapes[1]:
        raise UsageTypeError(f"payload of the source must have the shape of the sink, {shapes[1]!r}, not {shapes[0]!r}")
    if source.signature.always_ready and not sink.signature.always_ready:
        raise UsageTypeError("sink must be always ready, like the source it is linked to")
    if sink.signature.always_valid and not source.signature.always_valid:
        raise UsageTypeError("source must be always valid, like the sink it is linked to")
    m.d.comb += sink.payload.eq(source.payload)
    if not sink.signature.always_valid:
        m.d.comb += sink.valid.eq(source.valid)
    if not source.signature.always_ready:
        m.d.comb += source.ready.eq(sink.ready)


def _comparable(shape):
    """The layout of a data class, the shape of a number; an enumeration is returned unchanged."""
    if isinstance(shape, Shape) or not hasattr(shape, "as_shape"):
        return Shape.cast(shape)
    try:
        return data.Layout.cast(shape)
    except TypeError:
        return shape
