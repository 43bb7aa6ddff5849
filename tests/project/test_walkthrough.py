"""The listing of the page that walks through a kernel is what the kernel's generator writes."""

import re
from pathlib import Path

from heddle import load_config
from heddle_sim.kernels.resident import ResidentPlan

PAGE = Path(__file__).parents[2] / "docs/kernel-walkthrough.md"


def test_the_listing_is_the_program():
    text = PAGE.read_text()
    config, m, n, k, listing = re.search(r"<!-- listing: (\w+) (\d+) (\d+) (\d+);.*?-->\n```\n(.*?)```", text, re.DOTALL).groups()
    plan = ResidentPlan(load_config(config), int(m), int(n), int(k), True, True)
    numbered = [line.split(maxsplit=1) for line in listing.splitlines()]
    assert [line for _, line in numbered] == [line.strip() for line in plan.product().splitlines()]
    cycles = [int(cycle) for cycle, _ in numbered]
    assert cycles == sorted(cycles)


def test_the_places_are_those_of_the_plan():
    text = PAGE.read_text()
    plan = ResidentPlan(load_config("resident64"), 32, 24, 48, True, True)
    assert f"`r{plan.offset_a}` | {plan.ab_pitch} · t" in text and f"`r{plan.offset_c}` | {plan.c_pitch} · t" in text
    assert f"`r{plan.offset_b}` | {plan.ab_pitch} · t" in text
    assert f"B at {plan.b_address}, C at {plan.c_address}" in text
