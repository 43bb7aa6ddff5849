"""Context arbiter: selects the context whose matrix-vector pass is granted next."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out

__all__ = ["ContextArbiter"]


class ContextArbiter(Component):
    """Context arbiter: coarse-grained round-robin grant with the step as its unit [S3.6].

    The context at the round-robin pointer is granted as long as it is ``ready``. Otherwise, or after the last pass of its step
    (``ends``), the grant moves to the next ready context in circular order. A context that is always ready is therefore granted before
    any other context ends a second step.

    Without a ready context, the ``expected`` context is granted if it ``waits`` and ``eager`` is high. The columns of this pass then wait
    for single elements.

    Parameters
    ----------
    contexts : int
        Number of contexts.

    *Ports*:
    ready : In(contexts)
        Contexts whose next pass may begin in this cycle.
    waits : In(contexts)
        Contexts whose next pass may begin when its first elements are written.
    expected : In(contexts)
        The context that becomes ready next, one hot, or 0.
    eager : In(1)
        No pass is in progress or granted.
    take : In(1)
        The requester uses ``choice`` in this cycle.
    ends : In(contexts)
        Contexts whose next pass is the last of its step.
    valid : Out(1)
        A context is granted.
    choice : Out(contexts)
        The granted context, one hot; 0 without ``valid``.

    *Latency*: ``valid`` and ``choice`` are combinational from ``ready``, ``waits``, ``expected``, ``eager`` and the round-robin
    pointer. The pointer moves in the cycle after ``take`` and ``valid``.

    *Reset*: the round-robin pointer is at context 0.

    *Source*: [S3.6].
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
        pointer = Signal(count, init=1)         # round-robin pointer, one hot
        choice = self.choice
        after = Cat(choice[-1], choice[:-1]) if count > 1 else choice
        first = _first_from(m, "ready", self.ready, pointer)
        soon = Signal(count)
        m.d.comb += [
            soon.eq(self.expected & self.waits & self.eager.replicate(count)),
            self.valid.eq(self.ready.any() | soon.any()),
            self.choice.eq(Mux(self.ready.any(), first, soon)),
        ]
        with m.If(self.take & self.valid):
            m.d.sync += pointer.eq(Mux((choice & self.ends).any(), after, choice))
        return m


def _first_from(m, name, wanted, start):
    """The first set bit of ``wanted`` at or behind the one-hot ``start`` in circular order, one hot."""
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
