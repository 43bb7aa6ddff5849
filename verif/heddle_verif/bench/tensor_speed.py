"""Speed of tensor copies in the bench of the copy unit: beats of the bus a cycle over back-to-back requests."""

import json
from dataclasses import dataclass

import cocotb
from cocotb.triggers import RisingEdge
from heddle.isa.layout import Swizzle
from heddle.tmau.descriptor import TensorMode
from heddle_sim.golden.tensor_checks import TensorRequest
from heddle_sim.golden.tensor_fields import TensorFields

from .copy_environment import Stalls
from .tensor_environment import TensorBench

LATENCY = 64        # cycles from a request to its first beat, and from the last beat of a store to its answer
REQUESTS = 12


@dataclass(frozen=True)
class Case:
    """A sweep point: rows of bytes of a tensor that is larger than its boxes, so that rows are not neighbours in memory.

    ``least`` is the share of the beats that the rows need at best, at least so many a cycle.
    """

    row: int
    rank: int = 2
    pixels: bool = False
    swizzle: Swizzle = Swizzle.NONE
    stride: int = 1
    store: bool = False
    least: float = 0.97

    @property
    def name(self):
        parts = ["store" if self.store else "load", "im2col" if self.pixels else "tile", f"{self.rank}d", f"{self.row}B",
                 self.swizzle.name.lower()]
        return "_".join([*parts, f"stride{self.stride}"] if self.stride > 1 else parts)

    def fields(self, rows, address):
        """A descriptor with boxes of ``rows`` rows of ``row`` bytes, all of them inside the tensor."""
        spatial = self.rank - 1
        counts = [rows, 1, 1, 1] if spatial < 2 else [rows // 4, 4, 1, 1] if spatial < 3 else [rows // 4, 2, 2, 1]
        counts = counts[:spatial]
        sizes = (2 * self.row, *(count * self.stride + 2 for count in counts))
        strides, pitch = [], 2 * self.row
        for size in sizes[1:]:
            strides.append(pitch)
            pitch *= size
        common = {"sizes": sizes, "strides": tuple(strides), "swizzle": self.swizzle, "address": address}
        if not self.pixels:
            return TensorFields(**common, box=(self.row, *(count * self.stride for count in counts)),
                                element_strides=(1, *[self.stride] * spatial))
        return TensorFields(**common, mode=TensorMode.IM2COL, lower_corner=(0,) * (self.rank - 2), upper_corner=(0,) * (self.rank - 2),
                            element_strides=(1, *[self.stride] * spatial), pixels_per_column=rows, channels_per_pixel=self.row)


CASES = [
    *(Case(64, swizzle=mode) for mode in Swizzle if mode not in (Swizzle.B32,)), Case(128, swizzle=Swizzle.B128), Case(256),
    *(Case(64, rank=rank) for rank in (3, 4, 5)), Case(64, stride=2),
    Case(32, least=0.9), Case(32, swizzle=Swizzle.B32, least=0.9), Case(32, rank=5, least=0.9), Case(16, least=0.9),
    *(Case(64, rank=rank, pixels=True, least=0.95) for rank in (3, 4, 5)), Case(64, rank=4, pixels=True, swizzle=Swizzle.B64, least=0.95),
    *(Case(row, store=True, swizzle=mode, least=0.95) for row, mode in ((256, Swizzle.NONE), (128, Swizzle.NONE), (128, Swizzle.B128))),
    # 32 bursts of two beats under way, each for 76 cycles.
    *(Case(64, store=True, swizzle=mode, least=0.83) for mode in (Swizzle.NONE, Swizzle.B64)),
]


async def measure(dut, case):
    """Beats a cycle between the first and the last of the bus, and beats that the rows need at least."""
    bench = TensorBench(dut, Stalls(latency=(LATENCY, LATENCY)))
    await bench.start()
    await bench.forget()
    for _ in range(max(bench.cfg.axi_reads, bench.cfg.axi_writes)):      # the slots are cleared
        await RisingEdge(dut.clk)
    rows = min(64, bench.cfg.shared_bytes // 2 // case.row)
    base = len(bench.memory) // 2
    fields = case.fields(rows, base)
    corner = (0, *[0] * (case.rank - 1))
    space = min(REQUESTS, bench.cfg.shared_bytes // fields.bytes) * fields.bytes
    for number in range(REQUESTS + 1):      # the first one brings the descriptor
        request = TensorRequest(coordinates=corner, shared_address=number * fields.bytes % space, mode=fields.mode, store=case.store,
                                offsets=(0,) * (case.rank - 2) if case.pixels else (), descriptor=0)
        bench.describe(0, fields)
        bench.issue_tensor(fields, request, barrier=None if case.store else 2)
        if number == 0:
            await bench.idle()
            bench.allowed[:] = True
            for times in bench.times.values():
                times.clear()
    await bench.idle()
    times = bench.times["write_data" if case.store else "read_data"]
    span = times[-1] - times[0] + 1
    row_beats = -(-case.row // bench.cfg.axi_bytes)
    assert len(times) == REQUESTS * rows * row_beats
    return {"case": case.name, "beats": len(times), "cycles": span, "beats_per_cycle": len(times) / span,
            "first": bench.times["read_request"][0] - bench.times["tensor"][0] if not case.store else None}


@cocotb.test(timeout_time=100, timeout_unit="ms")
@cocotb.parametrize(number=list(range(len(CASES))))
async def throughput(dut, number):
    case = CASES[number]
    row = await measure(dut, case)
    dut._log.info(f"speed {json.dumps(row)}")
    assert row["beats_per_cycle"] >= case.least, row
