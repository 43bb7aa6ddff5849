"""Bench of the register tokens against lists in Python."""

import functools
import operator

import cocotb
from cocotb.triggers import ReadOnly, RisingEdge
from heddle.config import TOKEN_GRANULES
from heddle.front.tokens import Tokens, token_layout
from heddle_sim.bench_process import bench_config

from heddle_verif.fixture import Bench
from heddle_verif.payload import pack

GROUPS, GROUP_LIMIT = 4, 31         # of mm
CYCLES = 4000


class Model:
    """What is in flight: tokens of thread instructions, groups of mm with the same product granules; oldest first."""

    def __init__(self, cfg):
        self.depth, self.ahead = cfg.thread_queue + 2, cfg.issue_ahead
        self.awaited = 0                        # factor granules of mm that went ahead of loads
        self.thread, self.matrix = [], []       # (product, factor, flag); [product, factor, count]

    def joins(self, token):
        return bool(self.matrix) and self.matrix[-1][0] == token["product"] and self.matrix[-1][2] < GROUP_LIMIT

    def held(self):
        """Factor granules of thread instructions."""
        return functools.reduce(operator.or_, (entry[1] for entry in self.thread), 0)

    def free(self, token, for_matrix, lanes_only):
        needed = token["factor"] & ~(lanes_only if self.ahead and for_matrix and not self.matrix else 0)

        def meets(held):
            return any(entry[0] & token["product"] or entry[1] & needed for entry in held)
        if not for_matrix:
            return not meets(self.matrix) and len(self.thread) < self.depth
        full = len(self.matrix) == GROUPS and not self.joins(token)
        return not meets(self.thread) and not any(entry[2] for entry in self.thread) and not full

    def add(self, token, for_matrix, flag):
        if not for_matrix:
            self.thread.append((token["product"], token["factor"], flag))
        elif self.joins(token):
            self.matrix[-1][1] |= token["factor"]
            self.matrix[-1][2] += 1
        else:
            self.matrix.append([token["product"], token["factor"], 1])

    def done(self, matrix):
        if not matrix:
            self.thread.pop(0)
            return
        self.matrix[0][2] -= 1
        if self.matrix[0][2] == 0:
            self.matrix.pop(0)


@cocotb.test(timeout_time=200, timeout_unit="us")
@cocotb.parametrize(finish=[0.6, 0.2, 0.02], same=[0.0, 0.7, 0.97])
async def random_instructions(dut, finish, same):
    """Instructions are added whenever they may be; ``same``: how often an instruction has the granules of the one before."""
    bench = Bench(dut, Tokens(bench_config()))
    await bench.start()
    rng, model, seen = bench.rng, Model(bench.cfg), {"joined": 0, "refused": 0, "full": 0, "both": 0, "ahead": 0}

    def granules():
        return sum(1 << bit for bit in set(rng.integers(0, TOKEN_GRANULES, int(rng.integers(0, 3))).tolist()))

    token = {"product": granules(), "factor": granules()}
    for _ in range(CYCLES):
        if rng.random() >= same:
            token = {"product": granules(), "factor": granules()}
        elif rng.random() < 0.3:
            token = token | {"factor": granules()}
        for_matrix, flag, clear = bool(rng.random() < 0.5), int(rng.random() < 0.1), int(rng.random() < 0.002)
        ends = {False: bool(model.thread) and rng.random() < finish, True: bool(model.matrix) and rng.random() < finish}
        lanes_only = int(rng.integers(1 << TOKEN_GRANULES))
        free = model.free(token, for_matrix, lanes_only)
        add = int(free and rng.random() < 0.9)
        dut.token.value, dut.for_matrix.value, dut.writes_predicate.value = pack(token_layout, token), int(for_matrix), flag
        dut.add.value, dut.clear.value = add, clear
        if model.ahead:
            dut.lanes_only.value = lanes_only
        dut.thread_done.value, dut.matrix_done.value = int(ends[False]), int(ends[True])
        await ReadOnly()
        found = bool(dut.free.value), bool(dut.thread_empty.value), bool(dut.matrix_empty.value)
        assert found == (free, not model.thread, not model.matrix), f"{token} {for_matrix}: {found}, {model.thread}, {model.matrix}"
        if model.ahead:
            assert bool(dut.matrix_hold.value) == bool(model.awaited & model.held()), f"{model.awaited:#x} {model.thread}"
            seen["ahead"] += bool(dut.matrix_hold.value)
            added = token["factor"] if add and for_matrix else 0
            model.awaited = 0 if clear else (model.awaited | added) & model.held()
        seen["joined"] += add and for_matrix and model.joins(token)
        seen["full"] += len(model.matrix) == GROUPS or len(model.thread) == model.depth
        seen["refused"] += not free
        seen["both"] += all(ends.values())
        await RisingEdge(dut.clk)
        bench.progress()
        if add:
            model.add(token, for_matrix, flag)
        for matrix, over in ends.items():
            if over:
                model.done(matrix)
        if clear:
            model.thread.clear()
            model.matrix.clear()
    bench.finish()
    assert seen["refused"] > 50
    assert seen["ahead"] > 20 or not model.ahead or finish < 0.5, seen
    assert seen["joined"] > 20 or same == 0, seen
    assert seen["full"] > 20 or finish > 0.1, seen
    assert seen["both"] > 20 or finish < 0.1, seen
