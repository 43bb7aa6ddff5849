"""Bench of the cutting of rows into pieces, against the golden traversal byte by byte."""

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from heddle.isa.tensor_descriptor import Interleave
from heddle.tmau.box_walk import place_bits, row_layout
from heddle.tmau.row_bursts import LINE_BLOCKS, piece_layout, row_shape_layout
from heddle_sim.golden.tensor_traversal import traverse
from heddle_sim.toolchain.cocotb_runner import bench_config

from ..agents.pause import PATTERNS, none, pattern
from ..agents.stream import StreamSink, StreamSource
from ..stimulus.tensor_requests import box_of, legal_cases, rows_of


def bytes_of(fields, request):
    """(shared byte, global byte or None) of every byte of a box, in ascending order of the first."""
    walk = traverse(fields, request.coordinates, request.offsets)
    byte = np.arange(fields.unit_bytes)
    places = (fields.address + walk.offsets[:, None] + byte).reshape(-1).tolist()
    inside = np.repeat(walk.inside, fields.unit_bytes).tolist()
    return [(request.shared_address + number, place if ok else None) for number, (place, ok) in enumerate(zip(places, inside))]


def check_pieces(pieces, fields, request):
    got = []
    for piece in pieces:
        assert 1 <= piece["blocks"] <= LINE_BLOCKS
        line = piece["global_block"] % LINE_BLOCKS
        assert piece["outside"] or line + piece["blocks"] <= LINE_BLOCKS, f"{piece} crosses a line"
        for number in range(16 * piece["blocks"]):
            outside = piece["outside"] or number >= 16 * piece["blocks"] - piece["missing_bytes"]
            got.append((16 * piece["shared_block"] + number, None if outside else 16 * piece["global_block"] + number))
    expected = bytes_of(fields, request)
    if request.store and not pieces[0]["has_barrier"]:
        got, expected = ([pair for pair in pairs if pair[1] is not None] for pairs in (got, expected))
        if fields.bytes == 0 or not expected:
            assert len(pieces) == 1
    wrong = [pair for pair in zip(got, expected) if pair[0] != pair[1]]
    assert got == expected, f"{len(got)} and {len(expected)} bytes; {wrong[:2]}: {fields} {request}"
    assert [piece["last"] for piece in pieces] == [0] * (len(pieces) - 1) + [1]


async def _run(dut, cases, rng, pauses):
    cfg = bench_config()
    Clock(dut.clk, 10, unit="ns").start()
    dut.stop.value = 0
    shapes = StreamSource(dut, "i_shape", row_shape_layout(cfg), rng=rng, pause=pauses())
    rows = StreamSource(dut, "i_row", row_layout(cfg), rng=rng, pause=pauses())
    sink = StreamSink(dut, "o", piece_layout(cfg), pause=pauses())
    dut.rst.value = 1
    await RisingEdge(dut.clk)
    dut.rst.value = 0
    mask = (1 << place_bits(cfg)) - 1
    for number, (fields, request) in enumerate(cases):
        shape = {name: value for name, value in box_of(cfg, fields, request).items() if name != "walk"}
        shapes.put({**shape, "barrier": number % 16, "has_barrier": number % 2, "pc": number})
        start = 0 if fields.interleave != Interleave.NONE else request.coordinates[0] * fields.unit_bytes >> 4
        walked = rows_of(cfg, fields, request)
        rows.put(*({"place": place + start & mask, "inside": int(ok), "last": int(place_number == len(walked) - 1)}
                   for place_number, (place, ok) in enumerate(walked)))
    cycles = 0
    while sum(item["last"] for item in sink.received) < len(cases):
        await RisingEdge(dut.clk)
        cycles += 1
        assert cycles < 3000 * len(cases)
    await ClockCycles(dut.clk, 10)
    pieces = list(sink.received)
    for number, (fields, request) in enumerate(cases):
        mine = [piece for piece in pieces if piece["pc"] == number]
        assert all(piece["barrier"] == number % 16 and piece["has_barrier"] == number % 2 for piece in mine)
        check_pieces(mine, fields, request)
    return cycles, len(pieces)


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(pauses=PATTERNS)
async def loads(dut, pauses):
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    await _run(dut, legal_cases(rng, bench_config(), 30, max_rows=60), rng, lambda: pattern(pauses, rng))


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def stores(dut):
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    await _run(dut, legal_cases(rng, bench_config(), 40, store=True, max_rows=60), rng, lambda: pattern("bursty", rng))


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def a_piece_a_cycle(dut):
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    cycles, pieces = await _run(dut, legal_cases(rng, bench_config(), 40, max_rows=60), rng, none)
    assert cycles <= pieces + 5, f"{cycles} cycles for {pieces} pieces"
