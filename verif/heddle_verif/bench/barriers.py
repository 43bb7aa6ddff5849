"""Bench of the barriers: what they say in every cycle against plain integers."""

import cocotb
from cocotb.triggers import RisingEdge
from heddle.constants import BANK_BYTES, BARRIERS, MOST_EXPECTED
from heddle.interfaces.layouts import barrier_arrival_layout
from heddle.memory.barriers import Barriers
from heddle_sim.toolchain.cocotb_process import bench_config

from ..agents.payload import pack
from ..fixture import Bench

EXPECTED = [0, 1, 512, 0x4000_0000, MOST_EXPECTED, 0x8000_0000, 0xFFFF_FFFF]
HUGE = 1 << 27      # blocks
COPIES = 6          # of a barrier under way


async def begin(dut):
    bench = Bench(dut, Barriers(bench_config()), idle_limit=None)
    await bench.start()
    return bench


class _Barrier:
    """What one barrier has counted, and the copies that are still to tell it something."""

    def __init__(self):
        self.expected = self.arrived = self.in_round = self.announced = 0
        self.open, self.under_way, self.owed = [], 0, 0

    @property
    def excess(self):
        return self.in_round > MOST_EXPECTED

    @property
    def overrun(self):
        return self.announced > MOST_EXPECTED or bool((self.expected - self.arrived) & 1 << 31)

    @property
    def complete(self):
        return (self.expected == self.arrived and not self.open and not self.under_way and not self.excess
                and self.announced <= MOST_EXPECTED)


class _Copies:
    """Random copies, parts and arrivals; most of what they bring is expected, before or later."""

    def __init__(self, rng, barriers, remote):
        self.rng, self.barriers, self.remote = rng, barriers, remote
        self.all = [_Barrier() for _ in range(BARRIERS)]
        self.expects = []

    def expect(self, quiet):
        """Barrier, bytes. Nothing at the end of a quiet time."""
        rng = self.rng
        if 0 < quiet < 5:
            return None
        if self.expects and rng.random() < 0.5:
            return self.expects.pop(rng.randrange(len(self.expects)))
        return (rng.randrange(self.barriers), rng.choice(EXPECTED)) if not quiet and rng.random() < 0.003 else None

    def opened(self):
        number = self.rng.randrange(self.barriers)
        if self.rng.random() < 0.8 or len(self.all[number].open) == COPIES:
            return None
        return number

    def sized(self):
        """Barrier, blocks, whether it ends its copy."""
        numbers = [number for number in range(self.barriers) if self.all[number].open]
        if not numbers or self.rng.random() < 0.4:
            return None
        blocks = HUGE if self.rng.random() < 0.002 else self.rng.randrange(64)
        return self.rng.choice(numbers), blocks, self.rng.random() < 0.6

    def arrive(self):
        """Barrier, bytes, whether they are of another core."""
        rng = self.rng
        if self.remote and rng.random() < 0.1:
            size = BANK_BYTES * rng.randrange(8)
            number = rng.randrange(self.barriers)
            self.expects.append((number, size))
            return number, size, 1
        numbers = [number for number in range(self.barriers) if self.all[number].owed]
        if not numbers or rng.random() < 0.2:
            return None
        number = rng.choice(numbers)
        return number, BANK_BYTES * min(rng.randrange(1, 64), self.all[number].owed), 0

    def apply(self, expect, opened, sized, arrive):
        if expect:
            barrier = self.all[expect[0]]
            barrier.expected += expect[1]
            barrier.in_round += expect[1]
        if opened is not None:
            self.all[opened].open.append(None)
        if sized:
            number, blocks, ends = sized
            barrier = self.all[number]
            barrier.announced += blocks * BANK_BYTES
            barrier.under_way += blocks
            barrier.owed += 0 if blocks == HUGE else blocks
            if ends:
                barrier.open.pop()
            if self.rng.random() < 0.995:
                self.expects.append((number, blocks * BANK_BYTES))
        if arrive:
            number, size, remote = arrive
            self.all[number].arrived += size
            if not remote:
                self.all[number].under_way -= size // BANK_BYTES
                self.all[number].owed -= size // BANK_BYTES

    def clear(self):
        self.all, self.expects = [_Barrier() for _ in range(BARRIERS)], []


def drive(dut, expect, opened, sized, arrive):
    for name, item in (("issue__expect", expect), ("sized", sized), ("arrive", arrive)):
        getattr(dut, f"{name}__valid").value = item is not None
    dut.issue__opened__valid.value = opened is not None
    if expect:
        dut.issue__expect__barrier.value, dut.issue__expect__bytes.value = expect
    if opened is not None:
        dut.issue__opened__barrier.value = opened
    if sized:
        dut.sized__barrier.value, dut.sized__blocks.value, dut.sized__ends.value = sized
    if arrive:
        values = dict(zip(("barrier", "bytes", "remote"), arrive, strict=True))
        dut.arrive__payload.value = pack(barrier_arrival_layout, values)


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(barriers=[1, 3, BARRIERS])
async def random_counts(dut, barriers):
    """Copies, expectations, arrivals, ends of rounds, clears and queries in every cycle, on few barriers and on all."""
    bench = await begin(dut)
    rng, cfg = bench.random, bench.cfg
    copies = _Copies(rng, barriers, cfg.multicast)
    seen = dict.fromkeys(("complete", "overrun", "excess", "open", "passed"), 0)
    index = stays = 0
    quiet = 0           # cycles without a new copy, so that rounds end
    for cycle in range(4000):
        stays, quiet = max(stays - 1, 0), max(quiet - 1, 0)
        if not stays:
            index, stays = rng.randrange(barriers), rng.randrange(1, 7)
            if not quiet and rng.random() < 0.1:
                quiet = stays = rng.randrange(10, 120)
        event = copies.expect(quiet), None if quiet else copies.opened(), copies.sized(), copies.arrive()
        if cycle % 700 == 699:      # and shown
            event, stays = ((index, rng.choice(EXPECTED[-2:])), *event[1:]), 8
        clear = rng.random() < 0.005
        # A round ends as in issue: nothing about it is applied in this cycle or is still to be.
        passed = (copies.all[index].complete and quiet == 1 and not clear and rng.random() < 0.8
                  and not any(part is not None and (part if isinstance(part, int) else part[0]) == index for part in event[:3]))
        drive(dut, *event)
        dut.clear.value, dut.issue__index.value, dut.issue__passed.value = int(clear), index, int(passed)
        await RisingEdge(dut.clk)
        barrier = copies.all[index]
        expected = barrier.complete, barrier.overrun, barrier.excess
        found = tuple(bool(getattr(dut, f"issue__{name}").value) for name in ("complete", "overrun", "excess"))
        assert found == expected, (index, found, expected, vars(barrier))
        for name, value in zip(("complete", "overrun", "excess"), expected):
            seen[name] += value
        seen["open"] += not any(expected)
        seen["passed"] += passed
        if passed:
            copies.all[index].in_round = copies.all[index].announced = 0
        copies.apply(*event)
        if clear:
            copies.clear()
    assert all(seen.values()), seen
    assert all(checker.transfers for checker in bench.checkers.values())


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def same_cycle(dut):
    """Bytes that arrive in the cycle in which they are expected, and in which their copy comes and ends, leave the barrier complete."""
    await begin(dut)
    for barrier in range(BARRIERS):
        dut.issue__index.value = barrier
        for blocks in (0, 1, 0xFFF):
            drive(dut, (barrier, blocks * BANK_BYTES), barrier, (barrier, blocks, 1), (barrier, blocks * BANK_BYTES, 0))
            await RisingEdge(dut.clk)
            assert dut.issue__complete.value == 1
            assert dut.issue__overrun.value == dut.issue__excess.value == 0
    drive(dut, None, None, None, None)
    for barrier in range(BARRIERS):
        dut.issue__index.value = barrier
        await RisingEdge(dut.clk)
        assert dut.issue__complete.value == 1
        assert dut.issue__overrun.value == dut.issue__excess.value == 0
