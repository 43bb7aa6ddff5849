"""Recurrent layers on a device: cycles of a step beside what the multipliers allow, and how many skipping saves."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np
from heddle.config import Config
from heddle.errors import UsageError

from ..device.recurrent import plain_is_better, run_sequences
from ..rnn.image import check_fit
from ..rnn.model import EngineModel
from ..rnn.network import Network, Sequence, SequenceResult
from ..rnn.plan import LATENCY, step_cycles, sweep_cycles
from ..rnn.reference import GATES, FloatLayer
from ..rnn.shapes import shaped_step
from ..rnn.timing import task_cycles
from .common import CommandFailed, print_rows

if TYPE_CHECKING:
    from ..device.device import Device
    from ..rnn.quantise import QuantisedLayer

__all__ = ["CELLS", "compare_results", "drawn_network", "layer_row", "measured", "model_row", "print_rnn", "rnn_row"]

# Cells: kind of layer, gates that are multiplied, activations, linear_before_reset.
CELLS = {
    "lstm": ("lstm", 4, ("Sigmoid", "Tanh", "Tanh"), False),
    "gru": ("gru", 3, ("Sigmoid", "Tanh"), False),
    "gru_linear": ("gru", 3, ("Sigmoid", "Tanh"), True),
    "rnn": ("rnn", 1, ("Tanh",), False),
}
MOST_STEPS = 48             # of the longer run
SHARE = 0.8                 # of shared memory for rows of input and output


def layer_row(device: Device, golden: Device | None, cell: str, hidden: int, inputs: int, threads: int, seed: int, *,
              cat: int | None = None, steps: int | None = None) -> dict[str, Any]:
    """``rnn_row``, or ``model_row`` of a layer that does not fit the configuration."""
    network = drawn_network(device.cfg, np.random.default_rng(seed), cell, hidden, inputs, cat, threads)
    if network is None:
        if steps is not None:
            raise UsageError(f"--steps must not be given for a layer that does not fit configuration {device.cfg.name}, as one of {hidden} "
                             f"units and {inputs} inputs for --threads {threads}")
        return model_row(device.cfg, cell, hidden, inputs, threads, cat)
    return rnn_row(device, golden, cell, network, threads, seed, steps=steps)


def rnn_row(device: Device, golden: Device | None, cell: str, network: Network, threads: int, seed: int, *,
            steps: int | None = None) -> dict[str, Any]:
    """A benchmark row: a layer for ``threads`` sequences that take turns, once for half the steps and once for all.

    ``cycles`` and ``utilization`` are those of the longer run, from weights and inputs in global memory to outputs there; of them
    ``loading_cycles`` are what a run takes longer that loads weights and biases, without which it has ``utilization_loaded``.
    ``cycles_per_step`` is steady: the difference of the engine's own counters between both runs, for a step of one sequence.
    ``tile_efficiency`` is what the shape leaves of the multipliers when nothing stalls, ``of_tile_efficiency`` how much of that was
    reached; ``row_wise_cycles_per_step`` what a step would take if the whole hidden vector were waited for. ``steps``: of the longer
    run; by default as fit shared memory, at most 48. One step has no steady pace. Raises ``CommandFailed`` when a result differs from
    that of ``golden``, a device of the functional simulator (None: nothing is compared).
    """
    layer = network.layers["y"]
    hidden, inputs = layer.size, layer.widths[0]
    rng = np.random.default_rng([seed, hidden])
    longer = _steps(device.cfg, hidden, inputs, threads, steps)
    rows = [rng.standard_normal((longer, inputs)) / 3 for _ in range(threads)]
    figures = measured(device, golden, network, rows, f"cell={cell} hidden={hidden} threads={threads} seed={seed}")
    stats = figures["stats"]
    row = _shape(device.cfg, cell, hidden, inputs, threads, figures["cat"]) | {"steps": longer, "seed": seed, "simulator": device.simulator}
    row |= stats.as_row() | {"peak_macs_per_cycle": row["peak_macs_per_cycle"], "biases": bool(_biases(layer)), "utilization": None,
                              "utilization_loaded": None}
    row |= {"loading_cycles": figures["loading"]}
    if stats.cycles is not None:
        row |= {"utilization": stats.macs / (stats.cycles * row["peak_macs_per_cycle"]),
                "utilization_loaded": stats.macs / ((stats.cycles - figures["loading"]) * row["peak_macs_per_cycle"])}
    if figures["pace"] is not None:
        row |= _pace(row, figures["pace"])
    return row | {"checked": golden is not None}


def model_row(cfg: Config, cell: str, hidden: int, inputs: int, threads: int, cat: int | None = None) -> dict[str, Any]:
    """A row of the cycle model: for a layer that does not fit the configuration, whose registers are deep enough in the model."""
    step, paces = shaped_step(cell, hidden, inputs), {}
    for count in [cat] if cat else [count for count in (1, 2, 4) if count <= cfg.dot]:
        try:
            model = EngineModel(cfg, step, count)
        except ValueError as error:
            refused = error
        else:
            few, many = (task_cycles(cfg, [(model, steps)] * threads, threads) for steps in (8, 16))
            paces[count] = (many - few) / 8 / threads
    if not paces:
        raise UsageError(str(refused))
    best = min(paces, key=paces.get)
    row = _shape(cfg, cell, hidden, inputs, threads, best)
    row |= {"steps": None, "simulator": "cycle model", "cycles": None, "loading_cycles": None, "utilization": None,
            "utilization_loaded": None}
    return row | _pace(row, paces[best]) | {"checked": False}


def measured(device: Device, golden: Device | None, network: Network, rows: list[np.ndarray], what: str) -> dict[str, Any]:
    """Sequences of ``rows``, one each, run for half of their steps and for all of them.

    Returns ``stats`` and ``results`` of the longer run, ``cat`` of the layer, and ``loading``: cycles that loading weights and biases takes
    of a run. The shorter run is done again with weights that are there. Of a step of one sequence: ``pace`` (cycles of the engine),
    ``lanes`` (cycles in which they worked), ``elements`` and those that were ``multiplied``. None where it is not known.
    """
    counts, found, loading = [], None, None
    longer = len(rows[0])
    shorter = max(1, longer // 2)
    for count in (shorter, longer):
        sequences = [Sequence(network, values[:count]) for values in rows]
        results, stats = device.run_tasks(sequences, len(rows))
        if count == shorter and stats.cycles is not None and loading is None:
            loading = stats.cycles - run_sequences(device, sequences, len(rows), loaded=True)[1].cycles
        expected = None
        if golden:
            wanted, expected = golden.run_tasks(sequences, len(rows))
            compare_results(results, wanted, what)
        elements = (expected or stats).counters
        engine = stats.counters.get("rnn_steps"), stats.counters.get("rnn_waits")
        counts.append({"pace": None if None in engine else sum(engine), "lanes": engine[0],
                       "elements": elements.get("rnn_elements"), "multiplied": elements.get("rnn_multiplied")})
        found = {"stats": stats, "results": results}
    for name in counts[0]:
        first, last = (count[name] for count in counts)
        known = None not in (first, last) and longer > shorter
        found[name] = (last - first) / (longer - shorter) / len(rows) if known else None
    plain = plain_is_better(device.cfg, sequences, len(rows))
    return found | {"cat": network.model(device.cfg, plain).cats["y"], "loading": loading}


def _steps(cfg: Config, hidden: int, inputs: int, threads: int, steps: int | None) -> int:
    """Steps of the longer run."""
    room = int(SHARE * cfg.shared_bytes) // (threads * 2 * (inputs + hidden + 16))
    longer = steps or min(MOST_STEPS, room) // 2 * 2
    if not longer:
        raise UsageError(f"--hidden and --threads must leave room for two steps in shared memory, not {hidden} with {threads} threads")
    return longer


def _shape(cfg: Config, cell: str, hidden: int, inputs: int, threads: int, cat: int) -> dict[str, Any]:
    """Fields that follow from the shape."""
    gates, ep, vp, peak = CELLS[cell][1], cfg.dot // cat, cfg.threads * cat, cfg.threads * cfg.dot
    cx, ch = sweep_cycles(gates, hidden, inputs, ep, vp)
    return {"cell": cell, "hidden": hidden, "inputs": inputs, "threads": threads, "ep": ep, "vp": vp, "peak_macs_per_cycle": peak,
            "macs_per_step": gates * hidden * (inputs + hidden), "tile_cycles": cx + ch,
            "tile_efficiency": gates * hidden * (inputs + hidden) / (peak * (cx + ch)),
            "row_wise_cycles_per_step": float(step_cycles(cx, ch, LATENCY + (ep - 1).bit_length(), threads, "rows")),
            "cycles_per_step": None, "step_utilization": None, "of_tile_efficiency": None}


def _pace(row: dict[str, Any], pace: float) -> dict[str, Any]:
    return {"cycles_per_step": pace, "step_utilization": row["macs_per_step"] / (row["peak_macs_per_cycle"] * pace),
            "of_tile_efficiency": row["tile_cycles"] / pace}


def _biases(layer: QuantisedLayer) -> bool:
    return any(np.any(gate.bias) for gate in layer.gates.values())


def drawn_network(cfg: Config, rng: np.random.Generator, cell: str, hidden: int, inputs: int, cat: int | None = None, threads: int = 1,
                  **options: Any) -> Network | None:
    """A layer as frameworks initialise it, for so many threads; without biases where only that fits, None where nothing does.
    ``options`` are those of ``Network``."""
    kind, gates, activations, linear = CELLS[cell]
    if gates * hidden * (inputs + hidden) > cfg.threads * cfg.dot * cfg.factor_words:
        return None
    count = len(GATES[kind])

    def uniform(*shape: int) -> np.ndarray:
        return rng.uniform(-1, 1, shape) / np.sqrt(hidden)

    weights, recurrent, biases = uniform(count, hidden, inputs), uniform(count, hidden, hidden), uniform(2, count, hidden)
    for factor in (1, 0):
        wb, rb = factor * biases
        layer = FloatLayer(kind, weights, recurrent, wb, rb, activations, linear_before_reset=linear)
        network = Network.of_layer(layer, cats=cat, **options)
        if any(_fits(cfg, network.model(cfg, plain), threads) for plain in (False, True)):
            return network
    return None


def _fits(cfg: Config, model: EngineModel, threads: int) -> bool:
    try:
        check_fit(cfg, [model] * threads, threads)
    except ValueError:
        return False
    return True


def compare_results(results: list[SequenceResult], expected: list[SequenceResult], what: str) -> None:
    """Raises ``CommandFailed`` where an output of a ``SequenceResult`` is not that of another; ``what`` says of which run."""
    for index, (result, wanted) in enumerate(zip(results, expected, strict=True)):
        for name, values in wanted.outputs.items():
            if not np.array_equal(values, result.outputs[name]):
                step, element = np.argwhere(values != result.outputs[name])[0]
                raise CommandFailed(f"element {element} of step {step} of sequence {index} must be {values[step, element]}, not "
                                    f"{result.outputs[name][step, element]} ({what}); please report it")


def print_rnn(options: argparse.Namespace, config: str, rows: list[dict[str, Any]]) -> None:
    columns = ["cell", "hidden", "inputs", "threads", "simulator", "ep", "vp", "steps", "cycles", "loading_cycles", "cycles_per_step",
               "row_wise_cycles_per_step", "tile_efficiency", "of_tile_efficiency", "utilization", "checked"]
    print_rows(options, "rnn", config, rows, dict.fromkeys(columns))
