"""Members that are connected by name fit each other, or elaboration says which do not."""

import pytest
from amaranth.hdl import Module
from amaranth.lib.wiring import Component, ConnectionError, In, Out, SignatureError, flipped
from amaranth.sim import Simulator
from heddle.lib.members import connect_members


class Source(Component):
    numbers: Out(8).array(3)
    start: In(1)
    other: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [number.eq(10 + index + self.start) for index, number in enumerate(self.numbers)]
        return m


class Outside(Component):
    """Shows what its source gives."""

    numbers: Out(8).array(3)
    start: In(1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.source = source = Source()
        connect_members(m, flipped(self), source, ("start", "numbers"))
        return m


def test_members_are_connected():
    outside, seen = Outside(), []

    async def bench(ctx):
        for start in (0, 1):
            ctx.set(outside.start, start)
            seen.append([ctx.get(number) for number in outside.numbers])

    sim = Simulator(outside)
    sim.add_testbench(bench)
    sim.run()
    assert seen == [[10, 11, 12], [11, 12, 13]]


@pytest.mark.parametrize("member", [In(7).array(3), In(8).array(2), In(8).array(4), Out(8).array(3), In(8, init=1).array(3)])
def test_members_that_do_not_fit(member):
    with pytest.raises(ConnectionError, match="numbers"):
        connect_members(Module(), Source(), Component({"numbers": member}), ("numbers",))


def test_a_member_that_is_not_there():
    with pytest.raises(SignatureError, match="missing"):
        connect_members(Module(), Source(), Source(), ("missing",))
