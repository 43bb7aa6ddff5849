"""Bench of the TMAU with tensors against the golden models."""

from dataclasses import replace
from functools import partial

import cocotb
from cocotb.triggers import ClockCycles
from heddle_sim.golden.tensor_checks import TensorRequest, first_violation, understood
from heddle_sim.golden.tensor_fields import TensorFields
from heddle_sim.toolchain.cocotb_process import bench_parameters

from ..stimulus.tensor_requests import broken, random_fields, random_request
from . import tmau as copy
from .tensor_environment import DESCRIPTORS, TensorBench, TensorWorkload
from .tmau import PROFILES

begin = partial(copy.begin, bench=TensorBench, work=TensorWorkload)


@cocotb.test(timeout_time=400, timeout_unit="ms")
@cocotb.parametrize(profile=list(PROFILES))
async def legal_requests(dut, profile):
    """Loads and stores of tensors of every mode mixed with copies of blocks."""
    bench, work = await begin(dut, PROFILES[profile])
    wanted, done = bench_parameters()["legal"] // len(PROFILES), 0
    while done < wanted:
        await work.restart()
        full, before = False, done
        while not full and done < wanted:
            full = not work.tensor(bool(bench.rng.integers(2)), max_rows=60)
            done += not full
            if bench.rng.random() < 0.4:
                full |= not work.blocks(bool(bench.rng.integers(2)))
        await bench.idle()
        assert done > before, "a batch must have room for a request"


@cocotb.test(timeout_time=100, timeout_unit="ms")
async def illegal_requests(dut):
    """Requests that break rules, each with its error, between some that do not."""
    bench, work = await begin(dut, PROFILES["all"])
    cfg, rng = bench.cfg, bench.rng
    wanted = bench_parameters()["illegal"]
    failures = 0
    while failures < wanted:
        await work.restart()
        while work.described < DESCRIPTORS - 1 and failures < wanted:
            fields = random_fields(rng, cfg, max_rows=40, memory_bytes=1 << 14)
            fields, request = broken(rng, fields, random_request(rng, cfg, fields, store=bool(rng.integers(2))))
            address = bench.describe(work.described, fields)
            request = replace(request, descriptor=request.descriptor or address)
            if not request.descriptor % 64 and request.descriptor >> cfg.axi_address_bits == 0 and request.descriptor != address:
                continue        # some other place: whatever lies there
            seen = understood(cfg, TensorFields.decode(fields.encode()))
            if first_violation(seen, request, cfg.shared_bytes, cfg.axi_address_bits) is None:
                continue
            work.described += 1
            failures += 1
            bench.issue_tensor(fields, request, barrier=3)
            if rng.random() < 0.2:
                work.tensor(bool(rng.integers(2)), max_rows=10)
        await bench.idle()
    assert sum(bench.errors.values()) >= wanted


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def descriptor_errors(dut):
    """A descriptor that memory answers with an error is reported; the next request is not touched by it."""
    bench, work = await begin(dut, PROFILES["latency"], fails=lambda address: 128 <= address < 192)
    fields = TensorFields(sizes=(64, 8), strides=(64,), box=(64, 8), element_strides=(1, 1), address=8192)
    for number in range(3):
        address = bench.describe(number, fields)
        request = TensorRequest(coordinates=(0, 0), shared_address=1024 * number, descriptor=address)
        bench.issue_tensor(fields, request, barrier=1, golden=number != 1)
        await bench.idle() if number != 1 else await ClockCycles(dut.clk, 300)
        if number == 1:
            assert [key[0] for key in bench.errors] == [8] and [key[2] for key in bench.errors] == [128]
            bench.expected_errors.update(bench.errors)


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def stopping(dut):
    """While stopped, everything ends with its done; afterwards the unit works."""
    bench, work = await begin(dut, PROFILES["all"])
    for _ in range(bench.rounds(6)):
        await work.restart()
        bench.allowed[:] = True
        for _ in range(10):
            work.tensor(bool(bench.rng.integers(2)), max_rows=60)
            work.blocks(bool(bench.rng.integers(2)))
        await bench.stopped(bench.random.randrange(5, 400))
        bench.expected_errors = bench.errors.copy()
        await work.restart()
        for _ in range(4):
            work.tensor(bool(bench.rng.integers(2)), max_rows=30)
        await bench.idle()
