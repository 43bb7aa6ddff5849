"""Bench of the cutting of rows into pieces, against the golden traversal byte by byte."""

import cocotb
import numpy as np
from heddle.isa.tensor_descriptor import Interleave
from heddle.tmau.box_walk import place_bits, row_layout
from heddle.tmau.row_bursts import LINE_BLOCKS, RowBursts, piece_layout, row_shape_layout
from heddle_sim.golden.tensor_traversal import shared_offsets, traverse
from heddle_sim.toolchain.cocotb_process import bench_config

from ..agents.pause import PATTERNS
from ..checkers.scoreboard import Scoreboard
from ..fixture import Bench
from ..stimulus.tensor_requests import box_of, legal_cases, rows_of

__all__ = ["BoxScoreboard"]


def bytes_of(fields, request):
    """(shared byte, global byte or None) of every byte of a box, in ascending order of the first."""
    walk = traverse(fields, request.coordinates, request.offsets)
    byte = np.arange(fields.unit_bytes)
    places = (fields.address + walk.offsets[:, None] + byte).reshape(-1).tolist()
    inside = np.repeat(walk.inside, fields.unit_bytes).tolist()
    shared = (request.shared_address + shared_offsets(fields, 1)).tolist()
    return [(number, place if ok else None) for number, place, ok in zip(shared, places, inside, strict=True)]


def check_pieces(pieces, fields, request):
    """Compare the pieces of a box, byte by byte."""
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


class BoxScoreboard(Scoreboard):
    """Boxes in order: an item is the ``TAGS`` of a box. A box is compared byte by byte when its last piece comes."""

    TAGS = ("pc", "barrier", "has_barrier")

    def __init__(self):
        super().__init__("boxes", strict=True)
        self.pieces = []            # of the box that has not ended
        self._boxes = {}

    def expect_box(self, fields, request, tags):
        """Expect a box whose pieces have ``tags``; ``pc`` is another one for each box."""
        self._boxes[tags["pc"]] = fields, request
        self.expect(tags)

    def observe_piece(self, piece):
        """Add a piece."""
        self.pieces.append(piece)
        if not piece["last"]:
            return
        pieces, self.pieces = self.pieces, []
        tags = [{name: item[name] for name in self.TAGS} for item in pieces]
        assert all(item == tags[0] for item in tags), f"pieces of a box must have equal tags: {tags}"
        self.observe(tags[0])
        check_pieces(pieces, *self._boxes.pop(tags[0]["pc"]))

    def finish(self, min_items=1):
        assert not self.pieces, f"{len(self.pieces)} pieces behind the last box, first {self.pieces[0]}"
        super().finish(min_items)


class RowBench(Bench):
    """Boxes, their rows, and the pieces that must come of them; ``pause`` of all streams."""

    def __init__(self, dut, pause="bursty"):
        super().__init__(dut, RowBursts(bench_config()))
        self.pause = pause

    async def run(self, cases):
        """Give rows and compare all pieces; returns cycles and pieces."""
        cfg = self.cfg
        await self.start()
        boxes = BoxScoreboard()
        shapes = self.source("i_shape", row_shape_layout(cfg), pause=self.pause)
        rows = self.source("i_row", row_layout(cfg), pause=self.pause)
        pieces = self.sink("o", piece_layout(cfg), pause=self.pause, on_item=boxes.observe_piece)
        mask = (1 << place_bits(cfg)) - 1
        for number, (fields, request) in enumerate(cases):
            shape = {name: value for name, value in box_of(cfg, fields, request).items() if name != "walk"}
            tags = {"pc": number, "barrier": number % 16, "has_barrier": number % 2}
            shapes.put({**shape, **tags})
            boxes.expect_box(fields, request, tags)
            start = 0 if fields.interleave != Interleave.NONE else request.coordinates[0] * fields.unit_bytes >> 4
            walked = rows_of(cfg, fields, request)
            rows.put(*({"place": place + start & mask, "inside": int(ok), "last": int(place_number == len(walked) - 1)}
                       for place_number, (place, ok) in enumerate(walked)))
        cycles = await self.until(lambda: not boxes.outstanding, 3000 * len(cases), f"{len(cases)} boxes must end")
        self.finish()
        await self.cycles(10)
        boxes.finish(len(cases))
        return cycles, pieces.count


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(pauses=PATTERNS)
async def loads(dut, pauses):
    bench = RowBench(dut, pauses)
    await bench.run(legal_cases(bench.rng, bench.cfg, 30, max_rows=60))


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def stores(dut):
    bench = RowBench(dut)
    await bench.run(legal_cases(bench.rng, bench.cfg, 40, store=True, max_rows=60))


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def a_piece_a_cycle(dut):
    bench = RowBench(dut, "none")
    cycles, pieces = await bench.run(legal_cases(bench.rng, bench.cfg, 40, max_rows=60))
    assert cycles <= pieces + 5, f"{cycles} cycles for {pieces} pieces"
