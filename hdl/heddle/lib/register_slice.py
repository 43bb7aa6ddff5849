"""Register slice: the registers of a stream between two units."""

from enum import Enum

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..errors import UsageError

__all__ = ["RegisterSlice", "SliceMode"]


class SliceMode(Enum):
    """What a register slice registers."""

    NONE = "none"           # nothing: the slice is wires
    FORWARD = "forward"     # ``valid`` and ``payload``
    REVERSE = "reverse"     # ``ready``
    FULL = "full"           # all three

    @property
    def latency(self):
        """Cycles from ``i`` to ``o``."""
        return int(self in (SliceMode.FORWARD, SliceMode.FULL))

    @property
    def interval(self):
        """Cycles from an item to the next one at least."""
        return 2 if self is SliceMode.REVERSE else 1

    @property
    def capacity(self):
        """Items that the slice holds at most."""
        return {SliceMode.FORWARD: 1, SliceMode.FULL: 2}.get(self, 0)


class RegisterSlice(Component):
    """Register slice of a stream: cuts combinational paths between two units, in one direction or both.

    | ``mode`` | latency | interval | capacity | area |
    |---|---|---|---|---|
    | ``NONE`` | 0 | 1 | 0 | none |
    | ``FORWARD`` | 1 | 1 | 1 | the payload and one register |
    | ``REVERSE`` | 0 | 2 | 0 | one register |
    | ``FULL`` | 1 | 1 | 2 | two registers and one LUT a payload bit |

    Parameters
    ----------
    shape : ShapeLike
        Payload of both streams.
    mode : SliceMode
    clears : bool
        Whether the port ``clear`` exists.

    *Ports*:
    i : In(stream.Signature(shape))
        Items.
    o : Out(stream.Signature(shape))
        Items in order.
    clear : In(1)
        Empties the slice: all items in it and the item that ``i`` transfers in this cycle are lost.

    Raises
    ------
    ValueError
        When ``mode`` is no ``SliceMode``.

    *Latency*: ``mode.latency`` cycles.

    *Throughput*: one item in ``mode.interval`` cycles. With ``REVERSE`` an item stays at ``i`` for the cycle after ``o`` transferred it.

    *Back-pressure*: ``i.ready`` depends combinationally on ``o.ready`` with ``NONE`` and ``FORWARD``, else on registers only.

    *Reset*: empties the slice; payload registers have no reset.
    """

    def __init__(self, shape, mode=SliceMode.FULL, *, clears=False):
        if not isinstance(mode, SliceMode):
            raise UsageError(f"mode must be one of {', '.join(map(str, SliceMode))}, not {mode!r}")
        self.shape, self.mode, self._clears = shape, mode, clears
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))}
                         | ({"clear": In(1)} if clears else {}))

    def elaborate(self, platform):
        m = Module()
        getattr(self, f"_{self.mode.value}")(m)
        return m

    def _none(self, m):
        m.d.comb += [self.i.ready.eq(self.o.ready), self.o.valid.eq(self.i.valid), self.o.payload.eq(self.i.payload)]

    def _forward(self, m):
        valid, payload = Signal(), Signal(self.shape, reset_less=True)
        m.d.comb += [self.i.ready.eq(~valid | self.o.ready), self.o.valid.eq(valid), self.o.payload.eq(payload)]
        with m.If(self.i.ready):
            m.d.sync += [valid.eq(self.i.valid), payload.eq(self.i.payload)]
        self._empty(m, valid)

    def _reverse(self, m):
        taken = Signal()        # the item at ``i`` was transferred in the cycle before
        m.d.comb += [self.i.ready.eq(taken), self.o.valid.eq(self.i.valid & ~taken), self.o.payload.eq(self.i.payload)]
        m.d.sync += taken.eq(self.o.valid & self.o.ready)
        self._empty(m, taken)

    def _full(self, m):
        valid, spare_valid = Signal(), Signal()
        payload, spare = Signal(self.shape, reset_less=True), Signal(self.shape, reset_less=True)
        m.d.comb += [self.i.ready.eq(~spare_valid), self.o.valid.eq(valid), self.o.payload.eq(payload)]

        with m.If(~spare_valid):
            m.d.sync += spare.eq(self.i.payload)
        with m.If(~valid | self.o.ready):
            m.d.sync += [
                payload.eq(Mux(spare_valid, spare, self.i.payload)),
                valid.eq(spare_valid | self.i.valid),
                spare_valid.eq(0),
            ]
        with m.Elif(self.i.valid):
            m.d.sync += spare_valid.eq(1)
        self._empty(m, valid, spare_valid)

    def _empty(self, m, *occupied):
        if self._clears:
            with m.If(self.clear):
                m.d.sync += [register.eq(0) for register in occupied]
