"""Multi-layer perceptrons in integers: quantisation after training, and the golden model.

Weights are ``int8``, activations ``uint8``, accumulators ``int32``. Between layers an accumulator becomes an activation
by an integer multiplication, a rounding shift and a clamp (``heddle_sim.golden.requantise``); ReLU is the lower end of the clamp.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from heddle.errors import UsageError

from ..golden.requantise import MAX_SHIFT, Requantise

__all__ = ["QuantisedLayer", "QuantisedNetwork", "quantise"]

INPUT_SCALE = 1 / 255  # real value of one step of an input; inputs lie in 0 to 1
MULTIPLIER_BITS = 30


@dataclass(frozen=True)
class QuantisedLayer:
    """``weights`` int8 (inputs, outputs), ``bias`` int32 (outputs), and what becomes of the accumulators.

    The last layer has no requantisation: its accumulators are the logits.
    """

    weights: np.ndarray
    bias: np.ndarray
    requantise: Requantise | None = None

    def finish(self, sums: np.ndarray) -> np.ndarray:
        """What follows the matrix product: bias, then the next layer's ``uint8`` activations, or ``int32`` logits."""
        accumulators = sums + self.bias
        return self.requantise.apply(accumulators) if self.requantise else accumulators


@dataclass(frozen=True)
class QuantisedNetwork:
    """Layers in order."""

    layers: tuple[QuantisedLayer, ...]

    @staticmethod
    def inputs(images: np.ndarray) -> np.ndarray:
        """``uint8`` activations of images with values from 0 to 1."""
        return np.clip(np.floor(images / INPUT_SCALE + 0.5), 0, 255).astype(np.uint8)

    def activations(self, inputs: np.ndarray) -> list[np.ndarray]:
        """Golden model: outputs of every layer, in integers only; the last one are the logits."""
        results = []
        for layer in self.layers:
            sums = (inputs.astype(np.int64) @ layer.weights.astype(np.int64)).astype(np.int32)
            inputs = layer.finish(sums)
            results.append(inputs)
        return results


def _multiplier(factor: float) -> tuple[int, int]:
    """Integers whose ``multiplier / 2**shift`` is nearest to a real factor below 1; at most ``2**MULTIPLIER_BITS``."""
    if not 0 < factor < 1:
        raise UsageError(f"factor between layers must be above 0 and below 1, not {factor}")
    shift = MULTIPLIER_BITS
    while shift < MAX_SHIFT and factor * 2 ** (shift + 1) < (1 << MULTIPLIER_BITS) - 1:
        shift += 1
    return int(round(factor * 2**shift)), shift


def quantise(weights: Sequence[np.ndarray], biases: Sequence[np.ndarray], calibration: np.ndarray) -> QuantisedNetwork:
    """Quantise a trained network with ReLU between its layers.

    Parameters
    ----------
    weights, biases : lists of float arrays
        (inputs, outputs) and (outputs) of each layer.
    calibration : float array (images, inputs)
        Typical inputs, from 0 to 1: they set the range of each layer's activations.

    Returns ``QuantisedNetwork``.
    """
    layers, scale, values = [], INPUT_SCALE, calibration
    for index, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        weight_scale = np.abs(weight).max() / 127
        integers = np.clip(np.rint(weight / weight_scale), -127, 127).astype(np.int8)
        sum_scale = scale * weight_scale
        integer_bias = np.rint(bias / sum_scale).astype(np.int32)
        if index == len(weights) - 1:
            layers.append(QuantisedLayer(integers, integer_bias))
            break
        values = np.maximum(values @ weight + bias, 0)
        scale = np.percentile(values, 99.95) / 255
        requantise = Requantise(*_multiplier(sum_scale / scale), relu=True, dtype=np.uint8)
        layers.append(QuantisedLayer(integers, integer_bias, requantise))
    return QuantisedNetwork(tuple(layers))
