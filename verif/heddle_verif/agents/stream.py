"""Drivers and monitors of streams; payloads are Python values of the stream's Amaranth shape."""

from collections import deque

import cocotb
from cocotb.triggers import Event, RisingEdge

from . import pause as pauses
from .payload import pack, payload_width, unpack

__all__ = ["BundleHandles", "StreamHandles", "StreamMonitor", "StreamSink", "StreamSource"]


class _Handles:
    """Handshake of a stream: ``valid`` and ``ready`` are handles, or None where they are constant 1."""

    def __init__(self, name, valid, ready):
        self.name, self.valid, self.ready = name, valid, ready

    def is_valid(self):
        """Raises ``ValueError`` when ``valid`` is unknown."""
        return self.valid is None or bool(self.valid.value)

    def is_ready(self):
        """Raises ``ValueError`` when ``ready`` is unknown."""
        return self.ready is None or bool(self.ready.value)


class StreamHandles(_Handles):
    """The signals of stream ``name`` of ``dut``; members that are constant have no port and read as 1."""

    def __init__(self, dut, name, shape):
        super().__init__(name, getattr(dut, f"{name}__valid", None), getattr(dut, f"{name}__ready", None))
        self.shape = shape
        self.width = payload_width(shape)
        self.payload = getattr(dut, f"{name}__payload", None)
        if self.payload is None and self.valid is None:
            raise AttributeError(f"{name} must be a stream of the design")

    @property
    def parts(self):
        """Handles of the payload."""
        return () if self.payload is None else (self.payload,)

    def bits(self):
        """The payload; raises ``ValueError`` when a bit is unknown."""
        return 0 if self.payload is None else int(self.payload.value)

    def value(self):
        return unpack(self.shape, self.bits())


class BundleHandles(_Handles):
    """A stream whose payload is several signals: an interface with ``valid``, an AXI channel, loose members of a design.

    Parameters
    ----------
    name : str
        For messages.
    valid, ready
        Handles; ``ready`` is None when the receiver always accepts.
    parts : iterable
        Handles of the payload, lowest bits first.
    """

    def __init__(self, name, valid, ready, parts):
        super().__init__(name, valid, ready)
        self.parts = tuple(parts)

    def bits(self):
        """The payload; raises ``ValueError`` when a bit is unknown."""
        bits = 0
        for part in reversed(self.parts):
            bits = bits << len(part) | int(part.value)
        return bits


class _Agent:
    def __init__(self, dut, name, shape, clock):
        self.handles = StreamHandles(dut, name, shape)
        self.name = name
        self._clock = dut.clk if clock is None else clock
        self._reset = getattr(dut, "rst", None)
        self.count = 0          # items transferred
        self._changed = Event()
        self.task = cocotb.start_soon(self._run())

    def _in_reset(self):
        return self._reset is not None and bool(self._reset.value)

    def _moved(self):
        self.count += 1
        self._changed.set()

    async def _until(self, condition):
        while not condition():
            self._changed.clear()
            await self._changed.wait()


class StreamSource(_Agent):
    """Drives an input stream of the design; items are sent in order, one a cycle unless ``pause`` says otherwise.

    ``payload`` is random while ``valid`` is low, so that a design that looks at it is found out.
    During reset nothing is offered; an item that was on offer is offered again. ``on_item(value)`` is called for each item that was taken,
    with what was put, if given.

    Parameters
    ----------
    dut, name, shape
        Design, name of the stream (``"i"``, ``"port__read_data"``), Amaranth shape of its payload.
    rng : numpy.random.Generator or None
        Source of the random payloads; zeros when None.
    pause : Pause
        See ``heddle_verif.agents.pause``.
    on_item : callable or None
    clock
        ``dut.clk`` by default.
    """

    def __init__(self, dut, name, shape, *, rng=None, pause=None, on_item=None, clock=None):
        self.queue = deque()        # of bits and value
        self.pause = pause or pauses.none()
        self.on_item = on_item
        self._rng = rng
        self._offered = False
        super().__init__(dut, name, shape, clock)
        if self.handles.valid is not None:
            self.handles.valid.value = 0
        self._idle_payload()

    def put(self, *values):
        """Queue items."""
        self.queue.extend((pack(self.handles.shape, value), value) for value in values)

    def forget(self):
        """Drop what was put and not taken; during reset."""
        self.queue.clear()

    async def send(self, *values):
        """Queue items and wait until the design has taken everything queued."""
        self.put(*values)
        await self.drained()

    async def drained(self):
        """Wait until the queue is empty and its last item was taken."""
        await self._until(lambda: not self.queue)

    def _idle_payload(self):
        if self.handles.payload is not None:
            raw = self._rng.bytes(self.handles.width // 8 + 1) if self._rng is not None else b""
            self.handles.payload.value = int.from_bytes(raw, "little") & ((1 << self.handles.width) - 1)

    async def _run(self):
        handles = self.handles
        while True:
            await RisingEdge(self._clock)
            if self._in_reset():
                if self._offered:
                    handles.valid.value = 0
                self._offered = False
                continue
            ready = handles.is_ready()
            if self._offered and ready:
                self._offered = False
                _, value = self.queue.popleft()
                if self.on_item is not None:
                    self.on_item(value)
                self._moved()
                if handles.valid is not None:
                    handles.valid.value = 0
                self._idle_payload()
            if not self._offered and self.queue and not self.pause.step(ready):
                self._offered = True
                if handles.valid is not None:
                    handles.valid.value = 1
                if handles.payload is not None:
                    handles.payload.value = self.queue[0][0]


class StreamSink(_Agent):
    """Accepts an output stream of the design; ``received`` holds the items in order.

    ``on_item(value)`` is called for each if given. ``pause`` as for ``StreamSource``; a stream that is always ready ignores it.
    """

    def __init__(self, dut, name, shape, *, pause=None, on_item=None, clock=None):
        self.received = []
        self.pause = pause or pauses.none()
        self.on_item = on_item
        super().__init__(dut, name, shape, clock)
        if self.handles.ready is not None:
            self.handles.ready.value = 0

    async def receive(self, count=1):
        """Wait until at least ``count`` items are in ``received``; remove and return the first ``count``."""
        await self._until(lambda: len(self.received) >= count)
        items, self.received[:count] = self.received[:count], []
        return items

    async def _run(self):
        handles = self.handles
        while True:
            await RisingEdge(self._clock)
            if self._in_reset():
                continue
            valid = handles.is_valid()
            if valid and handles.is_ready():
                value = handles.value()
                self.received.append(value)
                if self.on_item is not None:
                    self.on_item(value)
                self._moved()
            if handles.ready is not None:
                handles.ready.value = int(not self.pause.step(valid))


class StreamMonitor(_Agent):
    """Watches any stream of the design and calls ``on_item(value)`` for each transfer; drives nothing."""

    def __init__(self, dut, name, shape, on_item=None, *, clock=None):
        self.on_item = on_item
        super().__init__(dut, name, shape, clock)

    async def _run(self):
        handles = self.handles
        while True:
            await RisingEdge(self._clock)
            if not self._in_reset() and handles.is_valid() and handles.is_ready():
                if self.on_item is not None:
                    self.on_item(handles.value())
                self._moved()
