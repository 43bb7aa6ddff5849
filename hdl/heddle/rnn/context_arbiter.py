"""Which context goes next."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out

__all__ = ["ContextArbiter"]


class ContextArbiter(Component):
    """Chooses a context: coarse-grained, fair from step to step [S3.6].

    The context whose turn it is goes on as long as it is ``ready``; when it is not, or after its step (``ends``), the next ready one in
    circular order has its turn. A context that is ready all the time is thus chosen before each other one ends a second step. With none
    ready, the one ``expected`` to be ready next is chosen if it ``waits``, once nothing is under way (``eager``): its columns then wait for
    single elements.

    Combinational from inputs and a register; reset gives context 0 its turn.

    Members
    -------
    ready, waits : In(contexts)
        Contexts whose next sweep may begin now; whose next sweep may begin as soon as elements are there.
    expected : In(contexts)
        One hot or zero.
    eager : In(1)
    take : In(1)
        The choice counts in this cycle.
    ends : In(contexts)
        Contexts whose next sweep is the last of its step.
    valid : Out(1)
    choice : Out(contexts)
        One hot.
    """

    def __init__(self, contexts):
        self.contexts = contexts
        super().__init__({
            "ready": In(contexts), "waits": In(contexts), "expected": In(contexts), "eager": In(1), "take": In(1), "ends": In(contexts),
            "valid": Out(1), "choice": Out(contexts),
        })

    def elaborate(self, platform):
        m = Module()
        count = self.contexts
        turn = Signal(count, init=1)            # one hot: first in the circle
        choice = self.choice
        after = Cat(choice[-1], choice[:-1]) if count > 1 else choice
        first = _first_from(m, "ready", self.ready, turn)
        soon = Signal(count)
        m.d.comb += [
            soon.eq(self.expected & self.waits & self.eager.replicate(count)),
            self.valid.eq(self.ready.any() | soon.any()),
            self.choice.eq(Mux(self.ready.any(), first, soon)),
        ]
        with m.If(self.take & self.valid):
            m.d.sync += turn.eq(Mux((choice & self.ends).any(), after, choice))
        return m


def _first_from(m, name, wanted, start):
    """The first bit that is set, from the one-hot ``start`` on in a circle, as one hot."""
    count = len(wanted)
    twice = Signal(2 * count, name=f"{name}_twice")
    lowest = Signal(2 * count, name=f"{name}_lowest")
    result = Signal(count, name=f"{name}_first")
    m.d.comb += [
        twice.eq(Cat(wanted, wanted)),
        lowest.eq((twice & ~(twice - start))[:2 * count]),
        result.eq(lowest[:count] | lowest[count:]),
    ]
    return result
