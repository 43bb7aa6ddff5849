"""DeepBench's recurrent layers beside published figures: by the cycle model of the engine at the multiplier counts of the peers, on the
hardware where a configuration holds the weights [S3.8]."""

from ..peers import BEST_UTILIZATION, DEEPBENCH_PEERS
from ..rnn.model import EngineModel
from ..rnn.plan import LATENCY, evaluate, sweep_cycles
from ..rnn.shapes import ModelConfig, shaped_step
from ..rnn.timing import task_cycles
from .bench_rnn import CELLS, layer_row
from .common import print_rows

__all__ = ["COUNTS", "best_design", "deepbench_rows", "holds_layers", "print_deepbench"]

COUNTS = tuple(1 << exponent for exponent in range(6, 17))      # multipliers, where a layer is compared with the best utilization published
_FORMS = {"lstm": ("lstm",), "gru": ("gru", "gru_linear")}
_LARGEST_EP = 4096
_TRIED = 20                 # designs with the fewest cycles by formula that the cycle model decides between
_PACE_STEPS = 8, 16


def deepbench_rows(device=None, golden=None, seed=0):
    """Rows of all layers (both forms of a GRU), each with the figure that it is compared with, and whether it is ``above``.

    First by the cycle model with as many multipliers as each peer has. Then with the largest power of two of multipliers with which the
    products of the hidden vector take at least as long as a step waits for it (Ch >= L), beside the best utilization published for any
    batch; that is compared with ``step_utilization``, of a step among others, as one layer has a single step.
    ``device``: a device on which layers that its configuration holds are run, results compared with those of ``golden``.
    """
    rows = []
    for peer in DEEPBENCH_PEERS:
        for cell in _FORMS[peer["cell"]]:
            rows.append(_row(peer, cell, best_design(cell, peer["hidden"], peer["multipliers"]), peer))
    for peer in DEEPBENCH_PEERS:
        for cell in _FORMS[peer["cell"]]:
            rows.append(_row(peer, cell, _largest(cell, peer["hidden"]), BEST_UTILIZATION, "step_utilization"))
    if device:
        for peer in DEEPBENCH_PEERS:
            for cell in _FORMS[peer["cell"]]:
                rows += _measured(device, golden, peer, cell, seed)
    return rows


def holds_layers(cfg):
    """Whether the factor registers are large enough for one of the layers."""
    return any(_held(cfg, peer, cell) for peer in DEEPBENCH_PEERS for cell in _FORMS[peer["cell"]])


def _held(cfg, peer, cell):
    return peer["steps"] > 1 and CELLS[cell][1] * 2 * peer["hidden"] ** 2 <= cfg.threads * cfg.dot * cfg.factor_words


def _measured(device, golden, peer, cell, seed):
    """A row of the hardware with all steps of the layer, or none."""
    hidden = peer["hidden"]
    if not _held(device.cfg, peer, cell):
        return []
    row = layer_row(device, golden, cell, hidden, hidden, 1, seed, steps=peer["steps"])
    if row["simulator"] == "cycle model":
        return []
    names = {"suite": "deepbench", "layer": f"{cell}_{hidden}x{row['steps']}"}
    return [names | row | _compared(BEST_UTILIZATION, row["utilization"] if row["utilization"] is not None else 0.0)]


def _compared(peer, utilization):
    return {"peer": peer["peer"], "peer_utilization": peer["utilization"], "peer_source": peer["source"],
            "above": utilization > peer["utilization"]}


def _largest(cell, hidden):
    """The best design with the largest of ``COUNTS`` with which Ch >= L. Input comes 16 bytes a cycle, or 32 where it is waited for."""
    for count in reversed(COUNTS):
        for load in (1, 2):
            design = best_design(cell, hidden, count, load)
            if design["pace"] == design["tile_cycles"]:
                break
        if design["hidden_cycles"] >= design["latency"]:
            return design
    return design


def _row(layer, cell, design, peer, compared="utilization"):
    """A row of the cycle model, with all steps of the layer."""
    hidden, steps, model = layer["hidden"], layer["steps"], design["model"]
    macs = CELLS[cell][1] * 2 * hidden * hidden
    cycles = task_cycles(model.cfg, [(model, steps)], 1)
    peak = design["multipliers"]
    row = {"suite": "deepbench", "layer": f"{cell}_{hidden}x{steps}", "cell": cell, "hidden": hidden, "inputs": hidden, "threads": 1,
           "steps": steps, "ep": design["ep"], "vp": design["vp"], "tail_lanes": model.cfg.tail_lanes, "simulator": "cycle model",
           "load_bytes": model.cfg.load_bytes, "cycles": cycles, "cycles_per_step": design["pace"], "latency": design["latency"],
           "hidden_cycles": design["hidden_cycles"], "macs": macs * steps, "peak_macs_per_cycle": peak,
           "utilization": macs * steps / (peak * cycles), "step_utilization": macs / (peak * design["pace"]),
           "tile_efficiency": design["tile_efficiency"], "checked": False}
    return row | _compared(peer, row[compared])


def best_design(cell, hidden, multipliers, load=1):
    """The design with the fewest cycles a step: a dictionary. ``load``: words of 16 bytes of input that come in a cycle, 1 in the
    hardware."""
    step, tried = shaped_step(cell, hidden, hidden), []
    for ep, vp, tail in _designs(cell, hidden, multipliers, sum(len(job.operations) for job in step.jobs)):
        cfg = ModelConfig(name="model", threads=vp, dot=ep, thread_slots=tail, rnn=True, load_bytes=16 * load)
        tried.append((evaluate(CELLS[cell][1], hidden, hidden, multipliers, ep, vp), cfg))
    best = None
    for formula, cfg in sorted(tried, key=lambda pair: (pair[0].cycles, pair[1].tail_lanes))[:_TRIED]:
        try:
            model = EngineModel(cfg, step)
        except ValueError:      # more blocks of rows than a sweep has
            continue
        few, many = (task_cycles(cfg, [(model, steps)], 1) for steps in _PACE_STEPS)
        pace = (many - few) / (_PACE_STEPS[1] - _PACE_STEPS[0])
        if best is None or pace < best["pace"]:
            hidden_cycles = sweep_cycles(CELLS[cell][1], hidden, hidden, cfg.dot, cfg.threads)[1]
            latency = (1 + (cell == "gru")) * (LATENCY + (cfg.dot - 1).bit_length())
            best = {"pace": pace, "model": model, "multipliers": multipliers, "ep": cfg.dot, "vp": cfg.threads, "latency": latency,
                    "hidden_cycles": hidden_cycles, "tile_cycles": formula.tile_cycles,
                    "tile_efficiency": formula.tile_efficiency}
        if best["pace"] <= formula.cycles:      # the others take no fewer
            break
    return best


def _designs(cell, hidden, multipliers, operations):
    """(EP, VP, lanes of the tail): the tail takes the operations of a step in Cx + Ch cycles, or is two or four times as wide."""
    rows, ep = CELLS[cell][1] * hidden, 1
    while ep <= min(_LARGEST_EP, multipliers // 8):
        lanes = multipliers // ep
        cycles = 2 * -(-rows // lanes) * -(-hidden // ep)
        rate = _power(-(-operations * hidden // cycles))
        for tail in sorted({min(rate * factor, _power(hidden)) for factor in (1, 2, 4)}):
            groups = CELLS[cell][1] * -(-hidden // tail)
            if lanes >= tail:
                blocks = -(-groups // (lanes // tail))
                yield ep, -(-groups // blocks) * tail, tail
        ep *= 2


def _power(value):
    """The next power of two."""
    return 1 << (value - 1).bit_length()


def print_deepbench(options, config, rows):
    columns = ["layer", "simulator", "peak_macs_per_cycle", "ep", "vp", "tail_lanes", "cycles_per_step", "cycles", "utilization",
               "step_utilization", "peer", "peer_utilization", "above", "checked"]
    print_rows(options, "rnn", config, rows, dict.fromkeys(columns) | {"peak_macs_per_cycle": "multipliers"})
