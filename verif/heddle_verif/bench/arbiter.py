"""Bench of the arbiter in front of global memory."""

import random
from collections import deque

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from heddle.interfaces.layouts import read_data_layout, read_request_layout, write_data_layout, write_request_layout, write_response_layout
from heddle.isa.encoding import Reduction
from heddle.isa.tensor_descriptor import TensorFormat
from heddle_sim.toolchain.cocotb_runner import bench_config

CLIENTS = 2


class ArbiterBench:
    """Two clients with random streams, and a memory that records requests and answers them in any order."""

    def __init__(self, dut, pauses):
        self.dut, self.cfg = dut, bench_config()
        self.random = random.Random(cocotb.RANDOM_SEED)
        self.pauses = pauses        # name of a stream -> probability of a pause
        tag_bits, id_bits = self.cfg.tag_bits, self.cfg.axi_id_bits
        self.layouts = {"read_request": read_request_layout(self.cfg, tag_bits), "write_request": write_request_layout(self.cfg, tag_bits),
                        "write_data": write_data_layout(self.cfg), "read_data": read_data_layout(self.cfg, tag_bits),
                        "write_response": write_response_layout(tag_bits)}
        self.memory_layouts = self.layouts | {
            "read_request": read_request_layout(self.cfg, id_bits), "write_request": write_request_layout(self.cfg, id_bits),
            "read_data": read_data_layout(self.cfg, id_bits), "write_response": write_response_layout(id_bits)}
        self.send = {(client, name): deque() for client in range(CLIENTS) for name in ("read_request", "write_request", "write_data")}
        self.sent = {key: deque() for key in self.send}         # accepted from a client, not seen at the memory yet
        self.answers = {"read_data": deque(), "write_response": deque()}
        self.expected = {(client, name): deque() for client in range(CLIENTS) for name in self.answers}
        self.writes = deque()       # client and beats of the write requests at the memory whose data are to come
        self.order = {"read_request": [], "write_request": []}
        self.held = {}
        self.compared = 0

    def port(self, side, name, member):
        prefix = "o" if side is None else f"i_client__{side}"
        return getattr(self.dut, f"{prefix}__{name}__{member}")

    def add(self, client, kind, beats):
        """Queue a request of a client."""
        request = {"address": self.random.getrandbits(self.cfg.axi_address_bits), "beats_minus_one": beats - 1,
                   "tag": self.random.getrandbits(self.cfg.tag_bits)}
        others = {"prefetch": (0, 1), "reduction": [kind.value for kind in Reduction], "format": [kind.value for kind in TensorFormat]}
        request |= {field: self.random.choice(others[field]) for field, _ in self.layouts[f"{kind}_request"] if field in others}
        self.send[client, f"{kind}_request"].append(request)
        if kind == "write":
            self.send[client, "write_data"].extend(
                {"data": self.random.getrandbits(self.cfg.axi_data_bits), "strobe": self.random.getrandbits(self.cfg.axi_bytes),
                 "last": int(n == beats - 1)} for n in range(beats))

    async def run(self, limit=30_000):
        Clock(self.dut.clk, 10, unit="ns").start()
        clients = range(CLIENTS)
        for sources, sinks, names in ((clients, [None], ("read_request", "write_request", "write_data")),
                                      ([None], clients, self.answers)):
            for name in names:
                for side in sources:
                    self.port(side, name, "valid").value = 0
                for side in sinks:
                    self.port(side, name, "ready").value = 0
        self.dut.rst.value = 1
        await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0
        for cycle in range(limit):
            await RisingEdge(self.dut.clk)
            for key in self.send:
                self._source(*key)
            for name in ("read_request", "write_request", "write_data"):
                if (item := self._sink(None, name)) is not None:
                    getattr(self, f"_{name}")(item)
            for name in self.answers:
                self._answer(name)
                for client in range(CLIENTS):
                    if (item := self._sink(client, name)) is not None:
                        assert item == self.expected[client, name].popleft(), f"client {client} got a wrong {name}"
                        self.compared += 1
            if not any([*self.send.values(), *self.answers.values(), *self.expected.values(), *self.sent.values(), self.writes]):
                return cycle
        raise AssertionError(f"not finished: {self.sent}, {self.expected}")

    def _pause(self, name):
        return self.random.random() < self.pauses.get(name, 0)

    def _offer(self, side, name, queue, layout):
        """Drive a stream from the head of ``queue``; returns the item that was accepted."""
        valid, ready = self.port(side, name, "valid"), self.port(side, name, "ready")
        offered = bool(valid.value)
        accepted = queue.popleft() if offered and ready.value else None
        if offered and accepted is None:
            return None
        valid.value = 0
        if queue and not self._pause(name):
            self.port(side, name, "payload").value = layout.const(queue[0]).as_bits()
            valid.value = 1
        return accepted

    def _source(self, client, name):
        if (item := self._offer(client, name, self.send[client, name], self.layouts[name])) is not None:
            self.sent[client, name].append(item)

    def _answer(self, name):
        self._offer(None, name, self.answers[name], self.memory_layouts[name])

    def _sink(self, side, name):
        """Take from a stream with random pauses; returns the fields of the item that was transferred."""
        valid, ready = bool(self.port(side, name, "valid").value), bool(self.port(side, name, "ready").value)
        bits = self.port(side, name, "payload").value.to_unsigned() if valid else None
        key = side, name
        assert key not in self.held or self.held[key] == bits, f"{name} changed before it was accepted"
        self.held.pop(key, None)
        if valid and not ready:
            self.held[key] = bits
        self.port(side, name, "ready").value = not self._pause(f"{name}_ready")
        if not (valid and ready):
            return None
        layout = (self.memory_layouts if side is None else self.layouts)[name]
        fields = layout.from_bits(bits)
        values = {field: getattr(fields, field) for field, _ in layout}
        return {field: getattr(value, "value", value) for field, value in values.items()}

    def _request(self, name, item):
        client, item["tag"] = item["tag"] >> self.cfg.tag_bits, item["tag"] & (1 << self.cfg.tag_bits) - 1
        assert item == self.sent[client, name].popleft(), f"{name} of client {client} is wrong or out of order"
        self.order[name].append(client)
        self.compared += 1
        return client, item["beats_minus_one"] + 1, item["tag"]

    def _reply(self, client, name, tag, **fields):
        error = self.random.getrandbits(1)
        self.expected[client, name].append({**fields, "tag": tag, "error": error})
        self.answers[name].append({**fields, "tag": client << self.cfg.tag_bits | tag, "error": error})

    def _read_request(self, item):
        client, beats, tag = self._request("read_request", item)
        for n in range(beats):
            self._reply(client, "read_data", tag, data=self.random.getrandbits(self.cfg.axi_data_bits), last=int(n == beats - 1))

    def _write_request(self, item):
        self.writes.append(self._request("write_request", item))

    def _write_data(self, item):
        assert self.writes, "data before their request"
        client, _, tag = self.writes[0]
        assert item == self.sent[client, "write_data"].popleft(), "write data of the wrong client or out of order"
        self.compared += 1
        if item["last"]:
            self.writes.popleft()
            self._reply(client, "write_response", tag)


PAUSES = {
    "free": {},
    "memory": dict.fromkeys(["read_request_ready", "write_request_ready", "write_data_ready", "read_data", "write_response"], 0.5),
    "clients": dict.fromkeys(["read_request", "write_request", "write_data", "read_data_ready", "write_response_ready"], 0.6),
    "late_data": {"write_data": 0.9, "read_request_ready": 0.8},
    "late_request": {"write_request": 0.9, "read_request": 0.5, "write_data_ready": 0.3},
}


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(pauses=list(PAUSES))
async def random_traffic(dut, pauses):
    """Reads and writes of both clients: order, routing, data behind their requests."""
    bench = ArbiterBench(dut, PAUSES[pauses])
    for _ in range(120):
        bench.add(bench.random.randrange(CLIENTS), bench.random.choice(["read", "write"]), bench.random.choice([1, 1, 2, 7, 16]))
    await bench.run()
    assert bench.compared > 500


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def fair(dut):
    """Two clients that always want take turns; one request and one beat a cycle."""
    bench = ArbiterBench(dut, {})
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
    for _ in range(40):
        bench.add(client, "write", 4)
        bench.add(client, "read", 4)
    cycles = await bench.run()
    assert cycles < 170, cycles
