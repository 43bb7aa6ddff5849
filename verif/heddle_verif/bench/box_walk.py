"""Bench of the walk through the rows of a box, against the golden traversal."""

import cocotb
from cocotb.triggers import ClockCycles
from heddle.tmau.box_walk import BoxWalk, box_walk_layout, row_layout
from heddle_sim.toolchain.cocotb_process import bench_config

from ..agents.pause import PATTERNS
from ..checkers.scoreboard import Scoreboard
from ..fixture import Bench
from ..stimulus.tensor_requests import NEVER, random_fields, random_request, rows_of, walk_of

LIMIT_ROWS = 600        # of a box


def row_item(place, inside, last):
    """What is compared of a row; nothing is said of the place of a row outside."""
    return {"place": int(place) if inside else None, "inside": int(inside), "last": int(last)}


class WalkBench(Bench):
    """Boxes and the rows that must come of them."""

    def __init__(self, dut):
        super().__init__(dut, BoxWalk(bench_config()))

    async def begin(self, source_pause="none", sink_pause="none"):
        await self.start()
        self.scoreboard = Scoreboard("rows", strict=True)
        self.boxes = self.source("i", box_walk_layout(self.cfg), pause=source_pause)
        self.rows = self.sink("o", row_layout(self.cfg), pause=sink_pause, on_item=self._observe)

    def _observe(self, row):
        self.scoreboard.observe(row_item(**row))

    def put(self, fields, request):
        """Queue a box and expect its rows; returns their number."""
        rows = rows_of(self.cfg, fields, request)
        self.boxes.put(walk_of(self.cfg, fields, request))
        self.scoreboard.expect(*(row_item(place, inside, number == len(rows) - 1) for number, (place, inside) in enumerate(rows)))
        return len(rows)

    def put_random(self, count):
        """Queue random boxes; returns the number of their rows."""
        total = 0
        while count:
            fields = random_fields(self.rng, self.cfg)
            request = random_request(self.rng, self.cfg, fields)
            if len(rows_of(self.cfg, fields, request)) > LIMIT_ROWS:
                continue
            count -= 1
            total += self.put(fields, request)
        return total

    async def end(self, rows):
        """Wait for all rows; returns the cycles."""
        cycles = await self.until(lambda: not self.scoreboard.outstanding, 40 * rows + 1000, f"{rows} rows must come")
        self.finish()
        await self.cycles(10)
        self.scoreboard.finish(rows)
        return cycles


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(source=["none", "bursty"], sink=PATTERNS)
async def random_boxes(dut, source, sink):
    bench = WalkBench(dut)
    await bench.begin(source, sink)
    await bench.end(bench.put_random(30))


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def a_row_a_cycle(dut):
    """No cycle between the rows of a box, nor between boxes."""
    bench = WalkBench(dut)
    await bench.begin()
    rows = bench.put_random(60)
    cycles = await bench.end(rows)
    assert cycles <= rows + 6, f"{cycles} cycles for {rows} rows"


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def stop_drops_the_box(dut):
    bench = WalkBench(dut)
    await bench.begin()
    fields = random_fields(bench.rng, bench.cfg)
    request = random_request(bench.rng, bench.cfg, fields)
    walk = walk_of(bench.cfg, fields, request) | {"pixels": 1, "pixels_minus_one": 999}
    walk["loop"][-1] |= {"left": NEVER}
    bench.scoreboard = Scoreboard("rows of the box that is dropped")       # only their number counts
    await bench.boxes.send(walk)
    await ClockCycles(dut.clk, 20)
    dut.stop.value = 1
    await ClockCycles(dut.clk, 4)
    count = bench.rows.count
    assert 10 < count < 30
    await ClockCycles(dut.clk, 20)
    assert bench.rows.count == count
    dut.stop.value = 0
    bench.scoreboard = Scoreboard("rows after the stop", strict=True)
    rows = bench.put(fields, request)
    cycles = await bench.end(rows)
    assert cycles <= rows + 10, f"{cycles} cycles for {rows} rows"


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def stop_while_rows_wait(dut):
    """Rows that wait at ``o`` stay; the rest of the box is dropped, and the next box is whole."""
    bench = WalkBench(dut)
    await bench.begin("bursty", "bursty")
    for _ in range(20):
        bench.scoreboard = Scoreboard("rows of a box that may be dropped", strict=True)
        bench.put_random(1)
        await bench.boxes.drained()
        await bench.cycles(int(bench.rng.integers(1, 12)))
        dut.stop.value = 1
        await bench.cycles(2)
        await bench.until(lambda: not dut.o__valid.value, 200, "rows that wait must leave")
        bench.scoreboard = Scoreboard("rows after a stop", strict=True)
        rows = bench.put_random(1)
        await bench.cycles(int(bench.rng.integers(1, 12)))
        dut.stop.value = 0
        await bench.end(rows)
