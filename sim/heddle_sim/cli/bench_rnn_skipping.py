"""Elements that are zero or hardly changed: cycles of a step with all of them and without those, beside how many there are."""

from __future__ import annotations

import argparse
import importlib
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from heddle import load_config
from heddle.errors import UsageError

from ..rnn.network import Network
from .bench_rnn import CELLS, drawn_network, measured
from .common import CommandFailed, print_rows, variant_name

if TYPE_CHECKING:
    from ..device.device import Device

__all__ = ["CHANGE", "ZEROS", "print_skipping", "skipping_row", "slow_rows", "suite_rows"]

CHANGE = 0.02               # of a random walk from step to step, of its range
ZEROS = 0.9                 # of the inputs
STEPS = 40                  # of the longer run
# Looked up by name when asked for: it needs the test benches, which build on this package.
MODULE = "heddle_verif.stimulus.skipping_networks"


def slow_rows(rng: np.random.Generator, steps: int, inputs: int, change: float = CHANGE) -> np.ndarray:
    """A random walk within -1 to 1, [steps, inputs]: elements differ from the step before by normal numbers of deviation ``change``."""
    walk = rng.uniform(-1, 1, inputs) + np.cumsum(rng.normal(0, change, (steps, inputs)), axis=0)
    return np.abs((walk + 1) % 4 - 2) - 1


def skipping_row(device: Device, golden: Device, cell: str, hidden: int, inputs: int, threads: int, seed: int, *, cat: int | None = None,
                 threshold: float | None = None, skip_zeros: bool = False) -> dict[str, Any]:
    """A benchmark row: a layer with all elements (``dense_cycles_per_step``) and with those left out that ``skip_zeros`` and ``threshold``
    allow (``cycles_per_step``).

    With a threshold the inputs are a random walk whose steps are ``CHANGE`` of its range, else normal numbers; with ``skip_zeros`` a share
    ``ZEROS`` of them is zero. ``elements`` a step are read by the sweeps, ``multiplied`` of them have an effect. ``lanes`` is the part of
    the dense steps of the lanes that is left, ``error`` the largest difference of an output. A column is ``dot / cat`` elements, so that
    ``cat`` is the largest that fits unless given. Results are compared with those of ``golden``.
    """
    cfg = device.cfg
    what = f"cell={cell} hidden={hidden} threads={threads} threshold={threshold} seed={seed}"
    network = next((drawn for choice in ([cat] if cat else [4, 2, 1]) if choice <= cfg.dot
                    if (drawn := drawn_network(cfg, np.random.default_rng(seed), cell, hidden, inputs, choice, threads))), None)
    if network is None:
        raise UsageError(f"--hidden must be of layers that fit configuration {cfg.name}, not {hidden} with {inputs} inputs")
    layer, cat = network.layers["y"], cast(int, network.cats)
    skipping = Network.of_quantised(layer, cats=cat, skip_zeros=skip_zeros, threshold=threshold)
    rng = np.random.default_rng([seed, hidden])
    rows = [slow_rows(rng, STEPS, inputs) if threshold is not None else rng.standard_normal((STEPS, inputs)) / 3 for _ in range(threads)]
    if skip_zeros:
        rows = [values * (rng.random(values.shape) >= ZEROS) for values in rows]
    dense, found = (measured(device, golden, each, rows, what) for each in (network, skipping))
    error = max(np.abs(one.outputs["y.h"] - other.outputs["y.h"]).max() for one, other in zip(dense["results"], found["results"]))
    if threshold is None and error:
        raise CommandFailed(f"results must not change when columns of zeros are left out, but do by {error:g} ({what}); please report it")
    row = {"suite": "layer", "layer": f"{cell}_{hidden}", "cell": cell, "hidden": hidden, "inputs": inputs, "threads": threads,
           "multipliers": cfg.threads * cfg.dot, "ep": cfg.dot // cat, "vp": cfg.threads * cat, "steps": STEPS, "seed": seed,
           "simulator": device.simulator, "threshold": threshold, "skip_zeros": skip_zeros, "elements": found["elements"],
           "multiplied": found["multiplied"], "multiplied_part": found["multiplied"] / found["elements"],
           "ideal_cycles_per_step": CELLS[cell][1] * hidden * (inputs + hidden) / (cfg.threads * cfg.dot),
           "dense_cycles_per_step": dense["pace"], "cycles_per_step": found["pace"], "lanes_part": None, "cycles_part": None,
           "error": float(error), "checked": True}
    if found["pace"] is not None:
        row |= {"lanes_part": found["lanes"] / dense["lanes"], "cycles_part": found["pace"] / dense["pace"]}
    return row


def suite_rows(seed: int) -> tuple[str, list[dict[str, Any]]]:
    """Two layers of 16 units and 8 inputs on 8 multipliers, the engine and two lanes of its RTL in Verilator (``MODULE``).

    Name of the configuration, and the rows.
    """
    try:
        module = importlib.import_module(MODULE)
    except ModuleNotFoundError as error:
        raise CommandFailed(f"--suite skipping needs the test packages ({error.name} is missing); run make setup") from None
    try:
        return variant_name(module.ENGINE, load_config("tiny")), module.measure(seed=seed)
    except AssertionError as error:
        raise CommandFailed(str(error)) from None


def print_skipping(options: argparse.Namespace, config: str, rows: list[dict[str, Any]]) -> None:
    columns = ["layer", "multipliers", "threads", "threshold", "skip_zeros", "simulator", "elements", "multiplied", "multiplied_part",
               "lanes_part", "ideal_cycles_per_step", "dense_cycles_per_step", "cycles_per_step", "cycles_part", "error", "checked"]
    names = {"ideal_cycles_per_step": "ideal", "dense_cycles_per_step": "dense", "cycles_per_step": "cycles"}
    print_rows(options, "rnn", config, rows, {name: names.get(name) for name in columns})
