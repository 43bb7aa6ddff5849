"""Bench of the shared-memory LSU: every port in every cycle against a model of its rules, with memory of any latency."""

from collections import deque
from dataclasses import dataclass, field

import cocotb
from cocotb.triggers import RisingEdge
from heddle.constants import BANK_BYTES, BANKS, ROW_BYTES
from heddle.interfaces.layouts import SHARED_READ_LATENCY, shared_answer_layout, shared_read_layout, shared_write_layout
from heddle.isa.encoding import ACCESS_BYTES, Access
from heddle.thread.offset_fetch import ElementSize
from heddle.thread.shared_lsu import SharedLsu, group_access_layout, placement_layout
from heddle_sim.golden.bank_access import banks_of, gather_cycles
from heddle_sim.toolchain.cocotb_process import bench_config

from ..agents.banks import BankMemory
from ..agents.payload import pack
from ..agents.stream import StreamHandles
from ..fixture import Bench
from .thread_workload import STORES

WORD_BYTES = 4


@dataclass
class Group:
    """What the unit takes at once: the slots that access memory, and of all slots address and data; kind and operation of the access.

    ``word`` of a load with a ``size`` is the number of an element, which comes back with its data.
    """

    number: int
    waiting: list
    address: list
    data: list
    word: int
    store: bool = False
    access: Access = Access.B32
    operation: int = 0
    size: ElementSize = ElementSize.LINE


@dataclass
class Request:
    """A request that is not over: of a load the bank and byte offset of each slot that takes a word; its banks with their contents."""

    group: Group
    slots: dict
    banks: dict = field(default_factory=dict)


@dataclass
class Inputs:
    """Inputs of a cycle: the group that is offered or None, ``hold``, ``drop``, and what memory says.

    ``ready``: of a read and of a write. ``answer``: banks whose words come, empty without an answer. ``last``: with the last of a request.
    """

    offered: Group | None
    hold: bool
    drop: bool
    ready: dict
    answer: set
    last: bool
    written: bool


class Model:
    """The rules of ``SharedLsu``, cycle by cycle."""

    def __init__(self, cfg):
        self.cfg = cfg
        self.group, self.waiting = None, []
        self.at_port = None             # the last element of ``requests``, before its transfer
        self.requests = deque()

    @property
    def idle(self):
        return self.group is None and not self.requests

    def _chosen(self):
        """Of the waiting slots those that ask for a bank, and those that need not wait with them."""
        first, store = {}, self.group.store
        for slot in self.waiting:
            first.setdefault(0 if store and self.cfg.shared_writes == 1 else bank(self.group.address[slot]), slot)
        words = {self.group.address[slot] // BANK_BYTES for slot in first.values()}
        return list(first.values()), [slot for slot in self.waiting if slot in first.values() or
                                      (not store and self.group.address[slot] // BANK_BYTES in words)]

    def _may_choose(self, inputs, remaining):
        """Whether the group becomes a request, but for its threads."""
        if self.group is None or inputs.drop or (inputs.hold and not self.group.store):
            return False
        turns = any(request.group.store != self.group.store for request in remaining)
        return not turns and len(self.requests) < self.cfg.shared_requests and not self._refused(inputs)

    def _refused(self, inputs):
        return self.at_port is not None and not inputs.ready["write" if self.at_port.group.store else "read"]

    def cycle(self, inputs):
        """The outputs of a cycle; then the model is in the next one."""
        oldest = self.requests[0] if self.requests else None
        over = inputs.last or inputs.written
        remaining = list(self.requests)[over:]
        returning = {slot: place for slot, place in oldest.slots.items() if place[0] in inputs.answer} if inputs.answer else {}
        refused, choose = self._refused(inputs), self._may_choose(inputs, remaining)
        first, served = self._chosen() if choose else ([], [])
        left = [slot for slot in self.waiting if slot not in served]
        room = self.group is None or (choose and not left)
        waiting = {request.group.operation for request in remaining} | ({self.group.operation} if self.group else set())
        outputs = {
            "i__ready": room, "status__waiting": bits(waiting),
            "status__in_flight": bits(waiting | ({oldest.group.operation} if inputs.answer else set())),
            "event_conflicts": refused or (choose and bool(left)), "asked": self.at_port,
            "returning": returning, "group": oldest.group.number if oldest else None,
            "element": (oldest.group.word, oldest.group.size) if oldest else None,
        }
        if not refused:
            self.at_port = None
        if over:
            self.requests.popleft()
        if choose:
            if first:
                self.at_port = self._request(first, served)
                self.requests.append(self.at_port)
            self.waiting, self.group = left, self.group if left else None
        if inputs.drop:
            self.group = None
        if inputs.offered and room:
            self.group, self.waiting = inputs.offered, inputs.offered.waiting
        return outputs

    def _request(self, first, served):
        group = self.group
        request = Request(group, {} if group.store else {
            slot: (bank(group.address[slot]), group.address[slot] % BANK_BYTES) for slot in served})
        for slot in first:
            address = group.address[slot]
            row, offset = address // ROW_BYTES, (address + WORD_BYTES * group.word) % BANK_BYTES
            size = min(ACCESS_BYTES[group.access], WORD_BYTES)
            request.banks[bank(address)] = (row, group.data[slot], ((1 << size) - 1) << offset) if group.store else (row, None, None)
        return request


def bank(address):
    return int(banks_of(address))


def bits(numbers):
    return sum(1 << number for number in numbers)


@dataclass(frozen=True)
class Memory:
    """Behaviour of ``BankMemory``: its ``grant_chance``, ``delay`` and ``places``."""

    grant: float = 1.0
    delay: int = 0
    places: int = 1


MEMORIES = {"free": Memory(), "some": Memory(grant=0.8), "few": Memory(grant=0.2), "late": Memory(grant=0.7, delay=6, places=5)}


class LsuBench(Bench):
    """Random operations; ``offer``, ``hold`` and ``drop`` are probabilities in a cycle."""

    def __init__(self, dut, memory=MEMORIES["free"], offer=1.0, hold=0.0, drop=0.0):
        super().__init__(dut, SharedLsu(bench_config()))
        self.slots = min(self.cfg.thread_slots, self.cfg.threads)
        self.layout = group_access_layout(self.cfg)
        self.memory, self.offer, self.hold, self.drop = memory, offer, hold, drop
        self.returned = self.stored = self.conflicts = self.steps = self.dropped = self.most = self.turns = 0
        self.asked = []                 # cycles in which a request was at a port
        self.numbers = self.joined = 0  # operations so far; requests made while two operations had some

    async def start(self):
        await super().start()
        BankMemory(self.dut, self.cfg, self.rng, read="bank_read", write="bank_write", grant_chance=self.memory.grant,
                   delay=self.memory.delay, places=self.memory.places)
        self.ports = {"read": StreamHandles(self.dut, "bank_read__request", shared_read_layout(self.cfg)),
                      "write": StreamHandles(self.dut, "bank_write__request", shared_write_layout(self.cfg))}
        self.answers = StreamHandles(self.dut, "bank_read__answer", shared_answer_layout)
        self.forget()

    def forget(self):
        """Nothing is asked, and nothing under way."""
        self.model = Model(self.cfg)
        self.offered, self.was_store = None, None
        self._drive(False, False)

    # -- what is asked --------------------------------------------------------------------------

    def operation(self, store=None, access=None, groups=None):
        """Groups of a new operation."""
        store = self.random.random() < 0.5 if store is None else store
        access = access or self.random.choice(STORES if store else list(Access))
        self.numbers += 1
        return [self.group(access, store) for _ in range(groups or self.random.randint(1, 5))]

    def group(self, access, store=False):
        size = ACCESS_BYTES[access]
        style, few = self.random.randrange(5), [self.random.randrange(self.cfg.shared_rows) for _ in range(2)]
        steps = {0: BANK_BYTES, 1: ROW_BYTES, 2: size}      # a word each, all of one bank, neighbours
        start = self.random.randrange(self.cfg.shared_bytes)
        address = []
        for slot in range(self.slots):
            place = start + slot * steps[style] if style in steps else self.random.randrange(self.cfg.shared_bytes)
            if style == 3:
                place = self.random.choice(few) * ROW_BYTES + place % ROW_BYTES
            address.append(place % self.cfg.shared_bytes // size * size)
        active = self.random.choice([0.0, 0.2, 0.5, 0.9, 1.0])
        waiting = [slot for slot in range(self.slots) if self.random.random() < active]
        if not active and self.random.random() < 0.8:
            waiting = [self.random.randrange(self.slots)]
        word, element = self.random.randrange(max(1, size // WORD_BYTES)), ElementSize.LINE
        if self.cfg.gather_offsets and not store:
            word, element = self.random.randrange(16), self.random.choice(list(ElementSize))
        return Group(self.random.randrange(self.cfg.thread_groups), waiting, address,
                     [self.random.getrandbits(32) for _ in range(self.slots)], word, store, access, self.numbers, element)

    # -- the ports ------------------------------------------------------------------------------

    def _drive(self, hold, drop):
        dut, group = self.dut, self.offered
        dut.i__valid.value, dut.hold.value, dut.drop.value = group is not None, hold, drop
        shown = group or self.group(self.random.choice(STORES), self.random.random() < 0.5)      # anything
        dut.i__payload.value = pack(self.layout, {
            "waiting": bits(shown.waiting), "group": shown.number, "word": shown.word, "address": shown.address, "data": shown.data,
            "store": shown.store, "access": shown.access, "operation": shown.operation % 2,
            **({"size": shown.size} if self.cfg.gather_offsets else {})})

    def _value(self, name):
        return int(getattr(self.dut, name).value)

    def _sample(self, hold, drop):
        """Inputs of the cycle that ends at this edge."""
        answer = self.answers.value() if self.answers.is_valid() else {"bank": 0, "last": 0}
        return Inputs(self.offered, hold, drop, {kind: port.is_ready() for kind, port in self.ports.items()},
                      {b for b in range(BANKS) if answer["bank"] >> b & 1}, bool(answer["last"]), bool(self._value("bank_write__written")))

    def _compare(self, expected):
        for name in ("i__ready", "event_conflicts"):
            assert self._value(name) == expected[name], f"{name} is {self._value(name)}"
        for name in ("status__waiting", "status__in_flight"):
            wanted = bits({number % 2 for number in range(self.numbers + 1) if expected[name] >> number & 1})
            assert self._value(name) == wanted, f"{name} is {self._value(name)}"
        asked = expected["asked"]
        for name, port in self.ports.items():
            wanted = asked is not None and asked.group.store == (name == "write")
            assert port.is_valid() == wanted, f"valid of {name} is {port.is_valid()}"
            if port.is_valid():
                self._compare_request(name, port.value(), asked)
        returning = expected["returning"]
        arrived = self._value("arrived__slots")
        assert arrived == bits(returning), f"slots {arrived:b} return"
        if returning and self.cfg.thread_groups > 1:
            assert self._value("arrived__group") == expected["group"], "group that returns"
        if returning and self.cfg.gather_offsets:
            found = self._value("arrived__element"), ElementSize(self._value("arrived__size"))
            assert found == expected["element"], f"element {found} returns"
        for slot in range(self.slots):
            place = placement_layout.from_bits(self._value(f"place__{slot}"))
            bank_number, offset = returning.get(slot, (None, None))
            assert place.bank == (0 if bank_number is None else 1 << bank_number), f"bank of slot {slot}"
            assert offset is None or place.offset == offset, f"offset of slot {slot}"

    def _compare_request(self, name, fields, asked):
        assert fields["bank"] == bits(asked.banks), f"{name} asks for {fields['bank']:b}"
        for number, (row, data, mask) in asked.banks.items():
            line = number % len(fields["row"])
            assert fields["row"][line] == row, f"{name}, row of bank {number}"
            if name == "write":
                assert fields["mask"][line] == mask, f"mask of bank {number}"
                enabled = sum(0xFF << 8 * i for i in range(BANK_BYTES) if mask >> i & 1)
                words = sum(data << 32 * i for i in range(BANK_BYTES // WORD_BYTES))
                assert (fields["data"][line] ^ words) & enabled == 0, f"data of bank {number}"

    # -- the run --------------------------------------------------------------------------------

    async def step(self, drop):
        """A cycle; returns whether the group was taken."""
        hold = self.random.random() < self.hold
        self._drive(hold, drop)
        await RisingEdge(self.dut.clk)
        self.steps += 1
        inputs = self._sample(hold, drop)
        before = self.model.at_port
        expected = self.model.cycle(inputs)
        try:
            self._compare(expected)
        except AssertionError as error:
            raise AssertionError(f"cycle {self.steps}, {inputs}: {error}; expected {expected}") from None
        self._count(expected, before)
        return bool(self.offered and expected["i__ready"])

    def _count(self, expected, before):
        self.returned += len(expected["returning"])
        self.conflicts += expected["event_conflicts"]
        self.most = max(self.most, len(self.model.requests))
        if before is not None:
            self.asked.append(self.steps)
            if self.model.at_port is not before:
                self.stored += len(before.banks) * before.group.store
                self.turns += self.was_store is not None and before.group.store != self.was_store
                self.was_store = before.group.store
                self.joined += any(request.group.operation != before.group.operation for request in self.model.requests)

    async def run(self, *operations, cycles=None):
        """All groups of some operations, until they are over or for some cycles."""
        assert self.model.idle
        groups, drop = deque(group for operation in operations for group in operation), False
        while (groups or not self.model.idle or drop) and cycles != 0:
            cycles = cycles and cycles - 1
            dropping, drop = drop, False
            self.dropped += dropping
            if groups and not dropping and self.offered is None and self._may_offer(groups[0]) and self.random.random() < self.offer:
                self.offered = groups[0]
            if await self.step(dropping):
                groups.popleft()
                self.offered, drop = None, self.random.random() < self.drop

    def _may_offer(self, group):
        """At most two operations have accesses in flight."""
        under_way = {request.group.operation for request in self.model.requests}
        if self.model.group:
            under_way.add(self.model.group.operation)
        return all(number >= group.operation - 1 for number in under_way)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(memory=list(MEMORIES), offer=[0.3, 1.0], hold=[0.0, 0.3])
async def random_operations(dut, memory, offer, hold):
    """Groups with few and many active threads, in any layout; operations that follow each other, and memory of any latency."""
    bench = LsuBench(dut, MEMORIES[memory], offer, hold, drop=0.3)
    await bench.start()
    for _ in range(bench.rounds(20)):
        await bench.run(*(bench.operation() for _ in range(3)))
    assert min(bench.returned, bench.stored, bench.dropped, bench.turns) > bench.rounds(11) - 1
    seldom = bench.slots == 1 and offer < 1         # operations of one thread, too far apart to meet
    if bench.slots == 1 and memory in ("free", "late"):
        assert bench.conflicts == 0
    elif not seldom:
        assert bench.conflicts > 0
    if memory == "late":
        assert bench.most == bench.cfg.shared_requests and (bench.joined > 0 or seldom)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reset_under_way(dut):
    """A reset forgets everything that was asked."""
    bench = LsuBench(dut, Memory(grant=0.5))
    await bench.start()
    for _ in range(bench.rounds(120)):
        await bench.run(bench.operation(), bench.operation(), cycles=bench.random.randint(1, 12))
        await bench.restart(bench)
    await bench.run(bench.operation())
    assert min(bench.returned, bench.stored) > bench.rounds(11) - 1


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def cycles_of_loads(dut):
    """With memory at its least latency loads ask for as many cycles as the golden model of the banks says, and groups have no gap."""
    bench = LsuBench(dut)
    await bench.start()
    for _ in range(bench.rounds(40)):
        groups, addresses = bench.operation(store=False, access=Access.V4, groups=4), []
        for group in groups:
            group.waiting = list(range(bench.slots))
            addresses += group.address
        bench.asked.clear()
        before = bench.steps
        await bench.run(groups)
        assert len(bench.asked) == gather_cycles(addresses, bench.slots)
        assert bench.steps - before == len(bench.asked) + 2 + SHARED_READ_LATENCY


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def cycles_of_turns(dut):
    """A load and a store behind each other, of one thread each: two cycles from request to request; of one kind one cycle."""
    bench = LsuBench(dut)
    await bench.start()
    for _ in range(20):
        stores = [bench.random.random() < 0.5 for _ in range(2)]
        operations = [bench.operation(store=store, access=Access.B32, groups=1) for store in stores]
        for (group,) in operations:
            group.waiting = [bench.random.randrange(bench.slots)]
        bench.asked.clear()
        await bench.run(*operations)
        assert len(bench.asked) == 2 and bench.asked[1] - bench.asked[0] == 1 + SHARED_READ_LATENCY * (stores[0] != stores[1])
