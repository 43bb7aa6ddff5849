"""DeepBench's recurrent layers beside published figures: by the cycle model of the engine, on the hardware where a configuration holds
the weights, and projected to multipliers that no configuration has [S3.8]."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from heddle.config import Config
from heddle.constants import BANK_BYTES

from ..rnn.model import EngineModel
from ..rnn.model_plan import accepted_designs, pace, tail_widths
from ..rnn.plan import LATENCY, evaluate, sweep_cycles
from ..rnn.shapes import ModelConfig, shaped_step
from ..rnn.timing import task_cycles
from .bench_rnn import CELLS, layer_row
from .common import print_rows
from .peers import BEST_UTILIZATION, DEEPBENCH_PEERS

if TYPE_CHECKING:
    from ..device.device import Device
    from ..rnn.step import Step

__all__ = ["COUNTS", "accepted_row", "best_design", "deepbench_rows", "holds_layers", "keeps_busy", "print_deepbench"]

COUNTS = tuple(1 << exponent for exponent in range(6, 17))      # multipliers of the projections
_FORMS = {"lstm": ("lstm",), "gru": ("gru", "gru_linear")}
_LARGEST_EP = 4096
_TRIED = 20                 # designs with the fewest cycles by formula that the cycle model decides between
_PARAMETERS = ("threads", "dot", "thread_slots", "factor_words")        # of an accepted configuration, with its defaults for the others


def deepbench_rows(device: Device | None = None, golden: Device | None = None, seed: int = 0) -> list[dict[str, Any]]:
    """Rows of all layers (both forms of a GRU), each beside a published figure.

    First the layers whose weights fit a core of a configuration that ``Config`` accepts, on the one with the fewest cycles, by the cycle
    model: ``above`` says whether the utilization of all steps is above the best that is published for any batch. All others are
    ``projected``: no configuration has their lanes, and ``above`` is None. They are with as many multipliers as each peer has, then with
    the largest power of two of multipliers that one sequence keeps busy. ``device``: a device on which layers that its configuration
    holds are run, results compared with those of ``golden``.
    """
    layers = [(peer, cell) for peer in DEEPBENCH_PEERS for cell in _FORMS[peer["cell"]]]
    rows = [row for layer in layers if (row := accepted_row(*layer))]
    rows += [_row(peer, cell, best_design(cell, peer["hidden"], peer["multipliers"]), peer) for peer, cell in layers]
    rows += [_row(peer, cell, _largest(cell, peer["hidden"]), BEST_UTILIZATION) for peer, cell in layers]
    for layer in layers if device else ():
        rows += _measured(device, golden, *layer, seed)
    return rows


def holds_layers(cfg: Config) -> bool:
    """Whether the factor registers are large enough for one of the layers."""
    return any(_held(cfg, peer, cell) for peer in DEEPBENCH_PEERS for cell in _FORMS[peer["cell"]])


def _held(cfg: Config, peer: dict[str, Any], cell: str) -> bool:
    return peer["steps"] > 1 and CELLS[cell][1] * 2 * peer["hidden"] ** 2 <= cfg.threads * cfg.dot * cfg.factor_words


def _measured(device: Device, golden: Device | None, peer: dict[str, Any], cell: str, seed: int) -> list[dict[str, Any]]:
    """A row of the hardware with all steps of the layer, or none."""
    hidden = peer["hidden"]
    if not _held(device.cfg, peer, cell):
        return []
    row = layer_row(device, golden, cell, hidden, hidden, 1, seed, steps=peer["steps"])
    if row["simulator"] == "cycle model":
        return []
    names = {"suite": "deepbench", "layer": f"{cell}_{hidden}x{row['steps']}"}
    compared = _compared(BEST_UTILIZATION, row["utilization"] if row["utilization"] is not None else 0.0)
    return [names | row | {"projected": False, "load_bytes": BANK_BYTES} | compared]


def _compared(peer: dict[str, Any], utilization: float | None) -> dict[str, Any]:
    """``utilization`` None: nothing is compared."""
    return {"peer": peer["peer"], "peer_utilization": peer["utilization"], "peer_source": peer["source"],
            "above": None if utilization is None else utilization > peer["utilization"]}


def accepted_row(layer: dict[str, Any], cell: str) -> dict[str, Any] | None:
    """The row of the accepted configuration with the fewest cycles for all steps; None where the weights fit none."""
    hidden, steps = layer["hidden"], layer["steps"]
    best = min(accepted_designs(cell, hidden), key=lambda model: task_cycles(model.cfg, [(model, steps)], 1), default=None)
    if best is None:
        return None
    cfg, cat = best.cfg, best.cats["y"]
    return _row(layer, cell, _design(best, cell, hidden, cfg.dot // cat, cfg.threads * cat, cfg.threads * cfg.dot), BEST_UTILIZATION, cfg)


def keeps_busy(design: dict[str, Any]) -> bool:
    """A step waits for nothing: the products of the hidden vector take as long as the first of them is on its way (Ch >= L). All products
    take as long as a row of input takes to come."""
    return design["hidden_cycles"] >= design["latency"] and design["pace"] == design["tile_cycles"]


def _largest(cell: str, hidden: int) -> dict[str, Any]:
    """The best design with the largest of ``COUNTS`` that a sequence alone keeps busy."""
    for count in reversed(COUNTS):
        design = best_design(cell, hidden, count)
        if keeps_busy(design):
            break
    return design


def _row(layer: dict[str, Any], cell: str, design: dict[str, Any], peer: dict[str, Any], accepted: Config | None = None) -> dict[str, Any]:
    """A row of the cycle model, with all steps of the layer; ``accepted``: on this configuration, else projected."""
    hidden, steps, model = layer["hidden"], layer["steps"], design["model"]
    macs = CELLS[cell][1] * 2 * hidden * hidden
    cycles = task_cycles(model.cfg, [(model, steps)], 1)
    peak = design["multipliers"]
    row = {"suite": "deepbench", "layer": f"{cell}_{hidden}x{steps}", "cell": cell, "hidden": hidden, "inputs": hidden, "threads": 1,
           "steps": steps, "ep": design["ep"], "vp": design["vp"], "tail_lanes": model.cfg.tail_lanes, "simulator": "cycle model",
           "load_bytes": getattr(model.cfg, "load_bytes", BANK_BYTES), "cycles": cycles, "cycles_per_step": design["pace"],
           "latency": design["latency"],
           "hidden_cycles": design["hidden_cycles"], "macs": macs * steps, "peak_macs_per_cycle": peak,
           "utilization": macs * steps / (peak * cycles), "step_utilization": macs / (peak * design["pace"]),
           "tile_efficiency": design["tile_efficiency"], "projected": accepted is None,
           "parameters": {name: getattr(accepted, name) for name in _PARAMETERS} if accepted else None, "checked": False}
    return row | _compared(peer, row["utilization"] if accepted else None)


def best_design(cell: str, hidden: int, multipliers: int) -> dict[str, Any]:
    """The design with the fewest cycles a step of all that the cycle model takes, whether ``Config`` does or not: a dictionary."""
    step, tried = shaped_step(cell, hidden, hidden), []
    for ep, vp, tail in _designs(cell, hidden, multipliers, step):
        cfg = ModelConfig(name="model", threads=vp, dot=ep, thread_slots=tail, rnn=True)
        tried.append((evaluate(CELLS[cell][1], hidden, hidden, multipliers, ep, vp), cfg))
    best = None
    for formula, cfg in sorted(tried, key=lambda pair: (pair[0].cycles, pair[1].tail_lanes))[:_TRIED]:
        try:
            model = EngineModel(cfg, step)
        except ValueError:      # more blocks of rows than a sweep has
            continue
        design = _design(model, cell, hidden, cfg.dot, cfg.threads, multipliers)
        if best is None or design["pace"] < best["pace"]:
            best = design
        if best["pace"] <= formula.cycles:      # the others take no fewer
            break
    return best


def _design(model: EngineModel, cell: str, hidden: int, ep: int, vp: int, multipliers: int) -> dict[str, Any]:
    """What a row says of a model with so many elements and rows a cycle."""
    cx, ch = sweep_cycles(CELLS[cell][1], hidden, hidden, ep, vp)
    return {"pace": pace(model), "model": model, "multipliers": multipliers, "ep": ep, "vp": vp,
            "latency": (1 + (cell == "gru")) * (LATENCY + (ep - 1).bit_length()), "hidden_cycles": ch, "tile_cycles": cx + ch,
            "tile_efficiency": evaluate(CELLS[cell][1], hidden, hidden, multipliers, ep, vp).tile_efficiency}


def _designs(cell: str, hidden: int, multipliers: int, step: Step) -> Iterator[tuple[int, int, int]]:
    """(EP, VP, lanes of the tail): the tail takes the operations of a step in Cx + Ch cycles, or is two or four times as wide."""
    rows, ep = CELLS[cell][1] * hidden, 1
    while ep <= min(_LARGEST_EP, multipliers // 8):
        lanes = multipliers // ep
        for tail in tail_widths(step, hidden, 2 * -(-rows // lanes) * -(-hidden // ep)):
            groups = CELLS[cell][1] * -(-hidden // tail)
            if lanes >= tail:
                blocks = -(-groups // (lanes // tail))
                yield ep, -(-groups // blocks) * tail, tail
        ep *= 2


def print_deepbench(options: argparse.Namespace, config: str, rows: list[dict[str, Any]]) -> None:
    columns = ["layer", "simulator", "peak_macs_per_cycle", "ep", "vp", "tail_lanes", "cycles_per_step", "cycles", "utilization",
               "step_utilization", "projected", "peer", "peer_utilization", "above", "checked"]
    print_rows(options, "rnn", config, rows, dict.fromkeys(columns) | {"peak_macs_per_cycle": "multipliers"})
