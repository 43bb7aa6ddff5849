"""Bench of the setup of tensor copies, against the golden checks and the golden geometry."""

from dataclasses import replace

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from heddle.isa.error_codes import ErrorCode
from heddle.isa.tensor_descriptor import Interleave, TensorMode
from heddle.isa.tensor_rules import RULES
from heddle.tmau.layouts import box_layout, tensor_failure_layout, tensor_request_layout
from heddle_sim.golden.tensor_checks import first_violation
from heddle_sim.golden.tensor_fields import TensorFields
from heddle_sim.toolchain.cocotb_runner import bench_config

from ..agents.pause import PATTERNS, none, pattern
from ..agents.stream import StreamSink, StreamSource
from ..coverage.errors import sample_error
from ..stimulus.tensor_requests import box_of, broken, legal_cases, random_fields, random_request, request_members
from ..stimulus.tensor_rule_cases import DESCRIPTORS, IN_IM2COL, IN_TILE, REQUESTS, TILE, bytes_of


def payload_of(descriptor, request, rest):
    """The payload of a request with the 128 bytes of its descriptor."""
    return {"descriptor": int.from_bytes(descriptor, "little"), "descriptor_address": request.descriptor, "descriptor_error": 0,
            **request_members(request, **rest)}


def check_box(box, expected, fields):
    """Compares what matters: nothing is said of restarts of a loop around which there is none, and of loops that do not end."""
    for name, value in expected.items():
        if name != "walk":
            assert box[name] == value, f"{name}: {box[name]}, expected {value}"
    assert [box["walk"][name] for name in ("pixels", "inside")] == [expected["walk"][name] for name in ("pixels", "inside")]
    pixels = fields.mode == TensorMode.IM2COL
    assert not pixels or box["walk"]["pixels_minus_one"] == expected["walk"]["pixels_minus_one"]
    for d, (loop, wanted) in enumerate(zip(box["walk"]["loop"], expected["walk"]["loop"])):
        exists, images = d < fields.rank and (d or fields.interleave != Interleave.NONE), pixels and d + 1 == fields.rank
        names = ["position", "rest", "left", "step"]
        if not images:
            names += ["restart", "restart_rest", "restart_left"]
        if exists:
            names += ["step_blocks", "place"]
        for name in names:
            assert loop[name] == wanted[name], f"{name} of dimension {d}: {loop[name]}, expected {wanted[name]}"


class _Bytes:
    """A descriptor by its bytes."""

    def __init__(self, descriptor):
        self.descriptor = descriptor

    def encode(self):
        return self.descriptor


async def _run(dut, cases, rng, source_pause, sink_pauses):
    cfg = bench_config()
    Clock(dut.clk, 10, unit="ns").start()
    dut.stop.value = 0
    source = StreamSource(dut, "i", tensor_request_layout(), rng=rng, pause=source_pause)
    boxes = StreamSink(dut, "o", box_layout(cfg), pause=sink_pauses[0])
    failures = StreamSink(dut, "o_failure", tensor_failure_layout(), pause=sink_pauses[1])
    dut.rst.value = 1
    await RisingEdge(dut.clk)
    dut.rst.value = 0
    expected, seen = [], set()
    for number, (fields, request) in enumerate(cases):
        rest = {"barrier": int(rng.integers(16)), "has_barrier": int(rng.integers(2)), "pc": number}
        descriptor = fields.encode()
        source.put(payload_of(descriptor, request, rest))
        fields = TensorFields.decode(descriptor)
        violation = first_violation(fields, request, cfg.shared_bytes, cfg.axi_address_bits)
        expected.append((violation, fields, request, rest))
        seen.add(violation and violation.error)
    cycles = 0
    while boxes.count + failures.count < len(expected):
        await RisingEdge(dut.clk)
        cycles += 1
        assert cycles < 200 * len(expected), f"{boxes.count} boxes and {failures.count} failures of {len(expected)}"
    await ClockCycles(dut.clk, 10)
    assert boxes.count + failures.count == len(expected)
    order = sorted([(box["pc"], None) for box in boxes.received] + [(item["pc"], item["violation"]) for item in failures.received])
    for (violation, fields, request, _), (pc, got) in zip(expected, order):
        assert (violation is None) == (got is None), f"request {pc}: {got}, expected {violation}: {fields} {request}"
    for violation, fields, request, rest in expected:
        if violation is None:
            box = boxes.received.pop(0)
            assert {name: box[name] for name in rest} == rest
            check_box(box, box_of(cfg, fields, request), fields)
        else:
            failure = failures.received.pop(0)
            assert failure["pc"] == rest["pc"]
            value = getattr(violation.value, "value", violation.value) & 0xFFFF_FFFF
            wanted = {"code": violation.error.value, "dimension": violation.dimension or 0, "value": value}
            assert failure["violation"] == wanted, f"{violation}: {failure}"
            sample_error("TMAU", violation.error)
    return cycles, seen


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(sink=PATTERNS)
async def legal_requests(dut, sink):
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    cases = legal_cases(rng, bench_config(), 40)
    await _run(dut, cases, rng, pattern("bursty", rng), [pattern(sink, rng) for _ in range(2)])


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def stores(dut):
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    cases = legal_cases(rng, bench_config(), 40, store=True, mode=TensorMode.TILE)
    await _run(dut, cases, rng, none(), (none(), none()))


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def broken_requests(dut):
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    cfg = bench_config()
    cases = []
    for _ in range(300):
        fields = random_fields(rng, cfg)
        cases.append(broken(rng, fields, random_request(rng, cfg, fields, store=bool(rng.integers(2)))))
    _, seen = await _run(dut, cases, rng, none(), (none(), none()))
    assert len(seen) > 18, f"few rules were broken: {seen}"


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def broken_descriptors(dut):
    """Random bits of the control word: codes that mean nothing."""
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    cfg = bench_config()

    cases = []
    for _ in range(150):
        fields = random_fields(rng, cfg)
        descriptor = bytearray(fields.encode())
        byte = int(rng.integers(2))
        descriptor[8 + byte] ^= int(rng.choice([1, 2, 4, 8, 16, 24, 32, 64, 96, 128] if byte else [1, 2, 4, 8, 16, 32, 64, 128]))
        cases.append((_Bytes(bytes(descriptor)), random_request(rng, cfg, fields)))
    _, seen = await _run(dut, cases, rng, none(), (none(), none()))
    assert len(seen) > 5, f"few rules were broken: {seen}"


def _around_the_end(rng, cfg):
    """A request for a tensor that ends a few blocks before or behind the end of global memory; strides and sizes of all widths."""
    fields = random_fields(rng, cfg)
    limit = 1 << cfg.axi_address_bits
    alignment = 32 if fields.interleave == Interleave.B32 else 16
    room = limit
    sizes, strides = list(fields.sizes), list(fields.strides)
    for number in rng.permutation(len(strides)):
        dimension = number + (fields.interleave == Interleave.NONE or number > 0)
        sizes[dimension] = max(sizes[dimension], int(2 ** rng.uniform(0, 32)))
        strides[number] = min(int(rng.integers(2 * room // sizes[dimension] + alignment)), (1 << 40) - 1) & -alignment
        room = max(room - (sizes[dimension] - 1) * strides[number], 0)
    if strides and rng.random() < 0.3:      # the products need more bits than an address
        strides[int(rng.integers(len(strides)))] |= 1 << int(rng.integers(cfg.axi_address_bits, 40))
    if rng.random() < 0.3:
        sizes[0] = int(2 ** rng.uniform(0, 32))
    fields = replace(fields, address=0, sizes=tuple(sizes), strides=tuple(strides))
    beside = (limit - fields.tensor_bytes & -alignment) + alignment * int(rng.integers(-2, 3))
    fields = replace(fields, address=beside if 0 <= beside < limit else alignment * int(rng.integers(limit // alignment)))
    request = random_request(rng, cfg, fields)
    return fields, replace(request, coordinates=tuple(min(value, (1 << 31) - 64) for value in request.coordinates))


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def tensors_that_end_with_memory(dut):
    """Refused exactly when an element lies behind global memory, however large products and sums are."""
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    cfg, cases = bench_config(), []
    while len(cases) < 400:
        fields, request = _around_the_end(rng, cfg)
        violation = first_violation(fields, request, cfg.shared_bytes, cfg.axi_address_bits)
        if violation is None or violation.error == ErrorCode.TENSOR_EXTENT:
            cases.append((fields, request))
    dimensions = [violation and violation.dimension for violation in
                  (first_violation(*case, cfg.shared_bytes, cfg.axi_address_bits) for case in cases)]
    assert {None, 0, 1, 2, 3, 4} == set(dimensions) and dimensions.count(None) > 40, dimensions
    await _run(dut, cases, rng, none(), (none(), none()))


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(sink=PATTERNS)
async def every_rule(dut, sink):
    """Each rule that a request or 128 bytes can break, alone; a request that breaks none in between."""
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    cases = []
    for name, code in ((code.name.removeprefix("TENSOR_"), code) for code, rule in RULES.items()
                       if rule.encoded and code != ErrorCode.TENSOR_BYTES):
        fields, request = REQUESTS[name][:2] if name in REQUESTS else (DESCRIPTORS[name][0], None)
        request = request or (IN_IM2COL if fields.mode == TensorMode.IM2COL else IN_TILE)
        assert first_violation(TensorFields.decode(bytes_of(fields)), request, bench_config().shared_bytes, 64).error == code
        cases += [(_Bytes(bytes_of(fields)), request), (TILE, IN_TILE)]
    _, seen = await _run(dut, cases, rng, none(), [pattern(sink, rng) for _ in range(2)])
    assert len(seen) == 1 + len(cases) // 2


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(rank=[1, 2, 3, 4, 5, None])
async def a_request_takes_as_many_cycles_as_dimensions(dut, rank):
    """One with interleave one more; results leave while the next request is set up."""
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    cases = [case for case in legal_cases(rng, bench_config(), 30 if rank is None else 100) if rank in (None, case[0].rank)]
    cycles, _ = await _run(dut, cases, rng, none(), (none(), none()))
    assert cycles <= sum(fields.rank + (fields.interleave != Interleave.NONE) for fields, _ in cases) + 4
