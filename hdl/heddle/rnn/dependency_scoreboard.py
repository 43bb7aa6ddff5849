"""How far the jobs and the inputs of each context are."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from .layouts import COUNT_BITS, DISTRIBUTED, ELEMENT_BITS, context_bits

__all__ = ["DependencyScoreboard", "status_layout", "written_bits"]


def status_layout(cfg):
    """Of one context, for whoever decides whether its next sweep or column may begin."""
    return data.StructLayout({
        "launched": COUNT_BITS,         # jobs, modulo 4
        "finished": COUNT_BITS,
        "oldest": 1,                    # of all jobs under way the oldest, the one that is written, is of this context
        "rows": COUNT_BITS,             # rows of input that are loaded and not taken
    })


def written_bits(cfg):
    """Bits of the number of elements that a job has written."""
    return ELEMENT_BITS + exact_log2(cfg.tail_lanes) + 1


class DependencyScoreboard(Component):
    """Counts the jobs of the tail and the rows of input of each context, and which elements are written.

    Events count in the cycle after them, all in the same cycle if need be, also of one context. Reset, and ``clear``, begin anew.

    Members
    -------
    status : Out(status_layout(cfg)).array(rnn_contexts)
    clear : In(1)
    launch, launch_context, launch_pairs
        A job is on its way to the tail, one of pairs of element groups.
    wrote, wrote_context, finished
        An element group, or a pair of them, is written; it was the job's last.
    loaded, loaded_context
        A row of input is in vector memory.
    reserved, reserved_context
        It is on its way there.
    taken, taken_context
        A sweep that is the last to read its row was chosen.
    released, released_context
        It has read it: the row may be overwritten.
    started, started_context
        A task begins: it has no rows yet.
    free : Out(rnn_contexts)
        There is room for a row.
    written : Out(written_bits(cfg))
        Elements that the oldest job has written: jobs write and finish in order.
    """

    EVENTS = ("launch", "wrote", "reserved", "loaded", "taken", "released", "started")

    def __init__(self, cfg):
        self.cfg = cfg
        context = context_bits(cfg)
        super().__init__({
            "status": Out(status_layout(cfg)).array(cfg.rnn_contexts),
            "clear": In(1),
            "finished": In(1),
            "free": Out(cfg.rnn_contexts),
            "written": Out(written_bits(cfg)),
            "launch_pairs": In(1),
        } | {name: In(1) for name in self.EVENTS} | {f"{name}_context": In(context) for name in self.EVENTS})

    def elaborate(self, platform):
        m = Module()
        free = []
        for number, status in enumerate(self.status):
            event = {name: Signal(name=f"{name}_{number}") for name in self.EVENTS}
            m.d.comb += [signal.eq(getattr(self, name) & (getattr(self, f"{name}_context") == number)) for name, signal in event.items()]
            kept = Signal(COUNT_BITS, name=f"kept_{number}")        # places of rows that are in use
            done = event["wrote"] & self.finished
            m.d.sync += [
                status.launched.eq(status.launched + event["launch"]),
                status.finished.eq(status.finished + done),
                status.rows.eq(status.rows + event["loaded"] - event["taken"]),
                kept.eq(kept + event["reserved"] - event["released"]),
            ]
            with m.If(self.clear):
                m.d.sync += [status.launched.eq(0), status.finished.eq(0), status.rows.eq(0), kept.eq(0)]
            with m.If(event["started"]):
                m.d.sync += [status.rows.eq(0), kept.eq(0)]
            free.append(kept != 2)
        m.d.comb += self.free.eq(Cat(free))
        self._order(m)
        return m

    def _order(self, m):
        """Contexts of the jobs under way, oldest first, and how far the oldest is."""
        jobs = 2 * self.cfg.rnn_contexts
        job = data.StructLayout({"context": context_bits(self.cfg), "pairs": 1})
        m.submodules.order = order = Memory(shape=job, depth=jobs, init=[], attrs=DISTRIBUTED)
        read, write = order.read_port(domain="comb"), order.write_port()
        count, groups = Signal(range(jobs + 1)), Signal(ELEMENT_BITS)
        over = self.wrote & self.finished
        m.d.comb += [
            write.en.eq(self.launch), write.data.context.eq(self.launch_context), write.data.pairs.eq(self.launch_pairs),
            self.written.eq((groups << exact_log2(self.cfg.tail_lanes)) << read.data.pairs),
        ]
        m.d.comb += [status.oldest.eq((count != 0) & (read.data.context == number)) for number, status in enumerate(self.status)]
        m.d.sync += [count.eq(count + self.launch - over), write.addr.eq(write.addr + self.launch), read.addr.eq(read.addr + over)]
        with m.If(self.wrote):
            m.d.sync += groups.eq(groups + 1)
        with m.If(over | self.clear):
            m.d.sync += groups.eq(0)
        with m.If(self.clear):
            m.d.sync += [count.eq(0), write.addr.eq(0), read.addr.eq(0)]
