"""Activation functions: sigmoid, tanh, ReLU and identity of signed 18-bit fixed-point numbers."""

import itertools
import math

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from ..lib.rounding import add_carry
from .layouts import ACTIVATION_FRACTION, SUM_FRACTION, Function

__all__ = ["ACTIVATION_LATENCY", "INTERVALS", "Activation", "interval_layout", "interval_table"]

ACTIVATION_LATENCY = 3      # cycles from an argument to its function
INTERVALS = 256             # rows of the table, each 2^-5 of the argument of tanh
PART_BITS = SUM_FRACTION + 1 - 5
ONE = 1 << ACTIVATION_FRACTION

interval_layout = data.StructLayout({"base": ACTIVATION_FRACTION + 1, "slope": 11})


def interval_table():
    """Rows of the interpolation table of tanh: ``base``, the value at the start of an interval, and ``slope``, the increment over the
    interval; both in units of 2^-16.
    """
    base = [round(ONE * math.tanh(index / 32)) for index in range(INTERVALS + 1)]
    return [{"base": begin, "slope": end - begin} for begin, end in itertools.pairwise(base)]


class Activation(Component):
    """Activation unit: sigmoid, tanh, ReLU or identity of a signed 18-bit number by table and linear interpolation [S3.5].

    The argument has 13 fraction bits for sigmoid and tanh. Sigmoid uses the table of tanh with half the argument. docs/units/rnn.md
    defines the result bit by bit.

    *Ports*:
    argument : In(signed(18))
        Argument.
    limited : In(1)
        The argument exceeds 18 bits and counts as the largest magnitude of its sign.
    find : In(Function)
        Function, in the cycle of the argument: selects the address of the table.
    interpolate : In(Function)
        The same function, two cycles after the argument.
    finish : In(Function)
        The same function, three cycles after the argument.
    result : Out(signed(18))
        Function value with 16 fraction bits for sigmoid and tanh, else those of the argument.

    *Latency*: ``ACTIVATION_LATENCY`` (3) cycles from ``argument`` to ``result``. ``result`` is combinational from ``finish``, a
    register and one adder. The table address is combinational from ``argument``, ``limited`` and ``find``.

    *Throughput*: one argument a cycle.

    *Back-pressure*: none; the pipeline never stalls.

    *Reset*: no register has a reset.

    *Area*: one block RAM of ``INTERVALS`` rows, one multiplier.

    *Source*: [S3.5].
    """

    def __init__(self):
        super().__init__({
            "argument": In(signed(18)), "limited": In(1), "find": In(Function), "interpolate": In(Function), "finish": In(Function),
            "result": Out(signed(18)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.intervals = intervals = Memory(shape=interval_layout, depth=INTERVALS, init=interval_table())
        read = intervals.read_port()
        v, negative = self.argument, self.argument[-1]

        # Position in the table. An argument that is not looked up has part 0 and sign 0; its value replaces the base. The magnitude of a
        # negative argument is its complement plus one. The complement finds the interval, and the one is added to the part, a cycle later:
        # a part of a whole interval gives the base of the next one. The last interval has slope 0.
        size, place, looked_up = Signal(17), Signal(17), Signal()
        tanh = self.find == Function.TANH
        m.d.comb += [
            looked_up.eq(tanh | (self.find == Function.SIGMOID)),
            size.eq(v ^ negative.replicate(18)),
            place.eq(Mux(tanh, size << 1, size) | (self.limited | (tanh & size[16])).replicate(17)),
            read.addr.eq(place[PART_BITS:]),
        ]
        part, minus, value, rectified = Signal(PART_BITS + 1), Signal(), Signal(signed(18)), Signal()
        m.d.comb += [
            part.eq(place[:PART_BITS] & looked_up.replicate(PART_BITS)),
            minus.eq(negative & looked_up),
            rectified.eq(negative & (self.find == Function.RELU)),
            value.eq(Mux(self.limited, Cat((~negative).replicate(17), negative), v) & ~rectified.replicate(18)),
        ]
        later, doubled = {}, Signal(reset_less=True)        # doubled: tanh, which has twice the argument
        m.d.sync += doubled.eq(tanh)
        for cycle in (1, 2):
            for name, source in (("part", part), ("minus", minus), ("value", value)):
                register = Signal(source.shape(), name=f"{name}_{cycle}", reset_less=True)
                m.d.sync += register.eq(later.get(name, source))
                later[name] = register
            if cycle == 1:
                later["part"] = later["part"] + Mux(doubled, later["minus"] << 1, later["minus"])

        interval = Signal(interval_layout, reset_less=True)
        base, product, turned = Signal(signed(19), reset_less=True), Signal(PART_BITS + 11, reset_less=True), Signal(reset_less=True)
        sign, halved = later["minus"], self.interpolate == Function.SIGMOID
        origin = Cat(halved ^ sign, halved & sign, Const(0, ACTIVATION_FRACTION - 2), halved)      # 2^16 + 1 for sigmoid; 1 for a sign
        signed_base = (Cat(interval.base, 0) ^ sign.replicate(18)).as_signed() + origin
        m.d.sync += [
            interval.eq(read.data),
            base.eq(Mux(self.interpolate.as_value()[0] ^ self.interpolate.as_value()[1], signed_base, later["value"])),
            product.eq(interval.slope * later["part"]),
            turned.eq(sign),
        ]
        total = Signal(signed(19))
        step = Cat(product[PART_BITS:], 0) ^ turned.replicate(12)
        m.d.comb += [
            total.eq(add_carry(base, step.as_signed(), product[PART_BITS - 1] ^ turned)),
            self.result.eq(Mux(self.finish == Function.SIGMOID, total[1:], total[:18])),
        ]
        return m
