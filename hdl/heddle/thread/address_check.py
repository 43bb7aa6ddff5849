"""Checks of the addresses of a group of threads."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out

from ..isa.encoding import ACCESS_BYTES, Access, Space
from ..isa.error_codes import ErrorCode

__all__ = ["AddressCheck"]


class AddressCheck(Component):
    """Says whether and where an active thread of a group has an address that is not aligned or outside its memory.

    Combinational.

    Members
    -------
    addresses, active
        Of the group.
    access, space
        Of the operation.
    bad, bad_slot
        Some active address is wrong; the lowest slot with one.
    address, code
        ``code`` is the error of ``address``, supposing that it has one: MISALIGNED comes before OUT_OF_RANGE.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        self.slots = min(cfg.thread_slots, cfg.threads)
        super().__init__({
            "addresses": In(32).array(self.slots),
            "active": In(self.slots),
            "access": In(Access),
            "space": In(Space),
            "bad": Out(1),
            "bad_slot": Out(range(self.slots)),
            "address": In(32),
            "code": Out(ErrorCode),
        })

    def elaborate(self, platform):
        m = Module()
        low_bits = Signal(4)                # that an aligned address has clear
        with m.Switch(self.access):
            for access, size in ACCESS_BYTES.items():
                with m.Case(access):
                    m.d.comb += low_bits.eq(size - 1)
        shared_outside = C((1 << 32) - (1 << self.cfg.shared_address_bits), 32)
        global_outside = C((1 << 32) - (1 << self.cfg.axi_address_bits), 32)
        wrong = Signal(self.slots)
        for slot, address in enumerate(self.addresses):
            outside = Mux(self.space == Space.SHARED, (address & shared_outside).any(), (address & global_outside).any())
            m.d.comb += wrong[slot].eq(self.active[slot] & (outside | (address[:4] & low_bits).any()))
        for slot in reversed(range(self.slots)):
            with m.If(wrong[slot]):
                m.d.comb += self.bad_slot.eq(slot)
        m.d.comb += [
            self.bad.eq(wrong.any()),
            self.code.eq(Mux((self.address[:4] & low_bits).any(), ErrorCode.MISALIGNED, ErrorCode.OUT_OF_RANGE)),
        ]
        return m
