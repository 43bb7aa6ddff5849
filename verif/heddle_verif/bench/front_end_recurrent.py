"""Bench of the front end's instruction for recurrent networks: when the engine starts, when the instruction leaves, what it reports."""

import cocotb
from cocotb.triggers import RisingEdge
from heddle.interfaces.front_end import recurrent_error_layout
from heddle.isa.error_codes import ErrorCode
from heddle_sim.isa import assemble

from .front_end_environment import prepared

LINES = ("rnn ur{a}", "@up{p} rnn ur{a}", "@!up{p} rnn ur{a}", "mov r3, ur{a}", "mm8.sa.sb r16, ur12:rf300:0, r256",
         "umov ur{a}, {value}", "usetp.lt.u up{p}, ur{a}, ur{b}", "nop")
LONGEST = 30        # cycles of a run of the engine


class Engine:
    """In place of the engine: is busy for a random time after each start, then reports ``error``."""

    def __init__(self, bench):
        self.bench, self.dut, self.images, self.error = bench, bench.dut, [], 0
        self.dut.recurrent__busy.value = self.dut.recurrent__error.value = 0
        cocotb.start_soon(self._run())

    async def _run(self):
        dut, left = self.dut, 0
        while True:
            await RisingEdge(dut.clk)
            assert not (left and dut.events__instructions.value), "the instruction stays until the engine has ended"
            dut.recurrent__error.value = self.error if left == 1 else 0
            left = max(left - 1, 0)
            if dut.recurrent__start.value:
                assert not dut.recurrent__busy.value, "the engine is started when it is idle"
                busy = dut.units__thread_busy.value or dut.units__matrix_busy.value or dut.units__writes_pending.value
                assert dut.scoreboard_empty.value and not busy, "the engine is started when the lanes are at rest"
                self.images.append(int(dut.recurrent__address.value))
                left = int(self.bench.rng.integers(1, LONGEST))
            dut.recurrent__busy.value = int(left != 0)


def line(rng):
    return str(rng.choice(LINES)).format(a=rng.integers(4), b=rng.integers(4), p=rng.integers(2), value=rng.integers(1 << 20))


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(pause=["none", "bursty"], finish=[0.5, 0.05])
async def runs(dut, pause, finish):
    """Each instruction whose guard holds runs the engine once, on its image, between the operations before and behind it."""
    bench, engine = await prepared(dut, pause, finish, beside=Engine)
    compared = 0
    for _ in range(6):
        await bench.load(assemble("\n".join([*(line(bench.rng) for _ in range(40)), "halt"]), bench.cfg))
        engine.images.clear()
        assert (await bench.run()).ok
        assert engine.images == bench.model.images
        compared += len(engine.images)
    assert compared >= 20
    bench.end(thread=10, matrix=10)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def errors(dut):
    """An error of the engine ends the program with its operand, or with the address of the image; nothing behind it is done."""
    bench, engine = await prepared(dut, "bursty", 0.5, beside=Engine)
    for code in (ErrorCode.RECURRENT_IMAGE, ErrorCode.OUT_OF_RANGE):
        for of_image in (0, 1):
            operand = int(bench.rng.integers(1 << 20))
            engine.error = recurrent_error_layout.const(dict(failed=1, of_image=of_image, code=code, operand=operand)).as_bits()
            await bench.set_uniform({5: 0xABC123F0})
            await bench.load(assemble("nop\n@up0 rnn ur6\nrnn ur5\nmov r1, 1\nhalt", bench.cfg))
            engine.images.clear()
            await bench.doorbell()
            await bench.until_ended(LONGEST + 60)
            assert [(error["code"], error["pc"], error["operand"]) for error in bench.errors] == [
                (code, 2, 0xABC123F0 if of_image else operand)]
            assert engine.images == [0xABC123F0]
            engine.error = 0
            await bench.load(assemble("rnn ur5\nmov r1, 1\nhalt", bench.cfg))
            assert (await bench.run()).ok
    bench.end(thread=4)
