"""Copies of tensors on the generated hardware and on the functional simulator: shared memory, global memory and errors must be equal."""

from dataclasses import replace

import numpy as np
import pytest
from heddle import load_config
from heddle.isa.encoding import Reduction, Swizzle
from heddle.isa.error_codes import ErrorCode
from heddle.isa.tensor_descriptor import MAX_RANK, Fill, Interleave, TensorMode
from heddle_sim.cli.bench_copy import copy_row
from heddle_sim.device import Device, DeviceError
from heddle_sim.golden.tensor_checks import first_violation
from heddle_sim.golden.tensor_fields import TensorFields
from heddle_sim.kernels.copy_cases import QUICK
from heddle_sim.kernels.tensor_copy import block_copy, tensor_copy
from heddle_verif.coverage.tmau import sample_tensor
from heddle_verif.stimulus.tensor_requests import broken, legal_cases, random_fields, random_request

from .test_fuzz import differing, settings

CFG = load_config("tiny")
MEMORY_BYTES = 1 << 17
TENSOR_BYTES = MEMORY_BYTES - (1 << 15)         # behind them a descriptor, and shared memory as it is brought out
BATCH = 20              # cases on the same device, with the same behaviour of its memory
DESCRIPTOR, IMAGE = TENSOR_BYTES, MEMORY_BYTES - CFG.shared_bytes


def pair(rng, cfg=CFG):
    memory = rng.integers(0, 256, MEMORY_BYTES, np.uint8)
    devices = (Device(cfg, "verilator", memory_bytes=MEMORY_BYTES, memory_settings=settings(rng), timeout_cycles=1_000_000),
               Device(cfg, "golden", memory_bytes=MEMORY_BYTES))
    for device in devices:
        device.memory.bytes[:] = memory
    return devices


def outcome(device, fields, request, cfg):
    """The error of a copy, or None; afterwards shared memory lies in global memory."""
    start, error = request.descriptor if request.descriptor % 64 == 0 and request.descriptor < TENSOR_BYTES + 4096 else DESCRIPTOR, None
    device.write(start, np.frombuffer(fields.encode(), np.uint8))
    try:
        launch = tensor_copy(cfg, request, TensorFields.decode(fields.encode()).bytes)
        device.run(launch.program, launch.uniform)
    except DeviceError as problem:
        error = problem.code, problem.pc, problem.operand, problem.dimension
    launch = block_copy(cfg, 0, IMAGE, cfg.shared_bytes, to_shared=False)
    device.run(launch.program, launch.uniform)
    return error


def compare(cases, rng, cfg=CFG):
    """Every case on both; returns the codes of the errors. The memory of each batch behaves in its own way."""
    codes = []
    for start in range(0, len(cases), BATCH):
        device, golden = pair(rng, cfg)
        with device, golden:
            for each in (device, golden):       # what shared memory holds at first
                launch = block_copy(cfg, 0, 0, cfg.shared_bytes, to_shared=True)
                each.run(launch.program, launch.uniform)
            for fields, request in cases[start:start + BATCH]:
                found, expected = outcome(device, fields, request, cfg), outcome(golden, fields, request, cfg)
                assert found == expected, f"{found}, not {expected}: {fields} {request}"
                codes.append(expected and expected[0])
                if expected is None:
                    sample_tensor(TensorFields.decode(fields.encode()), request)
                assert np.array_equal(device.memory.bytes, golden.memory.bytes), (
                    f"{differing(device.memory.bytes, golden.memory.bytes)}: {fields} {request}")
    return codes


def legal(fields, request):
    return first_violation(fields, request, CFG.shared_bytes, CFG.axi_address_bits) is None


@pytest.mark.parametrize("count", [60, pytest.param(250, marks=pytest.mark.nightly), pytest.param(1000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("store", [False, True])
def test_legal_requests(store, count, seed):
    """Each does what the functional simulator does; all modes, ranks, swizzles and interleaves are among them."""
    rng, cases = np.random.default_rng(seed + store), []
    while len(cases) < count:
        [(fields, request)] = legal_cases(rng, CFG, 1, store=store, memory_bytes=TENSOR_BYTES)
        request = replace(request, descriptor=DESCRIPTOR, reduction=Reduction.NONE)
        if legal(fields, request):
            cases.append((fields, request))
    assert compare(cases, rng) == [None] * count
    described = [fields for fields, _ in cases]
    for name, least in (("mode", len(TensorMode)), ("swizzle", len(Swizzle)), ("interleave", len(Interleave)), ("rank", MAX_RANK),
                        ("fill", len(Fill))):
        assert len({getattr(fields, name) for fields in described}) == least, name
    assert any(max(fields.steps) > 1 for fields in described) and any(min(request.coordinates) < 0 for _, request in cases) != store


@pytest.mark.parametrize("count", [60, pytest.param(100, marks=pytest.mark.nightly), pytest.param(300, marks=pytest.mark.soak)])
def test_broken_requests(count, seed):
    """``count`` requests that break a rule: the same code, operand and dimension; what is legal all the same does the same."""
    rng, cases, illegal = np.random.default_rng(seed), [], 0
    while illegal < count:
        fields = random_fields(rng, CFG, memory_bytes=TENSOR_BYTES)
        request = replace(random_request(rng, CFG, fields, store=bool(rng.integers(2))), descriptor=DESCRIPTOR)
        fields, request = broken(rng, fields, request)
        if not request.store:
            request = replace(request, reduction=Reduction.NONE)        # no instruction says it
        rank, pixels = len(request.coordinates), request.mode is TensorMode.IM2COL
        if rank < (3 if pixels else 1):     # instructions of im2col have three coordinates
            continue
        seen = TensorFields.decode(fields.encode())
        request = replace(request, offsets=(*request.offsets, 0, 0, 0)[:rank - 2] if pixels else ())
        # Nothing is read behind the end of memory, where the hardware moves a part.
        if not legal(seen, request) or seen.address + seen.tensor_bytes <= TENSOR_BYTES:
            cases.append((fields, request))
            illegal += not legal(seen, request)
    codes = compare(cases, rng)
    assert sum(code is not None for code in codes) >= count
    assert len({code for code in codes if code}) > 8 and ErrorCode.TENSOR_EXTENT in codes, codes


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.name)
def test_benchmark(case):
    """``heddle bench copy``: beats of the rows and no others, and the cycles from a request to its first address."""
    with Device(CFG, memory_bytes=1 << 22) as device:
        row = copy_row(device, case, 0, True)
    assert row["beats"] == row["requests"] * row["rows"] * case.row // CFG.axi_bytes
    assert row["start_cycles"] == case.rank + 5
    assert 0 < row["beats_per_cycle"] <= 1 and row["bus_fraction"] == row["beats_per_cycle"]
