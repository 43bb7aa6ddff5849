"""Bench of the AXI master against the AXI memory of cocotbext-axi."""

from collections import Counter

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiBus, AxiRam
from heddle.constants import MAX_BURST_BYTES
from heddle.interfaces.layouts import read_data_layout, read_request_layout, write_data_layout, write_response_layout
from heddle.memory.axi_master import AxiMaster
from heddle_sim.toolchain.cocotb_runner import bench_config

from heddle_verif.checkers.scoreboard import Scoreboard
from heddle_verif.fixture import Bench

MEMORY_BYTES = 1 << 16      # the upper half is written, the lower half read
CHANNELS = {"aw": ["id", "addr", "len", "size", "burst", "lock", "cache", "prot"], "ar": ["id", "addr", "len", "size", "burst"],
            "w": ["data", "strb", "last"]}


class AxiMasterBench(Bench):
    """A client with random requests in front, a memory with pauses and failing addresses behind."""

    def __init__(self, dut, *, client, memory, fails=lambda address: False):
        super().__init__(dut, AxiMaster(bench_config()))
        self.client, self.memory_pause, self.fails = client, memory, fails
        self.read_board = Scoreboard("read data", key=lambda beat: beat["tag"])
        self.write_board = Scoreboard("write responses", key=lambda response: response["tag"])
        self.counts, self.events, self.open = Counter(), Counter(), Counter()

    async def start(self):
        cfg, dut = self.cfg.without_level2(), self.dut       # which is in front: requests are those for memory
        ids = cfg.axi_id_bits
        self.ram = AxiRam(AxiBus.from_prefix(dut, "m_axi"), dut.clk, dut.rst, size=MEMORY_BYTES)
        self.golden = self.rng.integers(0, 256, MEMORY_BYTES, np.uint8)
        self.ram.write(0, self.golden.tobytes())
        self._failures()
        await super().start()
        if self.memory_pause:
            ram = self.ram
            for channel in (ram.write_if.aw_channel, ram.write_if.w_channel, ram.write_if.b_channel, ram.read_if.ar_channel,
                            ram.read_if.r_channel):
                channel.set_pause_generator(iter(lambda: self.random.random() < self.memory_pause, None))
        self.requests = {kind: self.source(f"i__{kind}_request", read_request_layout(cfg, ids), pause=self.client)
                         for kind in ("read", "write")}
        self.data = self.source("i__write_data", write_data_layout(cfg), pause=self.client)
        self.sink("i__read_data", read_data_layout(cfg, ids), pause=self.client, on_item=self._read)
        self.sink("i__write_response", write_response_layout(ids), pause=self.client, on_item=self.write_board.observe)
        cocotb.start_soon(self._watch_pins())

    def _read(self, beat):
        """Data that came with an error say nothing."""
        self.read_board.observe(dict(beat, data=0) if beat["error"] else beat)

    def _failures(self):
        """Let the memory answer with an error where ``fails`` says so."""
        for interface, name in ((self.ram.read_if, "_read"), (self.ram.write_if, "_write")):
            inner = getattr(interface, name)

            async def access(address, argument, inner=inner):
                if self.fails(address - address % self.cfg.axi_bytes):
                    raise ValueError("this address fails")
                return await inner(address, argument)
            setattr(interface, name, access)

    def add(self, kind, address, beats):
        """Queue a burst and what has to come of it."""
        cfg = self.cfg
        tag = self.random.getrandbits(cfg.axi_id_bits)
        self.requests[kind].put({"address": address, "beats_minus_one": beats - 1, "tag": tag})
        self.counts[f"{kind}_requests"] += 1
        self.counts[f"{kind}_beats"] += beats
        failed = False
        for n in range(beats):
            start = address + n * cfg.axi_bytes
            window = self.golden[start:start + cfg.axi_bytes]
            fails, last = self.fails(start), int(n == beats - 1)
            if kind == "read":
                data = 0 if fails else int.from_bytes(window.tobytes(), "little")
                self.read_board.expect({"data": data, "tag": tag, "last": last, "error": int(fails)})
                continue
            strobe = self.random.choice([(1 << cfg.axi_bytes) - 1, self.random.getrandbits(cfg.axi_bytes)])
            value = self.random.getrandbits(cfg.axi_data_bits)
            self.data.put({"data": value, "strobe": strobe, "last": last})
            failed |= fails and strobe != 0
            if not fails:
                for i in range(cfg.axi_bytes):
                    if strobe >> i & 1:
                        window[i] = value >> 8 * i & 0xFF
        if kind == "write":
            self.write_board.expect({"tag": tag, "error": int(failed)})

    def random_burst(self):
        kind = self.random.choice(["read", "write"])
        size = self.cfg.axi_bytes
        beats = self.random.choice([1, 1, 2, 3, MAX_BURST_BYTES // size])
        page = self.random.randrange(MEMORY_BYTES // 8192) * 4096 + (MEMORY_BYTES // 2 if kind == "write" else 0)
        offset = self.random.choice([0, 4096 - beats * size, size * self.random.randrange(4096 // size - beats + 1)])
        self.add(kind, page + offset, beats)

    async def _watch_pins(self):
        """The rules of AXI for outputs, ``pending`` and the events, every cycle."""
        dut, cfg = self.dut, self.cfg
        held = {}
        while True:
            await RisingEdge(dut.clk)
            for channel, names in CHANNELS.items():
                valid, ready = getattr(dut, f"m_axi_{channel}valid").value, getattr(dut, f"m_axi_{channel}ready").value
                payload = [int(getattr(dut, f"m_axi_{channel}{name}").value) for name in names] if valid else None
                assert channel not in held or payload == held[channel], f"{channel} changed before it was accepted"
                held.pop(channel, None)
                if valid and not ready:
                    held[channel] = payload
                if valid and channel != "w":
                    fields = dict(zip(names, payload, strict=False))
                    size = (fields["len"] + 1) * cfg.axi_bytes
                    assert fields["addr"] % 4096 + size <= 4096, "a burst crosses 4 KiB"
                    assert 1 << fields["size"] == cfg.axi_bytes
                    assert fields["burst"] == 1
            for name in ("read_requests", "read_beats", "write_requests", "write_beats"):
                self.events[name] += int(getattr(dut, f"events__{name}").value)
            assert bool(dut.pending.value) == any(self.open.values()), f"pending is wrong, open {self.open}"
            self._count_open()

    def _count_open(self):
        """Requests taken from the client and not answered to it, as of the next cycle."""
        for kind, answer in (("read", "read_data"), ("write", "write_response")):
            request = self.requests[kind].handles
            self.open[kind] += request.is_valid() and request.is_ready()
            port = getattr(self.dut, f"i__{answer}__valid").value and getattr(self.dut, f"i__{answer}__ready").value
            if port:
                bits = int(getattr(self.dut, f"i__{answer}__payload").value)
                self.open[kind] -= answer == "write_response" or read_data_layout(self.cfg, self.cfg.axi_id_bits).from_bits(bits).last

    async def idle(self, limit=30_000):
        """Wait for all answers, then compare everything."""
        answers = self.counts["read_beats"], self.counts["write_requests"]
        for _ in range(limit):
            await RisingEdge(self.dut.clk)
            if (self.read_board.compared, self.write_board.compared) == answers and not self.data.queue:
                break
        await self.cycles(10)
        self.finish()
        assert (self.read_board.compared, self.write_board.compared) == answers
        assert not self.dut.pending.value
        written = np.frombuffer(self.ram.read(0, MEMORY_BYTES), np.uint8)
        wrong = np.flatnonzero(written != self.golden)
        assert len(wrong) == 0, f"{len(wrong)} bytes differ, first at {wrong[0]:#x}"
        assert self.events == self.counts, (self.events, self.counts)


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(client=["none", "bursty"], memory=[0.0, 0.5])
async def random_traffic(dut, client, memory):
    """Bursts of all lengths at the limits of pages; data, IDs, strobes, counters."""
    bench = AxiMasterBench(dut, client=client, memory=memory)
    await bench.start()
    for _ in range(100):
        bench.random_burst()
    await bench.idle()
    assert bench.write_board.compared > 20
    assert bench.read_board.compared > 50


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def errors(dut):
    """Error responses of single beats and bursts."""
    bench = AxiMasterBench(dut, client="bursty", memory=0.3, fails=lambda address: address // 64 % 5 == 2)
    await bench.start()
    for _ in range(80):
        bench.random_burst()
    await bench.idle()


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(kind=["read", "write"])
async def throughput(dut, kind):
    """One beat a cycle in each direction while the memory is ready."""
    bench = AxiMasterBench(dut, client="none", memory=0.0)
    await bench.start()
    beats = MAX_BURST_BYTES // bench.cfg.axi_bytes
    times = []
    cocotb.start_soon(_beat_times(dut, f"m_axi_{kind[0]}", times))
    for n in range(24):
        bench.add(kind, (MEMORY_BYTES // 2 if kind == "write" else 0) + n * MAX_BURST_BYTES, beats)
    await bench.idle()
    rate = len(times) / (times[-1] - times[0] + 1)
    dut._log.info(f"{rate:.3f} {kind} beats a cycle")
    assert len(times) == 24 * beats
    assert rate >= 0.97


async def _beat_times(dut, channel, times):
    cycle = 0
    while True:
        await RisingEdge(dut.clk)
        cycle += 1
        if getattr(dut, f"{channel}valid").value and getattr(dut, f"{channel}ready").value:
            times.append(cycle)
