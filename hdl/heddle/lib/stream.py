"""Streams: a register stage, a queue, and a connection that checks payload layouts."""

from amaranth.hdl import Module, Mux, Shape, Signal
from amaranth.lib import data, stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import ceil_log2

from ..errors import UsageError, UsageTypeError

__all__ = ["Buffer", "Queue", "link"]

DISTRIBUTED_ROWS = 32       # a queue with more rows than this has a synchronous read, as block RAM needs


class Buffer(Component):
    """A register stage of a stream that cuts ``valid``, ``payload`` and ``ready``.

    Latency 1 cycle, throughput 1 item a cycle, capacity 2 items. ``i.ready`` and all of ``o`` come out of registers: no
    combinational path crosses the buffer. Reset empties it; payload registers have no reset.
    Area: two registers and one LUT per payload bit.

    Parameters
    ----------
    shape : ShapeLike
        Payload of both streams.
    drops : bool
        Whether there is ``drop``.

    Members
    -------
    i : In(stream.Signature(shape))
    o : Out(stream.Signature(shape))
    drop : In(1)
        The item that came last, in the cycle before, is not wanted; none comes in this cycle. ``o.valid`` depends on it.
    """

    def __init__(self, shape, drops=False):
        self.shape = shape
        self._drops = drops
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))} | ({"drop": In(1)} if drops else {}))

    def elaborate(self, platform):
        m = Module()
        valid = Signal()
        spare_valid = Signal()
        payload = Signal(self.shape, reset_less=True)
        spare = Signal(self.shape, reset_less=True)
        wanted, spare_wanted = valid, spare_valid
        if self._drops:     # it is the spare one where there is one
            wanted, spare_wanted = valid & (spare_valid | ~self.drop), spare_valid & ~self.drop
        m.d.comb += [self.i.ready.eq(~spare_valid), self.o.valid.eq(wanted), self.o.payload.eq(payload)]

        with m.If(~spare_valid):
            m.d.sync += spare.eq(self.i.payload)
        with m.If(~valid | self.o.ready):
            m.d.sync += [
                payload.eq(Mux(spare_valid, spare, self.i.payload)),
                valid.eq(spare_wanted | self.i.valid),
                spare_valid.eq(0),
            ]
        with m.Elif(self.i.valid):
            m.d.sync += spare_valid.eq(1)
        if self._drops:
            with m.Elif(self.drop):
                m.d.sync += [valid.eq(wanted), spare_valid.eq(0)]
        return m


class Queue(Component):
    """A first-in first-out queue of streams.

    Throughput 1 item a cycle, capacity exactly ``depth`` items: ``i.ready`` is ``level != depth``. All of ``o`` comes out of
    registers, unless ``registered`` is false; ``i.ready`` depends on registers only. Reset empties the queue; stored items have no reset.

    Latency from ``i`` to ``o`` of an empty queue, and storage: 1 cycle and registers for ``depth`` 2; 2 cycles and distributed
    RAM of ``2**ceil_log2(depth - 1)`` rows while these are at most 32; else 3 cycles and a RAM with synchronous read of
    ``2**ceil_log2(depth - 2)`` rows, which synthesis puts into block RAM when it is worth one. Not ``registered``: 1 cycle and distributed
    RAM of ``2**ceil_log2(depth)`` rows, whose read stands between a register and ``o``; for a sink with a register of its own.

    Parameters
    ----------
    shape : ShapeLike
        Payload of both streams.
    depth : int
        Capacity in items, at least 2; at most 32 if not ``registered``.
    registered : bool
        Whether ``o`` comes out of registers.

    Members
    -------
    i : In(stream.Signature(shape))
    o : Out(stream.Signature(shape))
    level : Out(range(depth + 1))
        Items in the queue, the one at ``o`` included.

    Raises
    ------
    ValueError
        When ``depth`` is not such an integer.
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
        m.submodules.buffer = buffer = Buffer(self.shape)
        link(m, self.i, buffer.i)
        link(m, buffer.o, self.o)
        m.d.comb += self.level.eq(Mux(buffer.i.ready, buffer.o.valid, 2))

    def _elaborate_memory(self, m):
        # The registers behind the memory hold one item each; the count below covers the items in the memory only.
        stages = self.latency - 1
        limit = self.depth - stages
        rows = 1 << ceil_log2(limit)
        m.submodules.storage = storage = Memory(shape=self.shape, depth=rows, init=[])
        write = storage.write_port()
        read = storage.read_port(domain="comb" if stages < 2 else "sync")
        stored, full, some = Signal(range(limit + 1)), Signal(), Signal()   # the last two follow from it, known ahead
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
            fetched = Signal()      # the memory's own output register holds an item
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
    """Connect the stream ``source`` to the stream ``sink`` in module ``m``, whatever side of a component they are on.

    Raises
    ------
    TypeError
        When the payload shapes differ (layouts must be equal field by field, not just as wide), when ``source`` cannot be
        held back but ``sink`` needs to, or when ``source`` may pause but ``sink`` cannot wait.
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
    """The layout behind a data class, the shape behind a number; an enumeration stands for itself."""
    if isinstance(shape, Shape) or not hasattr(shape, "as_shape"):
        return Shape.cast(shape)
    try:
        return data.Layout.cast(shape)
    except TypeError:
        return shape
