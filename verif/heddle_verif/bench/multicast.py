"""Bench of the multicast network: each core gets the beats of each source that name it, in their order, whatever waits."""

from types import SimpleNamespace

import cocotb
from heddle.tmau.layouts import multicast_beat_layout
from heddle.tmau.multicast_network import MulticastNetwork
from heddle_sim.toolchain.cocotb_process import bench_config

from heddle_verif.agents.pause import PATTERNS
from heddle_verif.checkers.scoreboard import Scoreboard
from heddle_verif.fixture import Bench

SOURCE_BITS = 4     # of the data, which name the source


async def begin(dut, pause, sink_pause=None):
    bench = Bench(dut, MulticastNetwork(bench_config()))
    await bench.start()
    layout, cores = multicast_beat_layout(bench.cfg), range(bench.cfg.cores)
    boards = [Scoreboard(f"core {core}", key=lambda item: item["data"] % (1 << SOURCE_BITS), strict=True) for core in cores]

    def expect(item):
        for core in cores:
            if item["mask"] >> core & 1:
                boards[core].expect(item)

    for core in cores:
        bench.monitor(f"i__{core}", layout, expect)
        bench.monitor(f"o__{core}", layout, boards[core].observe)
    sources = [bench.source(f"i__{core}", layout, pause=pause) for core in cores]
    sinks = [bench.sink(f"o__{core}", layout, pause=sink_pause or pause) for core in cores]
    return bench, sources, sinks, boards


def beat(bench, source, mask=None):
    item = {name: int(bench.rng.integers(1 << min(len(field), 16))) for name, field in
            ((name, range(field.width)) for name, field in multicast_beat_layout(bench.cfg))}
    return item | {"data": int(bench.rng.integers(1 << 40)) << SOURCE_BITS | source,
                   "mask": mask or int(bench.rng.integers(1, 1 << bench.cfg.cores))}


async def until(bench, boards, count, limit):
    for _ in range(limit):
        await bench.cycles(1)
        if sum(board.compared for board in boards) == count:
            return
    raise AssertionError(f"{count} beats must arrive within {limit} cycles, not {sum(board.compared for board in boards)}")


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(pause=PATTERNS)
async def random_beats(dut, pause):
    """Every source to random cores."""
    bench, sources, _, boards = await begin(dut, pause)
    count = 0
    for number, source in enumerate(sources):
        beats = [beat(bench, number) for _ in range(60)]
        count += sum(item["mask"].bit_count() for item in beats)
        source.put(*beats)
    await until(bench, boards, count, 40 * count)
    assert not int(dut.pending.value)
    bench.finish()
    for board in boards:
        board.finish(50)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def throughput(dut):
    """A source sends a beat a cycle to all; all sources to all fill every destination."""
    bench, sources, _, boards = await begin(dut, "none")
    cores, everyone = bench.cfg.cores, (1 << bench.cfg.cores) - 1
    sources[0].put(*(beat(bench, 0, everyone) for _ in range(200)))
    await until(bench, boards, 200 * cores, 200 + 6)
    for number, source in enumerate(sources):
        source.put(*(beat(bench, number, everyone) for _ in range(100)))
    await until(bench, boards, 200 * cores + 100 * cores * cores, 100 * cores + 8)
    bench.finish()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_core_that_waits(dut):
    """It holds only those that have a beat for it."""
    bench, sources, sinks, boards = await begin(dut, "none")
    sinks[0].pause = SimpleNamespace(step=lambda valid: True)
    sources[0].put(*(beat(bench, 0, 1) for _ in range(10)))
    sources[1].put(*(beat(bench, 1, 2) for _ in range(100)))
    await until(bench, boards[1:2], 100, 110)
    assert boards[0].compared == 0
    bench.finish()
