"""Bench of the arbiter in front of global memory."""

from collections import deque
from functools import partial

import cocotb
from cocotb.triggers import RisingEdge
from heddle.interfaces.layouts import read_data_layout, read_request_layout, write_data_layout, write_request_layout, write_response_layout
from heddle.isa.encoding import Reduction
from heddle.isa.tensor_descriptor import TensorFormat
from heddle.memory.global_arbiter import GlobalArbiter
from heddle_sim.toolchain.cocotb_process import bench_config

from ..agents.pause import adversarial, bernoulli, bursty
from ..checkers.scoreboard import Scoreboard
from ..fixture import Bench

CLIENTS = 2
REQUESTS, ANSWERS = ("read_request", "write_request", "write_data"), ("read_data", "write_response")


def _layouts(cfg, tag_bits):
    return {"read_request": read_request_layout(cfg, tag_bits), "write_request": write_request_layout(cfg, tag_bits),
            "write_data": write_data_layout(cfg), "read_data": read_data_layout(cfg, tag_bits),
            "write_response": write_response_layout(tag_bits)}


class ArbiterBench(Bench):
    """Two clients with random streams, and a memory that records requests and answers them at once, with random data and errors.

    ``pauses``: name of a stream to the pattern of its source, and with ``_ready`` to that of its sink, made from a generator.
    """

    def __init__(self, dut, pauses):
        super().__init__(dut, GlobalArbiter(bench_config()))
        self.pauses = pauses
        self.layouts = _layouts(self.cfg, self.cfg.tag_bits)
        self.writes = deque()       # client, tag and beats to come of the write requests at the memory
        self.order = {"read_request": [], "write_request": []}
        # Clients are told apart by ``client``, which is put in front of what they send and get.
        self.boards = {name: Scoreboard(name, key=lambda item: item["client"], strict=True) for name in (*REQUESTS, *ANSWERS)}

    @property
    def compared(self):
        return sum(board.compared for board in self.boards.values())

    def _pattern(self, name):
        return self.pauses[name](self.rng) if name in self.pauses else "none"

    async def start(self):
        await super().start()
        self.clients, self.answers = [], {}
        for client in range(CLIENTS):
            self.clients.append({name: self.source(
                f"i_client__{client}__{name}", self.layouts[name], pause=self._pattern(name), on_item=partial(self._sent, name, client))
                for name in REQUESTS})
        ports = _layouts(self.cfg, self.cfg.tag_bits + 1)
        for name in REQUESTS:
            self.sink(f"o__{name}", ports[name], pause=self._pattern(f"{name}_ready"), on_item=getattr(self, f"_{name}"))
        for name in ANSWERS:
            self.answers[name] = self.source(f"o__{name}", ports[name], pause=self._pattern(name))
            for client in range(CLIENTS):
                self.sink(f"i_client__{client}__{name}", self.layouts[name], pause=self._pattern(f"{name}_ready"),
                          on_item=partial(self._received, name, client))

    def add(self, client, kind, beats):
        """Queue a request of a client."""
        request = {"address": self.random.getrandbits(self.cfg.axi_address_bits), "beats_minus_one": beats - 1,
                   "tag": self.random.getrandbits(self.cfg.tag_bits)}
        others = {"prefetch": (0, 1), "reduction": list(Reduction), "format": list(TensorFormat)}
        request |= {field: self.random.choice(others[field]) for field, _ in self.layouts[f"{kind}_request"] if field in others}
        self.clients[client][f"{kind}_request"].put(request)
        if kind == "write":
            self.clients[client]["write_data"].put(*(
                {"data": self.random.getrandbits(self.cfg.axi_data_bits), "strobe": self.random.getrandbits(self.cfg.axi_bytes),
                 "last": int(n == beats - 1)} for n in range(beats)))

    def _sent(self, name, client, item):
        """A client was rid of an item: it is at the memory in the same cycle."""
        self.boards[name].expect({"client": client, **item})

    def _received(self, name, client, item):
        self.boards[name].observe({"client": client, **item})

    # -- memory -----------------------------------------------------------------------------

    def _request(self, name, item):
        client, tag = item["tag"] >> self.cfg.tag_bits, item["tag"] & (1 << self.cfg.tag_bits) - 1
        self.boards[name].observe({"client": client, **item, "tag": tag})
        self.order[name].append(client)
        return client, tag, item["beats_minus_one"] + 1

    def _answer(self, name, client, tag, **fields):
        fields["error"] = self.random.getrandbits(1)
        self.boards[name].expect({"client": client, **fields, "tag": tag})
        self.answers[name].put({**fields, "tag": client << self.cfg.tag_bits | tag})

    def _read_request(self, item):
        client, tag, beats = self._request("read_request", item)
        for n in range(beats):
            self._answer("read_data", client, tag, data=self.random.getrandbits(self.cfg.axi_data_bits), last=int(n == beats - 1))

    def _write_request(self, item):
        self.writes.append(self._request("write_request", item))

    def _write_data(self, item):
        assert self.writes, "data before their request"
        client, tag, _ = self.writes[0]
        self.boards["write_data"].observe({"client": client, **item})
        if item["last"]:
            self.writes.popleft()
            self._answer("write_response", client, tag)

    # -- the run ----------------------------------------------------------------------------

    async def run(self):
        """Cycles until everything queued has passed and was answered."""
        begin = self.cycle
        while self.writes or any(board.outstanding for board in self.boards.values()) or any(
                source.queue for client in self.clients for source in client.values()):
            await RisingEdge(self.dut.clk)
        self.finish()
        cycles = self.cycle - begin
        await self.cycles(20)       # nothing comes twice
        for board in self.boards.values():
            board.finish()
        return cycles


def _half(rng):
    return bernoulli(rng, 0.5)


def _share(share):
    return lambda rng: bernoulli(rng, share)


READY = tuple(f"{name}_ready" for name in (*REQUESTS, *ANSWERS))
PAUSES = {
    "free": {},
    "memory": dict.fromkeys([*(f"{name}_ready" for name in REQUESTS), *ANSWERS], _half),
    "clients": dict.fromkeys([*REQUESTS, *(f"{name}_ready" for name in ANSWERS)], _share(0.6)),
    "late_data": {"write_data": _share(0.9), "read_request_ready": _share(0.8)},
    "late_request": {"write_request": _share(0.9), "read_request": _half, "write_data_ready": _share(0.3)},
    "bursty": dict.fromkeys([*REQUESTS, *ANSWERS, *READY], bursty),
    "adversarial": dict.fromkeys([*REQUESTS, *ANSWERS, *READY], adversarial),
}


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(pauses=list(PAUSES))
async def random_traffic(dut, pauses):
    """Reads and writes of both clients: order, routing, data behind their requests."""
    bench = ArbiterBench(dut, PAUSES[pauses])
    await bench.start()
    for _ in range(120):
        bench.add(bench.random.randrange(CLIENTS), bench.random.choice(["read", "write"]), bench.random.choice([1, 1, 2, 7, 16]))
    await bench.run()
    assert bench.compared > 500


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def fair(dut):
    """Two clients that always want take turns; one request and one beat a cycle."""
    bench = ArbiterBench(dut, {})
    await bench.start()
    for _ in range(60):
        for client in range(CLIENTS):
            bench.add(client, "read", 1)
            bench.add(client, "write", 1)
    cycles = await bench.run()
    for order in bench.order.values():
        pairs = [order[n] != order[n + 1] for n in range(100)]
        assert all(pairs), order
    assert cycles < 135, cycles


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(client=[0, 1])
async def alone(dut, client):
    """One client has the whole port."""
    bench = ArbiterBench(dut, {})
    await bench.start()
    for _ in range(40):
        bench.add(client, "write", 4)
        bench.add(client, "read", 4)
    cycles = await bench.run()
    assert cycles < 170, cycles
