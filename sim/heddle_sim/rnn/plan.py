"""How the multipliers are shared between elements and rows, and how many threads fill the stalls [S3.3, S3.6].

A step of a layer with G gates multiplies G·h rows with Lx + h elements. With EP elements and VP rows a cycle it takes Cx = m·⌈Lx/EP⌉ cycles
for the input and Ch = m·⌈h/EP⌉ for the hidden vector; m = ⌈G·h/VP⌉; L is the time from the last product to the first element of the next
hidden vector. ``timing.py`` has a model of the engine itself, cycle by cycle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING

from heddle.config import Config
from heddle.errors import UsageError, UsageTypeError

from ..arguments import check_choice, check_integer, check_mask
from .model import EngineModel
from .timing import task_cycles

if TYPE_CHECKING:
    from .step import Step

__all__ = ["LATENCY", "Plan", "best_plans", "choose_cats", "evaluate", "plan", "powers_of_two", "step_cycles", "sweep_cycles"]

LATENCY = 22                # without the levels of the adder tree: of the engine, LSTM and GRU, from sweep to sweep (``timing``)
ORDERS = ("columns", "rows")
_CATS = (1, 2, 4)
_MOST = (1 << 32) - 1


def sweep_cycles(gates: int, hidden: int, inputs: int, ep: int, vp: int) -> tuple[int, int]:
    """(Cx, Ch): cycles of the two products of a step."""
    blocks = -(-gates * hidden // vp)
    return blocks * -(-inputs // ep), blocks * -(-hidden // ep)


def step_cycles(cx: int, ch: int, latency: int, threads: int = 1, order: str = "columns", products: int = 1) -> float:
    """Cycles of a step of one thread out of ``threads`` that take turns.

    ``order`` "columns": the next step begins with the first elements of the hidden vector, and products of the input are made meanwhile;
    "rows": each element of a product is finished before the next, so that a step waits for the whole hidden vector.
    ``products``: how many of a step follow each other, each waiting for elements of the one before: 2 for a GRU with
    ``linear_before_reset`` 0, else 1.
    """
    latency = products * latency
    if check_choice("order", order, ORDERS) == "rows":
        return max(cx + ch, (cx + ch + latency) / threads)
    return max(cx + ch, (ch + latency) / threads)


@dataclass(frozen=True)
class Plan:
    """A choice of parallelism.

    Attributes
    ----------
    ep, vp : int
        Elements and rows a cycle.
    threads : int
    cycles : float
        Of a step of one thread; of ``threads`` threads, each has one in so many.
    tile_cycles : int
        Cx + Ch.
    tile_efficiency : float
        G·h·(Lx + h) / (N_PE·(Cx + Ch)): what is left when nothing stalls.
    utilization : float
        G·h·(Lx + h) / (N_PE·cycles).
    """

    ep: int
    vp: int
    threads: int
    cycles: float
    tile_cycles: int
    tile_efficiency: float
    utilization: float


def _candidates(rows: int, multipliers: int) -> Iterator[tuple[int, int]]:
    """All (EP, VP) that are powers of two with VP <= G·h and VP·EP <= N_PE, EP as large as VP allows."""
    for vp in powers_of_two(min(rows, multipliers)):
        yield multipliers // vp, vp


def powers_of_two(largest: int) -> list[int]:
    """1, 2, 4 … up to ``largest``."""
    return [1 << exponent for exponent in range(largest.bit_length())]


def evaluate(gates: int, hidden: int, inputs: int, multipliers: int, ep: int, vp: int, threads: int = 1, latency: int = LATENCY,
             order: str = "columns", products: int = 1) -> Plan:
    """``Plan`` of a given (EP, VP)."""
    if ep * vp > multipliers:
        raise UsageError(f"ep * vp must be at most {multipliers} multipliers, not {ep * vp}")
    cx, ch = sweep_cycles(gates, hidden, inputs, ep, vp)
    cycles = step_cycles(cx, ch, latency + (ep - 1).bit_length(), threads, order, products)
    macs = gates * hidden * (inputs + hidden)
    return Plan(ep, vp, threads, cycles, cx + ch, macs / (multipliers * (cx + ch)), macs / (multipliers * cycles))


def _count(name: str, value: object, least: int) -> int:
    """``value`` as ``int``; ``ValueError`` unless it is an integer from ``least`` (0 or 1)."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise UsageError(f"{name} must be {'a positive integer' if least else 'an integer from 0'}, not {value!r}")
    return check_integer(name, value, least, _MOST)


def best_plans(gates: int, hidden: int, inputs: int, multipliers: int, threads: int = 1, latency: int = LATENCY, order: str = "columns",
               products: int = 1) -> list[Plan]:
    """All ``Plan``s with the fewest cycles for a number of threads, the smallest EP first; see ``plan``."""
    gates, hidden, multipliers, threads = (_count(name, value, 1) for name, value in (
        ("gates", gates), ("hidden", hidden), ("multipliers", multipliers), ("threads", threads)))
    inputs, latency, products = (_count(name, value, 0) for name, value in (
        ("inputs", inputs), ("latency", latency), ("products", products)))
    check_choice("order", order, ORDERS)
    if multipliers & (multipliers - 1):
        raise UsageError(f"multipliers must be a power of two, not {multipliers}")
    plans = [evaluate(gates, hidden, inputs, multipliers, ep, vp, threads, latency, order, products)
             for ep, vp in _candidates(gates * hidden, multipliers)]
    least = min(found.cycles for found in plans)
    return sorted((found for found in plans if found.cycles == least), key=lambda found: found.ep)


def plan(gates: int, hidden: int, inputs: int, multipliers: int, threads: Sequence[int] = (1,), latency: int = LATENCY,
         order: str = "columns", products: int = 1) -> Plan:
    """The best ``Plan`` for a layer: the fewest cycles, then the fewest threads, then the smallest EP [S3.3].

    Parameters
    ----------
    gates, hidden, inputs : int
        Of the layer: 4 gates for an LSTM, 3 for a GRU.
    multipliers : int
        N_PE, a power of two.
    threads : sequence of int
        Numbers of threads to choose from.
    latency : int
        L without the levels of an adder tree over EP products.
    order, products
        See ``step_cycles``.
    """
    check_mask("threads", threads)
    try:
        counts = tuple(threads)
    except TypeError:
        counts = ()
    if not counts:
        raise UsageTypeError(f"threads must be a sequence of at least one integer, not {threads!r}")
    plans = [best_plans(gates, hidden, inputs, multipliers, count, latency, order, products)[0] for count in counts]
    return min(plans, key=lambda found: (found.cycles, found.threads))


def choose_cats(cfg: Config, step: Step, steps: int = 4) -> dict[str, int]:
    """Dot products of a lane for each layer of a step: layer by layer, those with which a few steps of one task take the fewest cycles.

    Those that do not fit the registers of the taps, or the factor registers, are left out.
    """
    layers = list(dict.fromkeys(rows.layer for rows in step.rows.values()))
    cats = dict.fromkeys(layers, 1)
    best = _cost(cfg, step, cats, steps)
    for layer in layers:
        for cat in _CATS[1:]:
            if cat > cfg.dot:
                continue
            cost = _cost(cfg, step, cats | {layer: cat}, steps)
            if cost < best:
                best, cats = cost, cats | {layer: cat}
    return cats


def _cost(cfg: Config, step: Step, cats: dict[str, int], steps: int) -> tuple[bool, int]:
    from .image import check_fit
    try:
        model = EngineModel(cfg, step, cats)
        check_fit(cfg, [model])
    except ValueError:
        return True, 0
    return False, task_cycles(cfg, [(model, steps)], 1)
