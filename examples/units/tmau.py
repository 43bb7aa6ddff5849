"""The TMAU copies 64 bytes from global memory into the banks of shared memory: one operation, the rest goes by itself.

The 16 bytes at shared address s belong to bank s / 16 mod 8, row s / 128. Global memory has the number 1000 + n at address 16 n.
"""

from amaranth.sim import Simulator
from heddle import Config, Space, Tmau


def main():
    tmau, banks = Tmau(Config(axi_data_bits=128)), {}

    async def program_and_global_memory(ctx):
        request, answer = tmau.global_port.read_request, tmau.global_port.read_data
        ctx.set(tmau.i_operation.payload, {"source_space": Space.GLOBAL, "source": 0x200, "destination": 0x50, "blocks": 4})
        ctx.set(tmau.i_operation.valid, 1)
        await ctx.tick().until(tmau.i_operation.ready)
        ctx.set(tmau.i_operation.valid, 0)
        ctx.set(request.ready, 1)
        burst, = await ctx.tick().sample(request.payload).until(request.valid)
        ctx.set(answer.valid, 1)
        for beat in range(4):           # of 16 bytes
            ctx.set(answer.payload, {"data": 1000 + burst.address // 16 + beat, "tag": burst.tag, "last": beat == 3})
            await ctx.tick().until(answer.ready)
        ctx.set(answer.valid, 0)

    async def shared_memory(ctx):
        port = tmau.bank_write
        ctx.set(port.request.ready, 1)      # every bank takes a word in every cycle
        while not ctx.get(tmau.done):
            _, _, asked, write = await ctx.tick().sample(port.request.valid, port.request.payload)
            ctx.set(port.written, asked)    # the acknowledgement: the words are in memory
            banks.update({(bank, write.row[bank]): write.data[bank] for bank in range(8) if asked and write.bank >> bank & 1})

    sim = Simulator(tmau)
    sim.add_clock(1e-6)
    sim.add_testbench(program_and_global_memory)
    sim.add_testbench(shared_memory)
    sim.run()
    print("words by bank and row:", banks)
    assert banks == {(5, 0): 1032, (6, 0): 1033, (7, 0): 1034, (0, 1): 1035}


if __name__ == "__main__":
    main()
