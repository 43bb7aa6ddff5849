"""Bench of modules that are elaborated once: a chain of lanes keeps items in order, each lane adds its own numbers."""

import types

import cocotb
from amaranth.hdl import signed
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, Signature
from cocotb.triggers import RisingEdge
from heddle_sim.toolchain.cocotb_process import bench_parameters

from heddle_verif.checkers.scoreboard import Scoreboard
from heddle_verif.fixture import Bench

PAYLOAD = data.StructLayout({"value": 8, "tag": 4})


@cocotb.test(timeout_time=100, timeout_unit="us")
async def lanes_work(dut):
    lanes = bench_parameters()["lanes"]
    ports = types.SimpleNamespace(signature=Signature({
        "i": In(stream.Signature(PAYLOAD)), "o": Out(stream.Signature(PAYLOAD)), "numbers": In(signed(8)).array(lanes, 2)}))
    bench = Bench(dut, ports)
    await bench.start()
    order, sums = Scoreboard("o", strict=True), Scoreboard("sums")
    bench.monitor("i", PAYLOAD, order.expect)
    bench.monitor("o", PAYLOAD, order.observe)
    source = bench.source("i", PAYLOAD)
    sink = bench.sink("o", PAYLOAD)
    source.put(*({"value": value, "tag": value % 16} for value in range(200)))
    while sink.count < 200:
        numbers = bench.rng.integers(-128, 128, (lanes, 2)).tolist()
        for lane in range(lanes):
            for index in range(2):
                getattr(dut, f"numbers__{lane}__{index}").value = numbers[lane][index] & 0xFF
        await RisingEdge(dut.clk)
        await RisingEdge(dut.clk)
        sums.expect([sum(pair) for pair in numbers])
        sums.observe([getattr(dut, f"sums__{lane}").value.to_signed() for lane in range(lanes)])
    bench.finish()
    order.finish(200)
    sums.finish(100)
