"""CAT tree of one PE: reduction tree whose last two levels add, or accumulate sums of their own."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..lib.adder_tree import AdderTree
from ..lib.onehot import any_of
from ..parameters.matrix import DatapathParameters
from .cat_accumulators import CatAccumulators
from .layouts import TAP_ROW_BITS, TAPS, tap_banks, tap_layout, tap_read_bits
from .reduction_tree import element_product_bits, product_bits

__all__ = ["CatTree", "tap_sum_bits"]

PLACES = ("source_row", "source_bank", "product_row", "product_bank")


def tap_sum_bits(cfg):
    """Bits of a sum of up to ``dot`` products of a signed byte and a signed element of ``engine_element_bits``."""
    return element_product_bits(cfg) + exact_log2(cfg.dot)


class CatTree(Component):
    """CAT tree of a PE: adds ``dot`` products to one root, or to 1, 2 or 4 sums that accumulate apart [S3.4].

    Product i belongs to quarter i mod 4. A quarter has ``log2(dot) - 2`` levels; three adders remain, ``dot - 1`` adders in every mode:

    ========= =================== =================== =====================
    adder     CAT-1, ``mm``       CAT-2               CAT-4
    ========= =================== =================== =====================
    even      quarters 0 + 2      quarters 0 + 2      quarter 2 + register
    odd       quarters 1 + 3      quarters 1 + 3      quarter 3 + register
    root      even + odd          odd + register      quarter 1 + register
    ========= =================== =================== =====================

    Tap 0, which the PE accumulates in its product register, is the root, the even sum or quarter 0. The registers of the adders even, odd
    and root are those of tap 2, 3 and 1 (``CatAccumulators``).

    Parameters
    ----------
    cfg : DatapathParameters

    *Ports*:
    i : In(signed(product_bits(cfg))).array(dot)
        Products.
    odd_high : In(1)
        With ``two_passes``: the sum of odd products counts 2^16 times, log2(``dot``) - 2 cycles after the products.
    taps : In(tap_layout(cfg))
        Mode and accumulators of the last two levels.
    root : Out(signed(sum_bits))
        Sum of all products modulo 2^``sum_bits``, for ``mm``.
    sum : Out(signed(tap_sum_bits(cfg)))
        Tap 0; zero without ``taps.sum``.
    row : In(4)
        Row of an accumulator to read.
    bank : In(tap_read_bits(cfg))
        Its bank, one-hot over the banks of tap 1, then 2, then 3.
    tap_data : Out(32)
        This accumulator; zero without a bank. The OR of several with ``sparse``, where each tap may have a bank.
    each_tap : Out(32).array(3)
        With ``sparse``: the accumulators of taps 1 to 3; zero without a bank of the tap.

    *Latency*: with D = log2(``dot``) and the products in cycle 3, ``taps`` belongs to cycle 1 + D. Its fields ``late_…``, ``split`` and
    ``sum`` belong to cycle 2 + D. ``root`` and ``sum`` are valid in cycle 3 + D. Accumulators of tap 2 and 3 are written in cycle 1 + D, of
    tap 1 in cycle 2 + D. ``tap_data`` takes one cycle.

    *Throughput*: one set of products and one read a cycle, no back-pressure.

    *Reset*: none.
    """

    def __init__(self, cfg):
        self.cfg = cfg = DatapathParameters.of(cfg)
        super().__init__({
            "i": In(signed(product_bits(cfg))).array(cfg.dot),
            **({"odd_high": In(1)} if cfg.two_passes else {}),
            "taps": In(tap_layout(cfg)),
            "root": Out(signed(cfg.sum_bits)),
            "sum": Out(signed(tap_sum_bits(cfg))),
            "row": In(TAP_ROW_BITS),
            "bank": In(tap_read_bits(cfg)),
            "tap_data": Out(32),
            **({"each_tap": Out(32).array(TAPS - 1)} if cfg.sparse else {}),
        })

    def elaborate(self, platform):
        m = Module()
        files = [CatAccumulators(self.cfg) for _ in range(1, TAPS)]
        for tap, file in enumerate(files, 1):
            m.submodules[f"tap_{tap}"] = file
        quarters = [self._quarter(m, number) for number in range(4)]
        even, odd = self._first_level(m, quarters, files)
        self._last_level(m, even, odd, files[0])
        self._read(m, files)
        return m

    def _quarter(self, m, number):
        width = element_product_bits(self.cfg) if number % 2 else product_bits(self.cfg)
        m.submodules[f"quarter_{number}"] = tree = AdderTree(width, exact_log2(self.cfg.dot) - 2)
        m.d.comb += [element.eq(value) for element, value in zip(tree.i, list(self.i)[number::4], strict=True)]
        return tree.root

    def _first_level(self, m, quarters, files):
        """Even and odd sum, registered. A term that the mode does not use is zero, so that an OR selects."""
        taps, quarter_bits = self.taps, tap_sum_bits(self.cfg) - 2
        totals = []
        for number, name in enumerate(("even", "odd")):
            total, added, file = Signal(32, name=f"{name}_total"), Signal(signed(32), name=f"{name}_added"), files[number + 1]
            m.d.comb += [
                added.eq(file.source | Mux(taps.quarters, 0, quarters[number])),
                total.eq(added + quarters[number + 2]),
                file.total.eq(total),
                *(getattr(file, place).eq(getattr(taps, place)) for place in PLACES),
            ]
            totals.append(total)
        width = 32 if self.cfg.wide_lanes else quarter_bits + 1
        even, odd = Signal(signed(width), name="even", reset_less=True), Signal(signed(quarter_bits + 1), name="odd", reset_less=True)
        high = Signal(16, name="odd_high_s", reset_less=True)
        alone = [Signal(signed(quarter_bits), name=f"alone_{number}", reset_less=True) for number in range(2)]
        m.d.sync += [even.eq(totals[0]), odd.eq(totals[1]), alone[0].eq(quarters[0]), alone[1].eq(quarters[1])]
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
        total, added = Signal(32, name="root_total"), Signal(signed(32), name="root_added")
        root, summed = Signal.like(self.root, name="total", reset_less=True), Signal.like(self.sum, name="tap_0", reset_less=True)
        m.d.comb += [
            added.eq(file.source | Mux(taps.split, 0, even)),
            total.eq(added + odd),
            file.total.eq(total),
            *(getattr(file, place).eq(getattr(taps, f"late_{place}")) for place in PLACES),
            self.root.eq(root),
            self.sum.eq(summed),
        ]
        m.d.sync += [root.eq(total), summed.eq(Mux(taps.split, even | alone, total.as_signed()))]
        with m.If(~taps.sum):
            m.d.sync += summed.eq(0)

    def _read(self, m, files):
        m.d.comb += self.tap_data.eq(any_of(file.data for file in files))
        if self.cfg.sparse:
            m.d.comb += [data.eq(file.data) for data, file in zip(self.each_tap, files, strict=True)]
        for number, file in enumerate(files):
            m.d.comb += [file.row.eq(self.row), file.bank.eq(self.bank.word_select(number, tap_banks(self.cfg)))]
