"""Prunes a small network for handwritten digits, and fine-tunes it with forward and backward passes on the device.

Weights, inputs and gradients are int8 in every product of the device; the host scales its int32 results, adds biases and makes the steps.
Beside it the same network is fine-tuned on the host in floats.
"""

from __future__ import annotations

import argparse
import sys
from copy import deepcopy
from dataclasses import dataclass

from heddle import ConfigError, load_config
from heddle.errors import HeddleError

from ..device import Device
from ..progress import BarProgress, Progress
from .images import SEED, digit_images, require_scikit_learn
from .sparse_training import Device8, Float, Network

__all__ = ["ACCURACY_LOSS", "Outcome", "fine_tune", "main"]

SIZES, SPARSITY = (64, 64, 10), 0.8
DENSE_EPOCHS, BATCH = 40, 128
ACCURACY_LOSS = 0.005       # that the device may have less than the host


@dataclass(frozen=True)
class Outcome:
    """Accuracy on the test split: of the dense network, after pruning, fine-tuned on the host and on the device.

    ``non_zeros``: of ``weights`` weights. ``products`` on the device, and their multiply-accumulates.
    """

    dense: float
    pruned: float
    host: float
    device: float
    non_zeros: int
    weights: int
    products: int
    macs: int


def fine_tune(device: Device, epochs: int, progress: Progress | None = None) -> Outcome:
    """Trains, prunes, and fine-tunes both ways; the same every time."""
    images = digit_images()
    train, test = (part.reshape(len(part), -1).T for part in (images.train, images.test))
    host, engine = Float(), Device8(device)
    network = Network.drawn(SIZES, SEED)
    network.train(host, train, images.train_labels, DENSE_EPOCHS, BATCH, SEED)
    dense = network.accuracy(host, test, images.test_labels)
    start = network.pruned(SPARSITY)
    found = {"pruned": start.accuracy(host, test, images.test_labels)}
    for name, products in (("host", host), ("device", engine)):
        tuned = deepcopy(start)
        for epoch in range(epochs):
            tuned.train(products, train, images.train_labels, 1, BATCH, SEED + epoch)
            if progress is not None and name == "device":
                progress.step()
        found[name] = tuned.accuracy(products, test, images.test_labels)
    masks = start.masks
    return Outcome(dense, **found, non_zeros=sum(int(mask.sum()) for mask in masks), weights=sum(mask.size for mask in masks),
                   products=engine.products, macs=engine.macs)


def main(arguments: list[str] | None = None) -> int:
    """Command line of the demo; returns the exit code: 0 done, 1 a lost accuracy or an error, 2 wrong use."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default="base", metavar="NAME|FILE", help="configuration (default base)")
    parser.add_argument("--simulator", default="golden", choices=("golden", "verilator"), help="default golden")
    parser.add_argument("--epochs", type=int, default=10, help="passes of fine-tuning (default 10)")
    options = parser.parse_args(arguments)
    if options.epochs < 1:
        parser.error(f"--epochs must be at least 1, not {options.epochs}")
    try:
        cfg = load_config(options.config)
        require_scikit_learn()
        with BarProgress() as progress, Device(cfg, options.simulator, progress=progress) as device:
            progress.stage(f"fine-tune on {cfg.name}", options.epochs)
            outcome = fine_tune(device, options.epochs, progress)
    except ConfigError as error:
        parser.error(str(error))
    except (HeddleError, RuntimeError) as error:
        print(f"sparse_digits: error: {error}", file=sys.stderr)
        return 1
    print("\n".join(_report(outcome, cfg.name, options)))
    if outcome.device < outcome.host - ACCURACY_LOSS:
        print(f"sparse_digits: error: int8 on the device must not cost more than {100 * ACCURACY_LOSS:g} points of accuracy",
              file=sys.stderr)
        return 1
    return 0


def _report(outcome: Outcome, name: str, options: argparse.Namespace) -> list[str]:
    share = 100 * (1 - outcome.non_zeros / outcome.weights)
    return [
        f"network    {' - '.join(map(str, SIZES))}, {outcome.non_zeros:,} of {outcome.weights:,} weights left ({share:.1f} % zeros)",
        f"device     {name}, simulator {options.simulator}: {outcome.products:,} products, {outcome.macs:,} multiply-accumulates",
        f"accuracy   dense {100 * outcome.dense:.2f} %, pruned {100 * outcome.pruned:.2f} %, fine-tuned {options.epochs} epochs: "
        f"host {100 * outcome.host:.2f} %, device {100 * outcome.device:.2f} %",
    ]
