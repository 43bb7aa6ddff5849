"""Bench of the front end's copies of tensors: every rank and mode with all of its coordinates and offsets."""

import cocotb
from heddle_sim.isa import assemble

from .front_end_environment import prepared

FORMS = [("tile", rank) for rank in range(1, 6)] + [("im2col", rank) for rank in range(3, 6)]
EACH = 4            # copies of each form


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(finish=[0.5, 0.1])
async def every_form(dut, finish):
    """Loads and stores, one after the other, from registers of which no two are equal: the model says what each is to be handed on with."""
    bench = await prepared(dut, "bursty", finish)
    rng = bench.rng
    for _ in range(2):
        await bench.random_uniform()
        lines = []
        for mode, rank in [form for form in FORMS for _ in range(EACH)]:
            numbers = [rng.integers(64), rng.integers(64), rng.integers(65 - rank)] + [rng.integers(67 - rank)] * (mode == "im2col")
            ends = ("shared.global", "global.shared")[int(rng.integers(2))]
            lines.append(f"copy_tensor.{mode}.{rank}d.{ends} " + ", ".join(f"ur{number}" for number in numbers))
        rng.shuffle(lines)
        await bench.load(assemble("\n".join([*lines, "halt"]), bench.cfg))
        assert (await bench.run()).ok
    bench.end(tensor=2 * EACH * len(FORMS))
