"""Bench of the walk through the rows of a box, against the golden traversal."""

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from heddle.tmau.box_walk import box_walk_layout, row_layout
from heddle_sim.toolchain.cocotb_runner import bench_config

from ..agents.pause import PATTERNS, none, pattern
from ..agents.stream import StreamSink, StreamSource
from ..stimulus.tensor_requests import NEVER, random_fields, random_request, rows_of, walk_of


async def _run(dut, count, source_pause, sink_pause, rng, limit_rows=600):
    cfg = bench_config()
    Clock(dut.clk, 10, unit="ns").start()
    dut.stop.value = 0
    source = StreamSource(dut, "i", box_walk_layout(cfg), rng=rng, pause=source_pause)
    sink = StreamSink(dut, "o", row_layout(cfg), pause=sink_pause)
    dut.rst.value = 1
    await RisingEdge(dut.clk)
    dut.rst.value = 0
    expected = []
    while count:
        fields = random_fields(rng, cfg)
        request = random_request(rng, cfg, fields)
        rows = rows_of(cfg, fields, request)
        if len(rows) > limit_rows:
            continue
        count -= 1
        source.put(walk_of(cfg, fields, request))
        expected += [(place, inside, number == len(rows) - 1) for number, (place, inside) in enumerate(rows)]
    cycles = 0
    while len(sink.received) < len(expected):
        await RisingEdge(dut.clk)
        cycles += 1
        assert cycles < 40 * len(expected) + 1000, f"{len(sink.received)} of {len(expected)} rows came"
    await ClockCycles(dut.clk, 10)
    assert len(sink.received) == len(expected), "rows behind the last one"
    for number, (row, (place, inside, last)) in enumerate(zip(sink.received, expected)):
        assert (row["inside"], row["last"]) == (inside, last), f"row {number}: {row}, expected inside {inside}, last {last}"
        assert not inside or row["place"] == place, f"row {number}: {row}, expected {place:#x}"
    return cycles, len(expected)


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(source=["none", "bursty"], sink=PATTERNS)
async def random_boxes(dut, source, sink):
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    await _run(dut, 30, pattern(source, rng), pattern(sink, rng), rng)


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def a_row_a_cycle(dut):
    """No cycle between the rows of a box, nor between boxes."""
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    cycles, rows = await _run(dut, 60, none(), none(), rng)
    assert cycles <= rows + 6, f"{cycles} cycles for {rows} rows"


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def stop_drops_the_box(dut):
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    cfg = bench_config()
    fields = random_fields(rng, cfg)
    Clock(dut.clk, 10, unit="ns").start()
    dut.stop.value = 0
    source = StreamSource(dut, "i", box_walk_layout(cfg), rng=rng)
    sink = StreamSink(dut, "o", row_layout(cfg))
    dut.rst.value = 1
    await RisingEdge(dut.clk)
    dut.rst.value = 0
    request = random_request(rng, cfg, fields)
    walk = walk_of(cfg, fields, request) | {"pixels": 1, "pixels_minus_one": 999}
    walk["loop"][-1] |= {"left": NEVER}
    await source.send(walk)
    await ClockCycles(dut.clk, 20)
    dut.stop.value = 1
    await ClockCycles(dut.clk, 4)
    count = len(sink.received)
    assert 10 < count < 30
    await ClockCycles(dut.clk, 20)
    assert len(sink.received) == count
    dut.stop.value = 0
    rows = rows_of(cfg, fields, request)
    await source.send(walk_of(cfg, fields, request))
    await ClockCycles(dut.clk, len(rows) + 10)
    assert [row["inside"] for row in sink.received[count:]] == [inside for _, inside in rows]
