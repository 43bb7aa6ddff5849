"""Bench of the front end's barriers: their state comes some cycles after their number."""

import cocotb
from heddle.isa.error_codes import ErrorCode
from heddle_sim.isa import assemble

from .front_end import prepared


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(latency=[1, 2, 3])
async def barriers_in_turn(dut, latency):
    """No ``barrier.wait`` goes by the state of another barrier, and errors are those of its own."""
    bench = await prepared(dut, "none", 0.5)
    bench.barrier_latency, bench.copies_may_end = latency, False
    for _ in range(10):
        order = [int(index) for index in bench.rng.permutation(16)]
        complete, others = order[:8], order[8:]
        guarded = "" if bench.rng.integers(2) else "@up0 "      # false: its state does not matter
        lead = [f"barrier.wait b{index}\n{guarded}barrier.wait b{complete[0] if not guarded else others[1]}" for index in complete]
        await bench.load(assemble("\n".join(["copy_block.shared.global ur0, ur1, 1", *lead, f"barrier.wait b{others[0]}", "halt"]),
                                  bench.cfg))
        bench.barriers = frozenset(complete)
        bench.expect()
        await bench.doorbell()
        await bench.cycles(140)
        assert len(bench.instruction_cycles) == 17, "all but the last must leave"
        assert dut.events__barrier_stalls.value
        bench.barriers = frozenset(complete + others[:1])
        await bench.until_ended(12)
        assert not bench.errors
    bench.copies_may_end, bench.barriers = True, frozenset(complete)
    await bench.drain()
    program = [f"barrier.wait b{index}" for index in (*complete, others[0], complete[0])]
    await bench.load(assemble("\n".join([*program, "halt"]), bench.cfg))
    bench.scoreboards["passed"].expect(*complete)
    await bench.doorbell()
    await bench.until_ended(120)
    assert [(error["code"], error["pc"]) for error in bench.errors] == [(ErrorCode.BARRIER_UNDERRUN, 8)]
    bench.end(copy=10, passed=100)
