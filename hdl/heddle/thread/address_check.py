"""Address check of a group of threads."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out

from ..isa.encoding import ACCESS_BYTES, Access, Space
from ..parameters.thread import ThreadParameters

__all__ = ["AddressCheck"]


class AddressCheck(Component):
    """Alignment and range check of the addresses of one group of threads.

    Parameters
    ----------
    cfg : ThreadParameters
        ``slots`` is ``min(thread_slots, threads)``, the number of SIMD lanes.

    *Ports*:
    addresses : In(32).array(slots)
        Byte address of each SIMD lane.
    active : In(slots)
        SIMD lanes whose thread makes the access; only these are checked.
    access : In(Access)
        Width of the access: an address must be a multiple of its bytes.
    space : In(Space)
        Memory: an address must lie below the size of shared memory, or below ``2**axi_address_bits``.
    bad : Out(1)
        An active address is misaligned or out of range.
    bad_slot : Out(range(slots))
        The lowest SIMD lane with such an address; 0 without one.
    misaligned : Out(1)
        With ``bad``: the address of ``bad_slot`` is misaligned, else it is out of range.

    *Latency*: combinational.

    *Reset*: no state.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
        self.slots = min(cfg.thread_slots, cfg.threads)
        super().__init__({
            "addresses": In(32).array(self.slots),
            "active": In(self.slots),
            "access": In(Access),
            "space": In(Space),
            "bad": Out(1),
            "bad_slot": Out(range(self.slots)),
            "misaligned": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        low_bits = Signal(4)                # bits that are zero in an aligned address
        with m.Switch(self.access):
            for access, size in ACCESS_BYTES.items():
                with m.Case(access):
                    m.d.comb += low_bits.eq(size - 1)
        shared_outside = C((1 << 32) - (1 << self.cfg.shared_address_bits), 32)
        global_outside = C((1 << 32) - (1 << self.cfg.axi_address_bits), 32)
        wrong, misaligned = Signal(self.slots), Signal(self.slots)
        for slot, address in enumerate(self.addresses):
            outside = Mux(self.space == Space.SHARED, (address & shared_outside).any(), (address & global_outside).any())
            m.d.comb += [
                misaligned[slot].eq((address[:4] & low_bits).any()),
                wrong[slot].eq(self.active[slot] & (outside | misaligned[slot])),
            ]
        for slot in reversed(range(self.slots)):
            with m.If(wrong[slot]):
                m.d.comb += [self.bad_slot.eq(slot), self.misaligned.eq(misaligned[slot])]
        m.d.comb += self.bad.eq(wrong.any())
        return m
