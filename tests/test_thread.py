"""The thread unit: ALU and unit benches, and the golden model against plain Python."""

import pytest
from heddle import Config, load_config
from heddle.thread.alu import Alu
from heddle.thread.unit import ThreadUnit
from heddle_sim.harness import SIMULATORS, run_bench

MIDDLE = Config(name="middle", threads=16, dot=8, thread_slots=8, axi_data_bits=128, shared_memory_kib=8, factor_words=64,
                instruction_words=64, axi_reads=8, axi_writes=4)
WIDE = Config(name="wide", threads=32, dot=16, thread_slots=8, axi_data_bits=512, shared_memory_kib=16, factor_words=64,
              instruction_words=64, axi_address_bits=20, axi_reads=8, axi_writes=4)
NARROW = Config(name="narrow", threads=8, dot=4, thread_slots=2, axi_data_bits=64, shared_memory_kib=4, factor_words=64,
                instruction_words=64, axi_reads=8, axi_writes=4, thread_queue=2)
UNITS = [(load_config("tiny"), "icarus"), (NARROW, "icarus"), (MIDDLE, "verilator"), (WIDE, "verilator")]


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_alu(simulator):
    result = run_bench(Alu(), bench="heddle_verif.bench.alu", simulator=simulator)
    assert result["tests"] == 23


@pytest.mark.parametrize("cfg, simulator", UNITS, ids=[f"{cfg.name}-{simulator}" for cfg, simulator in UNITS])
def test_unit(cfg, simulator):
    result = run_bench(ThreadUnit(cfg), bench="heddle_verif.bench.thread", cfg=cfg, simulator=simulator)
    assert result["tests"] == 11
