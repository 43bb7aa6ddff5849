"""Limit of the waits for a bank of shared memory."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib.wiring import Component, In, Out

__all__ = ["BankPatience"]


class BankPatience(Component):
    """Limit of the waits for a bank: the port that has waited ``limit`` cycles has all banks for one cycle.

    Parameters
    ----------
    ports : int
        Number of ports that may have to wait.
    limit : int
        Cycles of waiting, a power of two.

    *Ports*:
    waits : In(ports)
        Port n keeps a request that was not granted completely.
    ends : In(ports)
        The last bank of that request grants in this cycle.
    alone : Out(ports)
        In this cycle only this port requests banks; one-hot or zero. Registered.

    *Latency*: a port is ``alone`` ``limit`` cycles after ``waits`` began, and one cycle later for each port that is served before.

    *Reset*: no port waits.
    """

    def __init__(self, ports, limit):
        self._ports, self._limit = ports, limit
        super().__init__({"waits": In(ports), "ends": In(ports), "alone": Out(ports)})

    def elaborate(self, platform):
        m = Module()
        asks = Signal(self._ports)
        for number in range(self._ports):
            cycles = Signal(range(self._limit), name=f"cycles_{number}")
            still = self.waits[number] & ~self.ends[number]
            m.d.comb += asks[number].eq(still & ~self.alone[number] & cycles.all())
            with m.If(~still):
                m.d.sync += cycles.eq(0)
            with m.Elif(~cycles.all()):
                m.d.sync += cycles.eq(cycles + 1)
        m.d.sync += self.alone.eq(asks & ~Cat(asks[:number].any() for number in range(self._ports)))
        return m
