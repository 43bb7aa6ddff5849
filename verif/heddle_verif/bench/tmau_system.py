"""Bench of the TMAU with all that is behind it: shared memory, barriers, arbiter, second level and AXI master."""

import cocotb
import numpy as np
from amaranth.hdl import Module
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiBus, AxiRam
from heddle.constants import BANKS, LINE_BYTES
from heddle.interfaces.front_end import BarrierPort
from heddle.interfaces.layouts import (
    ErrorStream,
    GlobalPort,
    SharedReadPort,
    copy_operation_layout,
    error_layout,
    read_data_layout,
    read_request_layout,
    shared_read_layout,
    write_data_layout,
    write_request_layout,
    write_response_layout,
)
from heddle.interfaces.tensor_operation import tensor_operation_layout
from heddle.isa.encoding import Space
from heddle.l2.unit import L2
from heddle.memory.axi_master import AxiMaster, axi_members
from heddle.memory.barriers import Barriers
from heddle.memory.global_arbiter import GlobalArbiter
from heddle.memory.shared_memory import SharedMemory
from heddle.tmau.unit import Tmau
from heddle_sim.golden.block_copy import CopyOperation, copy_block
from heddle_sim.toolchain.cocotb_process import bench_config

from heddle_verif.bench.tmau_environment import pack_operation
from heddle_verif.checkers.scoreboard import Scoreboard
from heddle_verif.fixture import Bench

MEMORY_BYTES = 1 << 16
OTHER_BYTES = 2048          # at the end of memory, for the other client


class CopySystem(Component):
    """The units wired as in a core; ``other_read`` and ``other_client`` stand for the matrix and the thread unit."""

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "i_operation": In(stream.Signature(copy_operation_layout)),
            "o_error": Out(ErrorStream()),
            "done": Out(1), "busy": Out(1), "pending": Out(1),
            "expect": In(BarrierPort().members["expect"].signature),
            "index": In(4), "complete": Out(1), "overrun": Out(1),
            **({"i_tensor": In(stream.Signature(tensor_operation_layout()))} if cfg.tensors else {}),
            "other_read": In(SharedReadPort(cfg)),
            "other_client": In(GlobalPort(cfg, cfg.tag_bits)),
        } | axi_members(cfg))

    def elaborate(self, platform):
        m = Module()
        cfg = self.cfg
        m.submodules.copy = copy = Tmau(cfg)
        m.submodules.shared = shared = SharedMemory(cfg, readers=2, writers=1)
        m.submodules.barriers = barriers = Barriers(cfg)
        m.submodules.arbiter = arbiter = GlobalArbiter(cfg)
        m.submodules.level2 = level2 = L2(cfg)
        m.submodules.master = master = AxiMaster(cfg)
        connect(m, flipped(self.i_operation), copy.i_operation)
        if cfg.tensors:
            connect(m, flipped(self.i_tensor), copy.i_tensor)
        connect(m, copy.o_error, flipped(self.o_error))
        connect(m, flipped(self.other_read), shared.read[0])
        connect(m, copy.bank_read, shared.read[1])
        connect(m, copy.bank_write, shared.write[0])
        connect(m, flipped(self.other_client), arbiter.i_client[0])
        connect(m, copy.global_port, arbiter.i_client[1])
        connect(m, arbiter.o, level2.i[0])
        connect(m, level2.o[0], master.i)
        connect(m, copy.o_arrival, barriers.arrive)
        connect(m, flipped(self.expect), barriers.issue.expect)
        taken, operation = self.i_operation.valid & self.i_operation.ready & self.i_operation.payload.has_barrier, self.i_operation.payload
        m.d.comb += [
            barriers.issue.opened.valid.eq(taken), barriers.issue.opened.barrier.eq(operation.barrier), barriers.sized.valid.eq(taken),
            barriers.sized.barrier.eq(operation.barrier), barriers.sized.blocks.eq(operation.blocks), barriers.sized.ends.eq(1),
        ]
        m.d.comb += [
            barriers.issue.index.eq(self.index), self.complete.eq(barriers.issue.complete), self.overrun.eq(barriers.issue.overrun),
            self.done.eq(copy.done), self.busy.eq(copy.busy), self.pending.eq(master.pending),
        ]
        for name, member in axi_members(cfg).items():
            pin, own = getattr(master, name), getattr(self, name)
            m.d.comb += own.eq(pin) if member.flow == Out else pin.eq(own)
        return m


class OtherClient:
    """The client beside the TMAU: reads the lower half of memory, which nothing writes, and writes the last ``OTHER_BYTES``."""

    def __init__(self, bench):
        self.bench, cfg, tags = bench, bench.cfg, bench.cfg.tag_bits
        self.written = 0            # bursts; those of a round do not meet
        self.answers, self.responses = (Scoreboard(f"{name} of the other client", key=lambda item: item["tag"], strict=True)
                                        for name in ("read data", "responses"))
        self.requests = {kind: bench.source(f"other_client__{kind}_request", layout(cfg, tags))
                         for kind, layout in (("read", read_request_layout), ("write", write_request_layout))}
        self.data = bench.source("other_client__write_data", write_data_layout(cfg))
        bench.sink("other_client__read_data", read_data_layout(cfg, tags), on_item=self.answers.observe)
        bench.sink("other_client__write_response", write_response_layout(tags), on_item=self.responses.observe)

    def bursts(self, count):
        """Queue as many reads and as many writes; the writes before must be over."""
        cfg, rng = self.bench.cfg, self.bench.rng
        longest = 4 * cfg.axi_bytes
        for _ in range(count):
            read = int(rng.integers(MEMORY_BYTES // 2 // longest))
            self._burst("read", longest * read, self.answers, int(rng.integers(1 << cfg.tag_bits)))
            write = self.written % (OTHER_BYTES // longest)
            self._burst("write", MEMORY_BYTES - OTHER_BYTES + longest * write, self.responses, int(rng.integers(1 << cfg.tag_bits)))
            self.written += 1

    def _burst(self, kind, start, scoreboard, tag):
        """A burst of 1 to 3 beats within 4 beats from ``start``."""
        width, rng, memory = self.bench.cfg.axi_bytes, self.bench.rng, self.bench.memory
        first, beats = start + width * int(rng.integers(0, 2)), int(rng.integers(1, 4))
        self.requests[kind].put({"address": first, "beats_minus_one": beats - 1, "tag": tag})
        for beat in range(beats):
            place = memory[first + beat * width:first + (beat + 1) * width]
            if kind == "write":
                place[:] = rng.integers(0, 256, width)
            data, last = int.from_bytes(place.tobytes(), "little"), int(beat == beats - 1)
            if kind == "write":
                self.data.put({"data": data, "strobe": (1 << width) - 1, "last": last})
            else:
                scoreboard.expect({"data": data, "tag": tag, "last": last, "error": 0})
        if kind == "write":
            scoreboard.expect({"tag": tag, "error": 0})

    @property
    def busy(self):
        return self.answers.outstanding or self.responses.outstanding


class SystemBench(Bench):
    """A program that loads, waits at barriers, and stores what was loaded."""

    def __init__(self, dut, pause):
        super().__init__(dut, CopySystem(bench_config()))
        self.pause = pause
        self.done, self.errors = 0, []

    async def start(self):
        dut = self.dut
        self.ram = AxiRam(AxiBus.from_prefix(dut, "m_axi"), dut.clk, dut.rst, size=MEMORY_BYTES)
        self.memory = self.rng.integers(0, 256, MEMORY_BYTES, np.uint8)
        self.shared = np.zeros(self.cfg.shared_bytes, np.uint8)
        self.ram.write(0, self.memory.tobytes())
        await super().start()
        if self.pause:
            for channel in (self.ram.write_if.aw_channel, self.ram.write_if.w_channel, self.ram.write_if.b_channel,
                            self.ram.read_if.ar_channel, self.ram.read_if.r_channel):
                channel.set_pause_generator(iter(lambda: self.random.random() < self.pause, None))
        self.operations = self.source("i_operation", copy_operation_layout, pause="bursty" if self.pause else "none")
        self.monitor("o_error", error_layout, self.errors.append)
        self.other = OtherClient(self) if self.pause else None
        if self.pause:
            self.other_reads = self.source("other_read__request", shared_read_layout(self.cfg), pause="none", on_item=self._other_read)
            for _ in range(4):
                self._other_read()
        cocotb.start_soon(self._every_cycle())

    async def _every_cycle(self):
        while True:
            await RisingEdge(self.dut.clk)
            self.done += int(self.dut.done.value)
            assert not self.dut.overrun.value, "more bytes arrived than were expected"

    def _other_read(self, _=None):
        """Queue a read of the matrix unit: it takes banks in every cycle."""
        self.other_reads.put({"bank": self.random.randrange(1, 1 << BANKS),
                              "row": [self.random.randrange(self.cfg.shared_rows) for _ in range(BANKS)]})

    async def expect(self, barrier, count):
        self.dut.expect__valid.value = 1
        self.dut.expect__barrier.value, self.dut.expect__bytes.value = barrier, count
        await RisingEdge(self.dut.clk)
        self.dut.expect__valid.value = 0

    async def wait(self, barrier, limit=20_000):
        self.dut.index.value = barrier
        for _ in range(limit):
            await RisingEdge(self.dut.clk)
            if self.dut.complete.value:
                return
        raise AssertionError(f"barrier {barrier} did not complete")

    def issue(self, direction, shared, global_, blocks, barrier):
        load = direction == Space.SHARED
        spaces = (Space.SHARED, Space.GLOBAL) if load else (Space.GLOBAL, Space.SHARED)
        operation = CopyOperation(*spaces, shared if load else global_, global_ if load else shared, blocks, barrier=barrier,
                                  has_barrier=1)
        assert not copy_block(self.cfg, operation, self.shared, self.memory).errors
        self.operations.put(pack_operation(operation))


@cocotb.test(timeout_time=3, timeout_unit="ms")
@cocotb.parametrize(pause=[0.0, 0.4])
async def loads_then_stores(dut, pause):
    """What a barrier announces can be stored at once, under bank conflicts, with every alignment."""
    bench = SystemBench(dut, pause)
    await bench.start()
    issued, other = 0, bench.other
    for round_ in range(24):
        blocks = bench.random.choice([1, 2, 7, 33, 70])
        barrier = round_ % 16
        # The lower half is read, the upper half written; bursts meet the limits of pages on both sides.
        source = 16 * bench.random.randrange((MEMORY_BYTES // 2) // 16 - blocks)
        target = MEMORY_BYTES // 2 + 1024 * (round_ + 1) + 16 * bench.random.randrange(8)
        shared = 16 * bench.random.randrange(bench.cfg.shared_bytes // 16 - blocks)
        if other:
            other.bursts(4)
        for direction, address in ((Space.SHARED, source), (Space.GLOBAL, target)):
            await bench.expect(barrier, 16 * blocks)
            bench.issue(direction, shared, address, blocks, barrier)
            issued += 1
            await bench.wait(barrier)
        if other:
            await bench.until(lambda: not other.busy, 20_000, "the other client must have its answers")
    for _ in range(5000):
        await RisingEdge(dut.clk)
        if not dut.busy.value and not dut.pending.value and not (other and other.busy):
            break
    bench.finish()
    if other:
        other.answers.finish(90)
        other.responses.finish(90)
    assert (bench.done, bench.errors) == (issued, [])
    written = np.frombuffer(bench.ram.read(0, MEMORY_BYTES), np.uint8)
    wrong = np.flatnonzero(written != bench.memory)
    assert len(wrong) == 0, f"{len(wrong)} bytes differ, first at {wrong[0]:#x}"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def latency(dut):
    """From an operation to its address on the AXI pins two cycles more than to its request, when the slots were cleared after the reset."""
    bench = SystemBench(dut, 0.0)
    await bench.start()
    sets = 1024 * bench.cfg.l2_kib // (LINE_BYTES * bench.cfg.cores * bench.cfg.l2_ways)
    for _ in range(max(bench.cfg.axi_reads, bench.cfg.axi_writes, sets + 4)):       # the second level drops its lines first
        await RisingEdge(dut.clk)
    await bench.expect(0, 64)
    bench.issue(Space.SHARED, 0, 0, 4, 0)
    taken = None
    for cycle in range(100):
        await RisingEdge(dut.clk)
        if dut.i_operation__valid.value and dut.i_operation__ready.value:
            taken = cycle
        if dut.m_axi_arvalid.value:
            assert cycle - taken == Tmau(bench.cfg).request_latency + 2, cycle - taken
            bench.finish()
            return
    raise AssertionError("no read request")
