"""Recurrent layers on a device: cycles of a step beside what the multipliers allow, and DeepBench beside published figures."""

import numpy as np

from ..peers import DEEPBENCH_PEERS
from ..rnn.network import Network, Sequence
from ..rnn.plan import LATENCY, evaluate, step_cycles, sweep_cycles
from ..rnn.reference import GATES, FloatLayer
from .common import CommandFailed, UsageError, print_rows

__all__ = ["CELLS", "compare_results", "deepbench_rows", "drawn_network", "print_rnn", "rnn_row"]

# Cells: kind of layer, gates that are multiplied, activations, linear_before_reset.
CELLS = {
    "lstm": ("lstm", 4, ("Sigmoid", "Tanh", "Tanh"), False),
    "gru": ("gru", 3, ("Sigmoid", "Tanh"), False),
    "gru_linear": ("gru", 3, ("Sigmoid", "Tanh"), True),
    "rnn": ("rnn", 1, ("Tanh",), False),
}
MOST_STEPS = 48             # of the longer run
SHARE = 0.8                 # of shared memory for rows of input and output


def rnn_row(device, golden, cell, hidden, inputs, threads, seed, *, cat=None, zeros=0.0, steps=None):
    """A benchmark row: a layer with random weights for ``threads`` sequences that take turns, once for half the steps and once for all.

    ``cycles`` are those of the longer run, from the image in global memory to the outputs there; ``cycles_per_step`` is the difference of
    the engine's own counters between both runs, for a step of one sequence. ``tile_efficiency`` is what the shape leaves of the multipliers
    when nothing stalls, ``of_tile_efficiency`` how much of that was reached; ``row_wise_cycles_per_step`` what a step would take if the
    whole hidden vector were waited for. Raises ``CommandFailed`` when a result differs from that of ``golden``, a device of the
    functional simulator (None: nothing is compared).
    """
    cfg = device.cfg
    gates = CELLS[cell][1]
    rng = np.random.default_rng(seed)
    network = drawn_network(cfg, rng, cell, hidden, inputs, cat)
    room = int(SHARE * cfg.shared_bytes) // (threads * 2 * (inputs + hidden + 16))
    longer = (steps or min(MOST_STEPS, room)) // 2 * 2
    if longer < 2:
        raise UsageError(f"--hidden and --threads must leave room for two steps in shared memory, not {hidden} with {threads} threads")
    figures = []
    for count in (longer // 2, longer):
        rows = [rng.standard_normal((count, inputs)) * (rng.random((count, inputs)) >= zeros) / 3 for _ in range(threads)]
        sequences = [Sequence(network, values) for values in rows]
        results, stats = device.run_tasks(sequences, threads)
        if golden:
            compare_results(results, golden.run_tasks(sequences, threads)[0], f"cell={cell} hidden={hidden} threads={threads} seed={seed}")
        figures.append(stats)
    cats = network.model(cfg).cats
    ep = cfg.dot // cats["y"]
    cx, ch = sweep_cycles(gates, hidden, inputs, ep, cfg.threads * cats["y"])
    macs = network.step.macs()
    row = {"cell": cell, "hidden": hidden, "inputs": inputs, "threads": threads, "steps": longer, "ep": ep, "vp": cfg.threads * cats["y"],
           "seed": seed, "simulator": device.simulator} | stats.as_row()
    peak = cfg.threads * cfg.dot
    row |= {"peak_macs_per_cycle": peak, "utilization": None, "cycles_per_step": None, "step_utilization": None,
            "tile_efficiency": macs / (peak * (cx + ch)), "of_tile_efficiency": None,
            "row_wise_cycles_per_step": step_cycles(cx, ch, LATENCY + (ep - 1).bit_length(), threads, "rows")}
    if stats.cycles is not None:
        engine = [sum(part.counters[name] for name in ("rnn_steps", "rnn_waits")) for part in figures]
        pace = (engine[1] - engine[0]) / (longer - longer // 2) / threads
        row |= {"utilization": stats.macs / (stats.cycles * peak), "cycles_per_step": pace, "step_utilization": macs / (peak * pace),
                "of_tile_efficiency": (cx + ch) / pace}
    return row | {"checked": golden is not None}


def drawn_network(cfg, rng, cell, hidden, inputs, cat):
    """A layer as frameworks initialise it; without biases where they leave no room for the weights."""
    kind, _, activations, linear = CELLS[cell]
    gates = len(GATES[kind])

    def uniform(*shape):
        return rng.uniform(-1, 1, shape) / np.sqrt(hidden)

    weights, recurrent, biases = uniform(gates, hidden, inputs), uniform(gates, hidden, hidden), uniform(2, gates, hidden)
    full = gates * hidden * (inputs + hidden) > 0.9 * cfg.threads * cfg.dot * cfg.factor_words
    layer = FloatLayer(kind, weights, recurrent, *(biases * (not full)), activations, linear_before_reset=linear)
    return Network.of_layer(layer, cats=cat)


def compare_results(results, expected, what):
    """Raises ``CommandFailed`` where an output of a ``SequenceResult`` is not that of another; ``what`` says of which run."""
    for index, (result, wanted) in enumerate(zip(results, expected, strict=True)):
        for name, values in wanted.outputs.items():
            if not np.array_equal(values, result.outputs[name]):
                step, element = np.argwhere(values != result.outputs[name])[0]
                raise CommandFailed(f"element {element} of step {step} of sequence {index} must be {values[step, element]}, not "
                                    f"{result.outputs[name][step, element]} ({what}); please report it")


def deepbench_rows():
    """Rows of DeepBench at the multiplier counts of published accelerators, from the cycle model, beside their figures (batch 1)."""
    rows = []
    for peer in DEEPBENCH_PEERS:
        gates = CELLS[peer["cell"]][1]
        best = _best(gates, peer["hidden"], peer["multipliers"])
        rows.append({"suite": "deepbench", "layer": f"{peer['cell']}_{peer['hidden']}x{peer['steps']}", "cell": peer["cell"],
                     "hidden": peer["hidden"], "inputs": peer["hidden"], "threads": 1, "steps": peer["steps"], "ep": best.ep, "vp": best.vp,
                     "simulator": "cycle model", "cycles": round(best.cycles * peer["steps"]), "cycles_per_step": best.cycles,
                     "macs": gates * peer["hidden"] * 2 * peer["hidden"] * peer["steps"], "peak_macs_per_cycle": peer["multipliers"],
                     "utilization": best.utilization, "tile_efficiency": best.tile_efficiency, "peer": peer["peer"],
                     "peer_utilization": peer["utilization"], "peer_source": peer["source"], "checked": False})
    return rows


def _best(gates, hidden, multipliers):
    """The plan with the fewest cycles among all (EP, VP) with EP a power of two and VP any number of rows, as large as it may be."""
    plans, ep = [], 1
    while ep <= multipliers:
        most = min(multipliers // ep, gates * hidden)
        blocks = -(-gates * hidden // most)
        plans.append(evaluate(gates, hidden, hidden, multipliers, ep, -(-gates * hidden // blocks)))
        ep *= 2
    return min(plans, key=lambda found: (found.cycles, found.ep))


def print_rnn(options, config, rows):
    columns = ["cell", "hidden", "inputs", "threads", "ep", "vp", "steps", "cycles", "cycles_per_step", "row_wise_cycles_per_step",
               "tile_efficiency", "of_tile_efficiency", "utilization"]
    if options.suite:
        columns = ["layer", "simulator", "ep", "vp", "cycles_per_step", "cycles", "utilization", "peer", "peer_utilization"]
    print_rows(options, "rnn", config, rows, dict.fromkeys([*columns, "checked"]))
