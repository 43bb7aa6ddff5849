"""The reduction tree of a lane adds eight products, and takes eight new ones in every cycle.

A level of the tree is a row of adders and a row of registers.
"""

import numpy as np
from amaranth.sim import Simulator
from heddle import Config, ReductionTree

SETS = 5


def main():
    cfg = Config(dot=8, mm16=False)
    tree, levels = ReductionTree(cfg), 3        # 2**3 == cfg.dot
    products = np.random.default_rng(0).integers(-1 << 17, 1 << 17, (SETS, cfg.dot))
    sums = []

    async def bench(ctx):
        for cycle in range(SETS + levels):
            if cycle >= levels:                 # these products went in ``levels`` cycles ago
                sums.append(ctx.get(tree.root))
            if cycle < SETS:
                for port, product in zip(tree.i, products[cycle]):
                    ctx.set(port, int(product))
            await ctx.tick()

    sim = Simulator(tree)
    sim.add_clock(1e-6)
    sim.add_testbench(bench)
    sim.run()
    print(f"{SETS} sets of {cfg.dot} products in {SETS + levels} cycles\nsums {sums}")
    assert sums == products.sum(axis=1).tolist()


if __name__ == "__main__":
    main()
