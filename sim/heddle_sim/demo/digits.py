"""Trains a small network on handwritten digits, quantises it and runs the whole test split on the device.

The layers run wholly on the device: 8-bit activations in, 8-bit activations out, logits at the end. Each of these numbers is compared,
bit for bit, with a golden model in integers.
"""

import argparse
import sys
import time
import warnings
from dataclasses import dataclass

import numpy as np
from heddle import ConfigError, load_config
from heddle.config import Config
from heddle.errors import HeddleError

from ..device import Device, Stats
from ..progress import BarProgress, Progress
from .images import SEED, digit_images, require_scikit_learn
from .quantised import QuantisedNetwork, quantise

__all__ = ["Digits", "Result", "classify", "main", "train"]

HIDDEN = (128, 64)
ACCURACY_LOSS = 0.02  # what quantisation may cost


@dataclass(frozen=True)
class Digits:
    """Real images of digits (values 0 to 1) with a network trained on one part of them."""

    network: QuantisedNetwork
    test_images: np.ndarray
    test_labels: np.ndarray
    train_count: int
    float_accuracy: float


@dataclass(frozen=True)
class Result:
    """Logits of the device, number of values compared, first difference ("" without any), ``Stats`` per layer."""

    logits: np.ndarray
    compared: int
    difference: str
    stats: list[Stats]


def train() -> Digits:
    """A few seconds, the same every time."""
    images = digit_images()
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    train_images, test_images = (part.reshape(len(part), -1) for part in (images.train, images.test))
    classifier = MLPClassifier(HIDDEN, max_iter=60, random_state=SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of passes is what we choose, not a failure
        classifier.fit(train_images, images.train_labels)
    network = quantise(classifier.coefs_, classifier.intercepts_, train_images)
    accuracy = classifier.score(test_images, images.test_labels)
    return Digits(network, test_images, images.test_labels, len(train_images), accuracy)


def classify(device: Device, network: QuantisedNetwork, images: np.ndarray, progress: Progress | None = None) -> Result:
    """Runs images through the device, layer by layer, all at once; returns ``Result``."""
    values = network.inputs(images)
    expected = network.activations(values)
    compared, difference, stats = 0, "", []
    for number, (layer, golden) in enumerate(zip(network.layers, expected, strict=True), 1):
        values, figures = device.linear(values, layer.weights, layer.bias, layer.requantise)
        stats.append(figures)
        compared += golden.size
        if not np.array_equal(values, golden) and not difference:
            image, output = np.argwhere(values != golden)[0]
            difference = (
                f"layer {number}, image {image}, output {output}: {values[image, output]}, not {golden[image, output]}"
            )
        if progress is not None:
            progress.step()
    return Result(values, compared, difference, stats)


def _report(digits: Digits, result: Result, simulator: str, cfg: Config) -> tuple[list[str], float]:
    """The figures as text."""
    count = len(digits.test_labels)
    accuracy = np.mean(result.logits.argmax(axis=1) == digits.test_labels)
    sizes = [digits.network.layers[0].weights.shape[0], *(layer.weights.shape[1] for layer in digits.network.layers)]
    lines = [
        f"network    {' - '.join(map(str, sizes))}, {digits.train_count:,} images to train, {count:,} others to test",
        f"device     {cfg.name}: {cfg.threads} threads x {cfg.dot} multipliers, simulator {simulator}",
        f"accuracy   float {100 * digits.float_accuracy:.2f} %, int8 on the device {100 * accuracy:.2f} %",
        f"checked    {result.compared:,} activations and logits against the integer model: "
        + ("all equal" if not result.difference else f"DIFFERENT at {result.difference}"),
    ]
    total = sum(result.stats[1:], result.stats[0])
    if total.cycles is None:
        return lines, accuracy
    lines += [
        f"cycles     {total.cycles:,} in total, {total.cycles / count:,.1f} per image, "
        f"utilization {100 * (total.utilization or 0):.1f} %",
        "",
        f"{'layer':<10}{'m':>7}{'n':>7}{'k':>7}{'cycles':>12}{'utilization':>14}",
    ]
    for number, (layer, stats) in enumerate(zip(digits.network.layers, result.stats, strict=True), 1):
        k, n = layer.weights.shape
        lines.append(f"{number:<10}{count:>7}{n:>7}{k:>7}{stats.cycles:>12,}{100 * (stats.utilization or 0):>12.1f} %")
    lines += ["", f"{'breakdown':<14}{'cycles':>12}{'share':>10}"]
    lines += [
        f"{name:<14}{cycles:>12,}{100 * cycles / total.cycles:>8.1f} %" for name, cycles in total.breakdown.items()
    ]
    return lines, accuracy


def main(arguments: list[str] | None = None) -> int:
    """Command line of the demo; returns the exit code: 0 done, 1 a difference or a lost accuracy, 2 wrong use."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default="base", metavar="NAME|FILE", help="configuration (default base)")
    parser.add_argument("--simulator", default="verilator", choices=("verilator", "golden"), help="default verilator")
    options = parser.parse_args(arguments)
    started = time.perf_counter()
    try:
        cfg = load_config(options.config)
        require_scikit_learn()
        with BarProgress() as progress:
            progress.stage("train and quantise")
            digits = train()
            progress.step()
            with Device(cfg, options.simulator, progress=progress) as device:
                progress.stage(f"classify on {cfg.name}", len(digits.network.layers))
                running = time.perf_counter()
                result = classify(device, digits.network, digits.test_images, progress)
                seconds = time.perf_counter() - running
    except ConfigError as error:
        parser.error(str(error))
    except (HeddleError, RuntimeError) as error:
        print(f"digits: error: {error}", file=sys.stderr)
        return 1
    lines, accuracy = _report(digits, result, options.simulator, cfg)
    lines += [
        "",
        f"wall time  {time.perf_counter() - started:.1f} s in total, {seconds:.1f} s of it running the network",
    ]
    print("\n".join(lines))
    if result.difference or accuracy < digits.float_accuracy - ACCURACY_LOSS:
        print(
            "digits: error: the device and the model disagree"
            if result.difference
            else f"digits: error: quantisation must not cost more than {100 * ACCURACY_LOSS:.0f} % of accuracy",
            file=sys.stderr,
        )
        return 1
    return 0
