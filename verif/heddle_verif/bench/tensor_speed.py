"""Speed of tensor copies in the bench of the TMAU: beats of the bus a cycle over back-to-back requests."""

import json

import cocotb
from cocotb.triggers import RisingEdge
from heddle.isa.encoding import Swizzle
from heddle.isa.tensor_rules import SHARED_ALIGNMENT
from heddle_sim.kernels.parts.copy_cases import CopyCase

from .tensor_environment import TensorBench
from .tmau_environment import Stalls

LATENCY = 64        # cycles from a request to its first beat, and from the last beat of a store to its answer
REQUESTS = 12
PAGE_BYTES = 4096


def _cases():
    """Cases with the beats that they make at least in a cycle."""
    yield from ((CopyCase(row=64, swizzle=mode), 0.97) for mode in Swizzle if mode is not Swizzle.B32)
    yield from ((CopyCase(row=128, swizzle=Swizzle.B128), 0.97), (CopyCase(row=256), 0.97), (CopyCase(row=64, stride=2), 0.97))
    yield from ((CopyCase(row=64, rank=rank), 0.97) for rank in (3, 4, 5))
    yield from ((CopyCase(row=32), 0.97), (CopyCase(row=32, swizzle=Swizzle.B32), 0.97), (CopyCase(row=32, rank=5), 0.97),
                (CopyCase(row=16), 0.97))
    yield from ((CopyCase(row=64, rank=rank, pixels=True), 0.95) for rank in (3, 4, 5))
    yield CopyCase(row=64, rank=4, pixels=True, swizzle=Swizzle.B64), 0.95
    yield from ((CopyCase(row=row, store=True), 0.95) for row in (16, 32, 64, 128, 256))
    yield from ((CopyCase(row=row, store=True, swizzle=mode), 0.95) for row, mode in ((64, Swizzle.B64), (128, Swizzle.B128)))
    # Requests of one row: this bench gives one a cycle, a program one in two.
    yield from ((CopyCase(row=row, rank=1, store=store), 0.95) for store in (False, True) for row in (16, 32, 64))


CASES = list(_cases())


async def measure(dut, case):
    """Beats a cycle between the first and the last of the bus, and beats that the rows need at least."""
    bench = TensorBench(dut, Stalls(latency=(LATENCY, LATENCY)))
    await bench.start()
    await bench.forget()
    for _ in range(max(bench.cfg.axi_reads, bench.cfg.axi_writes)):      # the slots are cleared
        await RisingEdge(dut.clk)
    rows = case.rows(bench.cfg.shared_bytes)
    room = (len(bench.memory) - case.fields(rows, 0).tensor_bytes) // PAGE_BYTES * PAGE_BYTES
    assert room >= PAGE_BYTES, "memory must hold the tensor, and the descriptor before it"
    fields = case.fields(rows, min(room, len(bench.memory) // 2))
    pitch = -(-fields.room // SHARED_ALIGNMENT) * SHARED_ALIGNMENT
    space = min(REQUESTS, bench.cfg.shared_bytes // pitch) * pitch
    for number in range(REQUESTS + 1):      # the first one brings the descriptor
        request = case.request(0, number * pitch % space)
        bench.describe(0, fields)
        bench.issue_tensor(fields, request, barrier=None if case.store else 2)
        if number == 0:
            await bench.idle()
            bench.allowed[:] = True
            for times in bench.times.values():
                times.clear()
    await bench.idle()
    assert not bench.errors, f"a request was refused: {bench.errors}"
    times = bench.times["write_data" if case.store else "read_data"]
    span = times[-1] - times[0] + 1
    assert len(times) == REQUESTS * rows * case.beats(bench.cfg.axi_bytes)
    return {"case": case.name, "beats": len(times), "cycles": span, "beats_per_cycle": len(times) / span,
            "first": bench.times["read_request"][0] - bench.times["tensor"][0] if not case.store else None}


@cocotb.test(timeout_time=100, timeout_unit="ms")
@cocotb.parametrize(number=list(range(len(CASES))))
async def throughput(dut, number):
    case, least = CASES[number]
    row = await measure(dut, case)
    dut._log.info(f"speed {json.dumps(row)}")
    assert row["beats_per_cycle"] >= least, row
