"""Round-robin arbiters: of requests, and of streams."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out

from ..errors import UsageError
from .onehot import any_of
from .register_slice import RegisterSlice
from .stream import link

__all__ = ["RoundRobin", "RoundRobinArbiter"]


class RoundRobin(Component):
    """Round-robin arbiter of requests: grants the first request in circular order from a pointer on.

    Parameters
    ----------
    count : int
        Number of requesters, at least 1.
    first : int
        Requester at the pointer after a reset.

    *Ports*:
    requests : In(count)
        Bit n: requester n requests.
    grant : Out(range(max(count, 2)))
        Number of the granted requester; without a request it has no meaning.
    enable : In(1)
        Moves the pointer to the granted requester, which keeps the grant as long as it requests.
    advance : In(1)
        With ``enable``: moves the pointer behind the granted requester instead.

    Raises
    ------
    ValueError
        When ``count`` is not an integer of at least 1, or ``first`` is not the number of a requester.

    *Latency*: ``grant`` is combinational from ``requests`` and the pointer. The pointer moves in the cycle after ``enable``.

    *Throughput*: one grant a cycle. A request is passed over by at most ``count`` − 1 grants with ``advance``.

    *Reset*: the pointer returns to ``first``.
    """

    def __init__(self, count, first=0):
        _check(count, first)
        self.count, self.first = count, first
        super().__init__({"requests": In(count), "grant": Out(range(max(count, 2))), "enable": In(1), "advance": In(1)})

    def elaborate(self, platform):
        m = Module()
        if self.count == 1:
            return m
        pointer, following = Signal(range(self.count), init=self.first), Signal(range(self.count))
        if self.count == 2:     # one bit: no comparisons and no adder
            m.d.comb += [self.grant.eq(Mux(pointer, self.requests[1], ~self.requests[0])), following.eq(self.grant == 0)]
        else:
            self._search(m, pointer)
            m.d.comb += following.eq(self.grant + 1)
            if self.count & (self.count - 1):       # no power of two: the sum does not wrap by itself
                with m.If(self.grant == self.count - 1):
                    m.d.comb += following.eq(0)
        with m.If(self.enable):
            m.d.sync += pointer.eq(Mux(self.advance, following, self.grant))
        return m

    def _search(self, m, pointer):
        """The first request from the pointer on, else the first one of all."""
        behind = Signal(self.count)
        m.d.comb += behind.eq(self.requests & Cat(pointer <= number for number in range(self.count)))
        for number in reversed(range(self.count)):
            with m.If(Mux(behind.any(), behind[number], self.requests[number])):
                m.d.comb += self.grant.eq(number)


class RoundRobinArbiter(Component):
    """Round-robin arbiter of streams: joins ``count`` streams into one.

    The input behind the last one that transferred an item, with ``last`` a packet, has the highest priority.

    | ``locked`` | ``last`` | the grant is held |
    |---|---|---|
    | no | | never: an item at ``o`` may be replaced while ``o`` waits |
    | yes | | while an item waits at ``o`` |
    | yes | field | from the first item of a packet at ``o`` until its last item is transferred |

    Parameters
    ----------
    shape : ShapeLike
        Payload of all streams.
    count : int
        Number of inputs, at least 1.
    locked : bool
        Whether a grant is held.
    last : str, optional
        Field of the payload that marks the last item of a packet; items of packets are not interleaved.
    registered : bool
        Whether a ``RegisterSlice`` follows the arbiter.
    first : int
        Input with the highest priority after a reset.

    *Ports*:
    i : In(stream.Signature(shape)).array(count)
        Inputs.
    o : Out(stream.Signature(shape))
        Items of the granted inputs.
    grant : Out(range(max(count, 2)))
        Number of the granted input; without a valid item it has no meaning. With ``registered`` the granted item is not yet at ``o``.

    Raises
    ------
    ValueError
        When ``count`` or ``first`` is out of range, ``last`` is not a field of the payload, or ``last`` is given without ``locked``.

    *Latency*: 0 cycles, combinational; with ``registered`` 1 cycle.

    *Throughput*: one item a cycle. An item waits for at most one item, with ``last`` one packet, of each other input.

    *Back-pressure*: ``i[n].ready`` depends combinationally on ``valid`` of all inputs, and without ``registered`` on ``o.ready``. Without
    ``locked`` and ``registered`` the payload at ``o`` may change while ``o`` waits.

    *Reset*: the pointer returns to ``first``; no grant is held; the buffer is empty.
    """

    def __init__(self, shape, count, *, locked=True, last=None, registered=False, first=0):
        _check(count, first)
        if last is not None and not locked:
            raise UsageError(f"last must be None without locked, not {last!r}")
        if last is not None and last not in _fields(shape):
            raise UsageError(f"last must be a field of the payload, not {last!r}")
        self.shape, self.count, self.locked, self.last, self.registered, self.first = shape, count, locked, last, registered, first
        super().__init__({
            "i": In(stream.Signature(shape)).array(count), "o": Out(stream.Signature(shape)), "grant": Out(range(max(count, 2))),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.arbiter = arbiter = RoundRobin(self.count, self.first)
        out = self.o
        if self.registered:
            m.submodules.buffer = buffer = RegisterSlice(self.shape)
            link(m, buffer.o, self.o)
            out = buffer.i
        m.d.comb += [
            self.grant.eq(arbiter.grant),
            Value.cast(out.payload).eq(_select(arbiter.grant, [Value.cast(port.payload) for port in self.i])),
            *(port.ready.eq(out.ready & (arbiter.grant == number)) for number, port in enumerate(self.i)),
        ]
        if self.last is not None:
            self._packets(m, arbiter, out)
            return m
        m.d.comb += [arbiter.requests.eq(Cat(port.valid for port in self.i)), out.valid.eq(any_of(port.valid for port in self.i))]
        if self.locked:
            m.d.comb += [arbiter.enable.eq(out.valid), arbiter.advance.eq(out.ready)]
        else:
            m.d.comb += [arbiter.enable.eq(out.valid & out.ready), arbiter.advance.eq(1)]
        return m

    def _packets(self, m, arbiter, out):
        """Within a packet every input requests, so that the input at the pointer keeps the grant between its items."""
        valid, within = [port.valid for port in self.i], Signal()
        m.d.comb += [
            arbiter.requests.eq(Cat(valid) | within.replicate(self.count)), out.valid.eq(_select(arbiter.grant, valid)),
            arbiter.enable.eq(out.valid), arbiter.advance.eq(out.ready & out.payload[self.last]),
        ]
        with m.If(out.valid):
            m.d.sync += within.eq(~arbiter.advance)


def _check(count, first):
    """Checks the number of inputs, and the first of them."""
    if not isinstance(count, int) or count < 1:
        raise UsageError(f"count must be an integer of at least 1, not {count!r}")
    if first not in range(count):
        raise UsageError(f"first must be from 0 to {count - 1}, not {first!r}")


def _fields(shape):
    """Names of the fields of a payload; none of a number."""
    try:
        return dict(data.Layout.cast(shape))
    except TypeError:
        return {}


def _select(number, values):
    """The value with a number: a tree of multiplexers, the lowest bit first."""
    for bit in number:
        values = [Mux(bit, values[n + 1], values[n]) if n + 1 < len(values) else values[n] for n in range(0, len(values), 2)]
    return values[0]
