"""Bench of the loads and stores of a group of threads: every port in every cycle against a model of the rules."""

from collections import deque
from dataclasses import dataclass

import cocotb
from cocotb.triggers import RisingEdge
from heddle.constants import BANK_BYTES, BANKS, ROW_BYTES
from heddle.interfaces.layouts import SHARED_READ_LATENCY
from heddle.isa.encoding import ACCESS_BYTES, Access
from heddle.thread.shared_lsu import SharedLsu, group_access_layout, placement_layout
from heddle_sim.golden.bank_access import banks_of, gather_cycles
from heddle_sim.toolchain.cocotb_process import bench_config

from ..agents.payload import pack
from ..fixture import Bench
from .thread_workload import STORES

WORD_BYTES = 4


@dataclass
class Group:
    """What the unit takes at once: the slots that access memory, and of all slots address and data."""

    number: int
    waiting: list
    address: list
    data: list
    word: int


@dataclass
class Operation:
    """Groups with one kind of access."""

    store: bool
    access: Access
    groups: deque


class Model:
    """The rules of ``SharedLsu``, cycle by cycle."""

    def __init__(self, cfg):
        self.cfg = cfg
        self.entered = deque()          # with far_registers: groups in front
        self.group, self.waiting = None, []
        self.loads, self.stores = {}, {}    # bank: row, and row, word and mask
        self.asking = {}                # slot of a load that waits for its bank: bank, offset
        self.asking_group = 0
        self.flying = deque([({}, 0)] * SHARED_READ_LATENCY, SHARED_READ_LATENCY)

    @property
    def idle(self):
        return not (self.entered or self.group or self.loads or self.stores or any(slots for slots, _ in self.flying))

    def _chosen(self, store):
        """Of the waiting slots those that ask for a bank, and those that need not wait with them."""
        first = {}
        for slot in self.waiting:
            first.setdefault(0 if store and self.cfg.shared_writes == 1 else bank(self.group.address[slot]), slot)
        words = {self.group.address[slot] // BANK_BYTES for slot in first.values()}
        return list(first.values()), [slot for slot in self.waiting if slot in first.values() or
                                      (not store and self.group.address[slot] // BANK_BYTES in words)]

    def cycle(self, operation, offered, hold, drop, reads, writes):
        """The outputs of a cycle with these inputs; then the model is in the next one.

        ``offered`` is a group or None; ``reads`` and ``writes`` are the banks that would grant a request.
        """
        buffer_ready = len(self.entered) < 2
        if drop:
            self.entered.pop()
        granted = {slot: place for slot, place in self.asking.items() if place[0] in reads}
        loads, stores = ({b: request for b, request in requests.items() if b not in grants}
                         for requests, grants in ((self.loads, reads), (self.stores, writes)))
        denied = bool(loads or stores)
        choose = self.group is not None and not hold and not denied
        first, served = self._chosen(operation.store) if choose else ([], [])
        left = [slot for slot in self.waiting if slot not in served]
        room = self.group is None or (choose and not left)
        far = self.cfg.far_registers
        arriving = self.entered[0] if self.entered else None if far else offered
        returning, group = self.flying[0]
        requesting = bool(self.loads or self.stores)
        outputs = {
            "i__ready": buffer_ready if far else room, "occupied": self.group is not None or bool(self.entered),
            "status__requesting": requesting, "status__storing": bool(self.stores),
            "status__in_flight": requesting or any(slots for slots, _ in self.flying),
            "event_conflicts": denied or (choose and bool(left)),
            "loads": self.loads, "stores": self.stores, "returning": returning, "group": group,
        }
        self.flying.append((granted, self.asking_group))
        self.asking = {slot: place for slot, place in self.asking.items() if slot not in granted}
        self.loads, self.stores = loads, stores
        if choose:
            self._request(operation, first, served)
            self.waiting, self.group = left, self.group if left else None
        if far and arriving and room:
            self.entered.popleft()
        if far and offered and buffer_ready:
            self.entered.append(offered)
        if arriving and room:
            self.group, self.waiting = arriving, arriving.waiting
        return outputs

    def _request(self, operation, first, served):
        group = self.group
        self.asking_group = group.number
        for slot in first:
            address = group.address[slot]
            row = address // ROW_BYTES
            if operation.store:
                offset = (address + WORD_BYTES * group.word) % BANK_BYTES
                size = min(ACCESS_BYTES[operation.access], WORD_BYTES)
                self.stores[bank(address)] = (row, group.data[slot], ((1 << size) - 1) << offset)
            else:
                self.loads[bank(address)] = row
        if not operation.store:
            self.asking = {slot: (bank(group.address[slot]), group.address[slot] % BANK_BYTES) for slot in served}


def bank(address):
    return int(banks_of(address))


class GatherBench(Bench):
    """Random operations; ``offer``, ``hold`` and ``grant`` are probabilities in a cycle."""

    def __init__(self, dut, offer=1.0, hold=0.0, grant=1.0, drop=0.0):
        super().__init__(dut, SharedLsu(bench_config()))
        self.slots = min(self.cfg.thread_slots, self.cfg.threads)
        self.layout = group_access_layout(self.cfg)
        self.offer, self.hold, self.grant, self.drop = offer, hold, grant, drop if self.cfg.late_address_checks else 0
        self.returned = self.stored = self.conflicts = self.steps = self.dropped = self.asked = 0

    async def start(self):
        await super().start()
        self.forget()

    def forget(self):
        """Nothing is asked, and nothing under way."""
        self.model = Model(self.cfg)
        self.offered = None
        self.free = set()           # with banks_known_ahead: banks that grant in this cycle
        self._drive(None, False, False, set(), set())

    # -- what is asked --------------------------------------------------------------------------

    def operation(self):
        store = self.random.random() < 0.5
        access = self.random.choice(STORES if store else list(Access))
        return Operation(store, access, deque(self.group(access) for _ in range(self.random.randint(1, 5))))

    def group(self, access):
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
        waiting = [slot for slot in range(self.slots) if self.random.random() < active] if active else [self.random.randrange(self.slots)]
        return Group(self.random.randrange(self.cfg.thread_groups), waiting, address,
                     [self.random.getrandbits(32) for _ in range(self.slots)],
                     self.random.randrange(max(1, size // WORD_BYTES)))

    # -- the ports ------------------------------------------------------------------------------

    def _drive(self, operation, hold, drop, reads, writes):
        dut, group = self.dut, self.offered
        dut.i__valid.value, dut.hold.value = group is not None, hold
        dut.bank_read__grant.value = sum(1 << b for b in reads)
        dut.bank_write__grant.value = sum(1 << b for b in writes)
        if self.cfg.late_address_checks:
            dut.drop.value = drop
        if operation:
            dut.store.value, dut.access.value = operation.store, operation.access.value
        shown = group or self.group(Access.U8)      # anything
        dut.i__payload.value = pack(self.layout, {
            "waiting": sum(1 << slot for slot in shown.waiting), "group": shown.number, "word": shown.word,
            "address": shown.address, "data": shown.data})

    def _value(self, name):
        return int(getattr(self.dut, name).value)

    def _compare(self, expected):
        for name in ("i__ready", "occupied", "status__requesting", "status__storing", "status__in_flight", "event_conflicts"):
            assert self._value(name) == expected[name], f"{name} is {self._value(name)}"
        for name in ("read", "write"):
            wanted = expected["loads" if name == "read" else "stores"]
            asked = self._value(f"bank_{name}__request")
            assert asked == sum(1 << b for b in wanted), f"bank_{name} asks for {asked:b}"
            for b, request in wanted.items():
                row, data, mask = request if name == "write" else (request, None, None)
                assert self._value(f"bank_{name}__row__{b}") == row, f"bank_{name}, row of bank {b}"
                if name == "write":
                    assert self._value(f"bank_write__mask__{b}") == mask, f"mask of bank {b}"
                    enabled = sum(0xFF << 8 * i for i in range(BANK_BYTES) if mask >> i & 1)
                    words = sum(data << 32 * i for i in range(BANK_BYTES // WORD_BYTES))
                    assert (self._value(f"bank_write__data__{b}") ^ words) & enabled == 0, f"data of bank {b}"
        returning = expected["returning"]
        arrived = self._value("arrived__slots")
        assert arrived == sum(1 << slot for slot in returning), f"slots {arrived:b} return"
        if returning and self.cfg.thread_groups > 1:
            assert self._value("arrived__group") == expected["group"], "group that returns"
        for slot in range(self.slots):
            place = placement_layout.from_bits(self._value(f"place__{slot}"))
            bank_number, offset = returning.get(slot, (None, None))
            assert place.bank == (0 if bank_number is None else 1 << bank_number), f"bank of slot {slot}"
            assert offset is None or place.offset == offset, f"offset of slot {slot}"

    # -- the run --------------------------------------------------------------------------------

    async def step(self, operation, offered, drop):
        """A cycle; says whether the group was taken."""
        hold = self.random.random() < self.hold
        reads, writes = ({b for b in range(BANKS) if self.random.random() < self.grant} for _ in range(2))
        if self.cfg.banks_known_ahead:
            self.dut.bank_ahead.value = sum(1 << b for b in range(BANKS) if b not in reads)
            reads, self.free = self.free, reads
            writes = reads
        self.offered = offered
        self._drive(operation, hold, drop, reads, writes)
        await RisingEdge(self.dut.clk)
        self.steps += 1
        expected = self.model.cycle(operation, offered, hold, drop, reads, writes)
        try:
            self._compare(expected)
        except AssertionError as error:
            raise AssertionError(f"cycle {self.steps}, {operation}: {error}; expected {expected}") from None
        self.returned += len(expected["returning"])
        self.stored += len(set(expected["stores"]) & writes)
        self.asked += expected["status__requesting"]
        self.conflicts += expected["event_conflicts"]
        return bool(offered and expected["i__ready"])

    async def run(self, operation, cycles=None):
        """All groups of an operation, until it is over or for some cycles."""
        assert self.model.idle
        self.offered, drop = None, False
        while (operation.groups or not self.model.idle or drop) and cycles != 0:
            cycles = cycles and cycles - 1
            dropping, drop = drop, False
            self.dropped += dropping
            offers = operation.groups and not dropping and (self.offered is not None or self.random.random() < self.offer)
            if await self.step(operation, operation.groups[0] if offers else None, dropping):
                operation.groups.popleft()
                drop, self.offered = self.random.random() < self.drop, None


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(offer=[0.3, 1.0], hold=[0.0, 0.3], grant=[0.2, 0.8, 1.0])
async def random_operations(dut, offer, hold, grant):
    """Groups with few and many active threads, in any layout."""
    bench = GatherBench(dut, offer, hold, grant, drop=0.3)
    await bench.start()
    for _ in range(60):
        await bench.run(bench.operation())
    assert min(bench.returned, bench.stored) > 10
    assert (bench.conflicts > 0) == (bench.slots > 1 or grant < 1) and (bench.dropped > 0) == bench.cfg.late_address_checks


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reset_under_way(dut):
    """A reset forgets everything that was asked."""
    bench = GatherBench(dut, grant=0.5)
    await bench.start()
    for _ in range(120):
        await bench.run(bench.operation(), bench.random.randint(1, 8))
        await bench.restart(bench)
    await bench.run(bench.operation())
    assert min(bench.returned, bench.stored) > 10


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def cycles_of_loads(dut):
    """Without stalls loads ask for as many cycles as the golden model of the banks says, and groups follow each other without a gap."""
    bench = GatherBench(dut)
    await bench.start()
    for _ in range(40):
        operation = Operation(False, Access.V4, deque(bench.group(Access.V4) for _ in range(4)))
        addresses = []
        for group in operation.groups:
            group.waiting = list(range(bench.slots))
            addresses += group.address
        bench.asked, before = 0, bench.steps
        await bench.run(operation)
        assert bench.asked == gather_cycles(addresses, bench.slots)
        assert bench.steps - before == bench.asked + 2 + SHARED_READ_LATENCY + bench.cfg.far_registers
