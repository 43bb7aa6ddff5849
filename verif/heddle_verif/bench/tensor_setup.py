"""Bench of the setup of tensor copies, against the golden checks and the golden geometry."""

from dataclasses import replace

import cocotb
from heddle.isa.error_codes import ErrorCode
from heddle.isa.tensor_descriptor import Interleave, TensorMode
from heddle.isa.tensor_rules import RULES
from heddle.tmau.layouts import box_layout, tensor_failure_layout, tensor_request_layout
from heddle.tmau.setup import TensorSetup
from heddle_sim.golden.tensor_checks import first_violation
from heddle_sim.golden.tensor_fields import TensorFields
from heddle_sim.toolchain.cocotb_process import bench_config

from ..agents.pause import PATTERNS
from ..checkers.scoreboard import Scoreboard
from ..coverage.errors import sample_error
from ..fixture import Bench
from ..stimulus.tensor_requests import box_of, broken, legal_cases, random_fields, random_request, request_members
from ..stimulus.tensor_rule_cases import DESCRIPTORS, IN_IM2COL, IN_TILE, REQUESTS, TILE, bytes_of

TAGS = ("barrier", "has_barrier", "pc")


def payload_of(descriptor, request, rest):
    """The payload of a request with the 128 bytes of its descriptor."""
    return {"descriptor": int.from_bytes(descriptor, "little"), "descriptor_address": request.descriptor, "descriptor_error": 0,
            **request_members(request, **rest)}


def box_item(box, fields):
    """What is compared of a box: nothing is said of restarts of a loop around which there is none, and of loops that do not end."""
    walk, pixels = box["walk"], fields.mode == TensorMode.IM2COL
    item = {name: value for name, value in box.items() if name != "walk"} | {name: walk[name] for name in ("pixels", "inside")}
    if pixels:
        item["pixels_minus_one"] = walk["pixels_minus_one"]
    for d, loop in enumerate(walk["loop"]):
        exists, images = d < fields.rank and (d or fields.interleave != Interleave.NONE), pixels and d + 1 == fields.rank
        names = ["position", "rest", "left", "step"]
        if not images:
            names += ["restart", "restart_rest", "restart_left"]
        if exists:
            names += ["step_blocks", "place"]
        item |= {f"{name} of dimension {d}": loop[name] for name in names}
    return item


class _Bytes:
    """A descriptor by its bytes."""

    def __init__(self, descriptor):
        self.descriptor = descriptor

    def encode(self):
        return self.descriptor


class SetupBench(Bench):
    """Requests, and the boxes or failures that must come of them."""

    def __init__(self, dut):
        super().__init__(dut, TensorSetup(bench_config()))
        self.requests = []          # (fields, request) by ``pc``

    async def begin(self, source_pause, sink_pause):
        await self.start()
        self.boxes, self.failures = (Scoreboard(name, describe=self._describe, strict=True) for name in ("boxes", "failures"))
        self.i = self.source("i", tensor_request_layout(), pause=source_pause)
        self.sink("o", box_layout(self.cfg), pause=sink_pause, on_item=self._box)
        self.sink("o_failure", tensor_failure_layout(), pause=sink_pause, on_item=self._failure)

    def _describe(self, item):
        return f"{item} of {self.requests[item['pc']]}"

    def _box(self, box):
        assert box["pc"] < len(self.requests), f"pc of a box must be that of a request, not {box['pc']}"
        expected = box_of(self.cfg, *self.requests[box["pc"]])
        self.boxes.observe(box_item({name: box[name] for name in (*expected, *TAGS)}, self.requests[box["pc"]][0]))

    def _failure(self, failure):
        assert failure["pc"] < len(self.requests), f"pc of a failure must be that of a request, not {failure['pc']}"
        self.failures.observe(failure)
        sample_error("TMAU", ErrorCode(failure["violation"]["code"]))

    def put(self, fields, request):
        """Queue a request and expect its box or failure; returns the error or None."""
        tags = {"barrier": int(self.rng.integers(16)), "has_barrier": int(self.rng.integers(2)), "pc": len(self.requests)}
        descriptor = fields.encode()
        fields = TensorFields.decode(descriptor)
        self.requests.append((fields, request))
        violation = first_violation(fields, request, self.cfg.shared_bytes, self.cfg.axi_address_bits)
        if violation is None:
            self.boxes.expect(box_item({**box_of(self.cfg, fields, request), **tags}, fields))
        else:
            value = getattr(violation.value, "value", violation.value) & 0xFFFF_FFFF
            self.failures.expect({"pc": tags["pc"], "violation": {"code": violation.error.value, "dimension": violation.dimension or 0,
                                                                  "value": value}})
        self.i.put(payload_of(descriptor, request, tags))
        return violation and violation.error

    async def run(self, cases, source_pause="none", sink_pause="none"):
        """Give requests and compare all that comes; returns cycles and the set of their errors, None for a request without one."""
        await self.begin(source_pause, sink_pause)
        seen = {self.put(fields, request) for fields, request in cases}
        cycles = await self.until(lambda: not (self.boxes.outstanding or self.failures.outstanding), 200 * len(cases),
                                  f"{len(cases)} requests must end")
        self.finish()
        await self.cycles(10)
        assert self.boxes.compared + self.failures.compared == len(cases)
        for scoreboard in (self.boxes, self.failures):
            scoreboard.finish(0)
        return cycles, seen


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(sink=PATTERNS)
async def legal_requests(dut, sink):
    bench = SetupBench(dut)
    await bench.run(legal_cases(bench.rng, bench.cfg, 40), "bursty", sink)


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def stores(dut):
    bench = SetupBench(dut)
    await bench.run(legal_cases(bench.rng, bench.cfg, 40, store=True, mode=TensorMode.TILE))


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def broken_requests(dut):
    bench = SetupBench(dut)
    rng, cfg, cases = bench.rng, bench.cfg, []
    for _ in range(300):
        fields = random_fields(rng, cfg)
        cases.append(broken(rng, fields, random_request(rng, cfg, fields, store=bool(rng.integers(2)))))
    _, seen = await bench.run(cases)
    assert len(seen) > 18, f"few rules were broken: {seen}"


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def broken_descriptors(dut):
    """Random bits of the control word: codes that mean nothing."""
    bench = SetupBench(dut)
    rng, cfg, cases = bench.rng, bench.cfg, []
    for _ in range(150):
        fields = random_fields(rng, cfg)
        descriptor = bytearray(fields.encode())
        byte = int(rng.integers(2))
        descriptor[8 + byte] ^= int(rng.choice([1, 2, 4, 8, 16, 24, 32, 64, 96, 128] if byte else [1, 2, 4, 8, 16, 32, 64, 128]))
        cases.append((_Bytes(bytes(descriptor)), random_request(rng, cfg, fields)))
    _, seen = await bench.run(cases)
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
    bench = SetupBench(dut)
    rng, cfg, cases = bench.rng, bench.cfg, []
    while len(cases) < 400:
        fields, request = _around_the_end(rng, cfg)
        violation = first_violation(fields, request, cfg.shared_bytes, cfg.axi_address_bits)
        if violation is None or violation.error == ErrorCode.TENSOR_EXTENT:
            cases.append((fields, request))
    dimensions = [violation and violation.dimension for violation in
                  (first_violation(*case, cfg.shared_bytes, cfg.axi_address_bits) for case in cases)]
    assert {None, 0, 1, 2, 3, 4} == set(dimensions) and dimensions.count(None) > 40, dimensions
    await bench.run(cases)


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(sink=PATTERNS)
async def every_rule(dut, sink):
    """Each rule that a request or 128 bytes can break, alone; a request that breaks none in between."""
    bench = SetupBench(dut)
    cases = []
    for name, code in ((code.name.removeprefix("TENSOR_"), code) for code, rule in RULES.items()
                       if rule.encoded and code != ErrorCode.TENSOR_BYTES):
        fields, request = REQUESTS[name][:2] if name in REQUESTS else (DESCRIPTORS[name][0], None)
        request = request or (IN_IM2COL if fields.mode == TensorMode.IM2COL else IN_TILE)
        assert first_violation(TensorFields.decode(bytes_of(fields)), request, bench.cfg.shared_bytes, 64).error == code
        cases += [(_Bytes(bytes_of(fields)), request), (TILE, IN_TILE)]
    _, seen = await bench.run(cases, "bursty", sink)
    assert len(seen) == 1 + len(cases) // 2


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(rank=[1, 2, 3, 4, 5, None])
async def a_request_takes_as_many_cycles_as_dimensions(dut, rank):
    """One with interleave one more; results leave while the next request is set up."""
    bench = SetupBench(dut)
    cases = [case for case in legal_cases(bench.rng, bench.cfg, 30 if rank is None else 100) if rank in (None, case[0].rank)]
    cycles, _ = await bench.run(cases)
    assert cycles <= sum(fields.rank + (fields.interleave != Interleave.NONE) for fields, _ in cases) + 4
