"""The lanes under the engine for recurrent networks, in simulation, and their golden model against plain products."""

import re

import numpy as np
import pytest
from heddle import load_config
from heddle.constants import PRODUCT_REGISTERS
from heddle.datapath.pe import PE
from heddle.emit import emit_rtlil
from heddle.matrix.unit import MatrixUnit
from heddle.rnn.layouts import Start
from heddle.yosys import run_yosys
from heddle_sim.golden.engine_lanes import Sums, row_place, sweep_steps
from heddle_sim.toolchain.cocotb_runner import run_bench

TINY = load_config("tiny").replace(rnn=True, transpose=False, fetch_words=1)
CONFIGS = {
    "tiny": TINY,
    "dot8": TINY.replace(dot=8, sparse=False, thread_slots=2, gather_offsets=False, fetch_words=1, factor_words=32, mm16=False,
                         transpose=False, far_registers=True, rnn_tap_registers=64),
    "differences": TINY.replace(rnn_differences=True, mm16=False),
    "dot16": TINY.replace(dot=16, thread_slots=8, fetch_words=2, factor_words=32, wide_lanes=True),
}


@pytest.mark.parametrize("config", ["tiny", *(pytest.param(name, marks=pytest.mark.variant) for name in CONFIGS if name != "tiny")])
def test_engine_lanes(config, simulator, seed):
    cfg = CONFIGS[config]
    summary = run_bench(MatrixUnit(cfg), bench="heddle_verif.bench.engine_lanes", cfg=cfg, simulator=simulator, seed=seed)
    assert summary["tests"] == 2


def cells(component, kind):
    """Number of cells of a kind, the hierarchy dissolved."""
    commands = ["hierarchy -top lane", "proc", "flatten", "opt", "write_rtlil flat.il"]
    return len(re.findall(rf"^ *cell \{kind} ", run_yosys(emit_rtlil(component, "lane"), commands, outputs=["flat.il"])["flat.il"], re.M))


@pytest.mark.parametrize("config", list(CONFIGS))
def test_taps_cost_no_adder(config):
    """A lane has the adders of a tree and one of its accumulator, with and without taps, and its multipliers [S3.4]."""
    cfg = CONFIGS[config]
    for engines in ({"rnn": False, "sparse": False}, {"sparse": False}, {"sparse": cfg.thread_slots == 8}):
        lane = PE(cfg.replace(**engines))
        assert cells(lane, "$add") == cfg.dot - 1 + 1
        assert cells(lane, "$mul") == cfg.dot


@pytest.mark.parametrize("start", list(Start))
@pytest.mark.parametrize("cat", [0, 1, 2])
def test_golden_is_a_product(cat, start):
    """Rows that lie as docs/units/rnn.md says give matrix times vector, plus the register that the sweep starts from [S3.1]."""
    rng = np.random.default_rng(cat)
    threads, tail_lanes, dot, rows, product, bias, weight = 8, 2, 8, 50, 3, 100, 5
    width = dot >> cat
    blocks = -(-rows // (threads << cat))
    columns = 3
    matrix = rng.integers(-128, 128, (rows, columns * width), np.int8)
    vector = rng.integers(-32768, 32768, columns * width)
    factors = np.zeros((threads, weight + columns * blocks, dot), np.uint8)
    places = [row_place(row, threads=threads, tail_lanes=tail_lanes, cat=cat) for row in range(rows)]
    assert len(set(places)) == rows
    for row, (lane, tap, register) in enumerate(places):
        for column in range(columns):
            factors[lane, weight + column * blocks + register, tap::1 << cat] = matrix[row, column * width:][:width].view(np.uint8)
    sums = Sums(rng.integers(-(1 << 31), 1 << 31, (threads, PRODUCT_REGISTERS), np.int32), factors)
    sums.taps[:] = rng.integers(-(1 << 31), 1 << 31, sums.taps.shape, np.int32)
    source = bias if start == Start.BIAS else product
    before = [0 if start == Start.ZERO else sums.registers(tap)[lane, (source + register) % sums.registers(tap).shape[1]]
              for lane, tap, register in places]
    for step, elements in sweep_steps(vector, dot=dot, cat=cat, blocks=blocks, weight=weight, product=product, bias=bias, start=start):
        sums.step(step, elements)
    got = [sums.registers(tap)[lane, product + register] for lane, tap, register in places]
    expected = np.array(before, np.int64) + matrix.astype(np.int64) @ vector
    assert (np.array(got, np.int64) == (expected + (1 << 31)) % (1 << 32) - (1 << 31)).all()
