"""Copies of tensors on the generated hardware and on the functional simulator: shared memory, global memory and errors must be equal."""

from dataclasses import replace

import numpy as np
import pytest
from heddle import load_config
from heddle.isa.encoding import Reduction, Swizzle
from heddle.isa.error_codes import ErrorCode
from heddle.isa.tensor_descriptor import MAX_RANK, Fill, Interleave, TensorMode
from heddle.isa.tensor_rules import REDUCTION_FORMATS
from heddle_sim.cli.bench_copy import copy_row
from heddle_sim.device import Device
from heddle_sim.golden.tensor_checks import first_violation
from heddle_sim.golden.tensor_fields import TensorFields
from heddle_sim.kernels.parts.copy_cases import QUICK
from heddle_verif.differential.tensor_copies import DESCRIPTOR, MEMORY_BYTES, TENSOR_BYTES, compare_tensor_copies
from heddle_verif.stimulus.tensor_requests import broken, legal_cases, random_fields, random_request

CFG = load_config("tiny")


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
    assert compare_tensor_copies(cases, rng, CFG) == [None] * count
    described = [fields for fields, _ in cases]
    for name, least in (("mode", len(TensorMode)), ("swizzle", len(Swizzle)), ("interleave", len(Interleave)), ("rank", MAX_RANK),
                        ("fill", len(Fill))):
        assert len({getattr(fields, name) for fields in described}) == least, name
    assert any(max(fields.steps) > 1 for fields in described) and any(min(request.coordinates) < 0 for _, request in cases) != store


@pytest.mark.nightly
@pytest.mark.parametrize("mode", TensorMode)
def test_every_reduction(mode, seed):
    """Stores that add, compare, combine and count, in each format that they take."""
    rng, cases = np.random.default_rng([seed, mode.value]), []
    for reduction, formats in REDUCTION_FORMATS.items():
        for kind in sorted(formats, key=lambda kind: kind.value):
            case = None
            while case is None or not legal(*case):
                fields = random_fields(rng, CFG, mode, [kind], memory_bytes=TENSOR_BYTES)
                case = fields, replace(random_request(rng, CFG, fields, store=True), descriptor=DESCRIPTOR, reduction=reduction)
            cases.append(case)
    assert compare_tensor_copies(cases, rng, CFG) == [None] * len(cases)


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
    codes = compare_tensor_copies(cases, rng, CFG)
    assert sum(code is not None for code in codes) >= count
    assert len({code for code in codes if code}) > 8 and ErrorCode.TENSOR_EXTENT in codes, codes


@pytest.mark.soak
def test_a_memory_that_is_the_whole_address_space(seed):
    """Tensors and descriptors at both of its ends: what is legal lies in memory, and what is not is the same error. No address wraps."""
    cfg = CFG.replace(name="tiny_whole", axi_address_bits=MEMORY_BYTES.bit_length() - 1)
    rng, cases = np.random.default_rng(seed), []
    while len(cases) < 600:
        fields = random_fields(rng, cfg, memory_bytes=MEMORY_BYTES)
        fields = replace(fields, address=int(rng.choice([0, (MEMORY_BYTES - fields.tensor_bytes) // 32 * 32])))
        request = random_request(rng, cfg, fields, store=bool(rng.integers(2)))
        request = replace(request, descriptor=int(rng.choice([0, DESCRIPTOR])))
        if rng.integers(2):
            fields, request = broken(rng, fields, request)
        rank, pixels = len(request.coordinates), request.mode is TensorMode.IM2COL
        if rank >= (3 if pixels else 1) and (request.store or request.reduction is Reduction.NONE):
            cases.append((fields, replace(request, offsets=(*request.offsets, 0, 0, 0)[:rank - 2] if pixels else ())))
    codes = compare_tensor_copies(cases, rng, cfg)
    assert codes.count(None) > 100 and codes.count(ErrorCode.TENSOR_EXTENT) > 5


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.name)
def test_benchmark(case):
    """``heddle bench copy``: beats of the rows and no others, and the cycles from a request to its first address."""
    with Device(CFG, memory_bytes=1 << 22) as device:
        row = copy_row(device, case, 0, True)
    assert row["beats"] == row["requests"] * row["rows"] * case.row // CFG.axi_bytes
    assert row["start_cycles"] == case.rank + 5
    assert 0 < row["beats_per_cycle"] <= 1 and row["bus_fraction"] == row["beats_per_cycle"]
