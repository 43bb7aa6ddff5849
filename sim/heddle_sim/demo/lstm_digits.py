"""Trains an LSTM that reads handwritten digits row by row, quantises it and runs the test split on the device.

Each image is a task of 8 steps of 8 pixels; tasks take turns in the contexts of the engine. A dense layer in the same step makes the
logits from every hidden vector; those of the last step count. So nothing but pixels goes to the device, and nothing but logits comes back.
Everything is compared, bit for bit, with the functional simulator.
"""

import argparse
import sys
import time
from dataclasses import dataclass

import numpy as np
from heddle import ConfigError, load_config
from heddle.config import Config
from heddle.errors import HeddleError

from ..device import Device, Stats
from ..progress import BarProgress, Progress
from ..rnn.network import Network, Sequence
from ..rnn.quantise import quantise_layer
from ..rnn.reference import run_float
from .images import SEED, digit_images, require_scikit_learn
from .lstm_training import Classifier, train_classifier

__all__ = ["Digits", "Result", "classify", "main", "recurrent_network", "train"]

HIDDEN, EPOCHS = 48, 60
CALIBRATION = 200           # images that the ranges of the vectors are taken from
ACCURACY_LOSS = 0.005       # what quantisation may cost


@dataclass(frozen=True)
class Digits:
    """A trained network and images that it has not seen: [count, 8 rows, 8 pixels], values 0 to 1."""

    classifier: Classifier
    network: Network
    test_images: np.ndarray
    test_labels: np.ndarray
    train_count: int

    @property
    def float_accuracy(self) -> float:
        return self.classifier.accuracy(self.test_images, self.test_labels)


@dataclass(frozen=True)
class Result:
    """Logits of the device [count, 10], values compared with the functional simulator, first difference ("" without any), ``Stats``."""

    logits: np.ndarray
    compared: int
    difference: str
    stats: Stats


def recurrent_network(classifier: Classifier, images: np.ndarray) -> Network:
    """``Network`` of an LSTM "lstm" and a dense layer "logits", quantised for images [count, steps, inputs]."""
    lstm, dense = classifier.layers()
    first = quantise_layer(lstm, [(image, None, None) for image in images])
    hidden = [(run_float(lstm, image)[0], None, None) for image in images]
    second = quantise_layer(dense, hidden, fractions={"x0": first.fractions["h"]})
    network = Network()
    network.add_input("rows", first.widths[0], first.fractions["x0"], first.limits["x0"])
    network.add("lstm", first, ["rows"])
    network.step.outputs.append(network.add("logits", second, ["lstm.h"]))
    return network


def train(hidden: int = HIDDEN, epochs: int = EPOCHS, progress: Progress | None = None) -> Digits:
    """Some seconds, the same every time."""
    images = digit_images()
    classifier = train_classifier(images.train, images.train_labels, hidden, epochs, SEED, progress)
    network = recurrent_network(classifier, images.train[:CALIBRATION])
    return Digits(classifier, network, images.test, images.test_labels, len(images.train))


def classify(device: Device, golden: Device | None, network: Network, images: np.ndarray) -> Result:
    """Runs images on the device, and on ``golden``, a device of the functional simulator (None: not compared); returns ``Result``."""
    sequences = [Sequence(network, image) for image in images]
    results, stats = device.run_tasks(sequences)
    logits = np.stack([result.outputs["logits.h"] for result in results])
    compared, difference = 0, ""
    if golden:
        expected = np.stack([result.outputs["logits.h"] for result in golden.run_tasks(sequences)[0]])
        compared = expected.size
        if not np.array_equal(logits, expected):
            image, step, output = np.argwhere(logits != expected)[0]
            difference = f"image {image}, step {step}, output {output}: {logits[image, step, output]}, not {expected[image, step, output]}"
    return Result(logits[:, -1], compared, difference, stats)


def _report(digits: Digits, count: int | None, result: Result, simulator: str, cfg: Config) -> tuple[list[str], float, float]:
    """The figures as text, and the accuracies of float and of the device."""
    images, labels, hidden = digits.test_images[:count], digits.test_labels[:count], digits.classifier.hidden
    expected = digits.classifier.accuracy(images, labels)
    accuracy = float(np.mean(result.logits.argmax(axis=1) == labels))
    steps, stats = images.shape[1], result.stats
    lines = [
        f"network    {steps} steps of {images.shape[2]} pixels - LSTM {hidden} - dense 10, {digits.train_count:,} images to train, "
        f"{len(labels):,} others to test",
        f"device     {cfg.name}: {cfg.threads} threads x {cfg.dot} multipliers, {cfg.rnn_contexts} contexts, simulator {simulator}",
        f"accuracy   float {100 * expected:.2f} %, 8-bit weights on the device {100 * accuracy:.2f} %",
    ]
    if simulator != "golden":
        lines.append(f"checked    {result.compared:,} logits against the functional simulator: "
                     + ("all equal" if not result.difference else f"DIFFERENT at {result.difference}"))
    if stats.cycles is not None:
        engine = stats.counters["rnn_steps"] + stats.counters["rnn_waits"]
        lines += [
            f"cycles     {stats.cycles:,} in total, {stats.cycles / len(labels):,.1f} per image, "
            f"utilization {100 * (stats.utilization or 0):.1f} %",
            f"engine     {engine / len(labels) / steps:.1f} cycles per step, utilization "
            f"{100 * stats.macs / (engine * stats.peak_macs_per_cycle):.1f} %; the others load weights and images and store logits",
        ]
    return lines, expected, accuracy


def _options(arguments: list[str] | None) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default="base", metavar="NAME|FILE", help="configuration, which gets rnn (default base)")
    parser.add_argument("--simulator", default="verilator", choices=("verilator", "golden"), help="default verilator")
    parser.add_argument("--images", type=int, metavar="N", help="only the first N images of the test split (default all)")
    options = parser.parse_args(arguments)
    if options.images is not None and options.images < 1:
        parser.error(f"--images must be at least 1, not {options.images}")
    return parser, options


def main(arguments: list[str] | None = None) -> int:
    """Command line of the demo; returns the exit code: 0 done, 1 a difference or a lost accuracy, 2 wrong use."""
    parser, options = _options(arguments)
    started = time.perf_counter()
    try:
        cfg = load_config(options.config).replace(rnn=True)
        require_scikit_learn()
        with BarProgress() as progress:
            progress.stage("train", EPOCHS)
            digits = train(progress=progress)
            golden = None if options.simulator == "golden" else Device(cfg, "golden")
            with Device(cfg, options.simulator, progress=progress) as device:
                progress.stage(f"classify on {cfg.name}")
                running = time.perf_counter()
                result = classify(device, golden, digits.network, digits.test_images[:options.images])
                seconds = time.perf_counter() - running
    except ConfigError as error:
        parser.error(str(error))
    except (HeddleError, RuntimeError, ValueError) as error:
        print(f"lstm_digits: error: {error}", file=sys.stderr)
        return 1
    lines, expected, accuracy = _report(digits, options.images, result, options.simulator, cfg)
    lines += ["", f"wall time  {time.perf_counter() - started:.1f} s in total, {seconds:.1f} s of it running the network"]
    print("\n".join(lines))
    if result.difference or accuracy < expected - ACCURACY_LOSS:
        print("lstm_digits: error: the device and the functional simulator disagree" if result.difference
              else f"lstm_digits: error: quantisation must not cost more than {100 * ACCURACY_LOSS:g} % of accuracy", file=sys.stderr)
        return 1
    return 0
