"""Which parallelism a layer wants by the cycle model of the engine, at the bandwidth of its input [S3.3, S3.8].

``plan`` has the formula; here a step also waits for its row of input and for the lanes of the tail.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from heddle import Config
from heddle.constants import BANK_BYTES
from heddle.errors import UsageError

from .image import check_fit
from .model import EngineModel
from .plan import powers_of_two
from .shapes import ModelConfig, shaped_step
from .timing import task_cycles

if TYPE_CHECKING:
    from .step import Step

__all__ = ["accepted_designs", "best_pairs", "pace", "pair_cycles", "tail_widths"]

_PACE_STEPS = 8, 16
_LARGEST_EP = 4096
_GATES = {"lstm": 4, "gru": 3, "gru_linear": 3, "rnn": 1}


def pace(model: EngineModel) -> float:
    """Cycles of a step among others, of one task alone."""
    few, many = (task_cycles(model.cfg, [(model, steps)], 1) for steps in _PACE_STEPS)
    return (many - few) / (_PACE_STEPS[1] - _PACE_STEPS[0])


def tail_widths(step: Step, hidden: int, cycles: int) -> list[int]:
    """Lanes of the tail to choose from: as many as take the operations of a step in ``cycles``, two and four times as many."""
    operations = sum(len(job.operations) for job in step.jobs)
    rate = _power(-(-operations * hidden // cycles))
    return sorted({min(rate * factor, _power(hidden)) for factor in (1, 2, 4)})


def pair_cycles(cell: str, hidden: int, ep: int, vp: int, load_bytes: int = BANK_BYTES) -> float | None:
    """Cycles of a step with EP elements and VP rows a cycle, as many inputs as hidden elements, and the best tail; None where no engine
    has that shape. ``load_bytes``: bytes of input that come in a cycle, 16 in the hardware."""
    step, found = shaped_step(cell, hidden, hidden), []
    cycles = 2 * -(-_GATES[cell] * hidden // vp) * -(-hidden // ep)
    for tail in tail_widths(step, hidden, cycles):
        cfg = ModelConfig(name="model", threads=vp, dot=ep, thread_slots=min(tail, vp), rnn=True, load_bytes=load_bytes)
        try:
            found.append(pace(EngineModel(cfg, step)))
        except ValueError:      # more blocks of rows than a sweep has
            continue
    return min(found, default=None)


def best_pairs(cell: str, hidden: int, multipliers: int, load_bytes: int = BANK_BYTES) -> tuple[float, list[tuple[int, int]]]:
    """(Cycles of a step, [(EP, VP)]) of the pairs with the fewest cycles, the smallest EP first: powers of two with VP <= G·h and
    VP·EP = ``multipliers``.

    Raises ``UsageError`` where no pair exists: the layer has too few rows, or more blocks of rows than a sweep.
    """
    least_hidden = -(-multipliers // (_LARGEST_EP * _GATES[cell]))
    if hidden < least_hidden:
        raise UsageError(f"hidden must be at least {least_hidden} with {multipliers} multipliers, as EP is at most {_LARGEST_EP}, "
                         f"not {hidden}")
    found = {}
    for vp in powers_of_two(min(_GATES[cell] * hidden, multipliers)):
        if multipliers // vp <= _LARGEST_EP:
            found[multipliers // vp, vp] = pair_cycles(cell, hidden, multipliers // vp, vp, load_bytes)
    least = min((cycles for cycles in found.values() if cycles is not None), default=None)
    if least is None:
        raise UsageError(f"hidden must have no more blocks of rows than a sweep with {multipliers} multipliers, not {hidden}")
    return least, sorted(pair for pair, cycles in found.items() if cycles == least)


def accepted_designs(cell: str, hidden: int) -> Iterator[EngineModel]:
    """``EngineModel``s of all configurations that ``Config`` accepts and whose registers hold the weights of a layer: a core's lanes,
    multipliers of a lane and lanes of the tail, each with every CAT; the factor registers are the deepest that have numbers."""
    step = shaped_step(cell, hidden, hidden)
    weights = sum(rows.gates * rows.elements * step.vectors[sweep.vector].size for sweep in step.sweeps
                  for rows in (step.rows[name] for name in sweep.rows))
    for dot in (4, 8, 16):
        for threads in (8, 16, 32, 64):
            words = 8192 // dot
            if weights > threads * dot * words:
                continue
            for slots in (1, 2, 4, 8, 16):
                if slots <= threads:
                    cfg = Config(name="accepted", threads=threads, dot=dot, factor_words=words, thread_slots=slots, rnn=True,
                                 rnn_contexts=1, rnn_tap_registers=256, shared_memory_kib=1024)
                    yield from _holding(cfg, step)


def _holding(cfg: Config, step: Step) -> Iterator[EngineModel]:
    for cat in (1, 2, 4):
        try:
            model = EngineModel(cfg, step, cat)
            check_fit(cfg, [model])
        except ValueError:
            continue
        yield model


def _power(value: int) -> int:
    """The next power of two."""
    return 1 << (value - 1).bit_length()
