"""Bench of ``BankReader``: words, places and cycles of transfers from a memory of any latency, with words that are held."""

from collections import namedtuple

import cocotb
from cocotb.triggers import RisingEdge
from heddle.constants import BANK_BYTES
from heddle.rnn.bank_reader import READ_AHEAD, BankReader
from heddle_sim.toolchain.cocotb_process import bench_config

from ..agents.banks import BankMemory
from ..fixture import Bench

COUNT, PLACES = 6, 8        # widths
Word = namedtuple("Word", "cycle, held, at, last, data")


def make_unit(cfg):
    """The design under test."""
    return BankReader(cfg, COUNT, PLACES)


class ReaderBench(Bench):
    """Transfers one after the other. ``hold_chance``: of ``o.hold`` in a cycle. ``options`` are those of ``BankMemory``."""

    def __init__(self, dut, hold_chance=0.0, **options):
        super().__init__(dut, make_unit(bench_config()))
        self.memory = BankMemory(dut, self.cfg, self.rng, read="bank", **options)
        self.words = self.cfg.shared_bytes // BANK_BYTES
        self.hold_chance = hold_chance
        self.held = self.hold = False
        self.before = None          # word that did not leave in the cycle before
        self.counted = 0            # words of all transfers

    async def step(self):
        """A cycle; returns the word at ``o`` where one leaves, else None."""
        dut = self.dut
        await RisingEdge(dut.clk)
        held, self.held, self.hold = self.held, self.hold, bool(self.rng.random() < self.hold_chance)
        dut.o__hold.value = self.hold
        assert bool(dut.o__taken.value) == (bool(dut.o__valid.value) and not held), "a word must leave unless it is held"
        if not dut.o__valid.value:
            assert self.before is None, f"word {self.before} is gone"
            return None
        found = int(dut.o__at.value), int(dut.o__data.value)
        assert self.before in (None, found), f"{found} in place of {self.before}"
        self.before = found if held else None
        return None if held else found

    async def transfer(self, first, words, place, *, on=False, stop_after=None):
        """``Word``s of a transfer, and the word outside or None; cycles count from that of ``begin``."""
        dut, found, outside, cycle, stalls, requests, late = self.dut, [], None, 0, 0, 0, 0
        dut.transfer__begin.value, dut.transfer__on.value = 1, int(on)
        dut.transfer__first.value, dut.transfer__words.value, dut.transfer__place.value = first, words, place
        await self.step()
        dut.transfer__begin.value = 0
        for name in ("first", "words", "place"):        # only looked at with begin
            handle = getattr(dut, f"transfer__{name}")
            handle.value = int(self.rng.integers(1 << len(handle)))
        while True:
            word = await self.step()
            cycle += 1
            accepted = bool(dut.bank__request__valid.value and dut.bank__request__ready.value)
            late += accepted and stop_after is not None and cycle > stop_after
            requests += accepted
            stalls += bool(dut.o__valid.value) and word is None
            if word is not None:
                found.append(Word(cycle, stalls, word[0], bool(dut.o__last.value), word[1]))
            if dut.outside.value:
                assert outside is None
                outside = int(dut.word.value)
            if not dut.transfer__busy.value:
                break
            dut.stop.value = int(stop_after is not None and cycle >= stop_after)
        dut.stop.value = 0
        assert requests == len(found), f"{requests} requests, {len(found)} words"
        assert late <= 1, f"{late} requests after the end"
        self.counted += len(found)
        return found, outside

    def check(self, found, first, place):
        """Places and data of the words of a transfer."""
        for number, word in enumerate(found):
            byte = BANK_BYTES * (first + number)
            expected = int.from_bytes(self.memory.data[byte:byte + BANK_BYTES].tobytes(), "little")
            assert (word.at, word.data) == ((place + number) % (1 << PLACES), expected), f"word {number}: {word}, not {expected:#x}"
        assert not any(word.last for word in found[:-1])

    async def random_transfer(self, stops):
        """A transfer, from anywhere or behind the one before, which may reach behind memory."""
        place, words, on = int(self.rng.integers(1 << PLACES)), int(self.rng.integers(1 << COUNT)), bool(self.rng.random() < 0.3)
        first = int(self.dut.word.value) if on else int(self.rng.choice(
            [self.rng.integers(self.words), self.words - words, self.words - 1, self.words, 0xFFFF]))
        stop_after = int(self.rng.integers(1, 60)) if stops else None
        found, outside = await self.transfer(int(self.rng.integers(1 << 16)) if on else first, words, place, on=on, stop_after=stop_after)
        there = min(words, max(0, self.words - first))
        assert len(found) == there or stops and len(found) < there, f"{len(found)} words of {words} from {first} on"
        self.check(found, first, place)
        if not stops:
            assert outside == (first + there if there < words else None)
            assert not found or found[-1].last
        if words:
            assert int(self.dut.word.value) == first + len(found)


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(hold_chance=[0.0, 0.4, 0.9], memory=[(1.0, 0, 1), (0.3, 0, 1), (0.7, 9, 8)], stops=[False, True])
async def transfers(dut, hold_chance, memory, stops):
    """Transfers of all lengths, from a memory that refuses and one that takes its time."""
    bench = ReaderBench(dut, hold_chance, **dict(zip(("grant_chance", "delay", "places"), memory)))
    await bench.start()
    for _ in range(30):
        await bench.random_transfer(stops)
    bench.finish()
    assert bench.counted > (20 if stops else 60), bench.counted


@cocotb.test(timeout_time=200, timeout_unit="us")
@cocotb.parametrize(hold_chance=[0.0, 0.3])
async def one_word_a_cycle(dut, hold_chance):
    """At the least latency of memory a cycle without a word is one in which a word is held; the first word comes after three cycles."""
    bench = ReaderBench(dut, hold_chance, grant_chance=1.0)
    await bench.start()
    for words in (1, 2, 3, 40):
        found, _ = await bench.transfer(5, words, 0)
        assert [word.cycle - word.held for word in found] == [3 + number for number in range(words)], found
    bench.finish()


@cocotb.test(timeout_time=200, timeout_unit="us")
async def words_ahead(dut):
    """``READ_AHEAD`` words are requested while none leaves, and no more."""
    bench = ReaderBench(dut, 1.0, grant_chance=1.0, places=8)
    await bench.start()
    await bench.cycles(2)
    dut.transfer__begin.value, dut.transfer__first.value, dut.transfer__words.value, dut.transfer__place.value = 1, 3, 20, 0
    requested = 0
    for _ in range(30):
        await bench.step()
        dut.transfer__begin.value = 0
        requested += bool(dut.bank__request__valid.value and dut.bank__request__ready.value)
    assert requested == READ_AHEAD and bench.before == (0, int.from_bytes(bench.memory.data[48:64].tobytes(), "little"))
    bench.finish()


@cocotb.test(timeout_time=200, timeout_unit="us")
async def reset_under_way(dut):
    """A reset ends a transfer, with words on their way and words that are held."""
    bench = ReaderBench(dut, 0.3, delay=4, places=4)
    await bench.start()
    for length in range(2, 14):
        dut.transfer__begin.value, dut.transfer__on.value = 1, 0
        dut.transfer__first.value, dut.transfer__words.value, dut.transfer__place.value = 9, 30, 7
        await bench.step()
        dut.transfer__begin.value = 0
        for _ in range(length):
            await bench.step()
        await bench.restart()
        bench.before, bench.held = None, bench.hold
        found, _ = await bench.transfer(20, 6, 1)
        assert len(found) == 6
        bench.check(found, 20, 1)
    bench.finish()
