"""Delay lines of a fixed number of cycles."""

from amaranth.hdl import Module, Shape, Signal, Value
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from ..errors import UsageError

__all__ = ["Delay", "Stages"]

SHORTEST_MEMORY = 4     # least delay in cycles for which a memory is smaller than registers


class Delay(Component):
    """Delay line: ``o`` is ``i`` of ``cycles`` cycles before.

    Below ``SHORTEST_MEMORY`` (4) cycles a chain of registers; from 4 cycles on a memory of ``cycles - 1`` rows as ring buffer and one
    register.

    Parameters
    ----------
    shape : ShapeLike
        Shape of input and output.
    cycles : int
        Delay, at least 1.

    *Ports*:
    i : In(shape)
        Value.
    o : Out(shape)
        Value of ``cycles`` cycles before.

    *Latency*: ``cycles`` cycles.

    *Throughput*: one value a cycle.

    *Back-pressure*: none; the line has no enable.

    *Reset*: the data have no reset.

    *Errors*: ``UsageError`` where ``cycles`` is not an integer of at least 1.
    """

    def __init__(self, shape, cycles):
        if not isinstance(cycles, int) or cycles < 1:
            raise UsageError(f"cycles must be an integer of at least 1, not {cycles!r}")
        self.cycles = cycles
        self.shape = shape
        super().__init__({"i": In(shape), "o": Out(shape)})

    def elaborate(self, platform):
        m = Module()
        value, result = Value.cast(self.i), Value.cast(self.o)
        if self.cycles < SHORTEST_MEMORY:
            for cycle in range(self.cycles):
                later = Signal(Shape.cast(self.shape), name=f"later_{cycle + 1}", reset_less=True)
                m.d.sync += later.eq(value)
                value = later
            m.d.comb += result.eq(value)
            return m
        rows = self.cycles - 1
        m.submodules.storage = storage = Memory(shape=len(value), depth=rows, init=[])
        write, read = storage.write_port(), storage.read_port(domain="comb")
        row = Signal(range(rows))
        later = Signal(Shape.cast(self.shape), reset_less=True)
        m.d.comb += [write.en.eq(1), write.addr.eq(row), write.data.eq(value), read.addr.eq(row), result.eq(later)]
        m.d.sync += [row.eq(row + 1), later.eq(read.data)]
        with m.If(row == rows - 1):
            m.d.sync += row.eq(0)
        return m


class Stages:
    """Pipeline stages of a value: registers that are added to a module on demand.

    Parameters
    ----------
    m : Module
        Module of the registers.
    value : Signal
        Value at stage 0.
    name : str
        Name prefix of the registers; the suffix is the stage.
    reset : bool
        Whether a reset clears the registers.
    """

    def __init__(self, m, value, name, reset=False):
        self._m, self._name, self._reset = m, name, reset
        self._values = [value]

    def __getitem__(self, cycles):
        """The value delayed by ``cycles`` cycles."""
        values = self._values
        while len(values) <= cycles:
            later = Signal(Shape.cast(values[0].shape()), name=f"{self._name}_{len(values)}", reset_less=not self._reset)
            self._m.d.sync += later.eq(values[-1])
            values.append(later)
        return values[cycles]
