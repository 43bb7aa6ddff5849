"""Lane of the activation pipeline: one sum to one result."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from ..lib.delay import Delay
from ..lib.onehot import select_one_hot
from ..lib.rounding import add_carry, add_rounded, round_right, saturate
from .activation import Activation
from .layouts import DISTRIBUTED, Function

__all__ = ["GATE_CYCLE", "LANE_LATENCY", "SUM_CYCLE", "TailLane", "tail_control_layout"]

LANE_LATENCY = 13           # cycles from ``sum`` to ``result``
SUM_CYCLE, GATE_CYCLE = 2, 5    # cycles that write stored sum and gate; cycle 1 of a later operation reads both

# Control of the lanes by an operation; the suffix is the cycle after the sum in which the field is used.
tail_control_layout = data.StructLayout({
    "shift_0": 5,
    "beyond_0": 14,             # mask of sum bits 17 to 30 that are at bit 17 or above after the shift
    "load_state_0": 1,
    "wide_state_0": 1,
    "multiplier_1": 16,
    "gated_1": 1,               # gate * stored sum, else operand * state
    "second_group_1": 1,        # group of the pair: selects gate and stored sum
    "gated_2": 1,
    "peephole_2": 1,
    "keep_sum_2": 1,
    "second_group_2": 1,
    "function_2": Function,
    "function_4": Function,
    "function_5": Function,
    "shift_activation_5": 3,
    "keep_gate_5": 1,
    "second_group_5": 1,
    "keep_activation_6": 1,
    "second_group_6": 1,
    "times_kept_6": 1,
    "times_state_6": 1,
    "blend_6": 1,
    "add_activation_7": 1,
    "add_result_7": 1,
    "step_7": 1,                # the operation is not idle
    "load_state_7": 1,
    "new_cell_7": 1,            # cell function STATE
    "second_7": Function,
    "second_9": Function,
    "second_10": Function,
    "shift_second_10": 3,
    "output_12": 1,
    "wide_result_12": 1,
})


class TailLane(Component):
    """Lane of the activation pipeline: de-quantises a sum, applies peephole or gate, activation function and cell function [S3.5].

    docs/units/rnn.md defines the arithmetic bit by bit. Operations of one element pass values to later operations of the same element:
    state, gate, stored sum, stored activation and last result. Gate, stored sum and stored activation exist once for each group of a
    pair.

    *Ports*:
    control : In(tail_control_layout)
        Control bits. Field ``<name>_<n>`` belongs to the sum of n cycles before. In cycles without an operation the load bits
        (``load_state``, ``keep_*``, ``step``, ``new_cell``) must be 0.
    sum : In(32)
        Signed sum.
    operand : In(signed(16))
        Operand of vector memory, in the cycle of ``sum``.
    result : Out(signed(16))
        Result; registered.

    *Latency*: ``LANE_LATENCY`` (13) cycles from ``sum`` to ``result``. A later operation reads the stored sum in its cycle 1, written
    in cycle ``SUM_CYCLE`` (2), and the gate written in cycle ``GATE_CYCLE`` (5).

    *Throughput*: one sum a cycle.

    *Back-pressure*: none; the lane never stalls.

    *Reset*: none; stored values are undefined until an operation writes them.

    *Area*: six multipliers of at most 18 x 18 bits, two block RAMs.

    *Source*: [S3.5].
    """

    def __init__(self):
        super().__init__({"control": In(tail_control_layout), "sum": In(32), "operand": In(signed(16)), "result": Out(signed(16))})

    def elaborate(self, platform):
        m = Module()
        state = self._state(m)
        total, argument, limited = self._sum(m, state)
        m.submodules.function = function = Activation()
        control = self.control
        m.d.comb += [
            function.argument.eq(argument), function.limited.eq(limited), function.find.eq(control.function_2),
            function.interpolate.eq(control.function_4), function.finish.eq(control.function_5),
        ]
        self._keep(m, self._kept_sums, control.keep_sum_2, control.second_group_2, total)
        self._keep(m, self._gates, control.keep_gate_5, control.second_group_5, function.result)
        result, cell = self._cell(m, function.result, state)
        self._output(m, result, cell)
        return m

    def _kept(self, m, name, second_group):
        """Memory of a value that operations store for later operations, one row for each group of a pair; returns the memory and its
        read data.
        """
        m.submodules[name] = memory = Memory(shape=signed(18), depth=2, init=[], attrs=DISTRIBUTED)
        read = memory.read_port(domain="comb")
        m.d.comb += read.addr.eq(second_group)
        return memory, read.data

    def _keep(self, m, memory, enable, second_group, value):
        write = memory.write_port()
        m.d.comb += [write.en.eq(enable), write.addr.eq(second_group), write.data.eq(value)]

    def _state(self, m):
        """The state, in the cycle after the sum."""
        control = self.control
        state = Signal(signed(18), reset_less=True)
        with m.If(control.load_state_0):
            m.d.sync += state.eq(Mux(control.wide_state_0, self.operand << 2, self.operand))
        return state

    def _shift(self, m):
        """The sum, shifted right with rounding and saturated to 18 bits; in cycle 0. Overflow is detected before the shift."""
        value, sign = self.sum.as_signed(), self.sum[-1]
        kept = Cat(0, value).as_signed()        # with the last bit that is shifted out, for rounding
        for level in reversed(range(5)):
            after = Signal(signed(min(len(kept), 18 + (1 << level))), name=f"shifted_{level}")
            m.d.comb += after.eq(Mux(self.control.shift_0[level], kept >> (1 << level), kept))
            kept = after
        total, over = Signal(signed(18)), Signal()
        m.d.comb += [
            total.eq(kept[1:].as_signed() + kept[0]),
            # The greatest number is not rounded up. This is seen beside the addition, not behind its carries.
            over.eq(((self.sum[17:31] ^ sign.replicate(14)) & self.control.beyond_0).any() | (~kept[18] & kept[:18].all())),
        ]
        return Mux(over, Cat((~sign).replicate(17), sign), total)

    def _sum(self, m, state):
        """The de-quantised sum v, and v as argument of the activation function; both in cycle 2."""
        control = self.control
        scaled = self._shift(m)
        scaled_1, operand_1 = Signal(signed(18), reset_less=True), Signal(signed(16), reset_less=True)
        self._kept_sums, kept_sum = self._kept(m, "kept_sums", control.second_group_1)
        self._gates, gate = self._kept(m, "gates", control.second_group_1)
        product, before = Signal(signed(36), name="product_2", reset_less=True), Signal(signed(36), name="before_2", reset_less=True)
        m.d.sync += [
            scaled_1.eq(scaled),
            operand_1.eq(self.operand),
            product.eq(scaled_1 * Cat(control.multiplier_1, 0).as_signed()),
            before.eq(Mux(control.gated_1, gate, operand_1) * Mux(control.gated_1, kept_sum, state)),
        ]
        # Two numbers and the round bits of both: a level of full adders and one carry chain.
        shifted, added, total = (Signal(signed(bits), name=name) for name, bits in (("shifted", 24), ("added", 24), ("total_2", 25)))
        bit = Signal()
        m.d.comb += [
            shifted.eq(product[16:].as_signed()),
            added.eq(select_one_hot((control.gated_2, control.peephole_2), (before[16:].as_signed(), before[12:].as_signed()))),
            bit.eq(select_one_hot((control.gated_2, control.peephole_2), (before[15], before[11]))),
            total.eq(add_carry(shifted ^ added, Cat(bit, shifted & added).as_signed(), product[15])),
        ]
        limited, over = saturate(m, total, 18, "v_2")
        return limited, Cat(total[:17], total[-1]).as_signed(), over

    def _cell(self, m, function, state):
        """Result r of the cell function and cell state, one cycle before the next operation reads them."""
        control = self.control
        m.submodules.state_delay = delay = Delay(signed(18), 5)
        function_6, activation_6 = (Signal(signed(18), name=name, reset_less=True) for name in ("function_6", "activation_6"))
        activations, kept = self._kept(m, "kept_activations", control.second_group_6)
        m.d.comb += delay.i.eq(state)
        m.d.sync += [function_6.eq(function), activation_6.eq(round_right(m, function, control.shift_activation_5, "activation_5"))]
        self._keep(m, activations, control.keep_activation_6, control.second_group_6, function_6)
        difference = Signal(signed(19))
        m.d.comb += difference.eq(delay.o - activation_6)
        limited, _ = saturate(m, difference, 18, "difference_6")
        left, right = Signal(signed(18)), Signal(signed(18))
        m.d.comb += [
            left.eq(select_one_hot((control.times_kept_6, control.times_state_6), (kept, delay.o))),
            right.eq(Mux(control.blend_6, limited, activation_6)),
        ]
        product, activation_7 = Signal(signed(36), name="product_7", reset_less=True), Signal(signed(18), reset_less=True)
        state_7, result, cell = (Signal(signed(18), name=name, reset_less=True) for name in ("state_7", "result_8", "cell"))
        m.d.sync += [product.eq(left * right), activation_7.eq(activation_6), state_7.eq(delay.o)]
        added, total = Signal(signed(18)), Signal(signed(22))
        m.d.comb += [
            added.eq(select_one_hot((control.add_activation_7, control.add_result_7), (activation_7, result))),
            total.eq(add_rounded(product, 16, added)),
        ]
        limited, _ = saturate(m, total, 18, "r_7")
        argument = Signal(signed(18))
        m.d.comb += argument.eq(Mux(control.load_state_7, state_7, cell))
        with m.If(control.step_7):
            m.d.sync += result.eq(limited)
        with m.If(control.new_cell_7 | control.load_state_7):
            m.d.sync += cell.eq(Mux(control.new_cell_7, limited, state_7))
        return result, argument

    def _output(self, m, result, cell):
        """Second function of ``cell`` (cycle 7) times ``result`` (cycle 8), and selection of the result of the lane."""
        control = self.control
        m.submodules.second = second = Activation()
        m.submodules.result_delay = delay = Delay(signed(18), 3)
        m.d.comb += [
            second.argument.eq(cell), second.find.eq(control.second_7), second.interpolate.eq(control.second_9),
            second.finish.eq(control.second_10), delay.i.eq(result),
        ]
        second_11, result_12 = Signal(signed(18), reset_less=True), Signal(signed(18), reset_less=True)
        product = Signal(signed(36), name="product_12", reset_less=True)
        m.d.sync += [
            second_11.eq(round_right(m, second.result, control.shift_second_10, "second_10")),
            product.eq(delay.o * second_11),
            result_12.eq(delay.o),
        ]
        total, chosen, narrow = Signal(signed(21)), Signal(signed(18)), Signal(signed(18))
        m.d.comb += total.eq(product[16:].as_signed() + product[15])
        limited, _ = saturate(m, total, 18, "output_12")
        m.d.comb += [
            chosen.eq(Mux(control.output_12, limited, result_12)),
            narrow.eq(Mux(control.wide_result_12, chosen[2:].as_signed() + chosen[1], chosen)),
        ]
        narrow, _ = saturate(m, narrow, 16, "narrow_12")
        m.d.sync += self.result.eq(narrow)
        return m
