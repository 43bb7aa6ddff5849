"""The second-level cache reads a line of 128 bytes twice: first from memory (a miss), then from itself (a hit).

``i[0]`` is the port of the only core, ``o[0]`` that of its memory; both are made of streams.
"""

from amaranth.sim import Simulator
from heddle import L2, Config


def main():
    cache, log = L2(Config(axi_data_bits=128, l2_kib=4)), []

    async def memory(ctx):              # it answers once: what is read a second time comes from the cache
        request, answer = cache.o[0].read_request, cache.o[0].read_data
        ctx.set(request.ready, 1)
        await ctx.tick().until(request.valid)
        ctx.set(answer.valid, 1)
        for beat in range(8):           # of 16 bytes
            ctx.set(answer.payload, {"data": 1000 + beat, "last": beat == 7})
            await ctx.tick().until(answer.ready)
        ctx.set(answer.valid, 0)

    async def core(ctx):
        request, answer = cache.i[0].read_request, cache.i[0].read_data
        ctx.set(request.payload, {"address": 0x1280, "beats_minus_one": 7})
        ctx.set(answer.ready, 1)
        for reads in (1, 2):
            ctx.set(request.valid, 1)
            await ctx.tick().until(request.ready)
            ctx.set(request.valid, 0)
            while len(log) < 9 * reads:
                _, _, valid, word, miss, hit = await ctx.tick().sample(answer.valid, answer.payload.data, cache.event_miss, cache.event_hit)
                log.extend(["miss"] * miss + ["hit"] * hit + [word] * valid)

    sim = Simulator(cache)
    sim.add_clock(1e-6)
    sim.add_testbench(memory)
    sim.add_testbench(core)
    sim.run()
    print(*log)
    assert log == ["miss", *range(1000, 1008), "hit", *range(1000, 1008)]


if __name__ == "__main__":
    main()
