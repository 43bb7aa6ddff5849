"""Units with unknown initial values, and as gates, on Icarus: the same benches as for the emitted text."""

import pytest
from heddle import load_config
from heddle.front_end.scoreboard import Scoreboard
from heddle.lib.adder_tree import AdderTree
from heddle.lib.alu import Alu
from heddle.memory.axi_master import AxiMaster
from heddle.memory.barriers import Barriers
from heddle.memory.global_arbiter import GlobalArbiter
from heddle.thread.unit import ThreadUnit
from heddle.tmau.unit import Tmau
from heddle.top import Top
from heddle_sim.toolchain.cocotb_runner import run_bench
from heddle_verif.bench import round_robin
from heddle_verif.bench.stream import make_unit

TINY = load_config("tiny")
TREE = {"parameters": {"width": 8, "depth": 3}}
PACKETS = {"parameters": {"count": 3, "last": "last"}}
# Unit, bench, options. The bench of the matrix unit starts from what it reads out of the registers, so it needs known ones.
CASES = {
    "slice": (lambda: make_unit(None), "stream", {"parameters": {"depth": None}}),
    "queue": (lambda: make_unit(9), "stream", {"parameters": {"depth": 9}}),
    "round_robin": (lambda: round_robin.make_unit(**PACKETS["parameters"]), "round_robin", PACKETS),
    "adder_tree": (lambda: AdderTree(8, 3), "adder_tree", TREE),
    "scoreboard": (lambda: Scoreboard(TINY), "scoreboard", {"cfg": TINY, "test_filter": "every_group|full_groups"}),
    "arbiter": (lambda: GlobalArbiter(TINY), "arbiter", {"cfg": TINY}),
    "axi_master": (lambda: AxiMaster(TINY), "axi_master", {"cfg": TINY, "test_filter": "random_traffic|errors"}),
    "barriers": (lambda: Barriers(TINY), "barriers", {"cfg": TINY}),
    "alu": (lambda: Alu(), "alu", {}),
    "tmau": (lambda: Tmau(TINY.replace(axi_address_bits=17)), "tmau",
             {"cfg": TINY.replace(axi_address_bits=17), "test_filter": "rejected|stopping"}),
    "thread_unit": (lambda: ThreadUnit(TINY), "thread", {"cfg": TINY, "test_filter": "dependent_operations|start_and_stop"}),
    "device": (lambda: Top(TINY), "top", {"cfg": TINY, "test_filter": "short_program"}),
}
QUICK = {"xprop": {"scoreboard"}, "gates": {"queue"}}
GATES = ("slice", "queue", "round_robin", "adder_tree", "scoreboard", "arbiter", "axi_master", "alu")


def case(variant, name):
    return pytest.param(variant, name, id=f"{variant}-{name}", marks=[] if name in QUICK[variant] else [pytest.mark.nightly])


@pytest.mark.parametrize("variant, name", [*(case("xprop", name) for name in CASES), *(case("gates", name) for name in GATES)])
def test_variant(variant, name, seed):
    make, bench, options = CASES[name]
    summary = run_bench(make(), bench=f"heddle_verif.bench.{bench}", variant=variant, name=f"{variant}_{name}", seed=seed,
                        timeout_s=400, **options)
    assert summary["tests"] > 0
