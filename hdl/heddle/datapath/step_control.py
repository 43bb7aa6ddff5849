"""The control pipeline of the lanes."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from .lane_sums import GROUP_LEVELS
from .layouts import accumulate_layout, step_layout
from .product_file import PRODUCT_ADDRESS_BITS

__all__ = ["StepControl"]


class StepControl(Component):
    """Follows each step through the lanes and says, once for all of them, what to do in which cycle.

    With D = log2(dot) and ``i`` in cycle 0, the outputs belong to these cycles of a step: ``a_signed``, ``wide`` and
    ``active`` 1, ``odd_high`` 1 + D, ``read_register`` 3 + D, ``accumulate``, ``clear``, ``pairs``, ``quads``, ``own``, ``scaled`` and
    ``write_next`` 4 + D, ``receive``, ``total``, ``write`` and ``write_register`` 5 + D, ``done`` 6 + D. All are registered. The product
    file shows a sum three cycles after the cycle that reads the register, hence the sums of the two cycles before are forwarded when
    they belong to the same register. With ``cfg.thread_overlap`` a sum that the next cycle replaces is not written, so that the thread
    unit may write.

    One step a cycle, nothing held back. Reset drops what is under way.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i : In(step_layout(cfg))
    a_signed : Out(2)
        Of even and of odd bytes.
    wide, odd_high, scaled : Out(1)
        For elements of 16 bits, where the lanes have them: see ``Lane``.
    active : Out(threads)
        Lanes that take part.
    read_register, write_register : Out(8)
    write, write_next : Out(1)
        The sum is written in this cycle, in the next one.
    accumulate : Out(accumulate_layout)
    clear : Out(threads)
        Lanes that replace the register.
    pairs, quads, own : Out(1)
        The step adds over pairs or quads of lanes, or counts each lane's own sum; all zero without a step.
    total : Out(1)
        The sums over quads are for lane 0 together.
    receive : Out(threads)
        Lanes that such a sum is for.
    done : Out(1)
        The last accumulation of an operation is written: reads granted in this cycle see it.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "i": In(step_layout(cfg)),
            "a_signed": Out(2),
            **({"wide": Out(1)} if cfg.wide_lanes else {}),
            **({"odd_high": Out(1), "scaled": Out(1)} if cfg.two_passes else {}),
            "active": Out(cfg.threads),
            "read_register": Out(PRODUCT_ADDRESS_BITS),
            "accumulate": Out(accumulate_layout),
            "clear": Out(cfg.threads),
            "pairs": Out(1),
            "quads": Out(1),
            "own": Out(1),
            "total": Out(1),
            "receive": Out(cfg.threads),
            "write_next": Out(1),
            "write": Out(1),
            "write_register": Out(PRODUCT_ADDRESS_BITS),
            "done": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        read = 1 + exact_log2(self.cfg.dot) + GROUP_LEVELS      # the cycle that reads the product register

        def delayed(value, cycles, name, **options):
            """``value`` of cycle 0 in each of the cycles 0 to ``cycles``."""
            stages = [value]
            for cycle in range(1, cycles + 1):
                stage = Signal(value.shape(), name=f"{name}_{cycle}", **options)
                m.d.sync += stage.eq(stages[-1])
                stages.append(stage)
            return stages

        step = delayed(self.i.step, read + 2, "step")
        last = delayed(self.i.last, read + 3, "last")
        product = delayed(self.i.product, read + 2, "product", reset_less=True)
        self._elements(m, delayed, read)
        active = delayed(self.i.lanes, 1, "active", reset_less=True)
        zero = delayed(self.i.zero, read, "zero", reset_less=True)
        receivers = delayed(self.i.receivers, read + 2, "receivers", reset_less=True)
        clear = Signal(self.cfg.threads, reset_less=True)
        own = Signal()
        pairs = delayed(self.i.pairs & self.i.step, read + 1, "pairs")
        quads = delayed(self.i.quads & self.i.step, read + 1, "quads")
        total = delayed(self.i.total, read + 2, "total", reset_less=True)
        m.d.sync += [clear.eq(Mux(zero[read], receivers[read], 0)), own.eq(step[read] & ~(pairs[read] | quads[read]))]

        forward_one = Signal()
        forward_two = Signal()
        read_counts = Signal()
        repeats = [Signal(name=f"repeats_{distance}") for distance in (1, 2)]
        # With thread_overlap compared a cycle before, because ``write_next`` follows from it.
        overlap = self.cfg.thread_overlap
        domain, at = (m.d.sync, read - 1) if overlap else (m.d.comb, read)
        for distance, repeat in enumerate(repeats, 1):
            domain += repeat.eq(step[at] & step[at + distance] & (product[at] == product[at + distance]))
        m.d.sync += [
            forward_one.eq(repeats[0]),
            forward_two.eq(repeats[1] & ~repeats[0]),
            read_counts.eq(step[read] & ~(repeats[0] | repeats[1])),
        ]
        written = step[read + 2]
        if overlap:                     # unless the sum is replaced in the cycle after
            written = Signal(name="written")
            m.d.sync += written.eq(self.write_next)
        m.d.comb += [
            self.active.eq(active[1]),
            self.read_register.eq(product[read]),
            self.accumulate.read.eq(read_counts),
            self.accumulate.forward_one.eq(forward_one),
            self.accumulate.forward_two.eq(forward_two),
            self.clear.eq(clear),
            self.pairs.eq(pairs[read + 1]),
            self.quads.eq(quads[read + 1]),
            self.own.eq(own),
            self.total.eq(total[read + 2]),
            self.receive.eq(receivers[read + 2]),
            self.write_next.eq(step[read + 1] & ~repeats[0] if overlap else step[read + 1]),
            self.write.eq(written),
            self.write_register.eq(product[read + 2]),
            self.done.eq(last[read + 3]),
        ]
        return m

    def _elements(self, m, delayed, read):
        """Signs and weights. The low byte of an element has no sign, but where a multiplier takes both bytes."""
        low_signed = self.i.a_signed if self.cfg.wide_lanes else self.i.a_signed & ~self.i.int16
        outputs = [(self.a_signed, Cat(low_signed, self.i.a_signed), 1, "a_signed")]
        if self.cfg.wide_lanes:
            outputs += [(self.wide, self.i.int16, 1, "wide")]
        if self.cfg.two_passes:
            outputs += [(self.odd_high, self.i.int16 & ~self.i.swapped, read - 2, "odd_high"),
                        (self.scaled, self.i.int16 & self.i.swapped, read + 1, "scaled")]
        for output, value, cycles, name in outputs:
            m.d.comb += output.eq(delayed(value, cycles, name, reset_less=True)[-1])
