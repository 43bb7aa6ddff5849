"""The swizzle of 128 bytes: in which banks of shared memory the 16-byte blocks of eight rows land.

Without it block b lies in bank b: a column of blocks comes from one bank, in eight cycles. With it, from eight banks in one.
"""

from amaranth.hdl import Module
from amaranth.lib.wiring import Component, In, Out
from amaranth.sim import Simulator
from heddle import Config, Swizzle, exchange_of, swizzle, swizzle_field

CFG = Config(tensors=True)      # with the swizzles of 32, 64 and 128 bytes


class Swizzler(Component):
    """Swizzle of one row: a bit for each block becomes a bit for each bank."""

    row: In(3)
    blocks: In(8)
    banks: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.banks.eq(swizzle(m, "banks", self.blocks, exchange_of(CFG, swizzle_field(CFG, Swizzle.B128), self.row)))
        return m


def main():
    swizzler, table = Swizzler(), []

    async def bench(ctx):
        for place in range(64):
            ctx.set(swizzler.row, place // 8)
            ctx.set(swizzler.blocks, 1 << place % 8)
            table.append(ctx.get(swizzler.banks).bit_length() - 1)

    sim = Simulator(swizzler)
    sim.add_testbench(bench)
    sim.run()
    print("banks of the blocks of rows 0 to 7:", *(table[8 * row:][:8] for row in range(8)), sep="\n")
    assert table == [block ^ row for row in range(8) for block in range(8)]


if __name__ == "__main__":
    main()
