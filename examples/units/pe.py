"""A lane (processing element) multiplies four bytes of A by four of B and stores the dot product in a product register.

A lane has no control of its own: the bench says in each cycle what each stage does.
"""

import numpy as np
from amaranth.sim import Simulator
from heddle import PE, Config

CFG = Config(threads=8, dot=4, factor_words=64, mm16=False)
TREE, REGISTER = 2, 8                   # cycles of the tree, log2(dot); product register of the sum
A, B = np.array([1, -2, 3, -4], np.int8), np.array([50, 60, 70, 80], np.int8)


def main():
    lane, registers = PE(CFG), []
    plan = {                            # cycle: what is set in it; it is zero again in the next one
        0: [(lane.files.factors.write, 1), (lane.thread.write_lane, 1), (lane.thread.return_data, int.from_bytes(A.tobytes(), "little"))],
        1: [(lane.factor_address, 0)],
        2: [(lane.multiply.active, 1), (lane.take, 1), (lane.multiply.a_signed, 3), *zip(lane.word, B.tolist())],
        5 + TREE: [(lane.accumulate.own, 1), (lane.accumulate.clear, 1)],
        6 + TREE: [(lane.files.products.matrix_write, 1), (lane.files.products.write_register, REGISTER)],
        8 + TREE: [(lane.files.products.thread_register, REGISTER)],
        9 + TREE: [(lane.files.capture.product, 1), (lane.thread.read_lane, 1)],
    }

    async def bench(ctx):
        for cycle in range(10 + TREE):
            for port, value in plan.get(cycle, ()):
                ctx.set(port, value)
            await ctx.tick()
            for port, _ in plan.get(cycle, ()):
                ctx.set(port, 0)
        registers.append(ctx.get(lane.thread.product.as_signed()))

    sim = Simulator(lane)
    sim.add_clock(1e-6)
    sim.add_testbench(bench)
    sim.run()
    print(f"{A} times {B}\nregister {REGISTER} holds {registers[0]}")
    assert registers == [A.astype(int) @ B]


if __name__ == "__main__":
    main()
