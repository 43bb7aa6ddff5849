"""Broadcast network from the fetch slots to the PEs."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..parameters.matrix import MatrixParameters

__all__ = ["BroadcastNetwork", "spread"]


def spread(values, wide):
    """``values`` with the first ones repeated in all places: 2, 4, … of them when bits 0, 1, … of ``wide`` are set, else one."""
    result = list(values[:1])
    for level in range(exact_log2(len(values))):
        result += [Mux(wide[level], own, copy) for own, copy in zip(values[len(result):2 * len(result)], result, strict=True)]
    return result


class BroadcastNetwork(Component):
    """Broadcast network: repeats the words of the first fetch slots, so that PE t finds its word in slot t mod ``fetch_slots`` [S0.5-S0.7].

    Area: ``log2(fetch_slots)`` levels with ``fetch_slots - 1`` two-input multiplexers for each bit, common to all PEs; wires with one
    slot.

    Parameters
    ----------
    cfg : MatrixParameters

    *Ports*:
    i : In(signed(element_bits)).array(fetch_slots, dot)
        Word of each fetch slot.
    wide : In(log2(fetch_slots))
        Bit l: a merge group has more than 2**l PEs. Absent with one slot.
    o : Out(signed(element_bits)).array(fetch_slots, dot)
        Words as the PEs see them.

    *Latency*: combinational.

    *Reset*: no state.
    """

    def __init__(self, cfg):
        self.cfg = cfg = MatrixParameters.of(cfg)
        members = {
            "i": In(signed(cfg.element_bits)).array(cfg.fetch_slots, cfg.dot),
            "o": Out(signed(cfg.element_bits)).array(cfg.fetch_slots, cfg.dot),
        }
        if cfg.fetch_slots > 1:
            members["wide"] = In(exact_log2(cfg.fetch_slots))
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        wide = self.wide if self.cfg.fetch_slots > 1 else ()
        for element in range(self.cfg.dot):
            values = []
            for value in spread([word[element] for word in self.i], wide):
                place = len(values)
                values.append(Signal(signed(self.cfg.element_bits), name=f"word_{place}_{element}"))
                m.d.comb += [values[-1].eq(value), self.o[place][element].eq(values[-1])]
        return m
