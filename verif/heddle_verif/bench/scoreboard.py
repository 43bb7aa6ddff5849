"""Bench of the scoreboard against lists in Python."""

import functools
import itertools
import operator

import cocotb
from cocotb.triggers import ReadOnly, RisingEdge
from heddle.constants import REGISTER_GROUPS
from heddle.front_end.scoreboard import Scoreboard, hazard_layout
from heddle_sim.toolchain.cocotb_process import bench_config

from heddle_verif.agents.payload import pack
from heddle_verif.fixture import Bench

GROUPS, GROUP_LIMIT = 4, 31         # of mm
# Groups of product registers, and the memory of offsets behind them, which ``uses["product"]`` has with ``gather_offsets`` only.
PRODUCT_GROUPS = REGISTER_GROUPS + 1
CYCLES = 12000


class Model:
    """What is in flight: register groups of thread instructions, entries of mm with equal product register groups; oldest
    first. And the instruction that waits: (uses, for_matrix, flag, lanes_only)."""

    def __init__(self, cfg):
        self.depth = cfg.thread_queue + 2
        self.awaited = 0                        # factor groups of mm that went ahead of loads
        self.thread, self.matrix = [], []       # (product, factor, flag); [product, factor, count]
        self.waits, self.is_free = None, False

    def joins(self, uses):
        return bool(self.matrix) and self.matrix[-1][0] == uses["product"] and self.matrix[-1][2] < GROUP_LIMIT

    @staticmethod
    def held(entries):
        """Factor groups of thread instructions."""
        return functools.reduce(operator.or_, (entry[1] for entry in entries), 0)

    def meets(self, uses, for_matrix, lanes_only):
        """The other unit has its registers."""
        held = self.thread if for_matrix else self.matrix
        needed = uses["factor"] & ~(lanes_only if for_matrix and not self.matrix else 0)
        return (any(entry[0] & uses["product"] or entry[1] & needed for entry in held)
                or (for_matrix and any(entry[2] for entry in self.thread)))

    def places(self, for_matrix):
        return GROUPS - len(self.matrix) if for_matrix else self.depth - len(self.thread)

    def free(self, uses, for_matrix, _, lanes_only):
        place = self.places(for_matrix) or (for_matrix and self.joins(uses))
        return not self.meets(uses, for_matrix, lanes_only) and bool(place)

    def take(self, item):
        """What happens in a cycle in which ``i`` is ready: ``item`` comes, or None."""
        other = item and self.waits and self.waits[1] != item[1]
        if item:
            after_mm = self.waits and self.waits[1]     # the unit is not empty then
            meets = self.meets(*item[:2], 0 if after_mm else item[3])
        self.is_free = bool(item and not other and not meets and self.places(item[1]) >= 2)
        self.waits = item

    def add(self, uses, for_matrix, flag):
        if not for_matrix:
            self.thread.append((uses["product"], uses["factor"], flag))
        elif self.joins(uses):
            self.matrix[-1][1] |= uses["factor"]
            self.matrix[-1][2] += 1
        else:
            self.matrix.append([uses["product"], uses["factor"], 1])

    def done(self, matrix):
        if not matrix:
            self.thread.pop(0)
            return
        self.matrix[0][2] -= 1
        if self.matrix[0][2] == 0:
            self.matrix.pop(0)


def few_granules(rng, same, turns):
    """Instructions of up to two groups, out of four for a while, so that they often meet. ``same``: how often one has the groups of the one
    before; ``turns``: how often it is for the other unit."""

    def groups():
        return sum(1 << bit for bit in set(rng.choice(near, int(rng.integers(0, 3))).tolist()))

    def random_uses():
        return {"product": groups(), "factor": groups()}

    for_matrix = False
    for index in itertools.count():
        if index % 200 == 0:
            near = rng.permutation(PRODUCT_GROUPS)[:4]
            uses = random_uses()
        if rng.random() >= same:
            uses = random_uses()
        elif rng.random() < 0.3:
            uses = uses | {"factor": groups()}
        if rng.random() < turns:
            for_matrix = not for_matrix
        yield uses, for_matrix


def many_granules(rng):
    """Instructions of many groups, out of those that the other unit leaves alone for a while, so that one too many is seen at once."""
    for index in itertools.count():
        if index % 100 == 0:
            of_matrix = {name: int(rng.integers(1 << PRODUCT_GROUPS)) for name in ("product", "factor")}
        for_matrix = bool(rng.random() < 0.5)
        mine = {name: groups if for_matrix else ~groups for name, groups in of_matrix.items()}
        yield {name: int(rng.integers(1 << PRODUCT_GROUPS)) & groups for name, groups in mine.items()}, for_matrix


def long_groups(rng):
    """Many ``mm`` with the same groups, and seldom an instruction of threads, without any."""
    for index in itertools.count():
        product = 1 << (index // 100 % REGISTER_GROUPS)
        for_matrix = bool(rng.random() < 0.95)
        yield {"product": product if for_matrix else 0, "factor": 0}, for_matrix


def loads_and_products(rng):
    """A thread operation with one group of factor registers, and an ``mm`` with it and perhaps another: each group in turn."""
    for index in itertools.count():
        group = 1 << (index // 2 % REGISTER_GROUPS)
        another = 1 << int(rng.integers(REGISTER_GROUPS))
        for_matrix = bool(index % 2)
        yield {"product": 0, "factor": group | (another if for_matrix and rng.random() < 0.5 else 0)}, for_matrix


async def exercise(dut, instructions, finish, flagged=0.1):
    """Instructions are taken and added whenever they may be, and end with the probabilities ``finish`` (of threads, of the matrix unit) a
    cycle. Returns the bench and how often what happened."""
    bench = Bench(dut, Scoreboard(bench_config()))
    await bench.start()
    rng, model = bench.rng, Model(bench.cfg)
    offset_memory, factors = bench.cfg.gather_offsets << REGISTER_GROUPS, (1 << REGISTER_GROUPS) - 1
    seen = dict.fromkeys(("joined", "limit", "refused", "full", "both", "at once", "ahead"), 0)
    for uses, for_matrix in itertools.islice(instructions(rng), bench.rounds(CYCLES)):
        uses = {"product": uses["product"] & (factors | offset_memory), "factor": uses["factor"] & factors}
        lanes_only = factors if rng.random() < 0.5 else int(rng.integers(1 << REGISTER_GROUPS))
        item = uses, for_matrix, int(rng.random() < flagged), lanes_only
        clear = int(rng.random() < 0.002)
        ends = {False: bool(model.thread) and rng.random() < finish[0], True: bool(model.matrix) and rng.random() < finish[1]}
        add = int(model.is_free and rng.random() < 0.9)
        is_open = not model.waits or bool(add)
        take = int(is_open and rng.random() < 0.9)
        dut.i__payload.value = pack(hazard_layout(bench.cfg), {
            "uses": uses, "for_matrix": int(item[1]), "writes_predicate": item[2], "lanes_only": item[3]})
        dut.i__valid.value, dut.add.value, dut.clear.value = take, add, clear
        dut.thread_done.value, dut.matrix_done.value = int(ends[False]), int(ends[True])
        await ReadOnly()
        empty = [not held and not (model.waits and model.waits[1] == unit) for unit, held in enumerate((model.thread, model.matrix))]
        found = [int(signal.value) for signal in (dut.free, dut.waiting, dut.i__ready, dut.thread_empty, dut.matrix_empty, dut.thread_left)]
        expected = [model.is_free, bool(model.waits), is_open, *empty, len(model.thread) + bool(model.waits and not model.waits[1])]
        assert found == expected, f"{model.waits}: {found}, not {expected}; {model.thread}, {model.matrix}"
        assert not model.is_free or model.free(*model.waits), "free must mean free"
        added = model.waits[0]["factor"] if add and model.waits[1] else 0
        awaited = (model.awaited | added) & model.held(model.thread[ends[False]:])
        assert bool(dut.matrix_hold.value) == bool(awaited), f"{awaited:#x} {model.thread}"
        seen["ahead"] += bool(awaited)
        model.awaited = 0 if clear else awaited
        seen["joined"] += bool(add and model.waits[1] and model.joins(model.waits[0]))
        seen["full"] += not model.places(True) or not model.places(False)
        seen["refused"] += bool(model.waits) and not model.is_free
        seen["both"] += all(ends.values())
        seen["at once"] += bool(add and take)
        await RisingEdge(dut.clk)
        bench.progress()
        added, stays_free = model.waits if add else None, bool(model.waits) and model.free(*model.waits)
        if is_open:
            model.take(item if take else None)
        else:
            model.is_free = stays_free
        if added:
            model.add(*added[:3])
            seen["limit"] += added[1] and model.matrix[-1][2] == GROUP_LIMIT
        for matrix, over in ends.items():
            if over:
                model.done(matrix)
        if clear:
            model.thread.clear()
            model.matrix.clear()
            model.waits, model.is_free = None, False
    bench.finish()
    return bench, seen


@cocotb.test(timeout_time=600, timeout_unit="us")
@cocotb.parametrize(finish=[0.6, 0.2, 0.02], same=[0.0, 0.7, 0.97])
async def random_instructions(dut, finish, same):
    turns = 0.5 if finish > 0.1 else 0.15       # several of one unit take all of its places
    bench, seen = await exercise(dut, lambda rng: few_granules(rng, same, turns), (finish, finish))
    assert seen["refused"] > bench.rounds(50)
    assert seen["at once"] > bench.rounds(50)
    assert seen["ahead"] >= bench.rounds(3 if same else 21) or finish < 0.5, seen
    assert seen["joined"] > bench.rounds(20) or same == 0, seen
    assert seen["full"] > bench.rounds(20) or finish > 0.1, seen
    assert seen["both"] > bench.rounds(20) or finish < 0.1, seen


@cocotb.test(timeout_time=600, timeout_unit="us")
async def every_group(dut):
    bench, seen = await exercise(dut, many_granules, (0.4, 0.4))
    assert seen["refused"] > bench.rounds(200) and seen["both"] > bench.rounds(20), seen


@cocotb.test(timeout_time=600, timeout_unit="us")
async def full_groups(dut):
    bench, seen = await exercise(dut, long_groups, (0.6, 0.15), flagged=0)
    assert seen["limit"] > bench.rounds(20), seen


@cocotb.test(timeout_time=600, timeout_unit="us")
async def ahead_of_loads(dut):
    """An ``mm`` whose lanes alone need a group goes to the empty matrix unit before that group is loaded, whichever it is."""
    bench, seen = await exercise(dut, loads_and_products, (0.2, 0.7), flagged=0)
    assert seen["ahead"] > bench.rounds(200), seen
