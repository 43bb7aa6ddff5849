"""The adder tree of one lane with a configurable tail: its last levels add, or accumulate sums of their own."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from .lane_tree import ELEMENT_PRODUCT_BITS, product_bits
from .layouts import TAP_ADDRESS_BITS, tap_layout
from .reduction_tree import ReductionTree
from .tap_file import TapFile

__all__ = ["TAPS", "TapTree", "tap_sum_bits"]

TAPS = 4


def tap_sum_bits(cfg):
    """Bits of a sum of up to ``dot`` products of a signed byte and a signed element of 16 bits."""
    return ELEMENT_PRODUCT_BITS + exact_log2(cfg.dot)


class TapTree(Component):
    """Adds the ``dot`` products of a lane like ``LaneTree``, or makes 1, 2 or 4 sums of them, each accumulated apart [S3.4].

    Product i belongs to quarter i mod 4. Quarters are added with ``log2(dot) - 2`` levels each; three adders remain:

    ========= =================== =================== =====================
    adder     CAT-1, ``mm``       CAT-2               CAT-4
    ========= =================== =================== =====================
    even      quarters 0 + 2      quarters 0 + 2      quarter 2 + register
    odd       quarters 1 + 3      quarters 1 + 3      quarter 3 + register
    root      even + odd          odd + register      quarter 1 + register
    ========= =================== =================== =====================

    so tap 0, which the lane accumulates, is the root, the even sum or quarter 0. Registers are those of tap 2, 3 and 1 (``TapFile``);
    a sum is written in the cycle in which it is formed. There are ``dot - 1`` adders in every mode.

    With D = log2(dot) and products in cycle 3, ``taps`` goes with cycle 1 + D (``late_…``, ``split`` and ``sum``: with the next one),
    ``root`` and ``sum`` stand in cycle 3 + D; registers of tap 2 and 3 are written in cycle 1 + D, of tap 1 in cycle 2 + D. ``sum`` is
    zero without ``taps.sum``. ``root`` is for ``mm``, modulo 2^sum_bits. Throughput one set of products a cycle; nothing is
    held back; no register is reset.

    Reads: ``tap_data`` is register ``register`` of the tap of ``read_tap``, a cycle later, zero without one.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i : In(signed(product_bits(cfg))).array(dot)
    odd_high : In(1)
        With ``two_passes`` only; see ``LaneTree``.
    taps : In(tap_layout)
    root : Out(signed(sum_bits))
    sum : Out(signed(tap_sum_bits(cfg)))
    register : In(TAP_ADDRESS_BITS)
    read_tap : In(3)
        Taps 1 to 3, one hot.
    tap_data : Out(32)
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "i": In(signed(product_bits(cfg))).array(cfg.dot),
            **({"odd_high": In(1)} if cfg.two_passes else {}),
            "taps": In(tap_layout),
            "root": Out(signed(cfg.sum_bits)),
            "sum": Out(signed(tap_sum_bits(cfg))),
            "register": In(TAP_ADDRESS_BITS),
            "read_tap": In(TAPS - 1),
            "tap_data": Out(32),
        })

    def elaborate(self, platform):
        m = Module()
        files = [TapFile() for _ in range(1, TAPS)]
        for tap, file in enumerate(files, 1):
            m.submodules[f"tap_{tap}"] = file
        quarters = [self._quarter(m, number) for number in range(4)]
        even, odd = self._first_level(m, quarters, files)
        self._last_level(m, even, odd, files[0])
        self._read(m, files)
        return m

    def _quarter(self, m, number):
        width = ELEMENT_PRODUCT_BITS if number % 2 else product_bits(self.cfg)
        m.submodules[f"quarter_{number}"] = tree = ReductionTree(width, exact_log2(self.cfg.dot) - 2)
        m.d.comb += [element.eq(value) for element, value in zip(tree.i, list(self.i)[number::4], strict=True)]
        return tree.root

    def _first_level(self, m, quarters, files):
        """Even and odd sum, registered. What a mode does not use is held at zero, so that an OR selects."""
        taps, quarter_bits = self.taps, tap_sum_bits(self.cfg) - 2
        totals = []
        for number, name in enumerate(("even", "odd")):
            total, file = Signal(32, name=f"{name}_total"), files[number + 1]
            added = Mux(taps.quarters, Mux(taps.zero, 0, file.source_data.as_signed()), quarters[number])
            m.d.comb += [
                total.eq(added + quarters[number + 2]),
                file.source.eq(taps.source),
                file.product.eq(taps.product),
                file.write.eq(taps.quarters),
                file.total.eq(total),
            ]
            totals.append(total)
        width = 32 if self.cfg.wide_lanes else quarter_bits + 1
        even, odd = Signal(signed(width), name="even", reset_less=True), Signal(signed(quarter_bits + 1), name="odd", reset_less=True)
        high = Signal(16, name="odd_high_s", reset_less=True)
        alone = [Signal(signed(quarter_bits), name=f"alone_{number}", reset_less=True) for number in range(2)]
        m.d.sync += [even.eq(totals[0]), odd.eq(totals[1]), *(value.eq(quarter) for value, quarter in zip(alone, quarters))]
        with m.If(taps.quarters):
            m.d.sync += [even.eq(0), odd.eq(0)]
        with m.Else():
            m.d.sync += [value.eq(0) for value in alone]
        joined = odd | alone[1]
        if self.cfg.two_passes:
            m.d.sync += high.eq(totals[1])
            with m.If(self.odd_high):
                m.d.sync += odd.eq(0)
            with m.Else():
                m.d.sync += high.eq(0)
            joined |= Cat(Const(0, 16), high).as_signed()
        return (even, alone[0]), joined

    def _last_level(self, m, even, odd, file):
        taps, (even, alone) = self.taps, even
        total = Signal(32, name="root_total")
        root, summed = Signal.like(self.root, name="total", reset_less=True), Signal.like(self.sum, name="tap_0", reset_less=True)
        m.d.comb += [
            total.eq(Mux(taps.split, Mux(taps.late_zero, 0, file.source_data.as_signed()), even) + odd),
            file.source.eq(taps.late_source),
            file.product.eq(taps.late_product),
            file.write.eq(taps.split),
            file.total.eq(total),
            self.root.eq(root),
            self.sum.eq(summed),
        ]
        m.d.sync += [root.eq(total), summed.eq(Mux(taps.split, even | alone, total.as_signed()))]
        with m.If(~taps.sum):
            m.d.sync += summed.eq(0)

    def _read(self, m, files):
        values = [Signal(32, name=f"tap_read_{tap}", reset_less=True) for tap in range(1, TAPS)]
        m.d.comb += self.tap_data.eq(values[0] | values[1] | values[2])
        for value, file, chosen in zip(values, files, self.read_tap):
            m.d.comb += file.register.eq(self.register)
            m.d.sync += value.eq(file.data)
            with m.If(~chosen):
                m.d.sync += value.eq(0)
