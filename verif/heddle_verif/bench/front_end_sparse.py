"""Bench of the front end's instructions for sparse products: when a job starts, what waits for it, and what does not."""

import cocotb
from cocotb.triggers import RisingEdge
from heddle.interfaces.front_end import SPARSE_JOBS, sparse_start_layout
from heddle_sim.isa import assemble

from .front_end_environment import prepared

LINES = ("sparse ur{a}", "@up{p} sparse ur{a}", "@!up{p} sparse ur{a}", "wait_sparse {left}", "@up{p} wait_sparse {left}", "mov r3, ur{a}",
         "mm8.sa.sb r16, ur12:rf300:0, r256", "umov ur{a}, {value}", "usetp.lt.u up{p}, ur{a}, ur{b}", "nop")
LONGEST = 30        # cycles of a job


class Engine:
    """In place of the engine: takes jobs while fewer than ``SPARSE_JOBS`` are not done; each takes a random time."""

    def __init__(self, bench):
        self.bench, self.dut, self.jobs, self.left = bench, bench.dut, [], 0
        self.refused = self.full = 0
        self.dut.sparse__left.value = self.dut.sparse__job__ready.value = 0
        cocotb.start_soon(self._run())

    async def _run(self):
        dut, rng, rest, offered = self.dut, self.bench.rng, 0, False
        while True:
            await RisingEdge(dut.clk)
            if self.left:
                started = [name for name in ("o_thread", "o_matrix") if getattr(dut, f"{name}__valid").value]
                assert not started, f"operations wait until all jobs are done: {started}"
            if dut.sparse__job__valid.value:
                busy = dut.units__thread_busy.value or dut.units__matrix_busy.value or dut.units__writes_pending.value
                assert offered or (dut.scoreboard_empty.value and not busy), "a job is offered when the lanes are at rest"
                self.refused += not dut.sparse__job__ready.value
                if dut.sparse__job__ready.value:
                    job = sparse_start_layout.from_bits(int(dut.sparse__job__payload.value))
                    self.jobs.append(job.address)
                    assert self.bench.instructions[job.pc].startswith(("sparse", "@"))
                    self.left += 1
                    assert self.left <= SPARSE_JOBS
            offered = bool(dut.sparse__job__valid.value and not dut.sparse__job__ready.value)
            if self.left and not rest:
                rest = int(rng.integers(1, LONGEST))
            elif self.left:
                rest -= 1
                if not rest:
                    self.left -= 1
            self.full += self.left == SPARSE_JOBS
            dut.sparse__left.value = self.left
            dut.sparse__job__ready.value = int(self.left < SPARSE_JOBS and rng.random() < 0.7)


def line(rng):
    return str(rng.choice(LINES)).format(a=rng.integers(4), b=rng.integers(4), p=rng.integers(2), value=rng.integers(1 << 20),
                                         left=rng.integers(SPARSE_JOBS))


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(pause=["none", "bursty"], finish=[0.5, 0.05])
async def jobs(dut, pause, finish):
    """Each instruction whose guard holds starts its job, in order; thread and matrix operations never run beside one."""
    bench, engine = await prepared(dut, pause, finish, beside=Engine)
    compared = 0
    for _ in range(8):
        bench.instructions = [*(line(bench.rng) for _ in range(60)), "wait_sparse 0", "halt"]
        await bench.load(assemble("\n".join(bench.instructions), bench.cfg))
        engine.jobs.clear()
        assert (await bench.run()).ok
        assert engine.jobs == bench.model.jobs and engine.left == 0
        compared += len(engine.jobs)
    assert compared >= 30 and engine.refused
    bench.end(thread=10, matrix=10)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def control_goes_on(dut):
    """Behind a job control and uniform instructions execute while it runs; ``wait_sparse`` leaves with as many jobs as it says."""
    bench, engine = await prepared(dut, "none", 0.5, beside=Engine)
    for left in range(SPARSE_JOBS):
        bench.instructions = ["wait_sparse 0", *["sparse ur1"] * SPARSE_JOBS, *["umov ur2, 5"] * 3, f"wait_sparse {left}", "trap 1"]
        await bench.load(assemble("\n".join(bench.instructions), bench.cfg))
        await bench.doorbell()
        seen = None
        for _ in range(40 * LONGEST):
            await RisingEdge(dut.clk)
            if dut.o_error__valid.value:
                seen = int(dut.sparse__left.value)
                break
        assert seen is not None and seen <= left, (seen, left)
        while engine.left:
            await RisingEdge(dut.clk)
        await bench.until_ended(60)
        await bench.load(assemble("halt", bench.cfg))
        bench.instructions = ["halt"]
        assert (await bench.run()).ok
    bench.end()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def behind_a_job(dut):
    """An operation is offered two cycles after the last job is done."""
    bench, engine = await prepared(dut, "none", 0.5, beside=Engine)
    for jobs in (1, 2, 1, SPARSE_JOBS):
        bench.instructions = [*["sparse ur1"] * jobs, "mov r1, ur2", "halt"]
        await bench.load(assemble("\n".join(bench.instructions), bench.cfg))
        bench.expect()
        await bench.doorbell()
        while not engine.left:
            await RisingEdge(dut.clk)
        since = 0
        while not dut.o_thread__valid.value:
            since = 0 if dut.sparse__left.value else since + 1
            await RisingEdge(dut.clk)
        assert since == 2, since
        await bench.until_ended(60)
        await bench.drain()
    bench.end(thread=4)
