"""Bench of the models of shared and global memory: connected to each other through a design that is wires only."""

from collections import Counter

import cocotb
from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Component, In, Out, connect, flipped
from cocotb.triggers import RisingEdge
from heddle.constants import BANK_BYTES, BANKS
from heddle.interfaces.layouts import (
    GlobalPort,
    SharedReadPort,
    SharedWritePort,
    read_data_layout,
    read_request_layout,
    write_data_layout,
    write_request_layout,
    write_response_layout,
)
from heddle_sim.toolchain.cocotb_process import bench_config

from heddle_verif.agents.banks import BankMemory, BankRequester
from heddle_verif.agents.global_memory import GlobalMemory
from heddle_verif.checkers.scoreboard import Scoreboard
from heddle_verif.fixture import Bench

TAG_BITS = 3
ERRORS = range(0x1000, 0x1100)


class Wires(Component):
    """Joins each port to its counterpart."""

    def __init__(self, cfg):
        ports = {"read": SharedReadPort(cfg), "write": SharedWritePort(cfg), "port": GlobalPort(cfg, TAG_BITS)}
        super().__init__({f"{side}_{name}": flow(port) for name, port in ports.items() for side, flow in (("i", In), ("o", Out))})

    def elaborate(self, platform):
        m = Module()
        for name in ("read", "write", "port"):
            connect(m, flipped(getattr(self, f"i_{name}")), flipped(getattr(self, f"o_{name}")))
        clocked = Signal()      # gives the design a clock
        m.d.sync += clocked.eq(~clocked)
        return m


@cocotb.test(timeout_time=200, timeout_unit="us")
@cocotb.parametrize(delay=[0, 3], places=[1, 3])
async def banks_keep_data(dut, delay, places):
    cfg = bench_config()
    bench = Bench(dut, Wires(cfg), idle_limit=10_000)
    await bench.start()
    memory = BankMemory(dut, cfg, bench.rng, read="o_read", write="o_write", delay=delay, places=places)
    told = Counter()
    memory.on_access = lambda kind, bank, row: told.update([kind])
    memory.on_refused = lambda kind, banks: told.update(["refused"])
    requester = BankRequester(dut, cfg, bench.rng, read="i_read", write="i_write")
    rows = [0, 1, cfg.shared_rows - 1]
    before = memory.data.reshape(-1, BANKS, BANK_BYTES).copy()

    def banks():
        return sorted(bench.random.sample(range(BANKS), bench.random.randint(1, BANKS)))

    written = 0
    for _ in range(20):
        words = {}
        for bank in banks():
            row, word, mask = bench.random.choice(rows), bench.rng.bytes(BANK_BYTES), int(bench.rng.integers(1 << BANK_BYTES))
            words[bank] = row, int.from_bytes(word, "little"), mask
            for byte in range(BANK_BYTES):
                if mask >> byte & 1:
                    before[row, bank, byte] = word[byte]
        written += len(words)
        requester.write(words)
    await requester.drained()
    scoreboard, read = Scoreboard("words"), 0
    for _ in range(40):
        places_of = {bank: bench.random.choice(rows) for bank in banks()}
        read += len(places_of)
        scoreboard.expect({bank: int.from_bytes(before[row, bank].tobytes(), "little") for bank, row in places_of.items()})
        requester.read(places_of, lambda words: scoreboard.observe(dict(words)))
    await requester.drained()
    bench.finish()
    scoreboard.finish(40)
    assert requester.count == 60
    assert (told["read"], told["write"]) == (read, written) and told["refused"]


class GlobalClient:
    """Reads and writes the model through the wires; remembers what memory must hold."""

    def __init__(self, bench, cfg, memory):
        self.cfg, self.rng, self.memory = cfg, bench.rng, memory
        self.golden = memory.data.copy()
        self.requests = bench.source("i_port__read_request", read_request_layout(cfg, TAG_BITS))
        self.writes = bench.source("i_port__write_request", write_request_layout(cfg, TAG_BITS))
        self.data = bench.source("i_port__write_data", write_data_layout(cfg))
        self.answers = Scoreboard("read data", key=lambda item: item["tag"])
        self.responses = Scoreboard("write responses", key=lambda item: item["tag"])
        bench.sink("i_port__read_data", read_data_layout(cfg, TAG_BITS), on_item=self.answers.observe)
        bench.sink("i_port__write_response", write_response_layout(TAG_BITS), on_item=self.responses.observe)

    def _burst(self):
        width = self.cfg.axi_bytes
        address = int(self.rng.integers(0, 0x2000 // width)) * width
        beats = int(self.rng.integers(1, min(16, (4096 - address % 4096) // width) + 1))
        return address, beats, int(self.rng.integers(1 << TAG_BITS))

    def write(self):
        address, beats, tag = self._burst()
        width = self.cfg.axi_bytes
        self.writes.put({"address": address, "beats_minus_one": beats - 1, "tag": tag})
        failed = False
        for beat in range(beats):
            start, word = address + beat * width, self.rng.bytes(width)
            strobe = int.from_bytes(self.rng.bytes(width), "little") >> 7 * width
            self.data.put({"data": int.from_bytes(word, "little"), "strobe": strobe, "last": beat == beats - 1})
            if start in ERRORS:
                failed = True
                continue
            for byte in range(width):
                if strobe >> byte & 1:
                    self.golden[start + byte] = word[byte]
        self.responses.expect({"tag": tag, "error": int(failed)})

    def read(self):
        address, beats, tag = self._burst()
        self.requests.put({"address": address, "beats_minus_one": beats - 1, "tag": tag})
        for beat in range(beats):
            start = address + beat * self.cfg.axi_bytes
            error = start in ERRORS
            word = 0 if error else int.from_bytes(self.golden[start:start + self.cfg.axi_bytes].tobytes(), "little")
            self.answers.expect({"data": word, "tag": tag, "last": int(beat == beats - 1), "error": int(error)})


@cocotb.test(timeout_time=1000, timeout_unit="us")
async def global_memory_keeps_data(dut):
    cfg = bench_config()
    bench = Bench(dut, Wires(cfg))
    await bench.start()
    memory = GlobalMemory(dut, "o_port", cfg, TAG_BITS, bench.rng, size=1 << 14, errors=[ERRORS])
    client = GlobalClient(bench, cfg, memory)
    for _ in range(10):
        client.write()
        while client.responses.outstanding:
            await RisingEdge(dut.clk)
    for _ in range(40):
        client.read()
    while client.answers.outstanding:
        await RisingEdge(dut.clk)
    bench.finish()
    await bench.cycles(40)
    client.responses.finish(10)
    client.answers.finish(40)
    assert memory.idle
    assert (memory.data == client.golden).all()
    assert (len(memory.reads), len(memory.writes)) == (40, 10)
