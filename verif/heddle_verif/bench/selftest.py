"""Bench that passes, fails or hangs as its parameter ``behaviour`` says: for the tests of the harness and of the checkers."""

import cocotb
from cocotb.triggers import RisingEdge
from heddle.lib.register_slice import RegisterSlice
from heddle_sim.toolchain.cocotb_process import bench_config, bench_parameters

from heddle_verif.fixture import Bench

SHAPE = 8


async def _start(dut, **options):
    bench = Bench(dut, RegisterSlice(SHAPE), **options)
    await bench.start()
    return bench


@cocotb.test(timeout_time=100, timeout_unit="us")
async def behaves(dut):
    behaviour = bench_parameters()["behaviour"]
    if behaviour == "hang":
        while True:
            pass
    bench = await _start(dut, idle_limit=50)
    assert bench_config() is None
    source, sink = bench.source("i", SHAPE, pause="none"), bench.sink("o", SHAPE, pause="none")
    source.put(*range(20))
    if behaviour == "fail":
        assert await sink.receive(20) == list(range(1, 21)), "told to fail"
    elif behaviour == "stall":
        await bench.cycles(1000)
    elif behaviour == "withdraw":
        sink.task.cancel()
        dut.o__ready.value = 0
        await bench.cycles(10)
        source.task.cancel()
        dut.i__valid.value = 0
        await bench.cycles(10)
    elif behaviour == "change":
        sink.task.cancel()
        dut.o__ready.value = 0
        while dut.i__ready.value:
            await RisingEdge(dut.clk)
        source.task.cancel()
        dut.i__payload.value = 99
        await bench.cycles(10)
    else:
        assert await sink.receive(20) == list(range(20))
    bench.finish()
