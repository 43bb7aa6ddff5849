"""Bench of the address generator of tensor copies: from requests and descriptors in memory to pieces."""

from dataclasses import replace

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from heddle.isa.tensor_descriptor import TensorMode
from heddle.tmau.layouts import tensor_failure_layout, tensor_operation_layout
from heddle.tmau.row_bursts import piece_layout
from heddle_sim.golden.tensor_checks import TensorRequest, first_violation
from heddle_sim.golden.tensor_fields import TensorFields
from heddle_sim.toolchain.cocotb_runner import bench_config

from ..agents.descriptor_memory import DescriptorMemory
from ..agents.pause import PATTERNS, none, pattern
from ..agents.stream import StreamSink, StreamSource
from ..stimulus.tensor_requests import broken, random_fields, random_request, request_members
from .row_bursts import check_pieces


class Bench:
    """Descriptors in memory, a few of them used again and again."""

    def __init__(self, dut, rng, pauses=none, latency=(1, 30)):
        self.dut, self.cfg, self.rng = dut, bench_config(), rng
        self.server = DescriptorMemory(dut, self.cfg, rng, np.zeros(1 << 13, np.uint8), latency, pauses)
        self.source = StreamSource(dut, "i_operation", tensor_operation_layout(), rng=rng, pause=pauses())
        self.pieces = StreamSink(dut, "o", piece_layout(self.cfg), pause=pauses())
        self.failures = StreamSink(dut, "o_failure", tensor_failure_layout(), pause=pauses())
        self.expected = []
        for name in ("stop", "invalidate", "invalidate_address"):
            getattr(dut, name).value = 0

    async def start(self):
        Clock(self.dut.clk, 10, unit="ns").start()
        self.dut.rst.value = 1
        await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0
        self.server.start()

    def descriptor(self, place, fields):
        """Puts a descriptor into memory, at multiples of 128 bytes."""
        self.server.memory[128 * place:128 * place + 128] = np.frombuffer(fields.encode(), np.uint8)
        return 128 * place

    def send(self, fields, request):
        fields = TensorFields.decode(fields.encode())
        number = len(self.expected)
        self.expected.append((fields, request, first_violation(fields, request, self.cfg.shared_bytes, self.cfg.axi_address_bits)))
        self.source.put({"address": request.descriptor, "request": request_members(request, pc=number)})

    async def finish(self):
        """Waits until everything is over and compares."""
        cycles = 0
        while sum(piece["last"] for piece in self.pieces.received) + len(self.failures.received) < len(self.expected):
            await RisingEdge(self.dut.clk)
            cycles += 1
            assert cycles < 2000 * len(self.expected) + 2000, "requests must end"
        await ClockCycles(self.dut.clk, 5)
        assert not self.dut.busy.value
        for number, (fields, request, violation) in enumerate(self.expected):
            mine = [piece for piece in self.pieces.received if piece["pc"] == number]
            failures = [item for item in self.failures.received if item["pc"] == number]
            if violation is None:
                assert not failures, f"{failures}: {fields} {request}"
                check_pieces(mine, fields, request)
            else:
                assert not mine and [item["violation"]["code"] for item in failures] == [violation.error.value]
        order = [piece["pc"] for piece in self.pieces.received]
        assert order == sorted(order), "boxes must come in the order of their requests"
        return cycles


def _again(request, address):
    return TensorRequest(**{**request.__dict__, "descriptor": address})


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(pauses=PATTERNS)
async def legal_and_broken_requests(dut, pauses):
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng, lambda: pattern(pauses, rng))
    await bench.start()
    tensors = []
    while len(tensors) < 14:
        fields = random_fields(rng, bench.cfg, max_rows=40)
        if fields.bytes > bench.cfg.shared_bytes:
            continue
        if len(tensors) % 4 == 3:
            fields, _ = broken(rng, fields, random_request(rng, bench.cfg, fields))
        tensors.append((fields, bench.descriptor(len(tensors), fields)))
    for _ in range(40):
        fields, address = tensors[int(rng.integers(len(tensors)))]
        try:
            request = random_request(rng, bench.cfg, fields, store=bool(rng.integers(2)))
        except ValueError:      # of a broken descriptor: no coordinate is right
            request = TensorRequest(coordinates=(0,) * fields.rank, mode=fields.mode)
        bench.send(fields, _again(request, address))
    await bench.finish()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def first_piece_and_no_gaps(dut):
    """The first piece is transferred ``rank + 4`` cycles behind its request; then a piece a cycle, across requests of at least ``rank``
    pieces, and a request in ``rank`` cycles."""
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng)
    await bench.start()
    for place, rank in enumerate(range(1, 6)):
        fields = TensorFields(sizes=(64, *(8,) * (rank - 1)), strides=tuple(64 * 8 ** d for d in range(rank - 1)),
                              box=(64, *(8, 2, 1, 1)[:rank - 1]), element_strides=(1,) * rank)
        address = bench.descriptor(place, fields)
        request = TensorRequest(coordinates=(0,) * rank, descriptor=address)
        bench.send(fields, request)
        await bench.finish()
        count = len(bench.pieces.received)
        bench.send(fields, request)
        while not (dut.i_operation__valid.value and dut.i_operation__ready.value):
            await RisingEdge(dut.clk)
        cycles = 0
        while len(bench.pieces.received) == count:
            await RisingEdge(dut.clk)
            cycles += 1
        assert cycles == rank + 4, f"{cycles} cycles to the first piece of rank {rank}"
        await bench.finish()
        short = replace(fields, box=(64, *(1,) * (rank - 1)))
        for described, where in ((fields, address), (short, bench.descriptor(place + 5, short))):
            bench.send(described, _again(request, where))
            await bench.finish()
            count = len(bench.pieces.received)
            for _ in range(20):
                bench.send(described, _again(request, where))
            cycles = await bench.finish()
            pieces = len(bench.pieces.received) - count
            assert cycles <= max(pieces, 20 * rank) + 20, f"{cycles} cycles for {pieces} pieces of rank {rank}"


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def stop_drops_everything(dut):
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng)
    await bench.start()
    fields = TensorFields(sizes=(64, 200), strides=(64,), box=(64, 200), element_strides=(1, 1))
    request = TensorRequest(coordinates=(0, 0), descriptor=bench.descriptor(3, fields))
    dropped = ended = 0
    for _ in range(5):
        bench.send(fields, request)
    for cycle in range(400):
        await RisingEdge(dut.clk)
        dropped += int(dut.dropped.value).bit_count()
        dut.stop.value = int(cycle > 120)
    ended = sum(piece["last"] for piece in bench.pieces.received)
    assert dropped + ended == 5 and dropped > 2 and not dut.busy.value
    dut.stop.value = 0
    bench.expected.clear()
    bench.pieces.received.clear()
    bench.send(fields, request)
    await bench.finish()
    assert fields.mode == TensorMode.TILE
