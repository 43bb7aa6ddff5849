"""A queue of four items between a fast source and a slow sink: it fills up, holds the source back, and keeps the order.

A stream moves an item in each cycle in which ``valid`` and ``ready`` are both 1.
"""

from amaranth.sim import Simulator
from heddle import Queue

NUMBERS = [3, 1, 4, 1, 5, 9, 2, 6]


def main():
    queue = Queue(8, depth=4)           # items of 8 bits
    levels, received = [], []

    async def source(ctx):
        ctx.set(queue.i.valid, 1)
        for number in NUMBERS:
            ctx.set(queue.i.payload, number)
            await ctx.tick().until(queue.i.ready)
        ctx.set(queue.i.valid, 0)

    async def sink(ctx):
        while len(received) < len(NUMBERS):
            await ctx.tick().repeat(3)
            ctx.set(queue.o.ready, 1)
            number, = await ctx.tick().sample(queue.o.payload).until(queue.o.valid)
            ctx.set(queue.o.ready, 0)
            received.append(number)
            levels.append(ctx.get(queue.level))

    sim = Simulator(queue)
    sim.add_clock(1e-6)
    sim.add_testbench(source)
    sim.add_testbench(sink)
    sim.run()
    print("went in", NUMBERS, "\ncame out", received, "\nitems left each time", levels)
    assert received == NUMBERS
    assert max(levels) == queue.depth - 1 and levels[-1] == 0


if __name__ == "__main__":
    main()
