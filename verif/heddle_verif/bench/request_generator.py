"""Bench of the address generator of tensor copies: from requests and descriptors in memory to pieces."""

from dataclasses import replace

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from heddle.interfaces.tensor_operation import tensor_operation_layout
from heddle.isa.tensor_descriptor import TensorMode
from heddle.tmau.layouts import tensor_failure_layout
from heddle.tmau.request_generator import RequestGenerator
from heddle.tmau.row_bursts import piece_layout
from heddle_sim.golden.tensor_checks import TensorRequest, first_violation
from heddle_sim.golden.tensor_fields import TensorFields
from heddle_sim.toolchain.cocotb_process import bench_config

from ..agents.descriptor_memory import DescriptorMemory
from ..agents.pause import PATTERNS, pattern
from ..checkers.scoreboard import Scoreboard
from ..fixture import Bench
from ..stimulus.tensor_requests import broken, random_fields, random_request, request_members
from .row_bursts import BoxScoreboard


class GeneratorBench(Bench):
    """Descriptors in memory, a few of them used again and again; ``pause`` of all streams."""

    def __init__(self, dut, pause="none", latency=(1, 30)):
        super().__init__(dut, RequestGenerator(bench_config()))
        self.pause, self.latency = pause, latency

    async def start(self):
        await super().start()
        self.forget()
        self.server = DescriptorMemory(self.dut, self.cfg, self.rng, np.zeros(1 << 13, np.uint8), self.latency,
                                       lambda: pattern(self.pause, self.rng))
        self.operations = self.source("i_operation", tensor_operation_layout(), pause=self.pause)
        self.pieces = self.sink("o", piece_layout(self.cfg), pause=self.pause, on_item=lambda piece: self.boxes.observe_piece(piece))
        self.sink("o_failure", tensor_failure_layout(), pause=self.pause, on_item=self._failure)
        self.server.start()
        cocotb.start_soon(self._watch_sizes())

    def forget(self):
        """Nothing is expected."""
        self.sent = 0
        self.boxes, self.failures = BoxScoreboard(), Scoreboard("failures", strict=True)
        self.sizes = Scoreboard("sizes of boxes with a barrier", strict=True)

    async def _watch_sizes(self):
        size = self.dut.o_sized__valid, self.dut.o_sized__barrier, self.dut.o_sized__blocks
        while True:
            await RisingEdge(self.dut.clk)
            valid, barrier, blocks = (int(signal.value) for signal in size)
            if valid:
                self.sizes.observe((barrier, blocks))

    def _failure(self, item):
        self.failures.observe((item["pc"], item["violation"]["code"]))

    def descriptor(self, place, fields):
        """Puts a descriptor into memory, at multiples of 128 bytes."""
        self.server.memory[128 * place:128 * place + 128] = np.frombuffer(fields.encode(), np.uint8)
        return 128 * place

    def send(self, fields, request):
        """Queue a request and expect its box or failure."""
        fields = TensorFields.decode(fields.encode())
        tags = {"pc": self.sent, "barrier": int(self.rng.integers(16)), "has_barrier": int(self.rng.integers(2))}
        violation = first_violation(fields, request, self.cfg.shared_bytes, self.cfg.axi_address_bits)
        if violation is None:
            self.boxes.expect_box(fields, request, tags)
            if tags["has_barrier"]:
                self.sizes.expect((tags["barrier"], fields.bytes // 16))
        else:
            self.failures.expect((self.sent, violation.error.value))
        self.sent += 1
        self.operations.put({"address": request.descriptor, "request": request_members(request, **tags)})

    async def idle(self):
        """Wait until everything is over and compare; returns the cycles."""
        cycles = await self.until(lambda: not (self.boxes.outstanding or self.failures.outstanding), 2000 * self.sent + 2000,
                                  "requests must end")
        await self.cycles(5)
        assert not self.dut.busy.value
        for scoreboard in (self.boxes, self.failures, self.sizes):
            scoreboard.finish(0)
        assert self.boxes.compared + self.failures.compared == self.sent
        return cycles


def _again(request, address):
    return TensorRequest(**{**request.__dict__, "descriptor": address})


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(pauses=PATTERNS)
async def legal_and_broken_requests(dut, pauses):
    bench = GeneratorBench(dut, pauses)
    await bench.start()
    rng, tensors = bench.rng, []
    while len(tensors) < 14:
        fields = random_fields(rng, bench.cfg, max_rows=40)
        if fields.room > bench.cfg.shared_bytes:
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
    await bench.idle()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def first_piece_and_no_gaps(dut):
    """The first piece is transferred ``rank + 4`` cycles behind its request; then a piece a cycle, across requests of at least ``rank``
    pieces, and a request in ``rank`` cycles."""
    bench = GeneratorBench(dut)
    await bench.start()
    for place, rank in enumerate(range(1, 6)):
        fields = TensorFields(sizes=(64, *(8,) * (rank - 1)), strides=tuple(64 * 8 ** d for d in range(rank - 1)),
                              box=(64, *(8, 2, 1, 1)[:rank - 1]), element_strides=(1,) * rank)
        address = bench.descriptor(place, fields)
        request = TensorRequest(coordinates=(0,) * rank, descriptor=address)
        bench.send(fields, request)
        await bench.idle()
        count = bench.pieces.count
        bench.send(fields, request)
        while not (dut.i_operation__valid.value and dut.i_operation__ready.value):
            await RisingEdge(dut.clk)
        cycles = await bench.until(lambda count=count: bench.pieces.count > count, 100, "the first piece must come")
        assert cycles == rank + 4, f"{cycles} cycles to the first piece of rank {rank}"
        await bench.idle()
        short = replace(fields, box=(64, *(1,) * (rank - 1)))
        for described, where in ((fields, address), (short, bench.descriptor(place + 5, short))):
            bench.send(described, _again(request, where))
            await bench.idle()
            count = bench.pieces.count
            for _ in range(20):
                bench.send(described, _again(request, where))
            cycles = await bench.idle()
            pieces = bench.pieces.count - count
            assert cycles <= max(pieces, 20 * rank) + 20, f"{cycles} cycles for {pieces} pieces of rank {rank}"


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def stop_drops_everything(dut):
    bench = GeneratorBench(dut)
    await bench.start()
    fields = TensorFields(sizes=(64, 200), strides=(64,), box=(64, 200), element_strides=(1, 1))
    request = TensorRequest(coordinates=(0, 0), descriptor=bench.descriptor(3, fields))
    dropped = 0
    for _ in range(5):
        bench.send(fields, request)
    for cycle in range(400):
        await RisingEdge(dut.clk)
        dropped += int(dut.dropped.value).bit_count()
        dut.stop.value = int(cycle > 120)
    assert dropped + bench.boxes.compared == 5 and dropped > 2 and not dut.busy.value
    dut.stop.value = 0
    bench.forget()
    bench.send(fields, request)
    await bench.idle()
    assert fields.mode == TensorMode.TILE


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def stop_while_pieces_wait(dut):
    """Pieces that wait at ``o`` stay, boxes that ended are whole, and every request ends with a last piece or as dropped."""
    bench = GeneratorBench(dut, "bursty")
    await bench.start()
    fields = [TensorFields(sizes=(64, rows), strides=(64,), box=(64, rows), element_strides=(1, 1)) for rows in (3, 20)]
    requests = [TensorRequest(coordinates=(0, 0), descriptor=bench.descriptor(place, each)) for place, each in enumerate(fields)]
    dropped = 0
    for _ in range(20):
        bench.forget()
        ended = dropped
        for number in bench.rng.integers(0, 2, 4):
            bench.send(fields[number], requests[number])
        running = int(bench.rng.integers(1, 200))
        for cycle in range(running + 400):
            await RisingEdge(dut.clk)
            dropped += int(dut.dropped.value).bit_count()
            dut.stop.value = int(cycle > running)
        assert not dut.busy.value
        whole = bench.boxes.compared
        assert dropped - ended + whole == 4, f"{dropped - ended} dropped and {whole} whole boxes of 4 requests"
        dut.stop.value = 0
    assert 10 < dropped < 70, f"{dropped} of 80 requests were dropped"
    bench.forget()
    for each, request in zip(fields, requests):
        bench.send(each, request)
    await bench.idle()
