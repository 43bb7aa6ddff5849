"""The listing of the page that walks through a kernel is what the kernel's generator writes."""

import re
from pathlib import Path

from heddle import load_config
from heddle_sim.kernels.planner import plan
from heddle_sim.kernels.problem import Layout, MatmulProblem, Schedule

PAGE = Path(__file__).parents[2] / "docs/kernel-walkthrough.md"


def planned(config, m, n, k):
    problem = MatmulProblem(m, n, k, layout=Layout(resident=True), schedule=Schedule(1, 1, "k-outer"))
    return plan(load_config(config), problem)


def test_the_listing_is_the_program():
    text = PAGE.read_text()
    config, m, n, k, listing = re.search(r"<!-- listing: (\w+) (\d+) (\d+) (\d+);.*?-->\n```\n(.*?)```", text, re.DOTALL).groups()
    kernel = planned(config, int(m), int(n), int(k))
    numbered = [line.split(maxsplit=1) for line in listing.splitlines()]
    assert [line for _, line in numbered] == [line.strip() for line in kernel.product()]
    cycles = [int(cycle) for cycle, _ in numbered]
    assert cycles == sorted(cycles)


def test_the_places_are_those_of_the_plan():
    text = PAGE.read_text()
    kernel = planned("resident64", 32, 24, 48)
    assert f"`r{kernel.offset_a}` | {kernel.ab_pitch} · t" in text and f"`r{kernel.offset_c}` | {kernel.c_pitch} · t" in text
    assert f"`r{kernel.offset_b}` | {kernel.ab_pitch} · t" in text
    assert f"B at {kernel.b_address}, C at {kernel.c_address}" in text
